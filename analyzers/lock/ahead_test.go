package lock

import (
	"testing"

	"candela.dev/candela/lock"
	"candela.dev/candela/packet/netlock"
	"candela.dev/candela/trace"
)

// What waits at the server comes first, until the switch has heard that it is back or lost: also if its client has
// given up, or asks again, and whatever of it was lost on the way.
func TestNobodyPassesWhatTheServerBuffers(t *testing.T) {
	type step func(s *script)
	port3 := func(p *Packet) { p.Port = 3 }
	asks := func(tid uint32) step {
		return func(s *script) { s.at(us, 0, trace.Entered, int(tid), header(netlock.Acquire, 1, tid), false) }
	}
	granted := func(tid uint32) step {
		return func(s *script) { s.at(500*ns, 0, trace.Left, int(tid), header(netlock.Acquire, 1, tid), true) }
	}
	buffered := func(tid uint32) step {
		return func(s *script) {
			h := header(netlock.Acquire, 1, tid)
			h.Mark = netlock.BufferOnly
			s.at(500*ns, 0, trace.Left, int(tid), h, false, port3)
		}
	}
	releases := func(tid uint32) step {
		return func(s *script) { s.at(us, 0, trace.Entered, int(tid), header(netlock.Release, 1, tid), false) }
	}
	asked := func(s *script) {
		s.at(500*ns, 0, trace.Left, 2, netlock.Header{Op: netlock.PushRequest, Lock: 1, Avail: 1, Sent: 1}, false, port3)
	}
	lost := func(s *script) {
		s.at(us, 0, trace.Entered, 2, netlock.Header{Op: netlock.PushEmpty, Lock: 1, Sent: 1, Last: true}, true, port3)
	}
	back := func(s *script) {
		h := header(netlock.PushBack, 1, 2)
		h.Index, h.Sent, h.Received, h.Last = 1, 1, 1, true
		s.at(us, 0, trace.Entered, 2, h, true, port3)
	}
	gone := func(s *script) { // the switch has lost its registers
		s.Stopping(s.now.Add(us), 0)
		s.Started(s.now.Add(2*us), 0)
		s.now = s.now.Add(2 * ms)
	}
	another := func(s *script) {
		for _, do := range []step{asks(3), granted(3), releases(3)} {
			do(s)
		}
	}
	queue, both := []string{lock.RuleSingleQueue}, []string{lock.RuleSingleQueue, lock.RuleLost}
	for name, c := range map[string]struct {
		then []step // after request 1 holds the lock, 2 is buffered, and 1 is released
		want []string
	}{
		"another one comes":                 {[]step{another}, both},
		"it asks again":                     {[]step{asks(2), granted(2), releases(2)}, queue},
		"it asks again twice":               {[]step{asks(2), buffered(2), asks(2), granted(2), releases(2)}, queue},
		"another one comes and asks again":  {[]step{asks(3), asks(3), granted(3), releases(3)}, queue},
		"the switch hears that it was lost": {[]step{asked, lost, another}, nil},
		"it comes back":                     {[]step{asked, back, granted(2), releases(2), another}, nil},
		"it asks again and comes back":      {[]step{asks(2), buffered(2), asked, back, granted(2), releases(2)}, nil},
		"the switch has lost its registers": {[]step{gone, another}, nil},
	} {
		t.Run(name, func(t *testing.T) {
			s := newScript(t, func(n *lock.Network) { n.Switches[0].Locks = map[uint32]int{1: 1} })
			for _, do := range append([]step{asks(1), granted(1), asks(2), buffered(2), releases(1)}, c.then...) {
				do(s)
			}
			s.want(c.want...)
		})
	}
}
