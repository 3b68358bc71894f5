package fabric

import (
	"cmp"
	"fmt"

	"candela.dev/candela/clock"
	"candela.dev/candela/generator/bolt"
)

// BoltConfig configures Bolt's hosts. Zero fields take the defaults named in their comments.
type BoltConfig struct {
	PacketSize    int            // a full packet's frame in bytes, headers included; default 1500
	InitialWindow int            // packets; default 32
	MaxWindow     int            // packets; default 256
	MinWindow     float64        // packets; default 0.01
	Increase      float64        // packets a round trip
	RTO           clock.Duration // default 1 ms
	Reorder       int            // packets; 0: losses are detected by the timer alone
	IPv6          bool
	Ranked        bool  // packets have ranks: those of flows, all others 0
	Class, DSCP   uint8 // of data; acknowledgements have BoltControlClass
	Bugs          bolt.Bugs
}

// BoltControlClass is the class of ACK and SRC packets, as the simulator of the authors gives them priority: they wait
// in the last queue of data.
const BoltControlClass = 7

// BoltHost is Bolt on one host: a Stack around the transport's core.
type BoltHost struct {
	core   *bolt.Host
	cfg    BoltConfig
	header int
	others uint32 // packets without data: their numbers
}

// AttachBolt attaches Bolt to host id. sink may be nil.
func (n *Network) AttachBolt(id HostID, cfg BoltConfig, sink bolt.Sink) (*BoltHost, error) {
	cfg.PacketSize = cmp.Or(cfg.PacketSize, 1500)
	s := &BoltHost{cfg: cfg, header: bolt.Codec().HeaderSize(cfg.IPv6)}
	if cfg.PacketSize <= s.header {
		return nil, fmt.Errorf("bolt host %d: packet size %d: must exceed the %d bytes of headers", id, cfg.PacketSize,
			s.header)
	}
	var err error
	s.core, err = bolt.New(bolt.Config{Address: bolt.Endpoint(id), Payload: cfg.PacketSize - s.header,
		Frame: cfg.PacketSize, Rate: n.Host(id).Port().Rate(), Window: cmp.Or(cfg.InitialWindow, 32),
		MaxWindow: cmp.Or(cfg.MaxWindow, 256), MinWindow: cmp.Or(cfg.MinWindow, 0.01), Increase: cfg.Increase,
		RTO: cmp.Or(cfg.RTO, clock.Millisecond), Reorder: cfg.Reorder, Bugs: cfg.Bugs}, sink)
	if err != nil {
		return nil, err
	}
	n.Host(id).Attach(s)
	return s, nil
}

// Core returns the transport, for flows. A caller that adds flows during the simulation must then call Host.Kick.
func (s *BoltHost) Core() *bolt.Host { return s.core }

// Receive implements Stack. What was trimmed or returned is lost to Bolt.
func (s *BoltHost) Receive(now clock.Time, p *Packet) {
	if p.Protocol != Bolt || p.Flags&(Returned|Trimmed) != 0 {
		return
	}
	in := bolt.FromHeader(&p.Header, max(0, int(p.Size)-s.header))
	s.core.HandlePacket(now, &in)
}

// Poll implements Stack.
func (s *BoltHost) Poll(now clock.Time, p *Packet) bool {
	var o bolt.Packet
	if !s.core.Poll(now, &o) {
		return false
	}
	p.Protocol, p.Dst, p.IPv6, p.Size = Bolt, HostID(o.To), s.cfg.IPv6, int32(s.header+o.Payload)
	p.Class, p.DSCP = s.cfg.Class, s.cfg.DSCP
	if s.cfg.Ranked {
		p.SetRank(o.Rank)
	}
	o.Fill(&p.Header)
	p.Flow = bolt.FlowOf(HostID(o.From), p.Dst, &o)
	p.Entropy = uint16(o.Connection)
	if o.Kind != bolt.Data {
		s.others++
		p.Number, p.Class = otherNumber|s.others&^srcNumber, BoltControlClass
	}
	return true
}

// NextTimer implements Stack.
func (s *BoltHost) NextTimer() clock.Time {
	at, ok := s.core.NextTimer()
	if !ok {
		return clock.Never
	}
	return at
}

// HandleTimer implements Stack.
func (s *BoltHost) HandleTimer(now clock.Time) { s.core.HandleTimer(now) }
