package exploration

import (
	"math/rand/v2"
	"slices"

	"candela.dev/candela/injector"
	"candela.dev/candela/orchestrator/config"
	"candela.dev/candela/packet"
	"candela.dev/candela/trace"
)

// ordinal draws small numbers more often than large ones, and sometimes all of them.
func ordinal(r *rand.Rand) uint16 {
	if r.IntN(12) == 0 {
		return injector.Any
	}
	return uint16(1 + r.IntN(1+r.IntN(maxOrdinal)))
}

func addData(r *rand.Rand, t *config.Test) {
	e := config.DataEvent{QPN: 1 + r.IntN(t.Traffic.Connections), From: side(r, t), Iter: ordinal(r)}
	e.PSN = 1 + r.Int64N(max(1, t.TrafficFrom(e.From, e.QPN).PSNs()))
	e.Type = pick(r, turns(true)...)
	e.Params = params(r, e.Type.Action())
	if e.Type == trace.EventTrim {
		e.Trim = &config.Trim{Size: 128, UpdateIPLength: r.IntN(2) == 0}
	}
	if e.Type == trace.EventCorrupt && r.IntN(2) == 0 {
		e.Params = params(r, trace.ActionOf(e.Type, 2))
	}
	t.Traffic.DataEvents = append(t.Traffic.DataEvents, e)
}

func addControl(r *rand.Rand, t *config.Test) {
	e := config.ControlEvent{
		QPN: 1 + r.IntN(t.Traffic.Connections), From: side(r, t), Nth: ordinal(r),
		Packet: pick(r, packet.ClassAck, packet.ClassAck, packet.ClassNak, packet.ClassNak, packet.ClassRNR,
			packet.ClassReadRequest,
			packet.ClassAtomicAck, packet.ClassCNP, packet.ClassNakInv, packet.ClassNakAcc, packet.ClassNakOp),
		Type: pick(r, turns(false)...),
	}
	e.Params = params(r, e.Type.Action())
	switch {
	case e.Packet == packet.ClassCNP && r.IntN(2) == 0:
		by := side(r, t)
		e.SentBy = &by
	case e.Packet != packet.ClassCNP && r.IntN(4) == 0:
		psn := 1 + r.Int64N(max(1, t.TrafficFrom(e.From, e.QPN).PSNs()))
		e.PSN = &psn
	}
	t.Traffic.ControlEvents = append(t.Traffic.ControlEvents, e)
}

// turns lists the events as often as they are drawn.
func turns(data bool) (list []trace.EventType) {
	for i := range trace.Actions {
		if a := &trace.Actions[i]; data || !a.DataOnly {
			list = append(list, slices.Repeat([]trace.EventType{a.Event}, a.Draws)...)
		}
	}
	return list
}

// params draws the parameters of an action that have keys.
func params(r *rand.Rand, a *trace.Action) (p config.Params) {
	if a.Event == trace.EventRewrite {
		f := pick(r, packet.RewriteFields()...)
		return p.With("field", int64(f)).With("value", rewriteValue(r, f))
	}
	for i := range a.Params {
		d := &a.Params[i]
		if d.Key == "" {
			continue
		}
		v := d.Low + r.Int64N(d.Spread)
		if d.Magnitudes > 0 { // from the time of a packet on the wire to half of the shortest ACK timeout
			v <<= r.Int64N(d.Magnitudes)
		}
		p = p.With(d.Key, v)
	}
	return p
}

// rewriteValue draws the value of a field: any that fits, but mostly meaningful ones for fields with few meaningful
// values.
func rewriteValue(r *rand.Rand, f packet.RewriteField) int64 {
	switch f {
	case packet.RewritePSN:
		return 1 + r.Int64N(2*maxPackets)
	case packet.RewriteMSN:
		return r.Int64N(2 * maxMessages)
	case packet.RewriteOpcode:
		return r.Int64N(int64(packet.FetchAdd) + 1) // of a reliable connection
	case packet.RewriteSyndrome:
		return pick(r, 0x1f, 0x60+r.Int64N(4), 0x20+r.Int64N(12))
	default:
		const most = 1 << 16 // of a length: a READ of gigabytes would take its time
		return r.Int64N(min(most, int64(1)<<f.Bits()))
	}
}
