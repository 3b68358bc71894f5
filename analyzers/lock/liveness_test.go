package lock

import (
	"testing"

	"candela.dev/candela/clock"
	"candela.dev/candela/lock"
	"candela.dev/candela/packet/netlock"
	"candela.dev/candela/trace"
)

// passes lets time go by.
func (s *script) passes(d clock.Duration) {
	s.at(d, 0, trace.Left, 2, netlock.Header{}, false, func(p *Packet) { p.Lock = false })
}

func marked(h netlock.Header, m netlock.Mark) netlock.Header {
	h.Mark = m
	return h
}

// Who waits is granted the lock when leases have ended, also if the queue is not exactly known.
func TestALeaseEndsAlsoIfTheQueueIsNotKnown(t *testing.T) {
	for _, c := range []struct {
		waits clock.Duration
		rules []string
	}{{500 * us, nil}, {3 * ms, []string{lock.RuleLease}}} {
		s := newScript(t, func(n *lock.Network) { n.Switches[0].Dedup = false })
		first, second := header(netlock.Acquire, 1, 1), header(netlock.Acquire, 1, 2)
		s.at(us, 0, trace.Entered, 0, first, false)
		s.at(500*ns, 0, trace.Left, 0, first, true)
		s.at(us, 0, trace.Entered, 0, first, false) // it may be queued again
		s.at(us, 0, trace.Entered, 1, second, false)
		s.passes(c.waits)
		s.want(c.rules...)
	}
}

// The same if who waits asks again and again.
func TestALeaseEndsAlsoIfWhoWaitsAsksAgain(t *testing.T) {
	for _, again := range []int{4, 16} {
		s := newScript(t, nil)
		first, second := header(netlock.Acquire, 1, 1), header(netlock.Acquire, 1, 2)
		s.at(us, 0, trace.Entered, 0, first, false)
		s.at(500*ns, 0, trace.Left, 0, first, true)
		s.at(us, 0, trace.Entered, 1, marked(header(netlock.Release, 1, 9), netlock.Unmarked), false)
		for range again {
			s.at(200*us, 0, trace.Entered, 1, second, false)
		}
		if again > 4 {
			s.want(lock.RuleLease)
		} else {
			s.want()
		}
	}
}

// moving is a switch that takes lock 1 at once, and gets so far.
func moving(t *testing.T) (s *script, push netlock.Header) {
	s = newScript(t, func(n *lock.Network) {
		d := &n.Switches[0]
		d.Placed, d.Locks, d.Moves, d.Marks, d.PushRetry = false, nil, true, true, 30*us
	})
	push = netlock.Header{Op: netlock.PushRequest, Lock: 1, Sent: 7, Index: 7, Mark: netlock.Failover}
	s.at(us, 0, trace.Left, 0, push, false, toServer)
	s.at(us, 0, trace.Entered, 1, header(netlock.Acquire, 1, 2), false)
	return s, push
}

// A lock that its server has given away is granted.
func TestALockThatWasTakenIsGranted(t *testing.T) {
	for _, grants := range []bool{true, false} {
		s, push := moving(t)
		push.Op, push.Last = netlock.PushEmpty, true
		s.at(us, 0, trace.Entered, 0, push, true, toServer)
		if grants {
			s.at(700*ns, 0, trace.Left, 1, header(netlock.Acquire, 1, 2), true)
			s.want()
		} else {
			s.want(lock.RuleLost)
		}
	}
}

// A lock that moves a second time waits for its server's answer again, however long its earlier leases are over.
func TestALockThatMovesAgainWaitsForItsServer(t *testing.T) {
	s, push := moving(t)
	empty := push
	empty.Op, empty.Last = netlock.PushEmpty, true
	s.at(us, 0, trace.Entered, 0, empty, true, toServer)
	s.at(700*ns, 0, trace.Left, 1, header(netlock.Acquire, 1, 2), true)
	s.at(us, 0, trace.Entered, 1, header(netlock.Release, 1, 2), false)
	hands := push
	hands.Mark = netlock.Owned
	s.at(us, 0, trace.Left, 0, hands, false, toServer)
	empty.Mark = netlock.Owned
	s.at(us, 0, trace.Entered, 0, empty, true, toServer)
	push.Sent, push.Index = 9, 9
	s.at(us, 0, trace.Left, 0, push, false, toServer)
	s.at(us, 0, trace.Entered, 1, header(netlock.Acquire, 1, 3), false)
	for wait := 30 * us; wait < 4*ms; wait *= 2 {
		s.at(wait, 0, trace.Left, 0, push, false, toServer)
	}
	s.want()
}

// A move is asked for until it is answered. It may take longer each time.
func TestAMoveIsAskedForUntilItIsAnswered(t *testing.T) {
	for _, again := range []bool{true, false} {
		s, push := moving(t)
		for wait := 30 * us; again && wait < 500*us; wait *= 2 {
			s.at(wait, 0, trace.Left, 0, push, false, toServer)
		}
		if again {
			s.passes(600 * us)
			s.want()
		} else {
			s.passes(600 * us)
			s.want(lock.RuleLost)
		}
	}
}

// The same of a lock that the server gets.
func TestAServerIsToldThatItOwnsALockUntilItAnswers(t *testing.T) {
	for _, answered := range []bool{true, false} {
		s, push := moving(t)
		s.passes(ms)
		empty := push
		empty.Op, empty.Last = netlock.PushEmpty, true
		s.at(us, 0, trace.Entered, 0, empty, true, toServer)
		s.at(700*ns, 0, trace.Left, 1, header(netlock.Acquire, 1, 2), true)
		s.at(us, 0, trace.Entered, 1, header(netlock.Release, 1, 2), false)
		push.Mark = netlock.Owned
		s.at(us, 0, trace.Left, 0, push, false, toServer)
		s.at(us, 0, trace.Entered, 0, header(netlock.Acquire, 1, 3), false)
		s.at(500*ns, 0, trace.Left, 0, marked(header(netlock.Acquire, 1, 3), netlock.BufferOnly), false, toServer)
		if answered {
			empty.Mark = netlock.Owned
			s.at(us, 0, trace.Entered, 0, empty, true, toServer)
		}
		s.passes(600 * us)
		if answered {
			s.want()
		} else {
			s.want(lock.RuleLost)
		}
	}
}

// A server that gets all requests grants them all. Otherwise the request may never have come there, or the grant waits
// at the port of the database.
func TestAServerGrantsAllThatItGets(t *testing.T) {
	for name, c := range map[string]struct {
		lost, oneTrip, busy bool
		rules               []string
	}{
		"all come":                  {rules: []string{lock.RuleLost}},
		"some are lost":             {lost: true},
		"one round trip":            {oneTrip: true, rules: []string{lock.RuleLost}},
		"one, the database's waits": {oneTrip: true, busy: true},
	} {
		t.Run(name, func(t *testing.T) {
			s := newScript(t, func(n *lock.Network) {
				n.Switches[0].Locks, n.Switches[0].OneRTT, n.Lossless = nil, c.oneTrip, !c.lost
			})
			for tid := range uint32(2) {
				asked := header(netlock.Acquire, 1, tid)
				s.at(us, 0, trace.Entered, int(tid), asked, false)
				s.at(500*ns, 0, trace.Left, int(tid), marked(asked, netlock.Owned), false, toServer)
			}
			granted := header(netlock.GrantFromServer, 1, 1)
			if s.at(us, 0, trace.Entered, 1, granted, true, toServer); c.busy {
				s.fill(2, 700) // for 210 us, which is longer than the test
			}
			s.at(500*ns, 0, trace.Left, 1, granted, true)
			s.want(c.rules...)
		})
	}
}

// Once a server has said what it got, the switch knows what was lost: it buffers no longer.
func TestASwitchThatKnowsWhatWasLostBuffersNoLonger(t *testing.T) {
	for _, buffers := range []bool{true, false} {
		s := newScript(t, func(n *lock.Network) { n.Switches[0].Locks = map[uint32]int{1: 1} })
		first, second, third := header(netlock.Acquire, 1, 1), header(netlock.Acquire, 1, 2), header(netlock.Acquire, 1, 3)
		s.at(us, 0, trace.Entered, 0, first, false)
		s.at(500*ns, 0, trace.Left, 0, first, true)
		s.at(us, 0, trace.Entered, 1, second, false)
		s.at(500*ns, 0, trace.Left, 1, marked(second, netlock.BufferOnly), false, toServer) // and is lost
		s.at(us, 0, trace.Entered, 0, header(netlock.Release, 1, 1), false)
		push := netlock.Header{Op: netlock.PushRequest, Lock: 1, Avail: 1, Sent: 1}
		s.at(500*ns, 0, trace.Left, 0, push, false, toServer)
		push.Op, push.Last, push.Avail = netlock.PushEmpty, true, 0
		s.at(us, 0, trace.Entered, 0, push, true, toServer)
		s.at(us, 0, trace.Entered, 0, third, false)
		if buffers {
			s.at(500*ns, 0, trace.Left, 0, marked(third, netlock.BufferOnly), false, toServer)
			s.want(lock.RuleOccupancy, lock.RuleLost) // nor has it asked for that
		} else {
			s.at(500*ns, 0, trace.Left, 0, third, true)
			s.want()
		}
	}
}

// With priorities a chain grants all shared requests that lead, whether or not those before them have ended.
func TestAChainOfPrioritiesDoesNotWaitForHolders(t *testing.T) {
	for _, stops := range []bool{true, false} {
		s := newScript(t, func(n *lock.Network) { n.Switches[0].Priorities = 2 })
		s.at(us, 0, trace.Entered, 0, header(netlock.Acquire, 1, 1), false)
		s.at(500*ns, 0, trace.Left, 0, header(netlock.Acquire, 1, 1), true)
		for tid := uint32(2); tid < 5; tid++ {
			s.at(us, 0, trace.Entered, 1, shared(tid, 1), false)
		}
		s.at(us, 0, trace.Entered, 0, header(netlock.Release, 1, 1), false)
		s.at(700*ns, 0, trace.Left, 1, shared(2, 1), true)
		s.at(200*ns, 0, trace.Left, 1, shared(3, 1), true)
		if !stops {
			s.at(200*ns, 0, trace.Left, 1, shared(4, 1), true)
			s.want()
			continue
		}
		release := shared(2, 1)
		release.Op = netlock.Release
		s.at(9*us, 0, trace.Entered, 1, release, false)
		s.at(700*ns, 0, trace.Left, 1, shared(4, 1), true)
		s.want(lock.RuleBatch)
	}
}

// What a switch loses as it stops it may have kept waiting before.
func TestWhoWaitsIsJudgedBeforeASwitchStops(t *testing.T) {
	for _, c := range []struct {
		granted bool
		waits   clock.Duration
		rules   []string
	}{{true, 50 * us, nil}, {false, 500 * ns, nil}, {false, 50 * us, []string{lock.RuleLost}}} {
		s := newScript(t, nil)
		s.at(us, 0, trace.Entered, 0, header(netlock.Acquire, 1, 1), false)
		s.at(500*ns, 0, trace.Left, 0, header(netlock.Acquire, 1, 1), true)
		s.at(us, 0, trace.Entered, 1, header(netlock.Acquire, 1, 2), false)
		s.at(us, 0, trace.Entered, 0, header(netlock.Release, 1, 1), false)
		if c.granted {
			s.at(700*ns, 0, trace.Left, 1, header(netlock.Acquire, 1, 2), true)
		}
		s.passes(c.waits)
		s.Stopping(s.now, 0)
		s.want(c.rules...)
	}
}

// A switch that has taken over grants what waits in it once its server has given the lock away and leases are over.
func TestWhoWaitsIsGrantedAfterATakeOver(t *testing.T) {
	for _, c := range []struct {
		answers, grants bool
		waits           clock.Duration
		rules           []string
	}{
		{true, false, 500 * us, nil}, {true, true, 1200 * us, nil}, {false, false, 5 * ms, nil},
		{true, false, 5 * ms, []string{lock.RuleLost}},
	} {
		s := newScript(t, nil)
		s.now = s.now.Add(ms)
		s.Stopping(s.now, 0)
		s.now = s.now.Add(us)
		s.TakesOver(s.now, 0)
		s.Started(s.now, 0)
		push := netlock.Header{Op: netlock.PushRequest, Lock: 1, Sent: 7, Index: 7, Mark: netlock.Failover}
		s.at(us, 0, trace.Entered, 1, header(netlock.Acquire, 1, 2), false)
		s.at(500*ns, 0, trace.Left, 0, push, false, toServer)
		if c.answers {
			push.Op, push.Last = netlock.PushEmpty, true
			s.at(us, 0, trace.Entered, 0, push, true, toServer)
		}
		s.passes(c.waits)
		if c.grants {
			s.at(us, 0, trace.Left, 1, header(netlock.Acquire, 1, 2), true)
		}
		s.want(c.rules...)
	}
}
