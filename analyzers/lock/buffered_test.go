package lock

import (
	"testing"

	"candela.dev/candela/clock"
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

// A switch asks for what is buffered as its queue is empty: also as a lease ends while the grant waits at its port,
// and the question waits at the server's.
func TestALeaseMayEndBeforeAQuestionThatWaits(t *testing.T) {
	for _, frames := range []int{100, 10} {
		s := newScript(t, func(n *lock.Network) {
			n.Switches[0].Locks, n.Switches[0].Lease, n.Switches[0].Poll = map[uint32]int{1: 1}, 20*us, 2*us
		})
		s.fill(1, 200) // for 60 us
		s.at(us, 0, trace.Entered, 1, header(netlock.Acquire, 1, 1), false)
		s.at(us, 0, trace.Entered, 2, header(netlock.Acquire, 1, 2), false)
		s.at(500*ns, 0, trace.Left, 2, marked(header(netlock.Acquire, 1, 2), netlock.BufferOnly), false, toServer)
		s.fill(3, frames) // for 30 or 3 us
		s.at(clock.Duration(frames)*304*ns, 0, trace.Left, 2,
			netlock.Header{Op: netlock.PushRequest, Lock: 1, Avail: 1, Sent: 1}, false, toServer)
		back := header(netlock.PushBack, 1, 2)
		back.Index, back.Sent, back.Received, back.Last = 1, 1, 1, true
		s.at(us, 0, trace.Entered, 2, back, true, toServer)
		s.at(500*ns, 0, trace.Left, 2, header(netlock.PushBack, 1, 2), true)
		s.at(us, 0, trace.Entered, 2, netlock.Header{Op: netlock.Release, Lock: 1, Transaction: 2}, false)
		s.at(60900*ns-clock.Duration(s.now), 0, trace.Left, 1, header(netlock.Acquire, 1, 1), true)
		if frames == 100 {
			s.want()
		} else {
			s.want(lock.RuleSingleQueue, lock.RuleOrder)
		}
	}
}

// By the formula of section 6.2 a switch takes back what it knew to be lost if the server counts what was sent later.
func TestASwitchMayTakeBackWhatItKnewToBeLost(t *testing.T) {
	for _, later := range []bool{true, false} {
		s := newScript(t, func(n *lock.Network) { n.Switches[0].Locks = map[uint32]int{1: 2} })
		client := func(tid uint32) int { return int(tid % 3) }
		asks := func(tid uint32) { s.at(us, 0, trace.Entered, client(tid), header(netlock.Acquire, 1, tid), false) }
		granted := func(tid uint32) { s.at(700*ns, 0, trace.Left, client(tid), header(netlock.Acquire, 1, tid), true) }
		releases := func(tid uint32) { s.at(us, 0, trace.Entered, client(tid), header(netlock.Release, 1, tid), false) }
		buffered := func(tid uint32) {
			h := marked(header(netlock.Acquire, 1, tid), netlock.BufferOnly)
			s.at(500*ns, 0, trace.Left, client(tid), h, false, toServer)
		}
		overflows := func(first uint32, sent uint64) { // with the third
			asks(first)
			s.at(500*ns, 0, trace.Left, client(first), header(netlock.Acquire, 1, first), true)
			asks(first + 1)
			asks(first + 2)
			buffered(first + 2)
			releases(first)
			granted(first + 1)
			releases(first + 1)
			s.at(500*ns, 0, trace.Left, 0, netlock.Header{Op: netlock.PushRequest, Lock: 1, Avail: 2, Sent: sent}, false,
				toServer)
		}
		returned := func(tid uint32, index, received uint64, last bool) {
			h := header(netlock.PushBack, 1, tid)
			h.Sent, h.Index, h.Received, h.Last = 2, index, received, last
			s.at(us, 0, trace.Entered, client(tid), h, true, toServer)
		}
		overflows(1, 1) // 3 is lost
		s.at(us, 0, trace.Entered, 0, netlock.Header{Op: netlock.PushEmpty, Lock: 1, Sent: 1, Last: true}, true, toServer)
		overflows(4, 2)
		if later {
			asks(7)
			buffered(7)
			returned(6, 1, 2, false)
		} else {
			returned(6, 1, 1, true)
		}
		s.at(500*ns, 0, trace.Left, client(6), header(netlock.PushBack, 1, 6), true)
		if later {
			returned(7, 2, 2, true)
			releases(6)
			s.at(700*ns, 0, trace.Left, client(7), header(netlock.PushBack, 1, 7), true)
		}
		asks(8)
		buffered(8)
		if later {
			s.want()
		} else {
			s.want(lock.RuleOccupancy)
		}
	}
}

// What a switch has decided to buffer may wait at the server's port. Until that is back or lost it buffers what comes.
func TestARequestGoesAfterOneThatWaitsForTheServersPort(t *testing.T) {
	for _, waits := range []bool{true, false} {
		s := newScript(t, func(n *lock.Network) { n.Switches[0].Locks = map[uint32]int{1: 2} })
		asks := func(client int, tid uint32) {
			s.at(us, 0, trace.Entered, client, header(netlock.Acquire, 1, tid), false)
		}
		granted := func(client int, tid uint32) {
			s.at(500*ns, 0, trace.Left, client, header(netlock.Acquire, 1, tid), true)
		}
		releases := func(client int, tid uint32) {
			s.at(us, 0, trace.Entered, client, header(netlock.Release, 1, tid), false)
		}
		buffered := func(client int, tid uint32) {
			h := marked(header(netlock.Acquire, 1, tid), netlock.BufferOnly)
			s.at(500*ns, 0, trace.Left, client, h, false, toServer)
		}
		asks(0, 1)
		granted(0, 1)
		asks(2, 4)
		if asks(1, 2); waits {
			s.fill(3, 100) // for 30 us
		} else {
			buffered(1, 2)
		}
		releases(0, 1)
		s.at(700*ns, 0, trace.Left, 2, header(netlock.Acquire, 1, 4), true)
		if releases(2, 4); waits {
			asks(2, 3)
			s.now = s.now.Add(24 * us)
			buffered(1, 2) // and is lost
		}
		s.at(20*ns, 0, trace.Left, 1, netlock.Header{Op: netlock.PushRequest, Lock: 1, Avail: 2, Sent: 1}, false, toServer)
		s.fill(3, 20)
		s.at(us, 0, trace.Entered, 1, netlock.Header{Op: netlock.PushEmpty, Lock: 1, Sent: 1, Last: true}, true, toServer)
		if !waits {
			asks(2, 3)
		}
		s.now = s.now.Add(5 * us)
		buffered(2, 3)
		s.at(us, 0, trace.Left, 1, netlock.Header{Op: netlock.PushRequest, Lock: 1, Avail: 2, Sent: 2}, false, toServer)
		if waits {
			s.want()
		} else {
			s.want(lock.RuleOccupancy)
		}
	}
}
