package retrans_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"candela.dev/candela/analyzers"
	"candela.dev/candela/analyzers/retrans"
	"candela.dev/candela/analyzers/rounds"
	"candela.dev/candela/analyzers/tracetest"
	"candela.dev/candela/packet"
	"candela.dev/candela/trace"
)

const (
	knownT = 65_536     // of known
	slowT  = 67_108_864 // of slow
	// noProgress is the zero value of ProgressNS in these tables, where 0 is a time.
	noProgress = rounds.Never
)

// follow feeds hand-made restarts on connection 2 to a new analyzer. Bounds are judged to the nanosecond.
func follow(cfg retrans.Config, steps []restart) []analyzers.Finding {
	meta := tracetest.Meta(tracetest.Connections(2, false))
	a := retrans.New(meta, cfg)
	for i, s := range steps {
		s.step.Flow, s.step.Place, s.step.Marks = trace.NewFlowID(2, false), 7, rounds.Restart|rounds.Retransmitted
		r := trace.Record{ID: uint64(40 + i), TimeNS: s.ns, Flow: s.step.Flow, PSN: 0xabc, Opcode: packet.WriteOnly,
			Flags: trace.Sent | trace.Passed}
		a.Follow(&r, &s.step)
	}
	return a.Finish().Findings
}

// A restart is a step and the instant at which it is seen.
type restart struct {
	ns   int64
	step rounds.Step
}

// TestBoundsOfTheTimer judges restarts at each bound and one nanosecond off.
func TestBoundsOfTheTimer(t *testing.T) {
	exact := retrans.Config{Default: known, HostDelayNS: 1, JitterNS: 1}
	patient := retrans.Config{Default: slow, HostDelayNS: 1000, JitterNS: 1000}
	timeout := func(s rounds.Step) rounds.Step {
		s.Cause, s.Certain, s.Retries = rounds.Timeout, true, 1
		return s
	}
	since := func(timer int64) rounds.Step {
		return timeout(rounds.Step{ProgressNS: noProgress, TimerNS: timer, ActivityNS: noProgress})
	}
	progress := func(stall int64) rounds.Step {
		return timeout(rounds.Step{ProgressNS: 1, TimerNS: noProgress, ActivityNS: noProgress, StallNS: stall})
	}
	doubt := func(ns int64) rounds.Step {
		s := since(0)
		s.DoubtNS = ns
		return s
	}
	late := func(activity int64) rounds.Step {
		return timeout(rounds.Step{ProgressNS: noProgress, TimerNS: noProgress, ActivityNS: activity})
	}
	withExponent := func(cfg retrans.Config, e uint8) retrans.Config {
		cfg.Default.TimeoutExponent = e
		return cfg
	}
	const longest, slowestT = 4096 << 31, 4096 << 16
	patientest := withExponent(retrans.Config{Default: slow, JitterNS: 1}, 16)
	tests := []struct {
		name    string
		cfg     retrans.Config
		ns      int64
		step    rounds.Step
		convict string
	}{
		{"T after the timer may have started", exact, knownT - 1, since(0), ""},
		{"1 ns less", exact, knownT - 2, since(0), "timeout-early"},
		{"T after progress", exact, knownT + 1, progress(0), ""},
		{"1 ns less after progress, stalled for too short a time", exact, knownT, progress(knownT - 3), "timeout-early"},
		{"1 ns less after progress, but the timer may have run for T", exact, knownT, progress(knownT - 2), ""},
		{"nothing says when the timer started", exact, 5, since(noProgress), ""},
		{"progress long ago excuses nothing", patient, 1 + 502_001, progress(slowT), "timeout-early"},
		{"progress of just now excuses a timer that had run for T", patient, 1 + 502_000, progress(slowT - 2000), ""},
		{"but not one that had run for less", patient, 1 + 502_000, progress(slowT - 2001), "timeout-early"},
		{"progress that never was excuses nothing", patient, 400_000, func() rounds.Step {
			s := since(0)
			s.StallNS = slowT
			return s
		}(), "timeout-early"},
		{"the default bound of the host's delay is 20 ms", patientest, 1 + 40_500_000, progress(slowestT - 40_000_000), ""},
		{"and not more", patientest, 1 + 40_500_000, progress(slowestT - 40_000_001), "timeout-early"},
		{"but at most T/4", retrans.Config{Default: known, JitterNS: 1}, 1 + 60_000, progress(knownT / 2), ""},
		{"and not less", retrans.Config{Default: known, JitterNS: 1}, 1 + 60_000, progress(knownT/2 - 1), "timeout-early"},
		{"at least twice the links' delay", retrans.Config{Default: known, JitterNS: 1, LinkDelayNS: 10_000}, 1 + 60_000,
			progress(knownT - 40_000), ""},
		{"and exactly that", retrans.Config{Default: known, JitterNS: 1, LinkDelayNS: 10_000}, 1 + 60_000,
			progress(knownT - 40_001), "timeout-early"},
		{"a restart before this one may have been the timer's", exact, 5, doubt(knownT - 1), ""},
		{"or may not", exact, 5, doubt(knownT - 2), "timeout-early"},
		{"without a restart before it there is no doubt, whatever the jitter",
			retrans.Config{Default: known, HostDelayNS: 1, JitterNS: knownT}, 5, progress(0), "timeout-early"},
		{"without a timer it was a NAK's", withExponent(exact, 0), 5, doubt(knownT), "timer-off"},
		{"4 T and the jitter after the latest packet", exact, 4*knownT + 1, late(0), ""},
		{"1 ns more", exact, 4*knownT + 2, late(0), "timeout-late"},
		{"no packet before", exact, 1 << 50, late(noProgress), ""},
		{"a packet just before the start of time", exact, 4*knownT + 1, late(-1), "timeout-late"},
		{"the longest T", withExponent(exact, 31), longest - 2, since(0), "timeout-early"},
		{"the longest T has passed", withExponent(exact, 31), longest - 1, since(0), ""},
		{"more than the field can say is the longest T", withExponent(exact, 32), longest - 2, since(0), "timeout-early"},
		{"and that has passed", withExponent(exact, 32), longest - 1, since(0), ""},
		{"an uncertain cause", exact, 5, func() rounds.Step {
			s := since(0)
			s.Certain = false
			return s
		}(), ""},
		{"unknown parameters", retrans.Config{HostDelayNS: 1, JitterNS: 1, Default: retrans.Params{TimeoutExponent: 4}}, 5,
			since(0), ""},
	}
	for _, test := range tests {
		if got := ids(follow(test.cfg, []restart{{test.ns, test.step}})); got != test.convict {
			t.Errorf("%s: %q, want %q", test.name, got, test.convict)
		}
	}
}

// ids lists the rules of findings, without the analyzer's name.
func ids(findings []analyzers.Finding) string {
	var list []string
	for _, f := range findings {
		id, _ := strings.CutPrefix(f.Rule, "retrans.")
		if f.Severity == analyzers.Note {
			id = "note " + id
		}
		list = append(list, id)
	}
	return strings.Join(list, ", ")
}

// TestBoundsOfRNRAndOfRetries does the same for the waits after RNR NAKs and for the counts of retries.
func TestBoundsOfRNRAndOfRetries(t *testing.T) {
	exact := retrans.Config{Default: known, HostDelayNS: 1, JitterNS: 1}
	with := func(change func(p *retrans.Params)) retrans.Config {
		cfg := exact
		change(&cfg.Default)
		return cfg
	}
	off := with(func(p *retrans.Params) { p.TimeoutExponent = 0 })
	adaptive := with(func(p *retrans.Params) { p.Adaptive = true })
	unknown := with(func(p *retrans.Params) { p.Known = false })
	// An RNR NAK passed at 1000 with a wait of 10000 ns; the timer may have been started at 500.
	rnr := func(change func(s *rounds.Step)) rounds.Step {
		s := rounds.Step{
			Cause: rounds.RNR, CauseNS: 1000, RNRTimerNS: 10_000, ProgressNS: noProgress, TimerNS: 501, ActivityNS: noProgress,
			Retries: 1, RNRRetries: 1,
		}
		if change != nil {
			change(&s)
		}
		return s
	}
	certain := func(s *rounds.Step) { s.Certain = true }
	// Long, so that every restart in the table is too early for it.
	long := func(s *rounds.Step) { s.RNRTimerNS = 1_000_000 }
	both := func(list ...func(s *rounds.Step)) func(s *rounds.Step) {
		return func(s *rounds.Step) {
			for _, f := range list {
				f(s)
			}
		}
	}
	count := func(n int, quiet int64, certain bool) func(s *rounds.Step) {
		return func(s *rounds.Step) { s.RNRRetries, s.QuietNS, s.Certain = n, quiet, certain }
	}
	retry := func(cause rounds.Cause, n int) rounds.Step {
		return rounds.Step{Cause: cause, Retries: n, ProgressNS: noProgress, TimerNS: noProgress, ActivityNS: noProgress}
	}
	tests := []struct {
		name    string
		cfg     retrans.Config
		ns      int64
		step    rounds.Step
		convict string
	}{
		{"as long as the RNR NAK asks", exact, 11_000, rnr(certain), ""},
		{"1 ns less", exact, 10_999, rnr(certain), "rnr-early"},
		{"a NAK from before the progress may be after it", exact, 10_999,
			rnr(both(certain, func(s *rounds.Step) { s.Carried = true })), ""},
		{"an unknown timeout may be", unknown, 10_999, rnr(nil), "note rnr-early"},
		{"uncertain, and T has not passed", exact, knownT + 499, rnr(long), "rnr-early"},
		{"uncertain, and T has passed", exact, knownT + 500, rnr(long), ""},
		{"certain, although T has passed", exact, knownT + 500, rnr(both(long, certain)), "rnr-early"},
		{"uncertain, and nothing says when the timer started", exact, 10_999,
			rnr(func(s *rounds.Step) { s.TimerNS = noProgress }), ""},
		{"uncertain, and the timer may have run before the progress", exact, 10_999,
			rnr(func(s *rounds.Step) { s.ProgressNS, s.StallNS = 5, knownT-2 }), ""},
		{"uncertain, and it had not run for T", exact, 10_999,
			rnr(func(s *rounds.Step) { s.ProgressNS, s.StallNS = 5, knownT-3 }), "rnr-early"},
		{"uncertain, but there is no timer", off, knownT + 500, rnr(long), "rnr-early"},
		{"uncertain, and the NIC chooses its timeouts", adaptive, 10_999, rnr(nil), ""},
		{"certain, and the NIC chooses its timeouts", adaptive, 10_999, rnr(certain), "note rnr-early"},
		{"as many retries after RNR NAKs as allowed", exact, 11_000, rnr(count(1, 0, true)), ""},
		{"one more", exact, 11_000, rnr(count(2, 0, true)), "rnr-retry-exceeded"},
		{"one more, uncertain, and T may have passed", exact, 11_000, rnr(count(2, knownT-1, false)), ""},
		{"one more, uncertain, and T has not passed", exact, 11_000, rnr(count(2, knownT-2, false)), "rnr-retry-exceeded"},
		{"one more, uncertain, but there is no timer", off, 11_000, rnr(count(2, knownT, false)), "rnr-retry-exceeded"},
		{"one more, certain, although T has passed", exact, 11_000, rnr(count(2, knownT, true)), "rnr-retry-exceeded"},
		{"7 is no limit", with(func(p *retrans.Params) { p.RNRRetry = 7 }), 11_000, rnr(count(9, 0, true)), ""},
		{"6 is one", with(func(p *retrans.Params) { p.RNRRetry = 6 }), 11_000, rnr(count(7, 0, true)), "rnr-retry-exceeded"},
		{"retries of another cause are not counted there", exact, 0, func() rounds.Step {
			s := retry(rounds.Nack, 1)
			s.RNRRetries = 9
			return s
		}(), ""},
		{"unknown parameters limit no retries", unknown, 11_000, rnr(count(9, 0, true)), ""},
		{"as many retries as allowed", exact, 0, retry(rounds.Nack, 2), ""},
		{"one more by a NAK", exact, 0, retry(rounds.Nack, 3), "retry-exceeded"},
		{"one more by an implied NAK", exact, 0, retry(rounds.Implied, 3), "retry-exceeded"},
		{"one more by a timeout", exact, 0, retry(rounds.Timeout, 3), "retry-exceeded"},
		{"an RNR NAK's restart has a count of its own", exact, 11_000, rnr(func(s *rounds.Step) { s.Retries = 3 }), ""},
		{"unknown parameters limit no retries of NAKs", unknown, 0, retry(rounds.Nack, 30), ""},
	}
	for _, test := range tests {
		if got := ids(follow(test.cfg, []restart{{test.ns, test.step}})); got != test.convict {
			t.Errorf("%s: %q, want %q", test.name, got, test.convict)
		}
	}
}

// TestARestartThatMayHaveBeenATimeoutBeforeTheProgressCountsOneLess judges the third retry where two are allowed and
// the first was caused by a NAK.
func TestARestartThatMayHaveBeenATimeoutBeforeTheProgressCountsOneLess(t *testing.T) {
	exact := retrans.Config{Default: known, HostDelayNS: 1, JitterNS: 1, NakSilenceNS: 1 << 40}
	off := exact
	off.Default.TimeoutExponent = 0
	first := func(change func(s *rounds.Step)) rounds.Step {
		s := rounds.Step{Cause: rounds.Nack, CauseNS: 500_100, ProgressNS: 100, TimerNS: noProgress, ActivityNS: noProgress,
			Retries: 1, QuietNS: knownT - 1}
		if change != nil {
			change(&s)
		}
		return s
	}
	tests := []struct {
		name    string
		cfg     retrans.Config
		first   rounds.Step
		last    int // retries of the last restart
		convict string
	}{
		{"the timer may have expired", exact, first(nil), 3, ""},
		{"it excuses one retry", exact, first(nil), 4, "retry-exceeded"},
		{"it had run for too short a time", exact, first(func(s *rounds.Step) { s.QuietNS-- }), 3, "retry-exceeded"},
		{"but stalled before", exact, first(func(s *rounds.Step) { s.QuietNS, s.StallNS = 0, knownT-1 }), 3, ""},
		{"for too short a time", exact, first(func(s *rounds.Step) { s.QuietNS, s.StallNS = 0, knownT-2 }), 3,
			"retry-exceeded"},
		{"the progress was too long before the NAK", exact, first(func(s *rounds.Step) { s.CauseNS++ }), 3, "retry-exceeded"},
		{"there was no progress", exact, first(func(s *rounds.Step) { s.ProgressNS = noProgress }), 3, "retry-exceeded"},
		{"no NAK caused it", exact, first(func(s *rounds.Step) { s.Cause = rounds.Implied }), 3, "retry-exceeded"},
		{"there is no timer", off, first(nil), 3, "retry-exceeded"},
		{"it was not the first", exact, first(func(s *rounds.Step) { s.Retries = 2 }), 3, "retry-exceeded"},
	}
	for _, test := range tests {
		last := rounds.Step{Cause: rounds.Nack, Retries: test.last, ProgressNS: noProgress, TimerNS: noProgress,
			ActivityNS: noProgress}
		if got := ids(follow(test.cfg, []restart{{600_000, test.first}, {700_000, last}})); got != test.convict {
			t.Errorf("%s: %q, want %q", test.name, got, test.convict)
		}
	}
}

// TestFindingsSayWhatWasSeenAndAllowed compares whole findings, each on the connection that its parameters name.
func TestFindingsSayWhatWasSeenAndAllowed(t *testing.T) {
	adaptive := known
	adaptive.Adaptive = true
	off := known
	off.TimeoutExponent = 0
	tests := []struct {
		name string
		p    retrans.Params
		ns   int64
		step rounds.Step
		want analyzers.Finding
	}{
		{
			"early after progress", known, 60_000,
			rounds.Step{Cause: rounds.Timeout, Certain: true, TimerNS: rounds.Never, ActivityNS: 0},
			analyzers.Finding{
				Rule: "retrans.timeout-early", Severity: "violation", Clause: "IBTA volume 1, 9.7.6.1.3",
				Expected: "retransmission at least 65.5 us after the last progress", Actual: "at most 60 us after it",
				Message: "the local ACK timer expired early",
			},
		},
		{
			"early after the sender started its timer", known, 60_000,
			rounds.Step{Cause: rounds.Timeout, Certain: true, ProgressNS: rounds.Never, TimerNS: 2000},
			analyzers.Finding{
				Rule: "retrans.timeout-early", Severity: "violation", Clause: "IBTA volume 1, 9.7.6.1.3",
				Expected: "retransmission at least 65.5 us after the last progress", Actual: "at most 59.5 us after it",
				Message: "the local ACK timer expired early (1.5 us granted for jitter between host and switch)",
			},
		},
		{
			"early, of an adaptive NIC", adaptive, 60_000,
			rounds.Step{Cause: rounds.Timeout, Certain: true, TimerNS: rounds.Never},
			analyzers.Finding{
				Rule: "retrans.timeout-early", Severity: "note", Clause: "IBTA volume 1, 9.7.6.1.3",
				Expected: "retransmission at least 65.5 us after the last progress", Actual: "at most 60 us after it",
				Message: "the local ACK timer expired early; allowed to adaptive retransmission",
			},
		},
		{
			"late", known, 700_000, rounds.Step{Cause: rounds.Timeout, Certain: true, ProgressNS: rounds.Never,
				TimerNS: rounds.Never, ActivityNS: 1000},
			analyzers.Finding{
				Rule: "retrans.timeout-late", Severity: "warning", Clause: "IBTA volume 1, 9.7.6.1.3",
				Expected: "retransmission at most 262 us after the last progress (4 T)",
				Actual:   "699 us after the latest packet of the connection", Message: "the local ACK timer expired late",
			},
		},
		{
			"without a timer", off, 700_000, rounds.Step{Cause: rounds.Timeout, Certain: true},
			analyzers.Finding{
				Rule: "retrans.timer-off", Severity: "violation", Clause: "IBTA volume 1, 9.7.6.1.3",
				Expected: "no timeout: the local ACK timeout is 0", Actual: "retransmission that no NAK asked for",
				Message: "a timeout without a timer",
			},
		},
		{
			"before the RNR timer", known, 9000,
			rounds.Step{Cause: rounds.RNR, CauseNS: 2000, RNRTimerNS: 10_000, Certain: true},
			analyzers.Finding{
				Rule: "retrans.rnr-early", Severity: "violation", Clause: "IBTA volume 1, 9.7.5.2.8",
				Expected: "retransmission at least 10 us after the RNR NAK", Actual: "7 us after it",
				Message: "the requester did not wait for the RNR timer",
			},
		},
		{
			"a retry too many", known, 9000, rounds.Step{Cause: rounds.Implied, Retries: 3},
			analyzers.Finding{
				Rule: "retrans.retry-exceeded", Severity: "violation", Clause: "IBTA volume 1, 9.9.2.1.1",
				Expected: "at most 2 retries without progress", Actual: "retry 3, by implied NAK",
				Message: "retransmission goes on where the queue pair should be in error",
			},
		},
		{
			"an RNR retry too many", known, 9000, rounds.Step{Cause: rounds.RNR, RNRRetries: 2, Certain: true},
			analyzers.Finding{
				Rule: "retrans.rnr-retry-exceeded", Severity: "violation", Clause: "IBTA volume 1, 9.9.2.1.1",
				Expected: "at most 1 retries after RNR NAKs without progress", Actual: "retry 2",
				Message: "retransmission goes on where the queue pair should be in error",
			},
		},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			about := cmpopts.IgnoreFields(analyzers.Finding{}, "About", "Cause", "Headline", "Role")
			test.want.Analyzer, test.want.Connection, test.want.Packets = "retrans", 2, []uint64{40}
			test.want.TimeNS, test.want.PSN, test.want.PSNAbs = test.ns, 7, 0xabc
			cfg := retrans.Config{Connections: map[int]retrans.Params{2: test.p}, HostDelayNS: 1, JitterNS: 1500}
			if diff := cmp.Diff([]analyzers.Finding{test.want}, follow(cfg, []restart{{test.ns, test.step}}),
				about); diff != "" {
				t.Errorf("findings (-want +got):\n%s", diff)
			}
		})
	}
}

// TestManyFindingsOfOneRuleAreCounted reports more of one rule than are kept.
func TestManyFindingsOfOneRuleAreCounted(t *testing.T) {
	var steps []restart
	for i := range 130 {
		steps = append(steps, restart{int64(i), rounds.Step{Cause: rounds.Nack, Retries: 3 + i}})
	}
	found := follow(retrans.Config{Default: known}, steps)
	last := found[len(found)-1].Message
	if more := fmt.Sprintf("(%d more of this rule on this connection suppressed)", 130-len(found)); len(found) == 130 ||
		!strings.HasSuffix(last, more) {
		t.Errorf("%d findings; the last says %q", len(found), last)
	}
}

// TestOnlyRestartsAndTheirLikeAreMeasured feeds records outside every stream, and counts what restarted.
func TestOnlyRestartsAndTheirLikeAreMeasured(t *testing.T) {
	doc := analyse(t, tracetest.Meta(tracetest.Connections(2, false)),
		retrans.Config{HalfRTT: retrans.Sides{Requester: 1, Responder: 9000}}, `
		0 > first 1 drop
		0.5 < cnp
		0.7 > only 1 stray
		0.8 < aack 1 stray
		1 > mid 2
		3 < nak 1
		4 2> only 1 ar
		6 > first 1
		7 > mid 2
		8 > last 3 ar
		10 < rnr 3 code=1
		25 > last 3 ar
		27 < ack 3
		30 2> only 1 ar`)
	want := map[string][]int64{
		"retrans.nack-generation": {2000}, "retrans.nack-generation.corrected": {0},
		"retrans.nack-reaction": {3000}, "retrans.nack-reaction.corrected": {2999},
		"retrans.retransmission": {6000}, "retrans.rnr-delay": {15_000},
		"retrans.timeout": {26_000}, "retrans.timeout.retry-1": {26_000}, "retrans.timer-restarts": {1},
	}
	if diff := cmp.Diff(want, sums(doc)); diff != "" {
		t.Errorf("metrics (-want +got):\n%s", diff)
	}
	coverage := map[string]int64{"restart by NAK": 1, "restart by implied NAK": 0, "restart by RNR NAK": 1,
		"restart by timeout": 1}
	if diff := cmp.Diff(coverage, doc.Coverage["retrans"]); diff != "" {
		t.Errorf("coverage (-want +got):\n%s", diff)
	}
	units, empty := map[string]string{}, 0
	for _, m := range doc.Metrics {
		units[m.Name] = m.Unit
		if m.Count == 0 {
			empty++
		}
	}
	if units["retrans.timer-restarts"] != analyzers.UnitCount || units["retrans.timeout"] != analyzers.UnitNS ||
		empty != 0 {
		t.Errorf("units %v, %d empty metrics", units, empty)
	}
	if doc := analyse(t, tracetest.Meta(tracetest.Connections(1, false)), retrans.Config{},
		"0 > only 1 ar\n 2 < ack 1"); len(doc.Metrics) != 5 {
		t.Errorf("metrics of a trace without retransmission: %+v", doc.Metrics)
	}
}

// TestRetriesFromTheFifteenthOnShareOneMetric repeats one packet by timeout.
func TestRetriesFromTheFifteenthOnShareOneMetric(t *testing.T) {
	var text strings.Builder
	for i := range 18 {
		fmt.Fprintf(&text, "%d > only 1 ar drop\n", 1000*i)
	}
	got := map[string]int{}
	for name, values := range sums(analyse(t, tracetest.Meta(tracetest.Connections(1, false)), retrans.Config{},
		text.String())) {
		if strings.HasPrefix(name, "retrans.timeout.") {
			got[name] = len(values)
		}
	}
	want := map[string]int{"retrans.timeout.retry-15": 3}
	for i := 1; i < 15; i++ {
		want[fmt.Sprintf("retrans.timeout.retry-%d", i)] = 1
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("metrics (-want +got):\n%s", diff)
	}
}
