package aqm

import (
	"candela.dev/candela/analyzers/chance"
	"candela.dev/candela/aqm"
	"candela.dev/candela/clock"
)

// state is what a switch has learned since its start, as the log shows it.
type state struct {
	traps  []*trap // by ingress port
	firsts []*firsts
	flows  map[order]*sequence
	ports  []*egress
	began  clock.Time
	twins  *chance.Twins // of queues
}

// egress is a port with its queues.
type egress struct {
	rate    clock.BitRate
	framing int
	room    int64
	held    int64 // bytes that wait
	most    int64
	free    clock.Time // the wire is from then on
	queues  []*queue
	mice    clock.Duration // that mice which wait take on the wire
}

// queue is a queue of a port; that of mice has no scheme.
type queue struct {
	policy    aqm.Policy
	room      int64
	held      int64
	fair      *fairRate
	mean      *meanQueue
	threshold int64
	all       *chance.Wager
	flows     map[flowKey]*chance.Wager
	twins     *chance.Twins // of flows
	hungry    hunger
	share     miceShare
	surplus   surplus
	backlog   backlog
	demand    demand
}

// start makes the state of a switch that begins to serve.
func (d *device) start(now clock.Time) {
	n := d.judge.view.Ports(d.number)
	d.endState()
	before := d.ports
	d.state = state{traps: make([]*trap, n), firsts: make([]*firsts, n), ports: make([]*egress, n),
		flows: make(map[order]*sequence), began: now, twins: chance.NewTwins(&d.judge.wagers)}
	for i := range n {
		if d.set.Scheme == aqm.AFD {
			if d.traps[i] = d.traps[0]; i == 0 || !d.set.Etrap.PerSwitch {
				d.traps[i] = newTrap(&d.set.Etrap)
			}
		}
		if d.set.DPP != nil {
			if d.firsts[i] = d.firsts[0]; i == 0 || !d.set.DPP.PerSwitch {
				d.firsts[i] = newFirsts(d.set.DPP)
			}
		}
		if d.ports[i] = d.newEgress(now, i); before != nil { // a frame on the wire outlasts a short outage
			d.ports[i].free = before[i].free
		}
	}
}

func (d *device) newEgress(now clock.Time, port int) *egress {
	e := &egress{room: int64(d.policy(port, -1).PortBytes)}
	e.rate, e.framing = d.judge.view.Link(d.number, port)
	for i := range d.set.Queues {
		q := &queue{policy: d.policy(port, i), room: int64(d.set.QueueBytes[i])}
		if q.policy.Off || d.set.Scheme == aqm.TailDrop {
			q.policy.Off = true
			e.queues = append(e.queues, q)
			continue
		}
		q.all, q.flows, q.twins = d.judge.wagers.Next(), make(map[flowKey]*chance.Wager), chance.NewTwins(&d.judge.wagers)
		switch d.set.Scheme {
		case aqm.AFD:
			q.fair = newFairRate(now, q.policy, e.rate)
		case aqm.RED:
			q.mean = newMeanQueue(q.policy, e.rate)
		case aqm.Threshold:
			if q.threshold = int64(q.policy.ThresholdBytes); q.threshold == 0 {
				q.threshold = int64(aqm.ThresholdBytes(e.rate))
			}
		case aqm.TailDrop:
		}
		e.queues = append(e.queues, q)
	}
	if d.set.DPP != nil {
		e.queues = append(e.queues, &queue{policy: aqm.Policy{Off: true}})
	}
	return e
}

// policy returns what a test sets for a queue of a port: a policy of the interface goes before one of the system, and
// of two of a kind the later one.
func (d *device) policy(port, queue int) aqm.Policy {
	p, named := d.set.System, !d.set.Interfaces
	take := func(o *aqm.Policy) {
		if o.Set&aqm.FieldOff != 0 {
			p.Off = o.Off
		}
		if o.Set&aqm.FieldECN != 0 {
			p.ECN = o.ECN
		}
		if o.Set&aqm.FieldGate != 0 {
			p.Gate = o.Gate
		}
		for field, to := range map[aqm.Fields][2]*int{aqm.FieldDesired: {&p.DesiredBytes, &o.DesiredBytes},
			aqm.FieldMin: {&p.MinBytes, &o.MinBytes}, aqm.FieldMax: {&p.MaxBytes, &o.MaxBytes},
			aqm.FieldThreshold: {&p.ThresholdBytes, &o.ThresholdBytes}, aqm.FieldPort: {&p.PortBytes, &o.PortBytes}} {
			if o.Set&field != 0 {
				*to[0] = *to[1]
			}
		}
		for field, to := range map[aqm.Fields][2]*float64{aqm.FieldKp: {&p.Kp, &o.Kp}, aqm.FieldKi: {&p.Ki, &o.Ki},
			aqm.FieldMaxDrop: {&p.MaxDrop, &o.MaxDrop}, aqm.FieldMaxProbability: {&p.MaxProbability, &o.MaxProbability}} {
			if o.Set&field != 0 {
				*to[0] = *to[1]
			}
		}
	}
	for _, ofInterface := range []bool{false, true} {
		for i := range d.set.Policies {
			o := &d.set.Policies[i]
			if (o.Port >= 0) != ofInterface || o.Port >= 0 && o.Port != port || o.Queue >= 0 && o.Queue != queue {
				continue
			}
			take(o)
			named = named || ofInterface
		}
	}
	if !named {
		p.Off = true
	}
	return p
}

// arrives judges a packet as it came, and lets it join its queue.
func (d *device) arrives(a *arrival) {
	var f *trapped
	if t := d.traps[a.in]; t != nil {
		f = t.observe(a.at, a.key, a.size)
	}
	d.judgeGroup(a)
	e := d.ports[a.port]
	if a.queue >= len(e.queues) { // the analyzer of forwarding knows
		a.queue = len(e.queues) - 1
	}
	q := e.queues[a.queue]
	if q.fair != nil {
		q.fair.advance(a.at, q.held)
	}
	d.judgeTrap(a, f)
	if claim := d.claimed(a, valuePort); claim >= 0 && claim != e.held {
		d.tell(a, claimedPort(d.place(a), claim, e.held))
	}
	d.judgeRecord(a)
	d.judgeScheme(a, q, f)
	if d.set.Scheme == aqm.AFD {
		q.share.arrived(a, f)
	}
	switch a.fate {
	case tail:
		d.judgeRefusal(a, e, q)
		if q.fair != nil && (f == nil || !f.elephant) {
			d.judgeHeadroom(a, q)
		}
	case left, withdrawn, inside:
		d.joins(a, e, q)
	case unknown, early, elsewhere:
	}
}

// isMice reports whether a queue is that of mice.
func (d *device) isMice(queue int) bool { return d.set.DPP != nil && queue == d.set.Queues }

func (d *device) joins(a *arrival, e *egress, q *queue) {
	if d.isMice(a.queue) {
		a.latest = max(a.at, e.free).Add(e.mice + clock.Nanosecond)
		e.mice += e.rate.Serialise(int(a.size) + e.framing)
	}
	q.held += a.size
	e.held += a.size
	e.most = max(e.most, e.held)
	if a.lossless || d.set.Lossless != 0 { // packets of lossless classes have room of their own
		return
	}
	if e.held > e.room {
		d.tell(a, overfull(d.place(a), "port", e.held, e.room))
	}
	if q.room > 0 && q.held > q.room {
		d.tell(a, overfull(d.place(a), "queue", q.held, q.room))
	}
}

// judgeRefusal judges a packet that was dropped for want of room.
func (d *device) judgeRefusal(a *arrival, e *egress, q *queue) {
	if d.set.SharedBuffer || d.set.Lossless != 0 {
		return
	}
	if e.held+a.size <= e.room && (q.room == 0 || q.held+a.size <= q.room) {
		d.tell(a, hadRoom(d.place(a), e.held, e.room))
	}
}

// leaves judges a packet that leaves its queue.
func (d *device) leaves(now clock.Time, a *arrival) {
	e := d.ports[a.port]
	q := e.queues[a.queue]
	if q.fair != nil {
		q.fair.advance(now, q.held)
	}
	q.held -= a.size
	e.held -= a.size
	mice := d.isMice(a.queue)
	if mice {
		e.mice -= e.rate.Serialise(int(a.size) + e.framing)
	}
	if a.fate == withdrawn {
		return
	}
	e.free = now.Add(e.rate.Serialise(int(a.size) + e.framing))
	if d.set.DPP != nil {
		e.starve(now, a.queue, mice)
		d.judgeOrder(a)
		if d.set.Lossless == 0 {
			d.judgePriority(now, a, e)
		}
	}
}

// judgePriority judges when mice and others are served; flow control is off.
func (d *device) judgePriority(now clock.Time, a *arrival, e *egress) {
	switch mice := e.queues[d.set.Queues].held; {
	case d.isMice(a.queue) && now > a.latest:
		if since, changed := d.relinked[a.port]; changed && now >= since {
			return
		}
		d.tell(a, lateMouse(d.place(a), duration(now.Sub(a.latest))))
	case !d.isMice(a.queue) && mice > 0:
		d.tell(a, miceWait(d.place(a), mice))
	}
}
