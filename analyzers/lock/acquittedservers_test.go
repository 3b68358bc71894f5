package lock

import (
	"testing"

	"candela.dev/candela/clock"
	"candela.dev/candela/lock"
	"candela.dev/candela/packet/netlock"
	"candela.dev/candela/trace"
)

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
		s.at(us, 0, trace.Left, 1, netlock.Header{Op: netlock.Release, Lock: 1, Transaction: 2}, false, port3)
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
		asked := shared(1, 0)
		asked.Timestamp = 7
		parked := asked
		parked.Mark = netlock.BufferOnly
		port3 := func(p *Packet) { p.Port = 3 }
		s.at(us, 0, trace.Entered, 0, asked, false)
		s.at(500*ns, 0, trace.Left, 0, parked, false, port3)
		s.at(us, 0, trace.Left, 0, netlock.Header{Op: netlock.PushRequest, Lock: 1, Avail: 1, Sent: 1}, false, port3)
		s.at(us, 0, trace.Entered, 0, netlock.Header{Op: netlock.PushEmpty, Lock: 1, Sent: 1, Last: true}, true, port3)
		for tid := range grants {
			grant := shared(1+tid, 0)
			grant.Op, grant.Timestamp = netlock.GrantFromServer, 7
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
		push := netlock.Header{Op: netlock.PushRequest, Lock: 1, Avail: 1, Sent: 1, Index: 0}
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

// taken begins a script of a switch that takes lock 1 from its server, which gives it at once.
func taken(t *testing.T, lease clock.Duration) *script {
	s := newScript(t, func(n *lock.Network) {
		f := &n.Switches[0]
		f.Placed, f.Moves, f.Marks, f.Pipeline, f.Lease = false, true, true, 0, lease
	})
	port3 := func(p *Packet) { p.Port = 3 }
	s.at(us, 0, trace.Left, 0, netlock.Header{Op: netlock.PushRequest, Lock: 1, Mark: netlock.Failover, Sent: 5, Index: 5},
		false, port3)
	s.at(us, 0, trace.Entered, 0, header(netlock.Acquire, 1, 1), false)
	s.at(us, 0, trace.Entered, 1, header(netlock.Acquire, 1, 2), false)
	s.at(us, 0, trace.Entered, 0, netlock.Header{Op: netlock.PushEmpty, Lock: 1, Mark: netlock.Failover, Sent: 5, Index: 5,
		Last: true}, true, port3)
	return s
}

// A switch without latency grants at the very instant at which it gets the lock; whoever has it may keep it if there
// are no leases.
func TestWhoeverHoldsALockWithoutLeasesMayKeepIt(t *testing.T) {
	for _, granted := range []bool{true, false} {
		s := taken(t, 0)
		if granted {
			s.at(0, 0, trace.Left, 0, header(netlock.Acquire, 1, 1), true)
			s.want()
		} else {
			s.want(lock.RuleLost)
		}
	}
}

// A switch ignores what the server returns while it gives the lock away, which it may tell only later, as its port is
// busy.
func TestASwitchIgnoresWhatComesBackAsItGivesALockAway(t *testing.T) {
	for _, busy := range []bool{true, false} {
		s := taken(t, 10*us)
		port3 := func(p *Packet) { p.Port = 3 }
		for tid := range uint32(2) {
			s.at(us, 0, trace.Left, int(tid), header(netlock.Acquire, 1, tid+1), true)
			s.at(us, 0, trace.Entered, int(tid), header(netlock.Release, 1, tid+1), false)
		}
		parked := header(netlock.Acquire, 1, 3)
		parked.Mark = netlock.BufferOnly
		s.at(us, 0, trace.Entered, 2, header(netlock.Acquire, 1, 3), false)
		s.at(us, 0, trace.Left, 2, parked, false, port3)
		s.at(us, 0, trace.Left, 2, netlock.Header{Op: netlock.PushRequest, Lock: 1, Avail: 1, Sent: 6, Index: 5}, false,
			port3)
		if busy {
			s.fill(3, 2000) // for 600 us
		}
		back := header(netlock.PushBack, 1, 3)
		back.Sent, back.Received, back.Index, back.Last = 6, 6, 6, true
		s.at(us, 0, trace.Entered, 2, back, true, port3)
		s.at(300*us, 0, trace.Entered, 0, header(netlock.Acquire, 9, 9), false)
		if busy {
			s.want()
		} else {
			s.want(lock.RuleLost)
		}
	}
}

// A switch that has been answered in part asks anew once its queue is empty: until then it does not know that something
// was lost, and requests are buffered.
func TestASwitchThatWasAnsweredInPartDoesNotKnowWhatIsLost(t *testing.T) {
	for _, late := range []bool{true, false} {
		s := newScript(t, func(n *lock.Network) { n.Switches[0].PushRetry = 20 * us })
		port3 := func(p *Packet) { p.Port = 3 }
		parks := func(client int, tid uint32) {
			h := shared(tid, 0)
			h.Mark = netlock.BufferOnly
			s.at(us, 0, trace.Entered, client, shared(tid, 0), false)
			s.at(500*ns, 0, trace.Left, client, h, false, port3)
		}
		for tid := range uint32(4) {
			h := header(netlock.Acquire, 1, 10+tid)
			s.at(us, 0, trace.Entered, 0, h, false)
			if tid == 0 {
				s.at(500*ns, 0, trace.Left, 0, h, true)
			}
		}
		for tid := range uint32(3) {
			parks(int(tid)+1, 1+tid)
		}
		for tid := range uint32(4) {
			s.at(us, 0, trace.Entered, 0, header(netlock.Release, 1, 10+tid), false)
			if tid < 3 {
				s.at(700*ns, 0, trace.Left, 0, header(netlock.Acquire, 1, 11+tid), true)
			}
		}
		s.at(500*ns, 0, trace.Left, 0, netlock.Header{Op: netlock.PushRequest, Lock: 1, Avail: 4, Sent: 3}, false, port3)
		back := func(after clock.Duration, index uint64) {
			h := shared(uint32(index), 0)
			h.Op, h.Sent, h.Received, h.Index, h.Last = netlock.PushBack, 3, 2, index, index == 2
			s.at(after, 0, trace.Entered, int(index), h, true, port3)
			h = shared(uint32(index), 0)
			h.Op = netlock.PushBack
			s.at(500*ns, 0, trace.Left, int(index), h, true)
		}
		back(5*us, 1)
		if late {
			back(20*us, 2)
		} else {
			back(us, 2)
		}
		parks(0, 20)
		if late {
			s.want()
		} else {
			s.want(lock.RuleOccupancy)
		}
	}
}

// What a server says that it has received may include what was sent after the question: the switch then does not know
// that something was lost.
func TestWhatIsSentAfterTheQuestionHidesWhatWasLost(t *testing.T) {
	for _, hides := range []bool{true, false} {
		s := newScript(t, func(n *lock.Network) {
			n.Switches[0].Locks, n.Switches[0].PushRetry = map[uint32]int{1: 2}, 200*us
		})
		port3 := func(p *Packet) { p.Port = 3 }
		parks := func(client int, tid uint32) {
			h := shared(tid, 0)
			h.Mark = netlock.BufferOnly
			s.at(us, 0, trace.Entered, client, shared(tid, 0), false)
			s.at(500*ns, 0, trace.Left, client, h, false, port3)
		}
		s.at(us, 0, trace.Entered, 0, header(netlock.Acquire, 1, 10), false)
		s.at(500*ns, 0, trace.Left, 0, header(netlock.Acquire, 1, 10), true)
		s.at(us, 0, trace.Entered, 0, header(netlock.Acquire, 1, 11), false)
		parks(1, 1) // and is lost
		parks(2, 2)
		s.at(us, 0, trace.Entered, 0, header(netlock.Release, 1, 10), false)
		s.at(700*ns, 0, trace.Left, 0, header(netlock.Acquire, 1, 11), true)
		s.at(us, 0, trace.Entered, 0, header(netlock.Release, 1, 11), false)
		s.at(500*ns, 0, trace.Left, 0, netlock.Header{Op: netlock.PushRequest, Lock: 1, Avail: 2, Sent: 2}, false, port3)
		last := uint64(1)
		if hides {
			parks(0, 3)
			last = 2
		}
		for index := uint64(1); index <= last; index++ {
			h := shared(uint32(index)+1, 0)
			client := int(index+1) % 3
			h.Op, h.Sent, h.Received, h.Index, h.Last = netlock.PushBack, 2, last, index, index == last
			s.at(us, 0, trace.Entered, client, h, true, port3)
			s.at(500*ns, 0, trace.Left, client, h, true)
			s.at(us, 0, trace.Entered, client, netlock.Header{Op: netlock.Release, Lock: 1, Transaction: uint32(index) + 1},
				false)
		}
		parks(1, 20)
		s.at(us, 0, trace.Left, 0, netlock.Header{Op: netlock.PushRequest, Lock: 1, Avail: 2, Sent: 3 + last, Index: last},
			false, port3)
		if hides {
			s.want()
		} else {
			s.want(lock.RuleOccupancy)
		}
	}
}

// A copy that the switch drops does not tell since when the first has waited at the server.
func TestACopyThatIsDroppedIsNotTheOneThatCounts(t *testing.T) {
	for _, c := range []struct {
		what  string
		after clock.Duration // of the second grant
		rules []string
	}{
		{"since the copy", 50 * us, []string{lock.RuleExclusion}},
		{"since the first", 300 * us, nil},
	} {
		t.Run(c.what, func(t *testing.T) {
			s := newScript(t, nil)
			s.ask(0, 1, exclusively)
			s.ask(1, 2, exclusively)
			s.at(800*us, 0, trace.Entered, 0, header(netlock.Acquire, 2, 1), false)
			s.at(0, 0, trace.Dropped, 0, header(netlock.Acquire, 2, 1), false)
			s.serve(10*us, 0, 1, exclusively)
			s.serve(c.after, 1, 2, exclusively)
			s.want(c.rules...)
		})
	}
}

// A server that owns a lock that moves may have a copy that it owns and others that it buffers. It grants each.
func TestCopiesThatAreBufferedAsALockMovesMayBeGrantedLater(t *testing.T) {
	s := newScript(t, func(n *lock.Network) {
		f := &n.Switches[0]
		f.Placed, f.Moves, f.Marks, n.ServersDedup = false, true, true, true
	})
	parked := marked(header(netlock.Acquire, 1, 1), netlock.BufferOnly)
	move := netlock.Header{Op: netlock.PushRequest, Lock: 1, Sent: 5, Index: 5, Mark: netlock.Failover}
	s.at(us, 0, trace.Left, 0, move, false, toServer)
	for range 2 {
		s.at(us, 0, trace.Entered, 1, header(netlock.Acquire, 1, 1), false)
		s.at(500*ns, 0, trace.Left, 1, parked, false, toServer)
	}
	grant := func() {
		s.at(us, 0, trace.Entered, 1, header(netlock.GrantFromServer, 1, 1), true, toServer)
		s.at(500*ns, 0, trace.Left, 1, header(netlock.GrantFromServer, 1, 1), true)
		s.at(us, 0, trace.Entered, 1, header(netlock.Release, 1, 1), false)
		s.at(500*ns, 0, trace.Left, 1, header(netlock.Release, 1, 1), false, toServer)
	}
	grant()
	move.Op, move.Last = netlock.PushEmpty, true
	s.at(us, 0, trace.Entered, 0, move, true, toServer)
	move = netlock.Header{Op: netlock.PushRequest, Lock: 1, Sent: 7, Index: 5, Mark: netlock.Owned}
	s.at(us, 0, trace.Left, 0, move, false, toServer)
	move.Op, move.Last = netlock.PushEmpty, true
	s.at(us, 0, trace.Entered, 0, move, true, toServer)
	grant()
	s.want()
}
