package rounds_test

import (
	"net/netip"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"pgregory.net/rapid"

	"candela.dev/candela/analyzers/rounds"
	"candela.dev/candela/packet"
	"candela.dev/candela/trace"
)

// The fast path for requests in order changes neither steps nor state.
func TestRequestsInOrderAreFollowedLikeAnyOther(t *testing.T) {
	connections, short := twoConnections(t), 0
	rapid.Check(t, func(t *rapid.T) {
		meta := trace.Meta{Kind: trace.KindMirror, EventsKnown: rapid.Bool().Draw(t, "events"), Connections: connections}
		fast, general := rounds.New(meta), rounds.NewGeneral(meta)
		next := [2]packet.PSN{0xfffffa, 100}
		for i := range rapid.IntRange(1, 60).Draw(t, "records") {
			r := drawnRecord(t, &next)
			r.ID, r.TimeNS = uint64(i+1), int64(i)*1000
			got, want := fast.Packet(&r), general.Packet(&r)
			if diff := cmp.Diff(want, got, cmpopts.EquateComparable(rounds.Transmission{})); diff != "" {
				t.Fatalf("record %d, %+v: %s", i, r, diff)
			}
			if got != nil && got.Marks == 0 && r.Opcode.IsRequest() {
				short++
			}
			if !rounds.Same(fast, general) {
				t.Fatalf("different after record %d: %+v", i, r)
			}
		}
	})
	if short == 0 {
		t.Error("no request was in order")
	}
}

// twoConnections are of the same hosts, the first one with a PSN that soon wraps.
func twoConnections(t *testing.T) *trace.Connections {
	list := make([]trace.Connection, 2)
	for i := range list {
		side := func(host byte, ipsn packet.PSN) trace.Side {
			return trace.Side{IP: netip.AddrFrom4([4]byte{10, 0, 0, host}), QPN: packet.QPN(17 + i), IPSN: ipsn}
		}
		list[i] = trace.Connection{Index: i + 1, Requester: side(1, [2]packet.PSN{0xfffffa, 100}[i]), Responder: side(2, 500),
			MTU: 1024}
	}
	c, err := trace.NewConnections(list)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// drawnRecord returns a record that usually follows the one before on its connection.
func drawnRecord(t *rapid.T, next *[2]packet.PSN) trace.Record {
	connection := rapid.IntRange(0, 1).Draw(t, "connection")
	r := trace.Record{Flow: trace.NewFlowID(connection+1, false), Flags: trace.Sent | trace.Passed, PayloadLen: 1024,
		Opcode: packet.WriteMiddle}
	r.PSN = next[connection]
	switch rapid.IntRange(0, 11).Draw(t, "kind") {
	case 0: // an answer
		r.Flow, r.Opcode, r.Flags, r.PayloadLen = r.Flow.Peer(), packet.Acknowledge, r.Flags|trace.HasAETH, 0
		r.PSN = r.PSN.Add(-rapid.IntRange(1, 4).Draw(t, "behind"))
		r.Syndrome = rapid.SampledFrom([]packet.Syndrome{packet.SyndromeAck, packet.SyndromeNakSequence,
			packet.SyndromeRNR}).Draw(t, "syndrome")
		return r
	case 1:
		r.PSN = r.PSN.Add(rapid.IntRange(-5, 3).Draw(t, "jump"))
	case 2:
		r.Opcode = rapid.SampledFrom([]packet.Opcode{packet.ReadRequest, packet.CmpSwap, packet.SendOnlyInv,
			packet.WriteOnlyImm}).Draw(t, "opcode")
		r.Flags, r.DMALen = r.Flags|trace.HasRETH, uint32(rapid.IntRange(0, 3000).Draw(t, "length"))
	case 3:
		r.Event = trace.EventType(rapid.IntRange(0, int(trace.MaxEventType)).Draw(t, "event"))
	case 4:
		r.Flags &^= rapid.SampledFrom([]trace.Flags{trace.Sent, trace.Passed}).Draw(t, "unseen")
	case 5:
		r.Flags |= trace.ForeignPKey
	case 6:
		r.ICRC = packet.ICRCInvalid
	}
	next[connection] = r.PSN.Next()
	return r
}
