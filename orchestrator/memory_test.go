package orchestrator

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"

	"candela.dev/candela/orchestrator/config"
	"candela.dev/candela/orchestrator/plan"
	"candela.dev/candela/testbeds"
	"candela.dev/candela/testbeds/virtual"
)

// differentRuns are tests that leave different state in a switch.
var differentRuns = []string{
	"name: drop\ntraffic:\n  message-size: 10240\n  data-pkt-events: [{qpn: 1, psn: 5, type: drop}]\n",
	"name: many\nseed: 9\ntraffic:\n  num-connections: 5\n  bidirectional: true\n  rdma-verb: [read, send]\n  " +
		"num-msgs-per-qp: 3\n  message-size: 5000\n" +
		"  control-pkt-events: [{qpn: 2, packet: ack, nth: 1, type: drop}]\n  data-pkt-events: [{qpn: 3, psn: 2, iter: " +
		"any, type: ecn}]\n",
	"name: quiet\ntraffic:\n  message-size: 100\n",
	"name: packet-scope\ntraffic:\n  message-size: 4096\n  iter-scope: packet\n  data-pkt-events: [{qpn: 1, psn: 2, " +
		"iter: 1, type: drop}, {qpn: 1, psn: 2, iter: 2, type: drop}]\n",
	"name: delayed\ntraffic:\n  message-size: 4096\n  data-pkt-events: [{qpn: 1, psn: 2, type: delay, delay-us: 30}]\n",
}

func planned(t *testing.T, text string) *plan.Plan {
	t.Helper()
	test, err := config.Parse("test.yml", []byte(text), config.Options{})
	if err != nil {
		t.Fatal(err)
	}
	p, err := plan.New(test)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// TestARunOnAUsedSwitchEqualsAFreshOneToTheByte runs each test after each other test: on a rack with a run directory,
// in memory on a Scratch, and on its own testbed.
func TestARunOnAUsedSwitchEqualsAFreshOneToTheByte(t *testing.T) {
	var rack, other virtual.Rack
	s := NewScratch(func(spec testbeds.Spec) (Testbed, error) { return other.Build(spec) })
	t.Cleanup(func() {
		s.Close()
		if err := errors.Join(rack.Close(), other.Close()); err != nil {
			t.Error(err)
		}
	})
	run := func(p *plan.Plan, build Builder) (*Outcome, map[string]string) {
		t.Helper()
		o, err := Run(t.Context(), p, build, Options{Out: t.TempDir(), ID: "run", NoReports: true, Wall: noWall})
		if err != nil || o.Analysis == nil {
			t.Fatalf("%s: %v, %+v", p.Test.Name, err, o)
		}
		return o, filesBelow(t, o.Dir)
	}
	for i := range 2 * len(differentRuns) {
		p := planned(t, differentRuns[i*3%len(differentRuns)])
		want, fresh := run(p, func(spec testbeds.Spec) (Testbed, error) { return virtual.New(spec) })
		_, used := run(p, func(spec testbeds.Spec) (Testbed, error) { return rack.Build(spec) })
		delete(fresh, "log.jsonl") // logs whether the pipeline was pushed
		delete(used, "log.jsonl")
		if diff := cmp.Diff(fresh, used); diff != "" {
			t.Fatalf("%s, run %d: (-fresh +used)\n%s", p.Test.Name, i+1, diff)
		}
		o, err := s.Run(t.Context(), p.Test)
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff([]any{want.Verdict, want.Analysis, want.Generator},
			[]any{o.Verdict, o.Analysis, o.Generator}); diff != "" {
			t.Fatalf("%s, run %d: (-fresh +scratch)\n%s", p.Test.Name, i+1, diff)
		}
		for name, text := range fresh {
			if filepath.Ext(name) == ".pcap" && string(s.memory.capture(name)) != text {
				t.Fatalf("%s, run %d: %s of the scratch differs", p.Test.Name, i+1, name)
			}
		}
	}
}

func filesBelow(t *testing.T, dir string) map[string]string {
	t.Helper()
	files := make(map[string]string)
	err := fs.WalkDir(os.DirFS(dir), ".", func(name string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		data, err := os.ReadFile(filepath.Join(dir, name))
		files[name] = string(data)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return files
}
