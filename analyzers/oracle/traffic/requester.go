package traffic

import (
	"candela.dev/candela/analyzers/oracle"
	"candela.dev/candela/packet"
)

// request is one request packet, or a READ of several PSNs.
type request struct {
	op     packet.Opcode
	psn    int
	count  int // PSNs
	length int // packets in the RETH
	short  int // bytes that they lack
	lacks  int // bytes that this packet lacks
	va     uint64
	ack    bool
}

func (r *request) end() int { return r.psn + r.count }

func (r *request) explicit() bool {
	return r.op == packet.ReadRequest || r.op.Verb() == packet.VerbAtomic
}

// requester sends messages, and repairs what is lost.
type requester struct {
	*stream
	requests []request // of every PSN that was ever used, in order
	index    []int     // of the request of each PSN
	messages int       // still to post
	una      int
	cur      int
	next     int
	posted   int // PSN after the last message posted

	retries, rnrs int
	pumping       bool
	waitUntil     int64 // RNR
	epoch         int   // of the timer
	backTo        int   // a restart is due after linger more packets; negative: none
	linger        int
	rewound       bool // by an RNR NAK: the next packet is the oldest
	implied       int  // the una that an implied NAK has asked for
	gap           int64
}

func newRequester(n *stream) *requester {
	return &requester{stream: n, messages: n.Messages, backTo: -1, implied: -1, gap: 1 + n.upTo(n.DelayMax/4)}
}

func (r *requester) failed() bool { return r.dead[r.host(false)] }

func (r *requester) at(psn int) *request { return &r.requests[r.index[psn]] }

// post takes the next message from the application if the window has room.
func (r *requester) post() bool {
	if r.messages == 0 {
		return false
	}
	verb := r.draw()
	packets := 1 + r.rng.IntN(max(1, r.Packets))
	if verb == Atomic {
		packets = 1
	}
	if r.posted > r.una && r.posted+packets-r.una > r.Window || (verb == Read || verb == Atomic) &&
		r.explicits() >= max(1, r.Reads) {
		return false
	}
	r.messages--
	lacks := r.lacks(packets)
	switch verb {
	case Read:
		q := request{op: packet.ReadRequest, count: packets, length: packets, short: lacks}
		if lacks == oracle.MTU {
			q.length, q.short = 0, 0
		}
		r.append(q)
	case Atomic:
		r.append(request{op: starts[Atomic][r.rng.IntN(2)], count: 1})
	case Send:
		lasts := []packet.Opcode{packet.SendLast, packet.SendLastImm, packet.SendLastInv}
		r.message(packets, lacks, packet.SendFirst, packet.SendMiddle, lasts, starts[Send])
	default:
		lasts := []packet.Opcode{packet.WriteLast, packet.WriteLastImm}
		r.message(packets, lacks, packet.WriteFirst, packet.WriteMiddle, lasts, starts[Write])
	}
	return true
}

// lacks returns how many bytes the last packet of a message lacks: all of them only if it is the only one.
func (r *requester) lacks(packets int) int {
	switch {
	case !r.chance(r.Odd):
		return 0
	case packets == 1 && r.chance(0.5):
		return oracle.MTU
	default:
		return 1 + r.rng.IntN(oracle.MTU-1)
	}
}

func (r *requester) draw() Verbs {
	for {
		if v := Verbs(1) << r.rng.IntN(4); r.Verbs&v != 0 {
			return v
		}
	}
}

// explicits counts READs and atomics without a complete answer.
func (r *requester) explicits() int {
	n := 0
	for psn := r.una; psn < r.posted; psn = r.at(psn).end() {
		if r.at(psn).explicit() {
			n++
		}
	}
	return n
}

func (r *requester) append(q request) {
	q.psn, q.va = r.posted, oracle.Address(r.posted)
	r.requests = append(r.requests, q)
	for range q.count {
		r.index = append(r.index, len(r.requests)-1)
	}
	r.posted += q.count
}

func (r *requester) message(packets, lacks int, first, middle packet.Opcode, lasts, onlies []packet.Opcode) {
	for i := range packets {
		q := request{op: middle, count: 1, ack: r.chance(0.2)}
		switch {
		case packets == 1:
			q.op, q.ack, q.length, q.short, q.lacks = onlies[r.rng.IntN(len(onlies))], true, 1, lacks, lacks
			if lacks == oracle.MTU {
				q.length, q.short = 0, 0
			}
		case i == 0:
			q.op, q.length, q.short = first, packets, lacks
		case i == packets-1:
			q.op, q.ack, q.lacks = lasts[r.rng.IntN(len(lasts))], true, lacks
		}
		r.append(q)
	}
}

// pump sends one packet and comes back for the next.
func (r *requester) pump() {
	r.pumping = false
	if r.failed() || r.now < r.waitUntil {
		return
	}
	if r.backTo >= 0 {
		if r.linger == 0 || r.cur >= r.posted {
			r.cur, r.backTo = r.una, -1
		} else {
			r.linger--
		}
	}
	if r.cur >= r.posted && !r.post() {
		return
	}
	r.sendOne()
	r.wake(r.gap)
}

func (r *requester) wake(after int64) {
	if !r.pumping {
		r.pumping = true
		r.network.at(r.now+after, r.pump)
	}
}

func (r *requester) sendOne() {
	q := r.at(r.cur)
	p := oracle.Packet{Op: q.op, PSN: r.cur, AckReq: q.ack, Lacks: q.lacks}
	if q.op.Headers()&packet.HasRETH != 0 {
		p.VA, p.Count, p.Short = q.va, q.length, q.short
	}
	if q.op == packet.ReadRequest { // only what is missing
		p.Count -= r.cur - q.psn
		p.VA += uint64(r.cur-q.psn) * oracle.MTU
	}
	if r.una == r.next || r.cur == r.una {
		r.startTimer()
	}
	r.cur, r.rewound = q.end(), false
	r.next = max(r.next, r.cur)
	r.transmit(p, r.responder.receive)
}

func (r *requester) startTimer() {
	r.epoch++
	epoch := r.epoch
	r.network.at(r.now+r.TimeoutNS+r.upTo(r.TimeoutNS/2), func() {
		if epoch == r.epoch && !r.failed() && r.una < r.next {
			r.backTo = -1
			r.goBack(0)
		}
	})
}

// goBack restarts at una, after up to linger more packets that are already in the NIC.
func (r *requester) goBack(linger int) {
	if r.backTo >= 0 {
		return
	}
	if r.retries++; r.retries > r.Retry {
		r.dead[r.host(false)] = true
		return
	}
	if r.rewound {
		linger = 0 // it is back already
	}
	r.backTo, r.linger = r.una, linger
	r.startTimer()
	r.wake(1 + r.upTo(r.ProcessMax/2))
}

// receive takes a response.
func (r *requester) receive(p oracle.Packet) {
	if r.failed() {
		return
	}
	if p.PSN < r.una || p.PSN >= r.next {
		return
	}
	switch {
	case p.Op != packet.Acknowledge:
		if missing := r.progress(p.PSN); missing {
			r.impliedNak()
			return
		}
		r.advance(p.PSN + 1)
	case p.Syndrome.IsAck():
		if r.progress(p.PSN + 1) {
			r.impliedNak()
		}
	case p.Syndrome.IsRNR():
		if r.progress(p.PSN) {
			r.impliedNak()
			return
		}
		r.notReady(p.Syndrome)
	case p.Syndrome == packet.SyndromeNakSequence:
		if r.progress(p.PSN) {
			r.impliedNak()
			return
		}
		r.goBack(r.rng.IntN(3))
	default:
		r.dead[r.host(false)] = true
	}
}

// progress acknowledges everything before psn up to the first unanswered READ or atomic; missing: there is one.
func (r *requester) progress(psn int) (missing bool) {
	to := r.una
	for to < psn && !r.at(to).explicit() {
		to++
	}
	r.advance(to)
	return to < psn
}

func (r *requester) advance(una int) {
	if una <= r.una {
		return
	}
	r.una, r.cur = una, max(r.cur, una)
	r.retries, r.rnrs = 0, 0
	r.epoch++
	r.backTo, r.waitUntil = -1, 0
	if r.una < r.next {
		r.startTimer()
	}
	r.wake(1 + r.upTo(r.ProcessMax/2))
}

// impliedNak reacts to a response that overtook a missing one, immediately or when the timer expires.
func (r *requester) impliedNak() {
	if r.implied != r.una && r.chance(0.6) {
		r.implied = r.una
		r.goBack(0)
	}
}

func (r *requester) notReady(s packet.Syndrome) {
	if r.rnrs++; r.RNRRetry < 7 && r.rnrs > r.RNRRetry {
		r.dead[r.host(false)] = true
		return
	}
	r.epoch++ // the retry timer stops
	r.backTo, r.cur, r.rewound = -1, r.una, true
	r.waitUntil = r.now + packet.RNRTimer(s.TimerCode()) + r.upTo(r.ProcessMax)
	r.network.at(r.waitUntil, func() {
		if r.waitUntil > 0 && r.now >= r.waitUntil {
			r.wake(1)
		}
	})
}
