package fabric

import "candela.dev/candela/clock"

// While a network has little to do, its first partition has everything, and one worker simulates it as if it were not
// divided: windows, and copies of packets for taps, would only cost time.

// assign has every switch, host and port simulated by its partition, or by the first.
func (n *Network) assign() {
	for _, sw := range n.switches {
		sw.part = n.partOf(int(sw.first))
	}
	for _, h := range n.hosts {
		h.part = n.partOf(int(h.port.number))
		if h.egress != nil {
			h.egress.nic.part = h.part
		}
	}
	for i := range n.ports {
		n.ports[i].away = n.partOf(i) != n.partOf(int(n.ports[i].peer))
	}
}

// partOf returns the partition that simulates port number i.
func (n *Network) partOf(i int) *part {
	if n.windows.joined {
		return n.parts[0]
	}
	return n.parts[n.parts[0].engine.home[i]]
}

// pending is an event that has been taken from an engine.
type pending struct {
	at   clock.Time
	what what
	task *task // of wakeUp
}

// regroup moves all events and free packets to the partitions that are to have them: joined, to the first. No packets
// are posted.
func (n *Network) regroup(joined bool) {
	var events []pending
	for _, p := range n.parts {
		events = p.engine.empty(events)
	}
	n.windows.joined, n.windows.span, n.windows.few = joined, 1, 0
	n.assign()
	now := n.now()
	for _, p := range n.parts {
		p.engine.now = now
	}
	for i := range events {
		ev := &events[i]
		e := &n.partOf(ev.what.port()).engine
		if ev.task != nil {
			e.schedule(ev.task, ev.at)
		} else {
			e.insert(ev.at, ev.what)
		}
	}
	var free []*Packet
	for _, p := range n.parts {
		free = append(free, p.pool.free...)
		p.pool.free = p.pool.free[:0]
	}
	users := n.parts
	if joined {
		users = n.parts[:1]
	}
	for i, p := range users {
		p.pool.free = append(p.pool.free, free[len(free)*i/len(users):len(free)*(i+1)/len(users)]...)
	}
}

// empty takes all events from the engine, which forgets its tasks, and appends them to list in their order.
func (e *engine) empty(list []pending) []pending {
	for {
		ev, ok := e.pop()
		if !ok {
			break
		}
		list = append(list, ev)
	}
	for _, t := range e.tasks {
		t.number = 0
	}
	clear(e.tasks)
	e.tasks = e.tasks[:0]
	return list
}

// pop takes the earliest event.
func (e *engine) pop() (ev pending, ok bool) {
	at, ok := e.next()
	if !ok {
		return pending{}, false
	}
	if ev = (pending{at: at}); len(e.far) > 0 && (e.position == len(e.today) ||
		!e.far[0].after(e.dawn+clock.Time(e.today[e.position].offset()), e.today[e.position].what())) {
		ev.what = e.far[0].what
		e.remove(0)
	} else {
		ev.what = e.today[e.position].what()
		e.position++
	}
	if ev.what.kind() == wakeUp {
		ev.task = e.task(ev.what)
		ev.task.place = 0
	}
	return ev, true
}
