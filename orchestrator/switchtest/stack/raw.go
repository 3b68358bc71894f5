package stack

import (
	"candela.dev/candela/clock"
	"candela.dev/candela/generator/wire"
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
	Rate    clock.BitRate // 0: as fast as the NIC can
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
	now   clock.Time // of the latest call: what is due by then is polled, without a timer
	// Seen, if set, is shown every packet that arrives.
	Seen func(now clock.Time, p *fabric.Packet)
}

// NewRaw returns a transport without flows.
func NewRaw() *Raw { return &Raw{now: -1} }

type rawFlow struct {
	Flow
	sent int64
	next clock.Time // of the next packet
}

// Send adds a flow.
func (r *Raw) Send(f Flow) { r.flows = append(r.flows, rawFlow{Flow: f, next: f.Start}) }

func (f *rawFlow) over() bool { return f.Packets > 0 && f.sent == f.Packets }

// Receive implements fabric.Stack.
func (r *Raw) Receive(now clock.Time, p *fabric.Packet) {
	if r.Seen != nil {
		r.Seen(now, p)
	}
}

// Poll implements fabric.Stack: flows whose time has come take turns.
func (r *Raw) Poll(now clock.Time, p *fabric.Packet) bool {
	r.now = now
	for i := range r.flows {
		at := (r.turn + i) % len(r.flows)
		f := &r.flows[at]
		if f.over() || f.next > now {
			continue
		}
		r.turn = at + 1
		f.sent++
		p.Dst, p.Size, p.Protocol, p.Flow = f.To, f.Size, fabric.Raw, f.ID
		p.Number = uint32(f.sent)
		if f.over() && f.Last > 0 {
			p.Size = f.Last
		}
		f.Mark.Set(p)
		if f.Rank.Kind != wire.Unranked {
			p.SetRank(f.Rank.Rank(f.Payload, uint64(f.sent-1)*uint64(f.Size-f.Header)))
		}
		if f.Rate > 0 {
			f.next = f.next.Add(f.Rate.Serialise(int(p.Size)))
		}
		return true
	}
	return false
}

// NextTimer implements fabric.Stack.
func (r *Raw) NextTimer() clock.Time {
	at := clock.Never
	for i := range r.flows {
		if f := &r.flows[i]; !f.over() && f.next > r.now {
			at = min(at, f.next)
		}
	}
	return at
}

// HandleTimer implements fabric.Stack: being polled is all that a flow wants.
func (r *Raw) HandleTimer(now clock.Time) { r.now = now }
