package switchtest

import (
	"cmp"
	"fmt"
	"net/netip"
	"slices"

	"candela.dev/candela/analyzers"
	judgetcp "candela.dev/candela/analyzers/tcp"
	"candela.dev/candela/clock"
	"candela.dev/candela/generator/tcp"
	"candela.dev/candela/orchestrator"
	"candela.dev/candela/testbeds/virtual/fabric"
	"candela.dev/candela/trace"
)

// tcpSight is what a capture tells of one frame of a host.
type tcpSight struct {
	host  uint32
	takes clock.Duration // to leave the NIC; 0: the frame has arrived
	seen  judgetcp.Observation
	tcp   bool // seen says more than when
}

// rejudgeTCP has the TCP analyzer judge the captures; why says why it can't.
func (f *facts) rejudgeTCP(o *orchestrator.OpenedRun) (result analyzers.Result, why string, err error) {
	if len(f.plan.Test.Switch.Values.Integers("pfc-classes")) > 0 {
		return result, "flow control may have kept packets in the NICs, and captures don't show it", nil
	}
	r := &run{facts: *f, quiet: f.flows.Drained, end: clock.Time(clock.Duration(f.flows.EndNS) * clock.Nanosecond)}
	if r.net, err = f.plan.build(); err != nil {
		return result, "", err
	}
	c := newTCPCaptures(r)
	if why := c.read(o); why != "" {
		return result, why, nil
	}
	cfg := r.tcpConfig()
	cfg.Hold += 2 * captureGrain
	if !r.quiet {
		size := r.packetSize()
		cfg.Until = func(host uint32) clock.Time { return c.until(int(host), size) }
	}
	j := judgetcp.New(cfg)
	for i := range c.sights {
		s := &c.sights[i]
		if s.takes > 0 {
			j.Leaves(s.host, s.seen.Time, s.takes)
		}
		if s.tcp {
			j.Observe(&s.seen)
		}
	}
	if r.quiet {
		j.Drain()
	}
	return j.Finish(r.end), "", nil
}

// tcpCaptures turns the captures at switches into what was to be seen at the NICs of the hosts.
type tcpCaptures struct {
	nicTimes
	r      *run
	hosts  map[netip.Addr]uint32
	flows  map[tcpPair]int // numbers of flows; 0: several
	sights []tcpSight
	number uint64 // of the packet that left last, as the run has it
}

// tcpPair names a connection as its frames do: the hosts, the lower first, and the port of both.
type tcpPair struct {
	a, b uint32
	port uint16
}

func pairOf(a, b uint32, port uint16) tcpPair { return tcpPair{min(a, b), max(a, b), port} }

// portBits are those of a connection's number that its port shows.
const portBits = 0x3fff

func newTCPCaptures(r *run) *tcpCaptures {
	c := &tcpCaptures{nicTimes: newNICTimes(r), r: r, hosts: make(map[netip.Addr]uint32), flows: make(map[tcpPair]int)}
	for h := range r.plan.Test.Topology.HostCount() {
		c.hosts[fabric.HostID(h).IPv4()], c.hosts[fabric.HostID(h).IPv6()] = uint32(h), uint32(h)
	}
	for i := range r.plan.Flows {
		f := &r.plan.Flows[i]
		if f.Transport != "tcp" {
			continue
		}
		pair := pairOf(uint32(f.Src), uint32(f.Dst), uint16(f.Number&portBits))
		number := f.Number
		if _, twice := c.flows[pair]; twice {
			number = 0
		}
		c.flows[pair] = number
	}
	return c
}

// read fills sights in order of time; why says what is wrong with the captures.
func (c *tcpCaptures) read(o *orchestrator.OpenedRun) (why string) {
	err := c.r.readCaptures(o, func(stage int, frame *trace.Frame, host fabric.HostID, known bool) error {
		if len(c.sights) == maxTaps {
			return fmt.Errorf("packet %d: packets are more than %d", frame.Number, maxTaps)
		}
		return c.take(stage, frame, host, known)
	})
	if err != nil {
		return err.Error()
	}
	if !c.r.quiet { // what had not arrived when the observation ended
		c.sights = slices.DeleteFunc(c.sights, func(s tcpSight) bool { return s.takes == 0 && s.seen.Time > c.end })
	}
	// What reaches a host in the instant in which it sends something has come first.
	slices.SortStableFunc(c.sights, func(a, b tcpSight) int { return cmp.Compare(a.seen.Time, b.seen.Time) })
	return ""
}

// take appends what a frame tells. Of a single switch, host is not known: the frame tells who sent it, or where it goes.
func (c *tcpCaptures) take(stage int, frame *trace.Frame, host fabric.HostID, known bool) error {
	var t tcpFrame
	fine := t.parse(frame.Data)
	if !known {
		if host, known = c.hostOf(stage, frame); !known {
			return nil
		}
	}
	at, takes := c.at(stage, frame, host)
	s := tcpSight{host: uint32(host)}
	s.seen.Time = at
	if stage == 0 {
		s.takes = takes
	}
	if stage > 0 && !fine {
		return nil // its receiver drops it
	}
	if fine {
		if err := c.tell(&s, &t); err != nil {
			return fmt.Errorf("packet %d: %w", frame.Number, err)
		}
	}
	if s.tcp || s.takes > 0 {
		c.sights = append(c.sights, s)
	}
	return nil
}

// tell fills in what an undamaged TCP packet says.
func (c *tcpCaptures) tell(s *tcpSight, t *tcpFrame) error {
	src, known := c.hosts[t.src]
	dst, fine := c.hosts[t.dst]
	if !known || !fine {
		return nil
	}
	flow, ok := c.flows[pairOf(src, dst, t.port&portBits)]
	switch {
	case !ok:
		return nil
	case flow == 0:
		return fmt.Errorf("several flows between hosts %d and %d have the port %d", src, dst, t.port)
	}
	h := &t.header
	s.tcp = true
	s.seen = judgetcp.Observation{
		Time: s.seen.Time, Sent: s.takes > 0, Src: src, Dst: dst, Connection: uint32(flow), Seq: h.Seq, Ack: h.Ack,
		SACKStart: h.SACK.Start, SACKEnd: h.SACK.End, Window: uint64(h.Window) << tcp.WindowScale, Payload: t.payload,
	}
	if s.seen.Sent && !t.v6 {
		// The identification is the lower half of the number that the run has for the packet: the nearest such number.
		c.number += uint64(int64(int16(t.id - uint16(c.number))))
		s.seen.Number = c.number
	}
	return nil
}

// hostOfMAC returns the host with an address of the fabric's plan.
func hostOfMAC(mac []byte, hosts int) (fabric.HostID, bool) {
	if len(mac) < 6 {
		return 0, false
	}
	h := fabric.HostID(mac[4])<<8 | fabric.HostID(mac[5]) // a network has fewer hosts than 16 bits number; the rest must be the plan's
	want := h.MAC()
	return h, int(h) < hosts && slices.Equal(mac, want[:])
}
