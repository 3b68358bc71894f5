package orchestrator

import (
	"fmt"
	"slices"
	"strings"

	"candela.dev/candela/analyzers"
	"candela.dev/candela/analyzers/cnp"
	"candela.dev/candela/clock"
	"candela.dev/candela/orchestrator/config"
)

// judgements maps each analyzer to the test's expectation.
func judgements(e *config.Expect) map[string]config.Judgement {
	return map[string]config.Judgement{
		"gbn":      e.GBN,
		"retrans":  e.Retrans.Judgement,
		"cnp":      e.CNP.Judgement,
		"rp":       e.RP,
		"trim":     e.Trim.Judgement,
		"fields":   e.Fields.Judgement,
		"counters": e.Counters.Judgement,
	}
}

// expectedFindings compares the violations in a with the expectations. It returns the number of violations that count
// against the device, and the expectations that failed. Expected and waived violations do not count.
func expectedFindings(e *config.Expect, a *analyzers.Analysis, waived func(rule string) bool) (violations int,
	unmet []string) {
	fired := map[string]map[string]int{} // analyzer → rule → violations
	for _, f := range a.Findings {
		if f.Severity != analyzers.Violation {
			continue
		}
		if fired[f.Analyzer] == nil {
			fired[f.Analyzer] = map[string]int{}
		}
		fired[f.Analyzer][f.Rule]++
	}
	wanted := judgements(e)
	for name, rules := range fired {
		j := wanted[name]
		for rule, n := range rules {
			if !allows(j, rule) && !waived(rule) {
				violations += n
			}
		}
	}
	for _, name := range analyzerNames {
		unmet = append(unmet, missingViolations(name, wanted[name], fired[name])...)
	}
	return violations, unmet
}

// allows reports whether j expects or tolerates a violation of rule.
func allows(j config.Judgement, rule string) bool {
	return j.Outcome == config.OutcomeFail || slices.Contains(j.Violations, rule) || slices.Contains(j.Tolerated, rule)
}

func missingViolations(name string, j config.Judgement, fired map[string]int) []string {
	var unmet []string
	switch j.Outcome {
	case config.OutcomeFail:
		if len(fired) == 0 {
			unmet = append(unmet, fmt.Sprintf("expect.%s: a violation was expected, there is none", name))
		}
	case config.OutcomeRules:
		for _, rule := range j.Violations {
			if fired[rule] == 0 {
				unmet = append(unmet, fmt.Sprintf("expect.%s.violations: %s was expected and did not fire (%s)", name, rule,
					firedRules(fired)))
			}
		}
	case config.OutcomeUnset, config.OutcomePass:
	}
	return unmet
}

func firedRules(fired map[string]int) string {
	if len(fired) == 0 {
		return "no rule of this analyzer did"
	}
	var rules []string
	for rule := range fired {
		rules = append(rules, rule)
	}
	slices.Sort(rules)
	return "fired: " + strings.Join(rules, ", ")
}

// latencyBounds checks retransmission latencies against the metrics over all connections.
func (u *unmet) latencyBounds(e *config.RetransExpect, a *analyzers.Analysis) {
	for _, b := range []struct {
		key, metric string
		bound       *config.Bound
	}{
		{"nack-generation-us", "retrans.nack-generation", e.NackGeneration},
		{"nack-reaction-us", "retrans.nack-reaction", e.NackReaction},
		{"retransmission-us", "retrans.retransmission", e.Retransmission},
		{"timeout-us", "retrans.timeout", e.Timeout},
	} {
		u.bound("expect.retrans."+b.key, b.bound, findMetric(a, b.metric, 0))
	}
}

// unmet collects the expectations that a run did not meet.
type unmet struct {
	// software is set if the hosts are software: their times are those of a host CPU, not of NIC hardware.
	software bool
	// timeout is the shortest ACK timeout of a run that would have ended if a host had waited for a quarter of it; 0:
	// waits were not measured.
	timeout  clock.Duration
	decide   []string // expectations that decide the verdict
	reported []string // expectations about times of software hosts
}

// bound checks the values of a metric. Their number is judged on every testbed. On software hosts a value is judged
// only if it is further out of bounds than scheduling waits explain. A wait at the start of a span shortens it; waits
// at four places of a round trip lengthen it.
func (u *unmet) bound(name string, b *config.Bound, m analyzers.Metric) {
	if b == nil {
		return
	}
	if b.Count != nil && m.Count != *b.Count {
		u.decide = append(u.decide, fmt.Sprintf("%s: %d values measured, want %d", name, m.Count, *b.Count))
	}
	if m.Count == 0 {
		if b.Count == nil && b.LimitsTime() { // a bound must be tested by at least one value
			u.decide = append(u.decide, name+": nothing was measured")
		}
		return
	}
	for _, l := range b.Limits() {
		u.limit(name, l, m, b.Firm)
	}
}

// limit checks one limit of a bound. Waits shift mean and percentiles by no more than they shift a single value.
func (u *unmet) limit(name string, l config.BoundLimit, m analyzers.Metric, firm bool) {
	low, high := m.Min, m.Max
	small, large := "smallest", "largest"
	switch l.Key {
	case "mean":
		low, high = m.Sum/m.Count, m.Sum/m.Count
	case "p50":
		low, high = m.P50, m.P50
	case "p99":
		low, high = m.P99, m.P99
	}
	if l.What != "" {
		small, large = l.What, l.What
	}
	if got := clock.Duration(low) * clock.Nanosecond; l.Min != nil && got < *l.Min {
		is, want := clock.TextApart(got, *l.Min)
		u.timed(fmt.Sprintf("%s: %s of %d values is %s, want at least %s", name, small, m.Count, is, want),
			firm || u.timeout > 0 && got+u.timeout/4 < *l.Min)
	}
	if got := clock.Duration(high) * clock.Nanosecond; l.Max != nil && got > *l.Max {
		is, want := clock.TextApart(got, *l.Max)
		u.timed(fmt.Sprintf("%s: %s of %d values is %s, want at most %s", name, large, m.Count, is, want),
			firm || u.timeout > 0 && got-u.timeout > *l.Max)
	}
}

// timed adds an expectation about times. It decides the verdict on hardware hosts or if firm.
func (u *unmet) timed(text string, firm bool) {
	if u.software && !firm {
		u.reported = append(u.reported, text+" (reported, not judged: the hosts are software)")
		return
	}
	u.decide = append(u.decide, text)
}

// findMetric returns the metric of that name and connection; empty if nothing was measured.
func findMetric(a *analyzers.Analysis, name string, connection int) analyzers.Metric {
	for _, m := range a.Metrics {
		if m.Name == name && m.Connection == connection {
			return m
		}
	}
	return analyzers.Metric{Name: name, Connection: connection}
}

// cnpCounts checks the number of CNPs of each connection. With a minimum time between CNPs that number depends on the
// arrival times of marked packets.
func (u *unmet) cnpCounts(t *config.Test, s *Summary) {
	for i, n := range t.Expect.CNP.PerConnection {
		if 2*i+1 >= len(s.Flows) {
			break // the configuration check has refused more entries than connections
		}
		if got := s.Flows[2*i].CNPs + s.Flows[2*i+1].CNPs; got != int64(n) {
			u.timed(fmt.Sprintf("expect.cnp.per-connection[%d]: qpn %d has %d CNPs, want %d", i, i+1, got, n), !t.WaitsForCNPs())
		}
	}
}

// cnpModes checks that every pacing mode of want explains the CNPs of both sides. The analyzer notes the matching modes
// where CNPs were paced.
func cnpModes(want []config.CNPPacing, a *analyzers.Analysis) []string {
	if len(want) == 0 {
		return nil
	}
	var unmet []string
	judged := false
	for _, f := range a.Findings {
		if f.Rule != cnp.RuleMode {
			continue
		}
		judged = true
		fitting := strings.Split(f.Actual, ", ")
		for i, mode := range want {
			if !slices.Contains(fitting, strings.TrimPrefix(mode.String(), "per-")) {
				unmet = append(unmet, fmt.Sprintf("expect.cnp.modes[%d]: %s does not explain the CNPs; %s", i, mode, f.Message))
			}
		}
	}
	if !judged {
		unmet = append(unmet, "expect.cnp.modes: there were no CNPs to explain")
	}
	return unmet
}
