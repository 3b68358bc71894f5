package fabric

import (
	"cmp"
	"fmt"
	"math/rand/v2"

	"candela.dev/candela/clock"
)

// NICSpec gives the NICs of hosts queues and a mechanism. Without queues a NIC asks its host's stack for a packet when
// its wire is free.
type NICSpec struct {
	Queues    []QueueSpec // none: the NIC has no queues
	Scheduler SchedulerSpec
	Buffer    BufferSpec // shared by the queues of a NIC
	// ClassOfDSCP names the queue of a packet; nil: its class does. Packets keep their class.
	ClassOfDSCP *[64]uint8
	// Backlog is how many packets that the stack has sent may be at the NIC, or held by its mechanism or the host's shim:
	// with more of them the stack is not asked. Default 64.
	Backlog int
	// DropBurst is how many packets may be dropped at one instant before the next one is asked for only when the latest of
	// them would have left the wire: an endless stack would be asked for ever. Default 1.
	DropBurst int
	// Mechanism makes the mechanism of a host's NIC, which is a switch with one port, 0; nil, or a nil result: tail drop.
	Mechanism func(*Switch) Mechanism
}

// egress is what stands between a host's stack and its wire.
type egress struct {
	task    // asks the stack again
	host    *Host
	nic     *Switch
	shim    Shim
	rand    *rand.Rand // of the shim
	backlog int
	pending int  // packets that the stack has sent and that have neither left nor ended
	eager   bool // the stack is asked although the wire is busy: the NIC has queues of its own
	working bool
	// the stack is not asked before: what was dropped takes its time on the wire, or an endless stack would be asked for
	// ever
	until     clock.Time
	burst     int         // drops of one instant of which only the last takes time
	drops     int         // at droppedAt
	droppedAt clock.Time  // the latest
	wakes     []*shimWake // idle ones
}

func (s *NICSpec) validate(c *check, pfc *PFCSpec) {
	validateQueues(c, "nic.queues", s.Queues)
	s.Scheduler.validate(c, "nic.scheduler", len(s.Queues))
	c.that(s.Buffer.Bytes >= 0, "nic.buffer.bytes", s.Buffer.Bytes, "must not be negative")
	c.that(s.Backlog >= 0, "nic.backlog", s.Backlog, "must not be negative")
	c.that(s.DropBurst >= 0, "nic.drop-burst", s.DropBurst, "must not be negative")
	c.that(s.Mechanism == nil || len(s.Queues) > 0, "nic.queues", len(s.Queues),
		"must be at least 1 if the NIC has a mechanism")
	for class := range 8 {
		if pfc.Classes&(1<<class) != 0 {
			c.that(len(s.Queues) == 0 || class < len(s.Queues), "nic.queues", len(s.Queues),
				fmt.Sprintf("must be more than %d: class %d is lossless, and a pause of a class stops the queue of its number",
					class, class))
		}
	}
}

// complete returns s with its defaults; of a host without queues of its own, what serves its shim: a queue per class in
// the order of arrival.
func (s NICSpec) complete() (completed NICSpec) {
	s.Backlog, s.DropBurst = cmp.Or(s.Backlog, 64), cmp.Or(s.DropBurst, 1)
	s.Scheduler.Kind, s.Scheduler.Quantum = cmp.Or(s.Scheduler.Kind, Strict), cmp.Or(s.Scheduler.Quantum, 1500)
	if len(s.Queues) == 0 {
		s.Queues, s.Scheduler.Kind = make([]QueueSpec, 8), FIFO
	}
	return s
}

// between makes what stands between the host's stack and its wire, once.
func (h *Host) between() *egress {
	if h.egress != nil {
		return h.egress
	}
	n := h.net
	spec := n.spec.NIC.complete()
	config := &SwitchSpec{Queues: spec.Queues, Scheduler: spec.Scheduler, Buffer: spec.Buffer,
		ClassOfDSCP: spec.ClassOfDSCP}
	nic := &Switch{
		net: n, part: h.part, id: int32(len(n.switches) + int(h.id)), name: fmt.Sprintf("nic-%d", h.id),
		config: config, front: 1,
		ids:       identitiesOf(len(n.hosts) + len(n.switches) + int(h.id)),
		pipelines: 1, first: h.port.number,
		buffer: buffer{spec: spec.Buffer}, classOfDSCP: spec.ClassOfDSCP,
		host: h, nic: true, ports: n.ports[h.port.number : h.port.number+1 : h.port.number+1],
		routes: routes{group: make([]uint16, len(n.switches)), groups: []group{{ports: []uint16{0}}}},
	}
	if n.all != nil {
		nic.Watch(n.all)
	}
	nic.source.seed(n.spec.Seed, seedOf(nic.name))
	nic.rand = rand.New(&nic.source)
	nic.setQueues(make([]Queue, len(spec.Queues)))
	h.egress = &egress{host: h, nic: nic, backlog: spec.Backlog, burst: spec.DropBurst,
		eager: len(n.spec.NIC.Queues) > 0}
	h.egress.actor, h.egress.node = h.egress, h.port.number
	return h.egress
}

// equipNICs gives the hosts the NICs that the spec describes.
func (n *Network) equipNICs() {
	if len(n.spec.NIC.Queues) == 0 {
		return
	}
	for _, h := range n.hosts {
		nic := h.between().nic
		if n.spec.NIC.Mechanism != nil {
			nic.mechanism = n.spec.NIC.Mechanism(nic)
		}
		if s, ok := nic.mechanism.(Starter); ok {
			s.Start(0, nic)
		}
	}
}

// NIC returns the host's NIC if it has queues, else nil: a switch whose only port leads to the network.
func (h *Host) NIC() *Switch {
	if h.egress == nil || !h.egress.eager {
		return nil
	}
	return h.egress.nic
}

// NICs reports whether the NICs of hosts have queues.
func (n *Network) NICs() bool { return len(n.spec.NIC.Queues) > 0 }

// Host returns the host whose NIC the switch is; ok is false for a switch of the network.
func (sw *Switch) Host() (id HostID, ok bool) {
	if sw.host == nil {
		return 0, false
	}
	return sw.host.id, true
}

// work takes from the stack what it sends, as far as there is room, and sends what waits.
func (e *egress) work(now clock.Time) {
	if e.working { // what is below called back: the loop there goes on
		return
	}
	e.working = true
	pt := e.host.port
	for {
		if pt.idle(now) && (pt.urgent || pt.eligible() != 0) {
			e.nic.ready(now, pt)
		}
		if e.full(now) || !e.take(now) {
			break
		}
	}
	e.working = false
	if pt.busyUntil > now {
		pt.wait(&e.host.part.engine)
	}
}

// full reports whether the stack is not to be asked now.
func (e *egress) full(now clock.Time) bool {
	pt := e.host.port
	return e.pending >= e.backlog || now < e.until || !e.eager && (!pt.idle(now) || pt.filled != 0)
}

// take takes a packet from the stack and reports whether there was one.
func (e *egress) take(now clock.Time) bool {
	if e.host.stack == nil {
		return false
	}
	p := e.host.poll(now)
	if p == nil {
		return false
	}
	p.owed = true
	e.pending++
	action := Forward
	if e.shim != nil {
		action = e.shim.Outbound(now, e.host, p)
	}
	switch action {
	case Forward:
		e.queue(now, p)
	case Consume:
	default:
		e.host.Discard(now, p)
	}
	return true
}

// queue has the NIC take p.
func (e *egress) queue(now clock.Time, p *Packet) {
	p.Arrived, p.Ingress, p.Egress, p.Meta = now, 0, 0, 0
	e.host.show(now, Offered, p)
	v := Verdict{Action: Forward, Queue: p.Class}
	if of := e.nic.classOfDSCP; of != nil {
		v.Queue = of[p.DSCP&63]
	}
	if e.nic.mechanism != nil {
		v = e.nic.mechanism.Ingress(now, e.nic, p, e.host.port, v)
	}
	e.nic.Place(now, p, v)
}

// settle books that p, which the stack had sent, has left or ended.
func (e *egress) settle(p *Packet) {
	if p.owed {
		p.owed = false
		e.pending--
	}
}

// drop books that p ends at the host.
func (e *egress) drop(now clock.Time, p *Packet) {
	if !p.owed {
		return
	}
	e.settle(p)
	if e.droppedAt != now {
		e.droppedAt, e.drops = now, 0
	}
	if e.drops++; e.drops < e.burst {
		if !e.working {
			e.host.part.engine.schedule(&e.task, max(now, e.until))
		}
		return
	}
	e.until = max(e.until, now).Add(e.host.port.serialise(int(p.Size)))
	e.host.part.engine.schedule(&e.task, e.until)
}

// act implements actor.
func (e *egress) act(now clock.Time) { e.host.Kick(now) }

// show shows the taps a packet at the host.
func (h *Host) show(now clock.Time, s Stage, p *Packet) {
	if h.net.tap != nil {
		h.net.tap(Point{Host: true, Node: int(h.id), Stage: s}, now, p)
	}
}
