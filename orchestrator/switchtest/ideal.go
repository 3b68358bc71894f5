package switchtest

import (
	"candela.dev/candela/clock"
	"candela.dev/candela/orchestrator/switchtest/transport"
	"candela.dev/candela/testbeds/virtual/fabric"
)

// ideal computes how long flows would take if nothing else were in the network.
type ideal struct {
	net        *fabric.Network
	transports map[string]*transport.Transport
	paths      map[[2]int32][]fabric.Leg // without the hosts' links, by the switches of the hosts
	legs       []fabric.Leg              // of the last flow
}

func newIdeal(net *fabric.Network) *ideal {
	return &ideal{net: net, transports: make(map[string]*transport.Transport), paths: make(map[[2]int32][]fabric.Leg)}
}

// of returns the completion time of a transfer that sends at line rate along an idle shortest path, without handshake
// or feedback; 0: it has none.
func (c *ideal) of(f *Flow) clock.Duration {
	t := c.transports[f.Transport]
	if t == nil {
		t, _ = findTransport(f.Transport)
		c.transports[f.Transport] = t
	}
	if c.net == nil || t == nil || f.Kind != Transfer || f.Packets <= 0 {
		return 0
	}
	header := int64(t.HeaderSize(f.Mark.IPv6))
	body := int64(f.PacketSize) - header
	last := int(f.Payload - (f.Packets-1)*body + header)
	return pipelined(c.path(f.Src, f.Dst), f.Packets, f.PacketSize, last)
}

// path returns the links of a flow. Those between switches are looked up once for each pair of switches.
func (c *ideal) path(from, to fabric.HostID) []fabric.Leg {
	a, b := c.net.Edge(from), c.net.Edge(to)
	inner, known := c.paths[[2]int32{a, b}]
	if !known {
		if whole := c.net.Path(from, to); len(whole) >= 2 {
			inner = whole[1 : len(whole)-1]
		}
		c.paths[[2]int32{a, b}] = inner
	}
	first, last := c.net.Access(from, to)
	c.legs = append(append(append(c.legs[:0], first), inner...), last)
	return c.legs
}

// pipelined returns when the last bit of a train of packets arrives: all have the same size but the last. Every node
// stores a packet before it forwards it.
func pipelined(legs []fabric.Leg, packets int64, size, last int) clock.Duration {
	var sum, widest, arrived clock.Duration // of the packets before the last: one on every link, the slowest, all of them
	var end clock.Duration
	for i := range legs {
		l := &legs[i]
		if packets > 1 {
			one := l.Rate.Serialise(size + l.Framing)
			sum, widest = sum+one, max(widest, one)
			arrived = sum + clock.Duration(packets-2)*widest
		}
		end = max(end, arrived) + l.Rate.Serialise(last+l.Framing)
		sum, end = sum+l.Delay, end+l.Delay
	}
	return end
}
