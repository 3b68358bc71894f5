package fabric

import "candela.dev/candela/clock"

// Stopper is a Mechanism that keeps packets: when its switch is stopped it discards them, for ReasonStopped.
type Stopper interface {
	Stop(now clock.Time, sw *Switch)
}

// Stop takes a switch out of service: what waits in it, and all that arrives, is lost for ReasonStopped, and its
// mechanism is gone with its registers and timers. A frame that is on the wire goes on. Neighbours do not route around
// it, and what it had paused goes on. What its counters here count goes on.
func (sw *Switch) Stop(now clock.Time) {
	if sw.stopped {
		return
	}
	if s, ok := sw.mechanism.(Stopper); ok {
		s.Stop(now, sw)
	}
	sw.stopped, sw.mechanism = true, outOfService{}
	sw.life++
	for i := range sw.ports {
		pt := &sw.ports[i]
		for j := range pt.queues {
			for q := &pt.queues[j]; q.Head() != nil; {
				p := q.Head()
				sw.Extract(now, pt, j, p)
				sw.discard(now, p, Verdict{Port: uint16(i), Queue: uint8(j)}.Drop(ReasonStopped))
			}
			pt.queues[j].credit = 0
		}
		pt.turn = 0
		for pt.urgent {
			p := pt.nextControl()
			sw.part.dropped[p.Kind()]++
			sw.part.pool.put(p)
		}
		if pt.pause != nil {
			*pt.pause = pauseState{}
		}
		if peer := &sw.net.ports[pt.peer]; pt.kind != RecirculationPort && peer.paused != 0 {
			peer.paused = 0
			peer.resume(now)
		}
	}
}

// Start puts a stopped switch into service again, with a new mechanism; nil: tail drop. Neighbours learn that nothing
// is paused.
func (sw *Switch) Start(now clock.Time, m Mechanism) {
	if !sw.stopped {
		return
	}
	sw.stopped, sw.mechanism, sw.since = false, m, now
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

// outOfService is the mechanism of a stopped switch: that nothing passes costs running ones nothing.
type outOfService struct{ TailDrop }

// Ingress implements Mechanism.
func (outOfService) Ingress(_ clock.Time, _ *Switch, _ *Packet, _ *Port, v Verdict) Verdict {
	return v.Drop(ReasonStopped)
}

// lose drops what was inside a switch when it was stopped and comes back from recirculation.
func (sw *Switch) lose(now clock.Time, in *Port, p *Packet) {
	sw.tap(now, Ingress, in.Index(), 0, p)
	sw.discard(now, p, Verdict{Port: uint16(in.index)}.Drop(ReasonStopped))
}
