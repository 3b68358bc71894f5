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

	random   *rand.Rand
	plane    *lock.DataPlane
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

// run runs the network to its end.
func (n *network) run(seed uint64, cfg lock.Config, slots int) {
	n.random = rand.New(rand.NewPCG(seed, 1))
	n.plane, n.server = lock.New(cfg), lock.NewServer(cfg.Dedup)
	n.arrivals, n.state = make(map[string]clock.Time), make([]client, n.clients)
	if slots > 0 {
		for id := range n.locks {
			if err := n.plane.Install(id, slots); err != nil {
				panic(err)
			}
		}
	}
	if slots == 0 {
		n.late = n.most
	}
	for i := range n.state {
		n.begin(i)
	}
	if n.poll > 0 {
		n.after(n.poll, n.polls)
	}
	for len(n.events) > 0 {
		e := heap.Pop(&n.events).(event)
		for timer := n.plane.NextTimer(); timer <= e.at; timer = n.plane.NextTimer() {
			n.now = timer
			n.do(n.plane.Timer(timer))
		}
		n.now = e.at
		e.do()
	}
}

// polls clears expired leases.
func (n *network) polls() {
	for id := range n.locks {
		before := n.now - clock.Time(n.lease)
		n.do(n.plane.Expire(n.now, id, before))
		n.served(n.server.Expire(n.now, id, before))
	}
	if n.now < n.stop+clock.Time(20*n.lease) {
		n.after(n.poll, n.polls)
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

func (n *network) acquire(r lock.Request) {
	n.history = append(n.history, step{at: n.now, request: r})
	n.do(n.plane.Acquire(n.now, r))
}

func (n *network) release(r lock.Request) {
	n.history = append(n.history, step{at: n.now, release: true, request: r})
	list := n.plane.Release(n.now, r)
	if len(list) == 1 && list[0].Kind == lock.ForwardOwned {
		n.send("to server", func() { n.served(n.server.Release(n.now, r)) })
		return
	}
	n.do(list)
}

// do sends what the switch sends.
func (n *network) do(list []lock.Output) {
	for _, o := range list {
		switch o.Kind {
		case lock.Grant:
			n.granted(o.Request)
		case lock.Recirculate:
			n.after(n.recirculate, func() { n.do(n.plane.Resume(n.now, o.Pass)) })
		case lock.ForwardBuffer:
			n.send("to server", func() { n.server.Buffer(o.Request) })
		case lock.PushRequest:
			n.send("to server", func() { n.push(&o) })
		case lock.ForwardOwned:
			n.send("to server", func() { n.served(n.server.Acquire(n.now, o.Request)) })
		}
	}
}

// granted sends a grant to its client.
func (n *network) granted(r lock.Request) {
	n.history = append(n.history, step{at: n.now, grant: true, request: r})
	i := int(r.Client.Host)
	n.send(fmt.Sprint("to client ", i), func() { n.answer(i, r) })
}

// served sends the grants of the server, which pass the switch.
func (n *network) served(list []lock.Output) {
	for _, o := range list {
		if o.Kind == lock.Grant {
			n.send("from server", func() { n.granted(o.Request) })
		}
	}
}

func (n *network) push(o *lock.Output) {
	for _, p := range n.server.Push(o) {
		n.send("from server", func() {
			if p.Empty {
				n.do(n.plane.PushEmpty(n.now, p.Lock, p.Answer))
				return
			}
			n.do(n.plane.PushBack(n.now, p.Request, p.Answer))
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
