package switchtest_test

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"candela.dev/candela/orchestrator/config"
	"candela.dev/candela/orchestrator/switchtest"
)

const decided = `
topology: {kind: leaf-spine, leaves: 2, spines: 2, hosts-per-leaf: 5}
switch-under-test: {model: sai, trim-size: 128, trim-dscp: 48, trim-queue: 6, buffer-bytes: 100000, SHAPER
  profiles: [{queues: [0], action: trim, limit-bytes: 12000}, {queues: [6], limit-bytes: 3000}]BUGS}
hosts: {transport: ndp, initial-window: 30}
workload: [incast: {senders: 9, packets: 60}, flow: {src: 1, dst: 9, packets: 200, transport: raw}]
expect: {sai: IGNORED}
taps: {decisions: FORMAT}
`

func decisionTest(format, bugs, shaper, expect string) string {
	return strings.NewReplacer("FORMAT", format, "BUGS", bugs, "SHAPER", shaper, "IGNORED", expect).Replace(decided)
}

func TestDecisionsOfACorrectSwitchAreWrittenAndAgreeWithTheTaps(t *testing.T) {
	for _, c := range []struct{ format, shaper string }{{"csv", ""}, {"json", ""}, {"parquet", ""},
		{"csv", "shapers: [{queues: [6], rate-gbps: 1}],"}} {
		o := run(t, parse(t, decisionTest(c.format, "", c.shaper, "pass"))[0])
		data, err := os.ReadFile(filepath.Join(o.Dir, "decisions."+c.format))
		if err != nil {
			t.Fatal(err)
		}
		lines := strings.Split(strings.TrimSpace(string(data)), "\n")
		if c.format == "parquet" && (len(data) < 10_000 || string(data[:4]) != "PAR1" ||
			string(data[len(data)-4:]) != "PAR1") {
			t.Errorf("%d bytes are no whole Parquet file", len(data)) // trace/parquet compares the values
		}
		if counts := o.Analysis.Coverage["decision"]; c.format != "parquet" && len(lines) < 1000 || counts["admitted"] == 0 ||
			counts["trimmed"] == 0 || counts["copied"] == 0 || c.shaper != "" && counts["lost"] == 0 {
			t.Errorf("%d lines, %v", len(lines), counts)
		}
		if c.format == "csv" && !strings.HasSuffix(lines[0],
			",occupancy,limit_bytes,reserved_bytes,pool-used_bytes,pool_bytes") {
			t.Errorf("head %q", lines[0])
		}
		var record struct {
			Kind   string
			Values map[string]int64
		}
		if c.format == "json" {
			if err := json.Unmarshal([]byte(lines[0]), &record); err != nil || record.Kind == "" ||
				record.Values["pool_bytes"] != 100_000 {
				t.Errorf("%v: %s", err, lines[0])
			}
		}
		for _, f := range o.Analysis.Findings {
			if f.Analyzer == "decision" {
				t.Errorf("%s: %s; expected %s", f.Rule, f.Message, f.Expected)
			}
		}
	}
}

func TestDecisionsOfASwitchThatDoesOtherThanItSaysAreContradicted(t *testing.T) {
	for bug, rule := range map[string]string{"delivers-both": "decision.contradicted",
		"drops-headers": "decision.missing"} {
		o := run(t, parse(t, decisionTest("csv", ", bugs: ["+bug+"]", "", "fail"))[0])
		found := map[string]bool{}
		for _, f := range o.Analysis.Findings {
			found[f.Rule] = true
		}
		if !found[rule] {
			t.Errorf("%s: found %v", bug, found)
		}
	}
}

func TestDecisionsOfAModelWithoutRecordsAreRefused(t *testing.T) {
	text := "name: x\ntopology: {kind: single-switch, hosts: 2}\nswitch-under-test: {model: droptail}\nworkload: [flow: " +
		"{src: 0, dst: 1, packets: 3}]\n" +
		"taps: {decisions: csv}\n"
	tests, err := config.ParseSwitchTests("f.yml", []byte(text), configOptions())
	if err != nil {
		t.Fatal(err)
	}
	if _, err = switchtest.New(tests[0]); err == nil || !strings.Contains(err.Error(), "keeps no decision records") {
		t.Errorf("%v", err)
	}
}
