package lock

import (
	"testing"

	"candela.dev/candela/clock"
	"candela.dev/candela/lock"
	"candela.dev/candela/packet/netlock"
	"candela.dev/candela/trace"
)

// A lease that has ended begins anew if its holder, who has asked again, is granted the lock again: what that asks
// until the end of the new lease may be dropped as what is already in the queue.
func TestALeaseBeginsAnewWithAnotherGrant(t *testing.T) {
	for _, c := range []struct {
		again clock.Duration // after the last grant, it asks once more
		want  []string
	}{{600 * us, nil}, {1200 * us, []string{lock.RuleLost}}} {
		s := newScript(t, nil)
		s.at(us, 0, trace.Entered, 0, shared(1, 0), false)
		s.at(500*ns, 0, trace.Left, 0, shared(1, 0), true)
		s.at(1050*us, 0, trace.Entered, 0, shared(1, 0), false)
		s.at(500*ns, 0, trace.Left, 0, shared(1, 0), true)
		s.at(c.again, 0, trace.Entered, 0, shared(1, 0), false)
		s.now = s.now.Add(1200 * us)
		s.at(us, 0, trace.Entered, 1, header(netlock.Acquire, 1, 2), false)
		s.at(500*ns, 0, trace.Left, 1, header(netlock.Acquire, 1, 2), true)
		s.want(c.want...)
	}
}

// A request that is repeated after its lease has ended, while its first grant waits at the port, waits itself: also
// when the lock is released that the first grant was about.
func TestARequestThatIsRepeatedAfterItsLeaseWaitsLongerThanTheFirst(t *testing.T) {
	for _, again := range []bool{true, false} {
		s := newScript(t, nil)
		first, second := header(netlock.Acquire, 1, 1), header(netlock.Acquire, 1, 2)
		s.fill(0, 5000) // for 1.5 ms
		s.at(us, 0, trace.Entered, 0, first, false)
		s.at(1150*us, 0, trace.Entered, 1, second, false)
		s.at(500*ns, 0, trace.Left, 1, second, true)
		if again {
			s.at(50*us, 0, trace.Entered, 0, first, false)
		}
		s.at(1520*us-clock.Duration(s.now), 0, trace.Left, 0, first, true)
		s.at(50*us, 0, trace.Entered, 0, header(netlock.Release, 1, 1), false)
		s.at(2200*us-clock.Duration(s.now), 0, trace.Left, 0, first, true)
		if again {
			s.want()
		} else {
			s.want(lock.RuleOnce)
		}
	}
}

// A shared grant may wait at its port until its own lease and a later exclusive hold have ended. It does not belong to
// the chain that the release of that hold begins.
func TestAGrantThatWaitsForLongerThanItsLeaseIsNotOfTheChainAfterThat(t *testing.T) {
	for _, busy := range []bool{true, false} {
		s := newScript(t, func(n *lock.Network) { n.Switches[0].Recirculation = 20 * us })
		if busy {
			s.fill(0, 5000) // for 1.5 ms
		}
		s.at(us, 0, trace.Entered, 0, shared(1, 0), false)
		s.at(1150*us, 0, trace.Entered, 1, header(netlock.Acquire, 1, 2), false)
		s.at(500*ns, 0, trace.Left, 1, header(netlock.Acquire, 1, 2), true)
		s.at(363*us, 0, trace.Entered, 1, header(netlock.Release, 1, 2), false)
		s.at(5*us, 0, trace.Left, 0, shared(1, 0), true)
		if busy {
			s.want()
		} else {
			s.want(lock.RuleOrder, lock.RuleBatch)
		}
	}
}

// With more requests than are looked through, those whose grants wait at their ports may have had the lock, too.
func TestOfManyRequestsAnyMayHaveHadTheLock(t *testing.T) {
	for _, many := range []int{0, mostScanned} {
		s := newScript(t, func(n *lock.Network) { n.Switches[0].Recirculation = 0 })
		s.fill(0, 7000) // for 2.1 ms
		for tid := range uint32(many) {
			s.at(0, 0, trace.Entered, 0, header(netlock.Acquire, 2+tid, tid), false)
		}
		s.at(us, 0, trace.Entered, 0, header(netlock.Acquire, 1, 1), false)
		s.at(us, 0, trace.Entered, 1, header(netlock.Acquire, 1, 2), false)
		s.at(1050*us, 0, trace.Left, 1, header(netlock.Acquire, 1, 2), true)
		s.want()
	}
}

// A release may come while the grant waits at its port, of a client that another switch has granted the lock before.
func TestALockMayBeReleasedWhileItsGrantWaits(t *testing.T) {
	for _, busy := range []bool{true, false} {
		s := newScript(t, nil)
		if busy {
			s.fill(0, 100) // for 30 us
		}
		s.at(us, 0, trace.Entered, 0, shared(1, 0), false)
		release := shared(1, 0)
		release.Op = netlock.Release
		s.at(4*us, 0, trace.Entered, 0, release, false)
		s.at(us, 0, trace.Entered, 1, header(netlock.Acquire, 1, 2), false)
		s.at(500*ns, 0, trace.Left, 1, header(netlock.Acquire, 1, 2), true)
		s.at(14*us, 0, trace.Left, 0, shared(1, 0), true)
		if busy {
			s.want()
		} else {
			s.want(lock.RuleExclusion, lock.RuleOrder)
		}
	}
}

// The release of a grant that comes after its lease may end what the server has granted anew, to a copy, before that
// grant is seen.
func TestAReleaseMayEndWhatIsGrantedAnew(t *testing.T) {
	for _, before := range []bool{false, true} {
		s := newScript(t, nil)
		s.ask(0, 1, exclusively)
		s.serve(us, 0, 1, exclusively)
		s.now = s.now.Add(1200 * us)
		if before {
			s.end(us, 0, 1, exclusively)
		}
		s.ask(0, 1, exclusively)
		if !before {
			s.end(us, 0, 1, exclusively)
		}
		s.serve(5*us, 0, 1, exclusively)
		s.ask(1, 2, exclusively)
		s.serve(10*us, 1, 2, exclusively)
		if before {
			s.want(lock.RuleExclusion)
		} else {
			s.want()
		}
	}
}

// A switch that has restarted does not know since when a server has a lock that it asks for.
func TestALockIsTheServersBeforeTheSwitchTakesIt(t *testing.T) {
	s := newScript(t, func(n *lock.Network) {
		f := &n.Switches[0]
		f.Placed, f.Moves, f.Marks = false, true, true
	})
	s.Stopping(s.now, 0)
	s.Started(s.now, 0)
	s.ask(0, 1, exclusively)
	s.ask(1, 2, exclusively)
	move := netlock.Header{Op: netlock.PushRequest, Lock: 2, Sent: 6, Index: 6, Mark: netlock.Failover}
	s.at(900*us, 0, trace.Left, 0, move, false, toServer)
	s.serve(us, 0, 1, exclusively)
	s.serve(200*us, 1, 2, exclusively)
	s.want()
}
