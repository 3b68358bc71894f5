// Package oracle decides small traces of one reliable connection by exhaustive search: could an endpoint that follows
// the standard have produced what the tap saw? It is test support. Production code does not import it, and it shares
// nothing with the analyzers that it judges: the endpoints in requester.go and responder.go are nondeterministic
// machines written from IBTA volume 1, chapter 9. docs/reference/oracle-choices.md lists each choice that they allow,
// with its clause.
//
// The tap is at the switch. A frame from an endpoint left it before the tap saw the frame; a frame towards an endpoint
// arrives after that; each direction is FIFO. So the only freedom is how many of the frames that passed towards an
// endpoint it had received when it sent each of its own. The search follows all such interleavings at once, as sets of
// endpoint states.
package oracle

import (
	"candela.dev/candela/packet"
	"candela.dev/candela/trace"
)

// Packet is one frame with the fields that the oracle knows. Rules about other fields are excluded by name (rules.go).
type Packet struct {
	TimeNS   int64
	Back     bool // from responder to requester
	Op       packet.Opcode
	PSN      int  // relative to the initial PSN of the requests, from 0; not wrapped
	Count    int  // packets that a READ request or the RETH of a WRITE announces; 0: it has no bytes
	Short    int  // bytes that the last of these packets lacks
	Lacks    int  // bytes that the payload of this packet lacks of the path MTU
	AckReq   bool // BTH
	Syndrome packet.Syndrome
	MSN      int
	VA       uint64 // RETH address of READ and WRITE requests; what an atomic ACK brings back

	// What the tap knows of the frame. A mirror sees a frame after it left its sender and knows whether it goes on (Lost).
	// In a pair of captures the first has frames that were Sent, the second those that Passed.
	Seen trace.Flags // trace.Sent, trace.Passed
	Lost bool        // dropped or corrupted by the injector
	// Frame is the same for what two taps saw of one frame. 0: seen once.
	Frame int
}

// request reports whether the packet belongs to the requester's direction by its opcode.
func (p *Packet) request() bool { return p.Op.IsRequest() }

// other reports whether the packet belongs to the requests of the other host.
func (p *Packet) other() bool { return p.Op != packet.CNP && p.request() == p.Back }

// packets returns how many PSNs a request occupies.
func (p *Packet) packets() int {
	if p.Op == packet.ReadRequest {
		return max(1, p.Count)
	}
	return 1
}

// Endpoint is one end of the requests of one host. Each host of a connection may send requests: it is then a requester
// and a responder, which may work at different speeds, so each is judged alone.
type Endpoint int

// Endpoints.
const (
	Requester Endpoint = iota
	Responder
	OtherRequester // where the responder is
	OtherResponder

	Endpoints // how many there are
)

// String names the endpoint.
func (e Endpoint) String() string {
	return [...]string{"requester", "responder", "other requester", "other responder"}[e]
}

// Peer returns the endpoint that answers e, or that e answers.
func (e Endpoint) Peer() Endpoint { return e ^ 1 }

// Neighbour returns the other endpoint at the same host.
func (e Endpoint) Neighbour() Endpoint { return OtherResponder - e }

// View says what is known besides the packets.
type View struct {
	// Plain says that the trace is one capture: frames may be lost after the tap, and the tap may have missed frames
	// unless Complete. Otherwise every loss is marked, as in a mirror trace or a pair of captures.
	Plain    bool
	Complete bool
	// Closed says that the connection came to rest: every obligation is due. An open trace may be cut anywhere at its end.
	Closed bool
	// MidStream says that the trace may begin in the middle of the connection.
	MidStream bool

	TimeoutNS   int64 // local ACK timeout T; 0: not known, may be anything
	HostDelayNS int64 // bound of the delay between tap and endpoint and of the endpoint's processing; 0: unknown
	// ClockNS is how much later than their timestamps frames may have passed the second of two taps, whose clocks differ.
	ClockNS  int64
	Retry    int // retry_cnt; negative: not known
	RNRRetry int // rnr_retry, 7 is without limit; negative: not known
}

// Trace is what a tap saw of one connection.
type Trace struct {
	View    View
	Packets []Packet
	// aliveNS is when a responder's queue pair was certainly not in error, although it may be at the end; 0: unknown.
	aliveNS int64
}

// Verdict is what the oracle says of one endpoint.
type Verdict int

// Verdicts, from mild to severe.
const (
	Possible  Verdict = iota // some endpoint that follows the standard sends this
	Warning                  // only if the tap missed one or two frames
	Violation                // no endpoint does, even so
)

// String names the verdict.
func (v Verdict) String() string { return [...]string{"none", "warning", "violation"}[v] }

// maxUnseen is how many missed frames do not yet prove a violation.
const maxUnseen = 2

// Decision is a verdict with what supports it.
type Decision struct {
	Verdict Verdict
	Unseen  int // frames that the tap must have missed at least; maxUnseen+1: more, or impossible
	// At is the index in Trace.Packets of the endpoint's first packet that nothing explains without unseen frames; the
	// number of packets if what is missing at the end is wrong.
	At int
	// States is how many endpoint states the search visited.
	States int
}

// half returns the packets of e, as if it belonged to the requests of the first host, and their indices in t.
func (t *Trace) half(e Endpoint) (half *Trace, indices []int) {
	half = &Trace{View: t.View}
	other := e >= OtherRequester
	for i := range t.Packets {
		if p := t.Packets[i]; p.other() == other {
			p.Back = p.Back != other
			half.Packets, indices = append(half.Packets, p), append(indices, i)
		}
	}
	return half, indices
}

// TwoWay reports whether both hosts send requests.
func (t *Trace) TwoWay() bool {
	one, _ := t.half(Requester)
	return len(one.Packets) > 0 && len(one.Packets) < len(t.Packets)
}

// Decide judges one endpoint of a trace.
func Decide(t *Trace, e Endpoint) Decision {
	half, indices := t.half(e)
	d := half.decide(e%2, t.lastOf(e.Neighbour()), func(unseen int) bool { return t.mayFail(e.Neighbour(), unseen) })
	switch {
	case d.At < 0:
	case d.At < len(indices):
		d.At = indices[d.At]
	default:
		d.At = len(t.Packets)
	}
	return d
}

// lastOf returns when e sent its last frame.
func (t *Trace) lastOf(e Endpoint) (ns int64) {
	for i := range t.Packets {
		p := &t.Packets[i]
		if p.other() == (e >= OtherRequester) && p.request() == (e%2 == Requester) && p.Seen&trace.Sent != 0 {
			ns = max(ns, p.TimeNS)
		}
	}
	return ns
}

// mayFail reports whether the queue pair may be in error at the end because of what e has seen, or because what e sent
// is unexplained. That e owes something at the end is not a reason: otherwise a host that stops working would be
// excused twice.
func (t *Trace) mayFail(e Endpoint, unseen int) bool {
	half, _ := t.half(e)
	if len(half.Packets) == 0 {
		return false
	}
	open := &Trace{View: half.View, Packets: half.Packets}
	open.View.Closed = false
	if s := newSearch(open, e%2, unseen); !s.run() {
		return true
	}
	s := newSearch(half, e%2, unseen)
	s.fail()
	return s.run()
}

// decide judges an endpoint. Its queue pair sent something else at alive, and may be in error at the end.
func (t *Trace) decide(e Endpoint, alive int64, inError func(unseen int) bool) Decision {
	var d Decision
	for unseen := 0; ; unseen++ {
		s := newSearch(t, e, unseen)
		if t.View.Closed && inError(unseen) {
			open := &Trace{View: t.View, Packets: t.Packets}
			open.View.Closed = false
			if e == Responder && t.View.HostDelayNS > 0 {
				open.aliveNS = alive
			}
			s = newSearch(open, e, unseen)
		}
		ok := s.run()
		d.States += s.visited()
		if unseen == 0 {
			d.At = s.stuckAt()
		}
		switch {
		case ok && unseen == 0:
			return Decision{At: -1, States: d.States}
		case ok:
			d.Verdict, d.Unseen = Warning, unseen
			return d
		case !t.View.Plain || t.View.Complete || unseen == maxUnseen:
			d.Verdict, d.Unseen = Violation, maxUnseen+1
			return d
		}
	}
}
