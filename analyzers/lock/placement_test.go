package lock

import (
	"testing"

	"candela.dev/candela/lock"
	"candela.dev/candela/packet/netlock"
	"candela.dev/candela/trace"
)

// What switch and server tell each other as a lock moves shows who may grant it; a packet that waited at its port, or
// that says again what has been said, shows nothing.
func TestWhereALockLivesIsWhatSwitchAndServerSay(t *testing.T) {
	type step func(s *script)
	port3 := func(p *Packet) { p.Port = 3 }
	push := func(mark netlock.Mark, number uint64) step {
		return func(s *script) {
			s.at(us, 0, trace.Left, 0, netlock.Header{Op: netlock.PushRequest, Lock: 1, Mark: mark, Sent: number,
				Index: number}, false, port3)
		}
	}
	says := func(mark netlock.Mark, number uint64) step {
		return func(s *script) {
			s.at(us, 0, trace.Entered, 0, netlock.Header{Op: netlock.PushEmpty, Lock: 1, Mark: mark, Sent: number,
				Index: number, Last: true}, true, port3)
		}
	}
	asks := func(tid uint32) step {
		return func(s *script) { s.at(us, 0, trace.Entered, int(tid), header(netlock.Acquire, 1, tid), false) }
	}
	forwarded := func(tid uint32) step {
		return func(s *script) {
			h := header(netlock.Acquire, 1, tid)
			h.Mark = netlock.Owned
			s.at(500*ns, 0, trace.Left, int(tid), h, false, port3)
		}
	}
	buffered := func(tid uint32, move uint64) step {
		return func(s *script) {
			h := header(netlock.Acquire, 1, tid)
			h.Mark, h.Sent = netlock.BufferOnly, move
			s.at(500*ns, 0, trace.Left, int(tid), h, false, port3)
		}
	}
	bySwitch := func(tid uint32) step {
		return func(s *script) {
			s.at(500*ns, 0, trace.Left, int(tid), header(netlock.Acquire, 1, tid), true)
			s.at(us, 0, trace.Entered, int(tid), header(netlock.Release, 1, tid), false)
		}
	}
	byServer := func(tid uint32) step {
		return func(s *script) {
			s.at(us, 0, trace.Entered, int(tid), header(netlock.GrantFromServer, 1, tid), true, port3)
			s.at(500*ns, 0, trace.Left, int(tid), header(netlock.GrantFromServer, 1, tid), true)
			s.at(us, 0, trace.Entered, int(tid), header(netlock.Release, 1, tid), false)
			s.at(500*ns, 0, trace.Left, int(tid), header(netlock.Release, 1, tid), false, toServer)
		}
	}
	take, taken := push(netlock.Failover, 5), says(netlock.Failover, 5)
	leave, left := push(netlock.Owned, 5), says(netlock.Owned, 5)
	back := push(netlock.Failover, 9)
	busy := func(s *script) { s.fill(2, 40) } // for 12 us
	wait := func(s *script) { s.fill(3, 40) }
	outage := func(s *script) {
		s.Stopping(s.now, 0)
		s.Started(s.now.Add(us), 0)
	}
	gap := func(s *script) { s.Gap(s.now, 0) }
	for name, c := range map[string]struct {
		steps  []step
		guilty bool
	}{
		"it is the server's":              {[]step{asks(1), forwarded(1), byServer(1)}, false},
		"the switch never got it":         {[]step{asks(1), bySwitch(1)}, true},
		"the switch has it":               {[]step{take, taken, asks(1), bySwitch(1)}, false},
		"the switch does not wait for it": {[]step{take, asks(1), bySwitch(1), taken}, true},
		"the server has not given it":     {[]step{asks(1), forwarded(1), take, byServer(1), taken}, false},
		"the server has given it":         {[]step{asks(1), forwarded(1), take, taken, byServer(1)}, true},
		"the switch sends its own away":   {[]step{take, taken, asks(1), forwarded(1)}, true},
		"the switch sent it before":       {[]step{asks(1), take, forwarded(1), byServer(1), taken}, false},
		"the switch has given it":         {[]step{take, taken, leave, left, asks(2), bySwitch(2)}, true},
		"the server has got it":           {[]step{take, taken, leave, left, asks(1), forwarded(1), byServer(1)}, false},
		"the server says again":           {[]step{take, taken, leave, taken, left, asks(1), byServer(1)}, false},
		"a grant waits at its port":       {[]step{take, taken, busy, asks(2), leave, left, bySwitch(2)}, false},
		"it waits until the lock is back": {[]step{take, taken, busy, asks(2), leave, left, back, bySwitch(2)}, false},
		"the server was to buffer it":     {[]step{take, asks(1), buffered(1, 5), byServer(1)}, true},
		"the server was to buffer all copies": {[]step{take, asks(1), buffered(1, 5), asks(1), buffered(1, 5), byServer(1)},
			true},
		"it was not told of the move as it got one": {[]step{asks(1), buffered(1, 0), take, asks(1), buffered(1, 5),
			byServer(1)}, false},
		"the server was to buffer it before an outage": {[]step{take, asks(1), buffered(1, 5), outage, byServer(1)}, true},
		"the server was to buffer it for the move before one": {[]step{take, asks(1), buffered(1, 5), outage, back,
			byServer(1)}, true},
		"it is its own by then": {[]step{take, asks(1), buffered(1, 5), taken, leave, left, back, byServer(1)},
			false},
		"the switch says again that it has given it": {[]step{take, taken, leave, left, leave}, true},
		"what it said waits at its port":             {[]step{take, taken, leave, wait, left, leave}, false},
		"it gives it for the second time": {[]step{take, taken, leave, left, back, says(netlock.Failover, 9),
			push(netlock.Owned, 9), says(netlock.Owned, 9)}, false},
		"it had a copy":                    {[]step{asks(1), forwarded(1), take, asks(1), buffered(1, 5), byServer(1)}, false},
		"it moved while packets were lost": {[]step{take, gap, asks(1), bySwitch(1)}, false},
	} {
		t.Run(name, func(t *testing.T) {
			s := newScript(t, func(n *lock.Network) {
				f := &n.Switches[0]
				f.Placed, f.Moves, f.Marks = false, true, true
			})
			for _, do := range c.steps {
				do(s)
			}
			if c.guilty {
				s.want(lock.RulePlacement)
			} else {
				s.want()
			}
		})
	}
}
