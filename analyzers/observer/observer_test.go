package observer_test

import (
	"slices"
	"strings"
	"testing"

	"candela.dev/candela/analyzers"
	"candela.dev/candela/analyzers/gbn"
	"candela.dev/candela/analyzers/observer"
	"candela.dev/candela/analyzers/oracle"
	"candela.dev/candela/analyzers/oracle/comparison"
	"candela.dev/candela/packet"
	"candela.dev/candela/runtimetest"
	"candela.dev/candela/trace"
)

// TestASingleCaptureIsJudgedByWhatItsTapMayHaveMissed compares the worst finding of each trace.
func TestASingleCaptureIsJudgedByWhatItsTapMayHaveMissed(t *testing.T) {
	for name, c := range map[string]struct {
		trace    string
		severity analyzers.Severity // "": none
		rule     string
	}{
		"a request lost after the tap is NAKed": {"! plain\n> send-only 0 ar\n> send-only 1 ar\n< nak 0 msn=0",
			"", ""},
		"an ACK of what one unseen request may be": {"! plain\n> send-only 0 ar\n< ack 1 msn=2", analyzers.Warning,
			"gbn.ack-beyond"},
		"the same if the capture is complete": {"! plain complete\n> send-only 0 ar\n< ack 1 msn=2",
			analyzers.Violation, "gbn.ack-beyond"},
		"an ACK of what three unseen requests may be": {"! plain\n> send-only 0 ar\n< ack 3 msn=4", analyzers.Violation,
			"gbn.ack-beyond"},
		"an atomic ACK without a request that can cause it": {"! plain\n> send-only 0 ar\n> send-only 1 ar\n< atomic-ack 0 " +
			"msn=1 va=1", analyzers.Violation, "gbn.atomic-unexpected"},
		"a PSN left out": {"! plain\n> send-only 0 ar\n> send-only 2 ar", analyzers.Warning,
			"gbn.capture-gap"},
		"a PSN left out of a complete capture": {"! plain complete\n> send-only 0 ar\n> send-only 2 ar", analyzers.Violation,
			"gbn.psn-skip"},
		"a message too many": {
			"! plain\n> send-only 0 ar\n> send-only 1 ar\n< ack 1 msn=9", analyzers.Violation, "gbn.msn",
		},
		"a READ response for a SEND": {
			"! plain\n> send-only 0 ar\n> send-only 1 ar\n< read-response-only 1 msn=2", analyzers.Violation,
			"gbn.read-unexpected",
		},
		"a NAK comes twice": {
			"! plain\n> send-only 0 ar\n> send-only 1 ar\n< nak 0 msn=0\n< nak 0 msn=0", analyzers.Violation, "gbn.nak-repeat",
		},
		"an older ACK for a repeated request": {
			"! plain\n> send-only 0 ar\n> send-only 1 ar\n< ack 1 msn=2\n> send-only 0 ar\n< ack 0 msn=2", "", "",
		},
		"an older ACK without one in a complete capture": {
			"! plain complete\n> send-only 0 ar\n> send-only 1 ar\n< ack 1 msn=2\n< ack 0 msn=2", analyzers.Violation,
			"gbn.ack-decreasing",
		},
		"an unseen request turns out to be another one": {
			"! plain\n> send-first 0 ar\n< ack 0 msn=1\n> send-first 1", analyzers.Violation, "gbn.msn",
		},
	} {
		t.Run(name, func(t *testing.T) {
			tr, err := oracle.Parse(c.trace)
			if err != nil {
				t.Fatal(err)
			}
			findings, err := comparison.Analyzers()(tr)
			if err != nil {
				t.Fatal(err)
			}
			worst := analyzers.Finding{}
			for _, f := range findings {
				if f.Severity == c.severity && (worst.Rule == "" || f.Rule == c.rule) {
					worst = f
				}
				if f.Severity == analyzers.Violation && c.severity != analyzers.Violation || f.Severity == analyzers.Warning &&
					c.severity == "" {
					t.Errorf("%s %s: expected %s; actual %s", f.Severity, f.Rule, f.Expected, f.Actual)
				}
			}
			if c.severity == "" {
				return
			}
			if worst.Rule != c.rule {
				t.Errorf("%s %q, want %s %q", worst.Severity, worst.Rule, c.severity, c.rule)
			}
			if said := strings.Contains(worst.Message, "Or the capture missed it"); said != (c.severity == analyzers.Warning) {
				t.Errorf("message %q", worst.Message)
			}
		})
	}
}

// writes is a long transfer of one-packet WRITEs, each acknowledged.
func writes(n int) (trace.Meta, []trace.Record) {
	connections := oracle.Connections()
	conn := connections.All()[0]
	records := make([]trace.Record, 0, 2*n)
	for i := range n {
		request := trace.Record{
			ID: uint64(2*i + 1), TimeNS: int64(2000 * i), Flow: trace.NewFlowID(1, false),
			PSN:    packet.NewPSN(int64(conn.Requester.IPSN) + int64(i)),
			Opcode: packet.WriteOnly, Flags: trace.Sent | trace.Passed | trace.AckReq | trace.HasRETH, DMALen: 64,
			PayloadLen: 64, ICRC: packet.ICRCValid,
		}
		ack := request
		ack.ID, ack.TimeNS, ack.Flow, ack.Opcode = request.ID+1, request.TimeNS+1000, request.Flow.Peer(), packet.Acknowledge
		ack.Flags, ack.MSN, ack.Syndrome = trace.Sent|trace.Passed|trace.HasAETH, uint32(i+1)&0xffffff,
			packet.SyndromeAckNoCredit
		records = append(records, request, ack)
	}
	return trace.Meta{Kind: trace.KindPlain, Connections: connections}, records
}

// TestOrdinaryTrafficAllocatesNothing follows a long transfer.
func TestOrdinaryTrafficAllocatesNothing(t *testing.T) {
	meta, records := writes(26_000)
	o := observer.New(meta, observer.Config{})
	next := 0
	follow := func(n int) {
		for range n {
			o.Packet(&records[next])
			next++
		}
	}
	follow(8000)
	if allocs := runtimetest.FewestAllocs(0, func() { follow(2000) }); allocs > 0 {
		t.Errorf("%v allocations in 2000 packets", allocs)
	}
	for _, seen := range o.Finish() {
		if len(seen.Unexplained) > 0 || len(seen.Blind) > 0 {
			t.Errorf("%+v", seen)
		}
	}
}

// TestAWrongAnswerInALongTransferIsFound has one ACK name a request that was not sent.
func TestAWrongAnswerInALongTransferIsFound(t *testing.T) {
	meta, records := writes(2000)
	records[3001].PSN = packet.NewPSN(int64(records[3001].PSN) + 5)
	o := observer.New(meta, observer.Config{})
	for i := range records {
		o.Packet(&records[i])
	}
	seen := o.Finish()
	if len(seen) != 2 || len(seen[0].Unexplained) != 0 || len(seen[1].Unexplained) != 1 {
		t.Fatalf("%+v", seen)
	}
	f := seen[1].Unexplained[0]
	if f.Rule != "gbn.ack-beyond" || f.Severity != analyzers.Violation || f.Packets[0] != records[3001].ID {
		t.Errorf("%+v", f)
	}
	if len(seen[1].Blind) != 1 || seen[1].Blind[0].To == 0 {
		t.Errorf("the responder is not judged in %+v: its next ACKs show where it is", seen[1].Blind)
	}
}

// without removes the request at a position, and its ACK.
func without(records []trace.Record, at int) []trace.Record {
	return append(records[:2*at:2*at], records[2*at+2:]...)
}

// miscount reduces the MSN of every ACK from a position on by n.
func miscount(records []trace.Record, from int, n uint32) {
	for i := range records[from:] {
		if r := &records[from+i]; r.Opcode == packet.Acknowledge {
			r.MSN -= n
		}
	}
}

// message merges the three WRITEs from a position on into one.
func message(records []trace.Record, at int) {
	for i, op := range []packet.Opcode{packet.WriteFirst, packet.WriteMiddle, packet.WriteLast} {
		r := &records[2*(at+i)]
		r.Opcode, r.DMALen, r.PayloadLen = op, 3*1024, 1024
		if i > 0 {
			r.Flags, r.DMALen = r.Flags&^trace.HasRETH, 0
		}
	}
	for i := range records[2*at:] { // one message instead of three
		if r := &records[2*at+i]; r.Opcode == packet.Acknowledge {
			r.MSN -= uint32(min(i/2+1, 3)) - uint32(min(i/2/2, 1))
		}
	}
}

// TestWhatWasAcceptedUnseenIsDoubtedWhereItWas removes one request that the responder acknowledges. Either the tap
// missed it, or it was lost before the tap and the responder accepts gaps: the other packets decide what is in doubt.
func TestWhatWasAcceptedUnseenIsDoubtedWhereItWas(t *testing.T) {
	const at, near, far = 10, 24, 150
	beyond := func(records []trace.Record, ack int) { records[2*ack+1].PSN = records[2*ack+1].PSN.Add(9) }
	for name, c := range map[string]struct {
		change   func([]trace.Record) []trace.Record
		missed   bool
		spans    int      // of doubt; 0: one
		findings []string // violations
	}{
		"the tap missed a message: the responder counted it": {
			change: func(r []trace.Record) []trace.Record { return without(r, at) }, missed: true,
		},
		"it does not vouch for anything else": {
			change: func(r []trace.Record) []trace.Record { beyond(r, far); return without(r, at) }, missed: true,
		},
		"the responder accepts one gap, and does not count what was in it: the requester may have sent something else": {
			change: func(r []trace.Record) []trace.Record {
				miscount(r, 2*at, 1)
				return without(r, at)
			},
		},
		"it does so again": {
			change: func(r []trace.Record) []trace.Record {
				miscount(r, 2*at, 1)
				miscount(r, 2*far, 1)
				return without(without(r, far), at)
			},
			findings: []string{"gbn.msn"}, spans: 2,
		},
		"and what is near is not excused": {
			change: func(r []trace.Record) []trace.Record {
				miscount(r, 2*at, 1)
				miscount(r, 2*far, 1)
				beyond(r, near)
				return without(without(r, far), at)
			},
			findings: []string{"gbn.ack-beyond", "gbn.msn"}, spans: 2,
		},
		"the middle of a message is missing, which no count shows": {
			change: func(r []trace.Record) []trace.Record { message(r, at-1); return without(r, at) },
		},
		"that excuses what is near": {
			change: func(r []trace.Record) []trace.Record { message(r, at-1); beyond(r, near); return without(r, at) },
		},
		"but not what is far": {
			change:   func(r []trace.Record) []trace.Record { message(r, at-1); beyond(r, far); return without(r, at) },
			findings: []string{"gbn.ack-beyond"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			meta, records := writes(200)
			c1 := trace.CheckedRecords(meta, c.change(records))
			fresh := func(m trace.Meta) []analyzers.Analyzer { return []analyzers.Analyzer{gbn.New(m, gbn.Config{})} }
			doc, err := analyzers.Run(t.Context(), c1, fresh(c1.Meta())...)
			if err != nil {
				t.Fatal(err)
			}
			if doubted := doc.Observed[1].Doubted; len(doubted) != max(1, c.spans) || doc.Observed[1].Missed != c.missed {
				t.Errorf("missed %v, want %v; doubted: %v", doc.Observed[1].Missed, c.missed, doubted)
			}
			if err := analyzers.SoftenUnseen(t.Context(), c1, 1, doc, fresh); err != nil {
				t.Fatal(err)
			}
			var got []string
			warned := false
			for i := range doc.Findings {
				if doc.Findings[i].Severity == analyzers.Violation {
					got = append(got, doc.Findings[i].Rule)
				}
				if doc.Findings[i].Severity == analyzers.Warning {
					warned = true
					if h := doc.Findings[i].Headline; !strings.HasPrefix(h, analyzers.AsShown) {
						t.Errorf("the headline of a warning sounds certain: %q", h)
					}
				}
			}
			if !slices.Equal(got, c.findings) || !warned {
				t.Errorf("violations %v, want %v; warned: %v; %+v", got, c.findings, warned, doc.Observed)
			}
		})
	}
}

// TestARequestThatComesLateWasNotAccepted leaves a request out until a NAK asks for it.
func TestARequestThatComesLateWasNotAccepted(t *testing.T) {
	meta, records := writes(20)
	missing, skip := records[10], records[11]
	records = without(records, 5)
	nak, answered := &records[11], skip
	nak.Opcode, nak.Syndrome, nak.PSN, nak.MSN = packet.Acknowledge, packet.SyndromeNakSequence, missing.PSN, skip.MSN-1
	missing.ID, missing.TimeNS = nak.ID, nak.TimeNS+100
	answered.ID, answered.TimeNS = nak.ID, nak.TimeNS+200
	records = append(records[:12:12], append([]trace.Record{missing, answered}, records[12:]...)...)
	for i := range records {
		records[i].ID = uint64(i + 1)
	}
	o := observer.New(meta, observer.Config{})
	for i := range records {
		o.Packet(&records[i])
	}
	if seen := o.Finish()[1]; seen.Missed || len(seen.Doubted) > 0 {
		t.Errorf("missed %v, doubted %v", seen.Missed, seen.Doubted)
	}
}

func BenchmarkOrdinary(b *testing.B) {
	meta, records := writes(100_000)
	b.ReportAllocs()
	for b.Loop() {
		o := observer.New(meta, observer.Config{})
		for i := range records {
			o.Packet(&records[i])
		}
	}
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N*len(records)), "ns/packet")
}
