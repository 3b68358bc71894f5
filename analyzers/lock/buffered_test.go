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
