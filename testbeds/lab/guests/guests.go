//go:build linux

// Package guests boots a lab of virtual machines on this one: two hosts with soft-RoCE and a dumper, each of which runs
// the agent of the Debian package, and a switch that is a process here. They share a management network with this
// machine, over mutual TLS, and a cable each with the switch, and nothing else. Whoever has no lab can walk
// docs/guide/lab.md with it (make lab-guests); the tests of the lab run on it.
package guests

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"time"

	"candela.dev/candela/agent"
	"candela.dev/candela/injector/softswitch"
	"candela.dev/candela/injector/transport"
	"candela.dev/candela/injector/transport/pki"
	agentpb "candela.dev/candela/proto/agent/v1"
)

// Names of the machines with agents. The switch's ports are in this order.
const (
	Requester = "requester"
	Responder = "responder"
	Dumper    = "dumper-1"
	Switch    = "switch" // a process of this machine
)

// Names lists the machines with agents by port of the switch.
var Names = []string{Requester, Responder, Dumper}

// DataAddress is the address of a machine's applications on its interface eth0.
func DataAddress(name string) string {
	return fmt.Sprintf("192.168.50.%d", slices.Index(Names, name)+1)
}

// BootTime bounds the boot. On an idle machine it takes 20 s of emulation.
const BootTime = 5 * time.Minute

// Limits of what ends by itself.
const (
	askEvery = 200 * time.Millisecond
	endTime  = 5 * time.Second
)

// Config says what to boot.
type Config struct {
	Image string // directory of tools/lab-image: kernel, initramfs, candela
	Dir   string // of keys, logs, consoles and sockets; short: a path of a socket has 107 bytes
}

// Lab is a lab of virtual machines that are up.
type Lab struct {
	Files  transport.Files // certificate of the orchestrator
	Agents map[string]string

	Switch string // address of the switch
	// Program is the candela that the machines run.
	Program string

	cfg       Config
	files     map[string]transport.Files // of the machines and the switch
	shells    map[string]string          // TCP address of a root shell on each machine
	processes map[string]*process
}

// Up boots the machines and returns when their agents answer. The caller closes the lab.
func Up(ctx context.Context, cfg Config) (_ *Lab, err error) {
	l := &Lab{cfg: cfg, Agents: map[string]string{}, shells: map[string]string{}, files: map[string]transport.Files{},
		processes: map[string]*process{},
		Program:   filepath.Join(cfg.Image, "candela")}
	defer func() {
		if err != nil {
			err = errors.Join(err, l.Close())
		}
	}()
	authority, err := pki.Create(filepath.Join(cfg.Dir, "pki"), "lab", time.Now)
	if err != nil {
		return nil, err
	}
	issue := func(name string, role transport.Role) (err error) {
		l.files[name], err = authority.Issue(name, role, []string{"127.0.0.1"})
		return err
	}
	err = errors.Join(issue("nightly", transport.Orchestrator), issue(Switch, transport.Switch))
	for _, name := range Names {
		err = errors.Join(err, issue(name, transport.Agent))
	}
	if err != nil {
		return nil, err
	}
	l.Files = l.files["nightly"]
	if l.Switch, err = freeAddress(); err != nil {
		return nil, err
	}
	for _, name := range Names {
		if l.Agents[name], err = freeAddress(); err != nil {
			return nil, err
		}
		if l.shells[name], err = freeAddress(); err != nil {
			return nil, err
		}
	}
	return l, l.Start(ctx, append([]string{Switch}, Names...)...)
}

// Start starts machines that do not run, or the switch, and returns when their agents answer.
func (l *Lab) Start(ctx context.Context, names ...string) error {
	for _, name := range names {
		err := l.Kill(name)
		if name == Switch {
			err = errors.Join(err, l.startSwitch())
		} else {
			err = errors.Join(err, l.start(slices.Index(Names, name), name))
		}
		if err != nil {
			return err
		}
	}
	ctx, cancel := context.WithTimeout(ctx, BootTime)
	defer cancel()
	for _, name := range names {
		if name == Switch {
			continue // runs tell
		}
		if err := l.await(ctx, name); err != nil {
			return err
		}
		if err := l.setClock(ctx, name); err != nil {
			return err
		}
	}
	return nil
}

// Close ends all machines and the switch.
func (l *Lab) Close() error {
	var failed []error
	for _, name := range append([]string{Switch}, Names...) {
		failed = append(failed, l.Kill(name))
	}
	return errors.Join(failed...)
}

// Kill ends a machine, as a loss of power would, or the switch.
func (l *Lab) Kill(name string) error {
	p := l.processes[name]
	if p == nil {
		return nil
	}
	delete(l.processes, name)
	return p.kill()
}

// freeAddress is a TCP address of this machine that is free now.
func freeAddress() (string, error) {
	lis, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return "", err
	}
	return lis.Addr().String(), lis.Close()
}

func (l *Lab) path(name string) string { return filepath.Join(l.cfg.Dir, name) }

func (l *Lab) spawn(name, program string, args ...string) (err error) {
	l.processes[name], err = launch(l.path(name+".log"), program, args...)
	return err
}

func (l *Lab) startSwitch() error {
	f := l.files[Switch]
	return l.spawn(Switch, l.Program, "switchd", "--datapath", "qemu", "--ports", l.path(Requester)+","+l.path(Responder),
		"--mirror", l.path(Dumper), "--listen", l.Switch, "--cert", f.Cert, "--key", f.Key, "--ca", f.CA, "--crl", f.CRL)
}

// start boots a machine. Its settings are those of an administrator: /etc/candela of the package.
func (l *Lab) start(i int, name string) error {
	initrd := l.path(name + ".initrd")
	if err := l.install(initrd, l.files[name]); err != nil {
		return err
	}
	return l.spawn(name, "nice", "-n", "5", "qemu-system-x86_64", "-accel", "tcg,tb-size=96",
		"-cpu", "max", // has RDRAND: without it the kernel of a fresh guest has no randomness for TLS for minutes
		"-M", "q35", "-m", "512", "-nodefaults", "-no-user-config", "-display", "none", "-no-reboot", "-name", name,
		"-kernel", filepath.Join(l.cfg.Image, "kernel"), "-initrd", initrd,
		"-append", "console=ttyS0 loglevel=4 panic=-1 clocksource=hpet tsc=unstable net.ifnames=0 random.trust_cpu=on "+
			fmt.Sprintf("hostname=%s data_address=%s", name, DataAddress(name)),
		"-serial", "file:"+l.path(name+".console"),
		"-netdev", "dgram,id=data,local.type=unix,local.path="+l.path(name)+softswitch.PeerSocket+
			",remote.type=unix,remote.path="+l.path(name)+softswitch.SwitchSocket,
		"-device", fmt.Sprintf("virtio-net-pci,netdev=data,romfile=,mac=52:54:00:ca:de:%02x", i+1),
		"-netdev", "user,id=management,restrict=on,hostfwd=tcp:"+l.Agents[name]+"-10.0.2.15:9560,hostfwd=tcp:"+
			l.shells[name]+"-10.0.2.15:23",
		"-device", "virtio-net-pci,netdev=management,romfile=")
}

// install writes the initramfs of a machine: the image, and what its administrator adds.
func (l *Lab) install(initrd string, f transport.Files) (err error) {
	root, err := os.MkdirTemp(l.cfg.Dir, "root-")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(root)) }()
	etc := filepath.Join(root, "etc/candela")
	if err := os.MkdirAll(etc, 0o755); err != nil {
		return err
	}
	for from, to := range map[string]string{f.Cert: "agent.pem", f.Key: "agent.key", f.CA: "ca.pem",
		f.CRL: "revoked.crl"} {
		text, err := os.ReadFile(from)
		if err == nil {
			err = os.WriteFile(filepath.Join(etc, to), text, 0o600)
		}
		if err != nil {
			return err
		}
	}
	args := `CANDELA_AGENT_ARGS="--interface eth0 --listen 10.0.2.15:9560 --cert /etc/candela/agent.pem ` +
		`--key /etc/candela/agent.key --ca /etc/candela/ca.pem --crl /etc/candela/revoked.crl"` + "\n"
	if err := os.WriteFile(filepath.Join(etc, "agent.env"), []byte(args), 0o600); err != nil {
		return err
	}
	return withArchive(filepath.Join(l.cfg.Image, "initramfs"), root, initrd)
}

// withArchive writes an initramfs, followed by an archive of root.
func withArchive(initramfs, root, result string) (err error) {
	out, err := os.Create(result)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, out.Close()) }()
	in, err := os.Open(initramfs)
	if err != nil {
		return err
	}
	defer in.Close()
	if _, err := io.Copy(out, in); err != nil {
		return err
	}
	cmd := exec.Command("/bin/sh", "-c", "find . | cpio --quiet -o -H newc -R 0:0")
	cmd.Dir, cmd.Stdout = root, out
	return cmd.Run()
}

// Console returns the end of what a machine has said.
func (l *Lab) Console(name string) string {
	text, err := os.ReadFile(l.path(name + ".console"))
	if err != nil {
		return err.Error()
	}
	return string(text[max(0, len(text)-3000):])
}

// await waits until the agent of a machine answers.
func (l *Lab) await(ctx context.Context, name string) error {
	files := l.Files
	files.ServerRole = transport.Agent
	conn, err := transport.Dial(l.Agents[name], &files)
	if err != nil {
		return err
	}
	defer conn.Close()
	for {
		call, cancel := context.WithTimeout(ctx, agent.CallTimeout)
		_, err = agentpb.NewAgentClient(conn).Describe(call, &agentpb.DescribeRequest{})
		cancel()
		if err == nil {
			return nil
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("%s does not serve: %w; its console ends with:\n%s", name, err, l.Console(name))
		case <-l.processes[name].ended:
			return fmt.Errorf("%s has ended: see %s; its console ends with:\n%s", name, l.path(name+".log"), l.Console(name))
		case <-time.After(askEvery):
		}
	}
}
