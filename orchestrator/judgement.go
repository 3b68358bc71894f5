package orchestrator

import (
	"candela.dev/candela/analyzers"
	"candela.dev/candela/orchestrator/config"
)

// Evidence holds the inputs of the verdict of a run without an injector.
type Evidence struct {
	Infrastructure error    // a component failed
	Integrity      []string // conditions that don't hold
	Unmet          []string // expectations that failed
	Strict         bool     // warnings fail too
	// Waived reports whether a violation of a rule is waived; nil: none is.
	Waived func(rule string) bool
}

// Judge applies the precedence of the design to e and to the findings in a. expected returns the test's expectation of
// an analyzer.
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

// Allows reports whether j expects or tolerates a violation of rule.
func Allows(j config.Judgement, rule string) bool { return allows(j, rule) }
