package switchtest

import (
	"candela.dev/candela/clock"
	"candela.dev/candela/orchestrator/config"
	"candela.dev/candela/testbeds/virtual/fabric"
	"candela.dev/candela/trace"
)

// captureGrain is the resolution of captures' times. Their times at NICs are off by that at the most, in either direction.
const captureGrain = clock.Nanosecond

// nicTimes turns times of captures at switches into those at the NICs of the hosts. Between a NIC and its switch is a link that the test
// describes: it loses nothing and keeps the order, so that only its time has to be subtracted or added.
type nicTimes struct {
	links   []config.LinkSpec // of hosts
	latency clock.Duration    // of switches, which passes after the tap behind them
	latest  [2][]clock.Time   // by way and host: frames of one way keep their order
	end     clock.Time        // up to when the run was observed for certain: it goes on after its flows have ended
}

func newNICTimes(r *run) nicTimes {
	n := nicTimes{latency: r.plan.Spec.Switch.Latency, end: r.end}
	for h := range r.plan.Test.Topology.HostCount() {
		n.links = append(n.links, r.plan.Test.Topology.HostLinkOf(h))
	}
	for i := range n.latest {
		n.latest[i] = make([]clock.Time, len(n.links))
	}
	return n
}

// hostOf returns the host whose link a frame of stages()[stage] is on: its sender, or where it goes. false: no host of the test.
func (n *nicTimes) hostOf(stage int, frame *trace.Frame) (fabric.HostID, bool) {
	mac := frame.Data[:min(len(frame.Data), 6)]
	if stage == 0 {
		mac = frame.Data[len(mac):min(len(frame.Data), 12)]
	}
	return hostOfMAC(mac, len(n.links))
}

// at returns when a frame left the NIC of a host or reached it, and how long it was on the link.
func (n *nicTimes) at(stage int, frame *trace.Frame, host fabric.HostID) (at clock.Time, takes clock.Duration) {
	link := &n.links[host]
	at, takes = clock.Time(clock.Duration(frame.TimeNS)*clock.Nanosecond), link.Rate.Serialise(frame.OrigLen+link.Framing)
	n.end = max(n.end, at)
	if stage == 0 { // it has come in whole: the last bit of it left the NIC a link's delay before
		at = at.Add(captureGrain - link.Delay - takes)
	} else {
		at = at.Add(takes + link.Delay + n.latency)
	}
	at = max(at, n.latest[stage][host])
	n.latest[stage][host] = at
	return at, takes
}

// until returns the time up to which everything that left a host has reached its switch before the observation ended; size is that of the
// largest frame.
func (n *nicTimes) until(host, size int) clock.Time {
	link := &n.links[host]
	return n.end.Add(-link.Delay - link.Rate.Serialise(size+link.Framing))
}
