package report

import (
	"bytes"
	"encoding/xml"
	"errors"
	"io"
	"os/exec"
	"slices"
	"strings"
	"testing"
	"time"

	"candela.dev/candela/analyzers"
	"candela.dev/candela/orchestrator/report/junitschema"
)

func junit(t *testing.T, reports ...*Report) []byte {
	t.Helper()
	var b bytes.Buffer
	if err := JUnit(&b, reports); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

func TestJUnitMatchesGoldenFiles(t *testing.T) {
	for name, r := range fixtures() {
		t.Run(name, func(t *testing.T) {
			golden(t, name+".xml", junit(t, r))
		})
	}
}

func TestJUnitIsWellFormed(t *testing.T) {
	for name, r := range fixtures() {
		dec := xml.NewDecoder(bytes.NewReader(junit(t, r, r)))
		for {
			_, err := dec.Token()
			if errors.Is(err, io.EOF) {
				break
			}
			if err != nil {
				t.Fatalf("%s: %v", name, err)
			}
		}
	}
}

func TestXmllintAcceptsJUnit(t *testing.T) {
	xmllint, err := exec.LookPath("xmllint")
	if err != nil {
		t.Skip("xmllint is not installed (Debian: libxml2-utils)")
	}
	for name, r := range fixtures() {
		cmd := exec.Command(xmllint, "--noout", "--nonet", "-")
		cmd.Stdin = bytes.NewReader(junit(t, r))
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Errorf("%s: %v\n%s", name, err, out)
		}
	}
}

func TestJUnitAgreesWithTheVerdict(t *testing.T) {
	infrastructure := passing()
	infrastructure.Verdict, infrastructure.Reasons = analyzers.Invalid, []string{"requester: agent is gone"}
	strict := warningsOnly()
	strict.Verdict, strict.Reasons = analyzers.Fail, []string{"2 warnings (--strict)"}
	unmet := passing()
	unmet.Verdict, unmet.Reasons = analyzers.Fail, []string{"expect.cnp.per-connection[0]: qpn 1 has 2 CNPs, want 1"}
	alsoUnfired := failing()
	alsoUnfired.Events[0].Hits = 0
	for name, c := range map[string]struct {
		r                         *Report
		failures, errors, skipped int
	}{
		"a pass has neither failures nor errors":            {passing(), 0, 0, 0},
		"violations and unmet expectations are failures":    {failing(), 3, 0, 0},
		"an expectation fails its case and the verdict":     {unmet, 2, 0, 0},
		"warnings under --strict are one failure":           {strict, 1, 0, 0},
		"broken integrity is an error":                      {withoutIntegrity(), 0, 1, 0},
		"an event that never fired is an error":             {unfired(), 0, 2, 0},
		"an infrastructure failure is an error":             {infrastructure, 0, 1, 0},
		"an unfired event next to a violation is a failure": {alsoUnfired, 4, 0, 0},
		"a waived violation is skipped":                     {excused(), 0, 0, 1},
		"warnings pass":                                     {warningsOnly(), 0, 0, 0},
	} {
		t.Run(name, func(t *testing.T) {
			s := suiteOf(c.r, testName(c.r))
			if s.Failures != c.failures || s.Errors != c.errors || s.Skipped != c.skipped {
				t.Errorf("failures %d, errors %d, skipped %d; want %d, %d, %d", s.Failures, s.Errors, s.Skipped, c.failures,
					c.errors, c.skipped)
			}
		})
	}
}

func TestJUnitReportsAWriteError(t *testing.T) {
	if err := JUnit(brokenWriter{}, []*Report{failing()}); !errors.Is(err, errFull) {
		t.Error(err)
	}
}

func TestJUnitHasTheRealDuration(t *testing.T) {
	r := failing()
	r.Took = 1500 * time.Millisecond
	s := suiteOf(r, testName(r))
	if s.Time != "1.500" || s.Cases[len(s.Cases)-1].Time != s.Time {
		t.Errorf("the suite took %s s, its verdict %s s; want 1.5 s", s.Time, s.Cases[len(s.Cases)-1].Time)
	}
}

func TestJUnitHasTheStructureOfItsSchema(t *testing.T) {
	var all []*Report
	for _, r := range fixtures() {
		all = append(all, r)
	}
	all = append(all, &Report{Name: "refused", Refused: "not for this testbed"}, &Report{Name: "wrong", Wrong: "a key"},
		&Report{Name: "not run", NotRun: "the command was stopped"})
	if err := junitschema.Check(bytes.NewReader(junit(t, all...))); err != nil {
		t.Error(err)
	}
}

func TestChecksBecomeCases(t *testing.T) {
	suite := CheckSuite{Name: "conform cx5", Facts: []Fact{{"tool", "v1"}, {"empty", ""}}, Checks: []Check{
		{Name: "passes", Took: 1500 * time.Millisecond, Verdict: analyzers.Pass},
		{Name: "fails", Took: time.Second, Verdict: analyzers.Fail, Kind: "gbn.nak-psn", Message: "It\nfailed.",
			Text: "a\nb"},
		{Name: "unjudged", Verdict: analyzers.Invalid, Message: "no run"},
		{Name: "not exercised", Verdict: analyzers.Pass, Skipped: "did not occur"},
	}}
	var b bytes.Buffer
	if err := JUnitOfChecks(&b, []CheckSuite{suite}); err != nil {
		t.Fatal(err)
	}
	if err := junitschema.Check(bytes.NewReader(b.Bytes())); err != nil {
		t.Error(err)
	}
	golden(t, "checks.xml", b.Bytes())
}

func TestMetadataIsInEveryReport(t *testing.T) {
	r := passing()
	r.Metadata = []Fact{{"id", "TC-17"}, {"owner", "NIC team"}, {"requirement", "REQ 4"}, {"issue", "#12"}}
	var text, page bytes.Buffer
	if err := errors.Join(Text(&text, r, TextOptions{}), HTML(&page, r)); err != nil {
		t.Fatal(err)
	}
	for _, f := range r.Metadata {
		said := f.Name + " " + f.Value
		if !strings.Contains(strings.Join(strings.Fields(text.String()), " "), said) {
			t.Errorf("the text lacks %q", said)
		}
		if !strings.Contains(page.String(), said) {
			t.Errorf("the page lacks %q", said)
		}
		property := `<property name="` + f.Name + `" value="` + f.Value + `">`
		if !strings.Contains(string(junit(t, r)), property) {
			t.Errorf("JUnit lacks %s", property)
		}
		if !slices.Contains(r.Entry().Metadata, said) {
			t.Errorf("the index lacks %q", said)
		}
	}
}

func TestASummaryCountsErrorsAndWhatWasNotRun(t *testing.T) {
	broken := passing()
	broken.Verdict, broken.Broken, broken.Reasons = analyzers.Invalid, true, []string{"agent is gone"}
	unrun := &Report{Name: "last", File: "last.yml", NotRun: "the command was stopped"}
	var b bytes.Buffer
	if err := SuiteText(&b, []*Report{passing(), broken, unrun}, nil, TextOptions{}); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"2 runs: 1 pass, 0 fail, 0 invalid, 1 error; 1 not run", "NOT RUN  last", "ERROR",
		"the command was stopped"} {
		if !strings.Contains(b.String(), want) {
			t.Errorf("the summary lacks %q:\n%s", want, &b)
		}
	}
}

func TestAWrapperFitsLinesToTheTerminal(t *testing.T) {
	var b bytes.Buffer
	w := NewWrapper(&b, TextOptions{Width: 24})
	if _, err := io.WriteString(w, "  FAIL  µs one two three four five\nshort\n  "+
		"plain one two three four five"); err != nil {
		t.Fatal(err)
	}
	if err := w.Flush(); err != nil {
		t.Fatal(err)
	}
	want := "  FAIL  µs one two\n        three four\n        five\nshort\n  plain one two three\n    four five"
	if b.String() != want {
		t.Errorf("got\n%s\nwant\n%s", &b, want)
	}
}
