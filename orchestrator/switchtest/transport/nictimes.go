package transport

import (
	"slices"

	"candela.dev/candela/clock"
	"candela.dev/candela/orchestrator/config"
	"candela.dev/candela/testbeds/virtual/fabric"
)

// Grain is the resolution of captures' times. Their times at NICs are off by that at the most, in either direction.
const Grain = clock.Nanosecond

// NICTimes turns times of captures at switches into those at the NICs of the hosts. Between a NIC and its switch is a
// link that the test describes: it loses nothing and keeps the order, so that only its time has to be subtracted or
// added.
type NICTimes struct {
	links   []config.LinkSpec // of hosts
	latency clock.Duration    // of switches, which passes after the tap behind them
	latest  [2][]clock.Time   // by way and host: frames of one way keep their order
	end     clock.Time        // up to when the run was observed for certain: it goes on after its flows have ended
}

func newNICTimes(t *Trial) NICTimes {
	n := NICTimes{latency: t.Latency, end: t.End}
	for h := range t.Test.Topology.HostCount() {
		n.links = append(n.links, t.Test.Topology.HostLinkOf(h))
	}
	for i := range n.latest {
		n.latest[i] = make([]clock.Time, len(n.links))
	}
	return n
}

// HostOf returns the host whose link a frame is on: of a single switch its sender, or where it goes. false: no host
// of the test.
func (n *NICTimes) HostOf(f *Frame) (fabric.HostID, bool) {
	if f.Known {
		return f.Host, true
	}
	mac := f.Data[:min(len(f.Data), 6)]
	if !f.Behind {
		mac = f.Data[len(mac):min(len(f.Data), 12)]
	}
	return hostOfMAC(mac, len(n.links))
}

// At returns when a frame left the NIC of a host or reached it, and how long it was on the link.
func (n *NICTimes) At(f *Frame, host fabric.HostID) (at clock.Time, takes clock.Duration) {
	link := &n.links[host]
	at, takes = clock.Time(clock.Duration(f.TimeNS)*clock.Nanosecond), link.Rate.Serialise(f.OrigLen+link.Framing)
	n.end = max(n.end, at)
	way := 0
	if f.Behind {
		way, at = 1, at.Add(takes+link.Delay+n.latency)
	} else { // it has come in whole: the last bit of it left the NIC a link's delay before
		at = at.Add(Grain - link.Delay - takes)
	}
	at = max(at, n.latest[way][host])
	n.latest[way][host] = at
	return at, takes
}

// Until returns the time up to which everything that left a host has reached its switch before the observation ended;
// size is that of the largest frame.
func (n *NICTimes) Until(host, size int) clock.Time {
	link := &n.links[host]
	return n.end.Add(-link.Delay - link.Rate.Serialise(size+link.Framing))
}

// hostOfMAC returns the host with an address of the fabric's plan.
func hostOfMAC(mac []byte, hosts int) (fabric.HostID, bool) {
	if len(mac) < 6 {
		return 0, false
	}
	// a network has fewer hosts than 16 bits number; the rest must be the plan's
	h := fabric.HostID(mac[4])<<8 | fabric.HostID(mac[5])
	want := h.MAC()
	return h, int(h) < hosts && slices.Equal(mac, want[:])
}
