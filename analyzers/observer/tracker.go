package observer

import "candela.dev/candela/analyzers/bounds"

// A route is how an endpoint reached a state: what it may still receive, how many unseen frames it needs, and the
// earliest times.
type route struct {
	in     int64 // index of the first frame that it may still receive
	unseen int8  // frames that the tap missed
	now    int64 // earliest instant of what it did last
	timer  int64 // since when its retry timer runs
	ready  int64 // end of the wait that an RNR NAK asked for
}

// covers reports whether all that is possible after o is possible after r, for equal states. Any frame may be lost
// after the tap, so a state that may receive more loses nothing.
func (r *route) covers(o *route) bool {
	return r.in <= o.in && r.unseen <= o.unseen && r.now <= o.now && r.timer <= o.timer && r.ready <= o.ready
}

// A node is a state with a way to it.
type node[K comparable] struct {
	state K
	route
}

// A machine is an endpoint that follows the standard, with all its choices.
type machine[K comparable] interface {
	// receive adds what follows if n receives f.
	receive(s *step[K], n node[K], f *frame)
	// ignores reports whether f, which arrives, may leave n unchanged; n is already after f.
	ignores(s *step[K], n node[K], f *frame) bool
	// miss adds what follows from a frame, sent or received, that the tap did not see; n has counted it.
	miss(s *step[K], n node[K])
	// send adds what follows if n sends f, or returns why it can't.
	send(n node[K], f *frame, add func(node[K])) reason
	// advance moves the single state of an ordinary endpoint to after it sent f, in constant time. It returns false and
	// does nothing if anything is out of the ordinary.
	advance(n *node[K], f *frame, at int64) bool
	// mayPull reports whether n may serve f, frame k, before frames that came earlier; pull notes that it does.
	mayPull(n node[K], f *frame, k int64) bool
	pull(n *node[K], k int64)
	wasPulled(n node[K], k int64) bool
	// held reports whether frame k waits because a later one was pulled.
	held(n node[K], k int64) bool
	// settled reports whether n owes nothing.
	settled(n node[K]) bool
	// inError reports whether the queue pair of n is in error or will be if nothing more arrives.
	inError(n node[K]) bool
	// mine reports whether f was sent by this endpoint.
	mine(f *frame) bool
}

// A tracker keeps the states that one endpoint may be in after the latest frame that it sent.
type tracker[K comparable] struct {
	x *session
	m machine[K]

	set     []node[K]
	level   int8  // unseen frames that the set needs at least since the last freeze
	spent   int64 // unseen frames before that
	blind   bool
	vouched bool   // the tap saw every frame from and to this endpoint
	timed   bool   // host delays bound when this endpoint of an exact session receives a frame
	why     reason // why the latest frame that nothing explains can't be sent
	// aliveNS is when the queue pair was certainly not in error, though it may be at the end: it handled what had arrived
	// by then. 0: it is not in error.
	aliveNS int64
	anchor  []node[K]
	// anchorAt and middleAt are the indices of the first frames after the sets anchor and middle; middle is empty at
	// first.
	anchorAt, middleAt int64
	middle             []node[K]
}

func (t *tracker[K]) start(n node[K], at int64) {
	t.set, t.anchor, t.middle = append(t.set[:0], n), append(t.anchor[:0], n), t.middle[:0]
	t.anchorAt, t.middleAt, t.level, t.blind = at, at, 0, false
}

// A step is one search: from the states before a frame to those after it.
type step[K comparable] struct {
	t       *tracker[K]
	goal    *frame // that is sent; nil at the end of the trace
	inError bool   // the trace must end with the queue pair in error
	limit   int64  // index of the first frame that passed too late to be received
	budget  int8
	queue   []node[K]
	visited routes[K]
	out     routes[K]
	result  []node[K]
	why     reason
	passed  int // frames that were tried
}

// maxSet bounds the states of an endpoint.
const maxSet = 1024

// add notes a state that the endpoint may be in before the goal. Without visited every state is noted.
func (s *step[K]) add(n node[K]) {
	if s.t.x.credit--; s.visited.of == nil || s.visited.keep(&n) {
		s.queue = append(s.queue, n)
	}
}

// routes holds the ways to each state that no other one covers.
type routes[K comparable] struct {
	of    map[K][]route
	order []K  // of appearance
	exact bool // what passed arrives: more to receive is not less
}

// keep adds the route of n to those of its state, unless one of them covers it.
func (m *routes[K]) keep(n *node[K]) bool {
	old, seen := m.of[n.state]
	if !seen {
		m.order = append(m.order, n.state)
	}
	for i := range old {
		if m.covers(&old[i], &n.route) {
			return false
		}
	}
	kept := old[:0]
	for i := range old {
		if !m.covers(&n.route, &old[i]) {
			kept = append(kept, old[i])
		}
	}
	m.of[n.state] = append(kept, n.route)
	return true
}

func (m *routes[K]) covers(r, o *route) bool { return r.covers(o) && (!m.exact || r.in == o.in) }

// left is how many more unseen frames n may need.
func (s *step[K]) left(n *node[K]) int8 { return s.budget - n.unseen }

// run follows all ways from set to the goal. It reports false if there were too many.
func (s *step[K]) run(set []node[K]) bool {
	for _, n := range set {
		s.add(n)
	}
	after := func(n node[K]) { s.out.keep(&n) }
	for len(s.queue) > 0 {
		n := s.queue[len(s.queue)-1]
		s.queue = s.queue[:len(s.queue)-1]
		if s.goal != nil {
			if !s.t.timed || !s.t.overdue(&n, s.goal) {
				s.why = max(s.why, s.t.m.send(n, s.goal, after))
			}
		} else if s.t.ended(&n) && (s.inError && s.t.m.inError(n) || !s.inError && s.t.m.settled(n)) {
			s.result = append(s.result, n)
			return true
		}
		s.arrive(n)
		if s.left(&n) > 0 {
			n.unseen++
			s.t.m.miss(s, n)
		}
		if s.t.x.credit <= 0 {
			return false
		}
	}
	for _, k := range s.out.order {
		for _, r := range s.out.of[k] {
			s.result = append(s.result, node[K]{k, r})
		}
	}
	return len(s.result) <= maxSet
}

// arrive adds what follows from each frame that n may receive next; the ones before it were lost.
func (s *step[K]) arrive(n node[K]) {
	x := s.t.x
	if x.exact {
		s.arriveNext(n)
		return
	}
	for k := max(n.in, x.base); k < s.limit; k++ {
		f := x.frame(k)
		if f.lost || s.t.m.mine(f) || s.t.m.wasPulled(n, k) {
			continue
		}
		if s.passed++; s.passed%16 == 0 {
			x.credit--
		}
		after := n
		after.in = k + 1
		after.now = max(n.now, f.timeNS)
		if after.now > x.latest(f) && !s.t.m.held(n, k) {
			continue
		}
		s.t.m.receive(s, after, f)
		if s.t.m.mayPull(n, f, k) {
			s.pulled(n, f, k)
		}
	}
}

// arriveNext adds what follows from the next frame that passed, and from those that n may serve before that one.
func (s *step[K]) arriveNext(n node[K]) {
	if f := s.t.pending(&n); f == nil || n.in >= s.limit {
		return
	} else if after := n; !s.t.timed || max(n.now, f.timeNS) <= s.t.x.latest(f) {
		after.in, after.now = n.in+1, max(n.now, f.timeNS)
		s.t.m.receive(s, after, f)
		if s.t.m.ignores(s, after, f) {
			s.add(after)
		}
	}
	if s.t.timed {
		return
	}
	for k := n.in + 1; k < s.limit; k++ {
		if f := s.t.x.frame(k); !f.lost && !s.t.m.mine(f) && s.t.m.mayPull(n, f, k) {
			s.pulled(n, f, k)
		}
	}
}

// overdue reports whether n has not received a frame that must have arrived before the goal left.
func (t *tracker[K]) overdue(n *node[K], goal *frame) bool {
	f := t.pending(n)
	return f != nil && t.x.latest(f) < max(n.now, goal.timeNS-t.x.limits.HostDelayNS)
}

// pending returns the first frame that n may still receive, or nil.
func (t *tracker[K]) pending(n *node[K]) *frame {
	for n.in = max(n.in, t.x.base); n.in < t.x.end(); n.in++ {
		if f := t.x.frame(n.in); !f.lost && !t.m.mine(f) && !t.m.wasPulled(*n, n.in) {
			return f
		}
	}
	return nil
}

// ended reports whether n has received all that it must have at the end.
func (t *tracker[K]) ended(n *node[K]) bool {
	if !t.x.exact {
		return true
	}
	f := t.pending(n)
	return f == nil || t.aliveNS > 0 && t.x.latest(f) >= t.aliveNS
}

// pulled adds what follows if n receives frame k before those that came earlier.
func (s *step[K]) pulled(n node[K], f *frame, k int64) {
	inner := step[K]{t: s.t, goal: s.goal, limit: s.limit, budget: s.budget}
	after := n
	after.in = k + 1
	after.now = max(n.now, f.timeNS)
	s.t.m.receive(&inner, after, f)
	for _, m := range inner.queue {
		m.in = n.in
		s.t.m.pull(&m, k)
		s.add(m)
	}
}

// sent advances the set past frame at, which the endpoint sent. It returns nil if the frame is explained.
func (t *tracker[K]) sent(at int64) *stumble {
	f := t.x.frame(at)
	if t.blind {
		return nil
	}
	advanced := 0
	for i := range t.set {
		if t.m.advance(&t.set[i], f, at) {
			t.set[i], t.set[advanced] = t.set[advanced], t.set[i]
			advanced++
		}
	}
	if advanced == len(t.set) {
		return nil
	}
	s := t.follow(t.set[advanced:], at, t.level, t.set[:advanced]...)
	if s == nil {
		t.blind = true
		return nil
	}
	if len(s.result) > 0 {
		t.set = s.result
		return nil
	}
	if f.damaged {
		return nil
	}
	t.why = s.why
	return t.stumble(f, at)
}

// anyState reports whether ok holds for some state that needs unseen frames.
func (t *tracker[K]) anyState(ok func(*node[K]) bool) bool {
	for i := range t.set {
		if t.set[i].unseen > 0 && ok(&t.set[i]) {
			return true
		}
	}
	return false
}

// follow returns the search for the frame at, or nil if it exceeded its budget. The arrived states are already after
// the frame.
func (t *tracker[K]) follow(set []node[K], at int64, budget int8, arrived ...node[K]) *step[K] {
	s := t.newStep(at, budget)
	for i := range arrived {
		s.out.keep(&arrived[i])
	}
	if at < t.x.end() {
		s.goal = t.x.frame(at)
	}
	if !s.run(set) {
		return nil
	}
	return s
}

// newStep returns a search that has not begun, for what happens before the frame at.
func (t *tracker[K]) newStep(at int64, budget int8) *step[K] {
	s := &step[K]{t: t, limit: at, budget: budget}
	s.visited.exact, s.out.exact = t.x.exact, t.x.exact
	s.visited.of, s.out.of = map[K][]route{}, map[K][]route{}
	return s
}

// absorb advances the states past what must have arrived before the frame at, as far as there is one way.
func (t *tracker[K]) absorb(at int64) {
	goal := t.x.frame(at)
	for i := range t.set {
		for n := &t.set[i]; t.overdue(n, goal); {
			s := &step[K]{t: t}
			after, f := *n, t.pending(n)
			after.in, after.now = n.in+1, max(n.now, f.timeNS)
			t.m.receive(s, after, f)
			if t.m.ignores(s, after, f) {
				s.add(after)
			}
			if len(s.queue) != 1 {
				break
			}
			*n = s.queue[0]
		}
	}
}

// stumble looks for the fewest unseen frames that explain the frame at.
func (t *tracker[K]) stumble(f *frame, at int64) *stumble {
	first, why := t.level, t.why
	for level := first; level <= first+maxUnseen && (level == 0 || !t.vouched); level++ {
		if level == 0 {
			continue // nothing can have changed
		}
		set, ok := t.replay(at, level)
		if !ok {
			t.blind = true
			return &stumble{at: at, id: f.id, why: why, needs: level - first, undecided: true}
		}
		if len(set) > 0 {
			t.set, t.level = set, level
			st := &stumble{at: at, id: f.id, why: why, needs: level - first, total: int64(level) + t.spent}
			if level > maxUnseen {
				t.freeze(at + 1)
			}
			if level == first {
				return nil
			}
			return st
		}
	}
	t.blind = true
	return &stumble{at: at, id: f.id, why: why, needs: maxUnseen + 1}
}

// freeze makes the set the anchor and restarts the count of unseen frames.
func (t *tracker[K]) freeze(at int64) {
	t.spent += int64(t.level)
	for i := range t.set {
		t.set[i].unseen = 0
	}
	t.level = 0
	t.anchor, t.middle = append(t.anchor[:0], t.set...), t.middle[:0]
	t.anchorAt, t.middleAt = at, at
}

// replay follows the frames from the anchor to at with up to budget unseen frames. It reports false if that exceeded
// the limits.
func (t *tracker[K]) replay(at int64, budget int8) ([]node[K], bool) {
	set := append([]node[K](nil), t.anchor...)
	for k := t.anchorAt; k <= at && k < t.x.end(); k++ {
		f := t.x.frame(k)
		if !t.m.mine(f) || !f.sent {
			continue
		}
		s := t.follow(set, k, budget)
		if s == nil {
			return nil, false
		}
		if len(s.result) == 0 {
			if f.damaged {
				continue
			}
			t.why = s.why
			return nil, true
		}
		set = s.result
	}
	return set, true
}

// refresh follows everything since the anchor a second time, because more is known of what was sent. It returns what is
// now unexplained.
func (t *tracker[K]) refresh(at int64) *stumble {
	if t.blind || t.level == 0 {
		return nil
	}
	set, ok := t.replay(at, t.level)
	switch {
	case !ok:
		t.blind = true
		return nil
	case len(set) > 0:
		t.set = set
		return nil
	}
	last := at
	for last > t.anchorAt && !t.m.mine(t.x.frame(last)) {
		last--
	}
	return t.stumble(t.x.frame(last), last)
}

// endsInError reports whether the queue pair may be in error at the end of the trace, and whether that is known. An
// endpoint that no state explains may be.
func (t *tracker[K]) endsInError() (failed, known bool) {
	if t.blind || len(t.set) == 0 {
		return true, false
	}
	s := t.newStep(t.x.end(), t.level)
	s.inError = true
	done := s.run(t.set)
	return !done || len(s.result) > 0, done
}

// finish looks for a state that owes nothing, and reports whether it could search.
func (t *tracker[K]) finish() (st *stumble, judged bool) {
	if t.blind || len(t.set) == 0 {
		return nil, false
	}
	end := t.x.end()
	for level := t.level; level <= t.level+maxUnseen && (level == 0 || !t.vouched); level++ {
		set, ok := t.set, true
		if level > 0 {
			set, ok = t.replay(end, level)
		}
		if !ok {
			return nil, false
		}
		s := t.follow(set, end, level)
		switch {
		case s == nil:
			return nil, false
		case len(s.result) == 0:
			continue
		case level == t.level:
			return nil, true
		}
		return &stumble{at: end, why: reasonUnfinished, needs: level - t.level, total: int64(level) + t.spent}, true
	}
	return &stumble{at: end, why: reasonUnfinished, needs: maxUnseen + 1}, true
}

// anchorSpan is the number of frames between two anchors. Unseen frames before the anchor are not considered.
const anchorSpan = 32

// settle moves the anchor on.
func (t *tracker[K]) settle(at int64) {
	if at-t.middleAt < anchorSpan {
		return
	}
	if len(t.middle) > 0 {
		t.anchor, t.middle, t.anchorAt = t.middle, t.anchor, t.middleAt
	}
	t.middle, t.middleAt = append(t.middle[:0], t.set...), at
}

// oldest returns the index of the first frame that is still needed.
func (t *tracker[K]) oldest() int64 {
	if t.blind {
		return t.x.end()
	}
	low := t.anchorAt
	for _, set := range [][]node[K]{t.anchor, t.middle, t.set} {
		for i := range set {
			low = min(low, set[i].in)
		}
	}
	return low
}

// A stumble is a frame that an endpoint cannot have sent unless the tap missed more frames.
type stumble struct {
	at        int64
	id        uint64 // 0: something is missing at the end
	why       reason
	needs     int8 // more unseen frames than before; more than maxUnseen: nothing explains it
	total     int64
	undecided bool
}

// maxUnseen is how many unseen frames may explain one frame.
const maxUnseen = bounds.UnseenFrames
