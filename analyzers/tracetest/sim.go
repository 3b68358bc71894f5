package tracetest

import (
	"container/heap"
	"math/rand/v2"

	"candela.dev/candela/packet"
	"candela.dev/candela/trace"
)

// Scenario describes a simulation. Durations are in nanoseconds.
type Scenario struct {
	Seed        uint64
	Connections int
	Messages    int // per connection
	Packets     int // per message
	Depth       int // outstanding messages
	Reads       bool
	// DelayMin and DelayMax bound the one-way delay between a host and the switch; each packet draws its own, but no
	// packet overtakes another of its direction.
	DelayMin, DelayMax int64
	// Loss, Mark and NotReady are the shares of packets that are lost or marked at the switch, and of request packets that
	// the responder answers with an RNR NAK.
	Loss, Mark, NotReady float64
	Timeout              int64 // local ACK timeout T
	// CNPInterval is the minimum time between CNPs of the responder's port; negative: no CNPs.
	CNPInterval int64
	Bug         Bug
}

// Bug is one deliberate fault of the simulated endpoints.
type Bug int

// Bugs.
const (
	NoBug          Bug = iota
	EarlyTimeout       // the timer expires after a quarter of its time
	ImpatientRNR       // an RNR NAK is answered immediately
	UnpacedCNP         // every marked packet yields a CNP
	DeafToMarks        // no CNPs
	UnprovokedCNP      // every 16th data packet yields a CNP
	MisdirectedCNP     // CNPs go to the next connection
)

// Fixed latencies of the simulated hosts, in nanoseconds.
const (
	NackLatency     = 1_100
	ReactionLatency = 3_000
	AckLatency      = 500
	CNPLatency      = 700
	packetGap       = 100
	// RNRCode is 10 us.
	RNRCode = 1
)

// Truth is what really happened in the hosts.
type Truth struct {
	Generation []int64 // NACK generation of each sequence NAK, in the order in which they were sent
	Reaction   []int64 // from reception of a sequence NAK to the first retransmitted packet, in order
	Requester  Counts
	Responder  Counts
}

// Counts are the counters of one host.
type Counts struct {
	Tx, Rx, PacketSeqErr, OutOfSequence, ImpliedNak, Duplicates, Timeouts, CNPSent, CNPHandled, Marked, RNRReceived,
	RNRSent int64
}

// Simulate runs a scenario until nothing is left to do and returns the trace at the switch.
func Simulate(sc Scenario) ([]trace.Record, Truth) {
	s := &sim{
		Scenario: sc, rng: rand.New(rand.NewPCG(sc.Seed, 0x7261636574657374)),
		budget: 200_000,
	}
	for i := range sc.Connections {
		s.endpoints = append(s.endpoints, newEndpoint(s, i))
		e := s.endpoints[i]
		s.at(int64(i)*37, e.pump)
	}
	for s.events.Len() > 0 && s.budget > 0 {
		e := heap.Pop(&s.events).(event)
		s.now = e.at
		s.budget--
		e.do()
	}
	return s.records, s.truth
}

type event struct {
	at, order int64
	do        func()
}

type eventHeap []event

func (h eventHeap) Len() int { return len(h) }
func (h eventHeap) Less(i, j int) bool {
	return h[i].at < h[j].at || h[i].at == h[j].at && h[i].order < h[j].order
}
func (h eventHeap) Swap(i, j int) { h[i], h[j] = h[j], h[i] }
func (h *eventHeap) Push(x any)   { *h = append(*h, x.(event)) }
func (h *eventHeap) Pop() any {
	old := *h
	e := old[len(old)-1]
	*h = old[:len(old)-1]
	return e
}

type sim struct {
	Scenario
	rng       *rand.Rand
	now       int64
	events    eventHeap
	scheduled int64
	budget    int // events; a scenario with too much loss is cut off
	endpoints []*endpoint
	records   []trace.Record
	truth     Truth
	// arrivals are the latest arrival per direction (0 from the requester) and leg (0 to the switch).
	arrivals [2][2]int64
	cnp      struct {
		sent bool
		last int64
		data int
	}
}

func (s *sim) at(t int64, do func()) {
	s.scheduled++
	heap.Push(&s.events, event{t, s.scheduled, do})
}

// transmit carries a packet over the switch; direction 0 is from requester to responder.
func (s *sim) transmit(direction int, r trace.Record, receive func(trace.Record)) {
	s.leg(direction, 0, func() {
		r.ID, r.TimeNS = uint64(len(s.records)+1), s.now
		switch {
		case s.rng.Float64() < s.Loss:
			r.Event = trace.EventDrop
		case r.Opcode.IsData() && s.rng.Float64() < s.Mark:
			r.Event = trace.EventECN
		}
		s.records = append(s.records, r)
		if r.Event == trace.EventDrop {
			return
		}
		s.leg(direction, 1, func() { receive(r) })
	})
}

func (s *sim) leg(direction, leg int, do func()) {
	t := s.now + s.DelayMin + s.rng.Int64N(s.DelayMax-s.DelayMin+1)
	t = max(t, s.arrivals[direction][leg]+1)
	s.arrivals[direction][leg] = t
	s.at(t, do)
}

// marked is the responder's notification point: one pacer for the port.
func (s *sim) marked(e *endpoint, ce bool) {
	c := &s.truth.Responder
	if ce {
		c.Marked++
	}
	s.cnp.data++
	send := ce && (!s.cnp.sent || s.CNPInterval == 0 || s.now-s.cnp.last > s.CNPInterval || s.Bug == UnpacedCNP)
	switch {
	case s.Bug == UnprovokedCNP:
		send = send || s.cnp.data%16 == 0
	case s.CNPInterval < 0 || s.Bug == DeafToMarks:
		return
	}
	if !send {
		return
	}
	s.cnp.sent, s.cnp.last = true, s.now
	if s.Bug == MisdirectedCNP {
		e = s.endpoints[(e.index+1)%len(s.endpoints)]
	}
	s.at(s.now+CNPLatency, func() {
		c.CNPSent++
		c.Tx++
		s.transmit(1, e.record(true, packet.CNP, 0), func(trace.Record) {
			s.truth.Requester.Rx++
			s.truth.Requester.CNPHandled++
		})
	})
}
