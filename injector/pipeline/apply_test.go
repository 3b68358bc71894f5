package pipeline_test

import (
	"testing"

	"candela.dev/candela/injector/p4"
	"candela.dev/candela/injector/pipeline"
	"candela.dev/candela/packet"
	"candela.dev/candela/trace"
)

// decide returns the result for the first packet of a flow on which a acts.
func decide(t *testing.T, a p4.Action, pk *packet.Packet) pipeline.Result {
	t.Helper()
	p := newPipeline(t, 4)
	addFlow(t, p, 0, 1)
	mustSet(t, p, p4.TableEvent, p4.KeyOf(0, 0, ipsn, 1), a)
	var r pipeline.Result
	p.Process(0, 0, pk, &r)
	return r
}

func TestApplyEditsTheForwardedCopyOnly(t *testing.T) {
	trim := func(size, dscp, flags uint64) p4.Action { return p4.NewAction(p4.ActionTrim, size, dscp, flags) }
	all := uint64(packet.TrimSetDSCP | packet.TrimUpdateIPLength | packet.TrimUpdateUDPLength)
	tests := []struct {
		name   string
		action p4.Action
		check  func(t *testing.T, p *packet.Packet)
		length int
		runt   bool
	}{
		{"mark_ecn sets CE and keeps the packet valid", doMark, func(t *testing.T, p *packet.Packet) {
			equal(t, "ECN", p.IP.ECN(), packet.CE)
			equal(t, "iCRC", p.CheckICRC(), packet.ICRCValid)
		}, 1082, false},
		{"corrupt makes the packet die of its iCRC alone", doCorrupt, func(t *testing.T, p *packet.Packet) {
			equal(t, "iCRC", p.CheckICRC(), packet.ICRCInvalid)
			b := p.AppendTo(nil)
			equal(t, "header checksum", packet.HeaderChecksum(b[14:34]), p.IP.Checksum)
		}, 1082, false},
		{"trim cuts and leaves the lengths alone", trim(64, 0, 0), func(t *testing.T, p *packet.Packet) {
			equal(t, "truncated", p.Truncated(), true)
			equal(t, "IP length", p.IP.Length, uint16(1068))
		}, 14 + 64, false},
		{"trim updates lengths and DSCP if the flags say so", trim(64, 9, all), func(t *testing.T, p *packet.Packet) {
			equal(t, "truncated", p.Truncated(), false)
			equal(t, "lengths", [2]uint16{p.IP.Length, p.UDP.Length}, [2]uint16{64, 44})
			equal(t, "DSCP", p.IP.DSCP(), uint8(9))
			b := p.AppendTo(nil)
			equal(t, "header checksum", packet.HeaderChecksum(b[14:34]), p.IP.Checksum)
		}, 14 + 64, false},
		{"trim passes a packet that is no longer than its size", trim(1068, 9, all), func(t *testing.T, p *packet.Packet) {
			equal(t, "DSCP", p.IP.DSCP(), uint8(0))
			equal(t, "iCRC", p.CheckICRC(), packet.ICRCValid)
		}, 1082, true},
		{"trim through the transport header stays byte-exact", trim(30, 0, 0), func(t *testing.T, p *packet.Packet) {
			equal(t, "RoCE", p.IsRoCE(), false)
		}, 14 + 30, false},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			original := dataPacket(ipsn)
			before := original.AppendTo(nil)
			r := decide(t, tt.action, original)
			equal(t, "runt", r.Runt, tt.runt)
			equal(t, "a runt has no event", r.Event == trace.EventNone, tt.runt)
			forwarded := *original
			r.Apply(&forwarded)
			tt.check(t, &forwarded)
			after := forwarded.AppendTo(nil)
			equal(t, "length", len(after), tt.length)
			equal(t, "original", original.AppendTo(nil), before)
			var parsed packet.Packet
			if err := parsed.Parse(after); err == nil {
				equal(t, "bytes parsed and written again", parsed.AppendTo(nil), after)
			}
		})
	}
}
