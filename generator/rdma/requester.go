package rdma

import (
	"fmt"

	"candela.dev/candela/clock"
	"candela.dev/candela/generator"
	"candela.dev/candela/packet"
)

// maxOutstanding is the maximum number of unacknowledged PSNs: less than half of the space, so that old and new PSNs
// stay distinct (IBTA 9.7.4.1).
const maxOutstanding = 1<<23 - 1

// maxMessage is the longest message in bytes (IBTA 9.7.2).
const maxMessage = 1 << 31

// sendRequest is a posted work request and its PSNs.
type sendRequest struct {
	wr          generator.WorkRequest
	first, last int64      // PSNs
	ready       clock.Time // earliest transmission
}

// fetches reports whether the request is a READ or an atomic, which only its own responses complete.
func (w *sendRequest) fetches() bool { return w.wr.Verb == generator.Read || w.wr.Verb.IsAtomic() }

// rewind is a pending return to the oldest unacknowledged PSN.
type rewind struct {
	pending   bool
	at        clock.Time // earliest retransmission
	sendsOn   bool       // new data is transmitted until then
	skipFirst bool       // BugRetransmitSkipsFirst, BugTimeoutSkipsFirst
}

// requester is the sending half of a queue pair (IBTA 9.7.3 to 9.7.6). PSNs are unwrapped; una ≤ outstanding PSNs <
// high.
type requester struct {
	q   *QP
	out ring[sendRequest] // posted and not completed, oldest first

	una    int64 // oldest PSN that is neither acknowledged nor, for READs and atomics, answered
	nxt    int64 // next PSN to transmit
	high   int64 // first PSN that was never transmitted
	end    int64 // first PSN of the next request to be posted
	ackDue int64 // one past the last PSN of this round with AckReq
	cursor int   // index in out of the request that nxt belongs to; out.len() if nxt == end
	reads  int   // READs and atomics among out[:cursor]

	retries    uint8
	rnrRetries uint8
	impliedAt  int64      // PSN that an implied NAK requested, -1 if none; it is requested only once
	deadline   clock.Time // expiry of the local ACK timer, Never while it is stopped
	ackTimeout clock.Duration
	expiries   int // of the timer since the latest progress
	level      int // position in the adaptive schedule; outlives messages
	rewind     rewind
	rate       rateLimiter
}

func (r *requester) init(q *QP) {
	start := int64(q.ipsn)
	*r = requester{q: q, una: start, nxt: start, high: start, end: start, ackDue: start, impliedAt: -1,
		deadline: clock.Never}
	r.ackTimeout = localAckTimeout(q)
	r.reload()
	r.rate.init(q.nic.cfg.RP, q.nic.cfg.PortRate)
}

// localAckTimeout returns the time after which the local ACK timer expires, 0 if it is off (IBTA 9.7.6.1.3).
func localAckTimeout(q *QP) clock.Duration {
	if q.cfg.Timeout == 0 {
		return 0
	}
	base := 4096 * clock.Nanosecond << q.cfg.Timeout
	return clock.Duration(float64(base) * q.nic.profile.TimeoutFactor)
}

// reload restores the retry counters. It is called on progress: a request completes, a NAK names a later packet than
// the last retransmitted one, or a READ response arrives (IBTA 9.7.6.1.2). An ACK inside a message is not progress:
// after a timeout it may answer a duplicate and does not acknowledge the lost packet. A lost tail is therefore
// retransmitted exactly RetryCount times.
func (r *requester) reload() {
	r.retries, r.rnrRetries, r.expiries = r.q.cfg.RetryCount, r.q.cfg.RNRRetry, 0
}

// check returns an error if a work request can't be posted.
func (r *requester) check(wr generator.WorkRequest) error {
	switch {
	case wr.Verb.Wire() == packet.VerbNone:
		return fmt.Errorf("%s is not an operation", wr.Verb)
	case wr.Length < 0 || wr.Length > maxMessage:
		return fmt.Errorf("message length %d is not within 0 to 2^31 bytes", wr.Length)
	case wr.Verb.PSNs(wr.Length, r.q.cfg.MTU) > maxOutstanding:
		return fmt.Errorf("%d bytes at MTU %d need more than %d packets, half the PSN space",
			wr.Length, r.q.cfg.MTU, maxOutstanding)
	}
	return nil
}

func (r *requester) post(now clock.Time, wr generator.WorkRequest) {
	n := int64(wr.Verb.PSNs(wr.Length, r.q.cfg.MTU))
	r.out.push(sendRequest{wr: wr, first: r.end, last: r.end + n - 1, ready: now.Add(r.q.nic.profile.SendLatency)})
	r.end += n
}

// eligibleAt returns when the next request packet may be sent.
func (r *requester) eligibleAt() clock.Time {
	next := r.nextAt()
	if !r.rewind.pending {
		return next
	}
	at := max(r.rewind.at, r.rate.gate, r.q.class.gate())
	if r.rewind.sendsOn {
		return min(at, next)
	}
	return at
}

// nextAt returns when the packet with PSN nxt may be sent.
func (r *requester) nextAt() clock.Time {
	if r.nxt == r.end {
		return clock.Never
	}
	w := r.out.at(r.cursor)
	last := r.nxt
	if w.wr.Verb == generator.SendInvalidate && r.reads > 0 {
		return clock.Never // fenced: a repeated READ would find its key invalidated (IBTA 10.8.3.3)
	}
	if w.fetches() {
		if last = w.last; r.reads >= r.q.cfg.MaxReads {
			return clock.Never
		}
	}
	if last-r.una >= maxOutstanding {
		return clock.Never
	}
	return max(w.ready, r.rate.gate, r.q.class.gate())
}

// poll fills p with the next request packet, which must be eligible.
func (r *requester) poll(now clock.Time, p *packet.Packet) {
	if r.rewind.pending && r.rewind.at <= now {
		r.restart()
	}
	w := r.out.at(r.cursor)
	r.fill(p, w)
	demanded := p.BTH.AckReq
	r.advance(w)
	r.rate.sent(now, p.Len())
	r.q.class.sent(now, p.Len())
	if demanded && !r.rewind.pending {
		r.ackDue = r.nxt
		if r.q.nic.profile.PipelineDepth == 0 {
			r.demanded(now)
		}
	}
}

// demanded starts the local ACK timer when a packet with AckReq is transmitted.
func (r *requester) demanded(now clock.Time) {
	if r.una < r.ackDue && r.deadline == clock.Never && !r.rewind.pending {
		r.startTimer(now)
	}
}

// advance moves nxt past the packet just sent.
func (r *requester) advance(w *sendRequest) {
	if w.fetches() {
		r.nxt = w.last
		r.reads++
	}
	r.nxt++
	if r.nxt > w.last {
		r.cursor++
	}
	r.high = max(r.high, r.nxt)
}

// restart carries out the pending rewind.
func (r *requester) restart() {
	psn := r.una
	if r.rewind.skipFirst && psn+1 < r.high {
		psn++
	}
	if r.q.nic.bugs.Has(BugRestartsMessage) {
		psn = r.out.at(0).first
	}
	r.rewind = rewind{}
	r.nxt, r.ackDue, r.cursor, r.reads = psn, r.una, 0, 0
	for r.cursor < r.out.len() && r.out.at(r.cursor).last < psn {
		if r.out.at(r.cursor).fetches() {
			r.reads++
		}
		r.cursor++
	}
}

func (r *requester) startTimer(now clock.Time) {
	if r.ackTimeout > 0 {
		r.deadline = now.Add(r.timer())
	}
}

// timeout serves the expiry of the local ACK timer.
func (r *requester) timeout(now clock.Time) {
	r.deadline = clock.Never
	r.q.nic.counters.LocalAckTimeout++
	r.expiries++
	if r.q.nic.cfg.AdaptiveRetrans && !r.adapt() {
		r.retries++ // this one is not charged
	}
	r.retry(now, rewind{at: now.Add(r.q.nic.profile.TimeoutReaction), skipFirst: r.q.nic.bugs.Has(BugTimeoutSkipsFirst)})
}

// retry schedules w, or fails the queue pair if no retries are left.
func (r *requester) retry(now clock.Time, w rewind) {
	if r.retries == 0 {
		r.q.fail(now, generator.RetryExceeded)
		return
	}
	r.retries--
	r.schedule(w)
}

func (r *requester) schedule(w rewind) {
	w.pending = true
	r.rewind = w
	r.deadline = clock.Never // restarted by the next packet with AckReq
}

// progress serves an advance of una.
func (r *requester) progress(now clock.Time) {
	r.nxt = max(r.nxt, r.una) // a late ACK of the previous round may overtake the retransmission
	if r.una == r.high {
		r.rewind = rewind{} // nothing is left to retransmit
	}
	r.deadline = clock.Never
	if r.una < r.ackDue && !r.rewind.pending {
		r.startTimer(now)
	}
}

// pop removes the oldest request.
func (r *requester) pop() {
	if r.out.at(0).fetches() && r.cursor > 0 {
		r.reads--
	}
	r.out.pop()
	r.cursor = max(0, r.cursor-1)
}

func (r *requester) completion(now clock.Time, wr *generator.WorkRequest, s generator.Status) generator.Completion {
	c := generator.Completion{ID: wr.ID, Context: r.q.cfg.Context, QPN: r.q.qpn, Verb: wr.Verb, Status: s, At: now}
	if s == generator.Success {
		c.Length = wr.Length
	}
	return c
}

// flush completes all requests in error: the oldest with status unless that is Success, the others as flushed.
func (r *requester) flush(now clock.Time, status generator.Status) {
	for r.out.len() > 0 {
		if status == generator.Success {
			status = generator.WorkRequestFlushed
		}
		r.q.nic.complete(r.completion(now, &r.out.at(0).wr, status))
		r.out.pop()
		status = generator.WorkRequestFlushed
	}
	r.una, r.nxt, r.high, r.ackDue, r.cursor, r.reads = r.end, r.end, r.end, r.end, 0, 0
	r.deadline, r.rewind = clock.Never, rewind{}
}
