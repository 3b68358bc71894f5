//go:build linux

package main

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"candela.dev/candela/injector/transport"
	"candela.dev/candela/injector/transport/pki"
	"candela.dev/candela/link/linktest"
	"candela.dev/candela/orchestrator"
	"candela.dev/candela/testbeds/netns"
)

// A cable carries control connections to a component. Cutting it resets every connection and refuses new ones.
type cable struct {
	listener net.Listener
	socket   string // unix, of the component

	mu    sync.Mutex
	conns []net.Conn
	isCut bool
}

func newCable(t *testing.T, socket string) *cable {
	t.Helper()
	lis, err := net.Listen("unix", filepath.Join(shortDir(t), "s"))
	if err != nil {
		t.Fatal(err)
	}
	c := &cable{listener: lis, socket: socket}
	done := make(chan struct{})
	go func() { defer close(done); c.serve() }()
	t.Cleanup(func() { c.cut(); <-done })
	return c
}

// shortDir returns a directory for sockets, whose paths must be short; t.TempDir contains the long name of the test.
func shortDir(t *testing.T) string {
	t.Helper()
	dir, err := os.MkdirTemp("", "cd")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	return dir
}

func (c *cable) serve() {
	for {
		near, err := c.listener.Accept()
		if err != nil {
			return
		}
		far, err := net.Dial("unix", c.socket)
		if err != nil || !c.keep(near, far) {
			near.Close()
			continue
		}
		go func() { _, _ = io.Copy(far, near); far.Close() }()
		go func() { _, _ = io.Copy(near, far); near.Close() }()
	}
}

func (c *cable) keep(conns ...net.Conn) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.conns = append(c.conns, conns...)
	return !c.isCut
}

func (c *cable) cut() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.isCut = true
	c.listener.Close()
	for _, conn := range c.conns {
		conn.Close()
	}
	c.conns = nil
}

// TestALabWhoseControlConnectionIsCutEndsTheRun disconnects each component at each step; the component keeps running.
func TestALabWhoseControlConnectionIsCutEndsTheRun(t *testing.T) {
	needLive(t)
	b := bringUp(t, "xdp", 1)
	s := &b.State
	for _, component := range []string{"requester", "responder", "switch", "dumper-1"} {
		for _, step := range steps {
			t.Run(component+" at "+step, func(t *testing.T) {
				cables := map[string]*cable{}
				for _, n := range s.Nodes() {
					cables[n.Name] = newCable(t, n.Socket)
				}
				p := livePlan(t, fmt.Sprintf(smallTest, 2),
					labOf(t, s, func(n *netns.Node) string { return "unix:" + cables[n.Name].listener.Addr().String() }, ""))
				var live livebeds
				start := time.Now()
				o, err := orchestrator.Run(t.Context(), p, live.builder(t.Context(), p.Test.Testbed), orchestrator.Options{
					Out: t.TempDir(), ID: "cut", Wall: time.Now, NoReports: true, Progress: func(at string) {
						if at == step {
							cables[component].cut()
						}
					}})
				if err != nil {
					t.Fatal(err)
				}
				checkFault(t, o, component, start)
			})
		}
	}
	// All components are free for the next run: an agent gives up a run without connections when a new one starts.
	if o := calm(t, livePlan(t, fmt.Sprintf(smallTest, 2), oneDumper(t)), s); o.Verdict.Exit != orchestrator.ExitPass {
		t.Errorf("afterwards: %+v", o.Verdict)
	}
}

// labOf describes a testbed of namespaces as a lab.
func labOf(t *testing.T, s *netns.State, address func(*netns.Node) string, more string) string {
	t.Helper()
	station := func(n *netns.Node) string {
		return fmt.Sprintf("{agent: \"%s\", interface: %s, port: %d}", address(n), n.Interface, n.Port)
	}
	name := filepath.Join(t.TempDir(), "lab.yml")
	text := fmt.Sprintf(`name: rack
kind: lab
links: {requester: {rate-gbps: 1}, responder: {rate-gbps: 1}}
mirror: {snap-bytes: 128}
dumpers: [{name: dumper-1, cores: 1}]
live: {requester: %s, responder: %s, dumpers: [%s], switch: {address: "%s"}%s}
`, station(&s.Hosts[0]), station(&s.Hosts[1]), station(&s.Dumpers[0]), address(&s.Switch), more)
	if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return name
}

// inOwnMachine is set in the test process that runs in its own namespaces.
const inOwnMachine = "CANDELA_TEST_OWN_MACHINE"

// aloneInNamespaces restarts the test as the first process of new namespaces, and reports whether this is that process.
// Its children end with it.
func aloneInNamespaces(t *testing.T) bool {
	t.Helper()
	if os.Getenv(inOwnMachine) != "" {
		mounts := errors.Join(unix.Mount("none", "/", "", unix.MS_REC|unix.MS_PRIVATE, ""),
			unix.Mount("candela", "/proc", "proc", 0, ""),
			unix.Mount("candela", "/sys", "sysfs", 0, ""))
		if mounts != nil {
			t.Fatal(mounts)
		}
		linktest.SetUp(t, "lo")
		return true
	}
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.CommandContext(t.Context(), self, "-test.run", "^"+t.Name()+"$", "-test.v")
	cmd.Env = append(os.Environ(), inOwnMachine+"=1")
	cmd.SysProcAttr = &syscall.SysProcAttr{Cloneflags: unix.CLONE_NEWNET | unix.CLONE_NEWNS | unix.CLONE_NEWPID}
	out, err := cmd.CombinedOutput()
	text := string(out)
	if err == nil && strings.Contains(text, "SKIP-busy") {
		t.Skip(text)
	}
	if err != nil || strings.Contains(text, "SKIP-") {
		t.Errorf("%v\n%s", err, text)
	}
	return false
}

// tlsLab is a lab on one machine. Agents and switch are separate processes, reached over TCP with certificates.
type tlsLab struct {
	dir string // of the authority
}

const (
	switchAddress, expiredAddress = "127.0.0.1:9559", "127.0.0.1:9570"
	tlsLabCRL                     = ", crl: %[1]s/revoked.crl"
)

// checkFit checks that a testbed is fit; it tries several times, as the machine may be busy.
func checkFit(t *testing.T, description string) {
	t.Helper()
	var said bytes.Buffer
	for range 5 {
		said.Reset()
		if run(t.Context(), []string{"testbed", "check", description}, io.Discard, &said) == orchestrator.ExitPass {
			return
		}
		if !strings.Contains(said.String(), waiting) {
			t.Errorf("not ready:\n%s", said.String())
			return
		}
	}
	t.Logf("SKIP-busy: the machine keeps the models of testbed check waiting, so the check has no result")
}

func (l *tlsLab) candela(t *testing.T, args ...string) {
	t.Helper()
	var out bytes.Buffer
	if exit := run(t.Context(), args, &out, &out); exit != orchestrator.ExitPass {
		t.Fatalf("candela %s: exit %d\n%s", strings.Join(args, " "), exit, out.String())
	}
}

func (l *tlsLab) start(t *testing.T, name, address string, args ...string) {
	t.Helper()
	file := func(n string) string { return filepath.Join(l.dir, n) }
	startServer(t, name, address, append(args, "--cert", file(name+".pem"), "--key", file(name+".key"), "--ca",
		file("ca.pem"),
		"--crl", file("revoked.crl"))...)
}

// startServer starts a server that stops with the test, and waits until it accepts connections. The address of a server
// without certificates is a socket.
func startServer(t *testing.T, name, address string, args ...string) {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(self, append(args, "--listen", address)...)
	log := &bytes.Buffer{}
	cmd.Stdout, cmd.Stderr = log, log
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
		if t.Failed() {
			t.Logf("%s: %s", name, log)
		}
	})
	for deadline := time.Now().Add(20 * time.Second); ; time.Sleep(5 * time.Millisecond) {
		network, at := "tcp", address
		if path, ok := strings.CutPrefix(address, "unix:"); ok {
			network, at = "unix", path
		}
		conn, err := net.Dial(network, at)
		if err == nil {
			conn.Close()
			return
		}
		if time.Now().After(deadline) {
			t.Fatalf("%s doesn't serve: %v", name, err)
		}
	}
}

// description is the description of the lab for the orchestrator of that name; swaps are pairs of old and new text.
func (l *tlsLab) description(t *testing.T, orchestrator, crl string, swaps ...string) string {
	t.Helper()
	text := fmt.Sprintf(`name: rack
kind: lab
links: {requester: {rate-gbps: 1}, responder: {rate-gbps: 1}}
mirror: {snap-bytes: 128}
dumpers: [{name: dumper-1, cores: 1}]
live:
  requester: {agent: "127.0.0.1:9560", interface: n0, port: 0}
  responder: {agent: "127.0.0.1:9561", interface: n1, port: 1}
  dumpers: [{agent: "127.0.0.1:9562", interface: n2, port: 2}]
  switch: {address: "127.0.0.1:9559"}
  certificates: {cert: %[1]s/%[2]s.pem, key: %[1]s/%[2]s.key, ca: %[1]s/ca.pem`+crl+`}
`, l.dir, orchestrator)
	name := filepath.Join(t.TempDir(), "lab.yml")
	if err := os.WriteFile(name, []byte(strings.NewReplacer(swaps...).Replace(text)), 0o600); err != nil {
		t.Fatal(err)
	}
	return name
}

func newTLSLab(t *testing.T) *tlsLab {
	t.Helper()
	l := &tlsLab{dir: filepath.Join(t.TempDir(), "lab")}
	l.candela(t, "agent", "pki", "init", l.dir)
	issue := func(name, role string, hosts ...string) {
		args := []string{"agent", "pki", "issue", l.dir, name, "--role", role}
		for _, h := range hosts {
			args = append(args, "--host", h)
		}
		l.candela(t, args...)
	}
	for _, name := range []string{"nightly", "spare"} {
		issue(name, "orchestrator")
	}
	issue("guest", "viewer")
	old, err := pki.Open(l.dir, func() time.Time { return time.Now().Add(-2 * pki.Lifetime) })
	if err != nil {
		t.Fatal(err)
	}
	for name, role := range map[string]transport.Role{"retired": transport.Orchestrator, "old-host": transport.Agent} {
		if _, err := old.Issue(name, role, []string{"127.0.0.1"}); err != nil {
			t.Fatal(err)
		}
	}
	var near []string
	for i, name := range []string{"host-0", "host-1", "dumper-1"} {
		issue(name, "agent", "127.0.0.1")
		near = append(near, fmt.Sprintf("p%d", i))
		linktest.Veth(t, near[i], fmt.Sprintf("n%d", i))
		l.start(t, name, fmt.Sprintf("127.0.0.1:%d", 9560+i), "agent", "--interface", fmt.Sprintf("n%d", i), "--dir",
			t.TempDir())
	}
	l.start(t, "old-host", expiredAddress, "agent", "--interface", "n1", "--dir", t.TempDir())
	issue("switch-1", "switch", "127.0.0.1")
	l.start(t, "switch-1", switchAddress, "switchd", "--datapath", "afpacket", "--ports", "p0,p1", "--mirror", "p2")
	return l
}

// runs runs the small test on a lab and returns the exit status and the output. It repeats runs for which the machine
// was too busy.
func (l *tlsLab) runs(t *testing.T, description string) (exit orchestrator.Exit, said string) {
	t.Helper()
	return runSmall(t, description, t.TempDir())
}

// runSmall is runs without certificates; run directories are created in out.
func runSmall(t *testing.T, description, out string) (exit orchestrator.Exit, said string) {
	t.Helper()
	return runTest(t, strings.ReplaceAll(fmt.Sprintf(smallTest, 2), "timeout: 14", "timeout: 17"), description, out)
}

// runTest is runSmall with another test. It calls prepare before each try.
func runTest(t *testing.T, text, description, out string, prepare ...func()) (exit orchestrator.Exit, said string) {
	t.Helper()
	name := filepath.Join(t.TempDir(), "small.yml")
	if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	for range 5 {
		for _, f := range prepare {
			f()
		}
		var b bytes.Buffer
		exit = run(t.Context(), []string{"run", "--testbed", description, "--out", out, name}, &b, &b)
		// gRPC escapes quotes.
		said = strings.ReplaceAll(strings.Join(strings.Fields(b.String()), " "), "\\", "")
		if !strings.Contains(said, waiting) {
			return exit, said
		}
	}
	t.Skipf("SKIP-busy: %s", said)
	return exit, said
}

func TestALabOverTCPServesOnlyCertificatesThatAreValidAndOfTheRightRole(t *testing.T) {
	needLive(t)
	if !aloneInNamespaces(t) {
		return
	}
	l := newTLSLab(t)
	refused := func(description, want string) {
		t.Helper()
		start := time.Now()
		exit, said := l.runs(t, description)
		if exit != orchestrator.ExitInfrastructure || !strings.Contains(said, want) {
			t.Errorf("exit %d, want %d and %q:\n%s", exit, orchestrator.ExitInfrastructure, want, said)
		}
		reportTime(t, start)
	}
	served := func(description string) {
		t.Helper()
		if exit, said := l.runs(t, description); exit != orchestrator.ExitPass {
			t.Errorf("exit %d:\n%s", exit, said)
		}
	}
	served(l.description(t, "nightly", tlsLabCRL))
	checkFit(t, l.description(t, "nightly", tlsLabCRL))

	// Clients.
	refused(l.description(t, "guest", tlsLabCRL), `certificate "guest" has none of the roles`)
	refused(l.description(t, "host-1", tlsLabCRL), `certificate "host-1" has none of the roles`)
	refused(l.description(t, "retired", tlsLabCRL), "certificate")
	// Servers.
	refused(l.description(t, "nightly", tlsLabCRL, switchAddress, "127.0.0.1:9561"),
		`certificate "host-1" of the server has not the role "switch"`)
	refused(l.description(t, "nightly", tlsLabCRL, "127.0.0.1:9561", switchAddress),
		`certificate "switch-1" of the server has not the role "agent"`)
	refused(l.description(t, "nightly", tlsLabCRL, "127.0.0.1:9561", expiredAddress), "expired")
	// Revoked clients and servers. The files of a revoked certificate are renamed; a thief has copies.
	for _, name := range []string{"nightly.pem", "nightly.key"} {
		copyFile(t, filepath.Join(l.dir, name), filepath.Join(l.dir, "stolen"+filepath.Ext(name)))
	}
	l.candela(t, "agent", "pki", "revoke", l.dir, "nightly")
	refused(l.description(t, "stolen", ""), `certificate "nightly" is revoked`)
	served(l.description(t, "spare", tlsLabCRL))
	l.candela(t, "agent", "pki", "revoke", l.dir, "host-1")
	refused(l.description(t, "spare", tlsLabCRL), `certificate "host-1" is revoked`)
	served(l.description(t, "spare", "")) // an orchestrator without the list accepts revoked certificates
}

// TestALabWhoseSwitchReceivesOnSeveralCPUsMeasuresItsDisorder lets the kernel place receive processing. Packets of the
// two hosts may then be numbered and stamped concurrently.
func TestALabWhoseSwitchReceivesOnSeveralCPUsMeasuresItsDisorder(t *testing.T) {
	needLive(t)
	if !aloneInNamespaces(t) {
		return
	}
	dir := shortDir(t)
	socket := func(name string) string { return "unix:" + filepath.Join(dir, name) }
	var swaps []string
	for i := range 3 {
		near, far := fmt.Sprintf("p%d", i), fmt.Sprintf("n%d", i)
		linktest.Veth(t, near, far)
		const mtu = 2304
		linktest.SetMTU(t, near, mtu)
		linktest.SetMTU(t, far, mtu)
		swaps = append(swaps, fmt.Sprintf("127.0.0.1:%d", 9560+i), socket(far))
		startServer(t, far, socket(far), "agent", "--interface", far, "--dir", t.TempDir(), "--xdp-pass")
	}
	startServer(t, "switch", socket("switch"), "switchd", "--ports", "p0,p1", "--mirror", "p2", "--multi-queue", "--cpu",
		"-1")
	l := &tlsLab{}
	swaps = append(swaps, switchAddress, socket("switch"), "  certificates: {cert: /.pem, key: /.key, ca: /ca.pem}\n", "")
	description := l.description(t, "", "", swaps...)
	out := t.TempDir()
	if exit, said := runSmall(t, description, out); exit != orchestrator.ExitPass {
		t.Fatalf("exit %d:\n%s", exit, said)
	}
	text, err := os.ReadFile(filepath.Join(out, "small", "integrity.json"))
	if err != nil || !strings.Contains(string(text), `"time-disorder-ns"`) {
		t.Errorf("%v: integrity.json has no measured disorder:\n%s", err, text)
	}
	// The run directory suffices to determine the uncertainty of stamps.
	l.candela(t, "analyze", filepath.Join(out, "small"))
}

func copyFile(t *testing.T, from, to string) {
	t.Helper()
	data, err := os.ReadFile(from)
	if err == nil {
		err = os.WriteFile(to, data, 0o600)
	}
	if err != nil {
		t.Fatal(err)
	}
}

// orchestratorDies is set in a copy of the test process that dies at a step of a run; it names the step and the
// testbed.
const orchestratorDies = "CANDELA_TEST_ORCHESTRATOR_DIES"

// TestAKilledOrchestratorLeavesATestbedThatServesTheNext kills the orchestrator with SIGKILL at each step of a run on a
// persistent testbed. The next run takes over the machines after the agents have noticed, and passes.
func TestAKilledOrchestratorLeavesATestbedThatServesTheNext(t *testing.T) {
	needLive(t)
	if step, dir, ok := strings.Cut(os.Getenv(orchestratorDies), "|"); ok {
		s, err := netns.Load(dir, "t")
		if err != nil {
			t.Fatal(err)
		}
		for range 5 { // an aborted run does not reach the step
			o := runOn(t, livePlan(t, fmt.Sprintf(smallTest, 20), oneDumper(t)), s, func(at string) {
				if at == step {
					_ = unix.Kill(os.Getpid(), unix.SIGKILL)
				}
			})
			if !keptWaiting(o) {
				t.Fatal("it lives")
			}
		}
		t.Fatal("SKIP-busy")
	}
	b := bringUp(t, "xdp", 1)
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	p := livePlan(t, fmt.Sprintf(smallTest, 2), oneDumper(t))
	for _, step := range steps {
		t.Run(step, func(t *testing.T) {
			cmd := exec.CommandContext(t.Context(), self, "-test.run",
				"^TestAKilledOrchestratorLeavesATestbedThatServesTheNext$")
			cmd.Env = append(os.Environ(), orchestratorDies+"="+step+"|"+filepath.Dir(b.State.Dir))
			out, err := cmd.CombinedOutput()
			if bytes.Contains(out, []byte("SKIP-busy")) {
				t.Skip("SKIP-busy: five runs in a row were called off")
			}
			if status, ok := cmd.ProcessState.Sys().(syscall.WaitStatus); !ok || status.Signal() != syscall.SIGKILL {
				t.Fatalf("the orchestrator was to be killed: %v\n%s", err, out)
			}
			o := calm(t, p, &b.State)
			for until := time.Now().Add(time.Minute); leased(o) && time.Now().Before(until); {
				o = calm(t, p, &b.State)
			}
			if o.Verdict.Exit != orchestrator.ExitPass {
				t.Errorf("the next run: %+v", o.Verdict)
			}
		})
	}
}

// leased reports whether an agent had not yet noticed the end of the killed orchestrator's connection. On a busy
// machine this may take longer than the start of the next run.
func leased(o *orchestrator.Outcome) bool {
	return slices.ContainsFunc(o.Verdict.Reasons, func(r string) bool { return strings.Contains(r, "is held by run") })
}
