package trace

import (
	"fmt"
	"net/netip"
	"slices"

	"candela.dev/candela/packet"
)

// maxHalves bounds the directed flows that an inference follows; a test has fewer.
const maxHalves = 1 << 13

// midStream is how many PSNs before the first request seen an answer may be: what can be in flight when a capture
// starts in the middle.
const midStream = 1 << 16

// Inference finds the connections of a trace if they are not given. RC packets carry only the QPN of their destination,
// so each direction is found separately ([half]), and the question is which two belong together: the answers in one
// carry PSNs that the other has requested. Memory grows with the number of flows, not with the length of the trace.
type Inference struct {
	MTU int // of connections whose manager says nothing; 0: what their packets show

	halves  []half
	table   flowTable
	toward  map[flowKey][]int // halves by (source, destination), QPN zero
	lastKey flowKey
	last    int // half of lastKey
	tooMany bool
	assumed bool // the MTU of some connection was not shown
	records int64

	elsewhere []Connection // of which another capture shows both directions

	exchanges exchanges
}

// half is one directed flow, and what its packets say.
type half struct {
	key     flowKey
	packets int64

	requests      bool
	lowPSN        packet.PSN // earliest request
	highPSN       packet.PSN // latest request, and the most that a READ can span
	firstStarts   bool       // the earliest request starts a message
	verbs, starts verbSet    // of messages that end, and of those that start
	responses     int64
	firstResponse packet.PSN
	candidates    []int   // halves in the other direction whose requests the responses may answer
	strikes       []uint8 // responses that speak against each of them
	misfits       int64   // responses that fit no candidate
	cnps          int64
	full          [len(mtus)]int64 // FIRST and MIDDLE packets by payload length
	odd           int64            // FIRST and MIDDLE packets of another length
	largest       int              // payload
	read          readStep         // the latest READ, if no request followed it
	steps         [len(mtus)]int64 // READs after which the PSN goes on as this MTU wants it
	reads         []askedRead      // the latest READs, in a ring
	readCount     uint32           // READs ever
	clashed       int64            // READ responses that are not those of the READ at their PSN
	asks, answers strands          // PSNs of requests and of responses
}

// readStep is a READ request of more than one packet of the smallest MTU.
type readStep struct {
	psn    packet.PSN
	length int
}

// askedRead is a READ request of any length.
type askedRead struct {
	psn    packet.PSN
	length uint32
}

// verbSet is a set of indices into verbNames.
type verbSet uint8

// NewInference returns an inference that has seen nothing.
func NewInference() *Inference {
	return &Inference{table: newFlowTable(16), toward: make(map[flowKey][]int), last: -1}
}

// add observes a record with the addresses of its frame. Packets of other transport services, and those with a bad
// iCRC, are not evidence.
func (inf *Inference) add(key flowKey, r *Record) {
	if !r.Opcode.Known() || r.ICRC == packet.ICRCInvalid {
		if c, ok := r.CM(); ok && r.ICRC != packet.ICRCInvalid {
			inf.exchanges.add(key, &c)
		}
		return
	}
	if key != inf.lastKey || inf.last < 0 {
		inf.last, inf.lastKey = inf.find(key), key
	}
	if inf.last < 0 {
		return
	}
	h := &inf.halves[inf.last]
	h.packets++
	inf.records++
	switch {
	case r.Opcode == packet.CNP:
		h.cnps++
		return
	case r.Opcode.IsRequest():
		h.request(r, inf.records)
	default:
		inf.response(h, r)
	}
	h.payload(r)
}

// requesting reports whether a host has sent requests, in whatever connection.
func (inf *Inference) requesting(host netip.Addr) bool {
	return slices.ContainsFunc(inf.halves, func(h half) bool {
		src, _, _ := h.key.addrs()
		return h.requests && src == host
	})
}

func (inf *Inference) find(key flowKey) int {
	if i := inf.table.find(&key); i != NoFlow {
		return int(i)
	}
	if len(inf.halves) == maxHalves {
		inf.tooMany = true
		return -1
	}
	i := len(inf.halves)
	inf.halves = append(inf.halves, half{key: key})
	inf.table.insert(key, FlowID(i))
	way := key
	way.qpn &^= maxUint24
	inf.toward[way] = append(inf.toward[way], i)
	return i
}

func (h *half) request(r *Record, n int64) {
	span := 1
	if r.Opcode == packet.ReadRequest {
		span = max(1, (int(min(r.DMALen, 1<<31))+mtus[0]-1)/mtus[0])
		span = min(span, 1<<22)
	}
	end := r.PSN.Add(span - 1)
	h.step(r)
	h.remember(r)
	if s := h.asks.extend(r.PSN, end, n); s != nil && s.low == r.PSN {
		s.starts = r.Opcode.Starts()
	}
	switch {
	case !h.requests:
		h.requests, h.lowPSN, h.highPSN, h.firstStarts = true, r.PSN, end, r.Opcode.Starts()
	case h.highPSN.Sub(h.lowPSN) < 1<<22 && r.PSN.Before(h.lowPSN) && h.lowPSN.Sub(r.PSN) <= midStream:
		// The first request seen was not the first sent: its predecessor was lost before the tap and was retransmitted.
		h.lowPSN, h.firstStarts = r.PSN, r.Opcode.Starts()
	}
	if h.highPSN.Before(end) {
		h.highPSN = end
	}
	if r.Opcode.Ends() {
		h.verbs |= verbBit(r.Opcode)
	} else {
		h.starts |= verbBit(r.Opcode)
	}
}

// step learns which path MTUs a READ and the next request allow: the READ takes a PSN for each response.
func (h *half) step(r *Record) {
	if n := int(r.PSN.Sub(h.read.psn)); h.read.length > 0 && n > 0 {
		for i, m := range mtus {
			if n == (h.read.length+m-1)/m {
				h.steps[i]++
			}
		}
	}
	h.read = readStep{}
	if r.Opcode == packet.ReadRequest && int64(r.DMALen) > int64(mtus[0]) && r.DMALen < 1<<31 {
		h.read = readStep{r.PSN, int(r.DMALen)}
	}
}

// keptReads is how many READs of a flow are remembered.
const keptReads = 8

// remember keeps a READ.
func (h *half) remember(r *Record) {
	if r.Opcode != packet.ReadRequest || r.DMALen >= 1<<31 {
		return
	}
	s := askedRead{r.PSN, r.DMALen}
	if len(h.reads) < keptReads {
		h.reads = append(h.reads, s)
	} else {
		h.reads[h.readCount%keptReads] = s
	}
	h.readCount++
}

// clashes reports whether a READ response does not have the length that the READ at its PSN requires with a path MTU of
// mtu.
func (h *half) clashes(r *Record, mtu int) bool {
	found := false
	for _, q := range h.reads {
		k := int(r.PSN.Sub(q.psn))
		length := int(q.length)
		if k < 0 || mtu == 0 || k > 0 && k >= (length+mtu-1)/mtu {
			continue
		}
		found = true
		if rest := length - k*mtu; r.Opcode.Ends() && int(r.PayloadLen) == rest || !r.Opcode.Ends() &&
			rest > int(r.PayloadLen) {
			return false
		}
	}
	return found
}

// learn takes from another capture of the same traffic what shows the path MTU.
func (inf *Inference) learn(key flowKey, r *Record) {
	if !r.Opcode.Known() || r.ICRC == packet.ICRCInvalid || r.Opcode == packet.CNP {
		return
	}
	if i := inf.table.find(&key); i != NoFlow {
		inf.halves[i].payload(r)
	}
}

func verbBit(o packet.Opcode) verbSet {
	name := o.Verb().String()
	switch o {
	case packet.WriteLastImm, packet.WriteOnlyImm:
		name = "write-imm"
	case packet.SendLastImm, packet.SendOnlyImm:
		name = "send-imm"
	case packet.SendLastInv, packet.SendOnlyInv:
		name = "send-invalidate"
	case packet.CmpSwap:
		name = "compare-swap"
	case packet.FetchAdd:
		name = "fetch-add"
	}
	return 1 << max(0, slices.Index(verbNames[:], name))
}

// payload learns the path MTU: FIRST and MIDDLE packets are always full (IBTA volume 1, 9.7.2).
func (h *half) payload(r *Record) {
	h.largest = max(h.largest, int(r.PayloadLen))
	if r.Opcode.Ends() || r.PayloadLen == 0 {
		return
	}
	if i := slices.Index(mtus[:], int(r.PayloadLen)); i >= 0 {
		h.full[i]++
	} else {
		h.odd++
	}
}

// response narrows the halves that h may answer.
func (inf *Inference) response(h *half, r *Record) {
	if h.responses == 0 {
		h.firstResponse = r.PSN
	}
	h.responses++
	positive := r.Opcode != packet.Acknowledge || r.Syndrome.IsAck()
	if s := h.answers.extend(r.PSN, r.PSN, inf.records); s != nil {
		s.positive = s.positive || positive
		s.count(r)
	}
	switch {
	case len(h.candidates) == 1:
		o := &inf.halves[h.candidates[0]]
		if !o.asked(r.PSN, midStream) {
			h.misfits++
		}
		if r.Opcode.IsReadResponse() && o.clashes(r, max(h.largest, int(r.PayloadLen))) {
			h.clashed++
		}
	case len(h.candidates) == 0:
		// Powers of two only: unrelated answers must not cost a search each.
		if h.responses&(h.responses-1) == 0 {
			h.candidates = inf.askers(h, r.PSN)
		}
	default:
		h.narrow(inf, r.PSN)
	}
}

// askers returns the halves in the other direction that have requested psn (the capture may lack a few requests), or
// else those that may have before the capture started.
func (inf *Inference) askers(h *half, psn packet.PSN) []int {
	way := h.key.reverse()
	way.qpn &^= maxUint24
	for _, slack := range []int{unseenRequests, midStream} {
		var found []int
		for _, i := range inf.toward[way] {
			if o := &inf.halves[i]; o.asked(psn, slack) || o.asked(psn.Add(-unseenRequests), slack) {
				found = append(found, i)
			}
		}
		if len(found) > 0 {
			return found
		}
	}
	return nil
}

func (h *half) narrow(inf *Inference, psn packet.PSN) {
	const enough = 4096 // more responses will not distinguish the candidates
	if h.responses > enough {
		return
	}
	fits := 0
	for _, i := range h.candidates {
		if inf.halves[i].asked(psn, unseenRequests) {
			fits++
		}
	}
	if fits == 0 || fits == len(h.candidates) {
		return
	}
	if h.strikes == nil {
		h.strikes = make([]uint8, len(h.candidates))
	}
	kept := 0
	for n, i := range h.candidates {
		strikes := h.strikes[n]
		switch o := &inf.halves[i]; {
		case o.asked(psn, unseenRequests):
		case o.asked(psn.Add(-unseenRequests), unseenRequests): // the capture may have missed its request
			strikes++
		default:
			strikes = strikesOut
		}
		if strikes < strikesOut {
			h.candidates[kept], h.strikes[kept] = i, strikes
			kept++
		}
	}
	if kept > 0 {
		h.candidates, h.strikes = h.candidates[:kept], h.strikes[:kept]
	}
}

// A flow whose requests seem to end at most unseenRequests before an answer is excluded after strikesOut such answers;
// one further off immediately.
const (
	unseenRequests = 16
	strikesOut     = 2
)

// asked reports whether requests of h so far can have requested psn.
func (h *half) asked(psn packet.PSN, slack int) bool {
	return h.requests && !h.highPSN.Before(psn) && h.lowPSN.Sub(psn) <= slack
}

// reverse returns the key of packets the other way, with the QPN kept.
func (k flowKey) reverse() flowKey {
	if k.qpn&flowKeyV6 == 0 {
		k.a = k.a<<32 | k.a>>32
		return k
	}
	k.a, k.b, k.c, k.d = k.c, k.d, k.a, k.b
	return k
}

func (h *half) describe() string {
	src, dst, qpn := h.key.addrs()
	return fmt.Sprintf("%v to %v QPN %d", src, dst, uint32(qpn))
}
