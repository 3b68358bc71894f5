package transport

import (
	"slices"

	"candela.dev/candela/clock"
	"candela.dev/candela/orchestrator/config"
	"candela.dev/candela/testbeds/virtual/fabric"
)

// Grain is the resolution of capture times, and the maximum error of the derived times at NICs, in either direction.
const Grain = clock.Nanosecond

// NICTimes converts capture times at switches to times at the NICs of the hosts. The link between a NIC and its switch
// is described by the test. It neither loses nor reorders frames, so its delay is subtracted or added.
type NICTimes struct {
	links   []config.LinkSpec // of hosts
	latency clock.Duration    // of switches; it passes after the egress tap
	latest  [2][]clock.Time   // by direction and host: frames of one direction keep their order
	end     clock.Time        // the run was observed at least until then; it continues after its flows have ended
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

// HostOf returns the host whose link a frame is on. With a single switch this is the sender of an entering frame and
// the destination of a leaving one. It returns false if the test has no such host.
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

// At returns when a frame left the NIC of a host or reached it, and its serialisation time.
func (n *NICTimes) At(f *Frame, host fabric.HostID) (at clock.Time, takes clock.Duration) {
	link := &n.links[host]
	at, takes = clock.Time(clock.Duration(f.TimeNS)*clock.Nanosecond), link.Rate.Serialise(f.OrigLen+link.Framing)
	n.end = max(n.end, at)
	way := 0
	if f.Behind {
		way, at = 1, at.Add(takes+link.Delay+n.latency)
	} else { // captured when complete: its last bit left the NIC one link delay earlier
		at = at.Add(Grain - link.Delay - takes)
	}
	at = max(at, n.latest[way][host])
	n.latest[way][host] = at
	return at, takes
}

// Until returns a time such that frames that left the host before it have reached the switch before the observation
// ended; size is that of the largest frame.
func (n *NICTimes) Until(host, size int) clock.Time {
	link := &n.links[host]
	return n.end.Add(-link.Delay - link.Rate.Serialise(size+link.Framing))
}

// hostOfMAC returns the host with an address of the fabric's addressing plan.
func hostOfMAC(mac []byte, hosts int) (fabric.HostID, bool) {
	if len(mac) < 6 {
		return 0, false
	}
	// the plan numbers hosts in 16 bits; the other bytes are fixed
	h := fabric.HostID(mac[4])<<8 | fabric.HostID(mac[5])
	want := h.MAC()
	return h, int(h) < hosts && slices.Equal(mac, want[:])
}
