package counters

import "testing"

func TestIntelOffersNoCounterOfNAKs(t *testing.T) {
	for _, c := range []struct {
		naming, rule string
		want         bool
	}{
		{"nvidia", "counters.packet-seq-err", true},
		{"intel", "counters.packet-seq-err", false},
		{"intel", "counters.cnp-sent", true},
		{"intel", ruleDiscards, true},
	} {
		if got := Offers(c.naming, c.rule); got != c.want {
			t.Errorf("Offers(%q, %q) is %v", c.naming, c.rule, got)
		}
	}
}
