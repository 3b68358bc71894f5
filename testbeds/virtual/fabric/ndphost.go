package fabric

import (
	"cmp"
	"fmt"
	"math"

	"candela.dev/candela/clock"
	"candela.dev/candela/generator/ndp"
	wire "candela.dev/candela/packet/ndp"
	"candela.dev/candela/prefetch"
)

// NDPConfig configures NDP hosts. Zero fields take the defaults named in their comments.
type NDPConfig struct {
	// HeaderSize is the length of a frame's headers, and the size of ACK, NACK and PULL; default 64 (84 over IPv6), the
	// exact length.
	HeaderSize int
	IPv6       bool
	// Class and DSCP of data, and of all other packets.
	DataClass, ControlClass uint8
	DataDSCP, ControlDSCP   uint8
	InitialWindow           int // packets; default 30
	// PacketSize is a full data packet's frame in bytes, headers included; default 1500. csg-htsim's "1500" is 1564 here.
	PacketSize int
	// PullRate is the share of the host's link rate that PULLs request; default 1. csg-htsim uses 0.99.
	PullRate float64
	// RTO is the time after which an unanswered packet counts as lost; default 1 ms, negative: never.
	RTO     clock.Duration
	Paths   int // to spray over; default 1
	Penalty ndp.Penalty
	Bugs    ndp.Bugs
	// Ranked says that packets have ranks.
	Ranked bool
}

func (c *NDPConfig) complete() {
	header := 64
	if c.IPv6 {
		header = 84
	}
	c.InitialWindow = cmp.Or(c.InitialWindow, 30)
	c.PacketSize = cmp.Or(c.PacketSize, 1500)
	c.HeaderSize = cmp.Or(c.HeaderSize, header)
	c.PullRate = cmp.Or(c.PullRate, 1)
	c.RTO = cmp.Or(c.RTO, clock.Millisecond)
	c.Paths = cmp.Or(c.Paths, 1)
}

func (c *NDPConfig) validate() error {
	switch {
	case c.HeaderSize < 1 || c.PacketSize <= c.HeaderSize:
		return fmt.Errorf("packet size %d: must exceed the %d bytes of headers", c.PacketSize, c.HeaderSize)
	case !(c.PullRate > 0 && c.PullRate <= 2):
		return fmt.Errorf("pull rate %v: must be above 0, at most 2 (1 is line rate)", c.PullRate)
	}
	return nil
}

// NDPHost is NDP on one host: a Stack around the transport's core.
type NDPHost struct {
	core *ndp.Host
	cfg  NDPConfig
}

// AttachNDP attaches NDP to host id. sink may be nil.
func (n *Network) AttachNDP(id HostID, cfg NDPConfig, sink ndp.Sink) (*NDPHost, error) {
	cfg.complete()
	if err := cfg.validate(); err != nil {
		return nil, fmt.Errorf("NDP host %d: %w", id, err)
	}
	link := n.spec.Topology.linkOf(id)
	gap := float64(link.Rate.Serialise(cfg.PacketSize+link.Framing)) / cfg.PullRate
	core, err := ndp.New(ndp.Config{
		Address: ndp.Endpoint(id), InitialWindow: cfg.InitialWindow, Payload: cfg.PacketSize - cfg.HeaderSize,
		PullGap: clock.Duration(math.Round(gap)), RTO: max(cfg.RTO, 0), Paths: cfg.Paths, Penalty: cfg.Penalty,
		Seed: n.spec.Seed, Bugs: cfg.Bugs,
	}, sink)
	if err != nil {
		return nil, err
	}
	s := &NDPHost{core: core, cfg: cfg}
	n.Host(id).Attach(s)
	return s, nil
}

// Core returns the transport, for flows and counters. A caller that adds flows during the simulation must then call
// Host.Kick.
func (s *NDPHost) Core() *ndp.Host { return s.core }

// PullGap returns the time between two PULLs of a host on a link of rate r: the serialisation of a full packet at the
// configured share of r.
func (c NDPConfig) PullGap(r clock.BitRate) clock.Duration {
	c.complete()
	return clock.Duration(math.Round(float64(r.Serialise(c.PacketSize)) / c.PullRate))
}

// Receive implements Stack.
func (s *NDPHost) Receive(now clock.Time, p *Packet) {
	if p.Protocol != NDP {
		return
	}
	in := ndp.Packet{
		From: ndp.Endpoint(p.Src), To: ndp.Endpoint(p.Dst), Entropy: p.Entropy,
		Payload: uint16(max(0, int(p.Size)-s.cfg.HeaderSize)),
	}
	in.Header.Set(&p.NDP)
	s.core.HandlePacket(now, &in)
}

// foresee implements foreseer.
func (s *NDPHost) foresee(step int, p *Packet, lines prefetch.Lines) prefetch.Lines {
	switch {
	case p == nil || step == 0: // p must not be read yet
		return s.core.Foresee(step, nil, lines)
	case p.Protocol == NDP:
		return s.core.Foresee(step, &p.NDP, lines)
	}
	return lines
}

// Poll implements Stack.
func (s *NDPHost) Poll(now clock.Time, p *Packet) bool {
	var o ndp.Packet
	if !s.core.Poll(now, &o) {
		return false
	}
	p.Protocol, p.Dst, p.Entropy, p.IPv6 = NDP, HostID(o.To), o.Entropy, s.cfg.IPv6
	p.NDP.Set(&o.Header)
	p.Size, p.Flow = int32(s.cfg.HeaderSize)+int32(o.Payload), ndp.FlowOf(HostID(o.From), p.Dst, &o.Header)
	if s.cfg.Ranked {
		p.SetRank(o.Rank)
	}
	if o.Header.Kind == wire.Data {
		p.Class, p.DSCP = s.cfg.DataClass, s.cfg.DataDSCP
	} else {
		p.Class, p.DSCP = s.cfg.ControlClass, s.cfg.ControlDSCP
	}
	return true
}

// NextTimer implements Stack.
func (s *NDPHost) NextTimer() clock.Time {
	at, _ := s.core.NextTimer()
	return at
}

// HandleTimer implements Stack.
func (s *NDPHost) HandleTimer(now clock.Time) { s.core.HandleTimer(now) }
