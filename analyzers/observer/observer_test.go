package observer_test

import (
	"strings"
	"testing"

	"candela.dev/candela/analyzers"
	"candela.dev/candela/analyzers/observer"
	"candela.dev/candela/analyzers/oracle"
	"candela.dev/candela/analyzers/oracle/comparison"
	"candela.dev/candela/packet"
	"candela.dev/candela/trace"
)

// TestASingleCaptureIsJudgedByWhatItsTapMayHaveMissed gives each trace of a plain tap the finding that is its worst.
func TestASingleCaptureIsJudgedByWhatItsTapMayHaveMissed(t *testing.T) {
	for name, c := range map[string]struct {
		trace    string
		severity analyzers.Severity // "": none
		rule     string
	}{
		"a request lost behind the tap is NAKed":            {"! plain\n> send-only 0 ar\n> send-only 1 ar\n< nak 0 msn=0", "", ""},
		"an ACK of what one unseen request may be":          {"! plain\n> send-only 0 ar\n< ack 1 msn=2", analyzers.Warning, "gbn.ack-beyond"},
		"the same if the capture is complete":               {"! plain complete\n> send-only 0 ar\n< ack 1 msn=2", analyzers.Violation, "gbn.ack-beyond"},
		"an ACK of what three unseen requests may be":       {"! plain\n> send-only 0 ar\n< ack 3 msn=4", analyzers.Violation, "gbn.ack-beyond"},
		"an atomic ACK without a request that can cause it": {"! plain\n> send-only 0 ar\n> send-only 1 ar\n< atomic-ack 0 msn=1 va=1", analyzers.Violation, "gbn.atomic-unexpected"},
		"a PSN left out":                       {"! plain\n> send-only 0 ar\n> send-only 2 ar", analyzers.Warning, "gbn.capture-gap"},
		"a PSN left out of a complete capture": {"! plain complete\n> send-only 0 ar\n> send-only 2 ar", analyzers.Violation, "gbn.psn-skip"},
		"a message too many": {
			"! plain\n> send-only 0 ar\n> send-only 1 ar\n< ack 1 msn=9", analyzers.Violation, "gbn.msn",
		},
		"a READ response for a SEND": {
			"! plain\n> send-only 0 ar\n> send-only 1 ar\n< read-response-only 1 msn=2", analyzers.Violation, "gbn.read-unexpected",
		},
		"a NAK comes twice": {
			"! plain\n> send-only 0 ar\n> send-only 1 ar\n< nak 0 msn=0\n< nak 0 msn=0", analyzers.Violation, "gbn.nak-repeat",
		},
		"an older ACK for a repeated request": {
			"! plain\n> send-only 0 ar\n> send-only 1 ar\n< ack 1 msn=2\n> send-only 0 ar\n< ack 0 msn=2", "", "",
		},
		"an older ACK without one in a complete capture": {
			"! plain complete\n> send-only 0 ar\n> send-only 1 ar\n< ack 1 msn=2\n< ack 0 msn=2", analyzers.Violation, "gbn.ack-decreasing",
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
				if f.Severity == analyzers.Violation && c.severity != analyzers.Violation || f.Severity == analyzers.Warning && c.severity == "" {
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
			ID: uint64(2*i + 1), TimeNS: int64(2000 * i), Flow: trace.NewFlowID(1, false), PSN: packet.NewPSN(int64(conn.Requester.IPSN) + int64(i)),
			Opcode: packet.WriteOnly, Flags: trace.Sent | trace.Passed | trace.AckReq | trace.HasRETH, DMALen: 64, PayloadLen: 64, ICRC: packet.ICRCValid,
		}
		ack := request
		ack.ID, ack.TimeNS, ack.Flow, ack.Opcode = request.ID+1, request.TimeNS+1000, request.Flow.Peer(), packet.Acknowledge
		ack.Flags, ack.MSN, ack.Syndrome = trace.Sent|trace.Passed|trace.HasAETH, uint32(i+1)&0xffffff, packet.SyndromeAckNoCredit
		records = append(records, request, ack)
	}
	return trace.Meta{Kind: trace.KindPlain, Connections: connections}, records
}

// TestOrdinaryTrafficAllocatesNothing follows a long transfer.
func TestOrdinaryTrafficAllocatesNothing(t *testing.T) {
	meta, records := writes(20_000)
	o := observer.New(meta, observer.Config{})
	next := 0
	follow := func(n int) {
		for range n {
			o.Packet(&records[next])
			next++
		}
	}
	follow(8000)
	if allocs := testing.AllocsPerRun(10, func() { follow(2000) }); allocs > 0 {
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

// TestAnAcknowledgementOfWhatWasNotSeenConfirmsThatTheTapMissedIt lacks one request, which the responder has, or has not.
func TestAnAcknowledgementOfWhatWasNotSeenConfirmsThatTheTapMissedIt(t *testing.T) {
	for name, c := range map[string]struct {
		refused bool
		want    bool
	}{
		"the next ACK covers it":                     {want: true},
		"a NAK asks for it and then it is sent late": {refused: true},
	} {
		t.Run(name, func(t *testing.T) {
			meta, records := writes(20)
			missing, skip := records[10], records[11]
			records = append(records[:10:10], records[12:]...)
			if c.refused {
				nak, answered := &records[11], skip
				nak.Opcode, nak.Syndrome, nak.PSN, nak.MSN = packet.Acknowledge, packet.SyndromeNakSequence, missing.PSN, skip.MSN-1
				missing.ID, missing.TimeNS = nak.ID, nak.TimeNS+100
				answered.ID, answered.TimeNS = nak.ID, nak.TimeNS+200
				records = append(records[:12:12], append([]trace.Record{missing, answered}, records[12:]...)...)
				for i := range records {
					records[i].ID = uint64(i + 1)
				}
			}
			o := observer.New(meta, observer.Config{})
			for i := range records {
				o.Packet(&records[i])
			}
			if got := o.Finish()[1].Confirms; got != c.want {
				t.Errorf("confirms %v, want %v", got, c.want)
			}
		})
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
