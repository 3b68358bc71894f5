// Package raw gives hosts of switch tests endpoints that send datagrams without a protocol.
package raw

import (
	"iter"

	"candela.dev/candela/clock"
	"candela.dev/candela/generator/raw"
	"candela.dev/candela/generator/wire"
	"candela.dev/candela/orchestrator/switchtest/stack"
	"candela.dev/candela/orchestrator/switchtest/transport"
	"candela.dev/candela/testbeds/virtual/fabric"
)

// Transport joins declaration and endpoints.
func Transport() transport.Transport {
	return transport.Transport{Transport: raw.Transport(), Open: open, Stops: true}
}

// endpoints is the hosts of a run, and what has arrived of their flows where nobody sees it on the wire.
type endpoints struct {
	*transport.Setup
	headers *wire.Codec
	hosts   map[fabric.HostID]*stack.Raw
	flows   map[uint32]*arrivals // that have started and not finished
}

func open(s *transport.Setup, flows iter.Seq[*transport.Flow]) (transport.Endpoints, error) {
	r := &endpoints{Setup: s, headers: raw.Codec(), hosts: make(map[fabric.HostID]*stack.Raw),
		flows: make(map[uint32]*arrivals)}
	for f := range flows {
		r.host(f.Src)
		r.host(f.Dst)
	}
	return r, nil
}

// host makes the endpoint of a host once.
func (r *endpoints) host(id fabric.HostID) {
	if r.hosts[id] != nil {
		return
	}
	at := stack.NewRaw()
	r.hosts[id] = at
	r.Add(id, at)
	if !r.Untapped {
		return
	}
	h := r.Net.Host(id)
	at.Seen = func(now clock.Time, p *fabric.Packet) {
		if !h.Apart() {
			r.seen(now, &p.Header)
			return
		}
		header := p.Header // the books are those of all hosts
		h.Report(func() { r.seen(now, &header) })
	}
}

// Start implements transport.Endpoints.
func (r *endpoints) Start(f *transport.Flow) error {
	r.Own(fabric.Raw, f.Src, uint32(f.Number), f.Number)
	r.Weigh(f.Src, uint32(f.Number), f)
	header := r.headers.HeaderSize(f.Mark.IPv6)
	flow := stack.Flow{ID: uint32(f.Number), To: f.Dst, Packets: f.Packets, Size: int32(f.PacketSize), Start: f.Start,
		Rate: f.Rate, Pace: f.Pace, Until: f.Stop, Mark: f.Mark, Rank: f.Rank, Header: int32(header),
		Payload: uint64(f.Payload)}
	if last := f.Payload - (f.Packets-1)*int64(f.PacketSize-header); f.Packets > 0 {
		flow.Last = int32(last) + int32(header)
	}
	r.hosts[f.Src].Send(flow)
	if r.Untapped {
		r.flows[flow.ID] = &arrivals{of: f, header: int64(header)}
	}
	return nil
}

// Settle implements transport.Endpoints.
func (r *endpoints) Settle() {
	for id, a := range r.flows {
		sent, some := r.hosts[a.of.Src].Sent(id)
		if !some {
			sent = a.of.Packets
		}
		r.Progress(a.of.Number).Sent = sent
	}
}

// arrivals is what has arrived of a flow.
type arrivals struct {
	of     *transport.Flow
	header int64
	whole  numbers // packets that have arrived
	some   numbers // of which at least the header has
	fates  int64   // how many those are
	top    uint32
}

// seen books a packet. A flow has finished when something of each of its packets has arrived.
func (r *endpoints) seen(now clock.Time, p *fabric.Header) {
	a := r.flows[p.Flow]
	if a == nil || p.Protocol != fabric.Raw || p.Flags&fabric.Returned != 0 {
		return
	}
	endless := a.of.Packets == 0
	books := r.Progress(a.of.Number)
	if a.some.add(p.Number, endless) {
		a.fates++
	}
	switch {
	case p.Flags&fabric.Trimmed != 0:
		books.Headers++
	case !a.whole.add(p.Number, endless):
		books.Duplicates++
	default:
		books.Whole++
		books.Payload += int64(p.Size) - a.header
		if p.Number < a.top {
			books.Reordered++
		}
		a.top = max(a.top, p.Number+1)
	}
	if !endless && a.fates == a.of.Packets {
		books.Sent = a.of.Packets
		books.Finish(now)
		delete(r.flows, p.Flow)
		r.Close(a.of.Number)
	}
}

// recent is how many numbers a flow without end is remembered by: what is older counts as new.
const recent = 1 << 16

// numbers is a set of packet numbers.
type numbers struct {
	bits []uint64
	end  uint32 // one above the greatest
}

// add puts n into the set and reports whether it was new; of an endless sequence only the recent numbers are kept.
func (s *numbers) add(n uint32, endless bool) bool {
	at := n
	if endless {
		if s.bits == nil {
			s.bits = make([]uint64, recent/64)
		}
		if n+recent < s.end {
			return true
		}
		for ; s.end <= n; s.end++ { // what is past the window leaves it
			s.bits[s.end%recent/64] &^= 1 << (s.end % 64)
		}
		at = n % recent
	}
	word, bit := int(at/64), uint64(1)<<(at%64)
	if word >= len(s.bits) {
		grown := make([]uint64, max(2*len(s.bits), word+1))
		copy(grown, s.bits)
		s.bits = grown
	}
	if s.bits[word]&bit != 0 {
		return false
	}
	s.bits[word] |= bit
	return true
}
