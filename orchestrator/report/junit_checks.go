package report

import (
	"cmp"
	"encoding/xml"
	"fmt"
	"io"
	"strings"
	"time"

	"candela.dev/candela/analyzers"
)

// Check is a statement that a command judges by many runs: a rule of the specification, a seeded bug, a value from a
// paper.
type Check struct {
	Name    string
	Took    time.Duration     // of the runs used; 0: those of another check
	Verdict analyzers.Verdict // Invalid: it could not be judged, which is an error
	Skipped string            // reason that it was not judged, which is not an error; empty: it was
	Kind    string            // kind of failure, such as a rule
	Message string            // the failure in one line
	Text    string            // full text; empty: Message
}

// CheckSuite holds the checks of one subject.
type CheckSuite struct {
	Name   string
	Took   time.Duration // 0: the sum over its checks
	Facts  []Fact
	Checks []Check
}

// JUnitOfChecks writes suites as one JUnit XML document. A failed check is a failure; an unjudged check is an error.
func JUnitOfChecks(w io.Writer, suites []CheckSuite) error {
	var doc junitSuites
	for i := range suites {
		doc.add(suites[i].junit())
	}
	return doc.write(w)
}

func (c *CheckSuite) junit() junitSuite {
	s := junitSuite{Name: oneLine(c.Name)}
	var properties []junitProperty
	for _, f := range c.Facts {
		if f.Value != "" {
			properties = append(properties, junitProperty{oneLine(f.Name), oneLine(f.Value)})
		}
	}
	s.Properties = listed(properties)
	took := time.Duration(0)
	for i := range c.Checks {
		took += c.Checks[i].Took
		s.addCase(c.Checks[i].junit(s.className()))
	}
	s.Time = seconds(cmp.Or(c.Took, took))
	return s
}

func (c *Check) junit(class string) junitCase {
	j := junitCase{Name: oneLine(c.Name), ClassName: class, Time: seconds(c.Took)}
	d := detail(cmp.Or(c.Kind, string(c.Verdict)), c.Message, cmp.Or(c.Text, c.Message))
	switch {
	case c.Skipped != "":
		j.Skipped = &junitMessage{oneLine(c.Skipped)}
	case c.Verdict == analyzers.Fail:
		j.Failures = append(j.Failures, d)
	case c.Verdict != analyzers.Pass:
		j.Errors = append(j.Errors, d)
	}
	return j
}

// className returns the name by which CI servers group the cases of s.
func (s *junitSuite) className() string { return "candela." + strings.ReplaceAll(s.Name, ".", "_") }

// addCase appends a case and counts it.
func (s *junitSuite) addCase(c junitCase) {
	s.Cases = append(s.Cases, c)
	s.Tests++
	switch {
	case len(c.Errors) > 0:
		s.Errors++
	case len(c.Failures) > 0:
		s.Failures++
	case c.Skipped != nil:
		s.Skipped++
	}
}

// add appends a suite and its counts.
func (d *junitSuites) add(s junitSuite) {
	d.Tests += s.Tests
	d.Failures += s.Failures
	d.Errors += s.Errors
	d.Suites = append(d.Suites, s)
}

func (d *junitSuites) write(w io.Writer) error {
	d.Name = "candela"
	if _, err := io.WriteString(w, xml.Header); err != nil {
		return fmt.Errorf("write junit: %w", err)
	}
	enc := xml.NewEncoder(w)
	enc.Indent("", "  ")
	if err := enc.Encode(d); err != nil {
		return fmt.Errorf("write junit: %w", err)
	}
	if _, err := io.WriteString(w, "\n"); err != nil {
		return fmt.Errorf("write junit: %w", err)
	}
	return nil
}

// seconds formats d as the schema requires: at most three digits after the point.
func seconds(d time.Duration) string { return fmt.Sprintf("%.3f", d.Seconds()) }
