package detection

import (
	"fmt"
	"io"
	"slices"
	"strings"
	"text/tabwriter"
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

// Faults returns what is wrong with the analyzers, one line each: faults that were missed or caught by another rule,
// and false alarms. Empty: nothing.
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
func (r *Report) Text(w io.Writer, analyzers []string) error {
	var b strings.Builder
	if len(r.Bugs) > 0 {
		r.matrix(&b, analyzers)
	}
	r.summary(&b)
	for _, f := range r.Faults() {
		fmt.Fprintf(&b, "! %s\n", f)
	}
	_, err := io.WriteString(w, b.String())
	return err
}

// matrix prints bug × analyzer for the first profile; where the others differ, Faults says so.
func (r *Report) matrix(b *strings.Builder, analyzers []string) {
	t := tabwriter.NewWriter(b, 0, 0, 2, ' ', 0)
	fmt.Fprintf(t, "bug\t%s\ttest\tright rule\tverdict\n", strings.Join(analyzers, "\t"))
	first := r.Bugs[0].Profile
	for i := range r.Bugs {
		bug := &r.Bugs[i]
		if bug.Profile != first {
			continue
		}
		fmt.Fprint(t, bug.Name)
		for _, a := range append(slices.Clone(analyzers), "expect") {
			fmt.Fprintf(t, "\t%s", bug.cell(a))
		}
		fmt.Fprintf(t, "\t%s\t%s\n", bug.Rule, bug.Catch)
	}
	_ = t.Flush() // into a strings.Builder, which takes everything
}

// cell says what one analyzer had to say about a fault: the right rule, other rules, or nothing.
func (r *BugResult) cell(analyzer string) string {
	if strings.HasPrefix(r.Rule, analyzer+".") && r.Catch == Right {
		return "RIGHT"
	}
	for _, f := range r.Fired {
		if strings.HasPrefix(f.Rule, analyzer+".") {
			return "also"
		}
	}
	return "."
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
		fmt.Fprintf(b, "sound profiles × examples: %d runs, %d with violations, %d with warnings\n", n, loud, warned)
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
