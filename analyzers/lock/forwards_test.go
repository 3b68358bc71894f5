package lock

import (
	"net/netip"
	"testing"

	"candela.dev/candela/lock"
	"candela.dev/candela/packet/netlock"
	"candela.dev/candela/trace"
)

// What leaves for a lock server is what came, once, for the server that the client had asked.
func TestWhatIsForwardedIsWhatCame(t *testing.T) {
	asks := header(netlock.Acquire, 5, 1)
	asks.Priority, asks.Tenant = 2, 3
	same := func(*netlock.Header) {}
	for name, c := range map[string]struct {
		change func(*netlock.Header)
		to     func(*Packet)
		times  int
		rules  []string
	}{
		"as it came":     {same, toServer, 1, nil},
		"twice":          {same, toServer, 2, []string{lock.RuleOnce}},
		"other priority": {func(h *netlock.Header) { h.Priority = 0 }, toServer, 1, []string{lock.RuleOnce}},
		"other tenant":   {func(h *netlock.Header) { h.Tenant = 0 }, toServer, 1, []string{lock.RuleOnce}},
		"other server": {same, func(p *Packet) { p.Dst, p.Port = netip.MustParseAddr("10.9.9.8"), 3 }, 1,
			[]string{lock.RulePlacement}},
	} {
		t.Run(name, func(t *testing.T) {
			s := newScript(t, nil)
			s.at(us, 0, trace.Entered, 0, asks, false)
			leaves := marked(asks, netlock.Owned)
			c.change(&leaves)
			for range c.times {
				s.at(500*ns, 0, trace.Left, 0, leaves, false, c.to)
			}
			s.want(c.rules...)
		})
	}
}

// A request that comes twice may leave twice, and a client that asks another server later may mean either.
func TestCopiesAreForwarded(t *testing.T) {
	s := newScript(t, nil)
	asks := header(netlock.Acquire, 5, 1)
	other := func(p *Packet) { p.Dst = netip.MustParseAddr("10.9.9.8") }
	s.at(us, 0, trace.Entered, 0, asks, false)
	s.at(500*ns, 0, trace.Left, 0, marked(asks, netlock.Owned), false, toServer)
	s.at(us, 0, trace.Entered, 0, asks, false, other)
	s.at(500*ns, 0, trace.Left, 0, marked(asks, netlock.Owned), false, toServer)
	s.want()
}

// What a server returns has the priority that it was sent with.
func TestWhatIsReturnedHasItsPriority(t *testing.T) {
	for _, priority := range []uint8{2, 1} {
		s := newScript(t, func(n *lock.Network) { n.Switches[0].Priorities, n.Switches[0].PushRetry = 2, 30*us })
		of := func(op netlock.Op, tid uint32) netlock.Header {
			h := header(op, 1, tid)
			h.Priority = 2
			return h
		}
		s.at(us, 0, trace.Entered, 0, of(netlock.Acquire, 1), false)
		s.at(500*ns, 0, trace.Left, 0, of(netlock.Acquire, 1), true)
		s.at(us, 0, trace.Entered, 1, of(netlock.Acquire, 2), false)
		s.at(500*ns, 0, trace.Left, 1, marked(of(netlock.Acquire, 2), netlock.BufferOnly), false, toServer)
		s.at(us, 0, trace.Entered, 0, of(netlock.Release, 1), false)
		push := netlock.Header{Op: netlock.PushRequest, Lock: 1, Priority: 2, Sent: 1, Avail: 2}
		s.at(500*ns, 0, trace.Left, 0, push, false, toServer)
		back := of(netlock.PushBack, 2)
		back.Priority, back.Index, back.Sent, back.Received, back.Last = priority, 1, 1, 1, true
		s.at(us, 0, trace.Entered, 1, back, true, func(p *Packet) { p.Port = 3 })
		if priority == 2 {
			s.at(500*ns, 0, trace.Left, 1, of(netlock.PushBack, 2), true)
		}
		s.at(us, 0, trace.Entered, 1, of(netlock.Release, 2), false)
		if priority == 2 {
			s.want()
		} else if r := s.Finish(s.now); violated(&r)[lock.RuleOnce] == 0 {
			t.Errorf("another priority: %v", describe(&r))
		}
	}
}

// A release that is sent to a server is for a lock of the server.
func TestReleasesAreNotBuffered(t *testing.T) {
	for mark, rules := range map[netlock.Mark][]string{netlock.Owned: nil, netlock.BufferOnly: {lock.RulePlacement}} {
		s := newScript(t, nil)
		s.at(us, 0, trace.Entered, 0, header(netlock.Release, 5, 1), false)
		s.at(500*ns, 0, trace.Left, 0, marked(header(netlock.Release, 5, 1), mark), false, toServer)
		s.want(rules...)
	}
}

// Each lock has one database.
func TestGrantsGoToTheDatabaseOfTheLock(t *testing.T) {
	databases := []netip.Addr{netip.MustParseAddr("10.8.8.8"), netip.MustParseAddr("10.8.8.9")}
	for i, database := range databases {
		for _, op := range []netlock.Op{netlock.Acquire, netlock.GrantFromServer} {
			s := newScript(t, func(n *lock.Network) { n.Switches[0].OneRTT, n.Databases = true, databases })
			id := uint32(1)
			if op == netlock.GrantFromServer {
				id = 5
			}
			s.at(0, 0, trace.Entered, 0, header(netlock.Acquire, id, 1), false)
			if op == netlock.GrantFromServer {
				s.at(500*ns, 0, trace.Left, 0, marked(header(netlock.Acquire, id, 1), netlock.Owned), false, toServer)
			}
			s.at(500*ns, 0, trace.Left, 0, header(op, id, 1), false, func(p *Packet) { p.Dst, p.Port = database, 3 })
			s.at(us, 0, trace.Entered, 0, header(netlock.Release, id, 1), false)
			if op == netlock.GrantFromServer {
				s.at(500*ns, 0, trace.Left, 0, header(netlock.Release, id, 1), false, toServer)
			}
			if i == 1 { // as both numbers are odd
				s.want()
			} else {
				s.want(lock.RuleOneTrip)
			}
		}
	}
}

// What one switch has marked only passes the next one, which has the lock, too.
func TestWhatAnotherSwitchHasMarkedPasses(t *testing.T) {
	s := newScript(t, func(n *lock.Network) {
		n.Switches = append(n.Switches, n.Switches[0])
		n.Switches[1].Ports = append([]lock.Port{}, n.Switches[0].Ports...)
		n.Switches[0].Ports[3].Trunk, n.Switches[1].Ports[2].Trunk = true, true
		n.Switches[0].Locks = map[uint32]int{1: 1}
	})
	trunk := func(p *Packet) { p.Port = 2 }
	s.at(us, 0, trace.Entered, 0, header(netlock.Acquire, 1, 1), false)
	s.at(500*ns, 0, trace.Left, 0, header(netlock.Acquire, 1, 1), true)
	s.at(us, 0, trace.Entered, 1, header(netlock.Acquire, 1, 2), false)
	buffered := marked(header(netlock.Acquire, 1, 2), netlock.BufferOnly)
	s.at(500*ns, 0, trace.Left, 1, buffered, false, toServer)
	s.at(us, 1, trace.Entered, 1, buffered, false, trunk)
	s.at(500*ns, 1, trace.Left, 1, buffered, false, toServer)
	s.want()
}
