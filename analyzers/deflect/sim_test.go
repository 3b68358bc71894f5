package deflect

import (
	"errors"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"candela.dev/candela/analyzers"
	"candela.dev/candela/analyzers/cause/causetest"
	"candela.dev/candela/clock"
	"candela.dev/candela/deflect"
	"candela.dev/candela/trace"
)

const us = clock.Microsecond

// reasons of drops in these tests.
const (
	reasonTail uint8 = 1 + iota
	reasonTTL
	reasonNoPort
	reasonEvicted
)

// view is one switch with hosts at its first ports and other switches at the rest.
type view struct {
	analyzers.SwitchView
	set          deflect.Settings
	hosts, ports int
	counters     *deflect.Counters
}

func (v *view) Switches() int               { return 1 }
func (v *view) SwitchName(int) string       { return "leaf-1" }
func (v *view) Ports(int) int               { return v.ports }
func (v *view) FlowOf(*trace.SwitchTap) int { return 1 }
func (v *view) Bounded() bool               { return false }
func (v *view) InFlight() bool              { return false }
func (v *view) Makes(int) bool              { return false }
func (v *view) Settings(int) (any, error)   { return v.set, nil }
func (v *view) HostAt(_, port int) (uint32, bool) {
	return uint32(port), port < v.hosts
}

// Link returns that of a port; those to switches are slow, so that they, too, are congested.
func (v *view) Link(_, port int) (clock.BitRate, int) {
	if port < v.hosts {
		return clock.Gbps, 0
	}
	return clock.Gbps / 20, 0
}
func (v *view) Counters(int) (any, error) {
	if v.counters == nil {
		return nil, errors.New("none")
	}
	return *v.counters, nil
}
func (v *view) Reason(_ int, code uint8) analyzers.DropReason {
	return analyzers.DropReason{Name: [...]string{"", "tail", "ttl", deflect.ReasonNoPort, deflect.ReasonEvicted}[code]}
}

// frame is a packet of the simulation.
type frame struct {
	trace.SwitchTap
	priority uint64
	egress   int
	carries  uint64
	order    int
	before   int64 // deflections
}

// sim is a switch in some lines, which follows the reference model, or has a fault.
type sim struct {
	*view
	fault   string
	records bool
	random  *rand.Rand
	judge   analyzers.SwitchJudge
	now     clock.Time
	queues  [][]*frame
	busy    []clock.Time
	windows [][]uint64
	turns   []int
	written []seen
	visible []seen
	updated int64
	joined  int
	counts  []deflect.PortCounters
	packets int
	largest uint32
}

func (s *sim) tap(f *frame, stage trace.SwitchStage, port int, reason uint8) {
	t := f.SwitchTap
	t.Time, t.Stage, t.Port, t.Reason = s.now, stage, port, reason
	s.judge.Observe(&t)
}

func (s *sim) decide(f *frame, kind, cause uint8, port int, values ...int64) {
	if !s.records {
		return
	}
	r := trace.Decision{Time: s.now, Port: port, Kind: kind, Cause: cause, Packet: f.ID, Rank: f.Rank, Size: f.Size,
		Occupancy: s.bytes(port)}
	copy(r.Values[:], values)
	s.judge.Decide(&r)
}

func (s *sim) fate(f *frame, kind uint8, port int, deflections, stale int64) {
	s.decide(f, kind, 0, port, int64(f.egress), int64(f.Port), deflections, int64(f.TTL), int64(f.priority), stale)
}

func (s *sim) bytes(port int) (n int64) {
	for _, f := range s.queues[port] {
		n += int64(f.Size)
	}
	return n
}

// look updates what the ingress sees.
func (s *sim) look() {
	if s.set.Info == deflect.Exact {
		return
	}
	n := int64(s.now) / int64(s.set.Period)
	if n <= s.updated || s.fault == "never-updates" && n > 3 {
		return
	}
	s.updated = n
	for i := range s.visible {
		s.visible[i] = s.truth(i)
	}
}

func (s *sim) truth(i int) seen {
	v := seen{bytes: s.bytes(i), bit: s.bytes(i) >= int64(s.set.Congested), mean: s.written[i].mean}
	for _, f := range s.queues[i] {
		v.sum, v.count = v.sum+f.priority, v.count+1
	}
	if s.set.Info == deflect.Recirculated {
		v.bytes, v.bit = s.written[i].bytes, s.written[i].bit
	}
	return v
}

func (s *sim) sees(i int) seen {
	if s.set.Info == deflect.Exact {
		return s.truth(i)
	}
	return s.visible[i]
}

func (s *sim) full(f *frame, i int) bool {
	if s.set.Scheme == deflect.SD && s.set.Info != deflect.Exact {
		return s.sees(i).bit
	}
	return s.sees(i).bytes+int64(f.Size) >= int64(s.set.Queue)
}

// test tests a port for a frame and records that.
func (s *sim) test(f *frame, i int) (cause uint8) {
	v := s.sees(i)
	values := make([]int64, 8)
	values[deflect.TestSeen], values[deflect.TestDraw] = v.bytes, -1
	if s.fault == "lies" && s.packets%50 == 0 {
		values[deflect.TestSeen]++
	}
	full := s.full(f, i)
	cause = deflect.TestRoom
	if full {
		cause = deflect.TestFull
		values[deflect.TestCount] = number(s.set.Scheme == deflect.SD)
	}
	if s.set.Scheme == deflect.PD {
		cause = s.compare(f, i, v, full, values)
	}
	s.decide(f, deflect.Tested, cause, i, values...)
	return cause
}

func (s *sim) compare(f *frame, i int, v seen, full bool, values []int64) (cause uint8) {
	x := f.priority
	if s.set.Relative == deflect.DistEWMA {
		x = (x + uint64(s.set.Unit) - 1) / uint64(s.set.Unit)
	}
	values[deflect.TestPriority] = int64(x)
	values[deflect.TestCount] = 0
	if full && s.fault != "no-short-circuit" {
		return deflect.TestFull
	}
	k, of := int64(0), int64(billion)
	exp := func(x, m float64) int64 {
		switch {
		case x == 0:
			return 0
		case m == 0:
			return billion
		}
		return int64(math.Round(1e9 * (1 - math.Exp(-x/m))))
	}
	switch s.set.Relative {
	case deflect.Quantile:
		for _, w := range s.windows[i] {
			if w < x != (s.fault == "counts-larger") {
				k++
			}
		}
		of = int64(s.set.Window)
		values[deflect.TestState], values[deflect.TestCount] = deflect.WindowHash(slices.Values(s.windows[i])),
			int64(len(s.windows[i]))
		if s.turns[i] == 0 {
			values[deflect.TestSampled] = 1
			s.windows[i] = append(s.windows[i], x)
			if len(s.windows[i]) > s.set.Window {
				s.windows[i] = s.windows[i][1:]
			}
		}
		s.turns[i] = (s.turns[i] + 1) % s.set.Sample
	case deflect.Oracle:
		for _, other := range s.queues[i] {
			if other.priority < x {
				k++
			}
		}
		of = int64(max(len(s.queues[i]), 1))
		values[deflect.TestCount] = int64(len(s.queues[i]))
	case deflect.DistExact:
		values[deflect.TestState], values[deflect.TestCount] = int64(v.sum), v.count
		if v.count > 0 {
			k = exp(float64(x), float64(v.sum)/float64(v.count))
		}
	case deflect.DistEWMA:
		values[deflect.TestState] = int64(v.mean)
		k = exp(float64(deflect.DistBin(x)), float64(deflect.DistBin(v.mean)))
	}
	if full {
		return deflect.TestFull
	}
	values[deflect.TestNumerator], values[deflect.TestDenominator] = k, of
	r, q, held := float64(k)/float64(of), float64(s.set.Queue), float64(v.bytes)
	over := held > q*(1-float64(s.set.Alpha)/1e6*r)+1e-6
	switch {
	case s.set.Probabilistic && v.bytes <= int64(s.set.MinThreshold):
		over = false
	case s.set.Probabilistic:
		u := s.random.Uint64N(1 << 53)
		if s.fault == "biased-draw" {
			u /= 3
		}
		if s.fault == "coarse" {
			u &^= 1<<50 - 1
		}
		values[deflect.TestDraw] = int64(u)
		least := float64(s.set.MinThreshold)
		over = float64(u)/(1<<53) < r*(held-least)/(q-least)
	case s.set.Relative == deflect.DistEWMA:
		over = math.Floor(q*float64(s.set.Alpha)*r/1e6+1e-9) >= q-held
	}
	if s.fault == "half-threshold" {
		over = held > q/2
	}
	if over {
		return deflect.TestOver
	}
	return deflect.TestRoom
}

func (s *sim) enqueue(f *frame, port int, deflections int64, saw bool) {
	if s.bytes(port)+int64(f.Size) >= int64(s.set.Queue) {
		s.fate(f, deflect.Tail, port, deflections, number(saw))
		s.counts[port].Tail++
		s.tap(f, trace.Dropped, port, reasonTail)
		return
	}
	if deflections == 0 {
		s.fate(f, deflect.Queued, port, 0, 0)
	} else {
		s.fate(f, deflect.Deflected, port, deflections, 0)
		s.counts[f.egress].From++
		s.counts[port].To++
		s.counts[port].BouncedBack += uint64(number(port == f.Port))
	}
	if s.set.Relative == deflect.DistEWMA {
		x := (f.priority + uint64(s.set.Unit) - 1) / uint64(s.set.Unit)
		f.carries = (uint64(s.set.Divisor-1)*s.sees(port).mean + x) / uint64(s.set.Divisor)
	}
	s.joined++
	f.order = s.joined
	if s.set.Scheme == deflect.Vertigo {
		i, _ := slices.BinarySearchFunc(s.queues[port], f, func(a, b *frame) int {
			if a.priority <= b.priority {
				return -1
			}
			return 1
		})
		s.queues[port] = slices.Insert(s.queues[port], i, f)
	} else {
		s.queues[port] = append(s.queues[port], f)
	}
	s.serve(port)
}

// serve sends from a port that is free.
func (s *sim) serve(port int) {
	if s.busy[port] > s.now || len(s.queues[port]) == 0 {
		return
	}
	i := 0
	if s.fault == "reorders" && len(s.queues[port]) > 2 {
		i = 1
	}
	f := s.queues[port][i]
	s.queues[port] = slices.Delete(s.queues[port], i, i+1)
	s.written[port] = seen{bytes: s.bytes(port), bit: s.bytes(port) >= int64(s.set.Congested), mean: f.carries}
	s.busy[port] = s.now.Add(s.takes(port, f))
	if s.fault == "rushes" {
		s.busy[port] = s.now.Add(s.takes(port, f) / 2)
	}
	s.tap(f, trace.Left, port, 0)
}

func (s *sim) takes(port int, f *frame) clock.Duration {
	rate, _ := s.Link(0, port)
	return rate.Serialise(int(f.Size))
}

// arrive takes a frame in.
func (s *sim) arrive(f *frame) {
	s.packets++
	s.tap(f, trace.Entered, f.Port, 0)
	e := f.egress
	s.counts[e].Arrived++
	if s.set.Scheme == deflect.Vertigo {
		s.vertigo(f)
		return
	}
	cause := uint8(deflect.TestRoom)
	if s.set.Scheme != deflect.ECMP {
		cause = s.test(f, e)
	}
	if s.fault == "eager" && s.bytes(e) > int64(s.set.Queue)/2 {
		cause = deflect.TestOver
	}
	if cause == deflect.TestRoom {
		s.enqueue(f, e, 0, true)
		return
	}
	s.deflect(f, cause)
}

func (s *sim) eligible(f *frame) (list []int) {
	for i := s.hosts; i < s.ports; i++ {
		if s.set.Eligible == deflect.NotIngress && i == f.Port {
			continue
		}
		list = append(list, i)
	}
	if s.fault == "to-hosts" {
		list[0] = 1
	}
	return list
}

func (s *sim) deflect(f *frame, cause uint8) {
	list := s.eligible(f)
	d, draw, first, second, tie := -1, int64(0), int64(-1), int64(-1), uint8(deflect.PickChosen)
	switch s.set.Scheme {
	case deflect.Naive:
		draw = int64(s.random.IntN(len(list)))
		d = list[draw]
	case deflect.DIBS:
		order := s.random.Perm(len(list))
		if s.fault == "scans" {
			for i := range order {
				order[i] = (order[0] + i) % len(list)
			}
		}
		for _, i := range order {
			draw++
			if !s.full(f, list[i]) {
				d = list[i]
				break
			}
		}
		if s.fault == "gives-up" && draw > 1 {
			d = -1
		}
		if s.fault == "first-free" && d >= 0 {
			d = list[slices.IndexFunc(list, func(p int) bool { return !s.full(f, p) })]
		}
	case deflect.SD:
		r := s.random.IntN(len(list))
		if s.set.Inclusive {
			r = s.random.IntN(len(list)+1) % len(list)
		}
		if s.fault == "ends-early" {
			r = s.random.IntN(len(list))
		}
		if s.fault == "five-bits" {
			r = min(r, len(list)-2)
		}
		draw = int64(r)
		for k := range list {
			if p := list[(r+k)%len(list)]; !s.full(f, p) {
				d = p
				break
			}
		}
		if s.fault == "skips-itself" && d == list[r] && !s.full(f, list[(r+1)%len(list)]) {
			d = list[(r+1)%len(list)]
		}
	case deflect.PD:
		d, first, second, tie = s.candidates(f, list)
		draw = int64(min(2, len(list)))
	}
	bits, free := int64(0), int64(0)
	for i, p := range list {
		if s.full(f, p) {
			bits |= 1 << i
		} else {
			free++
		}
	}
	if d < 0 {
		s.decide(f, deflect.Pick, deflect.PickNone, f.egress, int64(f.egress), int64(len(list)), draw, first, second,
			bits, -1,
			free)
		s.fate(f, deflect.NoPort, f.egress, 0, 0)
		s.counts[f.egress].NoPort++
		s.tap(f, trace.Dropped, f.egress, reasonNoPort)
		return
	}
	s.decide(f, deflect.Pick, tie, d, int64(f.egress), int64(len(list)), draw, first, second, bits, s.sees(d).bytes)
	s.enqueue(f, d, 1, !s.full(f, d))
}

func (s *sim) candidates(f *frame, list []int) (d int, first, second int64, tie uint8) {
	tie = deflect.PickChosen
	perm := s.random.Perm(len(list))
	if s.fault == "same-pair" {
		slices.Sort(perm)
	}
	if s.fault == "adjacent" {
		perm[1] = (perm[0] + 1) % len(perm)
	}
	two := []int{list[perm[0]]}
	if len(list) > 1 && s.fault != "one-candidate" {
		two = append(two, list[perm[1]])
	}
	d, first, second = -1, int64(two[0]), -1
	best := int64(0)
	for i, p := range two {
		if i == 1 {
			second = int64(p)
		}
		if s.test(f, p) != deflect.TestRoom {
			continue
		}
		held := s.sees(p).bytes
		switch {
		case d < 0, held < best:
			d, best, tie = p, held, deflect.PickChosen
		case held == best && !s.set.TieFirst:
			tie = deflect.PickTie
			if s.random.IntN(2) == 0 {
				d = p
			}
		}
		if s.fault == "longest" && held > best {
			d, best = p, held
		}
	}
	if s.fault == "drops-good" && s.packets%5 == 0 {
		d = -1
	}
	return d, first, second, tie
}

// vertigo does what a Vertigo does.
func (s *sim) vertigo(f *frame) {
	e := f.egress
	if !s.full(f, e) && s.fault != "always-deflects" {
		s.enqueue(f, e, 0, true)
		return
	}
	free, n := int64(s.set.Queue)-s.bytes(e), len(s.queues[e])
	var victims []*frame
	ok := false
	for i := n - 1; i >= 0 && s.queues[e][i].priority > f.priority && !ok; i-- {
		v := s.queues[e][i]
		if s.fault == "first-victim" && i > 0 {
			v = s.queues[e][0]
		}
		victims = append(victims, v)
		free += int64(v.Size)
		ok = free >= int64(f.Size)
	}
	if !ok || s.fault == "never-pulls" {
		victims = []*frame{f}
	} else {
		for _, v := range victims {
			s.queues[e] = slices.DeleteFunc(s.queues[e], func(o *frame) bool { return o == v })
			s.fate(v, deflect.Extracted, e, v.before, 0)
			s.counts[e].Extracted++
		}
		s.fate(f, deflect.Queued, e, 0, 0)
		i := len(s.queues[e])
		for i > 0 && s.queues[e][i-1].priority > f.priority {
			i--
		}
		s.queues[e] = slices.Insert(s.queues[e], i, f)
	}
	for _, v := range victims {
		list := s.eligible(v)
		perm := s.random.Perm(len(list))
		x, y := list[perm[0]], list[perm[1]]
		d, tie := x, uint8(deflect.PickChosen)
		switch bx, by := s.bytes(x), s.bytes(y); {
		case by < bx:
			d = y
		case by == bx:
			tie = deflect.PickTie
			if s.random.IntN(2) == 0 {
				d = y
			}
		}
		if s.fault == "longest" {
			d = x + y - d
		}
		s.decide(v, deflect.Pick, tie, d, int64(v.egress), int64(len(list)), 2, int64(x), int64(y), 0, s.bytes(d))
		s.squeeze(v, d)
	}
}

// squeeze puts a victim into a queue, from which it drops what is least important.
func (s *sim) squeeze(v *frame, d int) {
	for s.bytes(d)+int64(v.Size) > int64(s.set.Queue) {
		last := v
		if q := s.queues[d]; len(q) > 0 && (q[len(q)-1].priority > v.priority || s.fault == "displaces-first") {
			last = q[len(q)-1]
			if s.fault == "displaces-first" {
				last = q[0]
			}
			s.queues[d] = slices.DeleteFunc(q, func(o *frame) bool { return o == last })
		}
		s.fate(last, deflect.Displaced, d, last.before, 0)
		s.counts[d].Displaced++
		s.tap(last, trace.Dropped, d, reasonEvicted)
		if last == v {
			return
		}
	}
	v.before++
	s.fate(v, deflect.Deflected, d, v.before, 0)
	s.counts[v.egress].From++
	s.counts[d].To++
	s.counts[d].BouncedBack += uint64(number(d == v.Port))
	i := len(s.queues[d])
	for i > 0 && s.queues[d][i-1].priority > v.priority {
		i--
	}
	s.queues[d] = slices.Insert(s.queues[d], i, v)
	s.serve(d)
}

// run simulates a number of packets and returns what the judge says.
func (s *sim) run(t *testing.T, packets int) analyzers.Result {
	t.Helper()
	j, err := NewJudge(s.view)
	if err != nil {
		t.Fatal(err)
	}
	s.judge = j
	s.random = rand.New(rand.NewPCG(7, 9))
	n := s.ports
	s.queues, s.busy, s.windows, s.turns = make([][]*frame, n), make([]clock.Time, n), make([][]uint64, n), make([]int, n)
	s.written, s.visible, s.counts = make([]seen, n), make([]seen, n), make([]deflect.PortCounters, n)
	arrives := clock.Time(0)
	for i := 0; i < packets; {
		next, port := arrives, -1
		for p := range s.busy {
			if len(s.queues[p]) > 0 && s.busy[p] < next {
				next, port = s.busy[p], p
			}
		}
		s.now = next
		s.look()
		if port >= 0 {
			s.serve(port)
			continue
		}
		i++
		s.arrive(s.frame(i))
		arrives = arrives.Add(clock.Duration(float64(3*us) * s.random.ExpFloat64()))
	}
	for again := true; again; {
		again = false
		next, port := clock.Time(math.MaxInt64), -1
		for p := range s.busy {
			if len(s.queues[p]) > 0 && s.busy[p] < next {
				next, port = s.busy[p], p
			}
		}
		if port >= 0 {
			s.now, again = next, true
			s.look()
			s.serve(port)
		}
	}
	if s.records {
		for i := range s.counts { // what only records show
			s.counts[i].Evaluations = j.(*Judge).switches[0].counter(int64(i)).Evaluations
			s.counts[i].Preemptive = j.(*Judge).switches[0].counter(int64(i)).Preemptive
			s.counts[i].Avoidable = j.(*Judge).switches[0].counter(int64(i)).Avoidable
		}
		if s.fault == "miscounts" {
			s.counts[0].From++
		}
		s.counters = &deflect.Counters{Ports: s.counts}
	}
	r, err := j.Finish()
	if err != nil {
		t.Fatal(err)
	}
	causetest.Declared(t, Causes(), r.Findings)
	return r
}

// frame returns the next frame that comes: from another switch, to a host, mostly to host 0.
func (s *sim) frame(i int) *frame {
	f := &frame{}
	f.ID, f.Number, f.Protocol, f.Flags, f.TTL = uint64(i), uint64(i), trace.ProtocolRaw, trace.Ranked, 249
	f.Port = s.hosts + s.random.IntN(s.ports-s.hosts)
	f.Src, f.Flow = uint32(10+f.Port), uint32(s.random.IntN(20))
	if s.random.IntN(3) == 0 {
		f.Dst = uint32(s.random.IntN(s.hosts))
	}
	f.egress = int(f.Dst)
	f.Size = []int32{300, 1500}[s.random.IntN(2)]
	m := deflect.Mark{Value: 1 + s.random.Uint32N(s.largest), Ret: uint8(s.random.IntN(3))}
	if s.random.IntN(8) == 0 {
		m, f.Size = deflect.Mark{Control: true}, 64
	}
	f.Rank = m.Pack()
	f.priority = uint64(m.Value)
	if s.set.Boost {
		f.priority = uint64(m.Value >> m.Ret)
	}
	return f
}

func newSim(set deflect.Settings) *sim {
	set.Queue, set.Pipes = 12_000, 1
	set.Boost = set.Boost || set.Scheme == deflect.Vertigo
	if set.Info != deflect.Exact {
		set.Period, set.Congested = 20*us, 9000
	}
	return &sim{view: &view{set: set, hosts: 3, ports: 7}, records: true, largest: 100_000}
}
