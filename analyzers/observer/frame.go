package observer

import (
	"candela.dev/candela/packet"
	"candela.dev/candela/trace"
)

// A frame is one packet of a session. PSNs are distances from the initial PSN of the requests.
type frame struct {
	id       uint64
	timeNS   int64
	psn, end int64 // a request takes the PSNs from psn to end-1
	length   int64 // bytes that the RETH announces
	va       uint64
	count    int32 // packets that it announces
	tail     int32 // bytes of the last of them, or unknownTail
	payload  int32 // bytes of this packet
	msn      uint32
	op       packet.Opcode
	syndrome packet.Syndrome
	ackReq   bool
	back     bool // from responder to requester
	fresh    bool // a request beyond all that was sent before
	misfit   bool // its length does not fit its opcode
	foreign  bool // its receiver must refuse access to the memory
	damaged  bool // its iCRC is wrong: its fields prove nothing
	lost     bool // its receiver takes no notice of it
	sent     bool // seen as it left its sender; else only on its way to the receiver
}

// unknownTail is the length of the last packet if the path MTU is unknown.
const unknownTail = -1

// newFrame returns what the observer needs of r. n is the number of packets that its RETH announces; mtu is the path
// MTU, 0 if unknown.
func newFrame(r *trace.Record, psn, n int64, mtu int32) frame {
	f := frame{
		id: r.ID, timeNS: r.TimeNS, psn: psn, end: psn + 1, count: int32(n), msn: r.MSN, op: r.Opcode, syndrome: r.Syndrome,
		length: int64(r.DMALen), payload: int32(r.PayloadLen), ackReq: r.Has(trace.AckReq),
		damaged: r.ICRC == packet.ICRCInvalid, lost: !r.Delivered(), sent: r.Has(trace.Sent),
		foreign: r.Has(trace.ForeignRKey) && (r.DMALen > 0 || r.Opcode.Verb() == packet.VerbAtomic),
	}
	f.tail = unknownTail
	if mtu > 0 {
		f.tail = int32(f.length - max(0, n-1)*int64(mtu))
	}
	f.misfit = !f.fits(mtu)
	if r.Opcode == packet.ReadRequest {
		f.end = psn + max(1, n)
	}
	if r.Opcode.Headers()&(packet.HasRETH|packet.HasAtomicETH|packet.HasAtomicAckETH) != 0 {
		f.va = r.VA
	}
	return f
}

func (f *frame) atomic() bool { return f.op.Verb() == packet.VerbAtomic }

// demands reports whether op asks for a response of its own: READ responses or an atomic ACK.
func demands(op packet.Opcode) bool {
	return op == packet.ReadRequest || op.Verb() == packet.VerbAtomic
}

// fatal reports whether s ends the connection.
func fatal(s packet.Syndrome) bool { return s.IsNak() && s != packet.SyndromeNakSequence }

// fatalAt reports whether f is a NAK for psn that ends the connection.
func (f *frame) fatalAt(psn int64) bool {
	return f != nil && f.op == packet.Acknowledge && fatal(f.syndrome) && f.psn == psn
}

// rnrAt reports whether f is an RNR NAK for psn.
func (f *frame) rnrAt(psn int64) bool {
	return f != nil && f.op == packet.Acknowledge && f.syndrome.IsRNR() && f.psn == psn
}

// fits reports whether the RETH's length fits the opcode of a WRITE, and the payload its place in the message (IBTA
// volume 1, 9.7.4.1.6).
func (f *frame) fits(mtu int32) bool {
	verb := f.op.Verb()
	switch {
	case mtu == 0 || verb != packet.VerbSend && verb != packet.VerbWrite:
	case !f.op.Ends():
		if f.payload != mtu {
			return false
		}
	case f.payload > mtu, f.payload == 0 && !f.op.Starts():
		return false
	}
	switch f.op {
	case packet.WriteOnly, packet.WriteOnlyImm:
		return f.count <= 1 && (mtu == 0 || f.length == int64(f.payload))
	case packet.WriteFirst:
		return f.count >= 2
	default:
		return true
	}
}

// An extent is a range of PSNs and the request that was first seen there.
type extent struct {
	from, to int64
	request  frame
	// left is how many packets of a WRITE follow the request, or unknownLeft, and tail how many bytes the last of them
	// has, or unknownTail.
	left, tail int32
}

// sentRequests maps PSNs to the requests that were first seen there.
type sentRequests struct {
	list      []extent // by from, disjoint
	low, high int64    // bounds of all PSNs that were seen
	forgotten int64    // PSNs before are no longer remembered
}

// unknownLeft is the rest of a WRITE whose beginning was not seen.
const unknownLeft = -1 << 31

const maxExtents = 2048

// find returns the index of the first extent that ends after psn.
func (q *sentRequests) find(psn int64) int {
	if n := len(q.list); n == 0 || q.list[n-1].to <= psn {
		return n
	}
	lo, hi := 0, len(q.list)
	// Most requests take one PSN: guess the index from the PSN.
	if guess := int64(hi) - (q.list[hi-1].to - psn); guess >= 0 && q.list[guess].from <= psn && psn < q.list[guess].to {
		return int(guess)
	}
	for lo < hi {
		if mid := (lo + hi) / 2; q.list[mid].to <= psn {
			lo = mid + 1
		} else {
			hi = mid
		}
	}
	return lo
}

// extent returns the extent that holds psn, or nil.
func (q *sentRequests) extent(psn int64) *extent {
	if i := q.find(psn); i < len(q.list) && q.list[i].from <= psn {
		return &q.list[i]
	}
	return nil
}

// at returns the request that occupies psn, or nil if none was seen.
func (q *sentRequests) at(psn int64) *frame {
	if x := q.extent(psn); x != nil {
		return &x.request
	}
	return nil
}

// demandsBetween reports whether a READ or atomic was seen in the PSNs [from, to).
func (q *sentRequests) demandsBetween(from, to int64) bool {
	for i := q.find(from); i < len(q.list) && q.list[i].from < to; i++ {
		if demands(q.list[i].request.op) {
			return true
		}
	}
	return false
}

// learn notes a request and reports whether that was the first at one of its PSNs.
func (q *sentRequests) learn(f *frame) (first bool) {
	x := extent{from: f.psn, to: f.end, request: *f, left: unknownLeft}
	if f.op.Verb() == packet.VerbWrite && !f.op.Ends() {
		if f.op.Starts() {
			x.left, x.tail = f.count-1, f.tail
		} else if before := q.extent(f.psn - 1); before != nil && before.left != unknownLeft && !before.request.op.Ends() {
			x.left, x.tail = before.left-1, before.tail
		}
	}
	if n := len(q.list); n == 0 || q.list[n-1].to <= f.psn {
		if n == 0 || n >= maxExtents {
			q.forget()
		}
		q.list = append(q.list, x)
		return true
	}
	for psn := f.psn; psn < f.end; {
		i := q.find(psn)
		switch {
		case i == len(q.list):
			x.from, x.to = psn, f.end
		case q.list[i].from <= psn:
			psn = q.list[i].to
			continue
		default:
			x.from, x.to = psn, min(f.end, q.list[i].from)
		}
		if psn < q.forgotten {
			return false
		}
		first = true
		q.list = append(q.list, extent{})
		copy(q.list[i+1:], q.list[i:])
		q.list[i] = x
		psn = x.to
	}
	return first
}

func (q *sentRequests) forget() {
	if n := len(q.list); n >= maxExtents {
		q.forgotten = q.list[n/2].from
		q.list = append(q.list[:0], q.list[n/2:]...)
	}
}

// bound widens the range of PSNs that were seen.
func (q *sentRequests) bound(f *frame) {
	q.low, q.high = min(q.low, f.psn), max(q.high, f.end)
}
