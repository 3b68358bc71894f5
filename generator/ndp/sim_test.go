package ndp_test

import (
	"container/heap"
	"math/rand/v2"
	"testing"

	"candela.dev/candela/clock"
	"candela.dev/candela/generator/ndp"
	wire "candela.dev/candela/packet/ndp"
)

// A world has hosts around one output-queued trimming switch. It is small, slow and simple, and independent of the
// testbed's fabric.
type world struct {
	cfg                  worldConfig
	now                  clock.Time
	events               eventHeap
	order                int
	rng                  *rand.Rand
	hosts                []*worldHost
	ports                []*worldPort
	reports              []reported
	trims, bounces, lost int
	watch                func(now clock.Time, where string, p *ndp.Packet)
}

type reported struct {
	at clock.Time
	ndp.Event
}

type worldConfig struct {
	hosts     int
	rate      clock.BitRate
	delay     clock.Duration
	header    int // bytes of a frame without payload
	dataQueue int // bytes
	headers   int // bytes in the header queue
	ratio     int // headers per packet while both wait
	bounce    bool
	loss      float64 // of headers and feedback, between switch and host
	host      ndp.Config
	perHost   func(i int, c *ndp.Config)
	seed      uint64
}

type worldEvent struct {
	at    clock.Time
	order int
	do    func()
}

type eventHeap []worldEvent

func (h eventHeap) Len() int { return len(h) }
func (h eventHeap) Less(i, j int) bool {
	return h[i].at < h[j].at || h[i].at == h[j].at && h[i].order < h[j].order
}
func (h eventHeap) Swap(i, j int) { h[i], h[j] = h[j], h[i] }
func (h *eventHeap) Push(x any)   { *h = append(*h, x.(worldEvent)) }
func (h *eventHeap) Pop() any {
	old := *h
	e := old[len(old)-1]
	*h = old[:len(old)-1]
	return e
}

type worldHost struct {
	w       *world
	core    *ndp.Host
	busy    bool
	timerAt clock.Time
}

type worldPort struct {
	w          *world
	to         int
	data, ctrl []ndp.Packet // the packet being sent stays at the front
	dataBytes  int
	ctrlBytes  int
	serving    int // 0 idle, 1 data, 2 control
	turns      int
}

func newWorld(t testing.TB, cfg worldConfig) *world {
	t.Helper()
	w := &world{cfg: cfg, rng: rand.New(rand.NewPCG(cfg.seed, 1))}
	for i := range cfg.hosts {
		c := cfg.host
		c.Address = ndp.Endpoint(i)
		if cfg.perHost != nil {
			cfg.perHost(i, &c)
		}
		core, err := ndp.New(c, w)
		if err != nil {
			t.Fatal(err)
		}
		w.hosts = append(w.hosts, &worldHost{w: w, core: core, timerAt: clock.Never})
		w.ports = append(w.ports, &worldPort{w: w, to: i})
	}
	return w
}

func (w *world) NDPEvent(now clock.Time, e ndp.Event) {
	w.reports = append(w.reports, reported{now, e})
}

func (w *world) send(t testing.TB, list []ndp.Transfer) {
	t.Helper()
	for _, f := range list {
		if _, err := w.hosts[f.From].core.Send(f.Flow); err != nil {
			t.Fatal(err)
		}
	}
	for _, h := range w.hosts {
		h.work()
	}
}

func (w *world) at(t clock.Time, do func()) {
	w.order++
	heap.Push(&w.events, worldEvent{t, w.order, do})
}

func (w *world) after(d clock.Duration, do func()) { w.at(w.now.Add(d), do) }

func (w *world) run(until clock.Time) {
	for len(w.events) > 0 && w.events[0].at <= until {
		e := heap.Pop(&w.events).(worldEvent)
		w.now = e.at
		e.do()
	}
}

func (w *world) size(p *ndp.Packet) int { return w.cfg.header + int(p.Payload) }

func (w *world) saw(where string, p *ndp.Packet) {
	if w.watch != nil {
		w.watch(w.now, where, p)
	}
}

func (h *worldHost) work() {
	if !h.busy {
		var p ndp.Packet
		if h.core.Poll(h.w.now, &p) {
			h.busy = true
			h.w.after(h.w.cfg.rate.Serialise(h.w.size(&p)), func() {
				h.busy = false
				h.w.after(h.w.cfg.delay, func() { h.w.arrive(p) })
				h.work()
			})
		}
	}
	if at, ok := h.core.NextTimer(); ok && at < h.timerAt {
		h.timerAt = at
		h.w.at(at, func() {
			if h.timerAt != h.w.now {
				return
			}
			h.timerAt = clock.Never
			h.core.HandleTimer(h.w.now)
			h.work()
		})
	}
}

func (w *world) arrive(p ndp.Packet) {
	w.saw("switch", &p)
	w.ports[p.To].offer(p)
}

func (q *worldPort) offer(p ndp.Packet) {
	w := q.w
	if p.Payload > 0 {
		size := w.size(&p)
		if q.dataBytes+size <= w.cfg.dataQueue || len(q.data) > 1 && w.rng.IntN(2) == 0 {
			if q.dataBytes+size > w.cfg.dataQueue {
				last := q.data[len(q.data)-1]
				q.data = q.data[:len(q.data)-1]
				q.dataBytes -= w.size(&last)
				q.trim(last)
			}
			q.data = append(q.data, p)
			q.dataBytes += size
			q.serve()
			return
		}
		q.trim(p)
		return
	}
	q.control(p)
}

func (q *worldPort) trim(p ndp.Packet) {
	p.Payload = 0
	p.Header.Flags |= wire.FlagTrimmed
	q.w.trims++
	q.control(p)
}

func (q *worldPort) control(p ndp.Packet) {
	w := q.w
	if q.ctrlBytes+w.cfg.header <= w.cfg.headers {
		q.ctrl = append(q.ctrl, p)
		q.ctrlBytes += w.cfg.header
		q.serve()
		return
	}
	if !w.cfg.bounce || p.Header.Flags&wire.FlagReturned != 0 {
		w.lost++
		return
	}
	w.bounces++
	p.From, p.To = p.To, p.From
	p.Header.Flags |= wire.FlagReturned
	w.ports[p.To].offer(p)
}

func (q *worldPort) serve() {
	if q.serving != 0 {
		return
	}
	w := q.w
	switch {
	case len(q.data) == 0 && len(q.ctrl) == 0:
		return
	case len(q.data) > 0 && len(q.ctrl) > 0:
		q.turns++
		if q.turns > w.cfg.ratio {
			q.turns = 0
		}
		q.serving = 2
		if q.turns == w.cfg.ratio {
			q.serving = 1
		}
	case len(q.ctrl) > 0:
		q.serving = 2
	default:
		q.serving = 1
	}
	size := w.cfg.header
	if q.serving == 1 {
		size = w.size(&q.data[0])
	}
	w.after(w.cfg.rate.Serialise(size), q.leave)
}

func (q *worldPort) leave() {
	w := q.w
	var p ndp.Packet
	if q.serving == 1 {
		p, q.data = q.data[0], q.data[1:]
		q.dataBytes -= w.size(&p)
	} else {
		p, q.ctrl = q.ctrl[0], q.ctrl[1:]
		q.ctrlBytes -= w.cfg.header
	}
	lost := p.Payload == 0 && w.cfg.loss > 0 && w.rng.Float64() < w.cfg.loss
	q.serving = 0
	q.serve()
	if lost {
		w.lost++
		return
	}
	w.after(w.cfg.delay, func() {
		w.saw("host", &p)
		h := w.hosts[q.to]
		h.core.HandlePacket(w.now, &p)
		h.work()
	})
}

// usual returns the configuration of csg-htsim: frames of payload plus 64 bytes, queues in multiples of the payload, a
// header queue twice the data queue, PULLs at 99 % of line rate.
func usual(hosts, queue, window int) worldConfig {
	const payload, header = 1500, 64
	rate := 100 * clock.Gbps
	return worldConfig{
		hosts: hosts, rate: rate, delay: clock.Microsecond, header: header,
		dataQueue: queue * payload, headers: 2 * queue * payload, ratio: 100_000,
		host: ndp.Config{
			InitialWindow: window, Payload: payload, PullGap: rate.Serialise(payload+header) * 100 / 99, Paths: 1,
		},
		seed: 1,
	}
}

// endpoints returns n addresses from first on.
func endpoints(first, n int) []ndp.Endpoint {
	list := make([]ndp.Endpoint, n)
	for i := range list {
		list[i] = ndp.Endpoint(first + i)
	}
	return list
}

func (w *world) finished() (times []clock.Duration) {
	for _, e := range w.reports {
		if e.Kind == ndp.Finished {
			times = append(times, e.at.Sub(e.Started))
		}
	}
	return times
}
