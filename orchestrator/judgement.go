package orchestrator

import (
	"candela.dev/candela/analyzers"
	"candela.dev/candela/orchestrator/config"
)

// Evidence is everything that the verdict of a run without an injector depends on.
type Evidence struct {
	Infrastructure error    // a component failed
	Integrity      []string // conditions that don't hold
	Unmet          []string // expectations that failed
	Strict         bool     // warnings fail too
	// Waived says whether a violation of a rule is excused; nil: none is.
	Waived func(rule string) bool
}

// Judge applies the precedence of the design to e and to what the analyzers found, of which expected says what the test
// expects.
func Judge(e Evidence, a *analyzers.Analysis, expected func(analyzer string) config.Judgement, names []string) Verdict {
	all := evidence{infrastructure: e.Infrastructure, integrity: e.Integrity, strict: e.Strict}
	if a != nil {
		fired := make(map[string]map[string]int)
		for _, f := range a.Findings {
			switch f.Severity {
			case analyzers.Warning:
				all.warnings++
			case analyzers.Violation:
				if fired[f.Analyzer] == nil {
					fired[f.Analyzer] = make(map[string]int)
				}
				fired[f.Analyzer][f.Rule]++
				if !allows(expected(f.Analyzer), f.Rule) && (e.Waived == nil || !e.Waived(f.Rule)) {
					all.violations++
				}
			case analyzers.Note:
			}
		}
		for _, name := range names {
			all.unmet = append(all.unmet, missingViolations(name, expected(name), fired[name])...)
		}
	}
	all.unmet = append(all.unmet, e.Unmet...)
	return judge(all)
}

// Allows reports whether a violation of rule is what j asks for or puts up with.
func Allows(j config.Judgement, rule string) bool { return allows(j, rule) }
