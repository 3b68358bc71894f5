package fabric

import (
	"candela.dev/candela/clock"
	"candela.dev/candela/trace"
)

// NDPTaps returns a Tap that hands every NDP packet that passes a switch, or with sw < 0 the NICs of the hosts, to
// observe, which may use its argument during the call only. At NICs "before" is what hosts send and "after" what
// reaches them. Observations have the packets' IDs.
func NDPTaps(sw int, headerSize int, observe func(*trace.Tap)) Tap {
	var t trace.Tap
	return func(at Point, now clock.Time, p *Packet) {
		if p.Protocol != NDP || at.Stage > Egress || at.Host != (sw < 0) || !at.Host && at.Node != sw {
			return
		}
		point := trace.TapBefore
		if (at.Stage == Egress) != at.Host {
			point = trace.TapAfter
		}
		t = trace.Tap{
			Time: now, Number: p.ID, Point: point, IPv6: p.IPv6, DSCP: p.DSCP, ECN: uint8(p.ECN),
			Src: uint32(p.Src), Dst: uint32(p.Dst), Size: p.Size, Payload: max(0, p.Size-int32(headerSize)), NDP: p.NDP,
		}
		if at.Host {
			t.At = uint32(at.Node) + 1
		}
		observe(&t)
	}
}
