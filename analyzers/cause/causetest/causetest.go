// Package causetest compares the causes that an analyzer declares with those that it reports.
package causetest

import (
	"flag"
	"fmt"
	"os"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"

	"candela.dev/candela/analyzers"
	"candela.dev/candela/analyzers/cause"
)

var codes = regexp.MustCompile(`^[a-z][a-z0-9]*(-[a-z0-9]+)*$`)

// Table checks the table of causes: each rule has a cause; each cause has a known rule, a unique code and a sentence.
func Table(t *testing.T, rules []analyzers.Rule, causes []cause.Cause) {
	t.Helper()
	seen := map[string]bool{}
	explained := map[string]bool{}
	for _, c := range causes {
		key := c.Rule + "/" + c.Code
		if seen[key] {
			t.Errorf("%s is declared twice", key)
		}
		seen[key], explained[c.Rule] = true, true
		if !codes.MatchString(c.Code) || c.Code == cause.NotListed {
			t.Errorf("%s: %q is no code", c.Rule, c.Code)
		}
		if s := c.Sentence(); !strings.HasSuffix(s, ".") || strings.Contains(s, "%!") {
			t.Errorf("%s: %q is no sentence", key, s)
		}
	}
	known := map[string]bool{}
	for _, r := range rules {
		known[r.ID] = true
		if !explained[r.ID] {
			t.Errorf("rule %s has no cause", r.ID)
		}
	}
	for rule := range explained {
		if !known[rule] {
			t.Errorf("there are causes of %s, which is no rule", rule)
		}
	}
}

// Declared checks that each finding has a headline and a declared cause of its rule.
func Declared(t testing.TB, causes []cause.Cause, findings []analyzers.Finding) {
	t.Helper()
	for _, fault := range undeclared(causes, findings) {
		t.Error(fault)
	}
}

func undeclared(causes []cause.Cause, findings []analyzers.Finding) (faults []string) {
	declared := make(map[[2]string]bool, len(causes))
	for _, c := range causes {
		declared[[2]string{c.Rule, c.Code}] = true
	}
	for i := range findings {
		f := &findings[i]
		if f.Cause != cause.NotListed && !declared[[2]string{f.Rule, f.Cause}] {
			faults = append(faults, fmt.Sprintf("a finding of %s has cause %q, which is not declared: %q", f.Rule, f.Cause,
				f.Headline))
		}
		if f.Headline == "" {
			faults = append(faults, fmt.Sprintf("a finding of %s has no headline", f.Rule))
		}
	}
	return faults
}

// Reported checks that each documented example is the headline of a finding.
func Reported(t *testing.T, causes []cause.Cause, findings []analyzers.Finding) {
	t.Helper()
	Declared(t, causes, findings)
	for _, fault := range compare(causes, findings) {
		t.Error(fault)
	}
}

func compare(causes []cause.Cause, findings []analyzers.Finding) (faults []string) {
	reported := map[[2]string][]string{}
	for i := range findings {
		f := &findings[i]
		key := [2]string{f.Rule, f.Cause}
		reported[key] = append(reported[key], f.Headline)
	}
	for _, c := range causes {
		lines, want := reported[[2]string{c.Rule, c.Code}], c.Sentence()
		switch {
		case len(lines) == 0:
			faults = append(faults, fmt.Sprintf("%s/%s is declared, but no example reports it: %q", c.Rule, c.Code, want))
		case !slices.Contains(lines, want):
			faults = append(faults, fmt.Sprintf("%s/%s is documented as\n\t%s\nbut reported as\n\t%s", c.Rule, c.Code, want,
				strings.Join(lines[:min(len(lines), 8)], "\n\t")))
		}
	}
	return faults
}

// A Book has what all tests of a package have made an analyzer report.
type Book struct {
	causes   []cause.Cause
	mu       sync.Mutex
	findings []analyzers.Finding
}

// NewBook returns an empty book on the causes of an analyzer.
func NewBook(causes []cause.Cause) *Book { return &Book{causes: causes} }

// Add checks that findings have declared causes, and keeps them.
func (b *Book) Add(t testing.TB, findings []analyzers.Finding) {
	t.Helper()
	Declared(t, b.causes, findings)
	b.Keep(findings)
}

// Keep keeps findings, whose causes [Book.Main] checks, and returns them.
func (b *Book) Keep(findings []analyzers.Finding) []analyzers.Finding {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.findings = append(b.findings, findings...)
	return findings
}

// Main runs the tests of a package and then checks, as [Reported] does, that they made the analyzer report all causes.
// It returns the exit status. If only some tests are selected it checks nothing.
func (b *Book) Main(m *testing.M) int {
	flag.Parse()
	status := m.Run()
	for _, name := range []string{"test.run", "test.skip", "test.bench", "test.fuzz", "test.list"} {
		if f := flag.Lookup(name); f != nil && f.Value.String() != "" {
			return status
		}
	}
	faults := append(undeclared(b.causes, b.findings), compare(b.causes, b.findings)...)
	for _, fault := range faults {
		fmt.Fprintln(os.Stderr, fault)
	}
	if status == 0 && len(faults) > 0 {
		return 1
	}
	return status
}
