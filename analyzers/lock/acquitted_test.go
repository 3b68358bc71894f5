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

// Of two that share a lock the grant of the first may wait at its port, until leases have ended and others have had it.
func TestAGrantThatWaitsWhileOthersHaveTheLockWasNotOvertaken(t *testing.T) {
	for _, waits := range []bool{true, false} {
		s := newScript(t, func(n *lock.Network) {
			n.Switches[0].Lease, n.Switches[0].Poll, n.Switches[0].Priorities = 30*us, us, 2
		})
		other := shared(3, 1)
		other.Mode = netlock.Exclusive
		if waits {
			s.fill(0, 200) // for 60.96 us
		}
		s.at(us, 0, trace.Entered, 0, shared(1, 2), false)
		s.at(us, 0, trace.Entered, 1, shared(2, 2), false)
		s.at(500*ns, 0, trace.Left, 1, shared(2, 2), true)
		s.at(37500*ns, 0, trace.Entered, 2, other, false)
		s.at(500*ns, 0, trace.Left, 2, other, true)
		s.at(us, 0, trace.Entered, 2, header(netlock.Release, 1, 3), false)
		s.at(19400*ns, 0, trace.Left, 0, shared(1, 2), true)
		if waits {
			s.want()
		} else {
			s.want(lock.RuleOrder, lock.RuleDelay)
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

// After a grant a pass looks for another request. Whoever comes meanwhile waits for it.
func TestAfterAGrantAsALeaseEndsAnotherPassFollows(t *testing.T) {
	for _, late := range []bool{false, true} {
		s := newScript(t, func(n *lock.Network) { n.Switches[0].Priorities, n.Switches[0].RecirculationMost = 2, 20*us })
		took := 5500 * ns // of which the pipeline takes some
		if late {
			took = 21 * us
		}
		s.at(us, 0, trace.Entered, 0, shared(1, 1), false)
		s.at(500*ns, 0, trace.Left, 0, shared(1, 1), true)
		s.at(1073500*ns, 0, trace.Entered, 1, shared(2, 1), false) // in the pass of the lease of 1
		s.at(15500*ns, 0, trace.Left, 1, shared(2, 1), true)
		s.at(14500*ns, 0, trace.Entered, 2, shared(3, 1), false)
		s.at(took, 0, trace.Left, 2, shared(3, 1), true)
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
		granted(50*ns, 1, 2)                                                                                 // the first pass
		granted(400*ns, 3, 4)                                                                                // the third one
		granted(100*ns, 2, 3)                                                                                // the second one
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

// Others have the lock, so that the lease of a request that is asked for again has ended, and what it is granted then
// is a grant of its own: a copy that comes meanwhile is absorbed, and the lock is held until the release.
func TestALeaseHasEndedOnceOthersHaveTheLock(t *testing.T) {
	for _, early := range []bool{false, true} {
		s := newScript(t, nil)
		asks := func(after clock.Duration, tid uint32) {
			s.at(after, 0, trace.Entered, int(tid), header(netlock.Acquire, 1, tid), false)
		}
		granted := func(tid uint32) {
			s.at(500*ns, 0, trace.Left, int(tid), header(netlock.Acquire, 1, tid), true)
		}
		released := func(tid uint32) {
			s.at(us, 0, trace.Entered, int(tid), header(netlock.Release, 1, tid), false)
			s.now = s.now.Add(200 * ns)
		}
		asks(us, 1)
		granted(1)
		asks(500*us, 2)
		asks(521*us, 1)
		granted(2) // within the poll period after the lease
		released(2)
		granted(1)
		asks(us, 1)
		asks(us, 3)
		if early {
			granted(3)
		}
		released(1)
		if !early {
			granted(3)
		}
		released(3)
		if early {
			s.want(lock.RuleExclusion)
		} else {
			s.want()
		}
	}
}

// A grant may wait at its port until the end, and its lease ends meanwhile, so that the lock is granted to others.
func TestAGrantThatWaitsUntilTheEndIsNotLost(t *testing.T) {
	for _, waits := range []bool{true, false} {
		s := newScript(t, nil)
		if waits {
			s.fill(0, 8000) // for 2.4 ms
		}
		s.at(us, 0, trace.Entered, 0, shared(1, 0), false)
		s.at(1200*us, 0, trace.Entered, 1, header(netlock.Acquire, 1, 2), false)
		s.at(500*ns, 0, trace.Left, 1, header(netlock.Acquire, 1, 2), true)
		s.at(us, 0, trace.Entered, 1, header(netlock.Release, 1, 2), false)
		if waits {
			s.want()
		} else {
			s.want(lock.RuleLost)
		}
	}
}

// A grant may wait at its port until a release has come that ends its hold, of a request that had been granted before.
func TestAGrantThatWaitsMayHaveBeenReleased(t *testing.T) {
	for _, waits := range []bool{true, false} {
		s := newScript(t, nil)
		asks := func(after clock.Duration, tid uint32) {
			s.at(after, 0, trace.Entered, int(tid), header(netlock.Acquire, 1, tid), false)
		}
		granted := func(after clock.Duration, tid uint32) {
			s.at(after, 0, trace.Left, int(tid), header(netlock.Acquire, 1, tid), true)
		}
		asks(us, 1)
		granted(500*ns, 1)
		asks(500*us, 1)
		asks(690*us, 2) // the lease has ended
		granted(500*ns, 2)
		s.at(us, 0, trace.Entered, 2, header(netlock.Release, 1, 2), false)
		if waits {
			s.fill(1, 400) // for 120 us
		}
		asks(us, 1)
		s.at(us, 0, trace.Entered, 1, header(netlock.Release, 1, 1), false)
		granted(100*us, 1)
		asks(us, 3)
		granted(500*ns, 3)
		s.at(us, 0, trace.Entered, 3, header(netlock.Release, 1, 3), false)
		if waits {
			s.want()
		} else {
			s.want(lock.RuleExclusion)
		}
	}
}
