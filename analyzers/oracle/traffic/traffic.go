// Package traffic makes traces of one reliable connection from two random endpoints that follow the standard, with a
// switch between them that loses frames. The endpoints were written from IBTA volume 1, chapter 9, for this package
// alone: they share nothing with the analyzers or with the nondeterministic endpoints of package oracle, which must
// accept all that they do.
package traffic

import (
	"container/heap"
	"math/rand/v2"

	"candela.dev/candela/analyzers/oracle"
	"candela.dev/candela/packet"
	"candela.dev/candela/trace"
)

// Scenario says what a connection does. Times are in nanoseconds, shares between 0 and 1.
type Scenario struct {
	Seed     uint64
	Messages int
	Packets  int // of the longest message
	Window   int // outstanding PSNs, at least one message
	Reads    int // outstanding READs and atomics
	Verbs    Verbs
	Odd      float64 // share of messages whose last packet is not full, or that have no bytes
	TwoWay   bool    // both hosts send requests

	Loss float64 // of frames at the switch, either direction
	// Late and Twice are the shares of frames that the switch delays, so that others overtake them, and that it
	// duplicates.
	Late, Twice float64
	// Held is the share of frames that the switch delays by up to HeldMax, so that others overtake them, Doubled the share
	// of those that it also duplicates.
	Held, Doubled float64
	HeldMax       int64
	// NotReady is the share of requests answered with an RNR NAK, Refused that of requests refused for good.
	NotReady, Refused float64

	// from a host to the switch or back, drawn for each frame; frames of a direction stay in order
	DelayMin, DelayMax int64
	Transit            int64 // through the switch
	ProcessMax         int64 // the longest that a host takes to answer
	TimeoutNS          int64
	Retry, RNRRetry    int
	StartNS            int64 // of the first request
	LongWaits          bool  // RNR NAKs ask for anything up to 10 ms
	Credits            bool  // ACKs grant credits: never fewer than the window needs
	MSN                int   // messages that the responder had completed before the first request
}

// Verbs is a set of operations.
type Verbs uint8

// Operations.
const (
	Send Verbs = 1 << iota
	Write
	Read
	Atomic
	All = Send | Write | Read | Atomic
)

// Frame is one frame with the times at which taps along its path see it.
type Frame struct {
	oracle.Packet
	Sent    int64 // by its host
	Switch  int64 // reaches the switch
	Passed  int64 // leaves the switch
	Arrived int64
	Event   trace.EventType // what the switch did
	Copy    bool            // the switch made it
	// Copied is when a second copy leaves the switch, CopyArrived when it arrives; 0: there is none.
	Copied, CopyArrived int64
}

// Run simulates a connection until nothing is left to do. The frames are in the order in which they reach the switch.
// settled says that every message was completed, or that the connection failed as the standard allows.
func Run(sc Scenario) (frames []Frame, settled bool) {
	n := run(sc)
	return n.frames, n.budget > 0
}

func run(sc Scenario) *network {
	n := &network{
		Scenario: sc, rng: rand.New(rand.NewPCG(sc.Seed, 0x74726166666963)), now: sc.StartNS,
		budget: 400*sc.Messages*sc.Packets + 4000,
	}
	n.connect(false)
	if sc.TwoWay {
		n.connect(true)
	}
	for n.events.Len() > 0 && n.budget > 0 {
		e := heap.Pop(&n.events).(event)
		n.now = e.at
		n.budget--
		e.do()
	}
	return n
}

// connect starts the requests of one host: of the second one if other.
func (n *network) connect(other bool) {
	s := &stream{network: n, other: other}
	s.requester, s.responder = newRequester(s), newResponder(s)
	n.at(n.now, s.requester.pump)
}

// failed reports whether the connection ended in an error, which an unlucky one may.
func (n *network) failed() bool { return n.dead[0] || n.dead[1] }

// A stream is the requests of one host with their answers.
type stream struct {
	*network
	other     bool // of the second host
	requester *requester
	responder *responder
}

// host returns the number of the host that sends frames of a direction.
func (s *stream) host(back bool) int {
	if back != s.other {
		return 1
	}
	return 0
}

type event struct {
	at    int64
	order int
	do    func()
}

type events []event

func (h events) Len() int { return len(h) }
func (h events) Less(i, j int) bool {
	return h[i].at < h[j].at || h[i].at == h[j].at && h[i].order < h[j].order
}
func (h events) Swap(i, j int) { h[i], h[j] = h[j], h[i] }
func (h *events) Push(x any)   { *h = append(*h, x.(event)) }
func (h *events) Pop() any {
	old := *h
	e := old[len(old)-1]
	*h = old[:len(old)-1]
	return e
}

// network is the simulation: clock, links and the switch.
type network struct {
	Scenario
	rng    *rand.Rand
	now    int64
	events events
	order  int
	budget int
	frames []Frame
	last   [2][2]int64 // latest instant per direction and leg
	dead   [2]bool     // the queue pair of the host is in error
}

func (n *network) at(t int64, do func()) {
	n.order++
	heap.Push(&n.events, event{max(t, n.now), n.order, do})
}

func (n *network) chance(p float64) bool { return n.rng.Float64() < p }

// upTo returns a random duration from 0 to d.
func (n *network) upTo(d int64) int64 {
	if d <= 0 {
		return 0
	}
	return n.rng.Int64N(d + 1)
}

// transmit carries p over the switch to the other host.
func (n *stream) transmit(p oracle.Packet, arrive func(oracle.Packet)) {
	back, direction := p.Back, n.host(p.Back)
	p.Back = direction == 1
	sent := n.now
	at := n.leg(direction, 0, sent)
	n.at(at, func() {
		p.TimeNS, p.Seen, p.Lost = n.now, trace.Sent|trace.Passed, n.chance(n.Loss)
		f := Frame{Packet: p, Sent: sent, Switch: n.now, Passed: n.now + n.Transit}
		if p.Lost {
			f.Event = trace.EventDrop
			n.frames = append(n.frames, f)
			return
		}
		if n.Held > 0 || n.Doubled > 0 {
			n.disturb(&f, direction, func() { p.Back = back; arrive(p) })
			return
		}
		if n.Late > 0 && n.chance(n.Late) {
			f.Event = trace.EventDelay
			f.Passed += 1 + n.upTo(4*(n.DelayMax+n.ProcessMax))
			f.Arrived = f.Passed + n.DelayMin // nothing that it overtakes or that overtakes it waits
		} else {
			f.Arrived = n.leg(direction, 1, f.Passed)
		}
		duplicated := f.Event == trace.EventNone && n.Twice > 0 && n.chance(n.Twice)
		if duplicated {
			f.Event = trace.EventDuplicate
		}
		n.frames = append(n.frames, f)
		p.Back = back
		n.at(f.Arrived, func() { arrive(p) })
		if duplicated {
			f.Copy, f.Passed = true, f.Passed+1
			f.Arrived = n.leg(direction, 1, f.Passed)
			n.frames = append(n.frames, f)
			n.at(f.Arrived, func() { arrive(p) })
		}
	})
}

// disturb passes a frame on that the switch may hold back or double.
func (n *network) disturb(f *Frame, direction int, arrive func()) {
	if n.chance(n.Held) {
		f.Passed += n.upTo(n.HeldMax)
	}
	if n.chance(n.Doubled) {
		f.Copied = f.Passed + n.upTo(n.HeldMax)
	}
	k := len(n.frames)
	n.frames = append(n.frames, *f)
	pass := func(arrived *int64) {
		*arrived = n.leg(direction, 1, n.now) // what leaves the switch stays in order
		n.at(*arrived, arrive)
	}
	n.at(f.Passed, func() { pass(&n.frames[k].Arrived) })
	if f.Copied > 0 {
		n.at(f.Copied, func() { pass(&n.frames[k].CopyArrived) })
	}
}

func (n *network) leg(direction, leg int, from int64) int64 {
	t := from + n.DelayMin + n.upTo(n.DelayMax-n.DelayMin)
	t = max(t, n.last[direction][leg]+1)
	n.last[direction][leg] = t
	return t
}

var starts = map[Verbs][]packet.Opcode{
	Send:   {packet.SendOnly, packet.SendOnlyImm, packet.SendOnlyInv},
	Write:  {packet.WriteOnly, packet.WriteOnlyImm},
	Atomic: {packet.FetchAdd, packet.CmpSwap},
}
