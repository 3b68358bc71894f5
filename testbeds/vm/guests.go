package vm

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"golang.org/x/sync/errgroup"

	"candela.dev/candela/injector/softswitch"
	"candela.dev/candela/testbeds"
)

// Guests are the running virtual machines of a testbed. They serve one test at a time.
type Guests struct {
	cfg    Config
	image  image
	dir    string
	guests [2]*guest // nil on the side of a model

	// For a testbed that an earlier command started.
	attached bool
	sw       *process
	lock     *os.File
	watched  *watches // processes of that command
}

func names() [2]string {
	return [2]string{testbeds.Requester: "requester", testbeds.Responder: "responder"}
}

// Up boots the guests, or restores them from a snapshot, and waits until they answer. They end with Close or with this
// process. With Config.Detach they stay, with a switch of their own, until [Down].
func Up(ctx context.Context, cfg Config) (_ *Guests, err error) {
	found, err := cfg.setDefaults()
	if err != nil {
		return nil, err
	}
	g := &Guests{cfg: cfg, image: found, watched: newWatches()}
	if g.dir, err = cfg.directory(); err != nil {
		return nil, fmt.Errorf("testbed %s: %w", cfg.Name, err)
	}
	defer func() {
		if err != nil {
			err = errors.Join(fmt.Errorf("boot guests: %w", err), g.end())
		}
	}()
	for side, name := range names() {
		if !cfg.Models[side] {
			g.guests[side] = &guest{name: name, dir: g.dir}
		}
	}
	if cfg.Detach {
		if err := g.startSwitch(ctx); err != nil {
			return nil, err
		}
	}
	return g, g.boot(ctx)
}

// restoreTime bounds the time until a restored guest answers; half a second is normal.
const restoreTime = 15 * time.Second

// kvmSilence is how long a guest under KVM may print nothing. A kernel prints within a second, but some machines have a
// /dev/kvm that runs nothing.
const kvmSilence = 5 * time.Second

// boot tries the fastest way first: a snapshot, then a fresh boot, with hardware virtualisation if it works.
func (g *Guests) boot(ctx context.Context) error {
	accelerator, silence := acceleratorTCG, time.Duration(0)
	if g.cfg.kvm() {
		accelerator, silence = acceleratorKVM, kvmSilence
	}
	snapshot := g.cfg.snapshot(&g.image, accelerator)
	if restorable(snapshot) {
		if g.try(ctx, accelerator, snapshot, restoreTime, 0) == nil {
			return nil
		}
		if err := g.endGuests(); err != nil {
			return err
		}
		_ = os.Remove(snapshot) // replaced by the new one, if any
	}
	err := g.try(ctx, accelerator, "", g.cfg.BootTimeout, silence)
	if errors.Is(err, errSilent) {
		g.cfg.forgoKVM()
		if err := g.endGuests(); err != nil {
			return err
		}
		snapshot = g.cfg.snapshot(&g.image, acceleratorTCG)
		if restorable(snapshot) {
			return g.boot(ctx)
		}
		err = g.try(ctx, acceleratorTCG, "", g.cfg.BootTimeout, 0)
	}
	if err == nil && snapshot != "" {
		// Saving may fail for lack of space; the next run then boots again.
		_ = g.one().save(ctx, snapshot)
	}
	return err
}

// one returns any guest: right after boot they are all alike.
func (g *Guests) one() *guest {
	for _, one := range g.guests {
		if one != nil {
			return one
		}
	}
	return nil
}

func (g *Guests) try(ctx context.Context, accelerator, snapshot string, patience, silence time.Duration) error {
	group, ctx := errgroup.WithContext(ctx)
	for _, one := range g.guests {
		if one == nil {
			continue
		}
		err := one.start(&g.cfg, accelerator, snapshot)
		if err == nil && g.cfg.Detach {
			err = g.save() // from here on Down finds it
		}
		if err != nil {
			return errors.Join(err, group.Wait())
		}
		group.Go(func() error { return one.connect(ctx, patience, silence) })
	}
	return group.Wait()
}

// Dead names the machines and the switch that have ended or hang.
func (g *Guests) Dead() (list []string) {
	for _, one := range g.guests {
		if one != nil && (one.process.dead() || one.hung) {
			list = append(list, "guest "+one.name)
		}
	}
	if g.sw != nil && g.sw.dead() {
		list = append(list, "the switch")
	}
	return list
}

func (g *Guests) lastWords() (text string) {
	for _, one := range g.guests {
		if one != nil {
			text += "\n" + one.lastWords()
		}
	}
	return text
}

// Processes returns the guests' process ids.
func (g *Guests) Processes() (ids []int) {
	for _, one := range g.guests {
		if one != nil {
			ids = append(ids, one.process.ID)
		}
	}
	return ids
}

// SwitchProcess returns the process id of the switch; 0: it runs in this process.
func (g *Guests) SwitchProcess() int {
	if g.sw == nil {
		return 0
	}
	return g.sw.ID
}

// ResidentKiB returns the resident memory of each guest on this machine, in KiB.
func (g *Guests) ResidentKiB() (list []int) {
	for _, one := range g.guests {
		if one != nil {
			list = append(list, one.process.residentKiB())
		}
	}
	return list
}

// Attached reports whether an earlier command started the guests; then they stay.
func (g *Guests) Attached() bool { return g.attached }

// Dir returns the directory of consoles and logs.
func (g *Guests) Dir() string { return g.dir }

// Restored reports whether the guests were restored from a snapshot instead of booted.
func (g *Guests) Restored() bool { return g.one().restored }

// Kernel returns the kernel release of the guests.
func (g *Guests) Kernel() string { return g.one().first.Kernel }

// Close ends the guests, unless they are to stay.
func (g *Guests) Close() error {
	if !g.cfg.Detach && !g.attached {
		return g.end()
	}
	for _, one := range g.guests {
		if one != nil {
			one.disconnect()
		}
	}
	g.watched.end()
	if g.lock != nil {
		return g.lock.Close() // also releases the lock
	}
	return nil
}

func (g *Guests) endGuests() error {
	var failed []error
	for _, one := range g.guests {
		if one != nil {
			failed = append(failed, one.close())
		}
	}
	return errors.Join(failed...)
}

func (g *Guests) end() error {
	failed := []error{g.endGuests()}
	if g.sw != nil {
		failed = append(failed, g.sw.kill())
	}
	return errors.Join(append(failed, os.RemoveAll(g.dir))...)
}

// dumperPath returns the path prefix of a dumper's sockets.
func (g *Guests) dumperPath(name string) string { return filepath.Join(g.dir, "d."+name) }

// modelPath returns the path prefix of a model's sockets.
func (g *Guests) modelPath(side int) string { return filepath.Join(g.dir, names()[side]) }

func (g *Guests) switchSocket() string { return filepath.Join(g.dir, "switch.sock") }

// portPaths returns the path prefixes of the switch's host ports.
func (g *Guests) portPaths() []string {
	return []string{g.modelPath(testbeds.Requester), g.modelPath(testbeds.Responder)}
}

func (g *Guests) startSwitch(ctx context.Context) (err error) {
	var mirrors []string
	for _, name := range g.cfg.Dumpers {
		mirrors = append(mirrors, g.dumperPath(name))
	}
	ports := g.portPaths()
	g.sw, err = launch(filepath.Join(g.dir, "switch.log"), false, g.cfg.Executable, "switchd", "--datapath",
		softswitch.QEMU,
		"--ports", ports[0]+","+ports[1], "--mirror", join(mirrors), "--listen", "unix:"+g.switchSocket())
	if err != nil {
		return fmt.Errorf("switch: %w", err)
	}
	for deadline := time.Now().Add(switchTime); ; {
		if _, err := os.Stat(g.switchSocket()); err == nil {
			return nil
		}
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-g.sw.ended:
			return g.blameSwitch(errors.New("it ended at once"))
		case <-time.After(5 * time.Millisecond):
		}
		if time.Now().After(deadline) {
			return g.blameSwitch(fmt.Errorf("it doesn't listen after %v", switchTime))
		}
	}
}

const switchTime = 20 * time.Second

func (g *Guests) blameSwitch(err error) error {
	return fmt.Errorf("switch: %w; the end of its log:\n%s", err, tail(filepath.Join(g.dir, "switch.log"), 3))
}
