// Package causetest compares the causes that an analyzer declares with those that it reports.
package causetest

import (
	"regexp"
	"strings"
	"testing"

	"candela.dev/candela/analyzers"
	"candela.dev/candela/analyzers/cause"
)

var codes = regexp.MustCompile(`^[a-z][a-z0-9]*(-[a-z0-9]+)*$`)

// Table checks the table of causes: each rule has one, each cause has a rule, a code of its own and a sentence.
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

// Declared checks that each finding has a cause of its rule that is declared, and a headline.
func Declared(t testing.TB, causes []cause.Cause, findings []analyzers.Finding) {
	t.Helper()
	declared := make(map[[2]string]bool, len(causes))
	for _, c := range causes {
		declared[[2]string{c.Rule, c.Code}] = true
	}
	for i := range findings {
		f := &findings[i]
		if f.Cause != cause.NotListed && !declared[[2]string{f.Rule, f.Cause}] {
			t.Errorf("a finding of %s has cause %q, which is not declared: %q", f.Rule, f.Cause, f.Headline)
		}
		if f.Headline == "" {
			t.Errorf("a finding of %s has no headline", f.Rule)
		}
	}
}

// Reported checks that the examples that causes are documented with are what the analyzer reports: each of them is the
// headline of a finding.
func Reported(t *testing.T, causes []cause.Cause, findings []analyzers.Finding) {
	t.Helper()
	Declared(t, causes, findings)
	reported := map[[2]string][]string{}
	for i := range findings {
		f := &findings[i]
		key := [2]string{f.Rule, f.Cause}
		reported[key] = append(reported[key], f.Headline)
	}
	for _, c := range causes {
		lines, want := reported[[2]string{c.Rule, c.Code}], c.Sentence()
		found := false
		for _, line := range lines {
			found = found || line == want
		}
		switch {
		case len(lines) == 0:
			t.Errorf("%s/%s is declared, but no example reports it: %q", c.Rule, c.Code, want)
		case !found:
			t.Errorf("%s/%s is documented as\n\t%s\nbut reported as\n\t%s", c.Rule, c.Code, want,
				strings.Join(lines[:min(len(lines), 8)], "\n\t"))
		}
	}
}
