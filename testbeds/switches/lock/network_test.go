package lock_test

import (
	"container/heap"
	"fmt"
	"math/rand/v2"

	"candela.dev/candela/clock"
	"candela.dev/candela/packet/netlock"
	"candela.dev/candela/testbeds/switches/lock"
)

// network is a switch, a lock server and closed-loop clients. Links are first in, first out; each packet takes a random
// time within delay, one way.
type network struct {
	least, most clock.Duration // one way
	recirculate clock.Duration
	clients     int
	locks       uint32
	shared      float64 // share of requests
	think       clock.Duration
	stop        clock.Time     // no transaction begins after it
	expiry      clock.Duration // a client resends a request without an answer; 0: never
	lease, poll clock.Duration // 0: none
	loss, kill  float64        // of a packet, of a client at a transaction

	installed uint32         // locks in the switch; 0: all
	moves     clock.Duration // most time between moves of a lock; 0: none
	restarts  clock.Duration // most time between failures of the switch, which loses its registers
	failures  clock.Duration // most time between failures of the server
	backup    bool           // a second switch serves while the first one is down
	returns   clock.Duration // how long after it began to serve the first one returns
	tenants   uint16
	priority  uint8 // lowest
	period    clock.Duration
	slots     int
	cfg       lock.Config
	planes    [2]*lock.DataPlane
	control   lock.ControlConfig // Lease > 0: switches have control planes
	controls  [2]*lock.Control
	takeover  lock.Takeover
	askers    map[uint32]int // by lock, the switch that has asked the server last

	random   *rand.Rand
	server   *lock.Server
	events   events
	now      clock.Time
	number   int
	arrivals map[string]clock.Time // of the latest packet of a link
	state    []client

	history  []step
	late     clock.Duration // most from a grant to its passing the switch
	requests int
}

type client struct {
	request lock.Request
	waiting bool
	dead    bool
	tries   int
}

// step is what passed the switch.
type step struct {
	at      clock.Time
	grant   bool // otherwise a request or a release
	release bool
	reject  bool
	reset   bool // a period of quotas begins
	buffer  bool // a request is buffered
	restart bool // the switch lost its registers
	push    int  // the switch asks for buffered requests while it has so many entries less 1
	server  bool // a grant is the server's
	request lock.Request
}

type event struct {
	at     clock.Time
	number int
	do     func()
}

type events []event

func (e events) Len() int { return len(e) }
func (e events) Less(i, j int) bool {
	return e[i].at < e[j].at || e[i].at == e[j].at && e[i].number < e[j].number
}
func (e events) Swap(i, j int) { e[i], e[j] = e[j], e[i] }
func (e *events) Push(x any)   { *e = append(*e, x.(event)) }
func (e *events) Pop() any {
	last := (*e)[len(*e)-1]
	*e = (*e)[:len(*e)-1]
	return last
}

func (n *network) after(d clock.Duration, do func()) {
	n.number++
	heap.Push(&n.events, event{n.now.Add(d), n.number, do})
}

// send delivers a packet over a link, or loses it.
func (n *network) send(link string, do func()) {
	arrival := n.now.Add(n.least + clock.Duration(n.random.Int64N(int64(n.most-n.least)+1)))
	arrival = max(arrival, n.arrivals[link]+1)
	n.arrivals[link] = arrival
	if n.random.Float64() >= n.loss {
		n.after(arrival.Sub(n.now), do)
	}
}

// mostSteps is many times the events of any network that ends.
const mostSteps = 20_000_000

// run runs the network to its end.
func (n *network) run(seed uint64, cfg lock.Config, slots int) {
	n.random = rand.New(rand.NewPCG(seed, 1))
	n.cfg, n.slots = cfg, slots
	n.cfg.Priorities = int(n.priority)
	n.server = n.newServer(0)
	n.start(0)
	n.arrivals, n.state, n.askers = make(map[string]clock.Time), make([]client, n.clients), make(map[uint32]int)
	if slots > 0 {
		if n.installed == 0 {
			n.installed = n.locks
		}
		for id := range n.installed {
			if _, largest := n.planes[0].Free(); n.cfg.Slots == 0 || largest >= slots {
				n.must(n.planes[0].Install(id, slots))
			}
		}
	}
	if slots == 0 || n.moves > 0 || n.control.Lease > 0 {
		n.late = n.most
	}
	for i := range n.state {
		n.begin(i)
	}
	if n.control.Lease == 0 {
		n.every(n.poll, n.polls)
	}
	n.every(n.period, func() {
		for _, d := range n.planes {
			if d != nil {
				d.ResetQuotas()
			}
		}
		n.history = append(n.history, step{at: n.now, reset: true})
	})
	n.sometimes(n.moves, n.move)
	n.sometimes(n.restarts, n.fail)
	n.sometimes(n.failures, func() { n.server = n.newServer(n.now.Add(n.lease)) })
	for steps := 0; ; steps++ {
		if steps > mostSteps { // a wrong model may have clients ask for ever
			panic(fmt.Sprintf("network of seed %d: not at an end after %d events", seed, mostSteps))
		}
		until := n.end().Add(clock.Millisecond) // what is repeated, is repeated for so long
		if len(n.events) > 0 {
			until = n.events[0].at
		}
		if n.timers(until) {
			continue // which may have made an earlier event
		}
		if len(n.events) == 0 {
			break
		}
		e := heap.Pop(&n.events).(event)
		n.now = e.at
		e.do()
	}
}

// timers lets the first timer that is due until an instant do what it does, and reports whether there is one.
func (n *network) timers(until clock.Time) bool {
	first, do := clock.Never, func() {}
	for i, d := range n.planes {
		if d != nil && d.NextTimer() < first {
			first, do = d.NextTimer(), func() { n.do(i, d.Timer(n.now)) }
		}
		if c := n.controls[i]; c != nil && c.NextTimer() < first {
			first, do = c.NextTimer(), func() { n.do(i, c.Timer(n.now)) }
		}
	}
	if at := n.server.NextTimer(); at < first {
		first, do = at, func() { n.served(n.server.Timer(n.now)) }
	}
	if first > until {
		return false
	}
	n.now = max(n.now, first)
	do()
	return true
}

func (n *network) newServer(notBefore clock.Time) *lock.Server {
	s := lock.NewServer(n.cfg.Dedup)
	s.NotBefore, s.Priorities, s.Bugs = notBefore, int(n.priority), n.cfg.Bugs
	s.Lease, s.Poll = n.control.Lease, n.control.Poll
	return s
}

// end is when all requests have been granted.
func (n *network) end() clock.Time { return n.stop.Add(20*n.lease + 50*n.period) }

// every does something in intervals until all has ended.
func (n *network) every(d clock.Duration, do func()) {
	if d > 0 {
		n.after(d, func() {
			do()
			if n.now < n.end() {
				n.every(d, do)
			}
		})
	}
}

// sometimes does something now and then until transactions end.
func (n *network) sometimes(most clock.Duration, do func()) {
	if most > 0 {
		n.after(most/4+clock.Duration(n.random.Int64N(int64(most))), func() {
			if n.now < n.stop {
				do()
				n.sometimes(most, do)
			}
		})
	}
}

// polls clears expired leases.
func (n *network) polls() {
	for id := range n.locks {
		before := n.now - clock.Time(n.lease)
		for i, d := range n.planes {
			if d != nil {
				n.do(i, d.Expire(n.now, id, before))
			}
		}
		n.served(n.server.Expire(n.now, id, before))
	}
}

// move moves a lock to the server, to the switch, or to other slots.
func (n *network) move() {
	id := uint32(n.random.IntN(int(n.locks)))
	if n.active() < 0 {
		return
	}
	d, draw := n.planes[n.active()], n.random.IntN(2)
	if _, slots, _ := d.Occupancy(id); slots == 0 {
		n.take(n.active(), id, lock.FromServer, 0)
	} else if draw == 0 {
		n.do(n.active(), d.Leave(n.now, id))
	} else if d.Drain(id) {
		n.place(n.active(), d, id)
	}
}

// place gives a lock other slots as soon as it can.
func (n *network) place(sw int, d *lock.DataPlane, id uint32) {
	n.after(n.most/4+1, func() {
		switch {
		case n.planes[sw] != d: // it has failed
		case !d.Drained(id):
			if d.Moving(id) {
				n.place(sw, d, id)
			}
		default:
			n.do(sw, d.Place(n.now, id, 0, max(int(n.priority), 1+n.random.IntN(2*n.slots))))
		}
	})
}

func (n *network) take(sw int, id uint32, from lock.Source, notBefore clock.Time) {
	list, err := n.planes[sw].Take(n.now, id, n.slots, from, notBefore)
	if err != nil {
		panic(err)
	}
	n.do(sw, list)
}

// fail stops the switch. It, or a backup and then it, goes on without registers.
func (n *network) fail() {
	if n.active() != 0 || n.planes[1] != nil {
		return
	}
	n.takeover.Lease, n.takeover.Allocation = n.lease, n.planes[0].Installed()
	n.takeover.Fail()
	n.planes[0], n.controls[0] = nil, nil
	n.history = append(n.history, step{at: n.now, restart: true})
	back := func() {
		n.start(0)
		list, err := n.takeover.Return(n.now, n.planes[0], n.planes[1])
		n.must(err)
		n.do(0, list)
	}
	if !n.backup {
		n.after(n.lease/8, back)
		return
	}
	n.after(n.lease/8, func() {
		n.start(1)
		list, err := n.takeover.Replace(n.now, n.planes[1])
		n.must(err)
		n.do(1, list)
		n.after(n.returns, back)
	})
}

func (n *network) must(err error) {
	if err != nil {
		panic(err)
	}
}

// active returns the switch that clients' packets pass; -1: none.
func (n *network) active() int { return int(n.takeover.Active()) }

// start starts a switch without locks.
func (n *network) start(sw int) {
	n.planes[sw] = lock.New(n.cfg)
	if n.control.Lease > 0 {
		control, err := lock.NewControl(n.now, n.control, n.planes[sw])
		n.must(err)
		n.controls[sw] = control
	}
}

// begin begins a transaction.
func (n *network) begin(i int) {
	c := &n.state[i]
	if n.now >= n.stop {
		c.waiting = false
		return
	}
	mode := netlock.Exclusive
	if n.random.Float64() < n.shared {
		mode = netlock.Shared
	}
	n.requests++
	c.request = lock.Request{Lock: uint32(n.random.IntN(int(n.locks))), Transaction: uint32(n.requests), Mode: mode,
		Client: lock.Client{Host: uint32(i)}}
	if n.tenants > 0 {
		c.request.Tenant = uint16(i) % n.tenants
	}
	c.request.Priority = uint8(i) % (n.priority + 2) // 0 and what is above the lowest one are the lowest one
	c.waiting, c.tries = true, 0
	n.ask(i)
}

func (n *network) ask(i int) {
	c := &n.state[i]
	r := c.request
	n.send(fmt.Sprint("to switch ", i), func() { n.acquire(r) })
	if c.tries++; n.expiry > 0 && c.tries < 50 {
		n.after(n.expiry, func() {
			if c.waiting && c.request == r {
				n.ask(i)
			}
		})
	}
}

// again asks again after a rejection.
func (n *network) again(r lock.Request) {
	n.after(micro(10), func() {
		if i := int(r.Client.Host); n.now < n.end() && n.state[i].waiting && n.state[i].request == r {
			n.send(fmt.Sprint("to switch ", i), func() { n.acquire(r) })
		}
	})
}

func (n *network) acquire(r lock.Request) {
	if n.active() < 0 {
		return
	}
	n.history = append(n.history, step{at: n.now, request: r})
	n.do(n.active(), n.planes[n.active()].Acquire(n.now, r))
}

func (n *network) release(r lock.Request) {
	if n.active() < 0 {
		return
	}
	n.history = append(n.history, step{at: n.now, release: true, request: r})
	n.released(n.active(), r)
}

// released does what a switch does with a release.
func (n *network) released(sw int, r lock.Request) {
	list := n.planes[sw].Release(n.now, r)
	if len(list) != 1 || list[0].Kind != lock.ForwardOwned {
		n.do(sw, list)
		return
	}
	if list[0].Peer {
		n.peer(sw, func(other int) { n.released(other, r) })
		return
	}
	n.send("to server", func() { n.served(n.server.Release(n.now, r)) })
}

// peer sends something from a switch to the other one.
func (n *network) peer(sw int, do func(other int)) {
	other := 1 - sw
	n.send(fmt.Sprint("to peer ", other), func() {
		if n.planes[other] != nil {
			do(other)
		}
	})
}

// do sends what a switch sends.
func (n *network) do(sw int, list []lock.Output) {
	d := n.planes[sw]
	for _, o := range list {

		switch {
		case o.Kind == lock.Grant:
			n.granted(o.Request, false)
		case o.Kind == lock.Rejected:
			n.history = append(n.history, step{at: n.now, reject: true, request: o.Request})
			n.send(fmt.Sprint("to client ", o.Request.Client.Host), func() { n.again(o.Request) })
		case o.Kind == lock.Recirculate:
			n.after(n.recirculate, func() {
				if n.planes[sw] == d {
					n.do(sw, d.Resume(n.now, o.Pass))
				}
			})
		case o.Kind == lock.ForwardBuffer:
			n.history = append(n.history, step{at: n.now, buffer: true, request: o.Request})
			n.send("to server", func() { n.served(n.server.Keep(n.now, o.Request, o.Sent)) })
		case o.Kind == lock.PushRequest && o.Peer:
			n.peer(sw, func(other int) {
				n.do(other, n.planes[other].Yield(n.now, o.Request.Lock, lock.Answer{Sent: o.Sent}))
			})
		case o.Kind == lock.PushRequest:
			if queued, _, _ := d.Occupancy(o.Request.Lock); o.Mark == netlock.Unmarked {
				n.history = append(n.history, step{at: n.now, push: queued + 1, request: o.Request})
			}
			n.send("to server", func() { n.push(sw, &o) })
		case o.Kind == lock.ForwardOwned && o.Peer:
			n.peer(sw, func(other int) { n.do(other, n.planes[other].Acquire(n.now, o.Request)) })
		case o.Kind == lock.ForwardOwned:
			n.send("to server", func() { n.served(n.server.Acquire(n.now, o.Request)) })
		case o.Kind == lock.Emptied:
			n.peer(sw, func(other int) { n.do(other, n.planes[other].PushEmpty(n.now, o.Request.Lock, answer(&o))) })
		}
	}
}

// answer returns what PUSH_EMPTY with a mark says.
func answer(o *lock.Output) lock.Answer {
	return lock.Answer{Last: true, Sent: o.Sent, Index: o.Index, Queue: o.Request.Priority, Mark: o.Mark}
}

// granted sends a grant to its client.
func (n *network) granted(r lock.Request, server bool) {
	n.history = append(n.history, step{at: n.now, grant: true, request: r, server: server})
	i := int(r.Client.Host)
	n.send(fmt.Sprint("to client ", i), func() { n.answer(i, r) })
}

// served sends what the server sends, which passes the switch.
func (n *network) served(list []lock.Output) {
	for _, o := range list {
		switch o.Kind {
		case lock.Grant:
			n.send("from server", func() {
				if n.active() >= 0 {
					n.granted(o.Request, true)
				}
			})
		case lock.Emptied:
			n.toAsker(o.Request.Lock, func(sw int) { n.do(sw, n.planes[sw].PushEmpty(n.now, o.Request.Lock, answer(&o))) })
		}
	}
}

// toAsker sends an answer of the server to the switch that asked.
func (n *network) toAsker(id uint32, do func(sw int)) {
	sw := n.askers[id]
	n.send("from server", func() {
		if n.planes[sw] != nil {
			do(sw)
		}
	})
}

func (n *network) push(sw int, o *lock.Output) {
	n.askers[o.Request.Lock] = sw
	if o.Mark != netlock.Unmarked {
		n.served(n.server.Handover(n.now, o))
		return
	}
	for _, p := range n.server.Push(o) {
		n.toAsker(o.Request.Lock, func(sw int) {
			if p.Empty {
				n.do(sw, n.planes[sw].PushEmpty(n.now, o.Request.Lock, p.Answer))
				return
			}
			n.do(sw, n.planes[sw].PushBack(n.now, p.Request, p.Answer))
		})
	}
}

// answer takes a grant at a client. One that is late ends at once.
func (n *network) answer(i int, r lock.Request) {
	c := &n.state[i]
	switch {
	case c.dead:
	case c.request != r || !c.waiting:
		if n.expiry > 0 && c.request != r {
			n.send(fmt.Sprint("to switch ", i), func() { n.release(r) })
		}
	default:
		c.waiting = false
		if n.random.Float64() < n.kill {
			c.dead = true
			return
		}
		n.after(clock.Duration(n.random.Int64N(int64(n.think)+1)), func() {
			n.send(fmt.Sprint("to switch ", i), func() { n.release(r) })
			n.begin(i)
		})
	}
}
