package exploration

import (
	"math/rand/v2"
	"slices"

	"candela.dev/candela/clock"
	"candela.dev/candela/generator"
	"candela.dev/candela/injector"
	"candela.dev/candela/orchestrator/config"
	"candela.dev/candela/packet"
)

// Bounds of what is drawn. Protocol machines have short memories: what ten packets and a few events do not reach, more
// rarely will, and small tests are fast and easy to read.
const (
	maxEvents      = 6
	maxPackets     = 12 // of a message
	maxMessages    = 4
	maxConnections = 3
	maxOrdinal     = 4 // ITER, or ordinal of a control packet
)

// mutate returns a copy of parent with one to four changes.
func mutate(r *rand.Rand, parent *config.Test) *config.Test {
	t := *parent
	tr := &t.Traffic
	tr.DataEvents, tr.ControlEvents = slices.Clone(tr.DataEvents), slices.Clone(tr.ControlEvents)
	for range 1 + r.IntN(4) {
		switch n := r.IntN(20); {
		case n < 7:
			addData(r, &t)
		case n < 12:
			addControl(r, &t)
		case n < 15:
			dropEvent(r, tr)
		default:
			changeTraffic(r, tr)
		}
	}
	repair(&t)
	return &t
}

func pick[T any](r *rand.Rand, list ...T) T { return list[r.IntN(len(list))] }

func side(r *rand.Rand, t *config.Test) config.Side {
	if t.Traffic.Bidirectional && r.IntN(2) == 0 {
		return config.Responder
	}
	return config.Requester
}

func dropEvent(r *rand.Rand, tr *config.Traffic) {
	data, control := len(tr.DataEvents), len(tr.ControlEvents)
	if data+control == 0 {
		return
	}
	if i := r.IntN(data + control); i < data {
		tr.DataEvents = slices.Delete(tr.DataEvents, i, i+1)
	} else {
		tr.ControlEvents = slices.Delete(tr.ControlEvents, i-data, i-data+1)
	}
}

// changes are the possible changes of the traffic. Each may leave events to be repaired.
var changes = []func(r *rand.Rand, tr *config.Traffic){
	changeVerbs, changeVerbs, changeVerbs,
	func(r *rand.Rand, tr *config.Traffic) { tr.Messages = 1 + r.IntN(maxMessages) },
	func(r *rand.Rand, tr *config.Traffic) { tr.MessageSize = max(0, r.IntN(maxPackets+1)*tr.MTU-r.IntN(2)) },
	func(r *rand.Rand, tr *config.Traffic) { tr.TxDepth = 1 + r.IntN(maxMessages) },
	changeReceives, changeReceives,
	func(r *rand.Rand, tr *config.Traffic) { // just before the wrap
		psn := packet.PSN(1<<24 - 1 - r.IntN(maxPackets))
		tr.InitialPSN.Requester, tr.InitialPSN.Responder = &psn, &psn
	},
	func(r *rand.Rand, tr *config.Traffic) { tr.AckTimeout = 8 + r.IntN(4) },
	func(r *rand.Rand, tr *config.Traffic) { tr.RetryCount, tr.RNRRetry = r.IntN(8), r.IntN(8) },
	func(r *rand.Rand, tr *config.Traffic) { tr.MinRNRTimer = 1 + r.IntN(12) }, // 10 us to 0.64 ms
	func(r *rand.Rand, tr *config.Traffic) { tr.Bidirectional = !tr.Bidirectional },
	func(r *rand.Rand, tr *config.Traffic) { tr.BarrierSync = !tr.BarrierSync },
	func(r *rand.Rand, tr *config.Traffic) { tr.Connections = 1 + r.IntN(maxConnections) },
}

func changeTraffic(r *rand.Rand, tr *config.Traffic) { changes[r.IntN(len(changes))](r, tr) }

// changeVerbs draws one to three verbs, by message or by connection.
func changeVerbs(r *rand.Rand, tr *config.Traffic) {
	tr.Verbs, tr.VerbsBy = []generator.Verb{verb(r)}, pick(r, config.ByMessage, config.ByMessage, config.ByConnection)
	for r.IntN(2) == 0 && len(tr.Verbs) < 3 {
		tr.Verbs = append(tr.Verbs, verb(r))
	}
}

// changeReceives makes the receiver not ready: few receives that come back late.
func changeReceives(r *rand.Rand, tr *config.Traffic) {
	tr.RxDepth, tr.RxRepostDelay = 1+r.IntN(2), clock.Duration(r.IntN(3))*20*clock.Microsecond
}

func verb(r *rand.Rand) generator.Verb {
	return pick(r, generator.Write, generator.Write, generator.Read, generator.Read, generator.Send, generator.WriteImm,
		generator.SendImm, generator.CompareSwap, generator.FetchAdd)
}

// repair makes t valid: it removes events that name no packet, a packet that is taken or more than one packet, and the
// oldest of too many.
func repair(t *config.Test) {
	taken, named := make(claims), make(map[place]bool) // named: some PSN of the place has an event
	tr := &t.Traffic
	tr.DataEvents = slices.DeleteFunc(tr.DataEvents, func(e config.DataEvent) bool {
		return e.QPN > tr.Connections || e.PSN > t.TrafficFrom(e.From, e.QPN).PSNs() ||
			!taken.claim(place{packet.ClassData, e.QPN, e.From, e.From, e.PSN}, e.Iter)
	})
	tr.ControlEvents = slices.DeleteFunc(tr.ControlEvents, func(e config.ControlEvent) bool {
		if e.QPN > tr.Connections || endless(&e) || !possible(t.TrafficFrom(e.From, e.QPN), &e) {
			return true
		}
		p := place{e.Packet, e.QPN, e.From, e.Sender(t), 0}
		if e.Packet == packet.ClassCNP {
			p.from = p.sent // CNPs differ in nothing else
		}
		if e.PSN == nil {
			return e.Nth == injector.Any && named[p] || !taken.claim(p, e.Nth)
		}
		whole := p
		p.psn = *e.PSN
		if slices.Contains(taken[whole], injector.Any) || !taken.claim(p, e.Nth) {
			return true
		}
		named[whole] = true
		return false
	})
	if n := len(tr.DataEvents) - maxEvents; n > 0 {
		tr.DataEvents = slices.Delete(tr.DataEvents, 0, n)
	}
	if n := len(tr.ControlEvents) - maxEvents; n > 0 {
		tr.ControlEvents = slices.Delete(tr.ControlEvents, 0, n)
	}
}

// endless reports whether an event keeps two queue pairs busy until the deadline, by unlimited RNR NAKs.
func endless(e *config.ControlEvent) bool {
	field, rewrites := e.Params.Get("field")
	value, _ := e.Params.Get("value")
	return e.Nth == injector.Any && rewrites && packet.RewriteField(field) == packet.RewriteSyndrome &&
		packet.Syndrome(value).IsRNR()
}

// place is what names a packet before its ITER or ordinal.
type place struct {
	class      packet.Class
	qpn        int
	from, sent config.Side
	psn        int64
}

// claims are the ITERs or ordinals of each place that have an event. injector.Any is all of them.
type claims map[place][]uint16

func (c claims) claim(p place, nth uint16) bool {
	list := c[p]
	if len(list) > 0 && (nth == injector.Any || slices.Contains(list, injector.Any) || slices.Contains(list, nth)) {
		return false
	}
	c[p] = append(list, nth)
	return true
}

// possible reports whether the requests g can come with the control packet of e.
func possible(g generator.Traffic, e *config.ControlEvent) bool {
	if g.Messages == 0 {
		return false
	}
	if e.PSN == nil {
		return slices.ContainsFunc(g.Verbs, func(v generator.Verb) bool { return brings(v, e.Packet) })
	}
	if *e.PSN > g.PSNs() || e.Packet == packet.ClassCNP {
		return false
	}
	m, _ := g.Locate(*e.PSN)
	return brings(m.Verb, e.Packet)
}

// brings reports whether requests of a verb can cause control packets of class c.
func brings(v generator.Verb, c packet.Class) bool {
	switch c {
	case packet.ClassReadRequest:
		return v == generator.Read
	case packet.ClassAtomicAck:
		return v.IsAtomic()
	case packet.ClassRNR:
		return v.ConsumesReceive()
	case packet.ClassAck:
		return v != generator.Read && !v.IsAtomic()
	default:
		return true
	}
}
