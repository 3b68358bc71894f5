package tcp

import (
	"candela.dev/candela/analyzers"
	judge "candela.dev/candela/analyzers/tcp"
	"candela.dev/candela/clock"
	"candela.dev/candela/generator/tcp"
	"candela.dev/candela/orchestrator/config"
	"candela.dev/candela/orchestrator/switchtest/transport"
	"candela.dev/candela/testbeds/virtual/fabric"
)

// judgement declares the TCP analyzer.
func judgement() *transport.Judge {
	return &transport.Judge{
		Rules: judge.Rules(), New: newObserver, Recorded: record, AtOnce: readsPauses,
		Note: "packets have the numbers of the run as far as IPv4's identification tells them",
	}
}

// readsPauses implements Judge.AtOnce.
func readsPauses(s *fabric.Spec) string {
	if s.Switch.PFC.Classes == 0 {
		return ""
	}
	return "the judge of TCP reads whether PFC pauses hosts"
}

// observer is the TCP analyzer, which observes at the NICs of the hosts.
type observer struct {
	judge  *judge.Analyzer
	links  []config.LinkSpec // of hosts
	net    *fabric.Network
	pauses []uint64 // that each host had received when it was looked at last; nil: there is no PFC
	nics   []nic    // of hosts; nil: they have no queues, or what they do is not seen
	room   int      // packets with which a NIC that keeps them for their pace takes no more; 0: NICs keep none
	header int32
	shift  int // of windows
	seen   judge.Observation
	// follows says whether a flow is judged; nil: all are
	follows func(flow int) bool
}

func newObserver(t *transport.Trial) transport.Observer {
	o := &observer{judge: judge.New(configure(t)), follows: t.Follows,
		header: int32(tcp.Codec().HeaderSize(t.IPv6())), shift: shiftOf(t), net: t.Net}
	if readsPauses(t.Net.Spec()) != "" {
		o.pauses = make([]uint64, t.Net.Hosts())
	}
	if t.Net.NICs() && t.Follows == nil {
		o.nics = make([]nic, t.Net.Hosts())
	}
	if t.Paced {
		o.room = t.Net.Spec().NIC.Backlog
	}
	for id := range t.Net.Hosts() {
		o.links = append(o.links, t.Test.Topology.HostLinkOf(id))
	}
	return o
}

// configure says what the analyzer has to know of the hosts.
func configure(t *transport.Trial) judge.Config {
	values := t.Values
	c := judge.Config{
		MSS: values.Int("packet-size") - tcp.Codec().HeaderSize(t.IPv6()), InitialWindow: values.Int("initial-window"),
		Threshold: values.Int("initial-ssthresh"), RestartsOnSend: values.Word("rto-restart") == "transmissions",
		Timestamps: values.Bool("timestamps"), NeedsACK: values.Bool("handshake-needs-ack"),
		MinRTO: values.Duration("min-rto-us"), Beta: 0.7, FirstSequence: uint32(values.Int("first-sequence")),
		Hold:      hold(t) + t.Slack,
		Handshake: values.Bool("handshake"), InitialRTO: values.Duration("initial-rto-us"),
		MaxRTO: values.Duration("max-rto-us"), ThreeSRTT: values.Word("rto") == "3-srtt", ECN: judgedECN(t),
		MaxRetries: values.Int("max-retries"), NoFastRetransmit: !values.Bool("fast-retransmit"),
		NoLimitedTransmit: !values.Bool("limited-transmit"),
		Swift:             judgedSwift(t, immediate(t)),
		ACKEvery:          values.Int("ack-every"), ACKDelay: values.Duration("delayed-ack-us"),
	}
	if c.ACKDelay == 0 {
		c.ACKEvery = 1
	}
	switch values.Word("loss-detection") {
	case "new-reno":
		c.Detection = judge.NewReno
	case "per-packet":
		c.Detection = judge.PerPacket
	}
	if c.Handshake {
		c.FirstSequence++ // after the SYN
	}
	if values.Word("congestion-control") != "cubic" {
		c.Beta = 0.5
	}
	return c
}

// shiftOf returns the shift of windows in headers without SYN.
func shiftOf(t *transport.Trial) int {
	c := tcp.Config{Unscaled: !t.Values.Bool("window-scaling")}
	return c.Shift()
}

// windowOf returns the window that a header advertises, in bytes. That of a SYN is not scaled (RFC 7323, 2.2).
func windowOf(h *tcp.Header, shift int) uint64 {
	if h.Flags&tcp.FlagSYN != 0 {
		shift = 0
	}
	return uint64(h.Window) << shift
}

// hold bounds how long after it was decided a packet leaves an idle NIC: its jitter, and as much again that the NIC
// may be behind (see stack.Jitter), with a frame on the wire and one in front of it.
func hold(t *transport.Trial) clock.Duration {
	most := t.Values.Duration("send-jitter-us")
	if most == 0 {
		return 0
	}
	var frame clock.Duration
	for id := range t.Net.Hosts() {
		link := t.Test.Topology.HostLinkOf(id)
		frame = max(frame, link.Rate.Serialise(t.PacketSize()+link.Framing))
	}
	return 2*most + 2*frame
}

// Observe implements transport.Observer.
func (o *observer) Observe(at fabric.Point, now clock.Time, p *fabric.Packet) {
	if at.Host && o.pauses != nil {
		o.paused(at.Node, now)
	}
	if at.Host {
		o.held(at, now, p)
		o.wire(at, now, p)
	}
	if p.Protocol != fabric.TCP || !at.Host || at.Stage > fabric.Egress || p.Flags&fabric.Returned != 0 {
		return
	}
	if o.follows != nil && !o.follows(int(p.Flow)) {
		o.judge.Pass(now, uint32(p.Src), uint32(p.Dst), p.Flow)
		return
	}
	h := &p.TCP
	o.seen = judge.Observation{
		Time: now, Number: p.ID, Sent: at.Stage == fabric.Egress, Src: uint32(p.Src), Dst: uint32(p.Dst), Connection: p.Flow,
		Seq: h.Seq, Ack: h.Ack, SACKStart: h.Block().Start, SACKEnd: h.Block().End, Window: windowOf(h, o.shift),
		Payload: int(max(0, p.Size-o.header)), Damaged: p.Flags&fabric.Trimmed != 0,
		SYN: h.Flags&tcp.FlagSYN != 0, HasACK: h.Flags&tcp.FlagACK != 0,
		ECE: h.Flags&tcp.FlagECE != 0, CWR: h.Flags&tcp.FlagCWR != 0, ECN: p.ECN, TTL: p.TTL,
	}
	o.seen.Delay, o.seen.HasDelay = h.Delay()
	_, o.seen.Echo, o.seen.HasEcho = h.Times()
	o.judge.Observe(&o.seen)
}

// wire tells the analyzer how the NIC of a host is busy. Without queues of its own it asks the host for a packet when
// the wire is free.
func (o *observer) wire(at fabric.Point, now clock.Time, p *fabric.Packet) {
	host, link := uint32(at.Node), &o.links[at.Node]
	takes := link.Rate.Serialise(int(p.Size) + link.Framing)
	switch queues := o.net.NICs(); {
	case at.Stage == fabric.Egress && queues:
		o.judge.Offers(host, now, takes)
	case at.Stage == fabric.Departed && queues: // not seen if flows are sampled
		o.judge.Departs(host, now, takes)
	case at.Stage == fabric.Egress:
		o.judge.Leaves(host, now, takes)
	}
}

// nic is what was seen of the NIC of a host.
type nic struct {
	line    int        // packets that it has taken and not sent or dropped
	offered uint64     // the latest packet that it was given
	until   clock.Time // when it takes the next, after it has dropped others for it: these take their time on the wire
}

// held tells the analyzer that the NIC of a host takes no packet: it is full of those that it keeps for their pace, or
// has dropped some in favour of another.
func (o *observer) held(at fabric.Point, now clock.Time, p *fabric.Packet) {
	if o.nics == nil {
		return
	}
	n := &o.nics[at.Node]
	if o.room > 0 && n.line >= o.room {
		o.judge.Silenced(uint32(at.Node), now)
	} else if n.until > 0 {
		o.judge.Silenced(uint32(at.Node), min(now, n.until))
	}
	if n.until < now {
		n.until = 0
	}
	switch {
	case p == nil:
	case at.Stage == fabric.Egress:
		n.line++
		n.offered = p.ID
	case at.Stage == fabric.Departed:
		n.line--
	case at.Stage == fabric.Dropped:
		n.line--
		if p.ID != n.offered || n.until > 0 {
			link := &o.links[at.Node]
			n.until = max(n.until, now).Add(link.Rate.Serialise(int(p.Size) + link.Framing))
		}
	}
}

// paused tells the analyzer if flow control has kept a host from sending since it was looked at last.
func (o *observer) paused(host int, now clock.Time) {
	port := o.net.Host(fabric.HostID(host)).Port()
	if n := port.Counters().PausesReceived; n != o.pauses[host] || port.Paused() != 0 {
		o.pauses[host] = n
		o.judge.Silenced(uint32(host), now)
	}
}

// Finish implements transport.Observer.
func (o *observer) Finish(end clock.Time, drained bool) analyzers.Result {
	for host := range o.pauses {
		o.paused(host, end)
	}
	for host := range o.nics {
		o.held(fabric.Point{Host: true, Node: host}, end, nil)
	}
	if drained {
		o.judge.Drain()
	}
	return o.judge.Finish(end)
}
