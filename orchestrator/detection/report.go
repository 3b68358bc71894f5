package detection

import (
	"fmt"
	"io"
	"slices"
	"strings"

	"candela.dev/candela/orchestrator/report"
)

// Report is everything that a bench measured.
type Report struct {
	Schema    string          `json:"schema"`
	Bugs      []BugResult     `json:"bugs"`
	Silence   []SilenceResult `json:"silence"`
	Scenarios ScenarioResult  `json:"scenarios"`
}

// ReportSchema names the format of a Report in JSON.
const ReportSchema = "candela.detection/v1"

// Faults returns the faults of the analyzers, one line each: bugs that were missed or caught by another rule, and false
// alarms.
func (r *Report) Faults() []string {
	var list []string
	for i := range r.Bugs {
		b := &r.Bugs[i]
		if b.Catch == Unjudged {
			list = append(list, fmt.Sprintf("bug %s on profile %s: not judged: %s", b.Name, b.Profile, b.Why))
			continue
		}
		if b.Catch != Right && b.Catch != NotApplicable && b.Catch != Unobservable {
			list = append(list, fmt.Sprintf("bug %s on profile %s: %s (want %s, fired %s)", b.Name, b.Profile, b.Catch, b.Rule,
				ruleList(b.Fired)))
		}
		if len(b.Sound) > 0 {
			list = append(list, fmt.Sprintf("the test of bug %s on profile %s without the bug: false alarm of %s", b.Name,
				b.Profile,
				strings.Join(b.Sound, ", ")))
		}
	}
	for i := range r.Silence {
		s := &r.Silence[i]
		if len(s.Violated) > 0 {
			list = append(list, fmt.Sprintf("example %s on profile %s: false alarm of %s\n  %s", s.Test, s.Profile,
				strings.Join(s.Violated, ", "), strings.Join(s.Details, "\n  ")))
		}
	}
	for i := range r.Scenarios.Alarms {
		a := &r.Scenarios.Alarms[i]
		list = append(list, fmt.Sprintf("scenario %d on profile %s: false alarm\n  %s", a.Scenario, a.Profile,
			strings.Join(slices.Concat(a.Reasons, a.Findings), "\n  ")))
	}
	return list
}

func ruleList(fired []Fired) string {
	if len(fired) == 0 {
		return "nothing"
	}
	names := make([]string, len(fired))
	for i, f := range fired {
		names[i] = f.Rule
	}
	return strings.Join(names, ", ")
}

// Text prints the matrix, the summaries, and what is wrong.
func (r *Report) Text(w io.Writer) error {
	var b strings.Builder
	if len(r.Bugs) > 0 {
		r.matrix(&b)
	}
	r.summary(&b)
	for _, f := range r.Faults() {
		fmt.Fprintf(&b, "! %s\n", f)
	}
	_, err := io.WriteString(w, b.String())
	return err
}

// matrix prints, for the first profile, how each bug was noticed; Faults lists differences of the others.
func (r *Report) matrix(b *strings.Builder) {
	columns := []report.Column{{Head: "bug"}, {Head: "verdict"}, {Head: "right rule"}, {Head: "also fired"}}
	var rows [][]string
	for i := range r.Bugs {
		if bug := &r.Bugs[i]; bug.Profile == r.Bugs[0].Profile {
			rows = append(rows, []string{bug.Name, string(bug.Catch), bug.Rule, bug.others()})
		}
	}
	_ = report.Grid(b, report.TextOptions{}, 0, columns, 1, rows) // into a strings.Builder, which takes everything
}

// others are the rules that fired besides the right one.
func (r *BugResult) others() string {
	var names []string
	for _, f := range r.Fired {
		if f.Rule != r.Rule {
			names = append(names, f.Rule)
		}
	}
	return strings.Join(names, ", ")
}

// summary counts.
func (r *Report) summary(b *strings.Builder) {
	var catches = map[Catch]int{}
	for i := range r.Bugs {
		catches[r.Bugs[i].Catch]++
	}
	if n := len(r.Bugs); n > 0 {
		fmt.Fprintf(b, "\nbugs: %d, profiles: %d: %d caught by the right rule (%.1f %%), %d by another one only, %d "+
			"missed; %d not applicable\n",
			n/profileCount(r.Bugs), profileCount(r.Bugs), catches[Right],
			100*float64(catches[Right])/float64(max(1, n-catches[NotApplicable]-catches[Unobservable])),
			catches[Other], catches[Missed], catches[NotApplicable])
	}
	if n := catches[Unobservable]; n > 0 {
		fmt.Fprintf(b, "bugs that software hosts do not show: %d\n", n)
		for i := range r.Bugs {
			if bug := &r.Bugs[i]; bug.Catch == Unobservable {
				fmt.Fprintf(b, "  %s on %s: %s\n", bug.Name, bug.Profile, bug.Why)
			}
		}
	}
	if n := len(r.Silence); n > 0 {
		loud, warned := 0, 0
		for i := range r.Silence {
			loud += min(1, len(r.Silence[i].Violated))
			warned += min(1, len(r.Silence[i].Warned))
		}
		fmt.Fprintf(b, "compliant profiles × examples: %d runs, %d with violations, %d with warnings\n", n, loud, warned)
	}
	if n := r.Scenarios.Scenarios; n > 0 {
		fmt.Fprintf(b, "random scenarios: %d with %d events that fired, %d false alarms\n", n, r.Scenarios.Events,
			len(r.Scenarios.Alarms))
	}
}

func profileCount(bugs []BugResult) int {
	var names []string
	for i := range bugs {
		if !slices.Contains(names, bugs[i].Profile) {
			names = append(names, bugs[i].Profile)
		}
	}
	return len(names)
}
