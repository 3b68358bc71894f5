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
	"candela.dev/candela/orchestrator/config"
	"candela.dev/candela/testbeds/virtual/fabric"
	"candela.dev/candela/trace"
)

// captureGrain is the resolution of captures' times. Their times at NICs are off by that at the most, in either direction.
const captureGrain = clock.Nanosecond

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
		cfg.Until = c.until
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

// tcpCaptures turns the captures at switches into what was to be seen at the NICs of the hosts. Between a NIC and its switch is a link
// that the test describes: it loses nothing and keeps the order, so that its time is all that there is to take off or to add.
type tcpCaptures struct {
	r      *run
	hosts  map[netip.Addr]uint32
	links  []config.LinkSpec
	flows  map[tcpPair]int // numbers of flows; 0: several
	sights []tcpSight
	latest [2][]clock.Time // by way and host: frames of one way keep their order
	number uint64          // of the packet that left last, as the run has it
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
	c := &tcpCaptures{r: r, hosts: make(map[netip.Addr]uint32), flows: make(map[tcpPair]int)}
	for h := range r.plan.Test.Topology.HostCount() {
		c.hosts[fabric.HostID(h).IPv4()], c.hosts[fabric.HostID(h).IPv6()] = uint32(h), uint32(h)
		c.links = append(c.links, r.plan.Test.Topology.HostLinkOf(h))
	}
	for i := range c.latest {
		c.latest[i] = make([]clock.Time, len(c.links))
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

// until returns the time up to which everything that left a host has reached its switch before the run ended.
func (c *tcpCaptures) until(host uint32) clock.Time {
	link := &c.links[host]
	return c.r.end.Add(-link.Delay - link.Rate.Serialise(c.r.packetSize()+link.Framing))
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
	// What reaches a host in the instant in which it sends something has come first.
	slices.SortStableFunc(c.sights, func(a, b tcpSight) int { return cmp.Compare(a.seen.Time, b.seen.Time) })
	return ""
}

// take appends what a frame tells. Of a single switch, host is not known: the frame tells who sent it, or where it goes.
func (c *tcpCaptures) take(stage int, frame *trace.Frame, host fabric.HostID, known bool) error {
	var t tcpFrame
	fine := t.parse(frame.Data)
	if !known {
		mac := frame.Data[:min(len(frame.Data), 6)]
		if stage == 0 {
			mac = frame.Data[len(mac):min(len(frame.Data), 12)]
		}
		var ok bool
		if host, ok = hostOfMAC(mac, len(c.links)); !ok {
			return nil
		}
	}
	link := &c.links[host]
	s := tcpSight{host: uint32(host)}
	at, takes := clock.Time(clock.Duration(frame.TimeNS)*clock.Nanosecond), link.Rate.Serialise(frame.OrigLen+link.Framing)
	if stage == 0 { // it has come in whole: the last bit of it left the NIC a link's delay before
		at, s.takes = at.Add(captureGrain-link.Delay-takes), takes
	} else {
		at = at.Add(takes + link.Delay + c.r.plan.Spec.Switch.Latency)
	}
	way := c.latest[stage]
	at = max(at, way[host])
	way[host] = at
	s.seen.Time = at
	if stage > 0 && (at > c.r.end && !c.r.quiet || !fine) {
		return nil // it did not arrive any more, or its receiver drops it
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
	h := fabric.HostID(mac[3])<<16 | fabric.HostID(mac[4])<<8 | fabric.HostID(mac[5])
	want := h.MAC()
	return h, int(h) < hosts && slices.Equal(mac, want[:])
}
