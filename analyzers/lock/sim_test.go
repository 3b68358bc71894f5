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
