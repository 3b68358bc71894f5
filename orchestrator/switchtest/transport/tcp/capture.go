package tcp

import (
	"fmt"
	"net/netip"

	"candela.dev/candela/analyzers"
	judge "candela.dev/candela/analyzers/tcp"
	"candela.dev/candela/clock"
	"candela.dev/candela/generator/tcp"
	"candela.dev/candela/generator/wire"
	"candela.dev/candela/orchestrator/switchtest/transport"
	"candela.dev/candela/testbeds/virtual/fabric"
)

// sighting is what a capture shows of one frame of a host.
type sighting struct {
	host  uint32
	takes clock.Duration // to leave the NIC; 0: the frame has arrived
	seen  judge.Observation
	tcp   bool // seen says more than when
}

// recorder judges captures.
type recorder struct {
	transport.Sightings[sighting]
	cfg     judge.Config
	size    int // of the largest frame
	shift   int // of windows
	hosts   map[netip.Addr]uint32
	flows   map[tcpPair]int   // numbers of flows; 0: several
	numbers map[uint32]uint64 // of the packet that each host sent last, as the run has it
}

// tcpPair names a connection as its frames do: the hosts, the lower first, and the port of both.
type tcpPair struct {
	a, b uint32
	port uint16
}

func pairOf(a, b uint32, port uint16) tcpPair { return tcpPair{min(a, b), max(a, b), port} }

func record(t *transport.Trial) (transport.Recorder, string) {
	if t.Pauses() {
		return nil, "flow control may have kept packets in the NICs, and captures don't show it"
	}
	if t.Test.Hosts.NIC != nil {
		return nil, "the NICs of the hosts have queues, and captures don't show what waits or is lost there"
	}
	c := &recorder{
		Sightings: transport.NewSightings[sighting](t), cfg: configure(t), size: t.PacketSize(), shift: shiftOf(t),
		hosts: make(map[netip.Addr]uint32), flows: make(map[tcpPair]int), numbers: make(map[uint32]uint64),
	}
	c.cfg.Hold += 2 * transport.Grain
	c.cfg.ECN.Immediate, c.cfg.Swift.Immediate = false, false
	for h := range t.Test.Topology.HostCount() {
		c.hosts[fabric.HostID(h).IPv4()], c.hosts[fabric.HostID(h).IPv6()] = uint32(h), uint32(h)
	}
	for f := range t.Flows {
		if f.Transport != t.Name {
			continue
		}
		pair := pairOf(uint32(f.Src), uint32(f.Dst), uint16(f.Number&wire.PortMask))
		number := f.Number
		if _, twice := c.flows[pair]; twice {
			number = 0
		}
		c.flows[pair] = number
	}
	return c, ""
}

// Frame implements transport.Recorder.
func (c *recorder) Frame(f *transport.Frame) error {
	var t tcpFrame
	fine := t.parse(f.Data)
	host, known := c.HostOf(f)
	if !known {
		return nil
	}
	at, takes := c.At(f, host)
	s := sighting{host: uint32(host)}
	s.seen.Time = at
	if !f.Behind {
		s.takes = takes
	}
	if f.Behind && !fine {
		return nil // its receiver drops it
	}
	if fine {
		if err := c.tell(&s, &t); err != nil {
			return fmt.Errorf("packet %d: %w", f.Number, err)
		}
	}
	if s.tcp || s.takes > 0 {
		return c.Add(f, at, s)
	}
	return nil
}

// Finish implements transport.Recorder.
func (c *recorder) Finish(end clock.Time, drained bool) analyzers.Result {
	if !drained {
		c.cfg.Until = func(host uint32) clock.Time { return c.Until(int(host), c.size) }
	}
	j := judge.New(c.cfg)
	c.Each(drained, func(s *sighting) {
		if s.takes > 0 {
			j.Leaves(s.host, s.seen.Time, s.takes)
		}
		if s.tcp {
			j.Observe(&s.seen)
		}
	})
	if drained {
		j.Drain()
	}
	return j.Finish(end)
}

// tell fills in what an undamaged TCP packet says.
func (c *recorder) tell(s *sighting, t *tcpFrame) error {
	src, known := c.hosts[t.src]
	dst, fine := c.hosts[t.dst]
	if !known || !fine {
		return nil
	}
	flow, ok := c.flows[pairOf(src, dst, t.port&wire.PortMask)]
	switch {
	case !ok:
		return nil
	case flow == 0:
		return fmt.Errorf("several flows between hosts %d and %d have the port %d", src, dst, t.port)
	}
	h := &t.header
	s.tcp = true
	s.seen = judge.Observation{
		Time: s.seen.Time, Sent: s.takes > 0, Src: src, Dst: dst, Connection: uint32(flow), Seq: h.Seq, Ack: h.Ack,
		SACKStart: h.Block().Start, SACKEnd: h.Block().End, Window: windowOf(h, c.shift), Payload: t.payload,
		SYN: h.Flags&tcp.FlagSYN != 0, HasACK: h.Flags&tcp.FlagACK != 0,
		ECE: h.Flags&tcp.FlagECE != 0, CWR: h.Flags&tcp.FlagCWR != 0, ECN: t.ECN,
	}
	_, s.seen.Echo, s.seen.HasEcho = h.Times()
	if s.seen.Sent && !t.IPv6 {
		// The identification is the end of the number that the run has for the packet: the nearest such number of its host.
		last, ok := c.numbers[src]
		if !ok {
			last = fabric.PacketID(fabric.HostID(src), 0)
		}
		s.seen.Number = last + uint64(int64(int16(t.ID-uint16(last))))
		c.numbers[src] = s.seen.Number
	}
	return nil
}
