package lock

import (
	"testing"

	"candela.dev/candela/analyzers"
	"candela.dev/candela/clock"
	"candela.dev/candela/lock"
	"candela.dev/candela/packet/netlock"
	"candela.dev/candela/trace"
)

// A link that gets slower keeps its port busy for longer, and one that gets shorter keeps the next frame back: grants
// that wait for that are not late.
func TestGrantsWaitForALinkThatHasChanged(t *testing.T) {
	for name, c := range map[string]struct {
		link analyzers.Relink
		want []string
	}{
		"slower":  {analyzers.Relink{Rate: 4 * clock.Gbps, Framing: 24}, nil},
		"faster":  {analyzers.Relink{Rate: 100 * clock.Gbps, Framing: 24}, []string{lock.RuleDelay}},
		"shorter": {analyzers.Relink{Rate: 100 * clock.Gbps, Framing: 24, Shorter: 21 * us}, nil},
		"shorter by less": {analyzers.Relink{Rate: 100 * clock.Gbps, Framing: 24, Shorter: 9 * us},
			[]string{lock.RuleDelay}},
		"longer": {analyzers.Relink{Rate: 100 * clock.Gbps, Framing: 24, Shorter: -30 * us},
			[]string{lock.RuleDelay}},
	} {
		t.Run(name, func(t *testing.T) {
			s := newScript(t, nil)
			s.fill(1, 1)
			s.passes(us)
			s.switches[0].ports[1].Relinks(s.now, &c.link)
			if c.link.Shorter == 0 {
				s.fill(1, 8) // for 24 us if the link is slower
			}
			s.at(100*ns, 0, trace.Entered, 1, header(netlock.Acquire, 1, 1), false)
			s.at(20*us-100*ns, 0, trace.Left, 1, header(netlock.Acquire, 1, 1), true)
			s.want(c.want...)
		})
	}
}
