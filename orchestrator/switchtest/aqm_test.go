package switchtest_test

import (
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"

	"candela.dev/candela/analyzers"
	"candela.dev/candela/analyzers/aqm"
	"candela.dev/candela/analyzers/cause/causetest"
	"candela.dev/candela/orchestrator/switchtest"
)

// aqmOverload is a port at which flows of constant rates offer more than it carries, some of them with pauses: small byte
// counts and windows make a short run show what elephants and mice do.
const aqmOverload = `
topology: {kind: single-switch, hosts: 7, link: {gbps: 100, delay-ns: 500, framing-bytes: 20}, links: [{host: 6, gbps: 10}]}
switch-under-test: {%s}
hosts: {transport: raw, packet-size: 1500, ecn: %s}
duration-us: 5000
workload:
  - cbr: {src: 0, dst: 6, rate-gbps: 2, jitter: 0.5}
  - cbr: {src: 1, dst: 6, rate-gbps: 4, jitter: 0.5}
  - cbr: {src: 2, dst: 6, rate-gbps: 6, jitter: 0.5}
  - cbr: {src: 3, dst: 6, rate-gbps: 5, on-us: 900, off-us: 700}
  - cbr: {src: 4, dst: 6, rate-gbps: 3, packet-size: 500, on-us: 300, off-us: 400}
  - flow: {src: 5, dst: 6, count: 120, packets: 8, packet-size: 700, stagger-us: 35}
`

// fast are settings of AFD with which elephants come and go within a millisecond.
const fast = "etrap-byte-count: 60000, etrap-age-period-us: 100, etrap-bandwidth-threshold-bytes: 1500"

// brief are settings of DPP of the same kind.
const brief = "dpp-max-packets: 30, dpp-age-period-us: 500"

// aqmRun returns the findings of the analyzer in a run of aqmOverload, by rule.
func aqmRun(t *testing.T, model, ecn, more string) (rules map[string]string, coverage map[string]int64) {
	t.Helper()
	o := outcome(t, fmt.Sprintf(aqmOverload, model, ecn)+more)
	if o.Analysis == nil {
		t.Fatalf("%v", o.Verdict.Reasons)
	}
	rules = make(map[string]string)
	var own []analyzers.Finding
	for _, f := range o.Analysis.Findings {
		if f.Severity != analyzers.Note && rules[f.Rule] == "" {
			rules[f.Rule] = f.Headline
		}
		if f.Analyzer == aqm.Name {
			own = append(own, f)
		}
	}
	causetest.Declared(t, aqm.Causes(), own)
	return rules, o.Analysis.Coverage[aqm.Name]
}

// settingsOf are those of a model with which its bugs show.
func settingsOf(model, bug string) (text, ecn string) {
	text, ecn = "model: "+model, "not-ect"
	if strings.HasPrefix(model, "afd") {
		text += ", " + fast
	}
	if strings.HasSuffix(model, "dpp") {
		text += ", " + brief
	}
	switch bug {
	case "drops-marked":
		return text + ", ecn: true", "ect0"
	case "double-threshold":
		return text, "ect0"
	case "system-over-interface":
		return text + ", policies: [{port: 6, queue-desired-bytes: 50000}, {queue-desired-bytes: 400000}]", ecn
	case "overfills-port", "refuses-with-room", "miscounts":
		return text + ", port-buffer-bytes: 140000", ecn
	case "slow-mean", "regular-drops":
		if strings.HasSuffix(model, "red") {
			return text + ", queue-weight: 0.02", ecn
		}
	}
	return text, ecn
}

// withRecords are bugs that the taps alone do not show: what is wrong is a claim.
var withRecords = []string{"stale-rate", "never-evicts", "late-promotion", "evicts-at-threshold", "keeps-bytes",
	"other-scope", "fair-rate-per-packet", "double-ki", "no-greatest-fair-rate", "whole-port-as-queue",
	"system-over-interface"}

// Each seeded bug violates its rule; the same switch without it violates none.
func TestSeededBugsOfActiveQueueManagementAreCaughtByTheirRule(t *testing.T) {
	seen := map[string]bool{}
	for _, m := range switchtest.Options().Switches {
		if m.Parameters.Find("port-buffer-bytes") < 0 || m.Name == "wred" || m.Name == "tail-deep" { // as red and tail-shallow
			continue
		}
		for _, b := range m.Bugs {
			if seen[b.Name] && os.Getenv("CANDELA_TEST_SILENCE") == "" {
				continue
			}
			seen[b.Name] = true
			t.Run(m.Name+"/"+b.Name, func(t *testing.T) {
				t.Parallel()
				text, ecn := settingsOf(m.Name, b.Name)
				records := ""
				if slices.Contains(withRecords, b.Name) {
					records = "taps: {decisions: csv}\n"
				}
				if rules, coverage := aqmRun(t, text, ecn, records); len(rules) > 0 || coverage["packets"] < 5000 {
					t.Errorf("without it %v are violated, %v", rules, coverage)
				}
				if rules, _ := aqmRun(t, text+", bugs: ["+b.Name+"]", ecn, records); rules[b.Rule] == "" {
					t.Errorf("violated are %v, want %s", rules, b.Rule)
				}
			})
		}
	}
}
