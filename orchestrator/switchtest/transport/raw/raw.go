// Package raw gives hosts of switch tests endpoints that send datagrams without a protocol.
package raw

import (
	"candela.dev/candela/clock"
	"candela.dev/candela/generator/raw"
	"candela.dev/candela/orchestrator/switchtest/stack"
	"candela.dev/candela/orchestrator/switchtest/transport"
	"candela.dev/candela/testbeds/virtual/fabric"
)

// Transport joins declaration and endpoints.
func Transport() transport.Transport {
	return transport.Transport{Transport: raw.Transport(), Attach: attach}
}

func attach(s *transport.Setup, flows []*transport.Flow) error {
	headers, hosts := raw.Codec(), make(map[fabric.HostID]*stack.Raw)
	counts := &counter{Setup: s, flows: make(map[uint32]*arrivals)}
	at := func(h fabric.HostID) *stack.Raw {
		if hosts[h] == nil {
			hosts[h] = stack.NewRaw()
			s.Add(h, hosts[h])
		}
		return hosts[h]
	}
	for _, f := range flows {
		s.Own(fabric.Raw, f.Src, uint32(f.Number), f.Number)
		header := headers.HeaderSize(f.Mark.IPv6)
		flow := stack.Flow{ID: uint32(f.Number), To: f.Dst, Packets: f.Packets, Size: int32(f.PacketSize), Start: f.Start,
			Rate: f.Rate, Mark: f.Mark, Rank: f.Rank, Header: int32(header), Payload: uint64(f.Payload)}
		if last := f.Payload - (f.Packets-1)*int64(f.PacketSize-header); f.Packets > 0 {
			flow.Last = int32(last) + int32(header)
		}
		at(f.Src).Send(flow)
		if s.Untapped {
			counts.flows[uint32(f.Number)] = &arrivals{of: f, header: int64(header)}
			at(f.Dst).Seen = func(now clock.Time, p *fabric.Packet) {
				h := s.Net.Host(f.Dst)
				if !h.Apart() {
					counts.seen(now, &p.Header)
					return
				}
				header := p.Header // the books are those of all hosts
				h.Report(func() { counts.seen(now, &header) })
			}
		}
	}
	return nil
}

// counter counts what arrives, where nobody sees it on the wire.
type counter struct {
	*transport.Setup
	flows map[uint32]*arrivals
}

// arrivals is what has arrived of a flow.
type arrivals struct {
	of     *transport.Flow
	header int64
	whole  map[uint32]bool // packets that have arrived: true, or as a header: false
	top    uint32
}

// seen books a packet. A flow has finished when something of each of its packets has arrived.
func (c *counter) seen(now clock.Time, p *fabric.Header) {
	a := c.flows[p.Flow]
	if a == nil || p.Protocol != fabric.Raw || p.Flags&fabric.Returned != 0 {
		return
	}
	if a.whole == nil {
		a.whole = make(map[uint32]bool)
	}
	books, before := c.Progress(a.of.Number), len(a.whole)
	whole, some := a.whole[p.Number]
	switch trimmed := p.Flags&fabric.Trimmed != 0; {
	case trimmed:
		books.Headers++
		if !some {
			a.whole[p.Number] = false
		}
	case whole:
		books.Duplicates++
	default:
		a.whole[p.Number] = true
		books.Whole++
		books.Payload += int64(p.Size) - a.header
		if p.Number < a.top {
			books.Reordered++
		}
		a.top = max(a.top, p.Number+1)
	}
	if a.of.Packets > 0 && before < len(a.whole) && int64(len(a.whole)) == a.of.Packets {
		books.Finish(now)
		delete(c.flows, p.Flow)
		c.Close(a.of.Number)
	}
}
