package report

import (
	"cmp"
	"encoding/xml"
	"fmt"
	"io"
	"strconv"
	"strings"
	"time"

	"candela.dev/candela/analyzers"
)

// JUnit writes reports as one JUnit XML document. Each run is a testsuite with a testcase for integrity, for the
// events, for each analyzer and for the expectations:
//
//   - Violations that count and failed expectations are failures.
//   - An invalid verdict and a wrong file are errors.
//   - An analyzer whose violations are all waived is skipped, and so is a test that was refused or not run.
//
// Tests of the same name are distinguished by their files. A failing run has at least one failure, an invalid run at
// least one error, a passing run neither.
func JUnit(w io.Writer, reports []*Report) error {
	doc := junitSuites{Suites: make([]junitSuite, 0, len(reports))}
	names := newNaming(reports)
	for _, r := range reports {
		doc.add(suiteOf(r, names.of(r)))
	}
	return doc.write(w)
}

// The elements follow the schema read by Jenkins and GitLab (junit-10.xsd of the Jenkins xUnit plugin).
type (
	junitSuites struct {
		XMLName  xml.Name     `xml:"testsuites"`
		Name     string       `xml:"name,attr"`
		Tests    int          `xml:"tests,attr"`
		Failures int          `xml:"failures,attr"`
		Errors   int          `xml:"errors,attr"`
		Suites   []junitSuite `xml:"testsuite"`
	}
	junitSuite struct {
		Name     string `xml:"name,attr"`
		Tests    int    `xml:"tests,attr"`
		Failures int    `xml:"failures,attr"`
		Errors   int    `xml:"errors,attr"`
		Skipped  int    `xml:"skipped,attr"`
		// Time is the duration of the run in seconds. In a run directory, which is reproducible, it is the duration of the
		// trace.
		Time       string           `xml:"time,attr"`
		Properties *junitProperties `xml:"properties"` // nil: none; the schema does not allow an empty list
		Cases      []junitCase      `xml:"testcase"`
		Output     string           `xml:"system-out,omitempty"`
	}
	junitProperties struct {
		List []junitProperty `xml:"property"`
	}
	junitProperty struct {
		Name  string `xml:"name,attr"`
		Value string `xml:"value,attr"`
	}
	junitCase struct {
		Name      string        `xml:"name,attr"`
		ClassName string        `xml:"classname,attr"`
		Time      string        `xml:"time,attr"`
		Skipped   *junitMessage `xml:"skipped,omitempty"`
		Errors    []junitDetail `xml:"error"`
		Failures  []junitDetail `xml:"failure"`
	}
	junitMessage struct {
		Message string `xml:"message,attr"`
	}
	junitDetail struct {
		Message string `xml:"message,attr"`
		Type    string `xml:"type,attr"`
		Text    string `xml:",chardata"`
	}
)

func suiteOf(r *Report, name string) junitSuite {
	if r.Repeat > 0 {
		name += fmt.Sprintf(" (repeat %d)", r.Repeat)
	}
	s := junitSuite{Name: name, Time: duration(r), Properties: properties(r)}
	for _, c := range cases(r) {
		c.ClassName, c.Time = s.className(), "0"
		if c.Name == "verdict" { // the other cases are judged in the same run
			c.Time = s.Time
		}
		s.addCase(c)
	}
	var out strings.Builder
	// A strings.Builder never fails.
	_ = Text(&out, r, TextOptions{})
	s.Output = out.String()
	return s
}

// duration returns the duration of the run, in seconds; if unknown that of the trace.
func duration(r *Report) string {
	if r.Took > 0 {
		return seconds(r.Took)
	}
	return seconds(time.Duration(max(r.SpanNS, 0)))
}

func properties(r *Report) *junitProperties {
	var ps []junitProperty
	add := func(name, value string) {
		if value != "" {
			ps = append(ps, junitProperty{oneLine(name), oneLine(value)})
		}
	}
	add("file", r.File)
	add("testbed", r.Testbed)
	if r.Testbed != "" && r.unrun() == "" {
		add("seed", strconv.FormatUint(r.Seed, 10))
	}
	add("directory", r.Dir)
	for _, f := range r.Metadata {
		add(f.Name, f.Value)
	}
	for _, f := range r.Facts {
		add(f.Name, f.Value)
	}
	return listed(ps)
}

func listed(ps []junitProperty) *junitProperties {
	if len(ps) == 0 {
		return nil
	}
	return &junitProperties{ps}
}

// cases returns the testcases of r. The last one, "verdict", has the result of the verdict and all reasons.
func cases(r *Report) []junitCase {
	if why := cmp.Or(r.Refused, r.NotRun); why != "" {
		return []junitCase{{Name: "verdict", Skipped: &junitMessage{Message: oneLine(why)}}}
	}
	if r.Wrong != "" {
		return []junitCase{{Name: "verdict", Errors: []junitDetail{detail("wrong-file", r.Wrong, r.Wrong)}}}
	}
	unmet := expectationsUnmet(r)
	var all []junitCase
	if len(r.Events) > 0 {
		all = append(all, eventCase(r))
	}
	t := textReport{Report: r}
	for _, name := range r.analyzerNames() {
		all = append(all, t.analyzerCase(name))
	}
	expectations := junitCase{Name: "expectations"}
	for _, reason := range unmet {
		expectations.Failures = append(expectations.Failures, detail("expectation", reason, reason))
	}
	return append(all, expectations, verdictCase(r))
}

// expectationsUnmet returns the reasons that are failed expectations: "expect.key: what" or "completion of qpn 1:
// what".
func expectationsUnmet(r *Report) []string {
	var unmet []string
	for _, reason := range r.Reasons {
		expectation := strings.HasPrefix(reason, "expect.") || strings.HasPrefix(reason, "completion of ")
		if expectation && r.Verdict == analyzers.Fail {
			unmet = append(unmet, reason)
		}
	}
	return unmet
}

// eventCase is an error if an event never fired and the run is invalid, and a failure if the run fails.
func eventCase(r *Report) junitCase {
	c := junitCase{Name: "events"}
	if r.Verdict == analyzers.Pass {
		return c
	}
	for _, e := range r.unfired() {
		text := e.What + " never fired"
		if e.Why != "" {
			text += ": " + e.Why
		}
		d := detail("unfired-event", text, text+"\n"+e.Where)
		if r.Verdict == analyzers.Fail {
			c.Failures = append(c.Failures, d)
		} else {
			c.Errors = append(c.Errors, d)
		}
	}
	return c
}

// maxDetails bounds the failures of one testcase, because CI servers show all of them.
const maxDetails = 50

func (t *textReport) analyzerCase(name string) junitCase {
	c := junitCase{Name: oneLine(name)}
	waived := 0
	var reasons []string
	counting := t.findings(func(f *Finding) bool {
		return f.Analyzer == name && f.counts() &&
			t.Verdict != analyzers.Pass
	})
	for i := range t.Findings {
		if f := &t.Findings[i]; f.Analyzer == name && f.Waiver != "" {
			waived++
			reasons = append(reasons, f.Rule+" waived: "+f.Waiver)
		}
	}
	for i, g := range groups(counting) {
		if i == maxDetails {
			hidden := flat(groups(counting)[i:])
			text := "and " + moreOf(len(hidden), "finding") + ": " + ruleCounts(hidden)
			c.Failures = append(c.Failures, detail("more", text, text))
			break
		}
		c.Failures = append(c.Failures, detail(g[0].Rule, t.headline(g), t.findingText(g)))
	}
	if len(counting) == 0 && waived > 0 {
		c.Skipped = &junitMessage{oneLine(strings.Join(reasons, "\n"))}
	}
	return c
}

// findingText returns a group of findings as on a terminal, without colour.
func (t *textReport) findingText(g group) string {
	var b strings.Builder
	one := textReport{printer: newPrinter(&b, TextOptions{}), Report: t.Report}
	one.newline()
	one.finding(g)
	// A strings.Builder never fails.
	_ = one.Flush()
	return b.String()
}

// verdictCase fails if the run does, with all reasons.
func verdictCase(r *Report) junitCase {
	c := junitCase{Name: "verdict"}
	if r.Verdict == analyzers.Pass {
		return c
	}
	text := strings.Join(r.Reasons, "\n")
	if text == "" {
		text = "the verdict is " + string(cmp.Or(r.Verdict, "unknown"))
	}
	if r.Verdict == analyzers.Fail {
		c.Failures = append(c.Failures, detail("fail", text, text))
	} else {
		c.Errors = append(c.Errors, detail("invalid", text, text))
	}
	return c
}

// detail returns a failure or error with a one-line message.
func detail(kind, message, text string) junitDetail {
	return junitDetail{Type: oneLine(kind), Message: oneLine(message), Text: strings.Join(cleanLines(text), "\n")}
}
