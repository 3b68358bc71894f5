package fabric

import (
	"candela.dev/candela/clock"
	"candela.dev/candela/trace"
)

// NDPTaps returns a Tap that passes every NDP packet at switch sw to observe or, with sw < 0, every NDP packet at the
// hosts' NICs. The argument of observe is valid only during the call. At NICs, "before" is sent by hosts and "after" is
// received by them. Observations have the packets' IDs.
func NDPTaps(sw int, headerSize int, observe func(*trace.Tap)) Tap {
	var t trace.Tap
	return func(at Point, now clock.Time, p *Packet) {
		if p.Protocol != NDP || at.Stage > Egress || at.Host != (sw < 0) || !at.Host && at.Node != sw {
			return
		}
		FillNDPTap(at, now, p, headerSize, &t)
		observe(&t)
	}
}

// FillNDPTap fills t with the view of p, an NDP packet that enters or leaves a switch or a host.
func FillNDPTap(at Point, now clock.Time, p *Packet, headerSize int, t *trace.Tap) {
	point := trace.TapBefore
	if (at.Stage == Egress) != at.Host {
		point = trace.TapAfter
	}
	// one by one: a literal is built elsewhere and copied
	t.Time, t.Number, t.Point, t.IPv6, t.DSCP, t.ECN = now, p.ID, point, p.IPv6, p.DSCP, uint8(p.ECN)
	t.Src, t.Dst, t.Size, t.Payload = uint32(p.Src), uint32(p.Dst), p.Size, max(0, p.Size-int32(headerSize))
	t.NDP.Set(&p.NDP)
	t.At = 0
	if at.Host {
		t.At = uint32(at.Node) + 1
	}
}
