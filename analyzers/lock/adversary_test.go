package lock

import (
	"testing"

	"candela.dev/candela/clock"
	"candela.dev/candela/lock"
	"candela.dev/candela/packet/netlock"
	"candela.dev/candela/trace"
)

// A grant is the request: whoever asked for a lock in one mode has not got it in the other. What is sent to a server or
// comes from there keeps its mode, too.
func TestAGrantHasTheModeOfItsRequest(t *testing.T) {
	asked := header(netlock.Acquire, 1, 1)
	asked.Timestamp = 7
	other := asked
	other.Mode = netlock.Shared
	late := asked
	late.Timestamp = 8
	for _, c := range []struct {
		what  string
		grant netlock.Header
		rules []string
	}{
		{"its own", asked, nil},
		{"another mode", other, []string{lock.RuleOnce}},
		{"another time stamp", late, []string{lock.RuleOnce}},
	} {
		s := newScript(t, nil)
		s.at(us, 0, trace.Entered, 0, asked, false)
		s.at(500*ns, 0, trace.Left, 0, c.grant, true)
		t.Log(c.what)
		s.want(c.rules...)

		s = newScript(t, func(n *lock.Network) { n.Switches[0].Locks = nil })
		forwarded := c.grant
		forwarded.Mark = netlock.Owned
		s.at(us, 0, trace.Entered, 0, asked, false)
		s.at(500*ns, 0, trace.Left, 0, forwarded, false, toServer)
		t.Log(c.what, "to the server")
		s.want(c.rules...)

		s = newScript(t, func(n *lock.Network) { n.Switches[0].Locks = nil })
		forwarded = asked
		forwarded.Mark = netlock.Owned
		granted := c.grant
		granted.Op = netlock.GrantFromServer
		s.at(us, 0, trace.Entered, 0, asked, false)
		s.at(500*ns, 0, trace.Left, 0, forwarded, false, toServer)
		s.at(us, 0, trace.Entered, 0, granted, true, toServer)
		s.at(500*ns, 0, trace.Left, 0, granted, true)
		t.Log(c.what, "from the server")
		s.want(c.rules...)
	}
}

func toServer(p *Packet) { p.Port = 3 }

// Of copies with time stamps of their own each may be answered.
func TestAGrantMayHaveTheTimeStampOfEachCopy(t *testing.T) {
	s := newScript(t, nil)
	holder, asked := header(netlock.Acquire, 1, 9), header(netlock.Acquire, 1, 1)
	s.at(us, 0, trace.Entered, 1, holder, false)
	s.at(500*ns, 0, trace.Left, 1, holder, true)
	s.at(us, 0, trace.Entered, 0, asked, false)
	again := asked
	again.Timestamp = 5
	s.at(us, 0, trace.Entered, 0, again, false)
	s.at(us, 0, trace.Entered, 1, header(netlock.Release, 1, 9), false)
	s.at(700*ns, 0, trace.Left, 0, asked, true)
	s.want()
}

// Leases of lock servers may be shorter, or longer, than those of the switch.
func TestServersHaveLeasesOfTheirOwn(t *testing.T) {
	for _, c := range []struct {
		lease clock.Duration
		rules []string
	}{
		{300 * us, nil}, {3 * ms, []string{lock.RuleExclusion}}, {0, []string{lock.RuleExclusion}},
	} {
		s := newScript(t, func(n *lock.Network) {
			n.Switches[0].Locks = nil
			n.ServersLease, n.ServerLease, n.ServerPoll = true, c.lease, 50*us
		})
		for tid := range uint32(2) {
			asked := header(netlock.Acquire, 1, tid)
			forwarded, granted := asked, asked
			forwarded.Mark, granted.Op = netlock.Owned, netlock.GrantFromServer
			s.at(us, 0, trace.Entered, int(tid), asked, false)
			s.at(500*ns, 0, trace.Left, int(tid), forwarded, false, toServer)
			s.at(400*us, 0, trace.Entered, int(tid), granted, true, toServer)
			s.at(500*ns, 0, trace.Left, int(tid), granted, true)
		}
		t.Log(c.lease)
		s.want(c.rules...)
	}
}

// A request that comes at the instant at which counters of tenants are reset may be counted before it or after it.
func TestARequestAtTheEndOfAPeriodMayBelongToEither(t *testing.T) {
	s := newScript(t, func(n *lock.Network) {
		d := &n.Switches[0]
		d.Pipeline, d.Recirculation, d.Locks[2], d.Locks[3] = 0, 0, 1, 1
		d.Period, d.Reset, d.Quota = 500*us, clock.Time(0).Add(500*us), map[uint16]int64{1: 1}
	})
	asked := func(after clock.Duration, id uint32, op netlock.Op) {
		h := header(netlock.Acquire, id, 1)
		h.Tenant = 1
		s.at(after, 0, trace.Entered, 0, h, false)
		h.Op = op
		s.at(0, 0, trace.Left, 0, h, true)
	}
	asked(499*us, 1, netlock.Acquire)
	asked(us, 2, netlock.Reject)
	asked(us, 3, netlock.Acquire)
	s.want()
}

// A switch that never grants who leads a queue is to blame also if it sends others to the server meanwhile.
func TestWhoLeadsAQueueIsNotForgottenBecauseTheServerBuffersOthers(t *testing.T) {
	s := newScript(t, func(n *lock.Network) { n.Switches[0].Locks = map[uint32]int{1: 1} })
	s.at(us, 0, trace.Entered, 0, header(netlock.Acquire, 1, 1), false)
	s.at(us, 0, trace.Entered, 1, header(netlock.Acquire, 1, 2), false)
	parked := header(netlock.Acquire, 1, 2)
	parked.Mark = netlock.BufferOnly
	s.at(500*ns, 0, trace.Left, 1, parked, false, toServer)
	s.want(lock.RuleLost)
}

// A request that was asked for before the observation began, and again in it, counts as both copies, also when it has
// ended.
func TestACopyOfARequestThatWasMissedTakesASlotOfItsOwn(t *testing.T) {
	s := newScript(t, func(n *lock.Network) { n.Joined, n.Switches[0].Locks = true, map[uint32]int{1: 2} })
	missed := header(netlock.Acquire, 1, 1)
	s.at(us, 0, trace.Left, 0, missed, true)
	s.at(us, 0, trace.Entered, 0, missed, false)
	s.at(us, 0, trace.Entered, 0, header(netlock.Release, 1, 1), false)
	for tid := range uint32(4) {
		asked := header(netlock.Acquire, 1, 2+tid)
		s.at(10*us, 0, trace.Entered, 0, asked, false)
		switch {
		case tid < 2: // the first ends doubts about the lock
			s.at(500*ns, 0, trace.Left, 0, asked, true)
		case tid == 3:
			s.at(500*ns, 0, trace.Left, 0, marked(asked, netlock.BufferOnly), false, toServer)
		}
		if tid == 0 {
			s.at(us, 0, trace.Entered, 0, header(netlock.Release, 1, 2), false)
		}
	}
	s.want()
}
