package lock

import (
	"testing"

	"candela.dev/candela/clock"
	"candela.dev/candela/lock"
	"candela.dev/candela/packet/netlock"
	"candela.dev/candela/trace"
)

// A request may have to wait for those of a higher priority that the server has, as long as the switch asks for these.
func TestWhoWaitsForBufferedRequestsWaitsNoLongerThanTheyAreAskedFor(t *testing.T) {
	of := func(op netlock.Op, tid uint32, priority uint8) netlock.Header {
		h := header(op, 1, tid)
		h.Priority = priority
		return h
	}
	for _, c := range []struct {
		asks  int
		last  clock.Duration // since then
		rules []string
	}{{0, 60 * us, []string{lock.RuleLost}}, {3, 20 * us, nil}, {3, 60 * us, []string{lock.RuleLost}}} {
		s := newScript(t, func(n *lock.Network) { n.Switches[0].Priorities, n.Switches[0].PushRetry = 2, 30*us })
		s.at(us, 0, trace.Entered, 0, of(netlock.Acquire, 1, 1), false)
		s.at(500*ns, 0, trace.Left, 0, of(netlock.Acquire, 1, 1), true)
		s.at(us, 0, trace.Entered, 1, of(netlock.Acquire, 2, 1), false)
		s.at(500*ns, 0, trace.Left, 1, marked(of(netlock.Acquire, 2, 1), netlock.BufferOnly), false, toServer)
		s.at(us, 0, trace.Entered, 2, of(netlock.Acquire, 3, 2), false)
		s.at(us, 0, trace.Entered, 0, of(netlock.Release, 1, 1), false)
		push := netlock.Header{Op: netlock.PushRequest, Lock: 1, Priority: 1, Sent: 1, Avail: 2}
		for i := range c.asks {
			s.at(500*ns+clock.Duration(min(i, 1))*30*us, 0, trace.Left, 0, push, false, toServer)
		}
		r := s.Finish(s.now.Add(c.last))
		v := violated(&r)
		if len(v) != len(c.rules) || len(c.rules) > 0 && v[c.rules[0]] == 0 {
			t.Errorf("asked %d times, the last time %v before the end: %v", c.asks, c.last, describe(&r))
		}
	}
}

// A switch that has a lock which may move asks for what the server has of it, or gives the lock away, as soon as its
// own queue is empty and its control plane has seen that.
func TestAMovingLockIsNotLeftIdle(t *testing.T) {
	const never = clock.Duration(0)
	for _, c := range []struct {
		after clock.Duration
		mark  netlock.Mark
		rules []string
	}{
		{700 * ns, netlock.Unmarked, nil}, {150 * us, netlock.Unmarked, nil}, {150 * us, netlock.Owned, nil},
		{500 * us, netlock.Unmarked, []string{lock.RuleLost}}, {500 * us, netlock.Owned, []string{lock.RuleLost}},
		{never, netlock.Unmarked, []string{lock.RuleLost}},
	} {
		s, push := moving(t)
		s.facts.Lossless, s.switches[0].Reaction = true, 100*us
		empty := push
		empty.Op, empty.Last = netlock.PushEmpty, true
		s.at(us, 0, trace.Entered, 0, empty, true, toServer)
		s.at(700*ns, 0, trace.Left, 1, header(netlock.Acquire, 1, 2), true)
		s.at(us, 0, trace.Entered, 2, header(netlock.Acquire, 1, 3), false)
		s.at(500*ns, 0, trace.Left, 2, marked(header(netlock.Acquire, 1, 3), netlock.BufferOnly), false, toServer)
		s.at(us, 0, trace.Entered, 1, header(netlock.Release, 1, 2), false)
		asks := netlock.Header{Op: netlock.PushRequest, Lock: 1, Sent: 8, Index: 7, Avail: 4, Mark: c.mark}
		if c.after == never {
			s.passes(500 * us)
		} else {
			s.at(c.after, 0, trace.Left, 0, asks, false, toServer)
		}
		r := s.Finish(s.now.Add(10 * us))
		if v := violated(&r); len(v) != len(c.rules) || len(c.rules) > 0 && v[c.rules[0]] == 0 {
			t.Errorf("asked after %v with mark %v: %v", c.after, c.mark, describe(&r))
		}
	}
}
