package tcp

import (
	"fmt"
	"slices"

	"candela.dev/candela/analyzers"
	"candela.dev/candela/analyzers/cause"
	"candela.dev/candela/analyzers/fsm"
	"candela.dev/candela/clock"
	"candela.dev/candela/packet"
)

// Observation is one TCP packet at a NIC.
type Observation struct {
	Time       clock.Time
	Number     uint64 // of the packet, for findings
	Sent       bool   // it leaves its sender; otherwise it has reached its receiver
	Src, Dst   uint32 // hosts, numbered as the observer likes
	Connection uint32 // between the two
	Seq, Ack   uint32
	SACKStart  uint32 // one block; equal to SACKEnd: none
	SACKEnd    uint32
	Window     uint64 // bytes beyond Ack that the sender of this packet takes
	Payload    int
	Damaged    bool // payload was cut: nothing of it counts
	SYN        bool // Window is not scaled then
	HasACK     bool // false only of the first SYN
	ECE, CWR   bool
	ECN        packet.ECN // of the IP header
	TTL        uint8      // of the IP header, for Swift
	Delay      uint32     // nanoseconds that the sender of this packet says it has held the latest segment, for Swift
	HasDelay   bool
	Echo       uint32 // nanoseconds, mod 2^32: when the segment that an ACK answers was sent (RFC 7323)
	HasEcho    bool
}

// Config is what the analyzer must know besides the packets.
type Config struct {
	MSS            int            // payload of a full segment in bytes
	InitialWindow  int            // segments; RFC 6928 has 10
	Threshold      int            // of the first slow start, in segments; 0: unknown or none
	MinRTO         clock.Duration // least retransmission timeout
	Beta           float64        // share of the window that remains after a loss: 0.5 (RFC 5681), 0.7 (RFC 9438); 0: 0.7
	FirstSequence  uint32         // of the first byte of every stream
	NeedsACK       bool           // receivers drop data that comes before the ACK of the handshake
	Handshake      bool           // connections begin with one; otherwise they are established from the start
	InitialRTO     clock.Duration // without a sample of the RTT; 0: MinRTO
	MaxRTO         clock.Duration // greatest timeout; 0: no bound
	ThreeSRTT      bool           // the timeout is 3·SRTT, not SRTT + 4·RTTVAR
	MaxRetries     int            // timeouts in a row after which a connection is given up; 0: no bound
	Detection      Detection
	Timestamps     bool // RTT samples are from time stamps of ACKs alone (RFC 7323), not from handshakes
	RestartsOnSend bool // the retransmission timer restarts when data is sent, too
	// UnknownStack: nothing is known of how the hosts recover from losses, as of kernels. The rules of Exact are not
	// applied: Detection and what else is declared below would be guesses.
	UnknownStack bool

	NoFastRetransmit, NoLimitedTransmit bool
	// Segments in order after which an ACK is no longer delayed, and the greatest delay. 0 segments: unknown.
	ACKEvery int
	ACKDelay clock.Duration
	// Hold bounds the time from a host's decision to send a packet to when it is seen to leave, without the wait for other
	// packets: the host may not know what reached it meanwhile. It includes errors of times. 0 at simulated NICs.
	Hold clock.Duration
	// Until returns up to when every packet that left a host was seen, if the observation ends at another place of the
	// network; nil: up to its end. What a host does not do later is not missing.
	Until func(host uint32) clock.Time
	ECN   ECN
	Swift Swift
	// Number gives findings the number of the connection; nil: that of the observations.
	Number func(src, dst, connection uint32) int
}

// slack is how much later than its timer a host may act, because its NIC is full or serves other connections.
const slack = 10 * clock.Millisecond

// ackLimit is the longest that an acknowledgement may be delayed (RFC 5681, 4.2).
const ackLimit = 500*clock.Millisecond + slack

// maxBackoff is where doubling may end (RFC 6298, 2.5).
const maxBackoff = 60 * clock.Second

// Analyzer judges every connection. Feed it every observation in order of time, then call Finish. Memory is bounded by
// what is in flight and the number of connections.
type Analyzer struct {
	cfg     Config
	report  *analyzers.Reporter
	streams map[streamKey]*stream
	order   []*stream
	passed  map[streamKey]struct{} // of connections that are not judged
	nics    map[uint32]*nic        // by host
	now     clock.Time
	drained bool
	rtt     *analyzers.Distribution

	sender, receiver fsm.Coverage[string]
}

// streamKey is one direction of a connection.
type streamKey struct{ src, dst, connection uint32 }

// stream is what was seen of one direction.
type stream struct {
	key    streamKey
	number int
	sender
	receiver
	greeting greeting
	marked   ecnSender
	echoed   ecnReceiver
}

// New returns an analyzer that has seen nothing.
func New(c Config) *Analyzer {
	if c.Beta == 0 {
		c.Beta = 0.7
	}
	return &Analyzer{
		cfg: c, report: analyzers.NewReporter(Name, Rules()), streams: make(map[streamKey]*stream),
		nics: make(map[uint32]*nic), passed: make(map[streamKey]struct{}),
		sender: fsm.NewCoverage(senderMachine), receiver: fsm.NewCoverage(receiverMachine),
		rtt: analyzers.NewDistribution("tcp.round-trip", analyzers.UnitNS, 0),
	}
}

// Name returns "tcp".
func (a *Analyzer) Name() string { return Name }

// Drain says that nothing was in flight when the observation ended: what is missing then will never come.
func (a *Analyzer) Drain() { a.drained = true }

func (a *Analyzer) stream(k streamKey) *stream {
	s := a.streams[k]
	if s == nil {
		s = &stream{key: k, number: int(k.connection)}
		if a.cfg.Number != nil {
			s.number = a.cfg.Number(k.src, k.dst, k.connection)
		}
		s.window, s.turned, s.initial = newWindow(&a.cfg), never, int64(a.cfg.InitialWindow*a.cfg.MSS)
		s.greeting.armed, s.greeting.began = never, clock.Never
		s.marked = ecnSender{turned: never, heard: never, alpha: a.cfg.ECN.Alpha}
		if s.swift = newSwift(&a.cfg); s.swift != nil {
			a.applies(s)
		}
		a.streams[k] = s
		a.nic(k.src).connections++
		a.order = append(a.order, s)
	}
	return s
}

// Pass says that a packet of a connection was seen that is not judged: time passes, and its hosts serve one more.
func (a *Analyzer) Pass(now clock.Time, src, dst, connection uint32) {
	a.now = now
	for _, k := range [2]streamKey{{src, dst, connection}, {dst, src, connection}} {
		if _, known := a.passed[k]; !known {
			a.passed[k] = struct{}{}
			a.nic(k.src).connections++
		}
	}
}

// Observe takes the next packet.
func (a *Analyzer) Observe(o *Observation) {
	a.now = o.Time
	data := a.stream(streamKey{o.Src, o.Dst, o.Connection}) // the stream of the payload
	back := a.stream(streamKey{o.Dst, o.Src, o.Connection}) // the stream that is acknowledged
	if o.Sent {
		if a.cfg.Handshake && !a.greets(data, o) {
			return
		}
		if back.known() || o.Ack != a.cfg.FirstSequence { // the other way may have nothing to say
			if a.cfg.ECN.On {
				a.echoes(back, o)
			}
			a.holds(back, o)
			a.acknowledges(back, o)
		}
		a.labels(data, o, o.Payload > 0 && data.place(o.Seq, data.next, &a.cfg) >= data.next)
		if o.Payload > 0 {
			a.sends(data, o)
		}
		return
	}
	if o.Damaged {
		return
	}
	if a.cfg.Handshake && !a.hears(back, o) {
		return
	}
	a.learns(back, o)
	if o.Payload > 0 {
		before := data.have
		data.cameAt, data.came = a.now, true
		start := data.place(o.Seq, data.have, &a.cfg)
		input := data.arrive(a.now, start, o.Payload)
		a.notes(data, start, o.Payload)
		a.counts(data, input, o.Payload)
		a.receiver.Step(&data.rx, input)
		a.marks(data, o, before, input)
	}
}

// place returns the position of a sequence number in the stream that is nearest to a known one.
func (s *stream) place(sequence uint32, near int64, c *Config) int64 {
	return near + int64(int32(sequence-c.FirstSequence-uint32(near)))
}

// breaks reports a violation of a sender.
func (a *Analyzer) breaks(s *stream, input uint8, c cause.Cause, number uint64, expected, actual string) {
	a.sender.Step(&s.state, input)
	a.blame(c, s, number, expected, actual)
}

// blame reports a finding.
func (a *Analyzer) blame(c cause.Cause, s *stream, number uint64, expected, actual string) {
	if a.cfg.UnknownStack && slices.Contains(exact, c.Rule) || !a.report.Wants(c.Rule, s.number) {
		return
	}
	f := analyzers.Finding{
		Connection: s.number, TimeNS: a.now.Nanoseconds(), Expected: expected, Actual: actual,
		Message: fmt.Sprintf("connection %d, host %d to host %d: %s", s.key.connection, s.key.src, s.key.dst, actual),
	}
	if number > 0 {
		f.Packets = []uint64{number}
	}
	a.report.Tell(c, f)
}

// Finish returns the results; end is when the observation ended.
func (a *Analyzer) Finish(end clock.Time) analyzers.Result {
	a.now = max(a.now, end)
	for _, s := range a.order {
		a.overdue(s)
		a.late(s)
		if a.cfg.Handshake {
			a.owes(s)
		}
		if a.drained {
			a.missing(s)
		}
		if s.hidden > 0 {
			a.blame(causeUnjudged(a.tx(s), s.hidden), s, 0, "timeouts whose packets leave their NIC soon",
				fmt.Sprintf("%d timeouts are not judged: their timers seem short, but the NIC was busy and the packets may have "+
					"waited", s.hidden))
		}
	}
	a.unjudgedMarks()
	a.unjudgedSwift()
	r := analyzers.Result{Findings: a.report.Findings(), Coverage: make(map[string]int64)}
	a.sender.AddTo(r.Coverage)
	a.receiver.AddTo(r.Coverage)
	if a.rtt.Count() > 0 {
		r.Metrics = append(r.Metrics, a.rtt.Metric())
	}
	return r
}

// missing reports what will never come.
func (a *Analyzer) missing(s *stream) {
	if a.cfg.Handshake {
		a.neverGreeted(s)
	}
	if s.una < s.next && !a.gaveUp(s) {
		if !s.stalled {
			a.breaks(s, txNoTimeout, causeNeverRetransmitted(a.tx(s), s.una), 0,
				fmt.Sprintf("a retransmission of byte %d", s.una),
				fmt.Sprintf("the sender never retransmitted byte %d", s.una))
		}
		a.breaks(s, txIncomplete, causeIncomplete(a.tx(s), s.una, s.next), 0,
			fmt.Sprintf("all %d bytes acknowledged", s.next),
			fmt.Sprintf("%d of %d bytes were acknowledged in the end", s.una, s.next))
	}
	if a.peerGone(s) {
		return
	}
	if s.have > s.acknowledged {
		a.says(s, rxNoAck, causeAckNever(a.rx(s), s.acknowledged, s.have), 0,
			fmt.Sprintf("an acknowledgement of %d bytes", s.have),
			fmt.Sprintf("the receiver acknowledged %d of the %d bytes that arrived", max(0, s.acknowledged), s.have))
	}
	if s.owes {
		a.says(s, rxNoDuplicate, causeDuplicateNever(a.rx(s), s.have), 0,
			fmt.Sprintf("another acknowledgement of byte %d", s.have),
			"the receiver never answered a segment after the gap")
	}
}
