package fabric

import (
	"fmt"
	"math/rand/v2"

	"candela.dev/candela/clock"
	"candela.dev/candela/packet"
	"candela.dev/candela/trace"
)

// placements bounds how many queues may refuse a packet before it is dropped: data queue, header queue, the sender's
// two, and as many again for deflection.
const placements = 8

// Switch has ports in pipelines, a traffic manager and a Mechanism. What packets read of it comes first.
type Switch struct {
	net             *Network
	ports           []Port // front ports, then one recirculation port per pipeline if there are any
	mechanism       Mechanism
	classOfDSCP     *[64]uint8 // of config
	id              int32
	first           int32 // number of ports[0] in the network
	routes          routes
	source          source
	scheduler       Scheduler // of front ports
	buffer          buffer
	losslessClasses uint8 // of config
	booked          bool  // queueing is accounted for: there are lossless classes, or queues is set
	nic             bool  // of a host
	stopped         bool
	chooses         bool // the mechanism chooses among the packets of a queue
	watch           Tap  // in order; nil: nobody sees the packets at the switch

	seen          Tap        // watch as set
	queues        Tap        // in order; nil: nobody sees the packets at its queues
	seenQueues    Tap        // queues as set
	rand          *rand.Rand // draws from source
	recirculation Scheduler  // of recirculation ports
	name          string
	config        *SwitchSpec
	front         int // ports that lead outside
	pipelines     int
	wakes         []*wake    // idle ones
	life          uint32     // counts restarts: timers of an earlier life are not served
	since         clock.Time // its last start
	part          *part
	host          *Host      // whose NIC it is; nil: a switch of the network
	ids           identities // of copies and of what it makes
	dropped       [Reasons]uint64
	lost          uint64         // PFC frames that it was stopped with
	bolt          *boltSwitch    // nil: off
	late          *lateRoutes    // ReroutesLate: what it does not follow yet; nil: nothing
	decision      trace.Decision // the latest that was recorded
}

// ID returns the switch's number in the network.
func (sw *Switch) ID() int { return int(sw.id) }

// Name returns the switch's name, for instance "leaf-1".
func (sw *Switch) Name() string { return sw.name }

// Spec returns the switch's configuration; the caller only reads it.
func (sw *Switch) Spec() *SwitchSpec { return sw.config }

// Mechanism returns the mechanism under test.
func (sw *Switch) Mechanism() Mechanism { return sw.mechanism }

// Ports returns the number of ports that lead outside; they have the indices from 0.
func (sw *Switch) Ports() int { return sw.front }

// Port returns a port, front or recirculation.
func (sw *Switch) Port(i int) *Port { return &sw.ports[i] }

// Pipelines returns the number of pipelines.
func (sw *Switch) Pipelines() int { return sw.pipelines }

// Recirculation returns the recirculation port of a pipeline, or nil if the switch has none.
func (sw *Switch) Recirculation(pipeline int) *Port {
	if sw.config.Recirculation.Rate == 0 {
		return nil
	}
	return &sw.ports[sw.front+pipeline]
}

// Rand returns the switch's own random numbers, a function of seed and name.
func (sw *Switch) Rand() *rand.Rand { return sw.rand }

// Dropped returns how many packets were dropped for a reason.
func (sw *Switch) Dropped(why Reason) uint64 { return sw.dropped[why] }

// BufferUsed returns the bytes that wait in the shared buffer and its limit; 0, 0 if buffers are static.
func (sw *Switch) BufferUsed() (used, limit int) { return sw.buffer.used, sw.buffer.spec.Bytes }

// arrive takes p, which has come in whole through in.
func (sw *Switch) arrive(now clock.Time, in *Port, p *Packet) {
	if in.kind == RecirculationPort {
		if p.Arrived < sw.since { // what was inside when the switch was stopped
			sw.lose(now, in, p)
			return
		}
	} else {
		p.Ingress, p.Arrived, p.Meta = uint16(in.index), now, 0
		if p.TTL--; p.TTL == 0 {
			sw.tap(now, Ingress, in.Index(), 0, p)
			sw.discard(now, p, Verdict{}.Drop(ReasonTTL))
			return
		}
		if sw.classOfDSCP != nil {
			p.Class = sw.classOfDSCP[p.DSCP&63]
		}
	}
	if sw.watch != nil {
		sw.tap(now, Ingress, in.Index(), 0, p)
	}
	out, ok := sw.Route(p)
	v := Verdict{Action: Forward, Port: uint16(out), Queue: p.Class}
	if !ok {
		v = v.Drop(sw.NoRoute(p))
	} else if sw.routes.cut && sw.ports[out].failed {
		v = v.Drop(ReasonTrunkDown)
		sw.lostToTrunk()
	}
	p.Egress = uint16(out)
	if sw.mechanism != nil {
		v = sw.mechanism.Ingress(now, sw, p, in, v)
	}
	sw.Place(now, p, v)
}

// Route returns the port towards the packet's destination, chosen among equal ones as the network is configured to.
func (sw *Switch) Route(p *Packet) (port int, ok bool) { return sw.routes.choose(sw, p) }

// Candidates returns all ports on shortest paths towards the packet's destination; the caller reads it before the next
// call. None: there is no route.
func (sw *Switch) Candidates(p *Packet) []uint16 { return sw.routes.all(sw, p) }

// Place does with p what v says: a mechanism places its copies, and packets that it consumed, with it.
func (sw *Switch) Place(now clock.Time, p *Packet, v Verdict) {
	if sw.bolt != nil {
		sw.bolt.place(now, sw, p, v)
		return
	}
	sw.place(now, p, v)
}

func (sw *Switch) place(now clock.Time, p *Packet, v Verdict) {
	for range placements {
		switch v.Action {
		case Forward:
			port := &sw.ports[v.Port]
			if int(v.Queue) >= len(port.queues) {
				v.Queue = uint8(len(port.queues) - 1)
			}
			if sw.admit(port, int(v.Queue), p) {
				p.Egress = v.Port
				q := &port.queues[v.Queue]
				if q.marking {
					sw.mark(q, p)
				}
				if q.ranked && p.Flags&Ranked == 0 {
					sw.part.fail(fmt.Errorf("switch %s at %v: queue %d of port %d serves by rank, and packet %d (%s from host %d to "+
						"%d) has none: "+
						"the hosts or the mechanism must give every packet a rank", sw.name, now, v.Queue, v.Port, p.ID, p.Kind(), p.Src,
						p.Dst))
				}
				sw.buffer.take(p, q)
				q.insert(p)
				port.filled |= 1 << v.Queue
				if sw.booked {
					sw.book(now, port, int(v.Queue), p)
				}
				if !port.waiting {
					sw.kick(now, port)
				}
				if port.metered && q.first != nil {
					port.changed(sw.net, now, int(v.Queue))
				}
				return
			}
			if port.failed {
				sw.discard(now, p, v.Drop(ReasonTrunkFailed))
				return
			}
			if sw.queues != nil {
				sw.queues(sw.point(Refused, int(v.Port), int(v.Queue)), now, p)
			}
			v.Reason = ReasonTail
			if sw.lossless(p) {
				v.Reason = ReasonHeadroom
			}
			if sw.mechanism == nil {
				v.Action = Drop
			} else {
				v = sw.mechanism.Overflow(now, sw, p, v)
			}
		case Consume:
			return
		default:
			sw.discard(now, p, v)
			return
		}
	}
	sw.discard(now, p, v.Drop(ReasonBounced))
}

// Fits reports whether the traffic manager has room for p in a queue of a port now.
func (sw *Switch) Fits(port *Port, queue int, p *Packet) bool { return sw.admit(port, queue, p) }

// Extract takes p out of the queue of a port that it waits in; the caller places or discards it.
func (sw *Switch) Extract(now clock.Time, port *Port, queue int, p *Packet) {
	port.dequeue(queue, p)
	if port.held&heldBit(queue) != 0 && port.metered {
		port.changed(sw.net, now, queue)
	}
	sw.leave(now, port, queue, p, Withdrawn)
}

// leave books p, which was in a queue of a port, out of the buffers.
func (sw *Switch) leave(now clock.Time, port *Port, queue int, p *Packet, why Stage) {
	if port.queues[queue].shared {
		sw.buffer.used -= int(p.Size)
	}
	if sw.booked {
		sw.unbook(now, port, queue, p, why)
	}
}

// mark sets CE as the queue, which marks, is configured to.
func (sw *Switch) mark(q *Queue, p *Packet) {
	if !ect(p) || !q.config.Mark.marks(q.bytes, int(q.packets), sw.rand.Float64) {
		return
	}
	p.ECN = packet.CE
	q.marked++
}

// kick sends from a port that is free.
func (sw *Switch) kick(now clock.Time, port *Port) {
	switch {
	case port.waiting:
	case port.busyUntil > now:
		port.wait(&sw.part.engine)
	default:
		sw.ready(now, port)
	}
}

// ready sends from a port that may.
func (sw *Switch) ready(now clock.Time, out *Port) {
	if out.busyUntil > now { // a mechanism that placed a packet on its way out has had it sent meanwhile
		if out.eligible() != 0 || out.urgent {
			out.wait(&sw.part.engine)
		}
		return
	}
	if out.urgent {
		out.send(&sw.part.engine, now, out.nextControl())
	} else if !sw.transmit(now, out) {
		return
	}
	if out.eligible() != 0 || out.urgent {
		out.wait(&sw.part.engine)
	}
}

// transmit sends the packet that the scheduler chooses and reports whether there was one.
func (sw *Switch) transmit(now clock.Time, out *Port) bool {
	for {
		eligible := out.eligible()
		if eligible == 0 {
			return false
		}
		i := 0
		if eligible != 1 || len(out.queues) > 1 {
			i = sw.schedulerOf(out).Next(out, eligible)
		}
		q := &out.queues[i]
		var p *Packet
		if !sw.chooses {
			p = out.pop(i)
		} else if p = sw.choose(now, out, i); p == nil {
			return false
		}
		if out.held&heldBit(i) != 0 && out.metered {
			out.changed(sw.net, now, i)
		}
		sw.leave(now, out, i, p, Served)
		v := Verdict{Action: Forward, Port: uint16(out.index), Queue: uint8(i)}
		if sw.mechanism != nil {
			v = sw.mechanism.Dequeued(now, sw, p, v)
		}
		switch v.Action {
		case Forward:
			q.dequeued++
			q.dequeuedBytes += uint64(p.Size)
			if sw.watch != nil {
				sw.tap(now, Egress, out.Index(), i, p)
			}
			if sw.nic {
				sw.host.egress.settle(p)
			}
			out.send(&sw.part.engine, now, p)
			return true
		case Consume:
		default:
			sw.discard(now, p, v)
		}
		if out.busyUntil > now {
			return false // what the mechanism placed has left first
		}
	}
}

// choose takes the packet that the mechanism chooses out of a queue; nil: none may leave.
func (sw *Switch) choose(now clock.Time, out *Port, queue int) *Packet {
	c, ok := sw.mechanism.(Chooser)
	if !ok || !out.queues[queue].config.Chosen {
		return out.pop(queue)
	}
	p := c.Choose(now, sw, out, queue)
	if p != nil {
		out.dequeue(queue, p)
	}
	return p
}

// Serve sends from a port if it is free and a packet may leave.
func (sw *Switch) Serve(now clock.Time, port *Port) {
	if port.eligible() != 0 {
		sw.kick(now, port)
	}
}

func (sw *Switch) schedulerOf(pt *Port) Scheduler {
	if pt.kind == RecirculationPort {
		return sw.recirculation
	}
	return sw.scheduler
}

// Discard drops p, counted for why against the queue of v.
func (sw *Switch) Discard(now clock.Time, p *Packet, v Verdict) { sw.discard(now, p, v) }

// Consume frees p, which the mechanism has processed, and counts it under the reason of v, not as a loss of the port
// and queue of v.
func (sw *Switch) Consume(now clock.Time, p *Packet, v Verdict) { sw.end(now, p, v) }

func (sw *Switch) discard(now clock.Time, p *Packet, v Verdict) {
	if v.Reason != ReasonConsumed && v.Reason != ReasonTTL && v.Reason != ReasonNoRoute && !v.Reason.Outage() {
		port := &sw.ports[v.Port]
		q := &port.queues[min(int(v.Queue), len(port.queues)-1)]
		q.dropped++
		q.droppedBytes += uint64(p.Size)
		port.counters.Dropped++
		port.counters.DroppedBytes += uint64(p.Size)
		if sw.net.Metered() {
			port.lost(sw.net, min(int(v.Queue), len(port.queues)-1), v.Reason)
		}
	}
	sw.end(now, p, v)
}

// end counts a packet that goes no further, and frees it.
func (sw *Switch) end(now clock.Time, p *Packet, v Verdict) {
	if v.Reason >= Reasons {
		sw.part.fail(fmt.Errorf("switch %s at %v: drop for reason %d, reasons are below %d", sw.name, now, v.Reason, Reasons))
		v.Reason = ReasonTail
	}
	sw.dropped[v.Reason]++
	sw.part.dropped[p.Kind()]++
	if sw.watch != nil {
		at := sw.point(Dropped, int(v.Port), int(v.Queue))
		at.Reason = v.Reason
		sw.watch(at, now, p)
	}
	if sw.nic {
		sw.host.egress.drop(now, p)
	}
	sw.part.pool.put(p)
}

// Copy returns a copy of p with an ID of its own, for the mechanism to place or discard: a mirror session, cut to size
// bytes if that is not 0 and less than p has.
func (sw *Switch) Copy(p *Packet, size int) *Packet {
	c := sw.part.pool.get()
	c.Header, c.share = p.Header, p.share
	c.ID = sw.ids.next()
	c.Flags |= Mirrored
	if size > 0 && int(c.Size) > size {
		c.Size = int32(size)
	}
	sw.part.copied[c.Kind()]++
	sw.net.copyFrame(c, p)
	return c
}

// Make returns a new packet with the header h, for the mechanism to place or discard: what the switch itself sends. It
// has an ID of its own and the flag Made.
func (sw *Switch) Make(now clock.Time, h Header) *Packet {
	return sw.part.make(now, h, sw.ids.next())
}

// Blank returns a packet with an empty header, for the mechanism to fill and give to Complete. Both together are Make
// without copies of the header.
func (sw *Switch) Blank() *Packet { return sw.part.pool.get() }

// Complete makes a filled Blank a packet as Make returns it.
func (sw *Switch) Complete(now clock.Time, p *Packet) { sw.part.complete(now, p, sw.ids.next()) }

// Wake has the mechanism's HandleTimer called with token at an instant.
func (sw *Switch) Wake(at clock.Time, token uint64) {
	var w *wake
	if n := len(sw.wakes); n > 0 {
		w, sw.wakes = sw.wakes[n-1], sw.wakes[:n-1]
	} else {
		w = &wake{sw: sw}
		w.actor, w.node = w, sw.first
	}
	w.token, w.life = token, sw.life
	sw.part.engine.schedule(&w.task, at)
}

// wake is a pending timer of a mechanism.
type wake struct {
	task
	sw    *Switch
	token uint64
	life  uint32 // of the switch that asked
}

// act implements actor.
func (w *wake) act(now clock.Time) {
	token := w.token
	w.sw.wakes = append(w.sw.wakes, w)
	if w.life != w.sw.life {
		return
	}
	w.sw.mechanism.(Timed).HandleTimer(now, w.sw, token)
	if w.sw.nic {
		w.sw.host.Kick(now)
	}
}

// Watch has every packet at the switch shown to t, in addition to taps set before.
func (sw *Switch) Watch(t Tap) {
	sw.seen = sw.seen.and(t)
	sw.watch = sw.net.ordered(sw.seen)
}

// WatchQueues has every packet that joins, leaves or is refused by a queue of the switch shown to t. Call it before the
// first packet.
func (sw *Switch) WatchQueues(t Tap) {
	sw.seenQueues = sw.seenQueues.and(t)
	sw.queues, sw.booked = sw.net.ordered(sw.seenQueues), true
}

// book accounts for p, which has joined a queue.
func (sw *Switch) book(now clock.Time, port *Port, queue int, p *Packet) {
	if sw.losslessClasses != 0 {
		sw.account(now, p)
	}
	if sw.queues != nil {
		sw.queues(sw.point(Queued, port.Index(), queue), now, p)
	}
}

// unbook undoes book for p, which has left its queue.
func (sw *Switch) unbook(now clock.Time, port *Port, queue int, p *Packet, why Stage) {
	if sw.losslessClasses != 0 {
		sw.release(now, p)
	}
	if sw.queues != nil {
		sw.queues(sw.point(why, port.Index(), queue), now, p)
	}
}

func (sw *Switch) tap(now clock.Time, s Stage, port, queue int, p *Packet) {
	if sw.watch != nil {
		sw.watch(sw.point(s, port, queue), now, p)
	}
}

// point returns where a packet is seen.
func (sw *Switch) point(s Stage, port, queue int) Point {
	if !sw.nic {
		return Point{Node: int(sw.id), Port: port, Queue: queue, Stage: s}
	}
	if s == Egress {
		s = Departed
	}
	return Point{Host: true, Node: int(sw.host.id), Port: port, Queue: queue, Stage: s}
}
