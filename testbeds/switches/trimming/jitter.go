package trimming

import (
	"candela.dev/candela/clock"
	"candela.dev/candela/testbeds/virtual/fabric"
)

// jitter delays packets before the ingress pipeline by a random time up to most, keeping the order of each port.
// Without it, hosts that send back to back on clocks without drift stay synchronised, and the same sender loses
// whenever several meet at a full queue. Real hosts do not do that.
type jitter struct {
	most  clock.Duration
	ports []jitteredPort
}

// jitteredPort is the delayed packets of a port and the latest entry time.
type jitteredPort struct {
	waiting []*fabric.Packet
	last    clock.Time
}

// jitterToken marks timers of jitter; the rest of the token is the port.
const jitterToken = uint64(1) << 63

func (j *jitter) hold(now clock.Time, sw *fabric.Switch, p *fabric.Packet, in *fabric.Port) {
	port := &j.ports[in.Index()]
	port.last = max(port.last, now.Add(clock.Duration(sw.Rand().Int64N(int64(j.most)+1))))
	port.waiting = append(port.waiting, p)
	sw.Wake(port.last, jitterToken|uint64(in.Index()))
}

func (j *jitter) stop(now clock.Time, sw *fabric.Switch) {
	for i := range j.ports {
		for _, p := range j.ports[i].waiting {
			sw.Discard(now, p, fabric.Verdict{}.Drop(fabric.ReasonStopped))
		}
	}
}

// held returns how many packets are delayed.
func (j *jitter) held() (packets int) {
	for i := range j.ports {
		packets += len(j.ports[i].waiting)
	}
	return packets
}

// enter returns the packet of a port that is due.
func (j *jitter) enter(port int) *fabric.Packet {
	w := &j.ports[port]
	p := w.waiting[0]
	w.waiting[0] = nil
	w.waiting = w.waiting[1:]
	return p
}
