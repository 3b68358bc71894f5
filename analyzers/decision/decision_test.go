package decision_test

import (
	"slices"
	"testing"

	"candela.dev/candela/analyzers"
	"candela.dev/candela/analyzers/decision"
	"candela.dev/candela/clock"
	"candela.dev/candela/trace"
)

const outage = 9 // a reason

// view is one switch whose family decides to queue, to drop, and to queue a copy.
type view struct{ analyzers.SwitchView }

func (view) Switches() int         { return 1 }
func (view) SwitchName(int) string { return "sw1" }
func (view) Reason(_ int, code uint8) analyzers.DropReason {
	return analyzers.DropReason{Name: "own", Decided: code != outage, Outage: code == outage}
}
func (view) Decisions() []trace.DecisionKind {
	return []trace.DecisionKind{
		{Name: "queued", Outcome: trace.OutcomeQueued}, {Name: "dropped", Outcome: trace.OutcomeDropped},
		{Name: "copied", Outcome: trace.OutcomeQueued, Copy: true}, {Name: "marked"},
	}
}

func TestClaimsAreHeldAgainstTheTaps(t *testing.T) {
	const queued, dropped, copied, marked, undeclared = 0, 1, 2, 3, 9
	type step struct {
		tap      trace.SwitchStage // 0: a decision
		packet   uint64
		size     int32
		kind     uint8
		queue    int
		occupies int64
	}
	enter, leave, drop := trace.Entered, trace.Left, trace.Dropped
	for _, c := range []struct {
		name  string
		steps []step
		want  []string
	}{
		{"two packets wait and leave",
			[]step{{enter, 1, 100, 0, 0, 0}, {0, 1, 100, queued, 2, 0}, {enter, 2, 50, 0, 0, 0}, {0, 2, 50, queued, 2, 100},
				{leave, 1, 100, 0, 2, 0}, {enter, 3, 60, 0, 0, 0}, {0, 3, 60, queued, 2, 50}, {leave, 2, 50, 0, 2, 0},
				{leave, 3, 60, 0, 2, 0}}, nil},
		{"a copy goes on", []step{{enter, 1, 100, 0, 0, 0}, {0, 1, 100, dropped, 0, 0}, {0, 9, 64, copied, 1, 0},
			{drop, 1, 100, 0, 0, 0}, {leave, 9, 64, 0, 1, 0}}, nil},
		{"a queue that held less", []step{{enter, 1, 100, 0, 0, 0}, {0, 1, 100, queued, 2, 1}, {leave, 1, 100, 0, 2, 0}},
			[]string{decision.Occupancy}},
		{"a size that no packet had", []step{{enter, 1, 100, 0, 0, 0}, {0, 1, 99, queued, 2, 0}, {leave, 1, 100, 0, 2, 0}},
			[]string{decision.Size}},
		{"a packet that never came", []step{{0, 1, 100, queued, 2, 0}}, []string{decision.Unknown}},
		{"said to be dropped, and sent",
			[]step{{enter, 1, 100, 0, 0, 0}, {0, 1, 100, dropped, 2, 0}, {leave, 1, 100, 0, 2, 0}},
			[]string{decision.Contradicted}},
		{"said to be queued, and dropped",
			[]step{{enter, 1, 100, 0, 0, 0}, {0, 1, 100, queued, 2, 0}, {drop, 1, 100, 0, 2, 0}},
			[]string{decision.Contradicted}},
		{"sent by another queue", []step{{enter, 1, 100, 0, 0, 0}, {0, 1, 100, queued, 2, 0}, {leave, 1, 100, 0, 3, 0}},
			[]string{decision.Contradicted}},
		{"marked, never queued, and sent",
			[]step{{enter, 1, 100, 0, 0, 0}, {0, 1, 100, marked, 2, 0}, {leave, 1, 100, 0, 2, 0}},
			[]string{decision.Contradicted}},
		{"a kind that no family declares",
			[]step{{enter, 1, 100, 0, 0, 0}, {0, 1, 100, undeclared, 2, 0}, {drop, 1, 100, 0, 2, 0}},
			[]string{decision.Unknown, decision.Missing}},
		{"sent without a decision", []step{{enter, 1, 100, 0, 0, 0}, {leave, 1, 100, 0, 2, 0}}, []string{decision.Missing}},
		{"dropped without a decision", []step{{enter, 1, 100, 0, 0, 0}, {drop, 1, 100, 0, 2, 0}}, []string{decision.Missing}},
	} {
		t.Run(c.name, func(t *testing.T) {
			a, err := decision.New(view{})
			if err != nil {
				t.Fatal(err)
			}
			for i, s := range c.steps {
				now := clock.Time(0).Add(clock.Duration(i) * clock.Nanosecond)
				if s.tap == 0 {
					a.Decide(&trace.Decision{Time: now, Kind: s.kind, Packet: s.packet, Size: s.size, Queue: s.queue,
						Occupancy: s.occupies})
					continue
				}
				a.Observe(&trace.SwitchTap{Time: now, Stage: s.tap, ID: s.packet, Size: s.size, Queue: s.queue, Reason: 1})
			}
			r, err := a.Finish()
			if err != nil {
				t.Fatal(err)
			}
			book.Add(t, r.Findings)
			var got []string
			for _, f := range r.Findings {
				got = append(got, f.Rule)
			}
			if !slices.Equal(got, c.want) {
				t.Errorf("found %v, want %v", got, c.want)
			}
		})
	}
}

// Packets lost in a stopped switch contradict nothing, and no packet from before its start may leave after it.
func TestAnOutageContradictsNoClaim(t *testing.T) {
	for _, c := range []struct {
		name   string
		reason uint8
		leaves bool // afterwards, though it was lost
		want   []string
	}{
		{"lost by the outage", outage, false, nil},
		{"dropped for another reason", 1, false, []string{decision.Contradicted}},
		{"lost, and sent all the same", outage, true, []string{decision.Missing}},
	} {
		t.Run(c.name, func(t *testing.T) {
			a, err := decision.New(view{})
			if err != nil {
				t.Fatal(err)
			}
			for packet := uint64(1); packet <= 2; packet++ { // before the outage and after it
				a.Observe(&trace.SwitchTap{Stage: trace.Entered, ID: packet, Size: 100})
				a.Decide(&trace.Decision{Packet: packet, Size: 100, Queue: 2})
				if packet == 2 {
					a.Observe(&trace.SwitchTap{Stage: trace.Left, ID: packet, Size: 100, Queue: 2})
					continue
				}
				a.Stopping(1, 0)
				a.Observe(&trace.SwitchTap{Stage: trace.Dropped, ID: packet, Size: 100, Queue: 2, Reason: c.reason})
				a.Started(2, 0)
				if c.leaves {
					a.Observe(&trace.SwitchTap{Stage: trace.Left, ID: packet, Size: 100, Queue: 2})
				}
			}
			r, err := a.Finish()
			if err != nil {
				t.Fatal(err)
			}
			book.Add(t, r.Findings)
			var got []string
			for _, f := range r.Findings {
				got = append(got, f.Rule)
			}
			if !slices.Equal(got, c.want) {
				t.Errorf("found %v, want %v", got, c.want)
			}
		})
	}
}
