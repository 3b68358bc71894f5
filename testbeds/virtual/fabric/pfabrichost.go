package fabric

import (
	"cmp"
	"fmt"

	"candela.dev/candela/clock"
	"candela.dev/candela/generator/pfabric"
)

// PFabricConfig configures pFabric hosts. Zero fields take the defaults named in their comments, which are the paper's.
type PFabricConfig struct {
	PacketSize    int            // a full packet's frame in bytes, headers included; default 1500
	InitialWindow int            // packets; default 12
	RTO           clock.Duration // default 45 us
	ProbeAfter    int            // timeouts in a row; 0: never
	IPv6          bool
	Class, DSCP   uint8 // of all packets
	Bugs          pfabric.Bugs
}

// PFabricHost is pFabric on one host: a Stack around the transport's core. All its packets have ranks.
type PFabricHost struct {
	core   *pfabric.Host
	cfg    PFabricConfig
	header int
	others uint32 // packets without data: their numbers
}

// AttachPFabric attaches pFabric to host id. sink may be nil.
func (n *Network) AttachPFabric(id HostID, cfg PFabricConfig, sink pfabric.Sink) (*PFabricHost, error) {
	cfg.PacketSize = cmp.Or(cfg.PacketSize, 1500)
	s := &PFabricHost{cfg: cfg, header: pfabric.Codec().HeaderSize(cfg.IPv6)}
	if cfg.PacketSize <= s.header {
		return nil, fmt.Errorf("pFabric host %d: packet size %d: must exceed the %d bytes of headers", id, cfg.PacketSize,
			s.header)
	}
	var err error
	s.core, err = pfabric.New(pfabric.Config{Address: pfabric.Endpoint(id), Payload: cfg.PacketSize - s.header,
		Window: cmp.Or(cfg.InitialWindow, 12), RTO: cmp.Or(cfg.RTO, 45*clock.Microsecond), ProbeAfter: cfg.ProbeAfter,
		Bugs: cfg.Bugs}, sink)
	if err != nil {
		return nil, err
	}
	n.Host(id).Attach(s)
	return s, nil
}

// Core returns the transport, for flows. A caller that adds flows during the simulation must then call Host.Kick.
func (s *PFabricHost) Core() *pfabric.Host { return s.core }

// Receive implements Stack. What was trimmed or returned is lost to pFabric.
func (s *PFabricHost) Receive(now clock.Time, p *Packet) {
	if p.Protocol != PFabric || p.Flags&(Returned|Trimmed) != 0 {
		return
	}
	in := pfabric.FromHeader(&p.Header, max(0, int(p.Size)-s.header))
	s.core.HandlePacket(now, &in)
}

// otherNumber is set in the numbers of packets without data.
const otherNumber = 1 << 31

// Poll implements Stack.
func (s *PFabricHost) Poll(now clock.Time, p *Packet) bool {
	var o pfabric.Packet
	if !s.core.Poll(now, &o) {
		return false
	}
	p.Protocol, p.Dst, p.IPv6, p.Size = PFabric, HostID(o.To), s.cfg.IPv6, int32(s.header+o.Payload)
	p.Class, p.DSCP = s.cfg.Class, s.cfg.DSCP
	o.Fill(&p.Header)
	p.Flow = pfabric.FlowOf(HostID(o.From), p.Dst, &o)
	p.Entropy = uint16(o.Connection)
	p.SetRank(o.Rank)
	if o.Kind != pfabric.Data {
		s.others++
		p.Number = otherNumber | s.others
	}
	return true
}

// NextTimer implements Stack.
func (s *PFabricHost) NextTimer() clock.Time {
	at, _ := s.core.NextTimer()
	return at
}

// HandleTimer implements Stack.
func (s *PFabricHost) HandleTimer(now clock.Time) { s.core.HandleTimer(now) }
