package remote_test

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"candela.dev/candela/clock"
	agentpb "candela.dev/candela/proto/agent/v1"
	"candela.dev/candela/testbeds"
	"candela.dev/candela/testbeds/remote"
)

func TestARunTakesEveryStepAndGivesTheMachinesBack(t *testing.T) {
	r := newRack(t, nil)
	dir := t.TempDir()
	dump, err := r.run(t.Context(), dir)
	if err != nil {
		t.Fatal(err)
	}
	want := testbeds.Dump{Shards: []string{"dumper-1-0.pcap"},
		Dumpers: []testbeds.DumperCounters{{Name: "dumper-1", Received: 20, Written: 20}}}
	if diff := cmp.Diff(want, dump); diff != "" {
		t.Errorf("dump (-want +got):\n%s", diff)
	}
	if text, err := os.ReadFile(filepath.Join(dir, "dumper-1-0.pcap")); err != nil || string(text) != "copies" {
		t.Errorf("shard %q, %v", text, err)
	}
	if err := r.Close(); err != nil {
		t.Errorf("close: %v", err)
	}
	r.free(t)
}

func TestAFailureNamesComponentAndStep(t *testing.T) {
	for call, component := range map[string]int{
		"lease": 1, "prepare": 0, "connect": 1, "describe": 2, "record": 2, "start": 0, "wait": 1, "report": 0, "finish": 2,
		"counters": 0,
	} {
		names := []string{"requester", "responder", "dumper-1"}
		r := newRack(t, func(r *rack, _ *remote.Machines, _ *testbeds.Spec) {
			[]*machine{r.hosts[0], r.hosts[1], r.dumper}[component].fails[call] = refusal("the bearings are dry")
		})
		_, err := r.run(t.Context(), t.TempDir())
		if err == nil || !strings.Contains(err.Error(), names[component]) || !strings.Contains(err.Error(), call) ||
			!strings.Contains(err.Error(), "the bearings are dry") {
			t.Errorf("%s of %s fails: %v", call, names[component], err)
		}
		_ = r.Close() // a component that can't describe itself reports that again
		if !r.closed {
			t.Errorf("%s of %s fails: the connections are open", call, names[component])
		}
	}
}

func TestAComponentThatIsGoneEndsTheRunUnderItsOwnName(t *testing.T) {
	for name, kill := range map[string]func(*rack){
		"responder": func(r *rack) { r.hosts[1].server.Stop() },
		"dumper-1":  func(r *rack) { r.dumper.server.Stop() },
		"switch":    func(r *rack) { r.sw.server.Stop() },
	} {
		r := newRack(t, func(r *rack, _ *remote.Machines, s *testbeds.Spec) {
			// Without the watch the run would continue for an hour and name no component.
			r.hosts[0].never, s.Deadline = true, 3600*clock.Second
		})
		dir := t.TempDir()
		if _, err := r.Prepare(t.Context()); err != nil {
			t.Fatal(err)
		}
		if err := r.StartDumpers(t.Context(), dir); err != nil {
			t.Fatal(err)
		}
		go func() {
			for r.hosts[0].count("start") == 0 {
				time.Sleep(time.Millisecond)
			}
			kill(r)
		}()
		_, err := r.Run(t.Context())
		if err == nil || !strings.HasPrefix(err.Error(), name+": ") {
			t.Errorf("%s is gone: %v", name, err)
		}
		if err := r.Close(); err != nil {
			t.Errorf("%s is gone and was named, close: %v", name, err)
		}
		// The dumper's copies are saved if it still runs.
		text, err := os.ReadFile(filepath.Join(dir, "dumper-1-0.pcap"))
		if name != "dumper-1" && (err != nil || string(text) != "copies") {
			t.Errorf("%s is gone: shard %q, %v", name, text, err)
		}
	}
}

func TestMessagesThatNeverCompleteEndWithTheDeadlineOfTheTraffic(t *testing.T) {
	r := newRack(t, func(r *rack, _ *remote.Machines, _ *testbeds.Spec) { r.hosts[0].never = true })
	if _, err := r.run(t.Context(), t.TempDir()); err != nil {
		t.Errorf("what never completed is in the report, and no error: %v", err)
	}
	if err := r.Close(); err != nil {
		t.Error(err)
	}
	r.free(t)
}

func TestACancelledRunEndsAndFreesTheMachines(t *testing.T) {
	r := newRack(t, func(r *rack, _ *remote.Machines, s *testbeds.Spec) {
		r.hosts[0].never, s.Deadline = true, 3600*clock.Second
	})
	ctx, cancel := context.WithCancelCause(t.Context())
	stop := errors.New("Ctrl-C")
	go func() {
		for r.hosts[0].count("start") == 0 {
			time.Sleep(time.Millisecond)
		}
		cancel(stop)
	}()
	if _, err := r.run(ctx, t.TempDir()); err == nil {
		t.Error("it went on")
	}
	if err := r.Close(); err != nil {
		t.Errorf("nobody failed: %v", err)
	}
	r.free(t)
}

func TestLossesThatTheTraceCannotShowAreReportedByPort(t *testing.T) {
	r := newRack(t, func(r *rack, _ *remote.Machines, _ *testbeds.Spec) {
		r.hosts[1].lost, r.dumper.lost = 3, 2
		r.sw.lost = []uint64{5}
	})
	dump, err := r.run(t.Context(), t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	want := []testbeds.PortDiscards{{Port: 1, Packets: 3}, {Port: 2, Packets: 2}} // the switch's five came earlier
	if diff := cmp.Diff(want, dump.Discards); diff != "" {
		t.Errorf("discards (-want +got):\n%s", diff)
	}
	if err := r.Close(); err != nil {
		t.Error(err)
	}
}

func TestAMachineThatKeptAModelWaitingIsBlamedInsteadOfTheModel(t *testing.T) {
	// A quarter of 4.096 us × 2¹⁴ is 16.8 ms.
	for stall, blamed := range map[time.Duration]bool{16 * time.Millisecond: false, 17 * time.Millisecond: true} {
		r := newRack(t, func(r *rack, _ *remote.Machines, _ *testbeds.Spec) { r.hosts[1].stall = stall })
		_, err := r.run(t.Context(), t.TempDir())
		if errors.Is(err, remote.ErrStalled) != blamed || blamed && !strings.Contains(err.Error(), "responder: ") {
			t.Errorf("stall of %v: %v", stall, err)
		}
		if err := r.Close(); err != nil {
			t.Error(err)
		}
	}
}

func TestADumperWritesNowhereButIntoTheRunDirectory(t *testing.T) {
	for name, tt := range map[string]struct {
		shard    string
		announce func(*agentpb.Shard)
		want     string
	}{
		"a path":               {"../x.pcap", nil, "has no plain name"},
		"an absolute path":     {"/tmp/x.pcap", nil, "has no plain name"},
		"the directory above":  {"..", nil, ".."},
		"a file that is there": {"precious", nil, "exists"},
		"more than it may record": {"x.pcap", func(s *agentpb.Shard) { s.Bytes = 3 << 30 },
			"more than the 2048 MiB that a dumper may record"},
		"more than it announced":    {"x.pcap", func(s *agentpb.Shard) { s.Bytes = 3 }, "more than the 3 bytes announced"},
		"other than it has written": {"x.pcap", func(s *agentpb.Shard) { s.Sha256[0] ^= 1 }, "checksum differs"},
	} {
		r := newRack(t, func(r *rack, _ *remote.Machines, _ *testbeds.Spec) {
			r.dumper.shards, r.dumper.announce = map[string][]byte{tt.shard: []byte("evil")}, tt.announce
		})
		above := t.TempDir()
		dir := filepath.Join(above, "run")
		if err := errors.Join(os.Mkdir(dir, 0o700),
			os.WriteFile(filepath.Join(dir, "precious"), []byte("mine"), 0o600)); err != nil {
			t.Fatal(err)
		}
		if _, err := r.run(t.Context(), dir); err == nil || !strings.Contains(err.Error(), "dumper-1") ||
			!strings.Contains(err.Error(), tt.want) {
			t.Errorf("%s: %v, want %q", name, err, tt.want)
		}
		_ = r.Close()
		entries, err := os.ReadDir(above)
		if err != nil || len(entries) != 1 {
			t.Errorf("%s: beside the run directory: %v, %v", name, entries, err)
		}
		if text, err := os.ReadFile(filepath.Join(dir, "precious")); err != nil || string(text) != "mine" {
			t.Errorf("%s: a file that was there is %q, %v", name, text, err)
		}
	}
}

func TestATestbedOfOtherDumpersIsRefusedAndClosed(t *testing.T) {
	closed := false
	s := spec()
	s.Dumpers = append(s.Dumpers, s.Dumpers[0])
	_, err := remote.New(s, remote.Machines{Dumpers: make([]remote.Machine, 1),
		Close: func() error { closed = true; return nil }})
	if err == nil || !strings.Contains(err.Error(), "1 dumpers, the test wants 2") || !closed {
		t.Errorf("%v, closed %v", err, closed)
	}
}

func TestCheckNamesWhatMakesAMachineUnfit(t *testing.T) {
	r := newRack(t, func(r *rack, _ *remote.Machines, s *testbeds.Spec) {
		d := &r.hosts[0].describe
		d.Version, d.Privileges, d.NowUnixNs = "v0", []string{"CAP_NET_RAW"}, time.Now().Add(-time.Hour).UnixNano()
		r.hosts[1].describe.Interfaces[0].Up, r.hosts[1].describe.Interfaces[0].Mtu = false, 1100
		r.dumper.describe.Interfaces[0].Name = "eth2"
	})
	if _, err := r.Prepare(t.Context()); err != nil {
		t.Fatal(err)
	}
	_, problems, err := r.Check(t.Context(), "v1", 0)
	if err != nil {
		t.Fatal(err)
	}
	for i, want := range []string{
		"requester: version v0, this is v1", "requester: it lacks CAP_NET_ADMIN",
		"requester: its clock is off by about -1h0m",
		"responder: interface eth1 is down", "responder: interface eth1 has an MTU of 1100, the test needs 1108",
		"dumper-1: its agent doesn't serve interface eth1",
	} {
		if i >= len(problems) || !strings.HasPrefix(problems[i], want) {
			t.Errorf("problems %q lack %q at %d", problems, want, i)
		}
	}
	if err := r.Close(); err != nil {
		t.Error(err)
	}
}

func TestSilentNamesTheDirectionThatLoses(t *testing.T) {
	r := newRack(t, func(r *rack, _ *remote.Machines, _ *testbeds.Spec) { r.hosts[1].lost = 4 })
	if _, err := r.Prepare(t.Context()); err != nil {
		t.Fatal(err)
	}
	problems, err := r.Silent(t.Context())
	if want := "responder got 6 of 10 packets that the requester sent"; err != nil || len(problems) != 1 ||
		!strings.HasPrefix(problems[0], want) {
		t.Errorf("%v, %v: want %q", problems, err, want)
	}
	if err := r.Close(); err != nil {
		t.Error(err)
	}
}

func TestWhatADumperWithAFullDiskHasWrittenIsKept(t *testing.T) {
	r := newRack(t, func(r *rack, _ *remote.Machines, _ *testbeds.Spec) {
		r.dumper.fails["finish"], r.dumper.full = refusal("no space left on device"), true
	})
	dir := t.TempDir()
	if _, err := r.run(t.Context(), dir); err == nil || !strings.Contains(err.Error(), "dumper-1: finish: no space left") {
		t.Errorf("%v", err)
	}
	if text, err := os.ReadFile(filepath.Join(dir, "dumper-1-0.pcap")); err != nil || string(text) != "copies" {
		t.Errorf("shard %q, %v", text, err)
	}
	if err := r.Close(); err != nil {
		t.Error(err)
	}
	r.free(t)
}
