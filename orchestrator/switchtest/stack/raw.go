package stack

import (
	"candela.dev/candela/clock"
	"candela.dev/candela/generator/wire"
	"candela.dev/candela/generator/workload"
	"candela.dev/candela/packet"
	"candela.dev/candela/testbeds/virtual/fabric"
)

// Flow is packets from one host to another that nothing slows down: an open loop.
type Flow struct {
	ID      uint32 // fabric.Packet.Flow of its packets
	To      fabric.HostID
	Packets int64 // 0: without end
	Size    int32 // bytes of each packet
	Last    int32 // bytes of the last one; 0: as the others
	Start   clock.Time
	Rate    clock.BitRate // 0: as fast as the NIC can, unless there is a pace
	Pace    *workload.Pace
	Until   clock.Time // it sends nothing from then on; 0: no limit
	Mark    Mark
	Rank    wire.Ranking // of the packets, whose bytes before them are payload of full ones; Unranked: none have ranks
	Header  int32        // bytes of each packet that are not payload, for ranks
	Payload uint64       // of all packets, for ranks; 0: without end
}

// Mark is how a flow's packets look to switches.
type Mark struct {
	DSCP  uint8
	Class uint8
	ECN   packet.ECN
	IPv6  bool
}

// Set marks a packet.
func (m *Mark) Set(p *fabric.Packet) { p.DSCP, p.Class, p.ECN, p.IPv6 = m.DSCP, m.Class, m.ECN, m.IPv6 }

// Raw is the open-loop transport of one host. It counts nothing: taps see what arrives.
type Raw struct {
	flows []rawFlow
	turn  int
	now   clock.Time       // of the latest call: what is due by then is polled, without a timer
	left  map[uint32]int64 // packets of flows that have left before their end
	// Seen, if set, is shown every packet that arrives.
	Seen func(now clock.Time, p *fabric.Packet)
}

// NewRaw returns a transport without flows.
func NewRaw() *Raw { return &Raw{now: -1} }

type rawFlow struct {
	Flow
	sent int64
	next clock.Time // of the next packet; clock.Never: there is none
	pace pace
}

// Send adds a flow.
func (r *Raw) Send(f Flow) {
	until := clock.Never
	if f.Until > 0 {
		until = f.Until
	}
	of := rawFlow{Flow: f, next: f.Start, pace: newPace(f.Pace, f.Rate, f.Start, until)}
	if f.Pace != nil {
		of.next = of.pace.first(f.Size)
	}
	if of.next < until {
		r.flows = append(r.flows, of)
	}
}

// Sent returns how many packets of a flow have left; ok is false if all have.
func (r *Raw) Sent(id uint32) (packets int64, ok bool) {
	for i := range r.flows {
		if r.flows[i].ID == id {
			return r.flows[i].sent, true
		}
	}
	packets, ok = r.left[id]
	return packets, ok
}

// leave removes a flow that is over. The others keep their turns.
func (r *Raw) leave(at int) {
	if f := &r.flows[at]; f.sent != f.Packets {
		if r.left == nil {
			r.left = make(map[uint32]int64)
		}
		r.left[f.ID] = f.sent
	}
	r.flows = append(r.flows[:at], r.flows[at+1:]...)
	r.turn = at
}

// Receive implements fabric.Stack.
func (r *Raw) Receive(now clock.Time, p *fabric.Packet) {
	if r.Seen != nil {
		r.Seen(now, p)
	}
}

// Poll implements fabric.Stack: flows whose time has come take turns.
func (r *Raw) Poll(now clock.Time, p *fabric.Packet) bool {
	r.now = now
	for i := 0; i < len(r.flows); i++ {
		at := (r.turn + i) % len(r.flows)
		f := &r.flows[at]
		if f.next > now {
			continue
		}
		if now >= f.pace.until { // what was late is not sent
			r.leave(at)
			i = -1
			continue
		}
		r.turn = at + 1
		f.sent++
		p.Dst, p.Size, p.Protocol, p.Flow = f.To, f.Size, fabric.Raw, f.ID
		p.Number = uint32(f.sent)
		last := f.sent == f.Packets
		if last && f.Last > 0 {
			p.Size = f.Last
		}
		f.Mark.Set(p)
		if f.Rank.Kind != wire.Unranked {
			p.SetRank(f.Rank.Rank(f.Payload, uint64(f.sent-1)*uint64(f.Size-f.Header)))
		}
		if f.Rate > 0 || f.Pace != nil {
			f.next = f.pace.after(f.next, p.Size)
		}
		if last || f.next == clock.Never {
			r.leave(at)
		}
		return true
	}
	return false
}

// NextTimer implements fabric.Stack.
func (r *Raw) NextTimer() clock.Time {
	at := clock.Never
	for i := range r.flows {
		if f := &r.flows[i]; f.next > r.now {
			at = min(at, f.next)
		}
	}
	return at
}

// HandleTimer implements fabric.Stack: being polled is all that a flow wants.
func (r *Raw) HandleTimer(now clock.Time) { r.now = now }
