package orchestrator

import (
	"slices"

	"candela.dev/candela/analyzers"
)

// TimeRules are the analyzers' rules that compare a span between packets at the injector with what a timer promises.
func TimeRules() []string {
	return []string{"gbn.timeout-early", "gbn.rnr-early", "retrans.timeout-early", "retrans.timeout-late",
		"retrans.rnr-early"}
}

// reportTimes makes violations of such rules warnings, but for those that the order of packets proves (see
// [proveTimes]). A machine that emulates its guests, or has other things to do, holds packets up on their way to the
// injector for as long as a timer runs: what is asked of times then is what the test expects.
func reportTimes(a *analyzers.Analysis, proofs map[uint64]string) {
	rules := TimeRules()
	for i := range a.Findings {
		f := &a.Findings[i]
		if f.Severity != analyzers.Violation || !slices.Contains(rules, f.Rule) {
			continue
		}
		if len(f.Packets) > 0 && slices.Contains(earlyRules, f.Rule) {
			if proof := proofs[f.Packets[0]]; proof != "" {
				f.Message += " (" + proof + ")"
				continue
			}
		}
		f.Severity = analyzers.Warning
		f.Message += " (reported, not judged: the hosts are software)"
	}
	a.Add("", analyzers.Result{}) // brings the verdict up to date
}
