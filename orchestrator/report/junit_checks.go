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

// Check is a statement that a command judged by many runs: a rule of the specification, a seeded bug, a value of a
// paper.
type Check struct {
	Name    string
	Took    time.Duration     // of the runs that it is judged by; 0: those of another check, too
	Verdict analyzers.Verdict // Invalid: it could not be judged, which is an error
	Skipped string            // why it was not judged, which is no error; empty: it was
	Kind    string            // of what did not pass, such as a rule
	Message string            // what did not pass, in a line
	Text    string            // all of it; empty: as Message
}

// CheckSuite is the checks of one subject.
type CheckSuite struct {
	Name   string
	Took   time.Duration // 0: as long as its checks
	Facts  []Fact
	Checks []Check
}

// JUnitOfChecks writes suites as one JUnit XML document. A check that failed is a failure, one that could not be judged
// an error.
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

// className is what CI servers group the cases of s by.
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

// seconds prints d as the schema wants it: with at most three digits after the point.
func seconds(d time.Duration) string { return fmt.Sprintf("%.3f", d.Seconds()) }
