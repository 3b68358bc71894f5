package conformance

import (
	"cmp"
	"encoding/json"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"
)

// ReportSchema names the format of a Report in JSON.
const ReportSchema = "candela.conformance/v1"

// Report is the qualification of one profile.
type Report struct {
	Schema  string   `json:"schema"`
	Version string   `json:"version"` // of the tool
	Profile string   `json:"profile"`
	Device  string   `json:"device,omitempty"` // if it is not a model; Profile has the defaults that it was tried with
	Bugs    []string `json:"bugs,omitempty"`
	// Peer is the profile of the other side if two were tested together, Role the side of Profile.
	Peer   string `json:"peer,omitempty"`
	Role   string `json:"role,omitempty"`
	Runs   int    `json:"runs"`
	Passed int    `json:"passed"`
	Failed int    `json:"failed"`
	// NotExercised counts the rules whose situation did not occur, so that nothing is known.
	NotExercised int      `json:"not_exercised"`
	Results      []Result `json:"results"`
	// Outside are violations that belong to no rule of the catalogue. They fail the qualification, too.
	Outside []Breach `json:"outside,omitempty"`
	// Broken are the runs in which a component failed both times. The device may have caused it, so that the rest is not a
	// qualification.
	Broken []Broken `json:"broken,omitempty"`

	Took time.Duration `json:"-"` // of all runs
}

// Broken is a run that came to no end.
type Broken struct {
	Run    string `json:"run"`
	Reason string `json:"reason"`
}

// Breached reports whether a rule was broken, one of the catalogue or another.
func (r *Report) Breached() bool { return r.Failed > 0 || len(r.Outside) > 0 }

// OK reports whether every rule that was exercised passed, at least one was, every run ended, and nothing else was
// found.
func (r *Report) OK() bool { return !r.Breached() && len(r.Broken) == 0 && r.Passed > 0 }

func (s *Suite) report(rules []Rule, outcomes []outcome) *Report {
	r := &Report{Schema: ReportSchema, Version: s.Version, Profile: s.Profile, Bugs: s.Bugs}
	if s.Device != nil {
		r.Device = s.Device.Name
	}
	if s.Peer != "" {
		r.Peer, r.Role = s.Peer, s.Role.String()
	}
	byName := make(map[string]*outcome, len(outcomes))
	for i := range outcomes {
		byName[outcomes[i].name] = &outcomes[i]
		if outcomes[i].run != nil {
			r.Runs++
		}
		if outcomes[i].broken {
			r.Broken = append(r.Broken, Broken{outcomes[i].name, outcomes[i].why})
		}
	}
	for i := range rules {
		o := byName[rules[i].run()]
		result := judge(&rules[i], o, s.Device)
		result.Took = o.took
		r.Results = append(r.Results, result)
	}
	r.Outside = outside(r.Results, outcomes, s.Device)
	for i := range r.Results {
		switch r.Results[i].Status {
		case Pass:
			r.Passed++
		case Fail:
			r.Failed++
		case NotExercised:
			r.NotExercised++
		}
	}
	slices.SortStableFunc(r.Results, func(a, b Result) int { return compareClauses(a.Clause, b.Clause) })
	return r
}

// compareClauses orders clauses as the specification does: number by number, annexes at the end.
func compareClauses(a, b string) int {
	return slices.CompareFunc(strings.Split(a, "."), strings.Split(b, "."), func(x, y string) int {
		return cmp.Or(cmp.Compare(len(x), len(y)), cmp.Compare(x, y))
	})
}

// JSON writes the report for programs.
func (r *Report) JSON(w io.Writer) error {
	enc := json.NewEncoder(w)
	enc.SetEscapeHTML(false)
	enc.SetIndent("", "  ")
	return enc.Encode(r)
}

// Text writes the report for a terminal: what failed or was not exercised in full, the rest in one line each if
// verbose.
func (r *Report) Text(w io.Writer, verbose bool) error {
	var b strings.Builder
	fmt.Fprintf(&b, "Qualification of %s\n", r.subject())
	clause := ""
	for i := range r.Results {
		res := &r.Results[i]
		if !verbose && res.Status == Pass {
			continue
		}
		if res.clause() != clause {
			clause = res.clause()
			fmt.Fprintf(&b, "\n%s\n", clause)
		}
		fmt.Fprintf(&b, "  %-13s  %s: %s\n", strings.ToUpper(string(res.Status)), res.ID, res.Statement)
		res.details(&b, "                 ")
	}
	for i := range r.Outside {
		fmt.Fprintf(&b, "\nno rule of the catalogue, but a violation\n  %s\n", r.Outside[i].line())
	}
	for _, broken := range r.Broken {
		fmt.Fprintf(&b, "\nno verdict on %s\n  %s\n", broken.Run, broken.Reason)
	}
	fmt.Fprintf(&b, "\n%s\n", r.summary())
	_, err := io.WriteString(w, b.String())
	return err
}

func (r *Report) subject() string {
	if r.Device != "" {
		return r.Device
	}
	subject := "profile " + r.Profile
	if len(r.Bugs) > 0 {
		subject += " with bugs " + strings.Join(r.Bugs, ", ")
	}
	if r.Peer != "" {
		subject += fmt.Sprintf(" as %s against %s", r.Role, r.Peer)
	}
	return subject
}

func (r *Report) summary() string {
	s := fmt.Sprintf("%d rules in %d runs: %d pass, %d fail, %d not exercised", len(r.Results), r.Runs, r.Passed, r.Failed,
		r.NotExercised)
	if n := len(r.Outside); n > 0 {
		s += fmt.Sprintf("; %d violations outside the catalogue", n)
	}
	if n := len(r.Broken); n > 0 {
		s += fmt.Sprintf("; %d runs without a verdict", n)
	}
	return s
}

// clause names the source of a rule; "in" says that only the section is known.
func (r *Rule) clause() string {
	source := "IBTA volume 1, "
	if strings.HasPrefix(r.Clause, "A") {
		source = "IBTA annex "
	}
	if r.SectionOnly {
		source += "in "
	}
	source += r.Clause
	if r.Basis != "" {
		return source + "; " + r.Basis
	}
	return source
}

func (r *Result) details(b *strings.Builder, indent string) {
	if r.Reason != "" {
		fmt.Fprintf(b, "%s%s\n", indent, r.Reason)
	}
	for i := range r.Breaches {
		fmt.Fprintf(b, "%s%s\n%srun %s\n", indent, r.Breaches[i].line(), indent, r.Breaches[i].Run)
	}
	for i := range r.Times {
		fmt.Fprintf(b, "%stime, not judged: %s\n", indent, r.Times[i].line())
	}
	if n := len(r.Elsewhere); n > 0 {
		fmt.Fprintf(b, "%sthe same in %d other cases, first in %s\n", indent, n, r.Elsewhere[0])
	}
}

func (b *Breach) line() string {
	s := b.Judge + ": " + strings.TrimPrefix(b.Text, b.Judge+": ")
	if len(b.Packets) > 0 || b.Count > 1 {
		s = strings.TrimSuffix(s, ".")
	}
	if len(b.Packets) > 0 {
		s += fmt.Sprintf(", mirror #%d", b.Packets[0])
	}
	if b.Count > 1 {
		s += fmt.Sprintf(" (and %d more)", b.Count-1)
	}
	return s
}

// Markdown writes the qualification report for people: a summary, a table by clause, and every failure with its
// evidence.
func (r *Report) Markdown(w io.Writer) error {
	var b strings.Builder
	fmt.Fprintf(&b, "# Qualification of %s\n\n%s.\n\n", r.subject(), r.summary())
	b.WriteString("A rule passes if its situation occurred and nothing broke it. A clause after *in* is the section " +
		"that holds the rule; " +
		"the paragraph is not claimed. Clause numbers are those that Candela's analyzers use and were not compared with " +
		"the text " +
		"of the specification.\n")
	r.markdownTable(&b)
	r.markdownDetails(&b, Fail, "Failures")
	r.markdownDetails(&b, NotExercised, "Not exercised")
	if len(r.Outside) > 0 {
		b.WriteString("\n## Violations outside the catalogue\n\n")
		for i := range r.Outside {
			fmt.Fprintf(&b, "- %s, run `%s`\n", escape(r.Outside[i].line()), r.Outside[i].Run)
		}
	}
	if len(r.Broken) > 0 {
		b.WriteString("\n## Runs without a verdict\n\n")
		for _, broken := range r.Broken {
			fmt.Fprintf(&b, "- `%s`: %s\n", broken.Run, escape(broken.Reason))
		}
	}
	_, err := io.WriteString(w, b.String())
	return err
}

func (r *Report) markdownTable(b *strings.Builder) {
	b.WriteString("\n| clause | rule | verbs | statement | stimulus | result | shown |\n|---|---|---|---|---|---|---|\n")
	for i := range r.Results {
		res := &r.Results[i]
		fmt.Fprintf(b, "| %s | %s | %s | %s | %s (`%s`) | %s | %s |\n", res.clause(), res.ID, strings.Join(res.Verbs, ", "),
			escape(res.Statement), escape(res.Stimulus), res.run(), res.Status, escape(strings.Join(res.Shown, "; ")))
	}
}

func (r *Report) markdownDetails(b *strings.Builder, status Status, title string) {
	first := true
	for i := range r.Results {
		res := &r.Results[i]
		if res.Status != status {
			continue
		}
		if first {
			fmt.Fprintf(b, "\n## %s\n", title)
			first = false
		}
		fmt.Fprintf(b, "\n**%s** (%s). %s\n\n", res.ID, res.clause(), escape(res.Statement))
		if res.Reason != "" {
			fmt.Fprintf(b, "- %s\n", escape(res.Reason))
		}
		for j := range res.Breaches {
			fmt.Fprintf(b, "- %s, run `%s`\n", escape(res.Breaches[j].line()), res.Breaches[j].Run)
		}
		for j := range res.Times {
			fmt.Fprintf(b, "- time, not judged: %s, run `%s`\n", escape(res.Times[j].line()), res.Times[j].Run)
		}
		if n := len(res.Elsewhere); n > 0 {
			fmt.Fprintf(b, "- the same in %d other cases, first in `%s`\n", n, res.Elsewhere[0])
		}
	}
}

// escape keeps text from being taken for a table's border or for emphasis.
func escape(s string) string { return strings.NewReplacer("|", `\|`, "*", `\*`, "\n", " ").Replace(s) }
