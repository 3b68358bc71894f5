//go:build linux

package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
	"testing"
	"time"

	"candela.dev/candela/agent"
	"candela.dev/candela/generator"
	"candela.dev/candela/injector/softswitch"
	"candela.dev/candela/injector/transport"
	"candela.dev/candela/injector/transport/pki"
	"candela.dev/candela/orchestrator"
	agentpb "candela.dev/candela/proto/agent/v1"
)

// A guestLab is a lab whose machines are virtual: a requester and a responder with soft-RoCE and a dumper, which run
// the agent of the Debian package. They share a management network with this process, over mutual TLS, and a cable each
// with the switch of this machine, and nothing else.
type guestLab struct {
	dir    string // of keys, logs and consoles
	guests map[string]*exec.Cmd
	pem    transport.Files // of the orchestrator
	agents map[string]string
	sw     string
}

// guestNames are the machines with agents; the switch's ports are in this order.
var guestNames = []string{"requester", "responder", "dumper-1"}

// guestsPatience bounds the boot: on an idle machine it takes half a minute of emulation.
const guestsPatience = 5 * time.Minute

// needGuests skips unless a lab of guests is requested and possible on this machine, and returns the image.
func needGuests(t *testing.T) string {
	t.Helper()
	if os.Getenv("CANDELA_TEST_LAB_GUESTS") == "" {
		t.Skip("SKIP-slow: guests take a while to boot; make test-lab-guests runs it")
	}
	for _, tool := range []string{"qemu-system-x86_64", "cpio"} {
		if _, err := exec.LookPath(tool); err != nil {
			t.Skipf("SKIP-qemu: %s is not installed (tools/setup --vm)", tool)
		}
	}
	image, err := filepath.Abs("../../.cache/vm/lab")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(filepath.Join(image, "initramfs")); err != nil {
		t.Skipf("SKIP-image: %v (tools/lab-image makes it)", err)
	}
	return image
}

// upGuests boots the machines and waits until their agents answer.
func upGuests(t *testing.T) *guestLab {
	t.Helper()
	image := needGuests(t)
	l := &guestLab{dir: shortDir(t), guests: map[string]*exec.Cmd{}, agents: map[string]string{}}
	a, err := pki.Create(filepath.Join(l.dir, "pki"), "lab", time.Now)
	if err != nil {
		t.Fatal(err)
	}
	issue := func(name string, role transport.Role) transport.Files {
		t.Helper()
		f, err := a.Issue(name, role, []string{"127.0.0.1"})
		if err != nil {
			t.Fatal(err)
		}
		return f
	}
	l.pem = issue("nightly", transport.Orchestrator)
	l.startSwitch(t, issue("switch-1", transport.Switch))
	start := time.Now()
	for i, name := range guestNames {
		l.start(t, image, i, name, issue(name, transport.Agent))
	}
	for _, name := range guestNames {
		l.await(t, name)
	}
	t.Logf("FIGURE %d guests serve after %v, cold", len(guestNames), time.Since(start).Round(time.Second))
	return l
}

// freeAddress is a TCP address of this machine that is free now.
func freeAddress(t *testing.T) string {
	t.Helper()
	lis, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer lis.Close()
	return lis.Addr().String()
}

// spawn starts a process that ends with the test, and with this process, with its output in a file.
func (l *guestLab) spawn(t *testing.T, log, name string, args ...string) *exec.Cmd {
	t.Helper()
	out, err := os.Create(filepath.Join(l.dir, log))
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(name, args...)
	cmd.Stdout, cmd.Stderr = out, out
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true, Pdeathsig: syscall.SIGKILL}
	started, ended := make(chan error), make(chan struct{})
	go func() { // the kernel ends the process with the thread that started it, which therefore stays
		runtime.LockOSThread()
		err := cmd.Start()
		started <- err
		if err == nil {
			_ = cmd.Wait()
		}
		out.Close()
		close(ended)
	}()
	if err := <-started; err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = cmd.Process.Kill(); <-ended })
	return cmd
}

func (l *guestLab) port(name string) string { return filepath.Join(l.dir, name) }

func (l *guestLab) startSwitch(t *testing.T, f transport.Files) {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	l.sw = freeAddress(t)
	l.spawn(t, "switch.log", self, "switchd", "--datapath", "qemu", "--ports", l.port("requester")+","+l.port("responder"),
		"--mirror", l.port("dumper-1"), "--listen", l.sw, "--cert", f.Cert, "--key", f.Key, "--ca", f.CA, "--crl", f.CRL)
}

// start boots a machine. Its settings are those of an administrator: /etc/candela of the package.
func (l *guestLab) start(t *testing.T, image string, i int, name string, f transport.Files) {
	t.Helper()
	l.agents[name] = freeAddress(t)
	root := t.TempDir()
	etc := filepath.Join(root, "etc/candela")
	if err := os.MkdirAll(etc, 0o755); err != nil {
		t.Fatal(err)
	}
	for from, to := range map[string]string{f.Cert: "agent.pem", f.Key: "agent.key", f.CA: "ca.pem",
		f.CRL: "revoked.crl"} {
		text, err := os.ReadFile(from)
		if err == nil {
			err = os.WriteFile(filepath.Join(etc, to), text, 0o600)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	args := `CANDELA_AGENT_ARGS="--interface eth0 --listen 10.0.2.15:9560 --cert /etc/candela/agent.pem ` +
		`--key /etc/candela/agent.key --ca /etc/candela/ca.pem --crl /etc/candela/revoked.crl"` + "\n"
	if err := os.WriteFile(filepath.Join(etc, "agent.env"), []byte(args), 0o600); err != nil {
		t.Fatal(err)
	}
	initrd := filepath.Join(l.dir, name+".initrd")
	if err := withArchive(filepath.Join(image, "initramfs"), root, initrd); err != nil {
		t.Fatal(err)
	}
	l.guests[name] = l.spawn(t, name+".qemu", "nice", "-n", "5", "qemu-system-x86_64", "-accel", "tcg,tb-size=96",
		"-cpu", "max", // has RDRAND: without it the kernel of a fresh guest has no randomness for TLS for minutes
		"-M", "q35", "-m", "512", "-nodefaults", "-no-user-config", "-display", "none", "-no-reboot", "-name", name,
		"-kernel", filepath.Join(image, "kernel"), "-initrd", initrd,
		"-append", "console=ttyS0 loglevel=4 panic=-1 clocksource=hpet tsc=unstable net.ifnames=0",
		"-serial", "file:"+l.port(name+".console"),
		"-netdev", "dgram,id=data,local.type=unix,local.path="+l.port(name)+softswitch.PeerSocket+
			",remote.type=unix,remote.path="+l.port(name)+softswitch.SwitchSocket,
		"-device", fmt.Sprintf("virtio-net-pci,netdev=data,romfile=,mac=52:54:00:ca:de:%02x", i+1),
		"-netdev", "user,id=management,restrict=on,hostfwd=tcp:"+l.agents[name]+"-10.0.2.15:9560",
		"-device", "virtio-net-pci,netdev=management,romfile=")
}

// withArchive writes an initramfs, followed by an archive of root.
func withArchive(initramfs, root, result string) error {
	out, err := os.Create(result)
	if err != nil {
		return err
	}
	defer out.Close()
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

// console returns the end of what a guest has said.
func (l *guestLab) console(name string) string {
	text, err := os.ReadFile(l.port(name + ".console"))
	if err != nil {
		return err.Error()
	}
	return string(text[max(0, len(text)-3000):])
}

// await waits until the agent of a machine answers.
func (l *guestLab) await(t *testing.T, name string) {
	t.Helper()
	files := l.pem
	files.ServerRole = transport.Agent
	conn, err := transport.Dial(l.agents[name], &files)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	for deadline := time.Now().Add(guestsPatience); ; time.Sleep(200 * time.Millisecond) {
		ctx, cancel := context.WithTimeout(t.Context(), agent.CallTimeout)
		_, err = agentpb.NewAgentClient(conn).Describe(ctx, &agentpb.DescribeRequest{})
		cancel()
		if err == nil {
			return
		}
		if time.Now().After(deadline) {
			t.Fatalf("%s: %v; its console ends with:\n%s", name, err, l.console(name))
		}
	}
}

// What serves the tests on a machine.
const (
	softRoCE = "rdma: {device: rxe0, software: true}"
	nicModel = "interface: eth0"
)

// describe writes the description of the lab and returns its path.
func (l *guestLab) describe(t *testing.T, requester, responder string) string {
	t.Helper()
	text := fmt.Sprintf(`name: guests
kind: lab
links: {requester: {rate-gbps: 1, propagation-delay-ns: 0}, responder: {rate-gbps: 1, propagation-delay-ns: 0}}
mirror: {snap-bytes: 0}
dumpers: [{name: dumper-1, cores: 1}]
live:
  datapath: qemu
  requester: {agent: "%s", port: 0, %s}
  responder: {agent: "%s", port: 1, %s}
  dumpers: [{agent: "%s", interface: eth0, port: 2}]
  switch: {address: "%s"}
  certificates: {cert: %s, key: %s, ca: %s, crl: %s}
`, l.agents["requester"], requester, l.agents["responder"], responder, l.agents["dumper-1"], l.sw, l.pem.Cert,
		l.pem.Key, l.pem.CA, l.pem.CRL)
	file := filepath.Join(t.TempDir(), "guests.yml")
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return file
}

// lossyGuests loses a packet of a WRITE and one of a READ.
const lossyGuests = `name: lossy
requester: {nic: {ip-list: [10.0.0.1/24]}}
responder: {nic: {ip-list: [10.0.0.2/24]}}
traffic:
  rdma-verb: VERB
  num-msgs-per-qp: 2
  mtu: 1024
  message-size: 5120
  min-retransmit-timeout: 16
  data-pkt-events: [{qpn: 1, psn: 3, type: drop, iter: 1}]
`

func TestLabOfGuests(t *testing.T) {
	l := upGuests(t)
	devices := l.describe(t, softRoCE, softRoCE)
	t.Run("it passes its check", func(t *testing.T) {
		if status, out := callCandela(t, "testbed", "check", "--lldp-wait", "0s", devices); status != orchestrator.ExitPass {
			t.Fatalf("%d: %s", status, out)
		}
	})
	for _, tt := range []struct{ name, bed, verb string }{
		{"soft-RoCE writes to soft-RoCE", devices, "write"},
		{"soft-RoCE reads from soft-RoCE", devices, "read"},
		{"soft-RoCE writes to our model", l.describe(t, softRoCE, nicModel), "write"},
		{"our model sends to soft-RoCE, and reads", l.describe(t, nicModel, softRoCE), "[send, read]"},
	} {
		t.Run(tt.name, func(t *testing.T) { l.recovers(t, tt.bed, tt.verb) })
	}
	t.Run("a device that is not as described is named", func(t *testing.T) { l.refuses(t) })
	t.Run("a host that dies is named", func(t *testing.T) { l.dies(t, devices) })
}

// recovers runs a test with a loss: the run is valid, everything arrives, and the data was compared.
func (l *guestLab) recovers(t *testing.T, bed, verb string) {
	t.Helper()
	start := time.Now()
	o := l.run(t, bed, strings.Replace(lossyGuests, "VERB", verb, 1))
	if o.Verdict.Exit == orchestrator.ExitInfrastructure || o.Verdict.Exit == orchestrator.ExitInvalid {
		t.Fatalf("%+v\n%s", o.Verdict, l.console("requester"))
	}
	t.Logf("FIGURE a run with %s takes %v: %v", verb, time.Since(start).Round(100*time.Millisecond), o.Verdict.Reasons)
	if s := o.Generator.Streams; len(s) != 1 || len(s[0].Statuses) != 1 || s[0].Statuses[0].Status != generator.Success {
		t.Errorf("streams: %+v", s)
	}
	compared := 0
	for _, d := range o.Generator.Data {
		if compared += d.Messages; d.Wrong > 0 {
			t.Errorf("%+v", d)
		}
	}
	if compared < 2 {
		t.Errorf("%d messages were compared: %+v", compared, o.Generator.Data)
	}
}

func (l *guestLab) run(t *testing.T, bed, test string) *orchestrator.Outcome {
	t.Helper()
	p := livePlan(t, test, bed)
	var live livebeds
	o, err := orchestrator.Run(t.Context(), p, live.builder(t.Context(), p.Test.Testbed), orchestrator.Options{
		Out: t.TempDir(), Wall: time.Now, NoReports: true})
	if err := errors.Join(err, live.close()); err != nil {
		t.Fatal(err)
	}
	return o
}

// refuses describes devices that the machine doesn't have.
func (l *guestLab) refuses(t *testing.T) {
	t.Helper()
	for device, want := range map[string]string{
		"rdma: {device: mlx5_0}":                                `no RDMA device "mlx5_0"; there are rxe0`,
		"rdma: {device: rxe0, software: true, port: 2}":         "RDMA device rxe0 has no port 2",
		"rdma: {device: rxe0, software: false}":                 "software: true",
		"interface: eth1, rdma: {device: rxe0, software: true}": "belongs to interface eth0, not to eth1",
		"rdma: {device: rxe0, software: true, gid-index: 99}":   "GID 99 is not in use",
	} {
		o := l.run(t, l.describe(t, device, softRoCE), strings.Replace(lossyGuests, "VERB", "write", 1))
		text := strings.Join(o.Verdict.Reasons, "\n")
		if o.Verdict.Exit != orchestrator.ExitInfrastructure || !strings.Contains(text, "requester: ") ||
			!strings.Contains(text, want) {
			t.Errorf("%s: %+v, want %q", device, o.Verdict, want)
		}
	}
}

// dies kills a machine during the traffic.
func (l *guestLab) dies(t *testing.T, bed string) {
	t.Helper()
	long := strings.NewReplacer("VERB", "write", "num-msgs-per-qp: 2", "num-msgs-per-qp: 100000").Replace(lossyGuests)
	p := livePlan(t, long, bed)
	var live livebeds
	o, err := orchestrator.Run(t.Context(), p, live.builder(t.Context(), p.Test.Testbed), orchestrator.Options{
		Out: t.TempDir(), Wall: time.Now, NoReports: true, Progress: func(step string) {
			if step == "run traffic" {
				time.AfterFunc(2*time.Second, func() { _ = l.guests["responder"].Process.Kill() })
			}
		}})
	if err := errors.Join(err, live.close()); err != nil {
		t.Fatal(err)
	}
	var text bytes.Buffer
	for _, r := range o.Verdict.Reasons {
		fmt.Fprintln(&text, r)
	}
	if o.Verdict.Exit != orchestrator.ExitInfrastructure || !strings.Contains(text.String(), "responder") {
		t.Errorf("%+v", o.Verdict)
	}
}
