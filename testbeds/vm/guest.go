package vm

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"time"

	"candela.dev/candela/generator/verbs"
)

// guest is one virtual machine.
type guest struct {
	name    string
	dir     string
	cmd     *exec.Cmd
	ended   chan struct{} // closed when QEMU has ended, for the reason in failure
	failure error
	client  *verbs.Client
	booted  time.Duration // from start to the agent's first answer
	first   verbs.Hello
	firstAt time.Time
}

func (g *guest) console() string { return filepath.Join(g.dir, g.name+".console") }
func (g *guest) control() string { return filepath.Join(g.dir, g.name+".control") }

// socket is the guest's end of its NIC, port the switch's.
func (g *guest) socket() string { return filepath.Join(g.dir, g.name+".nic") }
func (g *guest) port() string   { return filepath.Join(g.dir, g.name+".port") }

// arguments are QEMU's. The machine has an HPET: time that is taken from an emulated TSC can run away.
func (g *guest) arguments(c *Config) []string {
	accel := []string{"-accel", "tcg"}
	if c.KVM {
		accel = []string{"-accel", "kvm", "-accel", "tcg"}
	}
	return append(accel,
		"-M", "q35", "-m", strconv.Itoa(c.Memory), "-nodefaults", "-no-user-config", "-display", "none", "-no-reboot",
		"-name", g.name, "-kernel", filepath.Join(c.Image, "kernel"), "-initrd", filepath.Join(c.Image, "initramfs"),
		"-append", "console=ttyS0 loglevel=4 panic=-1 clocksource=hpet tsc=unstable",
		"-chardev", "file,id=console,path="+g.console(), "-serial", "chardev:console",
		"-device", "virtio-serial-pci",
		"-chardev", "socket,id=control,path="+g.control()+",server=on,wait=off",
		"-device", "virtserialport,chardev=control,name=candela.control",
		"-netdev", "dgram,id=nic,local.type=unix,local.path="+g.socket()+",remote.type=unix,remote.path="+g.port(),
		"-device", "virtio-net-pci,netdev=nic,romfile=")
}

// start boots the guest, at a lower priority than the switch: it shall not delay stamps.
func (g *guest) start(c *Config) error {
	g.cmd = exec.Command("nice", append([]string{"-n", "10", c.QEMU}, g.arguments(c)...)...)
	attributes(g.cmd)
	log, err := os.Create(filepath.Join(g.dir, g.name+".qemu"))
	if err != nil {
		return err
	}
	defer log.Close()
	g.cmd.Stdout, g.cmd.Stderr = log, log
	if err := g.cmd.Start(); err != nil {
		return fmt.Errorf("guest %s: %w", g.name, err)
	}
	g.ended = make(chan struct{})
	go func() {
		g.failure = g.cmd.Wait()
		close(g.ended)
	}()
	return nil
}

// connect waits until the guest's agent answers.
func (g *guest) connect(ctx context.Context, c *Config) error {
	begin := time.Now()
	ctx, cancel := context.WithTimeoutCause(ctx, c.BootTimeout, fmt.Errorf("no answer of its agent within %v", c.BootTimeout))
	defer cancel()
	for {
		conn, err := (&net.Dialer{}).DialContext(ctx, "unix", g.control())
		if err == nil {
			g.client = verbs.NewClient(conn)
			break
		}
		select {
		case <-ctx.Done():
			return g.blame(errors.Join(context.Cause(ctx), err))
		case <-g.ended:
			return g.blame(err)
		case <-time.After(20 * time.Millisecond):
		}
	}
	if err := g.call(ctx, verbs.OpHello, nil, &g.first); err != nil {
		return err
	}
	g.firstAt, g.booted = time.Now(), time.Since(begin)
	if g.first.Schema != verbs.Schema {
		return fmt.Errorf("guest %s: its agent speaks %q, want %s: make vm-image", g.name, g.first.Schema, verbs.Schema)
	}
	return nil
}

func (g *guest) call(ctx context.Context, op string, params, result any) error {
	if err := g.client.Call(ctx, op, params, result); err != nil {
		return g.blame(err)
	}
	return nil
}

// consoleLines is how much of a dead guest's console an error shows.
const consoleLines = 15

// blame says of an error of a guest's agent what became of the guest.
func (g *guest) blame(err error) error {
	state := "runs"
	select {
	case <-g.ended:
		state = fmt.Sprintf("has ended: %v", g.failure)
		if text := tail(filepath.Join(g.dir, g.name+".qemu"), 3); text != "" {
			state += ": " + text
		}
	case <-time.After(200 * time.Millisecond): // the connection breaks a moment before the process is gone
	}
	return fmt.Errorf("guest %s %s: %w\nthe end of its console:\n%s", g.name, state, err, tail(g.console(), consoleLines))
}

// clockRatio is how fast the guest's clock has gone since it booted, beside this machine's.
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

// close ends the guest.
func (g *guest) close() {
	if g.client != nil {
		_ = g.client.Close()
	}
	if g.ended != nil {
		_ = g.cmd.Process.Kill()
		<-g.ended
	}
}
