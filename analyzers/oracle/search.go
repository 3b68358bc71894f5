package oracle

import (
	"candela.dev/candela/packet"
	"candela.dev/candela/trace"
)

// event is a frame as one endpoint experiences it.
type event struct {
	*Packet
	index int // in Trace.Packets
}

// experience is what a tap shows of one endpoint: the frames that passed towards it and those that it sent, each in
// FIFO order.
type experience struct {
	view     View
	in, out  []event
	contents contents
	budget   int // unseen frames
	// timed: times matter. Without bounds and waits every order that the taps allow is possible, with fewer states.
	timed   bool
	aliveNS int64 // what arrived until then was dealt with at the end; 0: nothing need be
}

func newExperience(t *Trace, e Endpoint, budget int) experience {
	x := experience{view: t.View, contents: newContents(t.Packets), budget: budget, aliveNS: t.aliveNS}
	x.timed = t.View.TimeoutNS > 0 || t.View.HostDelayNS > 0 || budget > 0 // an unseen RNR NAK asks for a wait, too
	for i := range t.Packets {
		p := &t.Packets[i]
		x.timed = x.timed || p.Op == packet.Acknowledge && p.Syndrome.IsRNR()
		if p.Op == packet.CNP {
			continue
		}
		mine := p.Back == (e == Responder)
		switch {
		case mine && p.Seen&trace.Sent != 0:
			x.out = append(x.out, event{p, i})
		case !mine && p.Seen&trace.Passed != 0 && !p.Lost:
			x.in = append(x.in, event{p, i})
		}
	}
	return x
}

// mayReceive reports whether the endpoint can have received frame i when it sent its frame j.
func (x *experience) mayReceive(i, j int16) bool {
	return int(j) == len(x.out) || x.in[i].index < x.out[j].index
}

// sendTime returns the earliest time at which the endpoint can have sent frame j if it was busy before t. The second
// result is false if that is later than the tap saw it.
func (x *experience) sendTime(i, j int16, t int64) (int64, bool) {
	if !x.timed {
		return 0, true
	}
	seen := x.out[j].TimeNS
	if h := x.view.HostDelayNS; h > 0 {
		t = max(t, seen-h)
		if int(i) < len(x.in) && x.latest(i) < t {
			return t, false // by then it has received the next frame
		}
	}
	return t, t <= seen
}

// receiveTime is sendTime for a frame towards the endpoint.
func (x *experience) receiveTime(i int16, t int64) (int64, bool) {
	if !x.timed {
		return 0, true
	}
	passed := x.in[i].TimeNS
	t = max(t, passed)
	return t, x.view.HostDelayNS == 0 || t <= x.latest(i)
}

// latest returns when the endpoint has certainly received frame i, if the delay is bounded.
func (x *experience) latest(i int16) int64 {
	return x.in[i].TimeNS + x.view.HostDelayNS + x.view.ClockNS
}

// machine is a nondeterministic endpoint with comparable states.
type machine[S comparable] interface {
	initial(add func(S))
	// steps adds every state that one frame, seen or unseen, sent or received, leads to.
	steps(s S, add func(S))
	// progress returns how many frames were received and sent.
	progress(s S) (i, j int)
	// settled reports whether a closed trace may end here, all frames sent and received.
	settled(s S) bool
	// failed reports whether the queue pair is in error, or will be if nothing more arrives.
	failed(s S, atRest bool) bool
}

type decider interface {
	run() bool
	stuckAt() int
	visited() int
	// fail makes the search look for an end in error.
	fail()
}

// search visits every reachable state of a machine.
type search[S comparable] struct {
	x        *experience
	m        machine[S]
	seen     map[S]struct{}
	pending  []S
	furthest int
	inError  bool // the end must be in error
}

func newSearch(t *Trace, e Endpoint, budget int) decider {
	x := newExperience(t, e, budget)
	if e == Requester {
		return &search[requesterState]{x: &x, m: &requester{&x}, seen: map[requesterState]struct{}{}}
	}
	return &search[responderState]{x: &x, m: newResponder(&x), seen: map[responderState]struct{}{}}
}

func (s *search[S]) add(state S) {
	if _, ok := s.seen[state]; ok {
		return
	}
	s.seen[state] = struct{}{}
	s.pending = append(s.pending, state)
}

// run reports whether some path of states explains the whole experience.
func (s *search[S]) run() bool {
	s.m.initial(s.add)
	for len(s.pending) > 0 && len(s.seen) < maxStates {
		state := s.pending[len(s.pending)-1]
		s.pending = s.pending[:len(s.pending)-1]
		i, j := s.m.progress(state)
		s.furthest = max(s.furthest, j)
		if j == len(s.x.out) && s.ends(state, i == len(s.x.in)) {
			return true
		}
		s.m.steps(state, s.add)
	}
	return len(s.seen) >= maxStates // given up: nothing is proven
}

// ends reports whether the trace may end in a state.
func (s *search[S]) ends(state S, allReceived bool) bool {
	switch {
	case s.inError:
		return s.m.failed(state, allReceived)
	case s.x.view.Closed:
		return allReceived && s.m.settled(state)
	case s.x.aliveNS > 0:
		i, _ := s.m.progress(state)
		return (allReceived || s.x.latest(int16(i)) >= s.x.aliveNS) && s.m.settled(state)
	default:
		return true
	}
}

// maxStates bounds a search; small traces need a few hundred.
const maxStates = 1 << 21

func (s *search[S]) fail() { s.inError = true }

func (s *search[S]) visited() int { return len(s.seen) }

func (s *search[S]) stuckAt() int {
	if s.furthest < len(s.x.out) {
		return s.x.out[s.furthest].index
	}
	return -1
}
