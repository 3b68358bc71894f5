package switchtest

import (
	"slices"

	"candela.dev/candela/analyzers"
	judgetcp "candela.dev/candela/analyzers/tcp"
	"candela.dev/candela/clock"
	"candela.dev/candela/generator/tcp"
	"candela.dev/candela/orchestrator/config"
	"candela.dev/candela/testbeds/virtual/fabric"
	"candela.dev/candela/testbeds/virtual/fabric/parameter"
)

func tcpAnalyzer() analyzer {
	return analyzer{
		name: judgetcp.Name, rules: judgetcp.Rules(),
		applies: func(r *run) bool {
			return slices.ContainsFunc(r.plan.Flows, func(f Flow) bool { return f.Transport == "tcp" })
		},
		build: newTCPJudge,
	}
}

// tcpJudge is the TCP analyzer, which observes at the NICs of the hosts.
type tcpJudge struct {
	judge  *judgetcp.Analyzer
	links  []config.LinkSpec // of hosts
	net    *fabric.Network
	pauses []uint64 // that each host had received when it was looked at last
	header int32
	seen   judgetcp.Observation
}

func newTCPJudge(r *run) (judge, error) {
	j := &tcpJudge{judge: judgetcp.New(r.tcpConfig()), header: int32(r.tcpHeader()), net: r.net, pauses: make([]uint64, r.net.Hosts())}
	for id := range r.net.Hosts() {
		j.links = append(j.links, r.plan.Test.Topology.HostLinkOf(id))
	}
	return j, nil
}

// tcpHeader returns what of every TCP frame is headers: TCP flows are alike in that.
func (r *run) tcpHeader() int {
	return fabric.TCPHeaderSize(slices.ContainsFunc(r.plan.Flows, func(f Flow) bool { return f.Transport == "tcp" && f.Mark.IPv6 }))
}

// tcpConfig says what the analyzer has to know of the hosts.
func (r *run) tcpConfig() judgetcp.Config {
	values := tcpTransport().Parameters.Defaults()
	if r.plan.Test.Hosts.Model == "tcp" {
		values = r.plan.Test.Hosts.Values
	}
	c := judgetcp.Config{
		MSS: values.Int("packet-size") - r.tcpHeader(), InitialWindow: values.Int("initial-window"), MinRTO: values.Duration("min-rto-us"), Beta: 0.7,
		FirstSequence: uint32(values.Int("first-sequence")), Hold: r.hold(values),
	}
	if values.Word("congestion-control") == "reno" {
		c.Beta = 0.5
	}
	return c
}

// hold bounds how long after it was decided a packet leaves an idle NIC: its jitter, and as much again that the NIC may be behind (see
// stack.Jitter), with a frame on the wire and one in front of it.
func (r *run) hold(v parameter.Values) clock.Duration {
	most := v.Duration("send-jitter-us")
	if most == 0 {
		return 0
	}
	var frame clock.Duration
	for id := range r.net.Hosts() {
		link := r.plan.Test.Topology.HostLinkOf(id)
		frame = max(frame, link.Rate.Serialise(r.packetSize()+link.Framing))
	}
	return 2*most + 2*frame
}

func (j *tcpJudge) name() string { return judgetcp.Name }

func (j *tcpJudge) observe(at fabric.Point, now clock.Time, p *fabric.Packet) {
	if at.Host {
		j.paused(at.Node, now)
	}
	if at.Host && at.Stage == fabric.Egress {
		link := &j.links[at.Node]
		j.judge.Leaves(uint32(at.Node), now, link.Rate.Serialise(int(p.Size)+link.Framing))
	}
	if p.Protocol != fabric.TCP || !at.Host || at.Stage == fabric.Dropped || p.Flags&fabric.Returned != 0 {
		return
	}
	h := &p.TCP
	j.seen = judgetcp.Observation{
		Time: now, Number: p.ID, Sent: at.Stage == fabric.Egress, Src: uint32(p.Src), Dst: uint32(p.Dst), Connection: p.Flow,
		Seq: h.Seq, Ack: h.Ack, SACKStart: h.SACK.Start, SACKEnd: h.SACK.End, Window: uint64(h.Window) << tcp.WindowScale,
		Payload: int(max(0, p.Size-j.header)), Damaged: p.Flags&fabric.Trimmed != 0,
	}
	j.judge.Observe(&j.seen)
}

// paused tells the analyzer if flow control has kept a host from sending since it was looked at last.
func (j *tcpJudge) paused(host int, now clock.Time) {
	port := j.net.Host(fabric.HostID(host)).Port()
	if n := port.Counters().PausesReceived; n != j.pauses[host] || port.Paused() != 0 {
		j.pauses[host] = n
		j.judge.Silenced(uint32(host), now)
	}
}

func (j *tcpJudge) changed(clock.Time, int, parameter.Values) {}

func (j *tcpJudge) finish(r *run) (analyzers.Result, error) {
	for host := range j.pauses {
		j.paused(host, r.end)
	}
	if r.quiet {
		j.judge.Drain()
	}
	return j.judge.Finish(r.end), nil
}
