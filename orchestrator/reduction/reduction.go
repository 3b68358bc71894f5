// Package reduction makes failing tests small: the fewest events, and then the least traffic, with which a test still
// breaks the same rule. Events are removed by delta debugging, parameters are changed one at a time towards the
// simplest value that the test allows. The result certainly fails, because it was run; and it is deterministic unless
// time or runs were exhausted.
package reduction

import (
	"context"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"

	"candela.dev/candela/analyzers"
	"candela.dev/candela/orchestrator"
	"candela.dev/candela/orchestrator/config"
)

// Target is the failure to preserve.
type Target struct {
	Rule     string             // of a finding; empty: Reason
	Severity analyzers.Severity // of that finding
	// Reason is a reason for the verdict without its numbers, "completion of qpn #: # of # messages complete …", of a run
	// that fails without a violation.
	Reason string
}

// String names the failure.
func (t Target) String() string {
	if t.Rule != "" {
		return t.Rule
	}
	return t.Reason
}

// Shown returns the finding or reason in which a run shows the failure, and whether it does.
func (t Target) Shown(v orchestrator.Verdict, a *analyzers.Analysis) (f *analyzers.Finding, reason string, ok bool) {
	if t.Rule == "" {
		i := slices.IndexFunc(v.Reasons, func(r string) bool { return reasonKind(r) == t.Reason })
		if i < 0 || v.Exit != orchestrator.ExitFail {
			return nil, "", false
		}
		return nil, v.Reasons[i], true
	}
	if a == nil {
		return nil, "", false
	}
	i := slices.IndexFunc(a.Findings,
		func(f analyzers.Finding) bool { return f.Rule == t.Rule && f.Severity == t.Severity })
	if i < 0 {
		return nil, "", false
	}
	return &a.Findings[i], "", true
}

// ErrNoFailure is what the error about a run without anything to reduce answers to.
var ErrNoFailure = errors.New("nothing to minimize")

// TargetOf returns what a run failed with: the given rule, else that of the first violation, else the first reason for
// the verdict.
func TargetOf(v orchestrator.Verdict, a *analyzers.Analysis, rule string) (Target, error) {
	if a == nil {
		return Target{}, fmt.Errorf("%w: the run was not analysed (%s: %s)", ErrNoFailure, v.Verdict,
			strings.Join(v.Reasons, "; "))
	}
	if rule != "" {
		for _, f := range a.Findings {
			if f.Rule == rule {
				return Target{Rule: rule, Severity: f.Severity}, nil
			}
		}
		return Target{}, fmt.Errorf("%w: the run has no finding of rule %s", ErrNoFailure, rule)
	}
	if v.Exit != orchestrator.ExitFail {
		hint := ""
		if i := slices.IndexFunc(a.Findings, violates); i >= 0 {
			hint = fmt.Sprintf("; the test expects that %s is violated, which --rule %s minimizes", a.Findings[i].Rule,
				a.Findings[i].Rule)
		}
		return Target{}, fmt.Errorf("%w: the run did not fail, its verdict is %s%s", ErrNoFailure, v.Verdict, hint)
	}
	if i := slices.IndexFunc(a.Findings, violates); i >= 0 && strings.Contains(v.Reasons[0], "violation") {
		return Target{Rule: a.Findings[i].Rule, Severity: analyzers.Violation}, nil
	}
	return Target{Reason: reasonKind(v.Reasons[0])}, nil
}

func violates(f analyzers.Finding) bool { return f.Severity == analyzers.Violation }

var numbers = regexp.MustCompile(`[0-9][0-9.]*( ?(ns|us|µs|ms|s)\b)?`)

// reasonKind returns what stays of a reason when the numbers in it change.
func reasonKind(reason string) string { return numbers.ReplaceAllString(reason, "#") }

// Runner runs a test.
type Runner func(context.Context, *config.Test) (*orchestrator.Outcome, error)

// Options bound a reduction.
type Options struct {
	Config config.Options // the models that exist, to check candidates
	Runs   int            // at most; 0: no limit
	// Progress is called with each candidate that still fails; may be nil.
	Progress func(runs int, t *config.Test)
}

// Smallest is the smallest test found.
type Smallest[T any] struct {
	Target  Target
	Test    T
	Finding *analyzers.Finding // as the smallest test shows it; nil if the target is a reason
	Reason  string
	Runs    int
	// Complete is false if runs or time gave out before no simplification was left.
	Complete bool
}

// Result is the smallest test of NICs.
type Result struct{ Smallest[*config.Test] }

// Reduce makes t, which shows target, as small as it can. When ctx ends it stops with the smallest test so far. The
// error wraps [ErrNoFailure] if t does not show target.
func Reduce(ctx context.Context, t *config.Test, target Target, run Runner, o Options) (*Result, error) {
	check := func(t *config.Test) (*config.Test, error) { return recheck(t, o.Config) }
	r := &reducer{newSearch(ctx, target, run, check, o.Runs, o.Progress)}
	start, err := check(t)
	if err != nil {
		return nil, fmt.Errorf("minimize %s: %w", t.Name, err)
	}
	if err := r.exhaust(start, r.events, r.parameters); err != nil {
		return nil, err
	}
	return &Result{r.Smallest}, nil
}

// reducer is one reduction of a test of NICs in progress.
type reducer struct{ *search[*config.Test] }

// recheck validates t, which was changed in memory.
func recheck(t *config.Test, options config.Options) (*config.Test, error) {
	return orchestrator.ParseRecorded("candidate", func(name string) ([]byte, error) {
		if name == "testbed.yml" {
			return t.Testbed.YAML(), nil
		}
		return t.WithTestbedFile("testbed.yml").YAML(), nil
	}, options)
}

// event is a data or a control event.
type event struct {
	data    *config.DataEvent
	control *config.ControlEvent
}

// events leaves only those that the failure needs.
func (r *reducer) events() {
	from := r.Test
	var all []event
	for i := range from.Traffic.DataEvents {
		all = append(all, event{data: &from.Traffic.DataEvents[i]})
	}
	for i := range from.Traffic.ControlEvents {
		all = append(all, event{control: &from.Traffic.ControlEvents[i]})
	}
	ddmin(all, func(list []event) bool { return r.try(withEvents(from, list)) })
}

func withEvents(t *config.Test, list []event) *config.Test {
	c := *t
	c.Traffic.DataEvents, c.Traffic.ControlEvents = nil, nil
	for _, e := range list {
		if e.data != nil {
			c.Traffic.DataEvents = append(c.Traffic.DataEvents, *e.data)
		} else {
			c.Traffic.ControlEvents = append(c.Traffic.ControlEvents, *e.control)
		}
	}
	return &c
}
