package orchestrator

import (
	"fmt"
	"slices"
	"strings"

	"candela.dev/candela/analyzers"
	"candela.dev/candela/analyzers/gbn"
	"candela.dev/candela/generator"
	"candela.dev/candela/injector"
	"candela.dev/candela/orchestrator/config"
	"candela.dev/candela/trace"
)

// evidence collects the inputs of the verdict. failure is an infrastructure failure or nil.
func (r *facts) evidence(failure error) evidence {
	e := evidence{infrastructure: failure, strict: r.strict, integrity: r.miscabled}
	if r.integrity != nil && r.checked == nil {
		e.integrity = append(r.integrity.Violations(), r.lossReport()...)
	}
	if r.analysis == nil {
		return e
	}
	t := r.plan.Test
	e.violations, e.unmet = expectedFindings(&t.Expect, r.analysis,
		func(rule string) bool { return r.waivers.excuse(t, rule) != nil })
	e.warnings = warnings(r.analysis, t.Testbed.SoftwareHosts())
	e.unmet = slices.Concat(e.unmet,
		r.timed().decide,
		cnpModes(t.Expect.CNP.Modes, r.analysis),
		unmetCounters(&t.Expect.Counters, &r.counters),
		unmetCompletions(t, &r.generator, r.summary, r.analysis),
		wrongData(&r.generator, rewritten(r.plan.Intents, r.hits, r.known)))
	for i, hits := range r.hits {
		if hits == 0 {
			e.unfired = append(e.unfired, fmt.Sprintf("%s never fired: %s", r.eventName(i), r.whyUnfired(&r.plan.Intents[i])))
		}
	}
	return e
}

// timed checks the expectations about times, and those that depend on them.
func (r *facts) timed() *unmet {
	t := r.plan.Test
	u := &unmet{software: !t.Testbed.HardwareTimes()}
	if t.Testbed.MeasuresWaits() {
		u.timeout = r.plan.AckTimeout
	}
	u.latencyBounds(&t.Expect.Retrans, r.analysis)
	u.trimBounds(&t.Expect.Trim, r.analysis, r.comparison)
	u.cnpCounts(t, r.summary)
	if len(t.Expect.Baseline.Metrics) > 0 {
		measured, err := Measured(r.analysis, &r.generator, &r.counters)
		if err != nil {
			u.decide = append(u.decide, "expect.baseline: "+err.Error())
		}
		u.compared(&t.Expect.Baseline, measured, r.baseline)
	}
	return u
}

// warnings counts the warnings that fail a strict run. On software hosts warnings about times do not count.
func warnings(a *analyzers.Analysis, software bool) (n int) {
	for i := range a.Findings {
		if f := &a.Findings[i]; f.Severity == analyzers.Warning && !(software && slices.Contains(TimeRules(), f.Rule)) {
			n++
		}
	}
	return n
}

// lossReport names the dumpers and switch ports that counted lost mirror copies.
func (r *facts) lossReport() []string {
	var lines []string
	for _, d := range r.counters.Dumpers {
		if d.Dropped > 0 {
			lines = append(lines, fmt.Sprintf("dumper %s had no capacity for %d of %d mirror copies", d.Name, d.Dropped,
				d.Received))
		}
		if d.SwitchDropped > 0 {
			lines = append(lines, fmt.Sprintf("the switch port towards dumper %s dropped %d mirror copies", d.Name,
				d.SwitchDropped))
		}
	}
	return lines
}

func (r *facts) eventName(i int) string {
	in := &r.plan.Intents[i]
	return fmt.Sprintf("%s (%s %s)", eventPath(in), in.Action.Type, in)
}

func eventPath(in *injector.Intent) string {
	_, path, ok := strings.Cut(in.Where, ": ")
	if !ok {
		return in.Where
	}
	path, _, _ = strings.Cut(path, " (") // the caller prints which event of a pattern it is
	return path
}

// whyUnfired explains from the traffic why an event hit no packet.
func (r *facts) whyUnfired(in *injector.Intent) string {
	f := r.summary.Flows[in.Flow]
	seen := fmt.Sprintf("last psn seen on that flow %d, iter %d", f.LastPSN, f.Rounds)
	if f.Data == 0 {
		seen = "no data packet was seen on that flow"
	}
	if status := r.failedStatus(in.Flow.Connection()); status != "" {
		seen += "; the QP failed with " + status
	}
	if in.RelPSN == 0 {
		return fmt.Sprintf("%d %s packets passed on that flow; %s", r.passed(in), in.Class, seen)
	}
	s := r.summary.watched[r.packetOf(in)]
	switch {
	case in.Class.String() != "data":
		return seen
	case s == nil || s.count == 0:
		return fmt.Sprintf("psn %d never passed; %s", in.RelPSN, seen)
	}
	return fmt.Sprintf("psn %d passed %d times, at iter %s; %s", in.RelPSN, s.count, joinInts(s.iters), seen)
}

func (r *facts) passed(in *injector.Intent) int64 {
	return r.summary.Flows[in.Flow].Classes[in.Class]
}

func joinInts(list []int) string {
	words := make([]string, len(list))
	for i, n := range list {
		words[i] = fmt.Sprint(n)
	}
	return strings.Join(words, ", ")
}

// failedStatus returns the first completion error on a connection, or "".
func (r *facts) failedStatus(connection int) string {
	for i := range r.generator.Streams {
		s := &r.generator.Streams[i]
		if s.Connection == connection {
			if s.Failure != generator.StatusNone {
				return s.Failure.String()
			}
		}
	}
	return ""
}

// unmetCompletions checks the completion status of every stream. By default all must succeed, or exceed their retries
// where the requester had to give up.
func unmetCompletions(t *config.Test, g *generator.Report, sum *Summary, a *analyzers.Analysis) []string {
	var unmet []string
	for i := range g.Streams {
		s := &g.Streams[i]
		side := config.Requester
		if s.Side == config.Responder.String() {
			side = config.Responder
		}
		name := fmt.Sprintf("completion of qpn %d", s.Connection)
		if side == config.Responder {
			name += " (requests of the responder)"
		}
		want := t.Expect.CompletionOf(s.Connection, side)
		total := t.TrafficFrom(side, s.Connection).Messages
		if want == nil || want.Status == generator.Success {
			if done := successes(s); done < total && !(want == nil && gaveUp(a, s)) {
				unmet = append(unmet, fmt.Sprintf("%s: %s", name, incomplete(s, done, total)))
			}
			continue
		}
		if s.Failure != want.Status {
			unmet = append(unmet, fmt.Sprintf("expect.completion: %s: want %s, got %s", name, want.Status, outcomeOf(s, total)))
		}
		flow := trace.NewFlowID(s.Connection, side == config.Responder)
		if n := want.AfterRetries; n != nil && sum.Flows[flow].Retries != *n {
			unmet = append(unmet, fmt.Sprintf("expect.completion: %s: failed after %d retries, want %d", name,
				sum.Flows[flow].Retries, *n))
		}
	}
	return unmet
}

// gaveUp reports whether s failed because its requester exceeded its retries and package gbn found that it had to. If
// requests go in both directions, those of the other side may be flushed.
func gaveUp(a *analyzers.Analysis, s *generator.StreamReport) bool {
	switch s.Failure {
	case generator.RetryExceeded, generator.ReceiverNotReadyExceed, generator.WorkRequestFlushed:
	default:
		return false
	}
	return slices.ContainsFunc(a.Findings, func(f analyzers.Finding) bool {
		required := f.Rule == string(gbn.RuleIncomplete) || f.Rule == string(gbn.RuleNakUnanswered)
		return required && f.Severity == analyzers.Note && f.Connection == s.Connection
	})
}

func successes(s *generator.StreamReport) int {
	for _, c := range s.Statuses {
		if c.Status == generator.Success {
			return c.Count
		}
	}
	return 0
}

func incomplete(s *generator.StreamReport, done, total int) string {
	if s.Failure != generator.StatusNone {
		return fmt.Sprintf("message %d ended with %s, %d of %d succeeded", done+1, s.Failure, done, total)
	}
	return fmt.Sprintf("%d of %d messages complete, message %d is stuck", done, total, done+1)
}

func outcomeOf(s *generator.StreamReport, total int) string {
	if done := successes(s); done < total {
		return incomplete(s, done, total)
	}
	return fmt.Sprintf("%d of %d messages complete", total, total)
}
