package vm

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"time"

	"candela.dev/candela/generator/verbs"
	"candela.dev/candela/injector/softswitch"
)

type guest struct {
	name     string
	dir      string
	process  *process
	client   *verbs.Client
	booted   time.Duration // from start to the agent's first answer
	restored bool          // from a snapshot
	hung     bool          // it stopped answering and was given up
	kvm      bool
	first    verbs.Hello
	firstAt  time.Time
}

func (g *guest) file(ending string) string { return filepath.Join(g.dir, g.name+ending) }
func (g *guest) console() string           { return g.file(".console") }
func (g *guest) control() string           { return g.file(".control") }
func (g *guest) monitor() string           { return g.file(".monitor") }

// path returns the path prefix of the sockets of the guest's NIC and its switch port.
func (g *guest) path() string { return g.file("") }

// arguments returns QEMU's arguments. The machine has an HPET, because time from an emulated TSC can run away. A
// snapshot needs the same arguments, except for paths.
func (g *guest) arguments(c *Config, accelerator, snapshot string) []string {
	args := []string{
		"-accel", accelerator + translation(accelerator),
		"-M", "q35", "-m", strconv.Itoa(c.Memory), "-nodefaults", "-no-user-config", "-display", "none", "-no-reboot",
		"-name", g.name, "-kernel", filepath.Join(c.Image, "kernel"), "-initrd", filepath.Join(c.Image, "initramfs"),
		"-append", "console=ttyS0 loglevel=4 panic=-1 clocksource=hpet tsc=unstable",
		"-chardev", "file,id=console,append=on,path=" + g.console(), "-serial", "chardev:console",
		"-device", "virtio-serial-pci",
		"-chardev", "socket,id=control,path=" + g.control() + ",server=on,wait=off",
		"-device", "virtserialport,chardev=control,name=candela.control",
		"-qmp", "unix:" + g.monitor() + ",server=on,wait=off",
		"-netdev", "dgram,id=nic,local.type=unix,local.path=" + g.path() + softswitch.PeerSocket +
			",remote.type=unix,remote.path=" + g.path() + softswitch.SwitchSocket,
		"-device", "virtio-net-pci,netdev=nic,romfile=",
	}
	if snapshot != "" {
		args = append(args, "-incoming", "exec:cat "+quoted(snapshot))
	}
	return args
}

// translation bounds the memory for translated code of an emulated guest; by default it grows to 1 GiB.
func translation(accelerator string) string {
	if accelerator != acceleratorTCG {
		return ""
	}
	return ",tb-size=96" // MiB
}

func quoted(path string) string { return "'" + strings.ReplaceAll(path, "'", `'\''`) + "'" }

// start boots or restores the guest, at a lower priority than the switch so that it does not delay stamps.
func (g *guest) start(c *Config, accelerator, snapshot string) (err error) {
	for _, old := range []string{g.control(), g.monitor(), g.path() + softswitch.PeerSocket, g.console()} {
		if err := os.Remove(old); err != nil && !errors.Is(err, os.ErrNotExist) {
			return err
		}
	}
	if snapshot != "" {
		// The console of a restored guest starts with its output before the snapshot.
		said, err := os.ReadFile(snapshot + consoleEnding)
		if err == nil {
			err = os.WriteFile(g.console(), said, 0o600)
		}
		if err != nil {
			return err
		}
	}
	g.restored, g.kvm = snapshot != "", accelerator == acceleratorKVM
	args := append([]string{"-n", "10", c.QEMU}, g.arguments(c, accelerator, snapshot)...)
	if g.process, err = launch(g.file(".qemu"), !c.Detach, "nice", args...); err != nil {
		return fmt.Errorf("guest %s: %w", g.name, err)
	}
	return nil
}

// errSilent reports that a guest printed nothing.
var errSilent = errors.New("its console stayed empty")

// connect waits until the guest's agent answers. If silence is not 0 and the console is still empty after it, the error
// is errSilent.
func (g *guest) connect(ctx context.Context, patience, silence time.Duration) error {
	begin := time.Now()
	ctx, cancel := context.WithTimeoutCause(ctx, patience, fmt.Errorf("no answer of its agent within %v", patience))
	defer cancel()
	if silence > 0 {
		watched, stop := context.WithCancelCause(ctx)
		defer stop(nil)
		timer := time.AfterFunc(silence, func() {
			if info, err := os.Stat(g.console()); err == nil && info.Size() == 0 {
				stop(errSilent)
			}
		})
		defer timer.Stop()
		ctx = watched
	}
	if err := g.dial(ctx); err != nil {
		return g.blame(err)
	}
	// patience bounds the call: the guest boots meanwhile
	if err := g.client.Call(ctx, verbs.OpHello, nil, &g.first); err != nil {
		return g.blame(err)
	}
	g.firstAt, g.booted = time.Now(), time.Since(begin)
	if g.first.Schema != verbs.Schema {
		return fmt.Errorf("guest %s: its agent speaks %q, want %s: make vm-image", g.name, g.first.Schema, verbs.Schema)
	}
	return nil
}

// dial connects to the control port, which appears shortly after the start.
func (g *guest) dial(ctx context.Context) error {
	for {
		conn, err := (&net.Dialer{}).DialContext(ctx, "unix", g.control())
		if err == nil {
			g.client = verbs.NewClient(conn)
			return nil
		}
		select {
		case <-ctx.Done():
			return errors.Join(context.Cause(ctx), err)
		case <-g.process.ended:
			return err
		case <-time.After(20 * time.Millisecond):
		}
	}
}

// call calls the agent. If the guest ends, the connection breaks; if it hangs, the call is given up.
func (g *guest) call(ctx context.Context, op string, params, result any) error {
	ctx, cancel := context.WithCancelCause(ctx)
	var overseer sync.WaitGroup
	defer overseer.Wait()
	defer cancel(nil)
	overseer.Go(func() { g.oversee(ctx, cancel) })
	if err := g.client.Call(ctx, op, params, result); err != nil {
		g.hung = g.hung || errors.Is(context.Cause(ctx), errHung)
		return g.blame(err)
	}
	return nil
}

// errHung reports that a guest was given up. Its agent normally answers in milliseconds, on a busy machine in one or
// two seconds.
var errHung = errors.New("it does not answer")

// answerTime bounds an answer, and stoppedTime how long a guest may be stopped by a signal meanwhile. Both exclude
// times when this process was stopped.
const (
	overseeEvery = 500 * time.Millisecond
	answerTime   = 30 * time.Second
	stoppedTime  = 5 * time.Second
)

// oversee cancels a call that takes too long. It counts its own ticks, so that time in which this process was stopped
// does not count against the guest.
func (g *guest) oversee(ctx context.Context, giveUp context.CancelCauseFunc) {
	tick := time.NewTicker(overseeEvery)
	defer tick.Stop()
	for waited, stopped := time.Duration(0), time.Duration(0); ; {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		waited += overseeEvery
		if stopped += overseeEvery; !g.process.stopped() {
			stopped = 0
		}
		switch {
		case stopped >= stoppedTime:
			giveUp(fmt.Errorf("%w: process %d is stopped by a signal", errHung, g.process.ID))
			return
		case waited >= answerTime:
			giveUp(fmt.Errorf("%w for %v", errHung, answerTime))
			return
		}
	}
}

// consoleLines is how much of a dead guest's console an error shows.
const consoleLines = 15

// blame adds the guest's state and last console lines to an error of its agent.
func (g *guest) blame(err error) error {
	state := "runs"
	select {
	case <-g.process.ended:
		state = fmt.Sprintf("has ended: %v", g.process.failure)
		if text := tail(g.file(".qemu"), 3); text != "" {
			state += ": " + text
		}
	case <-time.After(200 * time.Millisecond): // the connection breaks shortly before the process ends
	}
	return fmt.Errorf("guest %s %s: %w\n%s", g.name, state, err, g.lastWords())
}

func (g *guest) lastWords() string {
	return fmt.Sprintf("the end of the console of guest %s:\n%s", g.name, tail(g.console(), consoleLines))
}

// clockRatio returns the speed of the guest's clock since boot, relative to this machine's.
func (g *guest) clockRatio(ctx context.Context) (float64, error) {
	if wait := time.Until(g.firstAt.Add(minClockSpan)); wait > 0 {
		select {
		case <-ctx.Done():
			return 0, context.Cause(ctx)
		case <-time.After(wait):
		}
	}
	var now verbs.Hello
	if err := g.call(ctx, verbs.OpHello, nil, &now); err != nil {
		return 0, err
	}
	return float64(now.MonotonicNS-g.first.MonotonicNS) / float64(time.Since(g.firstAt)), nil
}

const minClockSpan = 300 * time.Millisecond

// disconnect closes the agent's connection and leaves the guest running.
func (g *guest) disconnect() {
	if g.client != nil {
		_ = g.client.Close()
		g.client = nil
	}
}

func (g *guest) close() error {
	g.disconnect()
	if g.process == nil {
		return nil
	}
	return g.process.kill()
}
