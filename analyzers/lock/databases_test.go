package lock

import (
	"net/netip"
	"testing"

	"candela.dev/candela/lock"
	"candela.dev/candela/packet/netlock"
	"candela.dev/candela/trace"
)

// A database answers what it is asked, by a grant or by the client, once each time.
func TestADatabaseAnswersWhatItIsAsked(t *testing.T) {
	database := netip.MustParseAddr("10.8.8.8")
	toDatabase := func(p *Packet) { p.Dst, p.Port = database, 3 }
	asks := header(netlock.Acquire, 1, 1)
	shared, other := asks, asks
	shared.Mode, other.Transaction = netlock.Shared, 2
	for name, c := range map[string]struct {
		times   int
		answers []netlock.Header
		gap     bool
		rules   []string
	}{
		"once":             {1, []netlock.Header{asks}, false, nil},
		"not yet":          {1, nil, false, nil},
		"asked twice":      {2, []netlock.Header{asks, asks}, false, nil},
		"twice":            {1, []netlock.Header{asks, asks}, false, []string{lock.RuleOneTrip}},
		"another":          {1, []netlock.Header{other}, false, []string{lock.RuleOneTrip}},
		"in another mode":  {1, []netlock.Header{shared}, false, []string{lock.RuleOneTrip}},
		"asked in the gap": {1, []netlock.Header{asks, asks}, true, nil},
	} {
		t.Run(name, func(t *testing.T) {
			s := newScript(t, func(n *lock.Network) {
				n.Switches[0].OneRTT, n.Databases = true, []netip.Addr{database}
			})
			s.at(us, 0, trace.Entered, 0, asks, false)
			s.at(500*ns, 0, trace.Left, 0, asks, false, toDatabase)
			if c.gap {
				s.Gap(s.now, 0)
			}
			for range c.times - 1 { // the client asks itself
				s.at(us, 0, trace.Entered, 0, marked(asks, netlock.Owned), false, toDatabase)
				s.at(500*ns, 0, trace.Left, 0, marked(asks, netlock.Owned), false, toDatabase)
			}
			for _, h := range c.answers {
				s.at(us, 0, trace.Entered, 0, h, true, func(p *Packet) { p.Src = database })
				s.at(500*ns, 0, trace.Left, 0, h, true, func(p *Packet) { p.Src = database })
			}
			s.want(c.rules...)
		})
	}
}
