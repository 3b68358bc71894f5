package exploration

import (
	"math/rand/v2"
	"slices"

	"candela.dev/candela/clock"
	"candela.dev/candela/generator"
	"candela.dev/candela/injector"
	"candela.dev/candela/orchestrator/config"
	"candela.dev/candela/packet"
	"candela.dev/candela/trace"
)

// Bounds of what is drawn. Protocol machines have short memories: what ten packets and a few events don't reach, more of the
// same hardly will, and small tests are fast and easy to read.
const (
	maxEvents   = 6
	maxPackets  = 12 // of a message
	maxMessages = 4
	maxOrdinal  = 4 // ITER, or ordinal of a control packet
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

// ordinal draws small numbers more often than large ones.
func ordinal(r *rand.Rand) uint16 { return uint16(1 + r.IntN(1+r.IntN(maxOrdinal))) }

func addData(r *rand.Rand, t *config.Test) {
	e := config.DataEvent{QPN: 1 + r.IntN(t.Traffic.Connections), From: side(r, t), Iter: ordinal(r)}
	e.PSN = 1 + r.Int64N(max(1, t.TrafficFrom(e.From, e.QPN).PSNs()))
	e.Type = pick(r, trace.EventDrop, trace.EventDrop, trace.EventDrop, trace.EventCorrupt, trace.EventECN)
	t.Traffic.DataEvents = append(t.Traffic.DataEvents, e)
}

func side(r *rand.Rand, t *config.Test) config.Side {
	if t.Traffic.Bidirectional && r.IntN(2) == 0 {
		return config.Responder
	}
	return config.Requester
}

func addControl(r *rand.Rand, t *config.Test) {
	t.Traffic.ControlEvents = append(t.Traffic.ControlEvents, config.ControlEvent{
		QPN: 1 + r.IntN(t.Traffic.Connections), From: side(r, t), Nth: ordinal(r), Type: trace.EventDrop,
		Packet: pick(r, packet.ClassAck, packet.ClassNak, packet.ClassRNR, packet.ClassReadRequest, packet.ClassAtomicAck),
	})
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

func changeTraffic(r *rand.Rand, tr *config.Traffic) {
	switch r.IntN(8) {
	case 0, 1:
		tr.Verbs = []generator.Verb{verb(r)}
		if r.IntN(2) == 0 {
			tr.Verbs = append(tr.Verbs, verb(r))
		}
	case 2:
		tr.Messages = 1 + r.IntN(maxMessages)
	case 3:
		tr.MessageSize = max(0, r.IntN(maxPackets+1)*tr.MTU-r.IntN(2))
	case 4:
		tr.TxDepth = 1 + r.IntN(maxMessages)
	case 5: // few receives that come back late make the receiver not ready
		tr.RxDepth, tr.RxRepostDelay = 1+r.IntN(2), clock.Duration(r.IntN(3))*20*clock.Microsecond
	case 6: // just before the wrap
		psn := packet.PSN(1<<24 - 1 - r.IntN(maxPackets))
		tr.InitialPSN.Requester, tr.InitialPSN.Responder = &psn, &psn
	case 7:
		tr.AckTimeout = 8 + r.IntN(4)
	}
}

func verb(r *rand.Rand) generator.Verb {
	return pick(r, generator.Write, generator.Write, generator.Read, generator.Read, generator.Send, generator.WriteImm,
		generator.SendImm, generator.CompareSwap, generator.FetchAdd)
}

// repair makes t legal again: events that name no packet, a packet that is taken or more than one packet are left out, and
// the oldest of too many.
func repair(t *config.Test) {
	type key struct {
		class packet.Class
		qpn   int
		from  config.Side
		psn   int64
		nth   uint16
	}
	taken := make(map[key]bool)
	free := func(k key) bool {
		ok := !taken[k]
		taken[k] = true
		return ok
	}
	tr := &t.Traffic
	tr.DataEvents = slices.DeleteFunc(tr.DataEvents, func(e config.DataEvent) bool {
		return e.PSN > t.TrafficFrom(e.From, e.QPN).PSNs() || e.Iter == injector.Any ||
			!free(key{packet.ClassData, e.QPN, e.From, e.PSN, e.Iter})
	})
	tr.ControlEvents = slices.DeleteFunc(tr.ControlEvents, func(e config.ControlEvent) bool {
		return e.PSN != nil || e.Nth == injector.Any || !possible(t.TrafficFrom(e.From, e.QPN).Verbs, e.Packet) || !free(key{e.Packet, e.QPN, e.From, 0, e.Nth})
	})
	if n := len(tr.DataEvents) - maxEvents; n > 0 {
		tr.DataEvents = slices.Delete(tr.DataEvents, 0, n)
	}
	if n := len(tr.ControlEvents) - maxEvents; n > 0 {
		tr.ControlEvents = slices.Delete(tr.ControlEvents, 0, n)
	}
}

// possible reports whether requests of these verbs can come with control packets of class c.
func possible(verbs []generator.Verb, c packet.Class) bool {
	has := func(f func(generator.Verb) bool) bool { return slices.ContainsFunc(verbs, f) }
	isRead := func(v generator.Verb) bool { return v == generator.Read }
	switch c {
	case packet.ClassReadRequest:
		return has(isRead)
	case packet.ClassAtomicAck:
		return has(generator.Verb.IsAtomic)
	case packet.ClassRNR:
		return has(generator.Verb.ConsumesReceive)
	case packet.ClassAck:
		return has(func(v generator.Verb) bool { return !isRead(v) && !v.IsAtomic() })
	default:
		return true
	}
}
