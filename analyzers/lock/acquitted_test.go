package lock

import (
	"testing"

	"candela.dev/candela/clock"
	"candela.dev/candela/lock"
	"candela.dev/candela/packet/netlock"
	"candela.dev/candela/trace"
)

func shared(tid uint32, priority uint8) netlock.Header {
	return netlock.Header{Op: netlock.Acquire, Mode: netlock.Shared, Lock: 1, Transaction: tid, Priority: priority}
}

// fill keeps a port busy with so many packets of others.
func (s *script) fill(port, frames int) {
	for range frames {
		s.at(0, 0, trace.Left, port, netlock.Header{}, false, func(p *Packet) { p.Lock, p.Size = false, 1500 })
	}
}

// A request for a lock of the server may wait at the server's port, also if another port is busy for longer but began
// later.
func TestARequestThatWaitsForTheServersPortIsNotLost(t *testing.T) {
	s := newScript(t, nil)
	forwarded := header(netlock.Acquire, 5, 1)
	forwarded.Mark = netlock.Owned
	toServer := func(p *Packet) { p.Port = 3 }
	s.fill(3, 8) // for 2.4 us
	s.at(200*ns, 0, trace.Entered, 0, header(netlock.Acquire, 5, 1), false)
	s.at(us, 0, trace.Entered, 1, header(netlock.Acquire, 1, 2), false)
	s.at(500*ns, 0, trace.Left, 1, header(netlock.Acquire, 1, 2), true)
	s.fill(1, 8)
	s.at(100*ns, 0, trace.Entered, 0, header(netlock.Acquire, 5, 1), false) // asks again
	s.at(700*ns, 0, trace.Left, 0, forwarded, false, toServer)
	s.at(100*ns, 0, trace.Left, 0, forwarded, false, toServer)
	s.at(us, 0, trace.Entered, 1, header(netlock.Release, 1, 2), false)
	s.at(us, 0, trace.Left, 0, header(netlock.GrantFromServer, 5, 1), true)
	s.want()
}

// A switch that has lost its registers ignores what the server returns to questions from before.
func TestWhatComesBackAfterARestartUnaskedIsNotLost(t *testing.T) {
	for _, asked := range []bool{false, true} {
		s := newScript(t, func(n *lock.Network) { n.Switches[0].Lease, n.Switches[0].Locks = 0, map[uint32]int{1: 1} })
		parked := shared(2, 0)
		parked.Mark = netlock.BufferOnly
		s.at(us, 0, trace.Entered, 0, header(netlock.Acquire, 1, 1), false)
		s.at(500*ns, 0, trace.Left, 0, header(netlock.Acquire, 1, 1), true)
		s.at(us, 0, trace.Entered, 1, shared(2, 0), false)
		s.at(500*ns, 0, trace.Left, 1, parked, false, func(p *Packet) { p.Port = 3 })
		s.at(us, 0, trace.Entered, 0, header(netlock.Release, 1, 1), false)
		s.Stopping(s.now.Add(us), 0)
		s.Started(s.now.Add(2*us), 0)
		push := netlock.Header{Op: netlock.PushRequest, Lock: 1, Avail: 4, Sent: 1, Index: 0}
		if asked {
			s.at(3*us, 0, trace.Left, 1, push, false, func(p *Packet) { p.Port = 3 })
		}
		back := netlock.Header{Op: netlock.PushBack, Mode: netlock.Shared, Lock: 1, Transaction: 2, Index: 1, Sent: 1,
			Received: 1, Last: true}
		s.at(3*us, 0, trace.Entered, 1, back, true, func(p *Packet) { p.Port = 3 })
		s.at(us, 0, trace.Entered, 2, header(netlock.Acquire, 1, 3), false)
		s.at(500*ns, 0, trace.Left, 2, header(netlock.Acquire, 1, 3), true)
		s.at(us, 0, trace.Entered, 2, header(netlock.Release, 1, 3), false)
		if asked { // then it has the request
			s.want(lock.RuleLost)
		} else {
			s.want()
		}
	}
}

// With priorities a chain may have granted requests first that came later, and whose grants wait at their port.
func TestAChainGrantsHigherPrioritiesFirst(t *testing.T) {
	for _, late := range []bool{false, true} {
		s := newScript(t, func(n *lock.Network) { n.Switches[0].Priorities = 2 })
		s.at(us, 0, trace.Entered, 0, header(netlock.Acquire, 1, 1), false)
		s.at(500*ns, 0, trace.Left, 0, header(netlock.Acquire, 1, 1), true)
		s.at(us, 0, trace.Entered, 1, shared(2, 2), false)
		s.at(us, 0, trace.Entered, 2, shared(3, 1), false)
		s.at(0, 0, trace.Entered, 3, shared(4, 1), false)
		s.at(us, 0, trace.Entered, 0, header(netlock.Release, 1, 1), false)
		s.fill(2, 14) // for 4.3 us
		s.fill(3, 14)
		after := 3*200*ns + 500*ns // the third of the chain
		if late {
			after += 10 * ns
		}
		s.at(after, 0, trace.Left, 1, shared(2, 2), true)
		s.at(2*us, 0, trace.Left, 2, shared(3, 1), true)
		s.at(0, 0, trace.Left, 3, shared(4, 1), true)
		for tid, client := range []int{1, 2, 3} {
			release := shared(uint32(tid+2), 0)
			release.Op = netlock.Release
			s.at(us, 0, trace.Entered, client, release, false)
		}
		if late {
			s.want(lock.RuleDelay)
		} else {
			s.want()
		}
	}
}

// A chain whose next pass is under way serves what a release meanwhile leaves, too: earlier than its own pass would.
func TestAChainThatRunsServesWhatComesNext(t *testing.T) {
	for _, runs := range []bool{true, false} {
		s := newScript(t, func(n *lock.Network) { n.Switches[0].Recirculation = 20 * us })
		release := func(h netlock.Header) netlock.Header {
			h.Op = netlock.Release
			return h
		}
		s.at(us, 0, trace.Entered, 0, header(netlock.Acquire, 1, 1), false)
		s.at(500*ns, 0, trace.Left, 0, header(netlock.Acquire, 1, 1), true)
		s.at(us, 0, trace.Entered, 1, shared(2, 0), false)
		s.at(us, 0, trace.Entered, 0, header(netlock.Release, 1, 1), false)
		s.at(20*us+500*ns, 0, trace.Left, 1, shared(2, 0), true)
		s.at(us, 0, trace.Entered, 1, release(shared(2, 0)), false)
		if !runs { // its next pass, which found nothing, is over
			s.now = s.now.Add(40 * us)
		}
		s.at(us, 0, trace.Entered, 2, header(netlock.Acquire, 1, 3), false)
		s.at(500*ns, 0, trace.Left, 2, header(netlock.Acquire, 1, 3), true)
		s.at(us, 0, trace.Entered, 3, shared(4, 0), false)
		s.at(us, 0, trace.Entered, 2, header(netlock.Release, 1, 3), false)
		s.at(15*us, 0, trace.Left, 3, shared(4, 0), true)
		s.at(us, 0, trace.Entered, 3, release(shared(4, 0)), false)
		if runs {
			s.want()
		} else {
			s.want(lock.RuleBatch)
		}
	}
}

// A grant may wait at its port until its lease has ended and others have been granted the lock.
func TestAGrantThatWaitsForLongerThanItsLeaseIsInOrder(t *testing.T) {
	for _, waits := range []bool{true, false} {
		s := newScript(t, func(n *lock.Network) { n.Switches[0].Lease, n.Switches[0].Poll = 20*us, us })
		if waits {
			s.fill(0, 100) // for 30 us
			s.fill(1, 100)
		}
		s.at(100*ns, 0, trace.Entered, 0, header(netlock.Acquire, 1, 1), false)
		s.at(us, 0, trace.Entered, 1, header(netlock.Acquire, 1, 2), false)
		s.at(21*us+500*ns, 0, trace.Left, 1, header(netlock.Acquire, 1, 2), true)
		s.at(us, 0, trace.Entered, 1, header(netlock.Release, 1, 2), false)
		s.at(us, 0, trace.Left, 0, header(netlock.Acquire, 1, 1), true)
		s.at(us, 0, trace.Entered, 0, header(netlock.Release, 1, 1), false)
		if waits {
			s.want()
		} else {
			s.want(lock.RuleOrder, lock.RuleDelay)
		}
	}
}

// A switch that has asked for what is buffered waits for the answer, also if its queue empties again meanwhile.
func TestASwitchThatHasAskedIsNotBlamedForNotAskingAgain(t *testing.T) {
	for _, repeats := range []bool{true, false} {
		s := newScript(t, func(n *lock.Network) {
			n.Switches[0].Locks, n.Switches[0].PushRetry = map[uint32]int{1: 1}, 200*us
			if !repeats {
				n.Switches[0].PushRetry = 20 * us
			}
		})
		port3 := func(p *Packet) { p.Port = 3 }
		parked := func(tid uint32) netlock.Header {
			h := header(netlock.Acquire, 1, tid)
			h.Mark = netlock.BufferOnly
			return h
		}
		s.at(us, 0, trace.Entered, 0, header(netlock.Acquire, 1, 1), false)
		s.at(500*ns, 0, trace.Left, 0, header(netlock.Acquire, 1, 1), true)
		for tid := range uint32(2) {
			s.at(us, 0, trace.Entered, int(tid)+1, header(netlock.Acquire, 1, 2+tid), false)
			s.at(500*ns, 0, trace.Left, int(tid)+1, parked(2+tid), false, port3)
		}
		s.at(us, 0, trace.Entered, 0, header(netlock.Release, 1, 1), false)
		ask := netlock.Header{Op: netlock.PushRequest, Lock: 1, Avail: 1, Sent: 2}
		s.at(500*ns, 0, trace.Left, 0, ask, false, port3)
		back := header(netlock.PushBack, 1, 2)
		back.Index, back.Sent, back.Received, back.Last = 1, 1, 1, true // to an earlier question
		s.at(us, 0, trace.Entered, 1, back, true, port3)
		s.at(500*ns, 0, trace.Left, 1, header(netlock.PushBack, 1, 2), true)
		s.at(us, 0, trace.Entered, 1, header(netlock.Release, 1, 2), false)
		if repeats {
			s.want()
		} else {
			s.want(lock.RuleLost)
		}
	}
}

// A request is sent to be buffered as the server answers that it owns the lock, and then grants it. The grant may wait
// at its port until the lock has moved to the switch again and the server buffers nothing.
func TestWhatAServerGrantsIsNotLostWithItsBuffer(t *testing.T) {
	for _, grants := range []bool{true, false} {
		s := newScript(t, func(n *lock.Network) { n.Switches[0].Placed, n.Switches[0].Moves = false, true })
		port3 := func(p *Packet) { p.Port = 3 }
		move := func(op netlock.Op, mark netlock.Mark, number uint64) netlock.Header {
			return netlock.Header{Op: op, Lock: 1, Mark: mark, Sent: number, Index: number, Last: op == netlock.PushEmpty}
		}
		parked := shared(2, 0)
		parked.Mark = netlock.BufferOnly
		grant := shared(2, 0)
		grant.Op = netlock.GrantFromServer
		s.at(us, 0, trace.Left, 0, move(netlock.PushRequest, netlock.Owned, 7), false, port3)
		s.at(us, 0, trace.Entered, 1, shared(2, 0), false)
		s.at(100*ns, 0, trace.Entered, 0, move(netlock.PushEmpty, netlock.Owned, 7), true, port3)
		s.at(500*ns, 0, trace.Left, 1, parked, false, port3)
		if grants {
			s.at(us, 0, trace.Entered, 1, grant, true, port3)
		}
		s.at(us, 0, trace.Left, 0, move(netlock.PushRequest, netlock.Failover, 9), false, port3)
		s.at(us, 0, trace.Entered, 0, move(netlock.PushEmpty, netlock.Failover, 9), true, port3)
		s.at(us, 0, trace.Left, 1, grant, true)
		s.at(us, 0, trace.Entered, 1, netlock.Header{Op: netlock.Release, Lock: 1, Transaction: 2}, false)
		if grants {
			s.want()
		} else {
			s.want(lock.RuleOnce)
		}
	}
}

// A lock that nobody wants moves to the switch: what is sent to be buffered counts from then on, also from before
// PUSH_REQ was repeated.
func TestWhatIsBufferedBeforeAPushRequestIsRepeatedCounts(t *testing.T) {
	for _, received := range []uint64{9, 10} {
		s := newScript(t, func(n *lock.Network) { n.Switches[0].Placed, n.Switches[0].Moves = false, true })
		port3 := func(p *Packet) { p.Port = 3 }
		push := netlock.Header{Op: netlock.PushRequest, Lock: 1, Mark: netlock.Failover, Sent: 7, Index: 7}
		parked := shared(2, 0)
		parked.Mark = netlock.BufferOnly
		s.at(us, 0, trace.Left, 0, push, false, port3)
		s.at(us, 0, trace.Entered, 1, shared(2, 0), false)
		s.at(500*ns, 0, trace.Left, 1, parked, false, port3)
		s.at(us, 0, trace.Left, 0, push, false, port3)
		push.Op, push.Last = netlock.PushEmpty, true
		s.at(us, 0, trace.Entered, 0, push, true, port3)
		s.at(us, 0, trace.Left, 0, netlock.Header{Op: netlock.PushRequest, Lock: 1, Avail: 1, Sent: 8, Index: 7}, false,
			port3)
		parked.Transaction = 3
		s.at(us, 0, trace.Entered, 2, shared(3, 0), false)
		s.at(500*ns, 0, trace.Left, 2, parked, false, port3)
		back := shared(2, 0)
		back.Op, back.Sent, back.Received, back.Index, back.Last = netlock.PushBack, 8, received, 8, true
		s.at(us, 0, trace.Entered, 1, back, true, port3)
		back = shared(2, 0)
		back.Op = netlock.PushBack
		s.at(500*ns, 0, trace.Left, 1, back, true)
		s.at(us, 0, trace.Entered, 1, netlock.Header{Op: netlock.Release, Lock: 1, Transaction: 2}, false)
		if received == 9 {
			s.want()
		} else {
			s.want(lock.RuleSingleQueue)
		}
	}
}

// A rejection may wait at its port for longer than a period of quotas.
func TestARejectionThatWaitsForItsPortIsARejection(t *testing.T) {
	for _, waits := range []bool{true, false} {
		s := newScript(t, func(n *lock.Network) {
			f := &n.Switches[0]
			f.Period, f.Reset, f.Quota = 20*us, clock.Time(20*us), map[uint16]int64{1: 1}
		})
		ask := func(tid uint32) netlock.Header {
			h := shared(tid, 0)
			h.Tenant = 1
			return h
		}
		if waits {
			s.fill(0, 300) // for 91 us
		}
		s.at(us, 0, trace.Entered, 1, ask(1), false)
		s.at(500*ns, 0, trace.Left, 1, ask(1), true)
		s.at(us, 0, trace.Entered, 0, ask(2), false)
		for tid := uint32(3); tid < 6; tid++ {
			s.at(20*us, 0, trace.Entered, 1, ask(tid), false)
			s.at(500*ns, 0, trace.Left, 1, ask(tid), true)
		}
		if waits {
			rejected := ask(2)
			rejected.Op = netlock.Reject
			s.at(30*us, 0, trace.Left, 0, rejected, true)
			s.want()
		} else {
			s.want(lock.RuleQuota, lock.RuleLost)
		}
	}
}

// A grant that waits at its port is seen after others that were decided later: its lease ends before theirs, and the
// request that comes next has its slot.
func TestLeasesEndInTheOrderOfDecisions(t *testing.T) {
	for _, ended := range []bool{true, false} {
		s := newScript(t, func(n *lock.Network) {
			f := &n.Switches[0]
			f.Lease, f.Poll, f.Locks = 50*us, us, map[uint32]int{1: 1, 2: 1}
		})
		s.fill(0, 110) // for 33 us
		s.at(100*ns, 0, trace.Entered, 0, header(netlock.Acquire, 1, 1), false)
		s.at(10*us, 0, trace.Entered, 1, header(netlock.Acquire, 2, 2), false)
		s.at(500*ns, 0, trace.Left, 1, header(netlock.Acquire, 2, 2), true)
		s.at(20*us, 0, trace.Left, 0, header(netlock.Acquire, 1, 1), true)
		if ended {
			s.at(21*us, 0, trace.Entered, 2, header(netlock.Acquire, 1, 3), false) // 51.6 us
		} else {
			s.at(19*us, 0, trace.Entered, 2, header(netlock.Acquire, 1, 3), false)
			s.now = s.now.Add(2 * us)
		}
		s.at(500*ns, 0, trace.Left, 2, header(netlock.Acquire, 1, 3), true)
		s.at(us, 0, trace.Entered, 2, header(netlock.Release, 1, 3), false)
		if ended {
			s.want()
		} else {
			s.want(lock.RuleOccupancy)
		}
	}
}

// A copy of a request may wait at the server's port until the request that the server has returned is granted and
// released: then it is buffered, returned and granted, too.
func TestACopyThatWaitsForTheServersPortIsGrantedToo(t *testing.T) {
	for _, buffered := range []bool{true, false} {
		s := newScript(t, func(n *lock.Network) { n.Switches[0].Locks = map[uint32]int{1: 1} })
		port3 := func(p *Packet) { p.Port = 3 }
		parked := header(netlock.Acquire, 1, 2)
		parked.Mark = netlock.BufferOnly
		back := func(index, sent uint64) netlock.Header {
			h := header(netlock.PushBack, 1, 2)
			h.Index, h.Sent, h.Received, h.Last = index, sent, sent, true
			return h
		}
		s.at(us, 0, trace.Entered, 0, header(netlock.Acquire, 1, 1), false)
		s.at(500*ns, 0, trace.Left, 0, header(netlock.Acquire, 1, 1), true)
		s.at(us, 0, trace.Entered, 1, header(netlock.Acquire, 1, 2), false)
		s.at(500*ns, 0, trace.Left, 1, parked, false, port3)
		s.at(us, 0, trace.Entered, 0, header(netlock.Release, 1, 1), false)
		s.at(500*ns, 0, trace.Left, 0, netlock.Header{Op: netlock.PushRequest, Lock: 1, Avail: 1, Sent: 1}, false, port3)
		s.at(us, 0, trace.Entered, 1, header(netlock.Acquire, 1, 2), false) // the copy
		s.fill(3, 20)                                                       // for 6.1 us
		s.at(us, 0, trace.Entered, 1, back(1, 1), true, port3)
		s.at(500*ns, 0, trace.Left, 1, header(netlock.PushBack, 1, 2), true)
		s.at(us, 0, trace.Entered, 1, header(netlock.Release, 1, 2), false)
		s.now = s.now.Add(2 * us)
		s.fill(2, 100) // for 30 us: what was decided before has left there
		if s.now = s.now.Add(1596 * ns); buffered {
			s.at(0, 0, trace.Left, 1, parked, false, port3)
			s.at(500*ns, 0, trace.Left, 0, netlock.Header{Op: netlock.PushRequest, Lock: 1, Avail: 1, Sent: 2, Index: 1},
				false, port3)
			s.at(us, 0, trace.Entered, 1, back(2, 2), true, port3)
		} else {
			s.now = s.now.Add(us)
			s.fill(3, 1) // which was free meanwhile
			s.now = s.now.Add(us)
		}
		s.at(500*ns, 0, trace.Left, 1, header(netlock.PushBack, 1, 2), true)
		s.at(us, 0, trace.Entered, 1, header(netlock.Release, 1, 2), false)
		if buffered {
			s.want()
		} else {
			s.want(lock.RuleOnce)
		}
	}
}

// A switch without latency asks for more at the very instant at which an answer comes.
func TestASwitchAsksAgainAsTheAnswerComes(t *testing.T) {
	for _, asks := range []bool{true, false} {
		s := newScript(t, func(n *lock.Network) {
			n.Switches[0].Locks, n.Switches[0].PushRetry, n.Switches[0].Pipeline = map[uint32]int{1: 1}, 200*us, 0
		})
		port3 := func(p *Packet) { p.Port = 3 }
		s.at(us, 0, trace.Entered, 0, header(netlock.Acquire, 1, 1), false)
		s.at(0, 0, trace.Left, 0, header(netlock.Acquire, 1, 1), true)
		for tid := range uint32(2) {
			parked := header(netlock.Acquire, 1, 2+tid)
			s.at(us, 0, trace.Entered, int(tid)+1, parked, false)
			parked.Mark = netlock.BufferOnly
			s.at(0, 0, trace.Left, int(tid)+1, parked, false, port3)
		}
		s.at(us, 0, trace.Entered, 0, header(netlock.Release, 1, 1), false)
		ask := netlock.Header{Op: netlock.PushRequest, Lock: 1, Avail: 1, Sent: 2}
		s.at(0, 0, trace.Left, 0, ask, false, port3)
		back := header(netlock.PushBack, 1, 2)
		back.Index, back.Sent, back.Received, back.Last = 1, 2, 2, true
		s.at(us, 0, trace.Entered, 1, back, true, port3)
		s.at(0, 0, trace.Left, 1, header(netlock.PushBack, 1, 2), true)
		s.at(us, 0, trace.Entered, 1, header(netlock.Release, 1, 2), false)
		ask.Index = 1
		s.at(0, 0, trace.Left, 0, ask, false, port3)
		s.at(us, 0, trace.Entered, 1, back, true, port3) // again
		if asks {
			s.at(0, 0, trace.Left, 0, ask, false, port3)
			s.want()
		} else {
			s.want(lock.RuleLost)
		}
	}
}

// With priorities the end of a lease begins a pass, for which whoever comes meanwhile waits, also if others still hold
// the lock: when in a poll period it ends is not known.
func TestAPassBeginsAsALeaseEnds(t *testing.T) {
	for _, late := range []bool{false, true} {
		s := newScript(t, func(n *lock.Network) { n.Switches[0].Priorities, n.Switches[0].RecirculationMost = 2, 2*us })
		s.at(us, 0, trace.Entered, 0, shared(1, 2), false)
		s.at(500*ns, 0, trace.Left, 0, shared(1, 2), true)
		waits := shared(2, 2)
		waits.Mode = netlock.Exclusive
		s.at(us, 0, trace.Entered, 1, waits, false)
		s.at(ms, 0, trace.Entered, 2, shared(3, 1), false)
		took := 2 * us // of which the pipeline takes some
		if late {
			took = 3 * us
		}
		s.at(took, 0, trace.Left, 2, shared(3, 1), true)
		s.at(us, 0, trace.Entered, 2, netlock.Header{Op: netlock.Release, Lock: 1, Transaction: 3}, false)
		s.at(90*us, 0, trace.Left, 1, waits, true)
		s.at(us, 0, trace.Entered, 1, netlock.Header{Op: netlock.Release, Lock: 1, Transaction: 2}, false)
		if late {
			s.want(lock.RuleDelay)
		} else {
			s.want()
		}
	}
}

// A chain has granted a request whose grant waits at its port: the grants after it are of the same chain.
func TestAChainGoesOnWhileAGrantWaitsAtItsPort(t *testing.T) {
	for _, late := range []bool{false, true} {
		s := newScript(t, func(n *lock.Network) { n.Switches[0].Locks = map[uint32]int{1: 9} })
		asks := func(after clock.Duration, client int, tid uint32) {
			s.at(after, 0, trace.Entered, client, shared(tid, 0), false)
		}
		granted := func(after clock.Duration, client int, tid uint32) {
			s.at(after, 0, trace.Left, client, shared(tid, 0), true)
		}
		s.at(us, 0, trace.Entered, 0, header(netlock.Acquire, 1, 1), false)
		s.at(500*ns, 0, trace.Left, 0, header(netlock.Acquire, 1, 1), true)
		asks(us, 1, 2)
		asks(us, 2, 3)
		s.at(us, 0, trace.Entered, 0, header(netlock.Release, 1, 1), false)
		asks(450*ns, 3, 4)
		asks(200*ns, 0, 5)
		s.at(0, 0, trace.Left, 2, netlock.Header{}, false, func(p *Packet) { p.Lock, p.Size = false, 2726 }) // for 550 ns
		granted(50*ns, 1, 2)  // the first pass
		granted(400*ns, 3, 4) // the third one
		granted(100*ns, 2, 3) // the second one
		took := 100 * ns
		if late {
			took = 200 * ns
		}
		granted(took, 0, 5) // the fourth one
		for tid := range uint32(4) {
			s.at(us, 0, trace.Entered, int(tid+1)%4, netlock.Header{Op: netlock.Release, Lock: 1, Transaction: tid + 2}, false)
		}
		if late {
			s.want(lock.RuleBatch)
		} else {
			s.want()
		}
	}
}

// A server may still answer a copy that it got while it owned the lock, also when the switch has granted another one,
// too early, and that was released: it is answered once for each time that it was asked.
func TestACopyAtTheServerThatOwnedTheLockIsAnsweredToo(t *testing.T) {
	for _, mark := range []netlock.Mark{netlock.Owned, netlock.BufferOnly, netlock.Unmarked} { // unmarked: there is none
		s := newScript(t, func(n *lock.Network) { n.Switches[0].Placed, n.Switches[0].Moves = false, true })
		own := shared(1, 0)
		own.Mark = mark
		port3 := func(p *Packet) { p.Port = 3 }
		grant := shared(1, 0)
		grant.Op = netlock.GrantFromServer
		s.at(us, 0, trace.Entered, 0, shared(1, 0), false)
		if mark != netlock.Unmarked {
			s.at(500*ns, 0, trace.Left, 0, own, false, port3)
		}
		hands := netlock.Header{Op: netlock.PushRequest, Lock: 1, Mark: netlock.Owned, Sent: 1}
		s.at(us, 0, trace.Left, 0, hands, false, port3)
		hands.Op, hands.Last = netlock.PushEmpty, true
		s.at(us, 0, trace.Entered, 0, hands, true, port3)
		s.at(us, 0, trace.Entered, 0, shared(1, 0), false)
		s.at(500*ns, 0, trace.Left, 0, shared(1, 0), true)
		s.at(us, 0, trace.Entered, 0, netlock.Header{Op: netlock.Release, Lock: 1, Transaction: 1}, false)
		s.at(50*us, 0, trace.Entered, 1, shared(2, 0), false) // the judge looks what it may forget
		s.at(500*ns, 0, trace.Left, 1, shared(2, 0), true)
		s.at(us, 0, trace.Left, 0, grant, true)
		if mark != netlock.Unmarked {
			s.want()
		} else {
			s.want(lock.RuleOnce)
		}
	}
}

// A request that a server was to buffer, and that is taken for lost as it says that it has none, may be one that it
// granted instead: it had been asked for.
func TestAServerMayGrantWhatWasTakenForLost(t *testing.T) {
	for _, grants := range []uint32{1, 2} {
		s := newScript(t, func(n *lock.Network) { n.Switches[0].Placed, n.Switches[0].Moves = false, true })
		parked := shared(1, 0)
		parked.Mark = netlock.BufferOnly
		port3 := func(p *Packet) { p.Port = 3 }
		s.at(us, 0, trace.Entered, 0, shared(1, 0), false)
		s.at(500*ns, 0, trace.Left, 0, parked, false, port3)
		s.at(us, 0, trace.Left, 0, netlock.Header{Op: netlock.PushRequest, Lock: 1, Avail: 1, Sent: 1}, false, port3)
		s.at(us, 0, trace.Entered, 0, netlock.Header{Op: netlock.PushEmpty, Lock: 1, Sent: 1, Last: true}, true, port3)
		for tid := range grants {
			grant := shared(1+tid, 0)
			grant.Op = netlock.GrantFromServer
			s.at(us, 0, trace.Entered, 0, grant, true, port3)
			s.at(us, 0, trace.Left, 0, grant, true)
		}
		if grants == 1 {
			s.want()
		} else {
			s.want(lock.RuleOnce)
		}
	}
}
