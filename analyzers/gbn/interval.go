package gbn

// pos is an unwrapped PSN: the distance from the connection's initial PSN, from 0. The relative psn of reports is
// pos+1.
type pos = int64

// A nakKind is what makes a requester go back, besides its timer.
type nakKind uint8

const (
	nakNone nakKind = iota
	nakSequence
	nakRNR
	nakImplied
)

// A knowledge is a state that responses that passed may have led the requester to: everything before una is
// acknowledged. If a NACK for una passed, too, it is kept until a retransmission answers it.
type knowledge struct {
	una    pos
	id     uint64 // of the response that brings it
	timeNS int64
	nakID  uint64
	nakNS  int64
	rnrNS  int64 // duration of the RNR timer
	nak    nakKind
	asks   uint32 // how many NACKs for una passed
	askID  uint64 // of the latest
	askNS  int64  // when it passed, or its RNR timer ran out after that
	// refusals is how many of asks depend on a dropped response of the wrong form.
	refusals uint32
	spent    uint32 // how many of them certainly caused one restart each, so that they explain no other
	// answered: una was retransmitted after a NACK passed.
	answered bool
	// restores: a NAK led to it that acknowledges something new and shows a response to be missing. The standard leaves
	// open whether it restores the retries before or after it costs one.
	restores bool
	// dubious: it acknowledges what was never sent; a requester may ignore it.
	dubious bool
	// answers: a READ response or atomic ACK at una-1, which may answer the request there.
	answers bool
	claimed pos // of a claim: the position of the response

	// when the first RNR NAK since the latest restart here passed; one that arrives during the wait changes nothing
	waitNS int64
	rnrs   uint32 // how many of the NACKs were RNR NAKs
	obeyed uint32 // how many restarts here count as obeying those
}

// A frontier is the interval [least, most] of one requester: the states that it may be in, oldest first. The first is
// the least that it certainly knows, the last what it knows if everything that passed has arrived. una strictly
// increases, so a jump back to x is explained by exactly one state or by none.
//
// Choosing the state that explains a jump discards only older ones. That is safe: the true state at the jump was the
// chosen one or, with the same una, a later one, never an older one.
type frontier struct {
	ring      []knowledge // len is a power of two
	head, len int

	// forgotten is the oldest una that was discarded for lack of room although the requester may not have passed it:
	// between it and the first state nothing is known. -1: none.
	forgotten pos
}

const (
	frontierMin = 2
	// frontierMax bounds memory. More states are in flight only if a requester shows no sign of what it knows, as in a
	// clean transfer; there expire bounds them by time.
	frontierMax = 4096
)

func newFrontier(una pos) frontier {
	f := frontier{ring: make([]knowledge, frontierMin), len: 1, forgotten: -1}
	f.ring[0].una = una
	return f
}

func (f *frontier) at(i int) *knowledge { return &f.ring[(f.head+i)&(len(f.ring)-1)] }

// least and most are the ends of the interval.
func (f *frontier) least() *knowledge { return f.at(0) }
func (f *frontier) most() *knowledge  { return f.at(f.len - 1) }

// push adds a state later than all others.
func (f *frontier) push(k knowledge) {
	if f.len == len(f.ring) {
		if len(f.ring) < frontierMax {
			f.grow()
		} else {
			if f.forgotten < 0 {
				f.forgotten = f.least().una
			}
			f.drop(1)
		}
	}
	f.len++
	*f.most() = k
}

// insert adds a state in order of una, unless it is there or before all others.
func (f *frontier) insert(k knowledge) {
	i := f.search(k.una)
	if i == 0 || i == f.len || f.at(i).una == k.una {
		return
	}
	f.push(*f.most())
	i = f.search(k.una) // push may have dropped states
	for j := f.len - 1; j > i; j-- {
		*f.at(j) = *f.at(j - 1)
	}
	*f.at(i) = k
}

// include adds a state that the requester may be in besides the others: in order, or as requests of the state with the
// same una.
func (f *frontier) include(k knowledge) {
	i := f.search(k.una)
	switch {
	case i == f.len:
		f.push(k)
	case f.at(i).una != k.una:
		f.insert(k)
	case k.nak != nakNone:
		f.at(i).merge(&k)
	}
}

// merge adds what another state with the same una asks for.
func (k *knowledge) merge(o *knowledge) {
	k.restores = k.restores || o.restores
	k.asks += o.asks
	k.rnrs += o.rnrs
	if o.askNS >= k.askNS {
		k.askID, k.askNS = o.askID, o.askNS
	}
	if k.nak == nakNone || k.spent >= k.asks-o.asks {
		k.nak, k.nakID, k.nakNS, k.answered = o.nak, o.nakID, o.nakNS, false
	}
	if o.nak == nakRNR {
		k.rnrNS = o.rnrNS
		if k.waitNS == 0 {
			k.waitNS = o.waitNS
		}
	}
}

func (f *frontier) grow() {
	ring := make([]knowledge, 2*len(f.ring))
	for i := range f.len {
		ring[i] = *f.at(i)
	}
	f.ring, f.head = ring, 0
}

// drop discards the n oldest states.
func (f *frontier) drop(n int) {
	f.head = (f.head + n) & (len(f.ring) - 1)
	f.len -= n
}

// raise makes state i the least: the requester showed it, or time proves it.
func (f *frontier) raise(i int) {
	f.drop(i)
	f.forgotten = -1
}

// known returns the index of the last state that was certainly reached if what passed before knownNS has arrived. Only
// a dubious state may be skipped.
func (f *frontier) known(knownNS int64) int {
	known := 0
	for i := 1; i < f.len && f.at(i).timeNS < knownNS; i++ {
		if !f.at(i).dubious {
			known = i
		}
	}
	return known
}

// search returns the first state whose una is at or after x, or f.len.
func (f *frontier) search(x pos) int {
	lo, hi := 0, f.len
	for lo < hi {
		mid := (lo + hi) / 2
		if f.at(mid).una < x {
			lo = mid + 1
		} else {
			hi = mid
		}
	}
	return lo
}
