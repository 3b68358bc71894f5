package switchtest

import (
	"slices"
	"testing"

	"candela.dev/candela/testbeds/switches"
	"candela.dev/candela/trace"
)

// Names declared by families must not collide: they name files, counters and expectations.
func TestFamiliesDeclareWhatTheRegistryCanTell(t *testing.T) {
	names := map[string]string{}
	claim := func(what, name, by string) {
		t.Helper()
		if name == "" {
			t.Errorf("%s of %s has no name", what, by)
		}
		if before, taken := names[what+" "+name]; taken {
			t.Errorf("%s %q is declared by %s and by %s", what, name, before, by)
		}
		names[what+" "+name] = by
	}
	for _, f := range families() {
		claim("family", f.Name, f.Name)
		if len(f.Reasons) > switches.MaxReasons {
			t.Errorf("%s has %d reasons, at most %d are told apart", f.Name, len(f.Reasons), switches.MaxReasons)
		}
		var rules []string
		for _, r := range slices.Concat(f.rules, Rules()) {
			rules = append(rules, r.ID)
		}
		for _, m := range f.Models {
			claim("model", m.Name, f.Name)
			for _, b := range m.Bugs {
				claim("bug of "+m.Name, b.Name, f.Name)
				if b.Rule != "" && !slices.Contains(rules, b.Rule) {
					t.Errorf("bug %s of %s is to be caught by rule %q, which nobody checks", b.Name, m.Name, b.Rule)
				}
			}
		}
		for _, r := range f.Reasons {
			claim("reason of "+f.Name, r.Name, f.Name)
		}
		for _, m := range f.Metrics {
			claim("metric", m.Name, f.Name)
		}
		for _, k := range f.Decisions {
			claim("decision of "+f.Name, k.Name, f.Name)
			if len(k.Values) > trace.DecisionValues {
				t.Errorf("decision %s of %s has %d values, a record has %d", k.Name, f.Name, len(k.Values), trace.DecisionValues)
			}
		}
	}
}
