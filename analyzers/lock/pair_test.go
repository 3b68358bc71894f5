package lock

import (
	"net/netip"
	"testing"

	"candela.dev/candela/clock"
	"candela.dev/candela/lock"
	"candela.dev/candela/packet/netlock"
	"candela.dev/candela/trace"
)

// newPair begins a script with an original and a backup, whose ports 3 lead to each other.
func newPair(t *testing.T) *script {
	return newScript(t, func(n *lock.Network) {
		n.Switches = append(n.Switches, n.Switches[0])
		n.Switches[1].Ports = append([]lock.Port{}, n.Switches[0].Ports...)
		n.Switches[1].Standby = true
		for i := range n.Switches {
			n.Switches[i].Ports[3].Trunk, n.Switches[i].Ports[3].Peer = true, true
		}
	})
}

// A backup that takes over again has only what has come since: a request that it had granted the first time, and that
// is asked for again, waits also if the first one is released.
func TestABackupThatTakesOverAgainHasWhatHasComeSince(t *testing.T) {
	for _, again := range []bool{true, false} {
		s := newPair(t)
		takeover := func() {
			s.Stopping(s.now, 0)
			s.TakesOver(s.now, 1)
		}
		takeover()
		s.at(us, 1, trace.Entered, 0, shared(1, 0), false)
		s.at(2*ms, 1, trace.Left, 0, shared(1, 0), true)
		s.Started(s.now, 0)
		s.now = s.now.Add(100 * us)
		takeover()
		if again {
			s.at(us, 1, trace.Entered, 0, shared(1, 0), false)
		}
		s.at(us, 1, trace.Entered, 0, netlock.Header{Op: netlock.Release, Lock: 1, Transaction: 1}, false)
		s.at(ms, 1, trace.Entered, 1, shared(2, 0), false) // later, the judge has looked for what it may forget
		s.at(200*ns, 1, trace.Left, 0, shared(1, 0), true)
		s.at(300*ns, 1, trace.Left, 1, shared(2, 0), true)
		if again {
			s.want()
		} else {
			s.want(lock.RuleOnce)
		}
	}
}

// What a backup has asked before it takes over again may leave after that: it ignores the answer.
func TestABackupIgnoresAnswersToWhatItAskedBeforeItTookOverAgain(t *testing.T) {
	for _, waits := range []bool{true, false} { // the question, at its port
		s := newPair(t)
		for _, d := range s.switches {
			d.Placed = false
		}
		s.Stopping(s.now, 0)
		s.TakesOver(s.now, 1)
		port2 := func(p *Packet) { p.Port = 2 }
		exclusive := func(tid uint32) netlock.Header { return header(netlock.Acquire, 1, tid) }
		parked := exclusive(1)
		parked.Mark = netlock.BufferOnly
		s.at(2*ms, 1, trace.Entered, 0, exclusive(1), false)
		s.at(500*ns, 1, trace.Left, 0, parked, false, port2)
		s.Started(s.now, 0)
		s.now = s.now.Add(100 * us)
		if waits {
			s.at(0, 1, trace.Left, 2, netlock.Header{}, false, func(p *Packet) { p.Lock, p.Size = false, 9000 })
		}
		s.Stopping(s.now, 0)
		s.TakesOver(s.now, 1)
		s.now = s.now.Add(us)
		s.at(800*ns, 1, trace.Left, 0, netlock.Header{Op: netlock.PushRequest, Lock: 1, Avail: 1, Sent: 1}, false, port2)
		back := exclusive(1)
		back.Op, back.Sent, back.Received, back.Index, back.Last = netlock.PushBack, 1, 1, 1, true
		s.at(us, 1, trace.Entered, 0, back, true, port2)
		s.at(us, 1, trace.Entered, 1, exclusive(2), false)
		s.at(2*ms, 1, trace.Left, 1, exclusive(2), true)
		s.at(us, 1, trace.Entered, 1, netlock.Header{Op: netlock.Release, Lock: 1, Transaction: 2}, false)
		if waits {
			s.want()
		} else {
			s.want(lock.RuleLost)
		}
	}
}

// A question to the backup may wait at its port until the server has been asked, too: what is sent to be buffered
// counts from the latter on.
func TestAQuestionToTheBackupMayLeaveAfterTheOneToTheServer(t *testing.T) {
	for _, received := range []uint64{10, 11} {
		s := newPair(t)
		for _, d := range s.switches {
			d.Placed = false
		}
		s.Stopping(s.now, 0)
		s.TakesOver(s.now, 1)
		s.now = s.now.Add(2 * ms)
		s.Started(s.now, 0)
		takes := func(port int, number uint64) {
			s.at(us, 0, trace.Left, port, netlock.Header{Op: netlock.PushRequest, Lock: 1, Mark: netlock.Failover, Sent: number,
				Index: number}, false)
		}
		takes(2, 8)
		takes(3, 7)
		parked := shared(1, 0)
		parked.Mark = netlock.BufferOnly
		s.at(us, 0, trace.Entered, 0, shared(1, 0), false)
		s.at(500*ns, 0, trace.Left, 2, parked, false, func(p *Packet) { p.Src = address(0) })
		s.at(us, 0, trace.Left, 2, netlock.Header{Op: netlock.PushRequest, Lock: 1, Avail: 1, Sent: 9, Index: 8}, false)
		parked.Transaction = 2
		s.at(us, 0, trace.Entered, 1, shared(2, 0), false)
		s.at(500*ns, 0, trace.Left, 2, parked, false, func(p *Packet) { p.Src = address(1) })
		back := shared(1, 0)
		back.Op, back.Sent, back.Received, back.Index, back.Last = netlock.PushBack, 9, received, 9, true
		s.at(us, 0, trace.Entered, 0, back, true)
		back = shared(1, 0)
		back.Op = netlock.PushBack
		s.at(500*ns, 0, trace.Left, 0, back, true)
		s.at(us, 0, trace.Entered, 0, netlock.Header{Op: netlock.Release, Lock: 1, Transaction: 1}, false)
		if received == 10 {
			s.want()
		} else {
			s.want(lock.RuleSingleQueue)
		}
	}
}

// After the original of a pair has returned, the backup alone grants a lock until whoever has it from there has
// released it, by way of the original; also locks that could be shared.
func TestTheBackupAloneGrantsUntilItsQueueIsEmpty(t *testing.T) {
	shared := func(op netlock.Op, tid uint32) netlock.Header {
		return netlock.Header{Op: op, Lock: 1, Transaction: tid}
	}
	peer := func(p *Packet) { p.Port = 3 }
	for _, c := range []struct {
		what     string
		waits    bool // the backup, for leases to end
		released bool // what it granted, before the original grants
		want     []string
	}{
		{"in order", true, true, nil},
		{"a backup that does not wait", false, true, []string{lock.RuleFailover}},
		{"an original that does not wait", true, false, []string{lock.RuleFailover}},
	} {
		t.Run(c.what, func(t *testing.T) {
			s := newPair(t)
			s.at(us, 0, trace.Entered, 0, shared(netlock.Acquire, 1), false)
			s.at(500*ns, 0, trace.Left, 0, shared(netlock.Acquire, 1), true)
			s.now = s.now.Add(us)
			s.Stopping(s.now, 0)
			s.now = s.now.Add(500 * us)
			s.TakesOver(s.now, 1)
			s.at(us, 1, trace.Entered, 1, shared(netlock.Acquire, 2), false)
			if c.waits {
				s.now = s.now.Add(ms)
			}
			s.at(us, 1, trace.Left, 1, shared(netlock.Acquire, 2), true)
			s.now = s.now.Add(us)
			s.Started(s.now, 0)
			s.at(us, 0, trace.Entered, 2, shared(netlock.Acquire, 3), false)
			if c.released {
				s.at(us, 0, trace.Entered, 1, shared(netlock.Release, 2), false)
				s.at(500*ns, 0, trace.Left, 1, shared(netlock.Release, 2), false, peer)
				s.at(us, 1, trace.Entered, 1, shared(netlock.Release, 2), false, peer)
			}
			// What the server buffers for the backup passes the original, and is nobody's grant.
			back := shared(netlock.PushBack, 4)
			back.Index = 1
			s.at(500*ns, 0, trace.Left, 2, back, true, peer)
			s.at(5*us, 0, trace.Left, 2, shared(netlock.Acquire, 3), true)
			s.at(us, 0, trace.Entered, 2, shared(netlock.Release, 3), false)
			s.want(c.want...)
		})
	}
}

// A request that comes twice to a backup that has given the lock back goes to the original twice: then the backup has
// none of its copies, and is not blamed for granting none.
func TestCopiesThatGoToTheOriginalAreNotTheBackups(t *testing.T) {
	for _, forwarded := range []int{2, 1, 0} {
		s := newPair(t)
		s.Stopping(s.now, 0)
		s.TakesOver(s.now, 1)
		peer := func(p *Packet) { p.Port, p.Src = 3, address(1) }
		first, second := header(netlock.Acquire, 1, 1), header(netlock.Acquire, 1, 2)
		s.at(us, 1, trace.Entered, 0, first, false)
		s.at(2*ms, 1, trace.Left, 0, first, true)
		s.Started(s.now, 0)
		s.now = s.now.Add(2 * ms) // the lease has ended
		for range 2 {
			s.at(100*ns, 1, trace.Entered, 1, second, false)
		}
		for range forwarded {
			s.at(400*ns, 1, trace.Left, 1, second, false, peer)
		}
		s.now = s.now.Add(3 * ms)
		if forwarded == 2 {
			s.want()
		} else {
			s.want(lock.RuleLease)
		}
	}
}

// A grant of the backup may wait at its port until its lease has ended and the original has the lock again.
func TestAGrantOfTheBackupMayWaitUntilTheOriginalHasTheLock(t *testing.T) {
	for _, busy := range []bool{true, false} {
		s := newPair(t)
		s.Stopping(s.now, 0)
		s.TakesOver(s.now, 1)
		s.now = s.now.Add(2 * ms)
		if busy {
			for range 5000 { // 1.5 ms
				s.at(0, 1, trace.Left, 0, netlock.Header{}, false, func(p *Packet) { p.Lock, p.Size = false, 1500 })
			}
		}
		s.at(us, 1, trace.Entered, 0, shared(1, 0), false)
		s.Started(s.now, 0)
		s.at(1200*us, 0, trace.Entered, 1, shared(2, 0), false)
		s.at(500*ns, 0, trace.Left, 1, shared(2, 0), true)
		s.at(300*us, 1, trace.Left, 0, shared(1, 0), true)
		if busy {
			s.want()
		} else {
			s.want(lock.RuleFailover)
		}
	}
}

// What the backup asks a database may pass the original, if there is no other path: the original does not grant then.
func TestAQuestionToTheDatabaseThatPassesTheOriginalIsTheBackups(t *testing.T) {
	database := netip.MustParseAddr("10.8.8.8")
	for _, passes := range []bool{true, false} {
		s := newPair(t)
		s.facts.Databases = []netip.Addr{database}
		for _, d := range s.switches {
			d.OneRTT = true
		}
		s.Stopping(s.now, 0)
		s.TakesOver(s.now, 1)
		s.now = s.now.Add(2 * ms)
		s.Started(s.now, 0)
		s.at(us, 1, trace.Entered, 0, shared(1, 0), false)
		asks := func(port int) func(*Packet) {
			return func(p *Packet) { p.Port, p.Dst = port, database }
		}
		if passes {
			s.at(500*ns, 1, trace.Left, 0, shared(1, 0), false, asks(3))
			s.at(us, 0, trace.Entered, 0, shared(1, 0), false, asks(3))
		}
		s.at(500*ns, 0, trace.Left, 0, shared(1, 0), false, asks(2))
		if passes {
			s.want()
		} else {
			s.want(lock.RuleOnce)
		}
	}
}

// So may what a server asks a database.
func TestAGrantOfAServerToTheDatabaseMayPassBothSwitches(t *testing.T) {
	database := netip.MustParseAddr("10.8.8.8")
	s := newPair(t)
	s.facts.Databases = []netip.Addr{database}
	for _, d := range s.switches {
		d.OneRTT = true
	}
	s.Stopping(s.now, 0)
	s.TakesOver(s.now, 1)
	s.now = s.now.Add(2 * ms)
	s.Started(s.now, 0)
	asked := header(netlock.Acquire, 5, 1)
	s.at(us, 1, trace.Entered, 0, asked, false)
	s.at(500*ns, 1, trace.Left, 0, marked(asked, netlock.Owned), false, func(p *Packet) { p.Port = 2 })
	for _, at := range []struct{ sw, enters, leaves int }{{1, 2, 3}, {0, 3, 1}} {
		granted := header(netlock.GrantFromServer, 5, 1)
		s.at(us, at.sw, trace.Entered, 0, granted, false, func(p *Packet) { p.Port, p.Dst = at.enters, database })
		s.at(500*ns, at.sw, trace.Left, 0, granted, false, func(p *Packet) { p.Port, p.Dst = at.leaves, database })
	}
	s.want()
}

// What a backup answers may leave by way of the original, if there is no other path: it is its answer all the same, and
// none of the original, but what servers send back to the other switch is not.
func TestAnswersOfABackupMayPassTheOriginal(t *testing.T) {
	for _, c := range []struct {
		op    netlock.Op
		index uint64
		want  []string
	}{
		{netlock.Acquire, 0, nil}, {netlock.Reject, 0, nil},
		{netlock.PushBack, 1, []string{lock.RuleLost}},
	} {
		s := newPair(t)
		for _, d := range s.switches {
			d.Quota, d.Period, d.Reset = map[uint16]int64{1: 1}, 100*ms, clock.Time(100*ms)
		}
		s.Stopping(s.now, 0)
		s.TakesOver(s.now, 1)
		s.now = s.now.Add(2 * ms)
		s.Started(s.now, 0)
		uses := func(tid uint32, op netlock.Op, index uint64, port int) {
			h, answer := shared(tid, 0), shared(tid, 0)
			h.Tenant, answer.Tenant, answer.Op, answer.Index = 1, 1, op, index
			s.at(us, 1, trace.Entered, 0, h, false)
			s.at(500*ns, 1, trace.Left, 0, answer, true, func(p *Packet) { p.Port = port })
			if port == 3 && op != netlock.PushBack {
				s.at(us, 0, trace.Entered, 0, answer, true, func(p *Packet) { p.Port = 3 })
				s.at(500*ns, 0, trace.Left, 0, answer, true)
			}
		}
		switch c.op {
		case netlock.Reject:
			uses(1, netlock.Acquire, 0, 0)
			uses(2, c.op, c.index, 3)
		default:
			uses(1, c.op, c.index, 3)
		}
		s.at(us, 1, trace.Entered, 0, netlock.Header{Op: netlock.Release, Lock: 1, Transaction: 1}, false)
		s.at(2*us, 1, trace.Entered, 1, header(netlock.Acquire, 1, 9), false) // later
		s.at(500*ns, 1, trace.Left, 1, header(netlock.Acquire, 1, 9), true)
		s.now = s.now.Add(100 * ms)
		s.want(c.want...)
	}
}

// A release that the backup has sent back to the original, which has the lock again, counts there.
func TestAReleaseThatComesBackFromTheBackupCounts(t *testing.T) {
	for _, back := range []bool{true, false} {
		s := newPair(t)
		s.Stopping(s.now, 0)
		s.TakesOver(s.now, 1)
		s.now = s.now.Add(2 * ms)
		s.Started(s.now, 0)
		release := shared(1, 0)
		release.Op = netlock.Release
		peer := func(p *Packet) { p.Port = 3 }
		s.at(us, 0, trace.Entered, 0, shared(1, 0), false)
		s.at(us, 0, trace.Entered, 0, release, false)
		s.at(500*ns, 0, trace.Left, 0, release, false, peer)
		s.at(2*us, 0, trace.Left, 0, shared(1, 0), true)
		if back {
			s.at(us, 0, trace.Entered, 0, release, false, peer)
		}
		s.at(us, 0, trace.Entered, 1, header(netlock.Acquire, 1, 2), false)
		s.at(500*ns, 0, trace.Left, 1, header(netlock.Acquire, 1, 2), true)
		if back {
			s.want()
		} else {
			s.want(lock.RuleExclusion)
		}
	}
}

// What a server returns to the backup may be lost in the original: it is no grant.
func TestWhatAServerReturnsToTheBackupMayBeLostInTheOriginal(t *testing.T) {
	for _, index := range []uint64{1, 0} {
		s := newPair(t)
		s.Stopping(s.now, 0)
		s.TakesOver(s.now, 1)
		s.now = s.now.Add(2 * ms)
		s.Started(s.now, 0)
		back := header(netlock.PushBack, 1, 1)
		back.Index = index
		s.at(us, 0, trace.Entered, 0, back, true, func(p *Packet) { p.Port = 2 })
		s.at(us, 0, trace.Dropped, 0, back, true, func(p *Packet) { p.Port = 3 })
		if index > 0 {
			s.want()
		} else {
			s.want(lock.RuleOnce)
		}
	}
}

// What the original has sent to be buffered may come to the server after the backup has told it to begin anew: the
// server counts it, and returns it to the backup.
func TestWhatTheOriginalSentMayBeBufferedForTheBackup(t *testing.T) {
	for _, sent := range []bool{true, false} {
		s := newPair(t)
		for _, d := range s.switches {
			d.Placed = false
		}
		toServer := func(client int) func(*Packet) {
			return func(p *Packet) { p.Port, p.Src = 2, address(client) }
		}
		parked := func(tid uint32) netlock.Header { return marked(shared(tid, 0), netlock.BufferOnly) }
		if sent {
			s.at(us, 0, trace.Entered, 0, shared(1, 0), false)
			s.at(500*ns, 0, trace.Left, 0, parked(1), false, toServer(0))
		}
		s.Stopping(s.now, 0)
		s.TakesOver(s.now, 1)
		s.now = s.now.Add(2 * ms)
		push := netlock.Header{Op: netlock.PushRequest, Lock: 1, Mark: netlock.Failover, Sent: 7, Index: 7}
		s.at(us, 1, trace.Left, 0, push, false, toServer(0))
		s.at(us, 1, trace.Entered, 1, shared(2, 0), false)
		s.at(500*ns, 1, trace.Left, 1, parked(2), false, toServer(1))
		s.at(us, 1, trace.Left, 0, netlock.Header{Op: netlock.PushRequest, Lock: 1, Avail: 4, Sent: 8, Index: 7}, false,
			toServer(0))
		for tid := range uint32(2) {
			back := shared(tid+1, 0)
			back.Op, back.Sent, back.Received, back.Index, back.Last = netlock.PushBack, 8, 9, uint64(8+tid), tid == 1
			s.at(us, 1, trace.Entered, int(tid), back, true)
			back = shared(tid+1, 0)
			back.Op = netlock.PushBack
			s.at(500*ns, 1, trace.Left, int(tid), back, true)
		}
		if sent {
			s.want()
		} else {
			s.want(lock.RuleSingleQueue, lock.RuleOnce)
		}
	}
}

// What the server returns to the original, which has stopped, may pass the backup, which ignores it.
func TestABackupIgnoresWhatIsReturnedToTheOriginal(t *testing.T) {
	s := newPair(t)
	for _, d := range s.switches {
		d.Placed = false
	}
	port2 := func(p *Packet) { p.Port = 2 }
	first, second := header(netlock.Acquire, 1, 1), header(netlock.Acquire, 1, 2)
	s.at(us, 0, trace.Entered, 0, first, false)
	s.at(500*ns, 0, trace.Left, 0, marked(first, netlock.BufferOnly), false, port2)
	s.Stopping(s.now, 0)
	s.TakesOver(s.now, 1)
	back := header(netlock.PushBack, 1, 1)
	back.Index, back.Sent, back.Received, back.Last = 1, 1, 1, true
	s.at(us, 1, trace.Entered, 0, back, true, port2)
	s.at(us, 1, trace.Entered, 1, second, false)
	s.at(2*ms, 1, trace.Left, 1, second, true)
	s.want()
}

// Copies that a backup had before it took over again are lost: with the one that goes to the original it has none.
func TestCopiesThatWereLostAreNotTheBackups(t *testing.T) {
	s := newPair(t)
	s.Stopping(s.now, 0)
	s.TakesOver(s.now, 1)
	asked := header(netlock.Acquire, 1, 1)
	s.at(us, 1, trace.Entered, 1, asked, false)
	s.Started(s.now, 0)
	s.now = s.now.Add(us)
	s.Stopping(s.now, 0)
	s.TakesOver(s.now, 1)
	s.Started(s.now, 0)
	s.at(us, 1, trace.Entered, 1, asked, false)
	s.at(500*ns, 1, trace.Left, 1, asked, false, func(p *Packet) { p.Port, p.Src = 3, address(1) })
	s.now = s.now.Add(4 * ms)
	s.at(us, 1, trace.Entered, 0, header(netlock.Acquire, 1, 2), false)
	s.at(500*ns, 1, trace.Left, 0, header(netlock.Acquire, 1, 2), true)
	s.now = s.now.Add(9 * ms)
	s.want()
}

// A grant of the backup that passes the original is the backup's also if its lease ends on the way, or as it waits in
// the original; each that comes leaves, or is lost, once.
func TestAGrantThatPassesTheOriginalMayTakeLongerThanItsLease(t *testing.T) {
	for _, c := range []struct {
		what              string
		before, waits     clock.Duration // it comes to the original, and leaves
		lost, out, leaves bool
		again             bool // it leaves once more
		want              []string
	}{
		{what: "in the original", waits: 4 * ms, leaves: true},
		{what: "before the original", before: 4 * ms, leaves: true},
		{what: "kept", waits: 4 * ms, want: []string{lock.RuleLost}},
		{what: "lost", waits: 4 * ms, lost: true},
		{what: "twice", waits: 4 * ms, leaves: true, again: true, want: []string{lock.RuleOnce}},
		{what: "lost, and again", waits: 4 * ms, lost: true, again: true, want: []string{lock.RuleOnce}},
		{what: "lost in an outage, and again", waits: 4 * ms, lost: true, out: true, again: true,
			want: []string{lock.RuleOnce, lock.RuleFailover}},
	} {
		for _, op := range []netlock.Op{netlock.Acquire, netlock.PushBack} {
			t.Run(c.what+"/"+op.String(), func(t *testing.T) {
				s := newPair(t)
				s.Stopping(s.now, 0)
				s.TakesOver(s.now, 1)
				s.now = s.now.Add(2 * ms)
				s.Started(s.now, 0)
				asked := shared(1, 0)
				answer := asked
				answer.Op = op
				peer := func(p *Packet) { p.Port = 3 }
				s.at(us, 1, trace.Entered, 0, asked, false)
				s.at(500*ns, 1, trace.Left, 0, answer, true, peer)
				later := func(after clock.Duration) { // the judge looks for leases that have ended
					s.now = s.now.Add(after)
					s.at(0, 1, trace.Entered, 0, netlock.Header{}, false, func(p *Packet) { p.Lock = false })
				}
				later(c.before)
				s.at(us, 0, trace.Entered, 0, answer, true, peer)
				later(c.waits)
				if c.out {
					s.Stopping(s.now, 0)
				}
				if c.lost {
					s.at(us, 0, trace.Dropped, 0, answer, true)
				}
				if c.out {
					s.Started(s.now, 0)
				}
				for _, leaves := range []bool{c.leaves, c.again} {
					if leaves {
						s.at(us, 0, trace.Left, 0, answer, true)
					}
				}
				s.want(c.want...)
			})
		}
	}
}
