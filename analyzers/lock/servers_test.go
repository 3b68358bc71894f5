package lock

import (
	"testing"

	"candela.dev/candela/clock"
	"candela.dev/candela/lock"
	"candela.dev/candela/packet/netlock"
	"candela.dev/candela/trace"
)

// ask shows a request for lock 2, which the server owns, and that it leaves for it.
func (s *script) ask(client int, tid uint32, mode netlock.Mode) {
	h := header(netlock.Acquire, 2, tid)
	h.Mode = mode
	s.at(us, 0, trace.Entered, client, h, false)
	s.at(500*ns, 0, trace.Left, client, marked(h, netlock.Owned), false, toServer)
}

// serve shows a grant of the server.
func (s *script) serve(after clock.Duration, client int, tid uint32, mode netlock.Mode) {
	h := header(netlock.GrantFromServer, 2, tid)
	h.Mode = mode
	s.at(after, 0, trace.Entered, client, h, true, toServer)
	s.at(500*ns, 0, trace.Left, client, h, true)
}

// end shows a release of lock 2, and that it leaves for the server.
func (s *script) end(after clock.Duration, client int, tid uint32, mode netlock.Mode) {
	h := header(netlock.Release, 2, tid)
	h.Mode = mode
	s.at(after, 0, trace.Entered, client, h, false)
	s.at(500*ns, 0, trace.Left, client, h, false, toServer)
}

const exclusively = netlock.Exclusive

// The lease of a request that waited at its server begins when it may have been granted at the earliest: as the hold
// before it ended.
func TestServersThatGrantBesideWhoHasWaitedForLongAreFound(t *testing.T) {
	for _, c := range []struct {
		what  string
		after clock.Duration // of the grant of the third, since that of the second
		pair  bool           // grants may overtake each other on their way
		rules []string
	}{
		{"within the lease", 800 * us, false, []string{lock.RuleExclusion}},
		{"within the lease, by way of a pair", 800 * us, true, nil},
		{"after it", 1060 * us, false, nil},
	} {
		t.Run(c.what, func(t *testing.T) {
			s := newScript(t, func(n *lock.Network) {
				if c.pair {
					n.Switches = append(n.Switches, lock.Switch{Name: "backup", Standby: true})
				}
			})
			s.ask(0, 1, exclusively)
			s.ask(1, 2, exclusively)
			s.ask(2, 3, exclusively)
			s.serve(us, 0, 1, exclusively)
			s.end(900*us, 0, 1, exclusively)
			s.serve(50*us, 1, 2, exclusively)
			s.serve(c.after-50*us, 2, 3, exclusively)
			s.want(c.rules...)
		})
	}
}

// Whoever was returned by the server waits in the switch from then on, also if its client asks again and again.
func TestARequestThatWasReturnedAndIsAskedForAgainWaitsSinceItCameBack(t *testing.T) {
	for _, expires := range []bool{false, true} {
		s := newScript(t, func(n *lock.Network) { n.Switches[0].Locks = map[uint32]int{1: 1} })
		port3 := func(p *Packet) { p.Port = 3 }
		parked := marked(header(netlock.Acquire, 1, 2), netlock.BufferOnly)
		s.at(us, 0, trace.Entered, 0, header(netlock.Acquire, 1, 1), false)
		s.at(500*ns, 0, trace.Left, 0, header(netlock.Acquire, 1, 1), true)
		s.at(us, 0, trace.Entered, 1, header(netlock.Acquire, 1, 2), false)
		s.at(500*ns, 0, trace.Left, 1, parked, false, port3)
		s.at(us, 0, trace.Entered, 1, header(netlock.Acquire, 1, 2), false)
		s.at(500*ns, 0, trace.Left, 1, parked, false, port3)
		s.at(us, 0, trace.Entered, 0, header(netlock.Release, 1, 1), false)
		s.at(500*ns, 0, trace.Left, 0, netlock.Header{Op: netlock.PushRequest, Lock: 1, Avail: 1, Sent: 2}, false, port3)
		back := header(netlock.PushBack, 1, 2)
		back.Index, back.Sent, back.Received, back.Last = 1, 2, 1, true
		s.at(us, 0, trace.Entered, 1, back, true, port3)
		if expires {
			s.at(500*ns, 0, trace.Left, 1, header(netlock.PushBack, 1, 2), true)
		}
		for range 20 {
			s.at(100*us, 0, trace.Entered, 1, header(netlock.Acquire, 1, 2), false)
			if expires {
				break
			}
		}
		if expires {
			s.want()
		} else {
			s.want(lock.RuleLost)
		}
	}
}

// timed returns a script in which servers take 1 us for a packet, and 4 us there and back.
func timed(t *testing.T) *script {
	return newScript(t, func(n *lock.Network) {
		n.Lossless, n.ServersDedup, n.ServersTimed = true, true, true
		n.ServerWay, n.ServerTakes, n.ServerGap = 4*us, us, 100*ns
	})
}

const inCommon = netlock.Shared

// Shared requests that lead a server's queue are granted together (N7).
func TestServersThatGrantSharedRequestsOneByOneAreFound(t *testing.T) {
	for _, c := range []struct {
		what  string
		after clock.Duration // of the third grant, since the second
		rules []string
	}{
		{"together", 700 * ns, nil},
		{"after what the server had to do before", 2 * us, nil},
		{"one by one", 9 * us, []string{lock.RuleBatch}},
	} {
		t.Run(c.what, func(t *testing.T) {
			s := timed(t)
			s.ask(0, 1, exclusively)
			s.serve(3*us, 0, 1, exclusively)
			s.ask(1, 2, inCommon)
			s.ask(2, 3, inCommon)
			s.end(us, 0, 1, exclusively)
			s.serve(3*us, 1, 2, inCommon)
			s.serve(c.after-500*ns, 2, 3, inCommon)
			s.want(c.rules...)
		})
	}
}

// Nobody waits at a server for a lock that nobody has, whether or not it is granted in the end (N3). The server may
// have a lot to do, its answers may queue, and who has the lock may not know yet.
func TestServersThatLeaveLocksIdleAreFound(t *testing.T) {
	second := func(s *script) {
		s.ask(0, 1, exclusively)
		s.serve(3*us, 0, 1, exclusively)
		s.ask(1, 2, exclusively)
		s.end(us, 0, 1, exclusively)
	}
	busy := func(s *script, asks, answers int) {
		for n := range asks {
			h := header(netlock.Acquire, 9, uint32(n))
			s.at(0, 0, trace.Entered, 2, h, false)
			s.at(10*ns, 0, trace.Left, 2, marked(h, netlock.Owned), false, toServer)
		}
		for n := range answers {
			h := header(netlock.PushEmpty, uint32(100+n), 0)
			s.at(20*ns, 0, trace.Entered, 2, h, true, toServer)
		}
	}
	for name, c := range map[string]struct {
		do    func(s *script)
		rules []string
	}{
		"in time": {func(s *script) { second(s); s.serve(4*us, 1, 2, exclusively) }, nil},
		"late":    {func(s *script) { second(s); s.serve(8*us, 1, 2, exclusively) }, []string{lock.RuleLost}},
		"never":   {func(s *script) { second(s) }, []string{lock.RuleLost}},
		"the server has others before": {func(s *script) {
			s.ask(0, 1, exclusively)
			s.serve(3*us, 0, 1, exclusively)
			busy(s, 20, 0)
			s.ask(1, 2, exclusively)
			s.end(us, 0, 1, exclusively)
			s.serve(15*us, 1, 2, exclusively)
		}, []string{lock.RuleLost}}, // lock 9 is never granted
		"its answers queue": {func(s *script) { second(s); busy(s, 0, 100); s.serve(8*us, 1, 2, exclusively) }, nil},
		"the grant before waits at its port": {func(s *script) {
			s.ask(0, 1, exclusively)
			s.ask(1, 2, exclusively)
			h := header(netlock.GrantFromServer, 2, 1)
			s.at(3*us, 0, trace.Entered, 0, h, true, toServer)
			s.at(1100*us, 0, trace.Entered, 1, header(netlock.GrantFromServer, 2, 2), true, toServer) // its lease has ended
			s.at(500*ns, 0, trace.Left, 1, header(netlock.GrantFromServer, 2, 2), true)
			s.at(us, 0, trace.Left, 0, h, true)
		}, nil},
		"the release waits at its port": {func(s *script) {
			s.ask(0, 1, exclusively)
			s.serve(3*us, 0, 1, exclusively)
			s.ask(1, 2, exclusively)
			s.at(us, 0, trace.Entered, 0, header(netlock.Release, 2, 1), false)
			s.fill(3, 40) // for 12 us
			s.at(0, 0, trace.Left, 0, header(netlock.Release, 2, 1), false, toServer)
			s.serve(3*us, 1, 2, exclusively)
		}, nil},
		"a copy that left after the lease has it": {func(s *script) {
			s.ask(0, 1, exclusively)
			s.serve(3*us, 0, 1, exclusively)
			s.at(us, 0, trace.Entered, 0, header(netlock.Acquire, 2, 1), false)
			s.at(1200*us, 0, trace.Left, 0, marked(header(netlock.Acquire, 2, 1), netlock.Owned), false, toServer)
			s.serve(3*us, 0, 1, exclusively)
			s.ask(1, 2, exclusively)
			s.serve(1050*us, 1, 2, exclusively)
		}, nil},
		"who had it has died": {func(s *script) {
			s.ask(0, 1, exclusively)
			s.serve(3*us, 0, 1, exclusively)
			s.ask(1, 2, exclusively)
			s.serve(1090*us, 1, 2, exclusively)
		}, nil},
		"the server replaces another": {func(s *script) {
			s.facts.NotBefore = 500_000_000
			s.ask(0, 1, exclusively)
			s.serve(600*us, 0, 1, exclusively)
		}, nil},
	} {
		t.Run(name, func(t *testing.T) {
			s := timed(t)
			c.do(s)
			s.want(c.rules...)
		})
	}
}

// Of copies that come while a request is queued, or holds the lock, a server takes one (N2).
func TestServersThatGrantCopiesAreFound(t *testing.T) {
	for name, c := range map[string]struct {
		do    func(s *script)
		rules []string
	}{
		"while it has the lock": {func(s *script) {
			s.ask(0, 1, inCommon)
			s.ask(0, 1, inCommon)
			s.serve(us, 0, 1, inCommon)
			s.serve(us, 0, 1, inCommon)
		}, []string{lock.RuleOnce}},
		"after its release": {func(s *script) {
			s.ask(0, 1, exclusively)
			s.ask(0, 1, exclusively)
			s.serve(us, 0, 1, exclusively)
			s.end(us, 0, 1, exclusively)
			s.serve(us, 0, 1, exclusively)
		}, []string{lock.RuleOnce}},
		"the copy came after the release": {func(s *script) {
			s.ask(0, 1, exclusively)
			s.serve(us, 0, 1, exclusively)
			s.at(us, 0, trace.Entered, 0, header(netlock.Acquire, 2, 1), false)
			s.end(us, 0, 1, exclusively)
			s.at(us, 0, trace.Left, 0, marked(header(netlock.Acquire, 2, 1), netlock.Owned), false, toServer)
			s.serve(3*us, 0, 1, exclusively)
		}, nil},
		"the copy came after the lease": {func(s *script) {
			s.ask(0, 1, exclusively)
			s.serve(us, 0, 1, exclusively)
			s.now = s.now.Add(1050 * us)
			s.ask(0, 1, exclusively)
			s.serve(us, 0, 1, exclusively)
		}, nil},
		"a release came before the grant": {func(s *script) {
			s.ask(0, 1, exclusively)
			s.ask(0, 1, exclusively)
			s.at(us, 0, trace.Entered, 0, header(netlock.Release, 2, 1), false)
			s.serve(us, 0, 1, exclusively)
			s.serve(us, 0, 1, exclusively)
		}, nil},
	} {
		t.Run(name, func(t *testing.T) {
			s := timed(t)
			s.facts.ServersTimed = false
			c.do(s)
			s.want(c.rules...)
		})
	}
}

// Releases of what a server has granted are sent to it (N3).
func TestSwitchesThatKeepReleasesOfServersAreFound(t *testing.T) {
	for name, c := range map[string]struct {
		do    func(s *script, release netlock.Header)
		rules []string
	}{
		"sent": {func(s *script, h netlock.Header) {
			s.at(500*ns, 0, trace.Left, 0, h, false, toServer)
		}, nil},
		"kept":    {func(*script, netlock.Header) {}, []string{lock.RuleLost}},
		"dropped": {func(s *script, h netlock.Header) { s.at(0, 0, trace.Dropped, 0, h, false) }, nil},
		"it waits at its port": {func(s *script, _ netlock.Header) {
			s.fill(3, 1000)
		}, nil},
		"the switch stops": {func(s *script, _ netlock.Header) { s.Stopping(s.now, 0); s.Started(s.now.Add(us), 0) }, nil},
	} {
		t.Run(name, func(t *testing.T) {
			s := newScript(t, nil)
			s.ask(0, 1, exclusively)
			s.serve(us, 0, 1, exclusively)
			h := header(netlock.Release, 2, 1)
			s.at(us, 0, trace.Entered, 0, h, false)
			c.do(s, h)
			s.want(c.rules...)
		})
	}
}

// What a server has received and does not have any more it has returned (N3), and a switch that knows what was lost
// asks no more for it (N9).
func TestLossesThatAreNotCountedAreFound(t *testing.T) {
	for name, c := range map[string]struct {
		received uint64
		asks     bool // again
		rules    []string
	}{
		"counted":                   {0, false, nil},
		"the server counts copies":  {1, false, []string{lock.RuleLost}},
		"the switch does not count": {0, true, []string{lock.RuleOccupancy}},
	} {
		t.Run(name, func(t *testing.T) {
			s := newScript(t, func(n *lock.Network) { n.Switches[0].Locks = map[uint32]int{1: 1} })
			parked := marked(header(netlock.Acquire, 1, 2), netlock.BufferOnly)
			s.at(us, 0, trace.Entered, 0, header(netlock.Acquire, 1, 1), false)
			s.at(500*ns, 0, trace.Left, 0, header(netlock.Acquire, 1, 1), true)
			s.at(us, 0, trace.Entered, 1, header(netlock.Acquire, 1, 2), false)
			s.at(500*ns, 0, trace.Left, 1, parked, false, toServer)
			s.at(us, 0, trace.Entered, 0, header(netlock.Release, 1, 1), false)
			ask := netlock.Header{Op: netlock.PushRequest, Lock: 1, Avail: 1, Sent: 1}
			empty := netlock.Header{Op: netlock.PushEmpty, Lock: 1, Sent: 1, Received: c.received, Last: true}
			s.at(500*ns, 0, trace.Left, 0, ask, false, toServer)
			s.at(300*ns, 0, trace.Left, 0, ask, false, toServer) // decided before the answer came
			s.at(us, 0, trace.Entered, 0, empty, true, toServer)
			if c.asks {
				s.at(2*us, 0, trace.Left, 0, ask, false, toServer)
			}
			s.want(c.rules...)
		})
	}
}

// A switch whose queue is empty asks for as many requests as it has slots for (N9), and a server that has a request
// drops its copies, which it does not return (N2).
func TestWhatIsAskedForAndReturnedIsJudged(t *testing.T) {
	for name, c := range map[string]struct {
		avail  uint32
		copies bool // that leave before the question; otherwise after it
		again  bool // the server returns one
		rules  []string
	}{
		"one":                         {2, true, false, nil},
		"fewer slots":                 {1, true, false, []string{lock.RuleOccupancy}},
		"a copy":                      {2, true, true, []string{lock.RuleOnce}},
		"a copy that came afterwards": {2, false, true, nil},
	} {
		t.Run(name, func(t *testing.T) {
			s := newScript(t, func(n *lock.Network) {
				n.Switches[0].Locks, n.ServersDedup = map[uint32]int{1: 2}, true
			})
			parked := marked(header(netlock.Acquire, 1, 3), netlock.BufferOnly)
			for tid := range uint32(2) {
				s.at(us, 0, trace.Entered, int(tid), shared(tid+1, 0), false)
				s.at(500*ns, 0, trace.Left, int(tid), shared(tid+1, 0), true)
			}
			park := func() {
				s.at(us, 0, trace.Entered, 2, header(netlock.Acquire, 1, 3), false)
				s.at(500*ns, 0, trace.Left, 2, parked, false, toServer)
			}
			park()
			if c.copies {
				park()
			}
			for tid := range uint32(2) {
				h := shared(tid+1, 0)
				h.Op = netlock.Release
				s.at(us, 0, trace.Entered, int(tid), h, false)
			}
			ask := netlock.Header{Op: netlock.PushRequest, Lock: 1, Avail: c.avail, Sent: 2}
			if !c.copies {
				ask.Sent = 1
			}
			s.at(500*ns, 0, trace.Left, 0, ask, false, toServer)
			if !c.copies {
				park()
			}
			back := header(netlock.PushBack, 1, 3)
			back.Index, back.Sent, back.Received, back.Last = 1, ask.Sent, 1, true
			s.at(us, 0, trace.Entered, 2, back, true, toServer)
			s.at(500*ns, 0, trace.Left, 2, header(netlock.PushBack, 1, 3), true)
			if c.again {
				s.at(us, 0, trace.Entered, 2, header(netlock.Release, 1, 3), false)
				back.Index, back.Received = 2, 2
				s.at(us, 0, trace.Entered, 2, back, true, toServer)
				s.at(500*ns, 0, trace.Left, 2, header(netlock.PushBack, 1, 3), true)
			}
			s.want(c.rules...)
		})
	}
}

// A request that comes when the server has the lock is the server's: it is not sent to be buffered (N9).
func TestSwitchesThatGoOnToHaveRequestsBufferedAreFound(t *testing.T) {
	for _, mark := range []netlock.Mark{netlock.Owned, netlock.BufferOnly} {
		s := newScript(t, func(n *lock.Network) {
			f := &n.Switches[0]
			f.Placed, f.Moves, f.Marks = false, true, true
		})
		tell := func(op netlock.Op, m netlock.Mark, number uint64) {
			h := netlock.Header{Op: op, Lock: 1, Sent: number, Index: number, Mark: m, Last: op == netlock.PushEmpty}
			if op == netlock.PushEmpty {
				s.at(us, 0, trace.Entered, 0, h, true, toServer)
			} else {
				s.at(us, 0, trace.Left, 0, h, false, toServer)
			}
		}
		tell(netlock.PushRequest, netlock.Failover, 5)
		tell(netlock.PushEmpty, netlock.Failover, 5)
		tell(netlock.PushRequest, netlock.Owned, 5)
		tell(netlock.PushEmpty, netlock.Owned, 5)
		s.at(2*us, 0, trace.Entered, 1, header(netlock.Acquire, 1, 1), false)
		s.at(500*ns, 0, trace.Left, 1, marked(header(netlock.Acquire, 1, 1), mark), false, toServer)
		if mark == netlock.Owned {
			s.want()
		} else {
			s.want(lock.RuleOccupancy)
		}
	}
}

// What the server grants as it gets a lock is decided then, however long it was buffered: its release is the server's.
func TestLeasesBeginWhenTheServerGetsTheLock(t *testing.T) {
	for _, kept := range []bool{false, true} {
		s := newScript(t, func(n *lock.Network) {
			f := &n.Switches[0]
			f.Placed, f.Moves, f.Marks = false, true, true
		})
		parked := marked(header(netlock.Acquire, 1, 1), netlock.BufferOnly)
		move := netlock.Header{Op: netlock.PushRequest, Lock: 1, Sent: 5, Index: 5, Mark: netlock.Failover}
		s.at(us, 0, trace.Left, 0, move, false, toServer)
		move.Op, move.Last = netlock.PushEmpty, true
		s.at(us, 0, trace.Entered, 0, move, true, toServer)
		s.at(us, 0, trace.Entered, 1, header(netlock.Acquire, 1, 1), false)
		s.at(500*ns, 0, trace.Left, 1, parked, false, toServer)
		move = netlock.Header{Op: netlock.PushRequest, Lock: 1, Sent: 6, Index: 5, Mark: netlock.Owned}
		s.at(2*ms, 0, trace.Left, 0, move, false, toServer)
		move.Op, move.Last = netlock.PushEmpty, true
		s.at(us, 0, trace.Entered, 0, move, true, toServer)
		h := header(netlock.GrantFromServer, 1, 1)
		s.at(100*ns, 0, trace.Entered, 1, h, true, toServer)
		s.at(500*ns, 0, trace.Left, 1, h, true)
		s.at(us, 0, trace.Entered, 1, header(netlock.Release, 1, 1), false)
		if kept {
			s.want(lock.RuleLost)
		} else {
			s.at(500*ns, 0, trace.Left, 1, header(netlock.Release, 1, 1), false, toServer)
			s.want()
		}
	}
}
