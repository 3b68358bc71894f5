package deflect

import (
	"fmt"
	"testing"

	"candela.dev/candela/analyzers"
	"candela.dev/candela/analyzers/cause/causetest"
	"candela.dev/candela/deflect"
)

func TestEveryRuleHasCausesWithSentences(t *testing.T) { causetest.Table(t, Rules(), Causes()) }

func violations(r *analyzers.Result) (first map[string]string) {
	first = make(map[string]string)
	for _, f := range r.Findings {
		if f.Severity != analyzers.Note && first[f.Rule] == "" {
			first[f.Rule] = f.Headline
		}
	}
	return first
}

// schemes are settings of each scheme and of each variant of PD.
func schemes() map[string]deflect.Settings {
	pd := deflect.Settings{Scheme: deflect.PD, Alpha: 300_000, Choices: 2, Window: 20, Sample: 3, Boost: true}
	with := func(change func(s *deflect.Settings)) deflect.Settings {
		s := pd
		change(&s)
		return s
	}
	return map[string]deflect.Settings{
		"ecmp": {Scheme: deflect.ECMP}, "naive": {Scheme: deflect.Naive}, "dibs": {Scheme: deflect.DIBS},
		"sd": {Scheme: deflect.SD}, "vertigo": {Scheme: deflect.Vertigo, Choices: 2}, "quantile": pd,
		"inclusive":   {Scheme: deflect.SD, Inclusive: true},
		"not-ingress": {Scheme: deflect.SD, Eligible: deflect.NotIngress},
		"exact":       with(func(s *deflect.Settings) { s.Relative = deflect.DistExact }),
		"oracle":      with(func(s *deflect.Settings) { s.Relative = deflect.Oracle }),
		"ewma": with(func(s *deflect.Settings) {
			s.Relative, s.Divisor, s.Unit = deflect.DistEWMA, 50, 1500
		}),
		"probabilistic": with(func(s *deflect.Settings) { s.Probabilistic, s.MinThreshold = true, 2000 }),
		"tie-first":     with(func(s *deflect.Settings) { s.TieFirst = true }),
		"alpha-0":       with(func(s *deflect.Settings) { s.Alpha = 0 }),
	}
}

// Switches that follow the reference model are not blamed, whatever the scheme, what their ingress sees, and whether
// they keep records.
func TestCompliantSwitchesAreNotBlamed(t *testing.T) {
	for name, set := range schemes() {
		for _, info := range []deflect.Info{deflect.Exact, deflect.Snapshot, deflect.Recirculated} {
			for _, records := range []bool{true, false} {
				if set.Scheme == deflect.Vertigo && info != deflect.Exact {
					continue
				}
				t.Run(fmt.Sprintf("%s/%d/%v", name, info, records), func(t *testing.T) {
					set.Info = info
					s := newSim(set)
					s.records = records
					r := s.run(t, 2500)
					if v := violations(&r); len(v) > 0 {
						t.Errorf("violated are %v, %v", v, r.Coverage)
					}
					judged := r.Coverage["decisions"]
					if records && (judged < 2500 || r.Coverage["deflected"] < 60 != (set.Scheme == deflect.ECMP)) {
						t.Errorf("judged: %v", r.Coverage)
					}
				})
			}
		}
	}
}

// Every fault is found by its rule.
func TestFaultsAreFoundByTheirRule(t *testing.T) {
	for _, c := range []struct {
		fault, scheme, rule string
		info                deflect.Info
		taps                bool // it shows without records, too
	}{
		{"gives-up", "dibs", deflect.RuleRoom, deflect.Exact, true},
		{"to-hosts", "dibs", deflect.RuleTarget, deflect.Exact, true},
		{"to-hosts", "sd", deflect.RuleTarget, deflect.Exact, true},
		{"to-hosts", "quantile", deflect.RuleTarget, deflect.Exact, false},
		{"eager", "dibs", deflect.RuleNeedless, deflect.Exact, true},
		{"eager", "sd", deflect.RuleNeedless, deflect.Exact, true},
		{"eager", "alpha-0", deflect.RuleNeedless, deflect.Exact, true},
		{"always-deflects", "vertigo", deflect.RuleNeedless, deflect.Exact, false},
		{"half-threshold", "quantile", deflect.RuleVerdict, deflect.Exact, false},
		{"half-threshold", "exact", deflect.RuleVerdict, deflect.Exact, true},
		{"half-threshold", "oracle", deflect.RuleVerdict, deflect.Snapshot, true},
		{"half-threshold", "ewma", deflect.RuleVerdict, deflect.Exact, true},
		{"eager", "quantile", deflect.RuleImportant, deflect.Exact, true},
		{"counts-larger", "quantile", deflect.RuleMonotone, deflect.Exact, false},
		{"counts-larger", "quantile", deflect.RuleVerdict, deflect.Exact, false},
		{"no-short-circuit", "quantile", deflect.RuleWindow, deflect.Exact, false},
		{"first-free", "dibs", deflect.RuleChoice, deflect.Exact, true},
		{"five-bits", "sd", deflect.RuleChoice, deflect.Exact, true},
		{"ends-early", "inclusive", deflect.RuleChoice, deflect.Exact, false},
		{"skips-itself", "sd", deflect.RuleChoice, deflect.Exact, false},
		{"same-pair", "quantile", deflect.RuleChoice, deflect.Exact, false},
		{"one-candidate", "quantile", deflect.RuleChoice, deflect.Exact, false},
		{"longest", "quantile", deflect.RuleChoice, deflect.Exact, false},
		{"longest", "vertigo", deflect.RuleChoice, deflect.Exact, false},
		{"biased-draw", "probabilistic", deflect.RuleChoice, deflect.Exact, false},
		{"coarse", "probabilistic", deflect.RuleChoice, deflect.Exact, false},
		{"scans", "dibs", deflect.RuleChoice, deflect.Exact, true},
		{"adjacent", "quantile", deflect.RuleChoice, deflect.Exact, false},
		{"reorders", "sd", deflect.RuleOrder, deflect.Exact, true},
		{"reorders", "vertigo", deflect.RuleOrder, deflect.Exact, false},
		{"first-victim", "vertigo", deflect.RuleVictim, deflect.Exact, false},
		{"never-pulls", "vertigo", deflect.RuleVictim, deflect.Exact, false},
		{"displaces-first", "vertigo", deflect.RuleOrder, deflect.Exact, false},
		{"rushes", "ecmp", deflect.RuleFloor, deflect.Exact, true},
		{"never-updates", "sd", deflect.RuleStale, deflect.Snapshot, false},
		{"never-updates", "dibs", deflect.RuleStale, deflect.Recirculated, false},
		{"drops-good", "quantile", deflect.RuleDropped, deflect.Exact, false},
		{"lies", "dibs", deflect.RuleRecord, deflect.Exact, false},
		{"lies", "dibs", deflect.RuleStale, deflect.Snapshot, false},
		{"miscounts", "sd", deflect.RuleCounters, deflect.Exact, false},
	} {
		for _, records := range []bool{true, false} {
			if !records && !c.taps {
				continue
			}
			t.Run(fmt.Sprintf("%s/%s/%s/%v", c.fault, c.scheme, c.rule, records), func(t *testing.T) {
				set := schemes()[c.scheme]
				set.Info = c.info
				s := newSim(set)
				s.fault, s.records = c.fault, records
				packets := 2500
				if c.fault == "five-bits" && !records { // fewer draws tell
					packets = 8000
				}
				if c.fault == "scans" { // which differ only if some ports are full, and several are not
					packets = 30_000
				}
				r := s.run(t, packets)
				if v := violations(&r); v[c.rule] == "" {
					t.Errorf("violated are %v, %v", v, r.Coverage)
				}
			})
		}
	}
}
