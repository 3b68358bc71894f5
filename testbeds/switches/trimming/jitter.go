package trimming

import (
	"candela.dev/candela/clock"
	"candela.dev/candela/testbeds/virtual/fabric"
)

// jitter lets packets enter the ingress pipeline up to most later than they arrive, by chance, in the order of their
// arrival at each port. Hosts that send back to back for ever, and clocks that never drift, keep packets in step: the
// same sender then loses every time that several meet at a full queue. Nothing real does that.
type jitter struct {
	most  clock.Duration
	ports []jitteredPort
}

// jitteredPort is the packets of a port that wait for their entry, and the last entry so far.
type jitteredPort struct {
	waiting []*fabric.Packet
	last    clock.Time
}

// jitterToken marks timers that are entries; the rest of the token is the port.
const jitterToken = uint64(1) << 63

// hold has a packet wait for its entry.
func (j *jitter) hold(now clock.Time, sw *fabric.Switch, p *fabric.Packet, in *fabric.Port) {
	port := &j.ports[in.Index()]
	port.last = max(port.last, now.Add(clock.Duration(sw.Rand().Int64N(int64(j.most)+1))))
	port.waiting = append(port.waiting, p)
	sw.Wake(port.last, jitterToken|uint64(in.Index()))
}

// stop discards what waits for its entry.
func (j *jitter) stop(now clock.Time, sw *fabric.Switch) {
	for i := range j.ports {
		for _, p := range j.ports[i].waiting {
			sw.Discard(now, p, fabric.Verdict{}.Drop(fabric.ReasonStopped))
		}
	}
}

// enter returns the packet of a port whose time has come.
func (j *jitter) enter(port int) *fabric.Packet {
	w := &j.ports[port]
	p := w.waiting[0]
	w.waiting[0] = nil
	w.waiting = w.waiting[1:]
	return p
}
