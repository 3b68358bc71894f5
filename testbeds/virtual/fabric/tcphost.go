package fabric

import (
	"cmp"
	"fmt"

	"candela.dev/candela/clock"
	"candela.dev/candela/generator/tcp"
	"candela.dev/candela/generator/wire"
)

// TCPConfig configures TCP hosts. Zero fields take the defaults named in their comments, which are Linux's where it has
// one.
type TCPConfig struct {
	PacketSize    int            // a full segment's frame in bytes, headers included; default 1500
	InitialWindow int            // segments; default 10
	ReceiveWindow int            // bytes; default 6 MiB
	MinRTO        clock.Duration // default 200 ms
	DelayedACK    clock.Duration // default 40 ms, negative: every segment is acknowledged at once
	Control       tcp.Control
	FirstSequence uint32
	Options       tcp.Config // further fields of it that are not set from the others here
	IPv6          bool
	Class, DSCP   uint8 // of all packets
	ECN           tcp.ECN
	Ranked        bool // packets have ranks
}

func (c *TCPConfig) complete() {
	c.PacketSize = cmp.Or(c.PacketSize, 1500)
	c.InitialWindow = cmp.Or(c.InitialWindow, 10)
	c.ReceiveWindow = cmp.Or(c.ReceiveWindow, 6<<20)
	c.MinRTO = cmp.Or(c.MinRTO, 200*clock.Millisecond)
	c.DelayedACK = max(cmp.Or(c.DelayedACK, 40*clock.Millisecond), 0)
}

// TCPHost is TCP on one host: a Stack around the transport's core.
type TCPHost struct {
	core   *tcp.Host
	cfg    TCPConfig
	header int
	in     tcp.Packet
	out    tcp.Packet
}

// AttachTCP attaches TCP to host id. sink may be nil.
func (n *Network) AttachTCP(id HostID, cfg TCPConfig, sink tcp.Sink) (*TCPHost, error) {
	cfg.complete()
	s := &TCPHost{cfg: cfg, header: wire.HeaderLen(cfg.IPv6) + tcp.HeaderLen}
	if cfg.PacketSize <= s.header {
		return nil, fmt.Errorf("TCP host %d: packet size %d: must exceed the %d bytes of headers", id, cfg.PacketSize,
			s.header)
	}
	c := cfg.Options
	c.Address, c.MSS, c.InitialWindow = tcp.Endpoint(id), cfg.PacketSize-s.header, cfg.InitialWindow
	c.ReceiveWindow, c.MinRTO, c.DelayedACK = cfg.ReceiveWindow, cfg.MinRTO, cfg.DelayedACK
	c.Control, c.FirstSequence, c.ECN = cfg.Control, cfg.FirstSequence, cfg.ECN
	var err error
	if s.core, err = tcp.New(c, sink); err != nil {
		return nil, err
	}
	n.Host(id).Attach(s)
	return s, nil
}

// Core returns the transport, for writes and counters. A caller that writes during the simulation, except the sink,
// must then call Host.Kick.
func (s *TCPHost) Core() *tcp.Host { return s.core }

// Receive implements Stack. The flow is the number of the connection. TCP ignores returned headers.
func (s *TCPHost) Receive(now clock.Time, p *Packet) {
	if p.Protocol != TCP || p.Flags&Returned != 0 {
		return
	}
	s.in = tcp.Packet{
		From: tcp.Endpoint(p.Src), To: tcp.Endpoint(p.Dst), Connection: p.Flow, Header: p.TCP,
		Payload: max(0, int(p.Size)-s.header), Trimmed: p.Flags&Trimmed != 0, ECN: p.ECN,
		Hops: InitialTTL - int(p.TTL),
	}
	s.core.HandlePacket(now, &s.in)
}

// Poll implements Stack.
func (s *TCPHost) Poll(now clock.Time, p *Packet) bool {
	o := &s.out
	if !s.core.Poll(now, o) {
		return false
	}
	p.Protocol, p.Dst, p.TCP, p.IPv6 = TCP, HostID(o.To), o.Header, s.cfg.IPv6
	p.Flow, p.Number, p.Entropy = o.Connection, numberOf(o.Number), uint16(o.Connection)
	p.Size = int32(s.header + o.Payload)
	p.Class, p.DSCP, p.ECN = s.cfg.Class, s.cfg.DSCP, o.ECN
	if s.cfg.Ranked {
		p.SetRank(o.Rank)
	}
	return true
}

// numberOf shortens the core's packet number to 32 bits; the highest bit marks a packet without payload.
func numberOf(n uint64) uint32 { return uint32(n>>63<<31) | uint32(n)&^(1<<31) }

// NextTimer implements Stack.
func (s *TCPHost) NextTimer() clock.Time {
	at, _ := s.core.NextTimer()
	return at
}

// HandleTimer implements Stack.
func (s *TCPHost) HandleTimer(now clock.Time) { s.core.HandleTimer(now) }
