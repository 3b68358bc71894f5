package deflect

import (
	"cmp"
	"slices"

	"candela.dev/candela/analyzers"
	"candela.dev/candela/analyzers/athost"
	"candela.dev/candela/analyzers/cause"
	"candela.dev/candela/clock"
	"candela.dev/candela/deflect"
	"candela.dev/candela/trace"
)

// layers judges the layers of hosts that put packets in order.
type layers struct {
	judge *Judge
	hold  clock.Duration // omega; below 0: there is no layer
	now   clock.Time
	las   bool // marks count from the beginning, not what is left
	hosts map[uint32]*layer
}

// layer is that of a host.
type layer struct {
	kept  map[uint64]athost.Tap // packets that have arrived and neither been passed on nor discarded
	flows map[flowKey]*stream
}

// stream is what a host has received of a flow.
type stream struct {
	arrived, passed ordered
	flowlet         uint16          // the latest
	got             map[uint32]bool // values of its packets that have arrived
	next            int             // of the packets that were sent: the first that has not arrived
	tap             athost.Tap      // the latest
	hasty           athost.Tap      // passed on as it came, although one before it was missing; Stage 0: none
	hastyValue      uint32          // of the missing one
	released        clock.Time      // when the latest packet that was held was passed on
	kept            []athost.Tap    // data packets that have arrived and neither been passed on nor discarded
	freed           clock.Time      // when all that is held may have been passed on: a timer, or another message
	soon            athost.Tap      // passed on before omega, although one before it was missing; Stage 0: none
	soonHeld        clock.Duration
	sent            *marked  // by its sender; nil: unknown so far
	let             []uint32 // values of what was held and passed on at released
	soonValue       uint32   // of the missing one
}

// forget takes a packet off those that are kept.
func (s *stream) forget(id uint64) {
	s.kept = slices.DeleteFunc(s.kept, func(t athost.Tap) bool { return t.ID == id })
}

// arrives notes a packet of the flowlet that its sender is at.
func (s *stream) arrives(t *athost.Tap) {
	m := deflect.MarkOf(t.Rank)
	s.kept = append(s.kept, *t)
	if s.got == nil || m.Flowlet != s.flowlet && (m.Flowlet-s.flowlet)&deflect.MaxFlowlet < deflect.MaxFlowlet/2 {
		s.flowlet, s.got, s.next, s.freed = m.Flowlet, make(map[uint32]bool), 0, t.Time
	}
	if m.Flowlet == s.flowlet {
		s.got[m.Value] = true
	}
}

// complete reports whether all that was sent before a packet has certainly arrived.
func (s *stream) complete(f *marked, m deflect.Mark, las bool) bool {
	if f == nil || f.flowlet != m.Flowlet || s.flowlet != m.Flowlet || len(f.values) >= mostValues {
		return false
	}
	_, missing := s.misses(f, m, las)
	return !missing
}

// misses returns the value of a packet that was sent before one and has not arrived; not ok: there is none.
func (s *stream) misses(f *marked, m deflect.Mark, las bool) (value uint32, ok bool) {
	if f == nil || f.flowlet != m.Flowlet || s.flowlet != m.Flowlet {
		return 0, false
	}
	for s.next < len(f.values) && s.got[f.values[s.next]] {
		s.next++
	}
	if s.next == len(f.values) {
		return 0, false
	}
	value = f.values[s.next]
	return value, value != m.Value && value > m.Value != las
}

// ordered counts data packets that come after a later one.
type ordered struct {
	some bool
	most uint64
	late int
}

func (o *ordered) see(number uint64) {
	if o.some && number < o.most {
		o.late++
		return
	}
	o.some, o.most = true, number
}

func newLayers(j *Judge) layers {
	l := layers{judge: j, hold: -1, hosts: make(map[uint32]*layer)}
	for _, d := range j.switches {
		if d.set.Ordering && (d.set.Scheme == deflect.PD || d.set.Scheme == deflect.Vertigo) {
			l.hold = max(l.hold, d.set.Hold)
			l.las = d.set.Priority == deflect.LAS
		}
	}
	return l
}

// SeesHosts implements athost.Judge.
func (j *Judge) SeesHosts() bool { return j.exact && j.layers.hold >= 0 }

// ObserveHost implements athost.Judge.
func (j *Judge) ObserveHost(t *athost.Tap) {
	if j.SeesHosts() {
		j.layers.observe(t)
	}
}

func (l *layers) observe(t *athost.Tap) {
	l.now = t.Time
	if t.Stage == athost.Sent {
		return
	}
	h := l.hosts[t.Host]
	if h == nil {
		h = &layer{kept: make(map[uint64]athost.Tap), flows: make(map[flowKey]*stream)}
		l.hosts[t.Host] = h
	}
	data := t.Flags&trace.Ranked != 0 && !deflect.MarkOf(t.Rank).Control
	key := flowKey{t.Src, t.Dst, t.Flow, t.Protocol, t.IPv6}
	f := h.flows[key]
	if f == nil {
		f = &stream{released: -1, freed: -1}
		h.flows[key] = f
	}
	l.settle(key, f, t.Time)
	f.tap = *t
	if t.Stage == athost.Arrived {
		h.kept[t.ID] = *t
		if data {
			f.arrived.see(t.Number)
			f.arrives(t)
			l.judge.coverage.ordered++
		} else { // it may have closed the connection
			f.freed = t.Time
		}
		return
	}
	came, ok := h.kept[t.ID]
	if !ok {
		l.tell(t, notReceived(t.Host, t.ID))
		return
	}
	delete(h.kept, t.ID)
	f.forget(t.ID)
	held := t.Time.Sub(came.Time)
	switch {
	case t.Stage == athost.Discarded:
		if !data || !h.holds(t) {
			l.tell(t, notDuplicate(t.Host, t.ID))
		}
		return
	case held > l.hold, held > 0 && !data:
		most := l.hold
		if !data {
			most = 0
		}
		l.tell(t, heldLong(t.Host, t.ID, cause.Span(held), cause.Span(most)))
	}
	if !data {
		return
	}
	f.passed.see(t.Number)
	if held > 0 {
		if f.released != t.Time {
			f.let = f.let[:0]
		}
		f.released = t.Time
		if m := deflect.MarkOf(t.Rank); m.Flowlet == f.flowlet {
			f.let = append(f.let, m.Value)
		}
	}
	if held >= l.hold {
		f.freed = t.Time
	} else if held > 0 && f.soon.Stage == 0 {
		if value, ok := f.misses(l.sentOf(key, f), deflect.MarkOf(t.Rank), l.las); ok {
			f.soon, f.soonHeld, f.soonValue = *t, held, value
		}
	}
	if held == 0 {
		if value, ok := f.misses(l.sentOf(key, f), deflect.MarkOf(t.Rank), l.las); ok {
			f.hasty, f.hastyValue = *t, value
		}
	}
}

// settle judges, as the instant has passed, a packet that was passed on as it came or before omega: a timer of that
// instant may have let it go with others. Nothing is left of which all that was sent before has come.
func (l *layers) settle(key flowKey, f *stream, now clock.Time) {
	if f.soon.Stage != 0 && f.soon.Time != now {
		if f.freed != f.soon.Time {
			l.tell(&f.soon, letGo(f.soon.Host, f.soon.ID, cause.Span(f.soonHeld), f.soonValue))
		}
		f.soon = athost.Tap{}
	}
	if f.tap.Time != now && !l.judge.paths.outage {
		for i := range f.kept {
			if t := &f.kept[i]; f.complete(l.sentOf(key, f), deflect.MarkOf(t.Rank), l.las) {
				l.tell(t, kept(t.Host, t.ID))
			}
		}
	}
	if f.released != now && len(f.let) > 0 {
		if !l.judge.paths.outage {
			l.settleRuns(key, f)
		}
		f.let = f.let[:0]
	}
	if f.hasty.Stage == 0 || f.hasty.Time == now {
		return
	}
	if f.released != f.hasty.Time {
		l.tell(&f.hasty, notHeld(f.hasty.Host, f.hasty.ID, f.hastyValue))
	}
	f.hasty = athost.Tap{}
}

// settleRuns judges that with held packets went those that follow them without a gap.
func (l *layers) settleRuns(key flowKey, f *stream) {
	for i := range f.kept {
		t := &f.kept[i]
		m := deflect.MarkOf(t.Rank)
		if before, ok := l.sentOf(key, f).before(m, l.las); ok && m.Flowlet == f.flowlet && t.Time < f.released &&
			slices.Contains(f.let, before) {
			l.tell(t, keptBehind(t.Host, t.ID, before))
		}
	}
}

// before returns the value of the packet that was sent before one of the same message; not ok: that is not known.
func (f *marked) before(m deflect.Mark, las bool) (value uint32, ok bool) {
	if f == nil || f.flowlet != m.Flowlet {
		return 0, false
	}
	i, found := slices.BinarySearchFunc(f.values, m.Value, func(a, b uint32) int {
		if las {
			return cmp.Compare(a, b)
		}
		return cmp.Compare(b, a)
	})
	if !found || i == 0 {
		return 0, false
	}
	return f.values[i-1], true
}

// sentOf returns what the sender of a flow has marked; nil: nothing.
func (l *layers) sentOf(key flowKey, f *stream) *marked {
	if f.sent == nil {
		f.sent = l.judge.marks.flows[key]
	}
	return f.sent
}

// holds reports whether a copy of a packet is kept.
func (h *layer) holds(t *athost.Tap) bool {
	value := deflect.MarkOf(t.Rank).Value
	for _, other := range h.kept {
		if other.Src == t.Src && other.Flow == t.Flow && other.Protocol == t.Protocol &&
			deflect.MarkOf(other.Rank).Value == value {
			return true
		}
	}
	return false
}

// finish judges what is kept at the end, and how much was put in order.
func (l *layers) finish() {
	for _, host := range sortedKeys(l.hosts) {
		h := l.hosts[host]
		for _, id := range sortedKeys(h.kept) {
			t := h.kept[id]
			if held := l.now.Sub(t.Time); held > l.hold {
				l.tell(&t, heldLong(host, id, cause.Span(held), cause.Span(l.hold)))
			}
		}
		keys := make([]flowKey, 0, len(h.flows))
		for key := range h.flows {
			keys = append(keys, key)
		}
		slices.SortFunc(keys, func(a, b flowKey) int { return cmp.Compare(h.flows[a].tap.ID, h.flows[b].tap.ID) })
		for _, key := range keys {
			f := h.flows[key]
			l.settle(key, f, clock.Never)
			if f.passed.late > f.arrived.late {
				l.tell(&f.tap, lessOrdered(host, f.passed.late, f.arrived.late))
			}
		}
	}
}

func sortedKeys[K cmp.Ordered, V any](m map[K]V) []K {
	var keys []K
	for k := range m {
		keys = append(keys, k)
	}
	slices.Sort(keys)
	return keys
}

func (l *layers) tell(t *athost.Tap, c cause.Cause) {
	flow := l.judge.view.FlowOf(&trace.SwitchTap{Src: t.Src, Dst: t.Dst, Flow: t.Flow, Protocol: t.Protocol, IPv6: t.IPv6,
		Flags: t.Flags})
	if l.judge.report.Wants(c.Rule, flow) {
		l.judge.report.Tell(c, analyzers.Finding{Connection: flow, Packets: []uint64{t.ID}, TimeNS: t.Time.Nanoseconds(),
			Message: c.Sentence()})
	}
}
