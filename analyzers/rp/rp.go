// Package rp checks a reaction point of DCQCN: how fast a sender sends before and after congestion notification
// packets.
//
// The rate is computed from the gaps between neighbouring packets of one message. A gap shows the sender's pace only if
// nothing else left its port in between, both packets are full and the second was ready when the first left. In the
// middle of a message the NIC has all packets ready, so only gaps between consecutive MIDDLE packets count, and only if
// no other packet of the same side is between them. The unit of a gap is the packet's time on the wire: 1 is line rate.
//
// The depth of a cut and the steepness of a recovery are not judged: NICs differ, and DCQCN leaves the parameters open.
// A violation is a sender that does nothing, that never recovers, or that slows down to a steady pace without a reason.
// A sender that has seen losses is not judged, because slow restart is a reason.
package rp

import (
	"fmt"

	"candela.dev/candela/analyzers"
	"candela.dev/candela/analyzers/cause"
	"candela.dev/candela/clock"
	"candela.dev/candela/packet"
	"candela.dev/candela/trace"
)

// Name is the analyzer's name in configurations, metrics and rule ids.
const Name = "rp"

// Config is what a test knows about its endpoints besides the trace. The zero Config judges nothing.
type Config struct {
	// Requester and Responder are the settings of the connections' two sides as senders of data.
	Requester, Responder ReactionPoint
}

// ReactionPoint are the settings of one side.
type ReactionPoint struct {
	Known   bool // without it nothing is judged
	Enabled bool
	// LineRate is the speed of the port in bit/s; 0: unknown, nothing is judged.
	LineRate int64
	// DelayNS bounds the time from the switch into the NIC's rate limiter and back to the switch, in nanoseconds.
	DelayNS int64
}

const (
	lineGap   = 1.05 // at most this is line rate …
	slowGap   = 1.2  // … and at least this is less
	spread    = 1.05 // of gaps at a steady pace
	warmUp    = 16   // gaps at line rate that show a sender to be at it
	enough    = 64   // gaps at line rate that show a sender not to react
	steady    = 32   // gaps that make a steady pace
	patientNS = 5_000_000
	// patientNS is longer than any NIC's time to the first increase: 55 us in the paper, 300 us is NVIDIA's default.
)

// Analyzer follows the rate of every connection's data.
type Analyzer struct {
	cfg     Config
	flows   []flow    // by trace.FlowID of the data
	last    [2]recent // by side, the latest packet that it sent
	report  *analyzers.Reporter
	reacted *analyzers.Distribution
}

// recent is the latest packet that left a port.
type recent struct {
	flow   trace.FlowID
	opcode packet.Opcode
	psn    packet.PSN
	ns     int64
}

// flow is the data that one side of a connection sends.
type flow struct {
	overhead int64         // bytes on the wire besides the payload of a MIDDLE packet
	started  [2]bool       // by PSN space
	next     [2]packet.PSN // follows the latest packet
	lossy    bool          // something was retransmitted, or a NAK asks for it

	fast, pace run     // present runs of gaps at line rate, and at a steady pace below it
	atLine     bool    // has been at line rate for long enough
	cnps       int     // delivered
	firstNS    int64   // when the first CNP passed
	lastNS     int64   // and the last
	cnpID      uint64  // of the first
	judgeable  bool    // it met a sender at line rate
	slowed     bool    // a gap since the first CNP was slow
	unmoved    int     // gaps at line rate that certainly came after the first CNP
	slowest    float64 // gap after the last CNP had certainly arrived, 0: none yet
	later      int     // gaps since
	recovered  bool    // one of them was shorter
	silent     bool    // judged for recovery
}

// run is a number of consecutive gaps of similar size.
type run struct {
	n           int
	least, most float64
}

func (r *run) add(gap float64) {
	r.n++
	if r.n == 1 {
		r.least, r.most = gap, gap
	}
	r.least, r.most = min(r.least, gap), max(r.most, gap)
	if r.most > r.least*spread {
		*r = run{n: 1, least: gap, most: gap}
	}
}

// New returns an analyzer for one trace.
func New(meta trace.Meta, cfg Config) *Analyzer {
	a := &Analyzer{
		cfg: cfg, flows: make([]flow, 2*meta.Connections.Len()), report: analyzers.NewReporter(Name, Rules()),
		reacted: analyzers.NewDistribution("rp.reaction", analyzers.UnitNS, 0),
	}
	for i, c := range meta.Connections.All() {
		// Ethernet with FCS, preamble and gap; UDP; BTH; iCRC. A MIDDLE packet has no other header.
		n := int64(14 + 24 + 20 + 8 + 12 + packet.ICRCLen)
		if c.Requester.IP.Is6() {
			n += 20
		}
		a.flows[2*i].overhead, a.flows[2*i+1].overhead = n, n
	}
	a.last[0].flow, a.last[1].flow = trace.NoFlow, trace.NoFlow
	return a
}

// Name returns "rp".
func (a *Analyzer) Name() string { return Name }

// side returns the index of the side that sends a flow.
func side(f trace.FlowID) int { return int(f & 1) }

// sender returns the settings of the side that sends a flow.
func (a *Analyzer) sender(f trace.FlowID) *ReactionPoint {
	if f.Reverse() {
		return &a.cfg.Responder
	}
	return &a.cfg.Requester
}

// Packet observes one record.
func (a *Analyzer) Packet(r *trace.Record) {
	if r.Flow < 0 || int(r.Flow) >= len(a.flows) {
		return
	}
	switch {
	case r.Opcode == packet.CNP && r.Delivered():
		a.notified(r)
	case r.Opcode == packet.Acknowledge && !r.Syndrome.IsAck():
		a.flows[r.Flow.Peer()].lossy = true
	}
	if !r.Has(trace.Sent) {
		return
	}
	before := &a.last[side(r.Flow)]
	if r.Opcode.IsData() {
		a.data(r, before)
	}
	*before = recent{r.Flow, r.Opcode, r.PSN, r.TimeNS}
}

// notified follows a CNP on its way to the sender of the data.
func (a *Analyzer) notified(r *trace.Record) {
	f := &a.flows[r.Flow.Peer()]
	if f.cnps++; f.cnps == 1 {
		f.firstNS, f.cnpID, f.judgeable = r.TimeNS, r.ID, f.fast.n >= warmUp
	}
	f.lastNS, f.slowest, f.later, f.recovered = r.TimeNS, 0, 0, false
}

// middle reports whether o is a packet in the middle of a message.
func middle(o packet.Opcode) bool { return !o.Starts() && !o.Ends() }

// data handles a data packet; before is the packet that left the same port before it.
func (a *Analyzer) data(r *trace.Record, before *recent) {
	f, rp := &a.flows[r.Flow], a.sender(r.Flow)
	space := r.Opcode.Space() & 1
	if f.started[space] && r.PSN.Before(f.next[space]) {
		f.lossy = true
	}
	f.started[space], f.next[space] = true, r.PSN.Next()
	neighbours := before.flow == r.Flow && before.opcode == r.Opcode && middle(r.Opcode) && before.psn.Next() == r.PSN
	if !neighbours {
		f.interrupted()
		return
	}
	if !rp.Known || rp.LineRate <= 0 || f.lossy {
		return
	}
	onWire := float64((f.overhead+int64(r.PayloadLen)+int64(r.PadCount))*8) * 1e9 / float64(rp.LineRate)
	a.gap(r, f, rp, float64(r.TimeNS-before.ns)/onWire)
}

// interrupted records that the time since the flow's latest packet does not show its pace, and may have been long
// enough to recover from a CNP unseen.
func (f *flow) interrupted() { f.fast, f.pace, f.judgeable = run{}, run{}, false }

// gap judges the pace of a sender at a packet.
func (a *Analyzer) gap(r *trace.Record, f *flow, rp *ReactionPoint, gap float64) {
	slow := gap >= slowGap
	if gap <= lineGap {
		f.fast.n++
		f.atLine = f.atLine || f.fast.n >= warmUp
	} else {
		f.fast.n = 0
	}
	if slow {
		f.pace.add(gap)
	} else {
		f.pace = run{}
	}
	if f.atLine && f.pace.n == steady && (f.cnps == 0 || !rp.Enabled) {
		a.slowDown(r, f, rp)
	}
	if f.cnps > 0 && rp.Enabled {
		a.react(r, f, rp, slow)
		a.recover(r, f, rp, gap)
	}
}

// slowDown reports a pace below line rate that nothing explains.
func (a *Analyzer) slowDown(r *trace.Record, f *flow, rp *ReactionPoint) {
	c, why := causeUnprovoked, "no CNP has reached the sender"
	if !rp.Enabled {
		c, why = causeDisabled, "the reaction point is off"
	}
	a.finding(c(cause.Sender(r), cause.Ratio(f.pace.most)), r, nil, "packets at line rate: "+why,
		fmt.Sprintf("%d gaps in a row of %.2f times the packets' time on the wire", f.pace.n, f.pace.most))
}

// react watches for a reaction to the first CNP. Later ones may cut the rate only slightly.
func (a *Analyzer) react(r *trace.Record, f *flow, rp *ReactionPoint, slow bool) {
	if !f.judgeable || f.slowed {
		return
	}
	if slow {
		f.slowed = true
		a.reacted.Record(r.TimeNS - f.firstNS)
		return
	}
	if r.TimeNS-f.firstNS <= rp.DelayNS {
		return
	}
	if f.unmoved++; f.unmoved == enough {
		a.finding(causeNoReaction(cause.Sender(r), cause.Duration(r.TimeNS-f.firstNS)), r, []uint64{f.cnpID},
			"packets further apart after the CNP",
			fmt.Sprintf("line rate, %s after it", micros(r.TimeNS-f.firstNS)))
	}
}

// recover watches for a sender that speeds up after the last CNP.
func (a *Analyzer) recover(r *trace.Record, f *flow, rp *ReactionPoint, gap float64) {
	since := r.TimeNS - f.lastNS
	if since <= rp.DelayNS || f.silent {
		return
	}
	if f.slowest == 0 {
		f.slowest = gap
	}
	f.later++
	f.recovered = f.recovered || gap*spread < f.slowest || f.slowest < slowGap
	if !f.recovered && f.later >= enough && since > rp.DelayNS+patientNS {
		f.silent = true
		a.finding(causeNoRecovery(cause.Sender(r), cause.Ratio(gap), cause.Duration(since)), r, nil,
			"a higher rate than soon after the last CNP",
			fmt.Sprintf("gaps of %.2f times the packets' time on the wire, %s after it", gap, micros(since)))
	}
}

func (a *Analyzer) finding(why cause.Cause, r *trace.Record, support []uint64, expected, actual string) {
	c := r.Flow.Connection()
	if !a.report.Wants(why.Rule, c) {
		return
	}
	a.report.Tell(why, analyzers.Finding{
		Connection: c, Packets: append([]uint64{r.ID}, support...), TimeNS: r.TimeNS, PSNAbs: uint32(r.PSN),
		Expected: expected, Actual: actual, Message: statement(why.Rule),
	})
}

func statement(rule string) string {
	for _, r := range Rules() {
		if r.ID == rule {
			return r.Statement
		}
	}
	return ""
}

// Finish returns findings, and the times from first CNPs to the first delayed packet.
func (a *Analyzer) Finish() analyzers.Result {
	return analyzers.Result{Findings: a.report.Findings(), Metrics: []analyzers.Metric{a.reacted.Metric()}}
}

// micros prints nanoseconds for people.
func micros(ns int64) string { return clock.TextNS(ns) }
