package fields_test

import (
	"net/netip"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"candela.dev/candela/analyzers/fields"
	"candela.dev/candela/packet"
	"candela.dev/candela/trace"
)

// The fast path for packets with the headers of those before yields the same findings.
func TestPacketsWithTheUsualHeadersAreJudgedLikeAnyOther(t *testing.T) {
	side := func(host byte) trace.Side { return trace.Side{IP: netip.AddrFrom4([4]byte{10, 0, 0, host}), QPN: 7} }
	connections, err := trace.NewConnections([]trace.Connection{{Index: 1, MTU: 1024, Requester: side(1),
		Responder: side(2)}})
	if err != nil {
		t.Fatal(err)
	}
	dscp, ecn, migReq := uint8(26), packet.ECT0, true
	rapid.Check(t, func(t *rapid.T) {
		var cfg fields.Config
		if rapid.Bool().Draw(t, "settings") {
			cfg.Requester = fields.Settings{DSCP: &dscp, ECN: &ecn, MigReq: &migReq}
		}
		meta := trace.Meta{Kind: trace.KindMirror, EventsKnown: true, Connections: connections}
		short, general := fields.New(meta, cfg), fields.NewGeneral(meta, cfg)
		psn := packet.PSN(1)
		for i := range rapid.IntRange(1, 40).Draw(t, "records") {
			r := trace.Record{
				ID: uint64(i + 1), TimeNS: int64(i) * 1000, Flags: trace.Sent | trace.Passed | trace.MigReq,
				Opcode: packet.WriteMiddle, PSN: psn,
				PayloadLen: 1024, DSCP: 26, ECN: packet.ECT0, SrcPort: 1,
			}
			switch rapid.IntRange(0, 9).Draw(t, "kind") {
			case 0:
				r.Opcode = packet.Opcode(rapid.SampledFrom([]byte{0, 4, 5, 9, 12, 13, 15, 17, 18, 19, 20, 22, 0x81, 0x1f}).Draw(t,
					"opcode"))
				r.PayloadLen, r.VA, r.Operand = uint16(rapid.IntRange(0, 1).Draw(t, "length")),
					uint64(rapid.IntRange(0, 9).Draw(t, "va")), rapid.Uint64Max(1).Draw(t, "operand")
			case 1:
				r.Flags ^= rapid.SampledFrom([]trace.Flags{trace.Sent, trace.Solicited, trace.FECN, trace.BECN, trace.MigReq,
					trace.AckReq}).Draw(t, "flag")
			case 2:
				r.DSCP, r.ECN = uint8(rapid.IntRange(25, 26).Draw(t, "dscp")), packet.ECN(rapid.IntRange(0, 3).Draw(t, "ecn"))
			case 3:
				r.SrcPort = uint16(rapid.IntRange(1, 2).Draw(t, "port"))
			case 4:
				r.Version, r.Reserved = uint8(rapid.IntRange(0, 1).Draw(t, "version")),
					uint16(rapid.IntRange(0, 1).Draw(t, "reserved"))
			case 5:
				r.PSN = r.PSN.Add(-rapid.IntRange(1, 3).Draw(t, "back"))
			case 6:
				r.ICRC = packet.ICRCInvalid
			}
			if rapid.IntRange(0, 9).Draw(t, "reverse") == 0 {
				r.Flow = 1
			}
			psn = r.PSN.Next()
			a, b := r, r
			short.Packet(&a)
			general.Packet(&b)
		}
		if diff := cmp.Diff(general.Compare(), short.Compare()); diff != "" {
			t.Error(diff)
		}
		if diff := cmp.Diff(general.Finish(), short.Finish()); diff != "" {
			t.Error(diff)
		}
	})
}
