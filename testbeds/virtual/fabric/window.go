package fabric

import (
	"sync"

	"candela.dev/candela/clock"
	"candela.dev/candela/trace"
)

// windows simulates partitions in parallel, conservatively: no event is ever rolled back. A packet needs at least the
// delay of the shortest cut link to reach another partition. In a window of that length, starting with the earliest
// event, no partition can affect another. At its end, packets that cross a cut are handed over, and taps see what
// happened in event order. The number of partitions and workers does not change the output.
type windows struct {
	length  clock.Duration
	workers int
	open    bool   // a window is being simulated
	why     string // there are fewer partitions than workers
	forced  bool   // for tests: use all workers even in windows with few hops
	flaps   bool   // for tests: join and divide all the time
	joined  bool   // the first partition has everything: there are few hops
	span    int    // windows until hops are counted again, if joined
	few     int    // windows in a row with few hops, if not joined
	recent  uint64 // hops of a window, on average
	work    Parallelism
	shower  shower
}

// Parallelism describes how a network was simulated.
type Parallelism struct {
	Workers, Partitions int
	Window              clock.Duration // 0: there is one partition
	Windows, Alone      uint64         // windows; of those, how many one worker simulated because they held too few hops
	Longest             uint64         // critical path: the sum over windows of the busiest worker's hops
	// Undivided says why there are fewer partitions than workers; empty: there are as many.
	Undivided string
}

// Parallelism returns how the network was simulated up to now.
func (n *Network) Parallelism() Parallelism {
	w := n.windows.work
	w.Workers, w.Partitions, w.Window = n.windows.workers, len(n.parts), n.windows.length
	w.Undivided = n.windows.why
	return w
}

// letter is a packet that arrives in another partition.
type letter struct {
	at     clock.Time
	packet uint32
	port   int32
}

// post schedules the arrival of p at port number i of another partition.
func (e *engine) post(p *Packet, i int32, at clock.Time) {
	to := e.home[i]
	e.outbox[to] = append(e.outbox[to], letter{at, p.number, i})
	e.posted = min(e.posted, at)
}

// now returns the time of the latest event of all.
func (n *Network) now() clock.Time {
	if p := n.faulty(); p != nil {
		return p.failed.at
	}
	now := n.parts[0].engine.now
	for _, p := range n.parts {
		now = max(now, p.engine.now)
	}
	return now
}

// next returns when the earliest event of all is due; ok is false if there is none.
func (n *Network) next() (at clock.Time, ok bool) {
	if len(n.parts) == 1 {
		return n.parts[0].engine.next()
	}
	at = clock.Never
	for _, p := range n.parts {
		if t, some := p.engine.next(); some {
			at = min(at, t)
		}
		at = min(at, p.engine.posted)
	}
	return at, at != clock.Never
}

// fault returns the error that ended the run: the first fault in event order.
func (n *Network) fault() error {
	if p := n.faulty(); p != nil {
		return p.fault
	}
	return nil
}

// faulty returns the partition with that fault; nil: none.
func (n *Network) faulty() (first *part) {
	for _, p := range n.parts {
		if p.fault != nil && (first == nil || p.failed.before(first.failed)) {
			first = p
		}
	}
	return first
}

// moment is the position of an event in the order of all events.
type moment struct {
	at   clock.Time
	rank uint64
}

func (m moment) before(o moment) bool { return m.at < o.at || m.at == o.at && m.rank < o.rank }

// moment returns the position of the event being served.
func (e *engine) moment() moment { return moment{e.now, e.serving.rank()} }

// run serves all events up to an instant.
func (n *Network) run(until clock.Time) {
	if len(n.parts) == 1 {
		n.parts[0].engine.run(until)
		return
	}
	var crew crew
	defer crew.dismiss()
	defer n.windows.shower.end()
	for n.fault() == nil {
		at, ok := n.next()
		if !ok || at > until {
			break
		}
		if n.windows.joined {
			n.runJoined(at, until)
		} else {
			n.window(&crew, at, until)
		}
	}
	n.gather()
	for _, p := range n.parts {
		p.engine.halted = n.fault() != nil
	}
}

// window simulates the window that begins with the earliest event.
func (n *Network) window(crew *crew, at, until clock.Time) {
	w := &n.windows
	n.exchange()
	end := min(until, at.Add(w.length-1))
	hops, most := n.Hops(), uint64(0)
	for _, p := range n.parts {
		p.before = p.engine.hops
	}
	w.open = true
	w.work.Windows++
	if w.forced || w.recent >= fewHops {
		w.few = 0
		crew.advance(n.parts, span{at, end})
		for _, p := range n.parts {
			most = max(most, p.engine.hops-p.before)
		}
	} else {
		w.few++
		w.work.Alone++
		for _, p := range n.parts {
			p.advance(at, end)
			most += p.engine.hops - p.before
		}
	}
	w.open = false
	w.work.Longest += most
	w.recent = (3*w.recent + n.Hops() - hops) / 4
	n.show()
	if (w.few == patience || w.flaps && w.work.Windows%3 == 0) && n.fault() == nil {
		w.shower.end() // taps see packets at once from now on
		n.gather()
		n.regroup(true)
	}
}

// runJoined simulates a span of windows by one worker, and divides the network if they held many hops.
func (n *Network) runJoined(at, until clock.Time) {
	w, e := &n.windows, &n.parts[0].engine
	before := n.Hops()
	e.run(min(until, at.Add(clock.Duration(w.span)*w.length-1)))
	hops := n.Hops() - before
	passed := uint64(max(e.now.Sub(at), 0)/w.length) + 1
	w.work.Windows += passed
	w.work.Alone += passed
	w.work.Longest += hops
	switch {
	case w.flaps || hops >= fewHops*passed:
		w.recent = hops / passed
		n.regroup(false)
	case 2*passed >= uint64(w.span):
		w.span = min(2*w.span, patience)
	}
}

// gather has every packet collected that was posted.
func (n *Network) gather() {
	n.exchange()
	for _, p := range n.parts {
		p.collect()
	}
}

// exchange hands the posted packets to their partitions, which collect them. It also rebalances free packets, because
// packets start and end in different partitions.
func (n *Network) exchange() {
	for _, p := range n.parts {
		e := &p.engine
		e.outbox, e.sent, e.posted = e.sent, e.outbox, clock.Never
	}
	rich, poor := n.parts[0], n.parts[0]
	for _, p := range n.parts {
		if len(p.pool.free) > len(rich.pool.free) {
			rich = p
		}
		if len(p.pool.free) < len(poor.pool.free) {
			poor = p
		}
	}
	if most := len(rich.pool.free); most > 4*slab && len(poor.pool.free) < most/4 {
		kept := most - (most-len(poor.pool.free))/2
		poor.pool.free = append(poor.pool.free, rich.pool.free[kept:]...)
		rich.pool.free = rich.pool.free[:kept]
	}
}

// collect inserts the packets posted by other partitions.
func (p *part) collect() {
	me := p.number
	for _, from := range p.net.parts {
		letters := from.engine.sent[me]
		for _, l := range letters {
			p.engine.insert(l.at, arrival<<kindShift|what(l.port)<<packetBits|what(l.packet))
		}
		from.engine.sent[me] = letters[:0]
	}
}

// advance simulates the partition's share of a window.
func (p *part) advance(start, end clock.Time) {
	p.engine.now = max(p.engine.now, start)
	p.collect()
	p.engine.run(end)
}

type span struct{ start, end clock.Time }

// crew is the workers of a run, one per partition except the first, which the caller simulates.
type crew struct {
	next  []chan span // windows to simulate
	done  chan struct{}
	group sync.WaitGroup
}

func (c *crew) advance(parts []*part, s span) {
	if c.next == nil {
		c.hire(parts)
	}
	for _, next := range c.next {
		next <- s
	}
	parts[0].advance(s.start, s.end)
	for range c.next {
		<-c.done
	}
}

func (c *crew) hire(parts []*part) {
	c.done = make(chan struct{}, len(parts))
	for _, p := range parts[1:] {
		next := make(chan span)
		c.next = append(c.next, next)
		c.group.Go(func() {
			for s := range next {
				p.advance(s.start, s.end)
				c.done <- struct{}{}
			}
		})
	}
}

func (c *crew) dismiss() {
	for _, next := range c.next {
		close(next)
	}
	c.group.Wait()
}

// sight is an observation to deliver outside the network at the end of the window.
type sight struct {
	moment
	tap    Tap
	point  Point
	packet Packet
	tell   func() // called instead of tap
}

// note keeps s, an observation of the current event.
func (p *part) note(s sight) {
	s.moment = p.engine.moment()
	p.sights = append(p.sights, s)
}

// show has the observations of a window delivered, up to a fault, while the next window is simulated.
func (n *Network) show() {
	s := &n.windows.shower
	s.wait()
	if s.lists == nil {
		s.lists = make([][]sight, len(n.parts))
	}
	some := false
	for i, p := range n.parts {
		p.sights, s.lists[i] = s.lists[i], p.sights
		some = some || len(s.lists[i]) > 0
	}
	if s.last = (moment{at: clock.Never}); !some {
		return
	}
	if p := n.faulty(); p != nil {
		s.last = p.failed
	}
	s.begin()
}

// shower delivers observations in a goroutine of its own.
type shower struct {
	lists [][]sight // of a window, by partition
	last  moment    // what comes later is omitted
	work  chan struct{}
	done  chan struct{}
	busy  bool
}

func (s *shower) begin() {
	if s.work == nil {
		s.work, s.done = make(chan struct{}), make(chan struct{})
		go func() {
			for range s.work {
				s.deliver()
				s.done <- struct{}{}
			}
			close(s.done)
		}()
	}
	s.busy = true
	s.work <- struct{}{}
}

// wait returns when everything has been delivered.
func (s *shower) wait() {
	if s.busy {
		<-s.done
		s.busy = false
	}
}

// end also ends the goroutine.
func (s *shower) end() {
	s.wait()
	if s.work != nil {
		close(s.work)
		<-s.done
		s.work = nil
	}
}

// deliver delivers observations in event order, merging the partitions' lists.
func (s *shower) deliver() {
	var next [1 << 8]int
	for {
		first := -1
		for i, list := range s.lists {
			if next[i] < len(list) && (first < 0 || list[next[i]].before(s.lists[first][next[first]].moment)) {
				first = i
			}
		}
		if first < 0 {
			break
		}
		seen := &s.lists[first][next[first]]
		if s.last.before(seen.moment) {
			break
		}
		next[first]++
		if seen.tell != nil {
			seen.tell()
		} else {
			seen.tap(seen.point, seen.at, &seen.packet)
		}
	}
	for i, list := range s.lists {
		clear(list)
		s.lists[i] = list[:0]
	}
}

// ordered returns a tap that calls t in event order, even if partitions are simulated in parallel.
func (n *Network) ordered(t Tap) Tap {
	if len(n.parts) == 1 {
		return t
	}
	return func(at Point, now clock.Time, p *Packet) {
		if !n.windows.open {
			t(at, now, p)
			return
		}
		s := sight{tap: t, point: at, packet: *p}
		s.packet.next, s.packet.prev = nil, nil
		if at.Host {
			n.hosts[at.Node].part.note(s)
		} else {
			n.switches[at.Node].part.note(s)
		}
	}
}

// orderedDecisions does the same for decisions.
func (n *Network) orderedDecisions(f func(*trace.Decision)) func(*Switch, *trace.Decision) {
	return func(sw *Switch, d *trace.Decision) {
		if !n.windows.open {
			f(d)
			return
		}
		kept := *d
		sw.part.note(sight{tell: func() { f(&kept) }})
	}
}

// Apart reports whether other hosts are being simulated in parallel: what a stack does outside its host must go through
// Report.
func (h *Host) Apart() bool { return h.net.windows.open }

// Report calls f in event order. Stacks use it for calls to other objects, which may be simulated in parallel.
func (h *Host) Report(f func()) {
	if !h.net.windows.open {
		f()
		return
	}
	h.part.note(sight{tell: f})
}
