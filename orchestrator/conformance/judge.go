package conformance

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"candela.dev/candela/analyzers"
	"candela.dev/candela/analyzers/cnp"
)

// Status is what is known of a rule at the end.
type Status string

// Statuses.
const (
	Pass         Status = "pass"
	Fail         Status = "fail"
	NotExercised Status = "not exercised"
)

// Result is the verdict on one rule.
type Result struct {
	Rule
	Status   Status   `json:"status"`
	Reason   string   `json:"reason,omitempty"`   // why it was not exercised
	Breaches []Breach `json:"breaches,omitempty"` // why it failed
	Shown    []string `json:"shown,omitempty"`    // the evidence, with counts
	Run      string   `json:"run,omitempty"`      // directory of the run that it was judged by
	// Elsewhere are the directories of further runs in which the same happened.
	Elsewhere []string `json:"elsewhere,omitempty"`
	// Times are findings about times of a device whose times are only reported.
	Times []Breach `json:"times,omitempty"`

	Took time.Duration `json:"-"` // of the run that it was judged by
}

// A Breach is one way in which a rule was broken.
type Breach struct {
	Judge   string   `json:"judge"` // an analyzer's rule or an expectation
	Text    string   `json:"text"`
	Packets []uint64 `json:"packets,omitempty"` // mirror sequence numbers, the offending one first
	Run     string   `json:"run"`               // directory of the run in which it happened
	Count   int      `json:"count"`             // findings of the judge; Text is the first
}

// judge decides about one rule from the run that stimulates it. A breach counts even if the evidence is incomplete: a
// NIC that breaks a rule often prevents the situation that the test needs next.
func judge(rule *Rule, o *outcome, device *Device) Result {
	r := Result{Rule: *rule}
	if o.why != "" {
		r.Status, r.Reason = NotExercised, o.why
		return r
	}
	r.Run = o.run.Dir
	if rule.Bound != Unbounded && !o.bounded[rule.Bound] {
		r.Status, r.Reason = NotExercised, "no bound was asked for: the latency is measured and not judged"
		return r
	}
	missing := r.hear(o, device)
	for _, e := range rule.Evidence {
		n, why := find(e, o)
		if n < e.Least {
			missing = append(missing, why)
			continue
		}
		r.Shown = append(r.Shown, fmt.Sprintf("%s: %d", e.label(), n))
	}
	if why := unpaced(rule, o); why != "" {
		missing = append(missing, why)
	}
	switch {
	case len(r.Breaches) > 0:
		r.Status = Fail
	case len(missing) > 0:
		r.Status, r.Reason = NotExercised, strings.Join(missing, "; ")
		if o.tries > 1 {
			r.Reason += fmt.Sprintf(" (the last of %d runs)", o.tries)
		}
	case len(r.Times) > 0:
		r.Status, r.Reason = NotExercised, "the times of an emulated machine are measured and not judged: "+r.Times[0].line()
	default:
		r.Status = Pass
	}
	return r
}

// hear evaluates the judges of a rule on its run, and returns why none of them applies, if so.
func (r *Result) hear(o *outcome, device *Device) (missing []string) {
	for _, id := range r.Judges {
		if why := device.lacks(id); why != "" {
			if !slices.Contains(missing, why) {
				missing = append(missing, why)
			}
			continue
		}
		b, ok := breachOf(id, o)
		switch {
		case !ok:
		case device.timesOnly(id, r.Bound):
			r.Times = append(r.Times, b)
		default:
			r.Breaches = append(r.Breaches, b)
		}
	}
	if slices.ContainsFunc(r.Judges, func(id string) bool { return device.lacks(id) == "" }) {
		return nil
	}
	return missing
}

// unpaced returns why a run does not show how far CNPs are apart; "" if it does.
func unpaced(rule *Rule, o *outcome) string {
	if !slices.Contains(rule.Judges, cnp.RuleInterval) {
		return ""
	}
	for i := range o.run.Report.Findings {
		if f := &o.run.Report.Findings[i]; f.Rule == cnp.RuleNotJudged {
			return f.Message
		}
	}
	return ""
}

// label names the evidence without its count.
func (e Evidence) label() string {
	e.Least = 1
	return e.String()
}

// breachOf returns what a judge has to say against the device in a run.
func breachOf(id string, o *outcome) (Breach, bool) {
	if strings.HasPrefix(id, expectPrefix) {
		for _, reason := range o.run.Verdict.Reasons {
			if strings.HasPrefix(reason, id) || id == expectCompletion && strings.HasPrefix(reason, "completion of ") ||
				id == expectData && strings.HasPrefix(reason, "data of ") {
				return Breach{Judge: id, Text: reason, Run: o.run.Dir, Count: 1}, true
			}
		}
		return Breach{}, false
	}
	var b Breach
	for i := range o.run.Report.Findings {
		f := &o.run.Report.Findings[i]
		if f.Rule != id || f.Wanted || f.Severity == analyzers.Note {
			continue
		}
		if b.Count++; b.Count == 1 {
			b.Judge, b.Run, b.Packets = id, o.run.Dir, f.Packets
			b.Text = describe(&f.Finding)
		}
	}
	return b, b.Count > 0
}

const (
	expectPrefix     = "expect."
	expectCompletion = "expect.completion"
	expectData       = "expect.data" // that the bytes that arrived are those that were sent
)

func describe(f *analyzers.Finding) string {
	switch {
	case f.Headline != "":
		return f.Headline
	case f.Expected == "" && f.Actual == "":
		return f.Message
	}
	return fmt.Sprintf("qpn %d: expected %s, actual %s", f.Connection, f.Expected, f.Actual)
}

// find returns how often a run shows the evidence and, if that is not enough, what is missing.
func find(e Evidence, o *outcome) (n int64, why string) {
	switch e.Kind {
	case Events:
		return findEvents(o)
	case Transition:
		for name, count := range o.run.Analysis.Coverage["gbn"] {
			if e.matches(name) {
				n += count
			}
		}
	case Restart:
		n = o.run.Analysis.Coverage["retrans"]["restart by "+e.Name]
	case Measured:
		for _, m := range o.run.Analysis.Metrics {
			if m.Name == e.Name && m.Connection == 0 {
				n += m.Count
			}
		}
	case Packets:
		n = o.census[e.Name]
	}
	return n, fmt.Sprintf("%s: seen %d times in test %s", e, n, o.name)
}

// findEvents returns 0 if an event of the run never fired, else how many packets they hit.
func findEvents(o *outcome) (n int64, why string) {
	for _, ev := range o.run.Report.Events {
		if ev.Hits == 0 {
			return 0, fmt.Sprintf("%s of test %s never fired: %s", ev.What, o.name, ev.Why)
		}
		n += int64(ev.Hits)
	}
	return n, "test " + o.name + " has no events"
}

// outside lists findings against the device in runs whose rules do not claim them. None may be lost: if a rule fails by
// the same judge already it is one more occurrence of that failure; if a rule applies everywhere it breaks that one;
// otherwise it is returned, each judge once.
func outside(results []Result, outcomes []outcome, device *Device) []Breach {
	var stray []Breach
	for i := range outcomes {
		o := &outcomes[i]
		if o.why != "" {
			continue
		}
		for _, id := range firedIn(o) {
			b, ok := breachOf(id, o)
			if !ok || claimed(results, id, o.run.Dir) || device.lacks(id) != "" || device.timesOnly(id, Unbounded) {
				continue
			}
			if failing := firstBrokenBy(results, id); failing != nil {
				failing.Elsewhere = append(failing.Elsewhere, b.Run)
			} else if general := everywhere(results, id); general != nil {
				general.Status, general.Reason, general.Breaches = Fail, "", append(general.Breaches, b)
			} else {
				stray = addStray(stray, b)
			}
		}
	}
	return stray
}

// firedIn lists the violations of a run, each rule once, and whether work requests ended wrongly or brought wrong data.
// Warnings count only if a rule of the catalogue says so.
func firedIn(o *outcome) []string {
	ids := []string{expectCompletion, expectData}
	for i := range o.run.Report.Findings {
		f := &o.run.Report.Findings[i]
		if f.Severity == analyzers.Violation && !f.Wanted && !slices.Contains(ids, f.Rule) {
			ids = append(ids, f.Rule)
		}
	}
	return ids
}

func claimed(results []Result, id, dir string) bool {
	return slices.ContainsFunc(results, func(r Result) bool { return r.Run == dir && slices.Contains(r.Judges, id) })
}

// firstBrokenBy returns the first rule that fails by a judge, nil if none does.
func firstBrokenBy(results []Result, id string) *Result {
	i := slices.IndexFunc(results, func(r Result) bool {
		return slices.ContainsFunc(r.Breaches, func(b Breach) bool { return b.Judge == id })
	})
	if i < 0 {
		return nil
	}
	return &results[i]
}

// everywhere returns the rule that a judge breaks in all runs, nil if there is none.
func everywhere(results []Result, id string) *Result {
	i := slices.IndexFunc(results, func(r Result) bool { return r.Everywhere && slices.Contains(r.Judges, id) })
	if i < 0 {
		return nil
	}
	return &results[i]
}

// addStray adds b to list, or counts it with an earlier breach of the same judge.
func addStray(list []Breach, b Breach) []Breach {
	for i := range list {
		if list[i].Judge == b.Judge {
			list[i].Count += b.Count
			return list
		}
	}
	return append(list, b)
}
