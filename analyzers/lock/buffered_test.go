package lock

import (
	"testing"

	"candela.dev/candela/lock"
	"candela.dev/candela/packet/netlock"
	"candela.dev/candela/trace"
)

// What the server buffers is no excuse for another request that the switch neither grants nor sends there, unless that
// may wait at the server's port.
func TestARequestIsLostAlsoIfTheServerBuffersOthers(t *testing.T) {
	for _, busy := range []bool{false, true} {
		s := newScript(t, func(n *lock.Network) { n.Switches[0].Locks = map[uint32]int{1: 1} })
		parked := shared(2, 0)
		parked.Mark = netlock.BufferOnly
		s.at(us, 0, trace.Entered, 0, header(netlock.Acquire, 1, 1), false)
		s.at(500*ns, 0, trace.Left, 0, header(netlock.Acquire, 1, 1), true)
		s.at(us, 0, trace.Entered, 1, shared(2, 0), false)
		s.at(500*ns, 0, trace.Left, 1, parked, false, func(p *Packet) { p.Port = 3 })
		if busy {
			s.fill(3, 700) // for 210 us, which is longer than the test
		}
		s.at(us, 0, trace.Entered, 2, shared(3, 0), false)
		s.at(us, 0, trace.Entered, 0, header(netlock.Release, 1, 1), false)
		if busy {
			s.want()
		} else {
			s.want(lock.RuleLost)
		}
	}
}

// A server counts what it has received, also after it was asked: then the switch does not learn what was lost before,
// and goes on to send what comes to the server.
func TestALossBesideLaterArrivalsIsNotKnownToTheSwitch(t *testing.T) {
	for _, later := range []bool{true, false} {
		s := newScript(t, func(n *lock.Network) { n.Switches[0].Locks = map[uint32]int{1: 2} })
		port3 := func(p *Packet) { p.Port = 3 }
		asks := func(tid uint32) { s.at(us, 0, trace.Entered, int(tid)-1, header(netlock.Acquire, 1, tid), false) }
		granted := func(tid uint32) { s.at(500*ns, 0, trace.Left, int(tid)-1, header(netlock.Acquire, 1, tid), true) }
		releases := func(tid uint32) { s.at(us, 0, trace.Entered, int(tid)-1, header(netlock.Release, 1, tid), false) }
		buffered := func(tid uint32) {
			h := header(netlock.Acquire, 1, tid)
			h.Mark = netlock.BufferOnly
			s.at(500*ns, 0, trace.Left, int(tid)-1, h, false, port3)
		}
		asks(1)
		granted(1)
		asks(2)
		asks(3)
		buffered(3) // and lost on the way
		releases(1)
		s.at(700*ns, 0, trace.Left, 1, header(netlock.Acquire, 1, 2), true)
		releases(2)
		s.at(500*ns, 0, trace.Left, 0, netlock.Header{Op: netlock.PushRequest, Lock: 1, Avail: 2, Sent: 1}, false, port3)
		if later {
			asks(4)
			buffered(4)
			back := header(netlock.PushBack, 1, 4)
			back.Sent, back.Index, back.Received, back.Last = 1, 1, 1, true
			s.at(us, 0, trace.Entered, 3, back, true, port3)
			back.Sent, back.Index, back.Received, back.Last = 0, 0, 0, false
			s.at(500*ns, 0, trace.Left, 3, back, true)
		} else {
			s.at(us, 0, trace.Entered, 3, netlock.Header{Op: netlock.PushEmpty, Lock: 1, Sent: 1, Last: true}, true, port3)
			asks(4)
			granted(4)
		}
		s.at(us, 0, trace.Entered, 0, header(netlock.Acquire, 1, 5), false)
		h := header(netlock.Acquire, 1, 5)
		h.Mark = netlock.BufferOnly
		s.at(500*ns, 0, trace.Left, 0, h, false, port3)
		if later {
			s.want()
		} else {
			s.want(lock.RuleOccupancy)
		}
	}
}
