package counters_test

import (
	"net/netip"
	"testing"

	"pgregory.net/rapid"

	"candela.dev/candela/analyzers/counters"
	"candela.dev/candela/packet"
	"candela.dev/candela/trace"
)

// The fast path for requests in order yields the same bounds.
func TestRequestsInOrderAreCountedLikeAnyOther(t *testing.T) {
	ips := []netip.Addr{netip.AddrFrom4([4]byte{10, 0, 0, 1}), netip.AddrFrom4([4]byte{10, 0, 0, 2})}
	connections, err := trace.NewConnections([]trace.Connection{{
		Index: 1, MTU: 1024, Requester: trace.Side{IP: ips[0], QPN: 7}, Responder: trace.Side{IP: ips[1], QPN: 9},
	}})
	if err != nil {
		t.Fatal(err)
	}
	rapid.Check(t, func(t *rapid.T) {
		var input counters.Input
		for i, ip := range ips {
			input.Hosts = append(input.Hosts, counters.Host{Name: []string{"a", "b"}[i], IPs: []netip.Addr{ip}})
		}
		meta := trace.Meta{Kind: trace.KindMirror, EventsKnown: true, Connections: connections}
		short, general := counters.New(meta, input), counters.NewGeneral(meta, input)
		psn := packet.PSN(0)
		for i := range rapid.IntRange(1, 40).Draw(t, "records") {
			r := trace.Record{ID: uint64(i + 1), TimeNS: int64(i) * 1000, Flags: trace.Sent | trace.Passed,
				Opcode: packet.WriteMiddle, PSN: psn, PayloadLen: 1024}
			switch rapid.IntRange(0, 9).Draw(t, "kind") {
			case 0:
				r.Opcode = rapid.SampledFrom([]packet.Opcode{packet.ReadRequest, packet.FetchAdd, packet.CNP,
					packet.SendOnly}).Draw(t, "opcode")
			case 1:
				r.Flags ^= rapid.SampledFrom([]trace.Flags{trace.Sent, trace.Passed, trace.ForeignPKey}).Draw(t, "flag")
			case 2:
				r.ECN = packet.ECN(rapid.IntRange(0, 3).Draw(t, "ecn"))
			case 3:
				r.Event = trace.EventType(rapid.IntRange(0, int(trace.MaxEventType)).Draw(t, "event"))
			case 4:
				r.PSN = r.PSN.Add(-rapid.IntRange(1, 3).Draw(t, "back"))
			case 5:
				r.ICRC = packet.ICRCInvalid
			case 6:
				r.Flow, r.Opcode, r.Syndrome = 1, packet.Acknowledge, packet.SyndromeNakSequence
			}
			psn = r.PSN.Next()
			a, b := r, r
			short.Packet(&a)
			general.Packet(&b)
		}
		if !counters.Same(short, general) {
			t.Error("the counts differ")
		}
	})
}
