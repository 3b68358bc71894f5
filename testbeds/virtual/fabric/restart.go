package fabric

import "candela.dev/candela/clock"

// Stopper is a Mechanism that keeps packets; when its switch is stopped, Stop discards them for ReasonStopped.
type Stopper interface {
	Stop(now clock.Time, sw *Switch)
}

// Stop takes a switch out of service. Its waiting packets and all arrivals are dropped for ReasonStopped; its mechanism
// is removed, with registers and timers. A frame on the wire still arrives. Neighbours do not route around the switch,
// and ports that it had paused resume. Its counters continue.
func (sw *Switch) Stop(now clock.Time) {
	if sw.stopped {
		return
	}
	if s, ok := sw.mechanism.(Stopper); ok {
		s.Stop(now, sw)
	}
	sw.stopped, sw.mechanism, sw.bolt = true, outOfService{}, nil
	sw.life++
	for i := range sw.ports {
		pt := &sw.ports[i]
		sw.flush(now, pt, ReasonStopped)
		if pt.pause != nil {
			*pt.pause = pauseState{}
		}
		if peer := &sw.net.ports[pt.peer]; pt.kind != RecirculationPort && peer.paused != 0 {
			peer.paused = 0
			peer.resume(now)
		}
	}
}

// flush drops what waits at a port.
func (sw *Switch) flush(now clock.Time, pt *Port, why Reason) {
	for j := range pt.queues {
		for q := &pt.queues[j]; q.Head() != nil; {
			p := q.Head()
			sw.Extract(now, pt, j, p)
			sw.discard(now, p, Verdict{Port: pt.index, Queue: uint8(j)}.Drop(why))
		}
		pt.queues[j].credit = 0
	}
	pt.turn = 0
	for pt.urgent {
		p := pt.nextControl()
		sw.part.dropped[p.Kind()]++
		sw.lost++
		sw.part.pool.put(p)
	}
}

// Start returns a stopped switch to service with a new mechanism; nil: tail drop. It signals to neighbours that no
// class is paused.
func (sw *Switch) Start(now clock.Time, m Mechanism) {
	if !sw.stopped {
		return
	}
	sw.stopped, sw.mechanism, sw.since = false, m, now
	sw.startBolt(now)
	if s, ok := m.(Starter); ok {
		s.Start(now, sw)
	}
	for i := range sw.ports[:sw.front] {
		if pt := &sw.ports[i]; pt.pause != nil {
			pt.signal(now)
		}
	}
}

// Stopped reports whether the switch is out of service.
func (sw *Switch) Stopped() bool { return sw.stopped }

// outOfService is the mechanism of a stopped switch. It avoids a check per packet in running switches.
type outOfService struct{ TailDrop }

// Ingress implements Mechanism.
func (outOfService) Ingress(_ clock.Time, _ *Switch, _ *Packet, _ *Port, v Verdict) Verdict {
	return v.Drop(ReasonStopped)
}

// lose drops a packet that was recirculating when its switch was stopped.
func (sw *Switch) lose(now clock.Time, in *Port, p *Packet) {
	sw.tap(now, Ingress, in.Index(), 0, p)
	sw.discard(now, p, Verdict{Port: uint16(in.index)}.Drop(ReasonStopped))
}
