//go:build linux

package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	p4pb "github.com/p4lang/p4runtime/go/p4/v1"
	"golang.org/x/sys/unix"
	"google.golang.org/grpc"

	"candela.dev/candela/analyzers"
	"candela.dev/candela/injector/p4"
	"candela.dev/candela/orchestrator"
	"candela.dev/candela/orchestrator/config"
	"candela.dev/candela/orchestrator/plan"
	"candela.dev/candela/runtimetest"
	"candela.dev/candela/testbeds"
	"candela.dev/candela/testbeds/netns"
	"candela.dev/candela/testbeds/virtual"
)

// TestMain runs this binary as the processes of a testbed, too.
func TestMain(m *testing.M) {
	if len(os.Args) > 2 && os.Args[1] == "machine" {
		fmt.Fprintln(os.Stderr, beMachine(os.Args[2:]))
		os.Exit(1)
	}
	if len(os.Args) > 2 && (os.Args[1] == "testbed" && os.Args[2] == "node" || os.Args[1] == "agent" ||
		os.Args[1] == "switchd" || os.Args[1] == "run" || os.Args[1] == "nightly") {
		main()
	}
	if filepath.Base(os.Args[0]) == "candela" { // a link to this binary, see commandDir
		main()
	}
	runtimetest.QuickFiles()
	status := m.Run()
	postgres.Stop()
	os.Exit(status)
}

// postgres is the PostgreSQL of the package's tests.
var postgres runtimetest.Postgres

// needLive skips unless a testbed of namespaces is requested and possible on this machine.
func needLive(t *testing.T) {
	t.Helper()
	switch {
	case runtime.GOOS != "linux":
		t.Skip("SKIP-live: network namespaces need Linux")
	case os.Geteuid() != 0:
		t.Skip("SKIP-live: network namespaces need root")
	case os.Getenv("CANDELA_TEST_LIVE") == "":
		t.Skip("SKIP-live: make test-live runs it")
	}
}

// bringUp starts a testbed that stops with the test.
func bringUp(t testing.TB, datapath string, dumpers int) *netns.Bed {
	t.Helper()
	dir, err := os.MkdirTemp("", "cdl") // sockets have short paths
	if err != nil {
		t.Fatal(err)
	}
	return bringUpIn(t, dir, datapath, dumpers)
}

func bringUpIn(t testing.TB, dir, datapath string, dumpers int) *netns.Bed {
	t.Helper()
	cfg := netns.Config{Name: "t", StateDir: dir, Datapath: datapath}
	for i := range dumpers {
		cfg.Dumpers = append(cfg.Dumpers, fmt.Sprintf("dumper-%d", i+1))
	}
	b, err := netns.Up(t.Context(), cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := b.Close(); err != nil {
			t.Error(err)
		}
		checkGone(t, &b.State)
		_ = os.RemoveAll(dir)
	})
	return b
}

// checkGone reports leftovers of a testbed. A namespace lives as long as a process in it, and its links and programs as
// long as the namespace.
func checkGone(t testing.TB, s *netns.State) {
	t.Helper()
	for _, n := range s.Nodes() {
		if n.Process.Alive() {
			t.Errorf("%s (process %d) is still there", n.Name, n.Process.PID)
		}
	}
	if _, err := os.Stat(s.Dir); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("%s is still there: %v", s.Dir, err)
	}
	names, err := filepath.Glob("/proc/[0-9]*/cmdline")
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range names {
		if text, err := os.ReadFile(name); err == nil && strings.Contains(string(text), s.Dir+"/") {
			t.Errorf("%s of %s is still there", name, s.Dir)
		}
	}
}

func livePlan(t testing.TB, text, testbed string) *plan.Plan {
	t.Helper()
	test, err := config.Parse("live.yml", []byte(text), configOptions(testbed))
	if err != nil {
		t.Fatal(err)
	}
	p, err := plan.New(test)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

func runOn(t *testing.T, p *plan.Plan, s *netns.State, progress func(string)) *orchestrator.Outcome {
	t.Helper()
	out, err := orchestrator.Run(t.Context(), p,
		func(spec testbeds.Spec) (orchestrator.Testbed, error) { return built(s.Testbed(spec)) },
		orchestrator.Options{Out: t.TempDir(), ID: "live", Wall: time.Now, NoReports: true, Progress: progress})
	if err != nil {
		t.Fatal(err)
	}
	return out
}

// tellings returns the findings without times: violated rules by connection, and the completions of requests.
func tellings(o *orchestrator.Outcome) (list []string) {
	for _, f := range o.Analysis.Findings {
		if f.Severity == analyzers.Violation {
			list = append(list, fmt.Sprintf("%s qpn %d", f.Rule, f.Connection))
		}
	}
	for _, s := range o.Generator.Streams {
		list = append(list, fmt.Sprintf("qpn %d %s: %v", s.Connection, s.Side, s.Statuses))
	}
	slices.Sort(list)
	return slices.Compact(list)
}

// timeouts are the exponents of the retransmission timeout that a comparison tries in order: the file's own, and longer
// ones for a machine that delays the models too much. Both testbeds use the same one.
var timeouts = []int{0, 14, 16, 17}

func TestLiveFindingsAreThoseOfTheVirtualTestbed(t *testing.T) {
	needLive(t)
	files, err := filepath.Glob("../../configs/*.yml")
	if err != nil || len(files) == 0 {
		t.Fatal(err)
	}
	beds := map[string]*netns.Bed{}
	for _, file := range files {
		data, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		if config.IsSwitchTest(data) {
			continue
		}
		parent := t
		t.Run(filepath.Base(file), func(t *testing.T) {
			datapath := "xdp"
			tests, err := config.LoadAll(file, configOptions(config.NetnsTestbed))
			if err != nil && strings.Contains(err.Error(), "afpacket") || strings.Contains(string(data), "type: delay") ||
				strings.Contains(string(data), "software") {
				datapath = "afpacket"
				tests, err = config.LoadAll(file, configOptions(afpacketTestbed(t)))
			}
			if err != nil {
				t.Fatal(err)
			}
			if beds[datapath] == nil {
				beds[datapath] = bringUp(parent, datapath, 2)
			}
			compareTestbeds(t, tests[0], &beds[datapath].State)
		})
	}
}

func afpacketTestbed(t *testing.T) string {
	name := filepath.Join(t.TempDir(), "afpacket.yml")
	text := strings.ReplaceAll(string(testbeds.Netns), "datapath: xdp", "datapath: afpacket")
	if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return name
}

// compareTestbeds runs a test on the virtual testbed, with its links and snap, and live.
func compareTestbeds(t *testing.T, test *config.Test, s *netns.State) {
	var reasons []string
	for i, timeout := range timeouts {
		test.Traffic.AckTimeout = max(test.Traffic.AckTimeout, timeout)
		p, err := plan.New(test)
		if err != nil {
			t.Fatal(err)
		}
		live := runOn(t, p, s, nil)
		if keptWaiting(live) {
			reasons = live.Verdict.Reasons
			continue
		}
		if live.Analysis == nil && explained(live) && i+1 < len(timeouts) {
			t.Log(live.Verdict.Reasons) // a component reported frames lost for want of CPU
			continue
		}
		if live.Analysis == nil {
			t.Fatalf("live: %v", live.Verdict.Reasons)
		}
		if want, got := tellings(simulated(t, p)), tellings(live); !slices.Equal(want, got) {
			t.Errorf("timeout exponent %d\nvirtual: %q\nlive:    %q", test.Traffic.AckTimeout, want, got)
		}
		return
	}
	t.Skipf("SKIP-busy: with timeouts of up to half a second: %v", reasons)
}

func simulated(t *testing.T, p *plan.Plan) *orchestrator.Outcome {
	t.Helper()
	o, err := orchestrator.Run(t.Context(), p, func(spec testbeds.Spec) (orchestrator.Testbed, error) {
		return virtual.New(spec)
	}, orchestrator.Options{Out: t.TempDir(), ID: "virtual", Wall: time.Now, NoReports: true})
	if err != nil || o.Analysis == nil {
		t.Fatalf("virtual: %v, %v", err, o.Verdict.Reasons)
	}
	return o
}

// keptWaiting reports whether a run was aborted because the machine had no CPU for the models.
func keptWaiting(o *orchestrator.Outcome) bool {
	return strings.Contains(strings.Join(o.Verdict.Reasons, "\n"), waiting)
}

// waiting is part of the reason of such runs.
const waiting = "kept the model waiting"

const smallTest = `name: small
requester: {nic: {profile: spec, ip-list: [10.0.0.2/24]}}
responder: {nic: {profile: spec, ip-list: [10.0.0.1/24]}}
traffic:
  num-connections: 1
  rdma-verb: write
  num-msgs-per-qp: %d
  mtu: 1024
  message-size: 10240
  min-retransmit-timeout: 14
`

func TestALiveRunOfTenPacketsTakesLessThanASecond(t *testing.T) {
	needLive(t)
	b := bringUp(t, "xdp", 2)
	p := livePlan(t, fmt.Sprintf(smallTest, 1), config.NetnsTestbed)
	best := time.Hour
	for range 5 {
		start := time.Now()
		o := calm(t, p, &b.State)
		if o.Verdict.Exit != orchestrator.ExitPass {
			t.Fatalf("%+v", o.Verdict)
		}
		best = min(best, time.Since(start))
	}
	t.Logf("FIGURE live run of 10 packets, testbed up: %v (target 1 s)", best)
}

var steps = []string{"prepare hosts", "check cabling", "program injector", "start dumpers", "run traffic", "collect",
	"reconstruct", "check integrity", "analyse"}

// inSample reports whether the i-th case of a live test runs: every one or, with CANDELA_TEST_LIVE=sample as in CI,
// every third.
func inSample(i int) bool { return os.Getenv("CANDELA_TEST_LIVE") != "sample" || i%3 == 0 }

// A fault happens to a component at the beginning of a step.
func TestNoFaultPassesOrLeavesAnything(t *testing.T) {
	needLive(t)
	for i, component := range []string{"requester", "responder", "switch", "dumper-1"} {
		for j, step := range steps {
			if !inSample(i + j) {
				continue
			}
			t.Run(component+" killed at "+step, func(t *testing.T) {
				b := bringUp(t, "xdp", 1)
				start := time.Now()
				o := runOn(t, livePlan(t, fmt.Sprintf(smallTest, 20), oneDumper(t)), &b.State, func(at string) {
					if at == step {
						killNode(t, &b.State, component)
					}
				})
				checkFault(t, o, component, start)
			})
		}
	}
}

// oneDumper is the description of a testbed with a single dumper.
func oneDumper(t *testing.T) string {
	name := filepath.Join(t.TempDir(), "one.yml")
	text := "name: t\nkind: netns\nlinks: {requester: {rate-gbps: 1}, responder: {rate-gbps: 1}}\nmirror: {snap-bytes: " +
		"128}\ndumpers: [{name: dumper-1, cores: 1}]\n"
	if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return name
}

func nodeOf(t *testing.T, s *netns.State, name string) *netns.Node {
	for _, n := range s.Nodes() {
		if n.Name == name {
			return n
		}
	}
	t.Fatalf("no node %s", name)
	return nil
}

func killNode(t *testing.T, s *netns.State, name string) {
	n := nodeOf(t, s, name)
	if err := unix.Kill(n.Process.PID, unix.SIGKILL); err != nil {
		t.Error(err)
	}
	for n.Process.Alive() {
		time.Sleep(time.Millisecond)
	}
}

// faultTime is the expected maximum duration of a run with a fault, on an idle machine.
const faultTime = 30 * time.Second

// reportTime logs a slow run, which a busy machine may cause. A hang ends with the limit of go test.
func reportTime(t *testing.T, start time.Time) {
	t.Helper()
	if took := time.Since(start); took > faultTime {
		t.Logf("FIGURE a run with a fault took %v (target %v)", took, faultTime)
	}
}

func checkFault(t *testing.T, o *orchestrator.Outcome, component string, start time.Time) {
	t.Helper()
	reasons := strings.Join(o.Verdict.Reasons, "\n")
	if keptWaiting(o) {
		t.Skipf("SKIP-busy: %s", reasons)
	}
	if o.Verdict.Exit != orchestrator.ExitInfrastructure || !strings.Contains(reasons, component) {
		t.Errorf("exit %d, want %d with the name %s: %s", o.Verdict.Exit, orchestrator.ExitInfrastructure, component, reasons)
	}
	reportTime(t, start)
	if _, err := os.Stat(filepath.Join(o.Dir, "run.json")); err != nil {
		t.Errorf("nothing is kept: %v", err)
	}
}

func TestAComponentThatHangsEndsTheRun(t *testing.T) {
	needLive(t)
	for _, component := range []string{"responder", "switch", "dumper-1"} {
		t.Run(component, func(t *testing.T) {
			b := bringUp(t, "xdp", 1)
			start := time.Now()
			o := runOn(t, livePlan(t, fmt.Sprintf(smallTest, 20), oneDumper(t)), &b.State, func(at string) {
				if at == "run traffic" {
					if err := unix.Kill(nodeOf(t, &b.State, component).Process.PID, unix.SIGSTOP); err != nil {
						t.Error(err)
					}
				}
			})
			checkFault(t, o, component, start)
		})
	}
}

func TestAFullDiskOfADumperEndsTheRun(t *testing.T) {
	needLive(t)
	dir, err := os.MkdirTemp("", "cdl")
	if err != nil {
		t.Fatal(err)
	}
	if err := unix.Mount("candela", dir, "tmpfs", 0, "size=256k"); err != nil {
		t.Skipf("SKIP-live: no tmpfs: %v", err)
	}
	t.Cleanup(func() { _ = errors.Join(unix.Unmount(dir, unix.MNT_DETACH), os.RemoveAll(dir)) })
	b := bringUpIn(t, dir, "xdp", 1)
	start := time.Now()
	o := runOn(t, livePlan(t, fmt.Sprintf(smallTest, 400), oneDumper(t)), &b.State, nil)
	checkFault(t, o, "dumper-1", start)
	if !strings.Contains(strings.Join(o.Verdict.Reasons, " "), "no space left") {
		t.Errorf("%v", o.Verdict.Reasons)
	}
	// Data written before the disk was full is kept.
	if info, err := os.Stat(filepath.Join(o.Dir, "shards", "dumper-1-0.pcap")); err != nil || info.Size() < 64<<10 {
		t.Errorf("kept: %v, %v", info, err)
	}
}

func TestAPortThatFlapsIsNoPass(t *testing.T) {
	needLive(t)
	b := bringUp(t, "xdp", 1)
	began, flapped := false, make(chan struct{})
	o := runOn(t, livePlan(t, fmt.Sprintf(smallTest, 3000), oneDumper(t)), &b.State, func(at string) {
		switch at {
		case "run traffic":
			began = true
			go func() {
				defer close(flapped)
				time.Sleep(30 * time.Millisecond)
				flap(t, nodeOf(t, &b.State, "responder"))
			}()
		case "collect":
			<-flapped // the flap belongs to the run even if it was delayed
		}
	})
	if began {
		<-flapped
	}
	if o.Verdict.Exit != orchestrator.ExitInvalid && o.Verdict.Exit != orchestrator.ExitInfrastructure {
		t.Errorf("%+v", o.Verdict)
	}
}

// flap takes a node's interface down and up again.
func flap(t *testing.T, n *netns.Node) {
	for _, state := range []string{"down", "up"} {
		pid := fmt.Sprint(n.Process.PID)
		if out, err := exec.Command("nsenter", "-t", pid, "-n", "ip", "link", "set", n.Interface,
			state).CombinedOutput(); err != nil {
			t.Errorf("%v: %s", err, out)
		}
	}
}

// observed are the steps in which an event at a port belongs to the run: after the baseline is taken, before everything
// is collected.
var observed = []string{"program injector", "start dumpers", "run traffic", "collect"}

// unopened reports whether a port belongs to a dumper that does not capture yet. A fault of it ends before the first
// copy.
func unopened(port, step string) bool {
	return strings.HasPrefix(port, "dumper") && (step == "program injector" || step == "start dumpers")
}

func TestAPortThatFlapsAtAnyStepIsNoPassAndLeavesAFitTestbed(t *testing.T) {
	needLive(t)
	b := bringUp(t, "xdp", 1)
	p := livePlan(t, fmt.Sprintf(smallTest, 2), oneDumper(t))
	for i, port := range []string{"requester", "responder", "dumper-1"} {
		for j, step := range steps {
			if !inSample(i + j) {
				continue
			}
			t.Run(port+" at "+step, func(t *testing.T) {
				o := runOn(t, p, &b.State, func(at string) {
					if at == step {
						flap(t, nodeOf(t, &b.State, port))
					}
				})
				if o.Verdict.Exit == orchestrator.ExitPass && slices.Contains(observed, step) && !unopened(port, step) {
					t.Errorf("it passes")
				}
				if o.Verdict.Exit == orchestrator.ExitFail {
					t.Errorf("the model is blamed: %v", o.Verdict.Reasons)
				}
			})
		}
	}
	if o := calm(t, p, &b.State); o.Verdict.Exit != orchestrator.ExitPass {
		t.Errorf("afterwards: %+v", o.Verdict)
	}
}

// calm repeats a test, up to a few times, until the machine did not delay its models.
func calm(t *testing.T, p *plan.Plan, s *netns.State) (o *orchestrator.Outcome) {
	t.Helper()
	for range 5 {
		if o = runOn(t, p, s, nil); !keptWaiting(o) {
			return o
		}
	}
	t.Skipf("SKIP-busy: %v", o.Verdict.Reasons)
	return nil
}

func TestAKilledOrchestratorLeavesNothing(t *testing.T) {
	needLive(t)
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	for _, after := range []time.Duration{20, 100, 200, 300, 400, 600, 800, 1000, 1500, 2500} {
		t.Run(fmt.Sprint(after, " ms"), func(t *testing.T) {
			cmd := exec.Command(self, "run", "--repeat", "50", "--testbed", "netns", "--out", t.TempDir(),
				"../../configs/quickstart.yml")
			if err := cmd.Start(); err != nil {
				t.Fatal(err)
			}
			time.Sleep(after * time.Millisecond)
			_ = cmd.Process.Kill()
			_ = cmd.Wait()
			name := fmt.Sprintf("netns-%d", cmd.Process.Pid)
			s, err := netns.Load("", name)
			if errors.Is(err, os.ErrNotExist) {
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			for deadline := time.Now().Add(time.Minute); len(s.Dead()) < len(s.Nodes()); time.Sleep(5 * time.Millisecond) {
				if time.Now().After(deadline) {
					t.Fatalf("%v are dead of %d nodes", s.Dead(), len(s.Nodes()))
				}
			}
			if err := netns.Down("", name); err != nil {
				t.Error(err)
			}
			checkGone(t, s)
		})
	}
}

func TestALabIsDrivenAsTheNamespacesAre(t *testing.T) {
	needLive(t)
	b := bringUp(t, "xdp", 1)
	name := labOf(t, &b.State, func(n *netns.Node) string { return "unix:" + n.Socket }, "")
	p := livePlan(t, fmt.Sprintf(smallTest, 2), name)
	for range 5 {
		var live livebeds
		o, err := orchestrator.Run(t.Context(), p, live.builder(t.Context(), p.Test.Testbed),
			orchestrator.Options{Out: t.TempDir(), ID: "lab", Wall: time.Now, NoReports: true})
		if err == nil && keptWaiting(o) {
			continue
		}
		if err != nil || o.Verdict.Exit != orchestrator.ExitPass {
			t.Errorf("%v, %+v", err, o.Verdict)
		}
		break
	}
	checkFit(t, name)
	// The description swaps the cables of the two hosts.
	text, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	swapped := strings.NewReplacer("port: 0", "port: 1", "port: 1", "port: 0").Replace(string(text))
	if err := os.WriteFile(name, []byte(swapped), 0o600); err != nil {
		t.Fatal(err)
	}
	var said bytes.Buffer
	e := run(t.Context(), []string{"testbed", "check", name}, io.Discard, &said)
	if want := "the requester is cabled to port 0, the description says 1"; e != orchestrator.ExitInfrastructure ||
		!strings.Contains(said.String(), want) {
		t.Errorf("check of swapped cables: exit %d, want %d and %q:\n%s", e, orchestrator.ExitInfrastructure, want,
			said.String())
	}
}

// TestL2 is Lumina's microbenchmark 2: how many of 100 rounds have integrity. A round that was aborted because the
// machine was busy is repeated, as it shows nothing about mirroring. A round without integrity must name the counter of
// the loss.
func TestL2(t *testing.T) {
	needLive(t)
	for _, dumpers := range []int{2, 1} {
		b := bringUp(t, "xdp", dumpers)
		description := config.NetnsTestbed
		if dumpers == 1 {
			description = oneDumper(t)
		}
		p := livePlan(t, fmt.Sprintf(smallTest, 10), description)
		sound, repeats := 0, 0
		const rounds, mostRepeats = 100, 50
		for round := 0; round < rounds; {
			o := runOn(t, p, &b.State, nil)
			if keptWaiting(o) {
				if repeats++; repeats > mostRepeats {
					t.Skipf("SKIP-busy: %d of %d rounds were called off", repeats, round+repeats)
				}
				continue
			}
			round++
			if o.Analysis != nil {
				sound++
				continue
			}
			t.Logf("round %d: %v", round, o.Verdict.Reasons)
			if !explained(o) {
				t.Errorf("round %d: packets are missing that no counter has: %v", round, o.Verdict.Reasons)
			}
		}
		t.Logf("FIGURE L2 integrity: %d of %d rounds with %d dumpers; %d more were called off, the machine being busy", sound,
			rounds, dumpers, repeats)
	}
}

// explained reports whether a counter explains a run without integrity.
func explained(o *orchestrator.Outcome) bool {
	reasons := strings.Join(o.Verdict.Reasons, "\n")
	return strings.Contains(reasons, "dropped") || strings.Contains(reasons, "had no capacity") ||
		strings.Contains(reasons, "switch-discards")
}

// TestL1 is Lumina's microbenchmark 1: the increase of the mean message completion time by injection and mirroring. It
// compares pairs of consecutive runs in alternating order, so that load of the machine affects both equally.
func TestL1(t *testing.T) {
	needLive(t)
	b := bringUp(t, "xdp", 2)
	// The event matches no packet, but every packet is looked up.
	event := "  data-pkt-events: [{qpn: 1, psn: 5, iter: 2, type: drop}]\n"
	p := livePlan(t, fmt.Sprintf(smallTest, 300)+event, config.NetnsTestbed)
	const pairs = 21
	var ratios, plain []float64
	for i := range pairs {
		var took [2]float64
		for j := range took {
			k := (i + j) % len(took)
			took[k] = float64(meanCompletion(t, p, &b.State, k == 1))
		}
		ratios, plain = append(ratios, 100*(took[1]/took[0]-1)), append(plain, took[0]/1000)
	}
	slices.Sort(ratios)
	slices.Sort(plain)
	t.Logf("FIGURE L1 overhead of injection and mirroring on the mean completion time: median %.1f %% of %d pairs, "+
		"quartiles %.1f and %.1f %% "+
		"(target 5 %%; Lumina 4.1 to 7.2 %%); plain %.1f us", ratios[pairs/2], pairs, ratios[pairs/4], ratios[3*pairs/4],
		plain[pairs/2])
}

// meanCompletion runs p with or without mirroring and returns the mean completion time in ns.
func meanCompletion(t *testing.T, p *plan.Plan, s *netns.State, mirror bool) int64 {
	t.Helper()
	for range 5 {
		outcome, err := orchestrator.Run(t.Context(), p, func(spec testbeds.Spec) (orchestrator.Testbed, error) {
			bed, err := s.Testbed(spec)
			if err != nil || mirror {
				return built(bed, err)
			}
			return unmirrored{bed}, nil
		}, orchestrator.Options{Out: t.TempDir(), ID: "l1", Wall: time.Now, NoReports: true})
		switch {
		case err != nil || outcome.Generator.Times.Count == 0 && !keptWaiting(outcome):
			t.Fatalf("%v, %+v", err, outcome.Verdict)
		case outcome.Generator.Times.Count > 0:
			return outcome.Generator.Times.Mean
		}
	}
	t.Skip("SKIP-busy: five runs in a row were called off")
	return 0
}

// unmirrored is a testbed whose mirror gate is closed before the traffic.
type unmirrored struct{ orchestrator.Testbed }

func (u unmirrored) Injector(ctx context.Context) (testbeds.Access, error) {
	a, err := u.Testbed.Injector(ctx)
	a.Conn = gateless{a.Conn}
	return a, err
}

// gateless is a connection to a switch that keeps the gate closed.
type gateless struct{ grpc.ClientConnInterface }

func (g gateless) Invoke(ctx context.Context, method string, args, reply any, opts ...grpc.CallOption) error {
	if w, ok := args.(*p4pb.WriteRequest); ok && opensGate(w) {
		return nil
	}
	return g.ClientConnInterface.Invoke(ctx, method, args, reply, opts...)
}

func opensGate(w *p4pb.WriteRequest) bool {
	return slices.ContainsFunc(w.GetUpdates(), func(u *p4pb.Update) bool {
		te := u.GetEntity().GetTableEntry()
		return te.GetTableId() == p4.TableMirror && te.GetAction().GetAction().GetActionId() == p4.ActionOpen
	})
}
