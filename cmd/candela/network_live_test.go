//go:build linux

package main

import (
	"bytes"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/vishvananda/netlink"
	"github.com/vishvananda/netns"
	"golang.org/x/sys/unix"

	"candela.dev/candela/orchestrator"
	"candela.dev/candela/testbeds/live"
)

// machineCommand starts a machine of networkLabBed: with its own /sys, after its interfaces have been created.
const machineCommand = "machine"

// beMachine mounts /sys, waits for a byte and executes the command in args.
func beMachine(args []string) error {
	if err := unix.Mount("none", "/", "", unix.MS_REC|unix.MS_PRIVATE, ""); err != nil {
		return err
	}
	if err := unix.Mount("candela", "/sys", "sysfs", 0, ""); err != nil {
		return err
	}
	if _, err := io.ReadFull(os.Stdin, make([]byte, 1)); err != nil {
		return err
	}
	self, err := os.Executable()
	if err != nil {
		return err
	}
	return unix.Exec(self, append([]string{self}, args...), os.Environ())
}

// labMachine is a process with an agent in its own network namespace.
type labMachine struct {
	name    string
	command *exec.Cmd
	log     bytes.Buffer
	start   io.WriteCloser
}

// networkLabBed is a lab of machines that are processes in namespaces: a switch connected to hosts. It is controlled
// over mutual TLS on a management network.
type networkLabBed struct {
	tlsLab
	switchMachine *labMachine
	hosts         []*labMachine
}

// newNetworkLab creates a lab in which host i is connected to interface p(cables[i]) of the switch.
func newNetworkLab(t *testing.T, cables ...int) *networkLabBed {
	t.Helper()
	b := &networkLabBed{tlsLab: tlsLab{dir: filepath.Join(t.TempDir(), "lab")}}
	b.candela(t, "agent", "pki", "init", b.dir)
	b.candela(t, "agent", "pki", "issue", b.dir, "nightly", "--role", "orchestrator")
	b.candela(t, "agent", "pki", "issue", b.dir, "guest", "--role", "viewer")
	ports := make([]string, len(cables))
	for i := range ports {
		ports[i] = fmt.Sprintf("p%d", i)
	}
	b.switchMachine = b.machine(t, 0, "switch-1", ports)
	for i, port := range cables {
		m := b.machine(t, i+1, fmt.Sprintf("host-%d", i), []string{"eth1"})
		b.hosts = append(b.hosts, m)
		join(t, b.switchMachine, ports[port], m, "eth1")
	}
	for i, m := range append([]*labMachine{b.switchMachine}, b.hosts...) {
		if _, err := m.start.Write([]byte{1}); err != nil {
			t.Fatal(err)
		}
		waitFor(t, m, managementAddress(i))
	}
	return b
}

func managementIP(i int) string      { return fmt.Sprintf("192.168.%d.2", 100+i) }
func managementAddress(i int) string { return managementIP(i) + ":9560" }

// machine starts a process and connects it to the management network.
func (b *networkLabBed) machine(t *testing.T, i int, name string, interfaces []string) *labMachine {
	t.Helper()
	b.candela(t, "agent", "pki", "issue", b.dir, name, "--role", "agent", "--host", managementIP(i))
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	file := func(n string) string { return filepath.Join(b.dir, n) }
	m := &labMachine{name: name}
	m.command = exec.Command(self, machineCommand, "agent", "--interface", strings.Join(interfaces, ","), "--listen",
		managementAddress(i), "--dir", t.TempDir(), "--cert", file(name+".pem"), "--key", file(name+".key"), "--ca",
		file("ca.pem"), "--crl", file("revoked.crl"))
	m.command.SysProcAttr = &syscall.SysProcAttr{Cloneflags: unix.CLONE_NEWNET | unix.CLONE_NEWNS}
	m.command.Stdout, m.command.Stderr = &m.log, &m.log
	if m.start, err = m.command.StdinPipe(); err != nil {
		t.Fatal(err)
	}
	if err := m.command.Start(); err != nil {
		t.Skipf("SKIP: no namespaces: %v", err)
	}
	t.Cleanup(func() {
		_ = m.command.Process.Kill()
		_ = m.command.Wait()
		if t.Failed() {
			t.Logf("%s: %s", name, &m.log)
		}
	})
	near, far := fmt.Sprintf("m%d", i), "mgmt"
	veth(t, near, far, m.command.Process.Pid)
	setUp(t, nil, near, fmt.Sprintf("192.168.%d.1/30", 100+i))
	m.setUp(t, "lo", "")
	m.setUp(t, far, managementIP(i)+"/30")
	return m
}

// veth creates a pair whose far end is in the namespace of a process.
func veth(t *testing.T, near, far string, pid int) {
	t.Helper()
	a := netlink.NewLinkAttrs()
	a.Name, a.NumRxQueues, a.NumTxQueues = near, 1, 1
	if err := netlink.LinkAdd(&netlink.Veth{LinkAttrs: a, PeerName: far, PeerNamespace: netlink.NsPid(pid)}); err != nil {
		t.Fatalf("%s: %v", near, err)
	}
}

func join(t *testing.T, a *labMachine, port string, b *labMachine, device string) {
	t.Helper()
	a.in(t, func(h *netlink.Handle) error {
		attrs := netlink.NewLinkAttrs()
		attrs.Name, attrs.NumRxQueues, attrs.NumTxQueues = port, 1, 1
		return h.LinkAdd(&netlink.Veth{LinkAttrs: attrs, PeerName: device,
			PeerNamespace: netlink.NsPid(b.command.Process.Pid)})
	})
	a.setUp(t, port, "")
	b.setUp(t, device, "")
}

// in calls f with a netlink handle for the machine's namespace.
func (m *labMachine) in(t *testing.T, f func(*netlink.Handle) error) {
	t.Helper()
	ns, err := netns.GetFromPid(m.command.Process.Pid)
	if err != nil {
		t.Fatal(err)
	}
	defer ns.Close()
	h, err := netlink.NewHandleAt(ns)
	if err != nil {
		t.Fatal(err)
	}
	defer h.Close()
	if err := f(h); err != nil {
		t.Fatalf("%s: %v", m.name, err)
	}
}

func (m *labMachine) setUp(t *testing.T, name, address string) {
	t.Helper()
	m.in(t, func(h *netlink.Handle) error { setUp(t, h, name, address); return nil })
}

// setUp sets an interface up, with an address if one is given; a nil handle is this namespace.
func setUp(t *testing.T, h *netlink.Handle, name, address string) {
	t.Helper()
	if h == nil {
		var err error
		if h, err = netlink.NewHandle(); err != nil {
			t.Fatal(err)
		}
		defer h.Close()
	}
	l, err := h.LinkByName(name)
	if err == nil && address != "" {
		var a *netlink.Addr
		if a, err = netlink.ParseAddr(address); err == nil {
			err = h.AddrAdd(l, a)
		}
	}
	if err == nil {
		err = h.LinkSetUp(l)
	}
	if err != nil {
		t.Fatalf("%s: %v", name, err)
	}
}

func waitFor(t *testing.T, m *labMachine, address string) {
	t.Helper()
	for deadline := time.Now().Add(20 * time.Second); ; time.Sleep(5 * time.Millisecond) {
		conn, err := net.DialTimeout("tcp", address, time.Second)
		if err == nil {
			conn.Close()
			return
		}
		if time.Now().After(deadline) {
			t.Fatalf("%s doesn't serve: %v", m.name, err)
		}
	}
}

// describe writes the description of the lab for the orchestrator of that name; swaps are pairs of old and new text.
func (b *networkLabBed) describe(t *testing.T, orchestrator string, swaps ...string) string {
	t.Helper()
	var ports, hosts []string
	for i := range b.hosts {
		ports = append(ports, fmt.Sprintf("p%d", i))
		hosts = append(hosts, fmt.Sprintf("    - {agent: \"%s\", interface: eth1, port: %d}\n", managementAddress(i+1), i))
	}
	text := fmt.Sprintf(`name: rack
kind: lab
switch: {driver: none}
live:
  switch: {agent: "%s", interfaces: [%s]}
  hosts:
%s  certificates: {cert: %[4]s/%[5]s.pem, key: %[4]s/%[5]s.key, ca: %[4]s/ca.pem, crl: %[4]s/revoked.crl}
`, managementAddress(0), strings.Join(ports, ", "), strings.Join(hosts, ""), b.dir, orchestrator)
	name := filepath.Join(t.TempDir(), "rack.yml")
	if err := os.WriteFile(name, []byte(strings.NewReplacer(swaps...).Replace(text)), 0o600); err != nil {
		t.Fatal(err)
	}
	return name
}

// labTest is a switch test with three kernels as hosts.
const labTest = `name: lab-kernel
topology: {kind: single-switch, hosts: 3, link: {gbps: 0.02, delay-ns: 100000}}
switch-under-test: {model: sai, trim-size: 128, trim-dscp: 48, trim-queue: 6,%s
  profiles: [{queues: [1], action: trim, limit-bytes: 20000}]}
hosts: {transport: kernel-tcp, congestion-control: cubic}
workload: [incast: {senders: 2, bytes: 200000, dscp: 8}]
deadline-us: 8000000
taps: {capture: true}
expect: {sai: pass, trims: {min: 1}, unfinished: {max: 0}}
`

// runLab runs the test with bugs. It repeats runs for which the machine was too busy.
func (b *networkLabBed) runLab(t *testing.T, bed, bugs string, args ...string) (status orchestrator.Exit, dir,
	said string) {
	t.Helper()
	return b.runTest(t, bed, fmt.Sprintf(labTest, bugs), args...)
}

// runTest runs a test whose name is lab-kernel, as runLab does.
func (b *networkLabBed) runTest(t *testing.T, bed, text string, args ...string) (status orchestrator.Exit, dir,
	said string) {
	t.Helper()
	file := filepath.Join(t.TempDir(), "test.yml")
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	const attempts = 3
	for range attempts {
		out := t.TempDir()
		var text bytes.Buffer
		status = run(t.Context(), append([]string{"run", file, "--testbed", bed, "--out", out}, args...), &text, &text)
		dir, said = filepath.Join(out, "lab-kernel"), text.String()
		if !strings.Contains(said, live.ErrBusy.Error()) {
			return status, dir, said
		}
	}
	t.Skipf("SKIP-busy: %s", said)
	return status, dir, said
}

// TestALabWithoutAnInjectorRunsSwitchTests uses one machine of a lab as the switch between machines whose kernels are
// the hosts. All are separate processes in their own namespaces, reached over mutual TLS.
func TestALabWithoutAnInjectorRunsSwitchTests(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("SKIP: network namespaces need root")
	}
	if !aloneInNamespaces(t) {
		return
	}
	b := newNetworkLab(t, 0, 1, 2)
	bed := b.describe(t, "nightly")
	status, dir, said := b.runLab(t, bed, "")
	if status != orchestrator.ExitPass {
		t.Fatalf("the correct switch: exit status %d\n%s", status, said)
	}
	for _, name := range []string{"run.json", "flows.json", "integrity.json", "taps/before.pcap", "analysis/sai.json",
		"report.html"} {
		if info, err := os.Stat(filepath.Join(dir, name)); err != nil || info.Size() == 0 {
			t.Errorf("%s: %v", name, err)
		}
	}
	var text bytes.Buffer
	if status := run(t.Context(), []string{"analyze", dir}, &text, &text); status != orchestrator.ExitPass {
		t.Errorf("analyze: exit status %d\n%s", status, text.String())
	}
	b.nothingIsLeft(t)

	status, _, said = b.runLab(t, bed, " bugs: [wrong-size],")
	if status != orchestrator.ExitFail || !strings.Contains(said, "sai.trim-size") {
		t.Errorf("a switch with a bug: exit status %d\n%s", status, said)
	}
	text.Reset()
	if status := run(t.Context(), []string{"testbed", "check", bed}, io.Discard, &text); status != orchestrator.ExitPass ||
		!strings.Contains(text.String(), "is ready: 3 hosts") {
		t.Errorf("check: exit status %d\n%s", status, text.String())
	}
	for name, tt := range map[string]struct {
		bed  string
		want string
	}{
		"a viewer": {b.describe(t, "guest"), "none of the roles [orchestrator]"},
		"other cables": {b.describe(t, "nightly", "interfaces: [p0, p1, p2]", "interfaces: [p1, p0, p2]"),
			"host 0 is described at port 0 (p1) of the switch: it sent 5 probe frames, and there came 5 at p0"},
		"an interface of others": {b.describe(t, "nightly", "interfaces: [p0, p1, p2]", "interfaces: [p0, p1, mgmt]"),
			"is none of this agent's"},
	} {
		if status, _, said := b.runLab(t, tt.bed, ""); status != orchestrator.ExitInfrastructure ||
			!strings.Contains(said, tt.want) {
			t.Errorf("%s: exit status %d, want %q\n%s", name, status, tt.want, said)
		}
	}
	// The end of a host ends the run, whose message names the host.
	go func() { time.Sleep(1500 * time.Millisecond); _ = b.hosts[1].command.Process.Kill() }()
	if status, _, said := b.runLab(t, bed, " latency-ns: 900000000,"); status != orchestrator.ExitInfrastructure ||
		!strings.Contains(said, "host 1") {
		t.Errorf("a host that is killed: exit status %d\n%s", status, said)
	}
}

// labLocks is a switch that manages locks for two clients and a lock server.
const labLocks = `name: lab-kernel
topology: {kind: single-switch, hosts: 3, link: {gbps: 0.1, delay-ns: 20000}}
switch-under-test: {model: netlock, locks: 2, slots-each: 3, lease-us: 60000, poll-us: 5000, push-timeout-us: 20000%s}
hosts: {transport: netlock, client-ns: 250000, lease-us: 60000, poll-us: 5000}
workload:
  - locks: {clients: 0..1, servers: 2, threads: 4, locks: 3, shared: 0.5, count: 60, think-us: 1000, timeout-us: 500000}
duration-us: 3000000
expect: {lock: pass, unfinished: {max: 0}}
`

// TestALabRunsLockClientsOfAgents has agents of separate machines run clients and a lock server on UDP sockets, around
// a machine that is the lock switch. Their clocks are not that of the switch.
func TestALabRunsLockClientsOfAgents(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("SKIP: network namespaces need root")
	}
	if !aloneInNamespaces(t) {
		return
	}
	b := newNetworkLab(t, 0, 1, 2, 3)
	bed := b.describe(t, "nightly")
	status, dir, said := b.runTest(t, bed, fmt.Sprintf(labLocks, ""))
	if status != orchestrator.ExitPass {
		t.Fatalf("the correct switch: exit status %d\n%s", status, said)
	}
	analysis, err := os.ReadFile(filepath.Join(dir, "analysis/lock.json"))
	if err != nil || !regexp.MustCompile(`"grants-server": [1-9]`).Match(analysis) {
		t.Errorf("%v\n%s", err, analysis)
	}
	b.nothingIsLeft(t)
	// The switch asks a database, which answers the clients (one round trip).
	asking := strings.NewReplacer("hosts: 3,", "hosts: 4,", "locks: 2,", "locks: 2, databases: 3,", "servers: 2,",
		"servers: 2, databases: 3, queries: on,")
	status, dir, said = b.runTest(t, bed, asking.Replace(fmt.Sprintf(labLocks, "")))
	analysis, err = os.ReadFile(filepath.Join(dir, "analysis/lock.json"))
	if status != orchestrator.ExitPass || err != nil || !regexp.MustCompile(`"to-database": [1-9]`).Match(analysis) {
		t.Errorf("with a database: exit status %d, %v\n%s\n%s", status, err, said, analysis)
	}
	for bug, rule := range map[string]string{"grants-twice": "lock.exactly-once", "loses-tail": "lock.lost",
		"grants-shared-beside-exclusive": "lock.mutual-exclusion"} {
		if status, _, said := b.runTest(t, bed, fmt.Sprintf(labLocks, ", bugs: ["+bug+"]")); status !=
			orchestrator.ExitFail || !strings.Contains(said, rule) {
			t.Errorf("a switch that %s: exit status %d\n%s", bug, status, said)
		}
	}
}

// nothingIsLeft checks that the test left no addresses and routes at the hosts.
func (b *networkLabBed) nothingIsLeft(t *testing.T) {
	t.Helper()
	for _, m := range b.hosts {
		m.in(t, func(h *netlink.Handle) error {
			l, err := h.LinkByName("eth1")
			if err != nil {
				return err
			}
			addresses, err := h.AddrList(l, netlink.FAMILY_V4)
			if err != nil {
				return err
			}
			routes, err := h.RouteList(l, netlink.FAMILY_V4)
			if len(addresses)+len(routes) > 0 {
				t.Errorf("%s has %v, %v", m.name, addresses, routes)
			}
			return err
		})
	}
}
