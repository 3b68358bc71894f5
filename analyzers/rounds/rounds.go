// Package rounds derives, record by record, what an observer at the switch can know about retransmission on a reliable
// connection: which packets are repeated, what made the sender go back (a NAK, an implied NAK, an RNR NAK or the local
// ACK timer) and when that cause passed the observer. It judges nothing; the analyzers that measure latencies and
// expected counters share it.
//
// The observer is between the two hosts, so a packet seen towards a host reaches it at some later, unknown time. Causes
// are therefore attributed by content (a jump back to PSN p after a NAK for p passed), and [Step.Certain] says that no
// other cause explains the same packets.
package rounds

import (
	"math"

	"candela.dev/candela/analyzers/bounds"
	"candela.dev/candela/packet"
	"candela.dev/candela/trace"
)

// Cause is what made a sender start a round of retransmission.
type Cause uint8

// Causes. A packet of the first round has None.
const (
	None    Cause = iota
	Nack          // a sequence NAK for the packet at which the round starts
	Implied       // a repeated READ or atomic request after a response arrived out of order
	RNR           // a receiver-not-ready NAK
	Timeout       // nothing else that passed the observer
)

// String names the cause.
func (c Cause) String() string {
	switch c {
	case Nack:
		return "NAK"
	case Implied:
		return "implied NAK"
	case RNR:
		return "RNR NAK"
	case Timeout:
		return "timeout"
	case None:
	}
	return "none"
}

// Marks say what one record means for its stream.
type Marks uint16

// Marks of a Step.
const (
	Retransmitted Marks = 1 << iota // sent before: a retransmitted request or a replayed response
	Restart                         // the sender of requests jumped back to this packet
	// the first lost packet that its round repairs, or the restart itself if no loss is known
	Repair
	// delivered while earlier packets are missing, the first since the receiver was last in order
	GapOpened
	OutOfOrder // delivered with earlier packets missing
	// with OutOfOrder: the packet is an ACK that skips a missing READ or atomic response
	ByAck
	Duplicate   // a request delivered although the responder is already past it
	AnswersGap  // a sequence NAK for the gap that opened at CauseNS
	FirstReplay // the response that the repeated request seen at CauseNS asked for
	// Unsure: an RNR NAK that crossed a repetition of the request that it refuses; or a request that may have been
	// received before although it is not marked Duplicate.
	Unsure
	Progress // a delivered response that acknowledges something new
	// TrimmedNext: the header of a trimmed request (or READ response) that the responder (or requester) waits for.
	// TrimmedAhead: of a later one, the first since the receiver was last in order.
	TrimmedNext
	TrimmedAhead
	ByTrim // with a Restart by Implied: the header of a trimmed READ response may have caused it
)

// Never is an unknown time: it is before every other.
const Never = math.MinInt64

// StallWindowNS is how long progress is kept for Step.StallNS: longer than a packet takes from the observer to a host
// and its effect back.
const StallWindowNS = bounds.ReactionNS

// Transmission is an earlier transmission of a packet.
type Transmission struct {
	NS    int64 // when it passed the observer
	Known bool  // false: none is remembered
	Lost  bool  // the injector dropped or damaged it
	// Tries counts the transmissions up to this one that a timeout caused.
	Tries uint8
	timer bool // it (re)started the local ACK timer for certain
}

// Step is the meaning of one record for its stream of requests.
type Step struct {
	Flow  trace.FlowID // of the requests; the record may be a response on the peer flow
	Place int64        // relative PSN, 1-based, unwrapped
	Marks Marks

	Cause   Cause        // of the round that this packet belongs to, if Retransmitted
	CauseNS int64        // when the cause passed the observer: a NAK, an out-of-order packet, a repeated request
	Prev    Transmission // the packet's previous transmission, if Retransmitted
	Certain bool         // with Restart: no other cause explains it, but see DoubtNS

	// With Restart: when the oldest outstanding packet became the oldest, proven by a response that the sender had
	// received (ProgressNS); when the sender was last seen to start its timer (TimerNS, subject to the jitter of the path
	// from the sender); and when anything of this stream last passed (ActivityNS). Never if unknown.
	ProgressNS, TimerNS, ActivityNS int64
	// QuietNS, with Restart or Progress, is the longest time that the local ACK timer may have run: a restart after less
	// than a timeout was not caused by it.
	QuietNS int64
	// DoubtNS, with a Restart by Timeout, is the QuietNS of an earlier restart here that a NAK explains. If the earlier
	// one was a timeout, this one may be the answer to the NAK.
	DoubtNS int64
	// StallNS, with Restart, is the longest QuietNS of recent progress, for at least StallWindowNS. A timer that expired
	// before that progress reached the sender may have caused the restart.
	StallNS int64
	// RNRTimerNS is the wait in the RNR NAK that caused a Restart.
	RNRTimerNS int64
	// Retries counts restarts since the last progress, this one included; RNRRetries counts those that an RNR NAK caused.
	Retries, RNRRetries int
	// Carried says that a NAK from before the latest progress may have caused a Restart; it is not counted then.
	Carried bool
	// OutOfWindow says that a Restart went back before what responses had acknowledged: these were still in flight.
	OutOfWindow bool
}

// Is reports whether all of marks m are set.
func (s *Step) Is(m Marks) bool { return s.Marks&m == m }

// Tracker follows every stream of requests of a trace.
type Tracker struct {
	meta    trace.Meta
	streams []*stream // by flow of the requests; nil until there is one
	strict  bool      // the trace starts with the connections
	step    Step
	inOrder Step // of requests in order: nothing in it but flow and place
	general bool // without the fast path, for tests
}

// New returns a tracker for the connections of meta.
func New(meta trace.Meta) *Tracker {
	t := &Tracker{meta: meta, streams: make([]*stream, 2*meta.Connections.Len())}
	t.strict = meta.Kind == trace.KindMirror && meta.Connections != nil && !meta.Connections.Inferred
	return t
}

// begin returns the stream of a flow of which nothing was seen.
func (t *Tracker) begin(flow trace.FlowID) *stream {
	s := &stream{
		mtu:            int64(max(t.meta.Connections.All()[flow/2].MTU, 1)),
		near:           1,
		lossKnown:      t.meta.EventsKnown,
		nearPSN:        t.meta.Connections.InitialPSN(flow, packet.Requests),
		responderTrims: t.meta.TrimReactions.Receiver(flow),
		requesterTrims: t.meta.TrimReactions.Receiver(flow.Peer()),
	}
	t.streams[flow] = s
	return s
}

// Packet returns the step of r, or nil for packets outside every stream: CNPs, other services and packets of no known
// connection. The Step is valid until the next call.
func (t *Tracker) Packet(r *trace.Record) *Step {
	request := r.Opcode.IsRequest()
	flow := r.Flow
	if !request {
		if !r.Opcode.IsResponse() {
			return nil
		}
		flow = flow.Peer()
	}
	if flow < 0 || int(flow) >= len(t.streams) {
		return nil
	}
	s := t.streams[flow]
	if s == nil {
		s = t.begin(flow)
	}
	if request && !t.general && s.ordinary(r) {
		t.inOrder.Flow, t.inOrder.Place = flow, s.near
		return &t.inOrder
	}
	t.step = Step{Flow: flow, Place: s.place(r.PSN)}
	if request {
		s.request(r, &t.step, t.strict)
	} else {
		s.response(r, &t.step)
	}
	return &t.step
}

// Lost reports whether the injector lost or damaged the latest transmission of a request, or that is unknown.
func (t *Tracker) Lost(flow trace.FlowID, place int64) bool {
	if flow < 0 || int(flow) >= len(t.streams) {
		return true
	}
	tx := t.streams[flow].sent.get(place)
	return !tx.Known || tx.Lost
}

// Outstanding reports whether requests of a flow are not yet acknowledged by what passed the observer.
func (t *Tracker) Outstanding(flow trace.FlowID) bool {
	if flow < 0 || int(flow) >= len(t.streams) {
		return false
	}
	s := t.streams[flow]
	return s != nil && s.una < s.high
}
