package bundle_test

import (
	"bytes"
	"io"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"candela.dev/candela/orchestrator"
	"candela.dev/candela/orchestrator/bundle"
	"candela.dev/candela/orchestrator/config"
	"candela.dev/candela/orchestrator/switchtest"
)

func TestARunOfASwitchIsReproducedToTheByte(t *testing.T) {
	tests, err := config.ParseSwitchTests("f.yml", []byte(`
name: x
topology: {kind: single-switch, hosts: 9}
switch-under-test: {model: ndp-ideal}
hosts: {transport: ndp, bugs: [paces-fast]}
workload: [incast: {senders: 8, packets: 100}]
taps: {capture: true}
series-us: 5
queue-statistics: exact
results: {flows: csv, queues: parquet, metrics: csv}
`), switchtest.Options())
	if err != nil {
		t.Fatal(err)
	}
	p, err := switchtest.New(tests[0])
	if err != nil {
		t.Fatal(err)
	}
	options := orchestrator.Options{Out: t.TempDir(), Version: "1", Command: "candela",
		Wall: func() time.Time { return time.Unix(0, 0) }}
	o, err := switchtest.Run(t.Context(), p, options)
	if err != nil {
		t.Fatal(err)
	}
	pack := func() *bundle.Bundle {
		run, err := orchestrator.OpenRun(o.Dir)
		if err != nil {
			t.Fatal(err)
		}
		defer run.Close()
		var file bytes.Buffer
		if _, err := bundle.Write(&file, run, false); err != nil {
			t.Fatal(err)
		}
		b, err := bundle.Read(&file, io.Discard)
		if err != nil {
			t.Fatal(err)
		}
		return b
	}
	replay := func(b *bundle.Bundle) *bundle.Replayed {
		options.Out = t.TempDir()
		r, err := b.Replay(t.Context(), nil, switchtest.Options(), options)
		if err != nil {
			t.Fatal(err)
		}
		return r
	}
	if r := replay(pack()); !r.Reproduced() || r.Matched < 11 || r.Outcome.Verdict.Exit != orchestrator.ExitFail {
		t.Errorf("%d files are the same, these differ: %v; verdict %s", r.Matched, r.Differences, r.Outcome.Verdict.Verdict)
	}
	for _, name := range []string{"flows.csv", "queues.parquet", "queue-series.parquet", "metrics.csv", "queues.json"} {
		listed := slices.IndexFunc(pack().Manifest.Files, func(f bundle.File) bool { return f.Name == name })
		if listed < 0 || pack().Manifest.Files[listed].Stored != (name == "queues.json") {
			t.Errorf("%s is not listed, or not as it should be", name)
		}
	}
	before := filepath.Join(o.Dir, "taps", "before.pcap")
	if err := os.WriteFile(before, []byte("not what was recorded"), 0o600); err != nil {
		t.Fatal(err)
	}
	if r := replay(pack()); r.Reproduced() || len(r.Differences) != 1 || r.Differences[0].Name != "taps/before.pcap" {
		t.Errorf("a capture that is not the run's is no difference: %v", r.Differences)
	}
}
