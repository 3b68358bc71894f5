package fabric

import (
	"candela.dev/candela/clock"
	"candela.dev/candela/generator/bolt"
)

// BoltSpec is the part of switches in Bolt (Arslan et al., NSDI 2023, section 3; pfifo-bolt-queue-disc.cc of the
// authors' simulator), beside any mechanism. Each port that leads outside has a register of each kind of tokens. The
// zero value is off.
//
// A data packet of Bolt is looked at once in a switch, before it is queued or refused:
//
//   - at the threshold or above: congestion. The packet loses INC. With SRC, if it has no DEC, it gets that and an SRC
//     packet with queue, rate and time of sending goes to its sender.
//   - else, with PRU, a packet with LAST adds a PRU token unless it has FIRST, too
//   - else a packet with INC takes a PRU token or, of SM tokens, the bytes of an MTU, or loses INC
type BoltSpec struct {
	SRC, PRU, SM bool
	Threshold    int // CCTHRESH: bytes that wait in all queues of the port
	MTU          int // bytes: what a grant takes of SM tokens, and the most that there may be
	MaxTokens    int // of PRU, per port
	Fault        BoltFault
}

// On reports whether a switch has any part of it.
func (b *BoltSpec) On() bool { return b.SRC || b.PRU || b.SM }

// BoltFault is a seeded bug of Bolt's part in switches.
type BoltFault uint8

// Faults.
const (
	BoltSound         BoltFault = iota
	BoltEarlySRC                // SRC from half the threshold on
	BoltForgetsSRC              // every 4th SRC is not sent
	BoltDoublesSRC              // every 4th SRC is sent twice
	BoltIgnoresDEC              // an SRC packet although an earlier switch has sent one
	BoltWrongQueue              // SRC packets tell half of the queue
	BoltWrongRate               // SRC packets tell twice the rate
	BoltWrongTime               // SRC packets have the time of the switch
	BoltKeepsInc                // congestion leaves INC
	BoltForgetsDec              // packets with an SRC get no DEC
	BoltCountsFirst             // packets with FIRST and LAST add PRU tokens
	BoltForgetsPRU              // packets with LAST add none
	BoltSpendsNoPRU             // grants take no PRU token
	BoltUncappedSM              // SM tokens grow beyond an MTU
	BoltForgetsDemand           // packets take nothing of SM tokens
	BoltForgetsSM               // SM tokens grant nothing
)

// boltSwitch is Bolt's part of a switch.
type boltSwitch struct {
	spec  BoltSpec
	ports []boltPort
	count int // occasions of a fault
}

// boltPort has the registers of a port.
type boltPort struct {
	pru     int
	sm      float64 // bytes
	updated clock.Time
}

// boltEvery is how often some faults occur.
const boltEvery = 4

// srcNumber is set in the numbers of SRC packets, besides otherNumber.
const srcNumber = 1 << 30

// place places p as the mechanism or the route says, after Bolt has looked at it.
func (b *boltSwitch) place(now clock.Time, sw *Switch, p *Packet, v Verdict) {
	var notice *Packet
	if v.Action == Forward && int(v.Port) < sw.front {
		notice = b.see(now, sw, &sw.ports[v.Port], p)
	}
	in, of := p.Ingress, p.ID
	sw.place(now, p, v)
	if notice == nil {
		return
	}
	notice.Ingress = in
	if b.spec.Fault == BoltDoublesSRC && b.count%boltEvery == 0 {
		b.send(now, sw, sw.Make(now, notice.Header), of)
	}
	b.send(now, sw, notice, of)
}

// send queues what the switch has made in answer to a packet, at once: the ingress pipeline that makes it decides no
// more about it.
func (b *boltSwitch) send(now clock.Time, sw *Switch, p *Packet, of uint64) {
	out, ok := sw.Route(p)
	v := Verdict{Action: Forward, Port: uint16(out), Queue: p.Class}
	if !ok {
		v = v.Drop(sw.NoRoute(p))
	}
	p.Egress = uint16(out)
	if m, ok := sw.mechanism.(Maker); ok && v.Action == Forward {
		v = m.Made(now, sw, p, of, v)
	}
	sw.place(now, p, v)
}

// see looks at a packet that is about to be queued at a port. It returns the SRC packet to send, or nil.
func (b *boltSwitch) see(now clock.Time, sw *Switch, port *Port, p *Packet) *Packet {
	r, s := &b.ports[port.index], &b.spec
	if s.SM {
		r.supply(now, s, port, p)
	}
	if p.Protocol != Bolt || p.Flags&(Trimmed|Returned|Mirrored) != 0 || bolt.KindOf(&p.Header) != bolt.Data {
		return nil
	}
	flags, waiting, threshold := bolt.FlagsOf(&p.Header), port.Bytes(), s.Threshold
	if s.Fault == BoltEarlySRC {
		threshold /= 2
	}
	switch {
	case waiting >= threshold:
		return b.congested(now, sw, port, p, waiting)
	case s.PRU && flags&bolt.Last != 0:
		first := flags&bolt.First != 0 && s.Fault != BoltCountsFirst
		if !first && s.Fault != BoltForgetsPRU {
			r.pru = min(r.pru+1, s.MaxTokens)
		}
	case flags&bolt.Inc == 0:
	case s.PRU && r.pru > 0:
		if s.Fault != BoltSpendsNoPRU {
			r.pru--
		}
	case s.SM && r.sm >= float64(s.MTU) && s.Fault != BoltForgetsSM:
		r.sm -= float64(s.MTU)
	default:
		bolt.SetFlags(&p.Header, flags&^bolt.Inc)
	}
	return nil
}

// congested takes INC from a packet, and returns the SRC packet that it is owed, if any.
func (b *boltSwitch) congested(now clock.Time, sw *Switch, port *Port, p *Packet, waiting int) *Packet {
	s, flags := &b.spec, bolt.FlagsOf(&p.Header)
	owed := s.SRC && (flags&bolt.Dec == 0 || s.Fault == BoltIgnoresDEC)
	if s.Fault != BoltKeepsInc {
		flags &^= bolt.Inc
	}
	if s.SRC && s.Fault != BoltForgetsDec {
		flags |= bolt.Dec
	}
	bolt.SetFlags(&p.Header, flags)
	if !owed {
		return nil
	}
	b.count++
	if s.Fault == BoltForgetsSRC && b.count%boltEvery == 0 {
		return nil
	}
	data := bolt.FromHeader(&p.Header, 0)
	src := bolt.Packet{From: data.To, To: data.From, Kind: bolt.SRC, Flags: flags, Connection: data.Connection,
		Number: data.Number, SentNS: data.SentNS, Queue: uint32(waiting),
		RateMbps: uint32(max(1, port.rate/1_000_000))}
	switch s.Fault {
	case BoltWrongQueue:
		src.Queue /= 2
	case BoltWrongRate:
		src.RateMbps *= 2
	case BoltWrongTime:
		src.SentNS = uint32(now.Nanoseconds())
	default:
	}
	h := Header{Src: p.Dst, Dst: p.Src, Protocol: Bolt, IPv6: p.IPv6, Flow: p.Flow, Entropy: p.Entropy, DSCP: p.DSCP,
		Class: BoltControlClass, Size: int32(bolt.Codec().HeaderSize(p.IPv6))}
	src.Fill(&h)
	// A number that no other SRC packet of the flow has: data may be answered again when it is retransmitted.
	h.Number = otherNumber | srcNumber | uint32(b.count*len(sw.net.switches)+int(sw.id))&(srcNumber-1)
	if p.Flags&Ranked != 0 {
		h.SetRank(0)
	}
	return sw.Make(now, h)
}

// earn adds what the link could have sent since the last packet.
func (r *boltPort) earn(now clock.Time, port *Port) {
	r.sm += float64(port.rate) / 8 * (float64(now.Sub(r.updated)) / float64(clock.Second))
	r.updated = now
}

// supply books what the link could have sent since the last packet, and what p takes of it (section 3.3). Unlike the
// queue, tokens forget a surplus beyond one MTU.
func (r *boltPort) supply(now clock.Time, s *BoltSpec, port *Port, p *Packet) {
	r.earn(now, port)
	if s.Fault != BoltForgetsDemand {
		r.sm -= float64(int(p.Size) + int(port.framing))
	}
	if s.Fault != BoltUncappedSM {
		r.sm = min(r.sm, float64(s.MTU))
	}
}

// startBolt gives a switch that starts at now fresh registers.
func (sw *Switch) startBolt(now clock.Time) {
	sw.bolt = nil
	if s := &sw.config.Bolt; s.On() {
		sw.bolt = &boltSwitch{spec: *s, ports: make([]boltPort, sw.front)}
		for i := range sw.bolt.ports {
			sw.bolt.ports[i].updated = now
		}
	}
}
