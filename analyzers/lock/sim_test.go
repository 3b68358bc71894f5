package lock

import (
	"container/heap"
	"fmt"
	"math/rand/v2"
	"net/netip"
	"slices"

	"candela.dev/candela/analyzers"
	"candela.dev/candela/clock"
	"candela.dev/candela/lock"
	"candela.dev/candela/packet/netlock"
	"candela.dev/candela/trace"
)

// A simulator of lock switches, a lock server and clients, written from the reference model for these tests. It knows
// neither the models nor the judge.

const (
	ns = clock.Nanosecond
	us = clock.Microsecond
	ms = clock.Millisecond
)

// setup is what is simulated.
type setup struct {
	seed     uint64
	facts    lock.Switch // of the switch; ports are made
	clients  int         // threads; each has a port of its own
	locks    int
	shared   float64
	most     int // locks in a transaction
	think    clock.Duration
	wire     clock.Duration // least one-way delay; each client has up to twice that
	timeout  clock.Duration
	lasts    clock.Duration // from then on no transaction begins
	loss     float64        // of frames on links of clients
	pushLoss float64        // and of the server
	tail     float64        // chance that the switch drops a packet, as it comes or goes
	kill     float64        // chance that a holder dies instead of releasing
	answers  bool           // dedup answers holders again
	tenants  int
	noise    float64 // chance that a request comes with a packet of others
	backup   bool
	stop     clock.Duration // when the switch stops; 0: never
	back     clock.Duration // when it returns
	fault    string
	every    int // the fault happens each time that so many occasions have passed; 0: 1
	rate     clock.BitRate
	gap      func(j *Judge, n int, p *Packet) bool // drops packets from the capture
	incompl  bool
	patient  bool                // nobody asks again
	hide     func(*lock.Network) // facts from the judge
}

type happening struct {
	at    clock.Time
	order int
	do    func()
}

type agenda []happening

func (a agenda) Len() int { return len(a) }
func (a agenda) Less(i, k int) bool {
	return a[i].at < a[k].at || a[i].at == a[k].at && a[i].order < a[k].order
}
func (a agenda) Swap(i, k int) { a[i], a[k] = a[k], a[i] }
func (a *agenda) Push(x any)   { *a = append(*a, x.(happening)) }
func (a *agenda) Pop() any {
	x := (*a)[len(*a)-1]
	*a = (*a)[:len(*a)-1]
	return x
}

// who names a request.
type who struct {
	lock, tid uint32
	client    int
}

// entry is a slot.
type entry struct {
	who
	mode     netlock.Mode
	priority uint8
	tenant   uint16
	granted  bool
	at       clock.Time
	pushed   bool
	free     bool
}

// queue is what a switch has of a lock.
type queue struct {
	id         uint32
	slots      int
	ring       []entry // without priorities
	head, tail uint64
	nX, nS     int
	busy       bool
	lists      [][]entry // by priority
	over       int
	sent       uint64
	asked      uint64 // sent as the last PUSH_REQ left
	lossSeen   uint64
	taken      uint64
	out        bool
	turn       int
	chains     int  // that have begun
	withheld   bool // the switch does not own the lock yet
}

func (q *queue) count() int { return q.nX + q.nS }

// box is a simulated switch.
type box struct {
	number int
	queues map[uint32]*queue
	quota  map[uint16]int64
	period int64
	busy   []clock.Time
	down   bool
	life   int        // outages
	waits  clock.Time // it grants none before
}

type parkedEntry struct {
	entry
	index uint64
}

// shelf is what the server buffers of a lock for a switch.
type shelf struct {
	box  int
	lock uint32
}

type buffer struct {
	list            []parkedEntry
	index, received uint64
}

// sim is all of it.
type sim struct {
	*setup
	random   *rand.Rand
	judge    *Judge
	agenda   agenda
	order    int
	now      clock.Time
	boxes    []*box
	threads  []*thread
	ids      uint64
	chances  int
	happened int // faults
	owned    map[uint32]*queue
	buffers  map[shelf]*buffer
	server   clock.Time // busy until
	shown    int
	history  []event
	active   int
	wireDue  map[[2]int]clock.Time
}

// event is what a history check sees.
type event struct {
	at    clock.Time
	kind  byte // g: granted, r: released
	who   who
	mode  netlock.Mode
	order int
}

// thread is a client's.
type thread struct {
	number int
	tid    uint32
	wants  map[uint32]netlock.Mode
	have   map[uint32]int // switch that granted
	dead   bool
	tenant uint16
	prio   uint8
	delay  clock.Duration
	round  int
}

func address(client int) netip.Addr {
	return netip.AddrFrom4([4]byte{10, 0, byte(client >> 8), byte(client + 1)})
}

var serverAddress = netip.MustParseAddr("10.9.9.9")

func newSim(s *setup) *sim {
	m := &sim{setup: s, random: rand.New(rand.NewPCG(s.seed, 22)), owned: map[uint32]*queue{},
		buffers: map[shelf]*buffer{},
		wireDue: map[[2]int]clock.Time{}}
	if s.rate == 0 {
		s.rate = 40 * clock.Gbps
	}
	facts := s.facts
	for range s.clients + 1 {
		facts.Ports = append(facts.Ports, lock.Port{Rate: s.rate, Framing: 24})
	}
	network := lock.Network{Switches: []lock.Switch{facts}, Servers: []netip.Addr{serverAddress}, Complete: !s.incompl}
	if s.backup {
		second := facts
		second.Name, second.Standby = "backup", true
		network.Switches[0].Name = "first"
		network.Switches = append(network.Switches, second)
	}
	var err error
	if s.hide != nil {
		for i := range network.Switches {
			network.Switches[i].Ports = slices.Clone(network.Switches[i].Ports)
		}
		s.hide(&network)
	}
	if m.judge, err = New(network); err != nil {
		panic(err)
	}
	for i := range network.Switches {
		m.boxes = append(m.boxes, m.newBox(i))
	}
	for i := range s.clients {
		t := &thread{number: i, delay: s.wire + clock.Duration(m.random.Int64N(int64(s.wire)+1))}
		if s.tenants > 0 {
			t.tenant = uint16(i%s.tenants + 1)
		}
		if s.facts.Priorities > 1 {
			t.prio = uint8(m.random.IntN(s.facts.Priorities) + 1)
		}
		m.threads = append(m.threads, t)
	}
	return m
}

func (m *sim) newBox(number int) *box {
	b := &box{number: number, queues: map[uint32]*queue{}, quota: map[uint16]int64{},
		busy: make([]clock.Time, m.clients+1)}
	for id, n := range m.facts.Locks {
		q := &queue{id: id, slots: n, ring: make([]entry, n)}
		if m.facts.Priorities > 1 {
			q.lists = make([][]entry, m.facts.Priorities)
		}
		b.queues[id] = q
	}
	return b
}

func (m *sim) after(d clock.Duration, do func()) {
	m.order++
	heap.Push(&m.agenda, happening{m.now.Add(d), m.order, do})
}

// inside happens in a switch, unless it has stopped meanwhile.
func (m *sim) inside(b *box, d clock.Duration, do func()) {
	life := b.life
	m.after(d, func() {
		if !b.down && b.life == life {
			do()
		}
	})
}

// faulty reports whether a fault is due at this occasion.
func (m *sim) faulty(name string) bool {
	if m.fault != name {
		return false
	}
	m.chances++
	if m.chances%max(m.every, 1) != 0 {
		return false
	}
	m.happened++
	return true
}

// show shows the judge a packet.
func (m *sim) show(b *box, port int, stage trace.SwitchStage, f *frame) {
	m.shown++
	p := Packet{Time: m.now, ID: f.id, Switch: b.number, Port: port, Stage: stage, Size: f.size, Lock: !f.other,
		Src: f.src, Dst: f.dst, DstPort: f.port, Header: f.h}
	if f.other {
		p.Flow, p.Digest = f.flow, f.digest
	}
	if m.gap != nil && m.gap(m.judge, m.shown, &p) {
		return
	}
	m.judge.Packet(&p)
}

// frame is one on a wire.
type frame struct {
	id           uint64
	src, dst     netip.Addr
	port         uint16
	h            netlock.Header
	size         int32
	other        bool
	flow, digest uint64
}

func (m *sim) frame(src, dst netip.Addr, port uint16, h netlock.Header) *frame {
	m.ids++
	return &frame{id: m.ids, src: src, dst: dst, port: port, h: h, size: 62}
}

// enter brings a frame to a switch after a delay, in order on its wire.
func (m *sim) enter(b *box, port int, delay clock.Duration, loss float64, f *frame) {
	at := max(m.now.Add(delay), m.wireDue[[2]int{b.number, port}].Add(12*ns))
	m.wireDue[[2]int{b.number, port}] = at
	if m.random.Float64() < loss {
		return
	}
	m.after(at.Sub(m.now), func() {
		m.show(b, port, trace.Entered, f)
		switch {
		case !b.down && m.random.Float64() < m.tail:
			m.show(b, port, trace.Dropped, f)
		case b.down:
		case f.other:
			m.passOn(b, f)
		default:
			m.process(b, f)
		}
	})
}

// send sends a frame by a port after the pipeline.
func (m *sim) send(b *box, port int, f *frame, more clock.Duration) {
	m.inside(b, m.facts.Pipeline+more, func() {
		if m.random.Float64() < m.tail {
			m.show(b, port, trace.Dropped, f)
			return
		}
		at := max(m.now, b.busy[port])
		b.busy[port] = at.Add(m.rate.Serialise(int(f.size) + 24))
		m.inside(b, at.Sub(m.now), func() {
			m.show(b, port, trace.Left, f)
			m.arrive(b, port, f)
		})
	})
}

// arrive brings a frame that has left to its receiver.
func (m *sim) arrive(b *box, port int, f *frame) {
	if f.other {
		return
	}
	if port == m.clients {
		if m.random.Float64() < m.pushLoss {
			return
		}
		m.after(m.wire, func() { m.serve(b, f) })
		return
	}
	t := m.threads[port]
	if m.random.Float64() < m.loss {
		return
	}
	m.after(t.delay, func() { m.answered(t, b, f) })
}

func (m *sim) passOn(b *box, f *frame) {
	if m.faulty("changes-others") {
		f.digest++
	}
	more := clock.Duration(0)
	if m.faulty("reorders-others") {
		more = 3 * us
	}
	port := m.clients
	if m.random.IntN(2) == 0 {
		port = m.random.IntN(m.clients)
	}
	m.send(b, port, f, more)
}

// process is the data plane.
func (m *sim) process(b *box, f *frame) {
	switch f.h.Op {
	case netlock.Acquire:
		m.acquire(b, f)
	case netlock.Release:
		m.release(b, f)
	case netlock.PushBack:
		m.takeBack(b, f)
	case netlock.PushEmpty:
		if q := b.queues[f.h.Lock]; q != nil {
			m.pushed(b, q, f.h.Received)
		}
	case netlock.GrantFromServer:
		m.send(b, m.portOf(f.dst), f, 0)
	}
}

func (m *sim) portOf(a netip.Addr) int { return int(a.As4()[2])<<8 + int(a.As4()[3]) - 1 }

func (m *sim) whoOf(f *frame) who {
	client := f.src
	if f.h.Address.IsValid() {
		client = f.h.Address
	}
	return who{f.h.Lock, f.h.Transaction, m.portOf(client)}
}

func (m *sim) forward(b *box, f *frame, mark netlock.Mark) {
	out := *f
	out.h.Mark = mark
	m.ids++
	out.id = m.ids
	m.send(b, m.clients, &out, 0)
}

func (m *sim) acquire(b *box, f *frame) {
	if m.overQuota(b, f) {
		return
	}
	q := b.queues[f.h.Lock]
	if q == nil {
		switch {
		case m.faulty("drops-foreign"):
		case m.faulty("grants-foreign"):
			m.grant(b, nil, entry{who: m.whoOf(f), mode: f.h.Mode}, 0)
		default:
			m.forward(b, f, netlock.Owned)
		}
		return
	}
	e := entry{who: m.whoOf(f), mode: f.h.Mode, priority: f.h.Priority, tenant: f.h.Tenant}
	if m.facts.Dedup {
		if at := q.find(e.who); at != nil {
			if at.granted && m.answers {
				m.grant(b, q, *at, 0)
			}
			return
		}
	}
	full := q.count() >= q.slots
	if m.faulty("too-full") {
		full = full && q.count() > q.slots
		if q.lists == nil && q.count() == len(q.ring) { // make room for one more
			q.grow()
		}
	}
	over := q.over > 0
	if over && m.faulty("overtakes-buffer") {
		over = false
	}
	switch {
	case m.faulty("sends-away"):
		m.forward(b, f, netlock.Owned)
	case full || over || q.count()+1 < q.slots && m.faulty("buffers-early"):
		q.over++
		q.sent++
		m.forward(b, f, netlock.BufferOnly)
	case m.faulty("forgets"):
	default:
		m.insert(b, q, e)
	}
}

func (q *queue) grow() {
	ring := make([]entry, len(q.ring)+1)
	for s := q.head; s < q.tail; s++ {
		ring[s%uint64(len(ring))] = q.ring[s%uint64(len(q.ring))]
	}
	q.ring = ring
}

func (q *queue) at(s uint64) *entry { return &q.ring[s%uint64(len(q.ring))] }

func (q *queue) find(w who) *entry {
	for s := q.head; s < q.tail; s++ {
		if e := q.at(s); e.who == w {
			return e
		}
	}
	for _, list := range q.lists {
		for i := range list {
			if list[i].who == w {
				return &list[i]
			}
		}
	}
	return nil
}

func (m *sim) overQuota(b *box, f *frame) bool {
	limit, ok := m.facts.Quota[f.h.Tenant]
	if m.facts.Period == 0 || !ok {
		return false
	}
	if n := floor(m.now.Sub(m.facts.Reset), m.facts.Period); n != b.period {
		b.period = n
		clear(b.quota)
	}
	if b.quota[f.h.Tenant]++; b.quota[f.h.Tenant] <= limit && !m.faulty("rejects-early") || m.fault == "ignores-quota" {
		m.happened++
		return false
	}
	h := f.h
	h.Op = netlock.Reject
	m.send(b, m.portOf(f.src), m.frame(serverAddress, f.src, netlock.ReplyPort, h), 0)
	return true
}

// mayGrant reports whether the switch may grant at all (failover).
func (m *sim) mayGrant(b *box, q *queue) bool {
	if m.now < b.waits && !m.faulty("takes-over-early") {
		return false
	}
	if m.backup && b.number == 0 && m.back > 0 && m.now >= clock.Time(m.back) {
		if o := m.boxes[1].queues[q.id]; (o.count() > 0 || o.over > 0) && m.fault != "bypasses-backup" {
			return false
		}
		if m.fault == "bypasses-backup" {
			m.happened++
		}
	}
	return true
}

func (m *sim) insert(b *box, q *queue, e entry) {
	mode := m.facts.Processing
	grants := e.mode == netlock.Shared && q.nX == 0 && (mode != lock.ChainLock || !q.busy) ||
		e.mode == netlock.Exclusive && q.count() == 0
	if q.lists != nil {
		blocked := false
		for i := range int(e.priority) {
			for _, other := range q.lists[i] {
				blocked = blocked || other.mode == netlock.Exclusive
			}
		}
		for _, list := range q.lists {
			for _, other := range list {
				blocked = blocked || other.granted && other.mode == netlock.Exclusive
			}
		}
		grants = q.count() == 0 || e.mode == netlock.Shared && !blocked && !q.busy
	}
	if e.mode == netlock.Exclusive && q.count() > 0 && q.nX == 0 && m.faulty("shares-exclusive") {
		grants = true
	}
	if e.mode == netlock.Shared && q.nX > 0 && m.faulty("admits-shared") {
		grants = true
	}
	if m.backup || b.waits > 0 {
		m.unlock(b, q)
		grants = grants && !q.withheld
		if grants && !m.mayGrant(b, q) {
			grants, q.withheld = false, true
		}
	}
	if grants {
		e.granted, e.at = true, m.now
	}
	if q.lists != nil {
		q.lists[e.priority-1] = append(q.lists[e.priority-1], e)
	} else {
		*q.at(q.tail) = e
		q.tail++
	}
	if e.mode == netlock.Exclusive {
		q.nX++
	} else {
		q.nS++
	}
	if grants {
		delay := clock.Duration(0)
		if m.faulty("grants-late") {
			delay = 2 * us
		}
		m.grant(b, q, e, delay)
	}
}

func (m *sim) grant(b *box, q *queue, e entry, delay clock.Duration) {
	h := netlock.Header{Op: netlock.Acquire, Mode: e.mode, Lock: e.lock, Transaction: e.tid, Tenant: e.tenant}
	if e.pushed {
		h.Op = netlock.PushBack
	}
	m.history = append(m.history, event{m.now.Add(m.facts.Pipeline), 'g', e.who, e.mode, len(m.history)})
	if m.faulty("loses-grant") {
		return
	}
	m.send(b, e.client, m.frame(serverAddress, address(e.client), netlock.ReplyPort, h), delay)
	if m.faulty("grants-twice") {
		m.send(b, e.client, m.frame(serverAddress, address(e.client), netlock.ReplyPort, h), delay+40*ns)
	}
}

func (m *sim) release(b *box, f *frame) {
	w := m.whoOf(f)
	q := b.queues[f.h.Lock]
	if q == nil {
		m.forward(b, f, netlock.Owned)
		return
	}
	if q.count() == 0 || m.faulty("ignores-release") {
		return
	}
	m.drop(b, q, w, m.facts.TIDCheck && !m.faulty("checks-nothing"))
}

// drop removes the entry of a holder, or whatever is first, and goes on with the release.
func (m *sim) drop(b *box, q *queue, w who, exactly bool) {
	if q.lists != nil {
		m.dropOf(b, q, w)
		return
	}
	if exactly {
		found := false
		for s := q.head; s < q.tail; s++ {
			if e := q.at(s); e.who == w && e.granted {
				*e, found = *q.at(q.head), true
				break
			}
		}
		if !found {
			return
		}
	}
	mode := q.at(q.head).mode
	m.history = append(m.history, event{m.now, 'r', w, mode, len(m.history)})
	q.at(q.head).free = true
	q.head++
	q.less(mode)
	if q.count() == 0 {
		m.empty(b, q)
		return
	}
	if q.over > 0 && !q.out && m.faulty("asks-early") {
		m.ask(b, q)
	}
	m.resubmit(b, q, mode)
}

func (q *queue) less(mode netlock.Mode) {
	if mode == netlock.Exclusive {
		q.nX--
	} else {
		q.nS--
	}
}

func (m *sim) empty(b *box, q *queue) {
	if q.over > 0 && !q.out && !m.faulty("never-asks") {
		m.ask(b, q)
	}
}

func (m *sim) ask(b *box, q *queue) {
	q.out = true
	q.turn++
	turn := q.turn
	if m.facts.PushRetry > 0 {
		m.inside(b, m.facts.PushRetry, func() {
			if q.out && q.turn == turn {
				m.ask(b, q)
			}
		})
	}
	if q.count() >= q.slots {
		return
	}
	q.asked = q.sent
	h := netlock.Header{Op: netlock.PushRequest, Lock: q.id, Avail: uint32(q.slots - q.count()), Sent: q.sent,
		Index: q.taken}
	m.send(b, m.clients, m.frame(serverAddress, serverAddress, netlock.Port, h), 0)
}

// resubmit is what follows pass 0 of a release of that mode.
func (m *sim) resubmit(b *box, q *queue, mode netlock.Mode) {
	h, tail := q.head, q.tail
	first := *q.at(h)
	chain := mode == netlock.Exclusive && first.mode == netlock.Shared
	if chain {
		q.busy = true
		q.chains++
	}
	// With a long recirculation a pass may come when its slot has another request, or another chain has begun. The
	// published text has no guard against it; chainlock needs both.
	guarded, mine := m.facts.Processing == lock.ChainLock, q.chains
	passes := m.facts.Passes // to the first grant
	pass := func(then func()) {
		d := m.facts.Recirculation
		if m.faulty("skips-pass") {
			d /= 2
		}
		d *= clock.Duration(max(passes, 1))
		passes = 1
		if m.faulty("slows-chain") {
			d += 3 * us
		}
		m.inside(b, d, then)
	}
	pass(func() {
		switch e := q.at(h); {
		case guarded && (chain && q.chains != mine || !chain && h != q.head):
		case e.mode == netlock.Exclusive:
			if m.faulty("grants-next") && h+1 < q.tail {
				e = q.at(h + 1)
			}
			if !e.granted || m.facts.Processing != lock.ChainLock {
				m.grantSlot(b, q, e)
			}
		case mode == netlock.Exclusive:
			n := 0
			var on func()
			on = func() {
				end := q.tail
				if m.facts.Processing == lock.Snapshot {
					end = tail
				}
				if guarded && q.chains != mine {
					return
				}
				if guarded {
					h = max(h, q.head) // an exclusive one may have come and gone since the chain's last grant
				}
				if n > 0 && m.faulty("stops-chain") {
					q.busy = false
					return
				}
				if h >= end || q.at(h).mode != netlock.Shared {
					q.busy = false
					return
				}
				m.grantSlot(b, q, q.at(h))
				n++
				h++
				if m.faulty("chain-at-once") && h < q.tail && q.at(h).mode == netlock.Shared {
					m.grantSlot(b, q, q.at(h))
					h++
				}
				pass(on)
			}
			if m.faulty("reverses-run") && q.tail-h >= 2 && q.at(h+1).mode == netlock.Shared {
				*q.at(h), *q.at(h + 1) = *q.at(h + 1), *q.at(h)
			}
			on()
		case !e.granted && m.facts.Processing == lock.ChainLock:
		}
	})
}

func (m *sim) grantSlot(b *box, q *queue, e *entry) {
	e.granted, e.at = true, m.now
	m.grant(b, q, *e, 0)
}

// dropOf is drop with priorities.
func (m *sim) dropOf(b *box, q *queue, w who) {
	for i, list := range q.lists {
		for k := range list {
			if list[k].who != w || !list[k].granted {
				continue
			}
			mode := list[k].mode
			m.history = append(m.history, event{m.now, 'r', w, mode, len(m.history)})
			q.lists[i] = slices.Delete(list, k, k+1)
			q.less(mode)
			if q.count() == 0 {
				m.empty(b, q)
			} else {
				m.resubmitOf(b, q, mode)
			}
			return
		}
	}
}

// next returns whoever is to be granted next; nil: nobody.
func (q *queue) next(wrong bool) *entry {
	var shared, exclusive bool
	for _, list := range q.lists {
		for _, e := range list {
			shared = shared || e.granted && e.mode == netlock.Shared
			exclusive = exclusive || e.granted && e.mode == netlock.Exclusive
		}
	}
	if exclusive {
		return nil
	}
	order := slices.Clone(q.lists)
	if wrong {
		slices.Reverse(order)
	}
	for _, list := range order {
		for i := range list {
			if list[i].granted {
				continue
			}
			if list[i].mode == netlock.Exclusive && shared {
				return nil
			}
			return &list[i]
		}
	}
	return nil
}

func (m *sim) resubmitOf(b *box, q *queue, mode netlock.Mode) {
	e := q.next(false)
	chain := mode == netlock.Exclusive && e != nil && e.mode == netlock.Shared
	if e == nil || e.mode == netlock.Shared && !chain {
		return
	}
	if chain {
		q.busy = true
		q.chains++
	}
	mine := q.chains
	var on func()
	on = func() {
		if chain && q.chains != mine {
			return
		}
		e := q.next(m.faulty("lowest-first"))
		if e == nil {
			if chain {
				q.busy = false
			}
			return
		}
		if !chain && q.busy {
			return
		}
		m.grantSlot(b, q, e)
		if chain && e.mode == netlock.Exclusive { // it came meanwhile, with a higher priority
			q.busy = false
		} else if chain {
			m.inside(b, m.facts.Recirculation, on)
		}
	}
	m.inside(b, m.facts.Recirculation, on)
}

// takeBack is a PUSH_BACK that enters.
func (m *sim) takeBack(b *box, f *frame) {
	q := b.queues[f.h.Lock]
	if q == nil || f.h.Index != q.taken+1 {
		return
	}
	q.taken++
	q.over--
	e := entry{who: m.whoOf(f), mode: f.h.Mode, priority: max(f.h.Priority, 1), tenant: f.h.Tenant, pushed: true}
	if at := q.find(e.who); !m.facts.Dedup || at == nil {
		m.insert(b, q, e)
	}
	if f.h.Last {
		m.pushed(b, q, f.h.Received)
	}
}

// pushed ends a hand-over.
func (m *sim) pushed(b *box, q *queue, received uint64) {
	q.out = false
	loss := q.asked - received - q.lossSeen
	if int64(loss) > 0 {
		q.over -= int(loss)
		q.lossSeen += loss
	}
	if q.over > 0 && q.count() == 0 {
		m.ask(b, q)
	}
}

// serve is the lock server.
func (m *sim) serve(b *box, f *frame) {
	m.server = max(m.now, m.server).Add(444 * ns)
	m.after(m.server.Sub(m.now), func() { m.served(b, f) })
}

func (m *sim) served(b *box, f *frame) {
	id := f.h.Lock
	reply := func(h netlock.Header, to int) {
		m.enter(b, m.clients, m.wire, m.pushLoss, m.frame(serverAddress, address(to), netlock.ReplyPort, h))
	}
	kept := m.buffers[shelf{b.number, id}]
	if kept == nil {
		kept = &buffer{}
		m.buffers[shelf{b.number, id}] = kept
	}
	switch {
	case f.h.Op == netlock.PushRequest:
		list := kept.list
		for len(list) > 0 && list[0].index <= f.h.Index {
			list = list[1:]
		}
		if m.faulty("server-reorders") && len(list) >= 2 {
			list[0].entry, list[1].entry = list[1].entry, list[0].entry
		}
		kept.list = list
		n := min(int(f.h.Avail), len(list))
		for i := range n {
			e := list[i]
			reply(netlock.Header{Op: netlock.PushBack, Mode: e.mode, Lock: id, Transaction: e.tid, Tenant: e.tenant,
				Priority: e.priority, Last: i == n-1, Received: kept.received, Index: e.index, Address: address(e.client)},
				e.client)
		}
		if n == 0 {
			m.enter(b, m.clients, m.wire, m.pushLoss, m.frame(serverAddress, serverAddress, netlock.Port,
				netlock.Header{Op: netlock.PushEmpty, Lock: id, Received: kept.received}))
		}
	case f.h.Mark == netlock.BufferOnly:
		kept.index++
		kept.received++
		kept.list = append(kept.list, parkedEntry{entry{who: m.whoOf(f), mode: f.h.Mode, priority: f.h.Priority,
			tenant: f.h.Tenant}, kept.index})
	case f.h.Mark == netlock.Owned:
		q := m.owned[id]
		if q == nil {
			q = &queue{id: id, lists: make([][]entry, 1)}
			m.owned[id] = q
		}
		grants := func() {
			for {
				e := q.next(false)
				if e == nil {
					return
				}
				e.granted = true
				m.history = append(m.history, event{m.now, 'g', e.who, e.mode, len(m.history)})
				reply(netlock.Header{Op: netlock.GrantFromServer, Mode: e.mode, Lock: id, Transaction: e.tid,
					Tenant: e.tenant}, e.client)
			}
		}
		w := m.whoOf(f)
		if f.h.Op == netlock.Acquire {
			if at := q.find(w); at != nil {
				if at.granted {
					reply(netlock.Header{Op: netlock.GrantFromServer, Mode: at.mode, Lock: id, Transaction: at.tid,
						Tenant: at.tenant}, at.client)
				}
				return
			}
			e := entry{who: w, mode: f.h.Mode, tenant: f.h.Tenant}
			if m.faulty("server-shares") && len(q.lists[0]) > 0 {
				e.granted = true
				reply(netlock.Header{Op: netlock.GrantFromServer, Mode: e.mode, Lock: id, Transaction: e.tid}, e.client)
			}
			q.lists[0] = append(q.lists[0], e)
			grants()
			return
		}
		for i, e := range q.lists[0] {
			if e.who == w && e.granted {
				q.lists[0] = slices.Delete(q.lists[0], i, i+1)
				break
			}
		}
		grants()
	}
}

// begin begins a transaction of a thread.
func (m *sim) begin(t *thread) {
	if m.now >= clock.Time(m.lasts) || t.dead {
		return
	}
	t.tid++
	t.wants, t.have = map[uint32]netlock.Mode{}, map[uint32]int{}
	for range 1 + m.random.IntN(m.most) {
		mode := netlock.Exclusive
		if m.random.Float64() < m.shared {
			mode = netlock.Shared
		}
		t.wants[uint32(m.random.IntN(m.locks))] = mode
	}
	m.asks(t)
}

func (t *thread) list() (ids []uint32) {
	for id := range t.wants {
		ids = append(ids, id)
	}
	slices.Sort(ids)
	return ids
}

// asks sends what a transaction still needs.
func (m *sim) asks(t *thread) {
	t.round++
	round := t.round
	for _, id := range t.list() {
		if _, ok := t.have[id]; ok {
			continue
		}
		m.toSwitch(t, m.active, netlock.Header{Op: netlock.Acquire, Mode: t.wants[id], Lock: id, Transaction: t.tid,
			Tenant: t.tenant, Priority: t.prio})
	}
	if m.random.Float64() < m.noise {
		m.ids++
		b := m.boxes[m.active]
		m.enter(b, t.number, t.delay, 0, &frame{id: m.ids, size: 1500, other: true, flow: uint64(t.number + 1),
			digest: m.random.Uint64() | 1})
	}
	m.after(m.timeout, func() {
		if t.dead || t.round != round {
			return
		}
		if m.patient {
			return
		}
		if len(t.wants) == 1 || m.loss > 0 && m.random.IntN(2) == 0 {
			m.asks(t) // again, as the same transaction
			return
		}
		m.finish(t)
		m.after(clock.Duration(m.random.Int64N(10))*30*us, func() { m.begin(t) })
	})
}

func (m *sim) toSwitch(t *thread, sw int, h netlock.Header) {
	m.enter(m.boxes[sw], t.number, t.delay, m.loss, m.frame(address(t.number), serverAddress, netlock.Port, h))
}

// finish releases what a thread has.
func (m *sim) finish(t *thread) {
	t.round++
	for _, id := range t.list() {
		if sw, ok := t.have[id]; ok {
			m.toSwitch(t, sw, netlock.Header{Op: netlock.Release, Mode: t.wants[id], Lock: id, Transaction: t.tid,
				Tenant: t.tenant, Priority: t.prio})
		}
	}
	t.wants, t.have = nil, nil
}

// answered is a packet that reaches a client.
func (m *sim) answered(t *thread, b *box, f *frame) {
	h := f.h
	if t.dead {
		return
	}
	if h.Op == netlock.Reject {
		if h.Transaction == t.tid && t.wants != nil {
			m.finish(t)
			m.after(10*us, func() { m.begin(t) })
		}
		return
	}
	if _, ok := t.wants[h.Lock]; !ok || h.Transaction != t.tid {
		m.toSwitch(t, b.number, netlock.Header{Op: netlock.Release, Mode: h.Mode, Lock: h.Lock,
			Transaction: h.Transaction, Tenant: t.tenant, Priority: t.prio}) // too late: nobody needs it
		return
	}
	if _, ok := t.have[h.Lock]; ok {
		return
	}
	if t.have[h.Lock] = b.number; len(t.have) < len(t.wants) {
		return
	}
	t.round++
	if m.random.Float64() < m.kill {
		t.dead = true
		return
	}
	think := m.think
	if think > 0 {
		think = clock.Duration(m.random.Int64N(int64(2 * m.think)))
	}
	round := t.round
	m.after(think, func() {
		if t.round == round && !t.dead {
			m.finish(t)
			m.after(clock.Duration(m.random.Int64N(int64(us))), func() { m.begin(t) })
		}
	})
}

// poll is the control plane that ends leases.
func (m *sim) poll() {
	for _, b := range m.boxes {
		for _, id := range slices.Sorted(func(yield func(uint32) bool) {
			for id := range b.queues {
				if !yield(id) {
					return
				}
			}
		}) {
			m.pollOf(b, b.queues[id])
		}
	}
	m.after(m.facts.Poll, m.poll)
}

func (m *sim) pollOf(b *box, q *queue) {
	if b.down {
		return
	}
	if m.fault == "never-expires" {
		m.happened++
		return
	}
	lease := m.facts.Lease
	if m.fault == "expires-early" {
		lease /= 2
	}
	var old []who
	all := func(e *entry) {
		if e.granted && m.now.Sub(e.at) >= lease {
			old = append(old, e.who)
		}
	}
	for s := q.head; s < q.tail; s++ {
		all(q.at(s))
	}
	for _, list := range q.lists {
		for i := range list {
			all(&list[i])
		}
	}
	for _, w := range old {
		m.drop(b, q, w, true)
	}
	m.happened += len(old)
}

// fail stops the switch, and lets the backup take over.
func (m *sim) fail() {
	b := m.boxes[0]
	b.down = true
	b.life++
	m.judge.Stopping(m.now, 0)
	if m.backup {
		m.active = 1
		m.boxes[1].waits = m.now.Add(m.facts.Lease)
		m.after(m.facts.Lease, func() { m.kick(m.boxes[1]) })
	}
}

func (m *sim) restart() {
	down := m.boxes[0]
	fresh := m.newBox(0)
	for k := range m.buffers {
		if k.box == 0 { // the server clears what it has of a switch that has lost its registers
			delete(m.buffers, k)
		}
	}
	down.queues, down.quota = fresh.queues, fresh.quota
	down.down, m.active = false, 0
	m.judge.Started(m.now, 0)
	if m.backup {
		down.waits = clock.Time(m.stop + m.facts.Lease)
		m.handOver()
		return
	}
	down.waits = m.now.Add(m.facts.Lease)
	m.judge.TakesOver(m.now, 0)
	m.after(m.facts.Lease, func() { m.kick(down) })
}

// handOver lets the switch that has returned go on with locks that the backup is done with.
func (m *sim) handOver() {
	m.kick(m.boxes[0])
	if m.now < clock.Time(m.lasts)+clock.Time(20*ms) {
		m.after(5*us, m.handOver)
	}
}

// kick grants what a switch was not to grant when it came.
func (m *sim) kick(b *box) {
	ids := make([]uint32, 0, len(b.queues))
	for id := range b.queues {
		ids = append(ids, id)
	}
	slices.Sort(ids)
	for _, id := range ids {
		m.unlock(b, b.queues[id])
	}
}

// unlock grants the first requests of a queue that was not to be served, as soon as it is.
func (m *sim) unlock(b *box, q *queue) {
	if !q.withheld || !m.mayGrant(b, q) {
		return
	}
	q.withheld = false
	for s := q.head; s < q.tail; s++ {
		e := q.at(s)
		if e.mode == netlock.Exclusive && s != q.head {
			break
		}
		m.grantSlot(b, q, e)
		if e.mode == netlock.Exclusive {
			break
		}
	}
}

// run simulates, and returns what the judge found.
func (s *setup) run() (analyzers.Result, *sim) {
	m := newSim(s)
	for _, t := range m.threads {
		m.after(clock.Duration(m.random.Int64N(int64(4*us))), func() { m.begin(t) })
	}
	if s.facts.Lease > 0 {
		m.after(s.facts.Poll, m.poll)
	}
	if s.fault == "wakes-standby" {
		m.active = 1
		m.happened++
	}
	if s.stop > 0 {
		m.after(s.stop, m.fail)
		if s.back > 0 {
			m.after(s.back, m.restart)
		}
	}
	end := clock.Time(s.lasts) + clock.Time(3*s.facts.Lease+3*s.facts.Poll+20*s.timeout+50*us)
	for len(m.agenda) > 0 && m.agenda[0].at <= end {
		next := heap.Pop(&m.agenda).(happening)
		m.now = next.at
		next.do()
	}
	m.now = end
	return m.judge.Finish(end), m
}

func describe(r *analyzers.Result) (list []string) {
	for _, f := range r.Findings {
		list = append(list, fmt.Sprintf("%v %s %s", clock.TextNS(f.TimeNS), f.Rule, f.Headline))
	}
	return list
}

func violated(r *analyzers.Result) map[string]int {
	n := make(map[string]int)
	for _, f := range r.Findings {
		if f.Severity == analyzers.Violation {
			n[f.Rule]++
		}
	}
	return n
}
