package orchestrator

import (
	"slices"

	"candela.dev/candela/analyzers"
)

// TimeRules lists the rules that compare a span between packets at the injector with a timer.
func TimeRules() []string {
	return []string{"gbn.timeout-early", "gbn.rnr-early", "retrans.timeout-early", "retrans.timeout-late",
		"retrans.rnr-early"}
}

// reportTimes downgrades violations of TimeRules to warnings, except those that the packet order proves (see
// [proveTimes]). A loaded or emulating machine delays packets on their way to the injector by as much as a timer runs,
// so only the test's own expectations judge times.
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
	a.Add("", analyzers.Result{}) // updates the verdict
}
