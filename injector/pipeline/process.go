package pipeline

import (
	"encoding/binary"

	"candela.dev/candela/injector/p4"
	"candela.dev/candela/packet"
	"candela.dev/candela/trace"
)

// Mirror is the decision to copy a packet to a dumper. The copy is the packet as it arrived, with these numbers written
// into it (trace.EncodeMirror), cut to Snap bytes.
type Mirror struct {
	Active     bool
	Session    uint16
	UDPDstPort uint16
	Snap       uint32   // bytes from the start of the Ethernet header, 0: whole
	Seq        uint64   // 48 bits, consecutive within a run
	TimeNS     int64    // arrival, modulo 2⁴⁸
	Ports      []uint16 // egress ports of the clone session; the pipeline's, valid until it is programmed
}

// Forward is the decision where the packet itself goes.
type Forward struct {
	Drop  bool
	Flood bool
	Port  uint16   // egress, unless Drop or Flood
	Ports []uint16 // of a flood; the pipeline's, valid until it is programmed

	// What software targets do before sending. At most one of these is not zero.
	DelayNS int64  // hold the packet for so long, while others pass
	Copies  uint16 // send that many copies directly after it
	Behind  uint16 // hold it until that many later packets of its flow have arrived, at most [trace.ReorderLimitNS]
}

// Result is what the pipeline decided about one packet.
type Result struct {
	RoCE    bool
	Event   trace.EventType
	Flow    trace.FlowID // NoFlow for packets of no programmed connection
	Iter    uint16       // of data packets on a known flow
	Runt    bool         // the action found nothing to cut or change: the packet passes whole and the event is none
	Mirror  Mirror
	Forward Forward

	action *action // the entry's, valid until the pipeline is programmed; nil: none
}

const (
	mask48 = 1<<48 - 1

	etherTypeMACControl = 0x8808
	// A bridge does not forward slow-protocol and pause addresses 01-80-c2-00-00-0x (IEEE 802.1Q, 8.6.3).
	reservedMACs     = 0x0180c2000000
	reservedMACsMask = mask48 &^ 0xf
)

// Process decides about p, which arrived on port ingress at nowNS (nanoseconds on the switch's clock), and overwrites
// r. It does not change p and allocates nothing.
func (p *Pipeline) Process(nowNS int64, ingress uint16, pk *packet.Packet, r *Result) {
	*r = Result{Flow: trace.NoFlow}
	ingress &= MaxPorts - 1
	if !pk.IsRoCE() {
		if pk.Eth.Type == etherTypeMACControl {
			p.pauseRx[ingress].packets++
		}
		p.forward(ingress, pk, r)
		return
	}
	r.RoCE = true
	length := pk.Len()
	p.roceRx[ingress].add(length)
	p.inject(pk, r)
	if p.gateOpen {
		p.mirror(nowNS, length, r)
	}
	if r.Event == trace.EventDrop {
		r.Forward.Drop = true
		return
	}
	p.forward(ingress, pk, r)
	if a := r.action; a != nil {
		r.Forward.DelayNS, r.Forward.Copies, r.Forward.Behind = a.way.delayNS, a.way.copies, a.way.behind
		length = a.forwardedLen(pk, length)
	}
	for range 1 + int(r.Forward.Copies) {
		p.countTx(r, length)
	}
}

// inject finds the packet's flow and event.
func (p *Pipeline) inject(pk *packet.Packet, r *Result) {
	f := p.lookupFlow(pk)
	if f == nil {
		return
	}
	index := f.id & p4.FlowIndexMask
	r.Flow = trace.FlowID(index)
	var e *eventEntry
	if class := pk.Class(); class == packet.ClassData {
		e = p.matchData(f, &p.rounds[2*index+uint16(pk.BTH.Opcode.Space())], pk, r)
	} else {
		e = p.matchControl(f, index, class, pk)
	}
	if e == nil {
		return
	}
	e.hits++
	if e.action.misses(pk) {
		p.runts++
		r.Runt = true
		return
	}
	r.action, r.Event = &e.action, e.action.event
}

// matchData advances the round and returns the event of a data packet, or nil.
func (p *Pipeline) matchData(f *flow, s *round, pk *packet.Packet, r *Result) *eventEntry {
	space, psn := pk.BTH.Opcode.Space(), pk.BTH.PSN
	r.Iter = s.advance(f, space, pk)
	if s.filter&filterBit(psn) == 0 {
		return nil
	}
	slot, nth, watched := p.arrive(f, space, packet.ClassData, psn)
	k := eventKey(f.id, space, psn, r.Iter)
	if e := p.event.find(hashInt(k), k); e != nil {
		return e
	}
	if watched {
		k := watchedKey(slot, nth)
		if e := p.watchedEvent.find(hashInt(k), k); e != nil {
			return e
		}
	}
	k = eventAnyKey(f.id, space, psn)
	return p.eventAny.find(hashInt(k), k)
}

// matchControl counts a control packet and returns its event, or nil.
func (p *Pipeline) matchControl(f *flow, index uint16, class packet.Class, pk *packet.Packet) *eventEntry {
	slot, nth, watched := p.arrive(f, pk.BTH.Opcode.Space(), class, pk.BTH.PSN)
	k := controlKey(f.id, class, p.ordinals[classes*int(index)+int(class)].next(f.epoch))
	if e := p.controlEvent.find(hashInt(k), k); e != nil {
		return e
	}
	if watched {
		k := watchedKey(slot, nth)
		if e := p.watchedEvent.find(hashInt(k), k); e != nil {
			return e
		}
	}
	k = eventAnyKey(f.id|p4.FlowControlClass, 0, packet.PSN(class))
	return p.eventAny.find(hashInt(k), k)
}

func (p *Pipeline) lookupFlow(pk *packet.Packet) *flow {
	qpn := uint64(pk.BTH.DestQP) | occupied
	if pk.IP.Src.Is4() && pk.IP.Dst.Is4() {
		src, dst := pk.IP.Src.As4(), pk.IP.Dst.As4()
		k := v4Key{uint64(binary.BigEndian.Uint32(src[:]))<<32 | uint64(binary.BigEndian.Uint32(dst[:])), qpn}
		return p.v4.find(hashV4(k), k)
	}
	src, dst := pk.IP.Src.As16(), pk.IP.Dst.As16()
	k := v6Key{
		src: [2]uint64{binary.BigEndian.Uint64(src[:8]), binary.BigEndian.Uint64(src[8:])},
		dst: [2]uint64{binary.BigEndian.Uint64(dst[:8]), binary.BigEndian.Uint64(dst[8:])},
		qpn: qpn,
	}
	return p.v6.find(hashV6(k), k)
}

// arrive counts the packet in the watch slot that waits for it.
func (p *Pipeline) arrive(f *flow, space packet.Space, class packet.Class, psn packet.PSN) (slot, nth uint16,
	watched bool) {
	if p.watch.n == 0 {
		return 0, 0, false
	}
	k := watchKey(f.id, space, class, psn)
	s := p.watch.find(hashInt(k), k)
	if s == nil {
		return 0, 0, false
	}
	if *s&p4.WatchEvery != 0 {
		return *s, 0, true
	}
	return *s, p.watchArrivals[*s].next(f.epoch), true
}

// advance advances the round of transmission by a data packet and returns its ITER (Lumina, figure 5-3).
func (s *round) advance(f *flow, space packet.Space, pk *packet.Packet) uint16 {
	psn := pk.BTH.PSN
	if s.epoch != f.epoch {
		s.last, s.iter, s.epoch = f.ipsn[space].Add(-1), 1, f.epoch
	}
	ahead := psn.Sub(s.last)
	s.last = psn
	if f.id&p4.FlowMessageScope != 0 {
		s.advanceMessage(ahead == 1, pk.BTH.Opcode.Starts())
	} else if ahead <= 0 {
		s.increment()
	}
	return s.iter
}

// advanceMessage is the prototype's rule.
func (s *round) advanceMessage(inOrder, starts bool) {
	switch {
	case !inOrder:
		s.increment()
	case starts:
		s.iter = 1
	}
}

func (s *round) increment() {
	if s.iter != p4.Saturated {
		s.iter++
	}
}

// mirror gives the packet its mirror sequence number and selects the next dumper. A turn without a session takes a
// number, too: the gap shows in the trace instead of hiding a lost copy.
func (p *Pipeline) mirror(nowNS int64, length int, r *Result) {
	p.seq = (p.seq + 1) & mask48
	turn := p.turn
	if p.turn++; p.turn >= p.slots {
		p.turn = 0
	}
	if int(turn) >= len(p.turns) || p.turns[turn] == none {
		return
	}
	session := p.turns[turn]
	ports := p.sessions[session]
	if len(ports) == 0 {
		return
	}
	p.mirrored[session].add(length)
	m := &r.Mirror // field by field: a literal is copied on the stack, which takes 10 ns
	m.Active, m.Session, m.Ports, m.Snap = true, uint16(session), ports, p.snap
	m.Seq, m.TimeNS, m.UDPDstPort = p.seq, nowNS&mask48, p.udpPort(p.seq)
}

// udpPort returns the UDP destination port of a mirror copy, 1024 … 65535, so that receive-side scaling spreads the
// copies over a dumper's cores. It is a function of seed and sequence (the finaliser of SplitMix64).
func (p *Pipeline) udpPort(seq uint64) uint16 {
	x := p.cfg.Seed + seq*mix1
	x = (x ^ x>>30) * 0xbf58476d1ce4e5b9
	x = (x ^ x>>27) * 0x94d049bb133111eb
	x ^= x >> 31
	const lowest = 1024
	return uint16(lowest + (x>>32)*(1<<16-lowest)>>32)
}

func (p *Pipeline) forward(ingress uint16, pk *packet.Packet, r *Result) {
	dst := pk.Eth.Dst.Uint48()
	if pk.Eth.Dst.IsGroup() {
		if dst&reservedMACsMask == reservedMACs {
			r.Forward.Drop = true
			return
		}
		p.flood(ingress, r)
		return
	}
	k := macKey(dst)
	if port := p.l2.find(hashInt(k), k); port != nil {
		r.Forward.Port = *port
		return
	}
	if p.l2Default != flood {
		r.Forward.Port = uint16(p.l2Default)
		return
	}
	p.flood(ingress, r)
}

func (p *Pipeline) flood(ingress uint16, r *Result) {
	r.Forward.Flood = true
	r.Forward.Ports = p.group
	if int(ingress) < len(p.floodFrom) {
		r.Forward.Ports = p.floodFrom[ingress]
	}
}

func (p *Pipeline) countTx(r *Result, forwarded int) {
	switch {
	case r.Forward.Drop:
	case r.Forward.Flood:
		for _, port := range r.Forward.Ports {
			p.roceTx[port&(MaxPorts-1)].add(forwarded)
		}
	default:
		p.roceTx[r.Forward.Port&(MaxPorts-1)].add(forwarded)
	}
}
