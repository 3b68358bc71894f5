package report

import (
	"context"
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"candela.dev/candela/analyzers"
	"candela.dev/candela/packet"
	"candela.dev/candela/trace"
)

func twoConnections(t *testing.T) *trace.Connections {
	t.Helper()
	side := func(ip string, qpn packet.QPN, ipsn packet.PSN) trace.Side {
		return trace.Side{IP: netip.MustParseAddr(ip), QPN: qpn, IPSN: ipsn}
	}
	c, err := trace.NewConnections([]trace.Connection{
		{Index: 1, Verb: "write", MTU: 1024, Requester: side("10.0.0.2", 17, 1000), Responder: side("10.0.0.1", 18, 5)},
		{Index: 2, Verb: "read", MTU: 1024, Requester: side("10.0.0.3", 17, 0xfffffe), Responder: side("10.0.0.1", 19, 5)},
	})
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// scene builds records 100 ns apart.
type scene []trace.Record

func (s *scene) add(flow trace.FlowID, op packet.Opcode, psn packet.PSN, change ...func(*trace.Record)) {
	r := trace.Record{
		ID: uint64(len(*s) + 1), TimeNS: int64(len(*s)) * 100, Flow: flow, Opcode: op, PSN: psn,
		Flags: trace.Sent | trace.Passed,
	}
	for _, f := range change {
		f(&r)
	}
	*s = append(*s, r)
}

func dropped(r *trace.Record) { r.Event = trace.EventDrop }
func nak(r *trace.Record)     { r.Syndrome = packet.SyndromeNakSequence }

// recovery is ten WRITE packets on connection 1: psn 5 is lost, reported by a NAK and retransmitted. In between,
// connection 2 has a READ of three packets across the PSN wrap.
func recovery() scene {
	var s scene
	for psn := range packet.PSN(10) {
		if psn == 4 {
			s.add(0, packet.WriteMiddle, 1004, dropped)
			s.add(2, packet.ReadRequest, 0xfffffe)
			continue
		}
		s.add(0, packet.WriteMiddle, 1000+psn)
	}
	s.add(1, packet.Acknowledge, 1004, nak)
	s.add(3, packet.ReadResponseFirst, 0xfffffe)
	s.add(3, packet.ReadResponseMiddle, 0xffffff)
	s.add(3, packet.ReadResponseLast, 0)
	for psn := packet.PSN(4); psn < 10; psn++ {
		s.add(0, packet.WriteMiddle, 1000+psn)
	}
	s.add(1, packet.Acknowledge, 1009)
	return s
}

func illustrate(t *testing.T, r *Report, s scene) {
	t.Helper()
	c := trace.CheckedRecords(trace.Meta{Connections: twoConnections(t)}, s)
	if err := Illustrate(context.Background(), r, c, true); err != nil {
		t.Fatal(err)
	}
}

func accusing(ids ...uint64) *Report {
	return &Report{
		Connections: []Connection{{Index: 1, OK: true}, {Index: 2, OK: true}},
		Findings: []Finding{{Finding: analyzers.Finding{Rule: "gbn.retransmit-first", Severity: analyzers.Violation,
			Connection: 1,
			Packets:    ids}}},
	}
}

func TestAroundAFindingStandThePacketsOfItsConnection(t *testing.T) {
	r := accusing(12)
	illustrate(t, r, recovery())
	want := []string{
		"#9-#11 data psn 8-10 iter 1 t=800 ns",
		"#12 nak psn 5 +300 ns",
		"#16-#18 data psn 5-7 iter 2 +400 ns",
	}
	if diff := cmp.Diff(want, r.Findings[0].Around); diff != "" {
		t.Error(diff)
	}
}

func TestAroundSeparatesDistantPackets(t *testing.T) {
	r := accusing(21, 2)
	illustrate(t, r, recovery())
	want := []string{
		"#1-#4 data psn 1-4 iter 1 t=0 ns",
		"#5 data psn 5 iter 1 [drop] +400 ns",
		"…",
		"#18-#21 data psn 7-10 iter 2 t=1.7 us",
		"#22 ack psn 10 +400 ns",
	}
	if diff := cmp.Diff(want, r.Findings[0].Around); diff != "" {
		t.Error(diff)
	}
}

func TestAroundThatIsThereAlreadyStays(t *testing.T) {
	r := accusing(12)
	r.Findings[0].Around = []string{"as it was"}
	illustrate(t, r, recovery())
	if got := r.Findings[0].Around; len(got) != 1 || got[0] != "as it was" {
		t.Errorf("around became %q", got)
	}
}

func TestSequencesHoldRequestsWithTheirAnswers(t *testing.T) {
	r := &Report{Connections: []Connection{{Index: 1, OK: true}, {Index: 2, OK: true}}}
	illustrate(t, r, recovery())
	var got []string
	for _, s := range r.Sequences {
		for _, p := range s.Points {
			if p.Resent || p.Class != packet.ClassData || s.Connection == 2 {
				got = append(got, fmt.Sprintf("qpn %d %s resent %v", s.Connection, p.what(), p.Resent))
			}
		}
	}
	want := []string{
		"qpn 1 nak psn 5 resent false", "qpn 1 data psn 5 iter 2 resent true", "qpn 1 data psn 6 iter 2 resent true",
		"qpn 1 data psn 7 iter 2 resent true", "qpn 1 data psn 8 iter 2 resent true", "qpn 1 data psn 9 iter 2 resent true",
		"qpn 1 data psn 10 iter 2 resent true", "qpn 1 ack psn 10 resent false", "qpn 2 read-request psn 1 resent false",
		"qpn 2 data psn 1 iter 1 resent false", "qpn 2 data psn 2 iter 1 resent false",
		"qpn 2 data psn 3 iter 1 resent false",
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}

func TestWithoutFindingsALadderShowsTheFirstEvent(t *testing.T) {
	r := &Report{Connections: []Connection{{Index: 1, OK: true, Events: 1}}}
	illustrate(t, r, recovery())
	if len(r.Ladders) != 1 || r.Ladders[0].Connection != 1 {
		t.Fatalf("ladders: %+v", r.Ladders)
	}
	has := func(match func(Step) bool) bool { return slices.ContainsFunc(r.Ladders[0].Steps, match) }
	if !has(func(s Step) bool { return s.Event == trace.EventDrop }) ||
		!has(func(s Step) bool { return isNak(&s.Point) }) {
		t.Errorf("the loss or its NAK is missing: %+v", r.Ladders[0].Steps)
	}
}

func TestALongRunIsFoldedInALadder(t *testing.T) {
	var s scene
	for psn := range packet.PSN(30) {
		s.add(0, packet.WriteMiddle, 1000+psn)
	}
	r := accusing(10)
	illustrate(t, r, s)
	var got []string
	for _, step := range r.Ladders[0].Steps {
		if step.Skipped > 0 {
			got = append(got, fmt.Sprintf("%d more", step.Skipped))
			continue
		}
		got = append(got, fmt.Sprintf("psn %d %v", step.PSN, step.Accused))
	}
	want := "psn 4 false, 4 more, psn 9 false, psn 10 true, 17 more, psn 28 false"
	if strings.Join(got, ", ") != want {
		t.Errorf("got %s, want %s", strings.Join(got, ", "), want)
	}
}

func TestPlotsOfLongTracesAreBoundedAndKeepWhatMatters(t *testing.T) {
	var s scene
	for i := range 100_000 {
		change := func(*trace.Record) {}
		if i%10_000 == 77 {
			change = dropped
		}
		s.add(0, packet.WriteMiddle, packet.PSN(1000+i), change)
	}
	r := &Report{Connections: []Connection{{Index: 1, OK: true}}}
	illustrate(t, r, s)
	points := r.Sequences[0].Points
	if len(points) > maxPoints || len(points) < maxPoints/4 {
		t.Errorf("%d points, want up to %d", len(points), maxPoints)
	}
	drops := 0
	for _, p := range points {
		if p.Event == trace.EventDrop {
			drops++
		}
	}
	if drops != 10 {
		t.Errorf("%d of 10 events are shown", drops)
	}
	if got := int64(len(points)) + r.Sequences[0].Omitted; got != 100_000 {
		t.Errorf("points and omitted ones are %d together", got)
	}
}

func TestIllustrateReadsNothingWithoutNeed(t *testing.T) {
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	c := trace.CheckedRecords(trace.Meta{Connections: twoConnections(t)}, recovery())
	if err := Illustrate(ctx, &Report{}, c, false); err != nil {
		t.Error(err)
	}
	if err := Illustrate(ctx, accusing(12), c, false); err == nil {
		t.Error("a cancelled pass is no error")
	}
}

func BenchmarkIllustrate(b *testing.B) {
	c := trace.CheckedRecords(trace.Meta{Connections: func() *trace.Connections {
		conns, err := trace.NewConnections([]trace.Connection{{Index: 1, Verb: "write", MTU: 1024,
			Requester: trace.Side{IP: netip.MustParseAddr("10.0.0.2"), QPN: 17},
			Responder: trace.Side{IP: netip.MustParseAddr("10.0.0.1"), QPN: 18}}})
		if err != nil {
			b.Fatal(err)
		}
		return conns
	}()}, func() scene {
		var s scene
		for i := range 100_000 {
			s.add(0, packet.WriteMiddle, packet.PSN(i))
		}
		return s
	}())
	b.ReportAllocs()
	for b.Loop() {
		r := &Report{Connections: []Connection{{Index: 1, OK: true}}}
		if err := Illustrate(context.Background(), r, c, true); err != nil {
			b.Fatal(err)
		}
	}
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/100_000, "ns/packet")
}
