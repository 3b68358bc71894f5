package rank

import (
	"cmp"
	"slices"

	"candela.dev/candela/analyzers/cause"
	"candela.dev/candela/clock"
)

// sortKey is where a packet stands: by priority, then rank, then arrival.
type sortKey struct {
	class int
	rank  uint64
	order uint64
}

func compareKeys(a, b sortKey) int {
	return cmp.Or(cmp.Compare(a.class, b.class), cmp.Compare(a.rank, b.rank), cmp.Compare(a.order, b.order))
}

// line is what waits at a port, in the order in which it is to leave.
type line struct {
	r       *replay
	port    int
	waiting []*arrival
	bytes   int64
	held    int64  // of AIFO: what waits, in what its C is given in
	order   uint64 // of arrivals
	classes []int  // packets of each class

	window   window
	bounds   []uint64
	virtual  uint64            // time of STFQ, round of AFQ
	ends     map[flowKey]int64 // of STFQ and AFQ, bytes for a weight of 1, in steps of 2^-WeightBits
	limit    int               // of ends
	gap      gap
	course   course
	theory   *theory            // nil: the theorem says nothing about the port
	latest   map[flowKey]uint64 // the latest arrival of a flow that has left
	mostLast int
	late     int64 // packets that left after a later one of their flow

	departures int64

	decisions, mismatches int64 // mismatches: other than by the packets that wait

	paces map[flowKey]clock.Time // of PIEO: when a flow may send again
	busy  clock.Time             // when the link is free again, before what leaves
	since clock.Time             // since when something has waited without a pause
	sent  clock.Time             // when the link is free again, after what has left
	tree  *hierarchy             // of HPIFO
}

func newLine(r *replay, port int) *line {
	l := &line{r: r, port: port, sent: r.busy[port], limit: 1024, ends: make(map[flowKey]int64),
		latest: make(map[flowKey]uint64), mostLast: 1024}
	switch r.set.Scheme {
	case AIFO:
		l.window = newWindow(&r.set.Admission)
		if !r.set.STFQ {
			l.theory = newTheory(&r.set.Admission)
		}
		l.gap.room, l.gap.takes = r.set.Admission.Target, r.set.Admission.takes
	case SPPIFO:
		l.bounds, l.classes = make([]uint64, r.set.Mapping.Queues), make([]int, r.set.Mapping.Queues)
		l.gap.room, l.gap.takes = int64(r.set.Mapping.Queues*r.set.Mapping.Packets), r.set.Admission.takes
	case PIEO:
		l.paces = make(map[flowKey]clock.Time)
	case HPIFO:
		l.tree = newHierarchy(l)
	case PIFO, AFQ:
	}
	return l
}

// arrives judges what became of a packet, and lets it join the line if it was admitted.
func (l *line) arrives(a *arrival) {
	l.order++
	a.key = sortKey{order: l.order}
	l.r.judge.coverage["packets"]++
	l.idles(a.at)
	if l.tree != nil {
		l.tree.arrives(a)
		return
	}
	l.comes(a)
	if l.r.set.STFQ {
		l.start(a)
	}
	if l.sorts() {
		a.key.rank = a.rank
	}
	for _, other := range a.evicted {
		l.evicts(a, other)
	}
	l.reasoned(a)
	switch l.r.set.Scheme {
	case AIFO:
		l.admission(a)
	case SPPIFO:
		l.mapping(a)
	case AFQ:
		l.calendar(a)
	case PIFO, PIEO, HPIFO:
		l.room(a)
		l.claims(a, int64(a.rank), int64(len(l.waiting)))
	}
	l.gap.arrives(a)
	if a.fate == refused {
		if l.carried() {
			l.r.judge.byRank.of(a.rank).dropped++
		}
		if l.r.set.STFQ {
			l.undo(a)
		}
		l.gap.dropped(a)
		return
	}
	l.insert(a)
}

func (l *line) insert(a *arrival) {
	if len(l.waiting) == 0 {
		l.since = a.at
	}
	i, _ := slices.BinarySearchFunc(l.waiting, a.key, func(w *arrival, k sortKey) int { return compareKeys(w.key, k) })
	l.waiting = slices.Insert(l.waiting, i, a)
	a.inLine = true
	l.bytes += a.size
	l.held += l.r.set.Admission.takes(a.size)
	if l.classes != nil {
		l.classes[a.key.class]++
	}
}

// remove takes a packet out of the line and returns where it stood; -1: it did not.
func (l *line) remove(a *arrival) int {
	if !a.inLine {
		return -1
	}
	if l.tree != nil {
		l.tree.lost(a)
		return 0
	}
	i, _ := slices.BinarySearchFunc(l.waiting, a.key, func(w *arrival, k sortKey) int { return compareKeys(w.key, k) })
	l.waiting = slices.Delete(l.waiting, i, i+1)
	a.inLine = false
	l.bytes -= a.size
	l.held -= l.r.set.Admission.takes(a.size)
	if l.classes != nil {
		l.classes[a.key.class]--
	}
	return i
}

// leaves judges that a packet is sent.
func (l *line) leaves(now clock.Time, a *arrival) {
	l.idles(now)
	l.sent = now.Add(l.r.takes(l.port, a.size))
	if l.tree != nil {
		l.tree.serves(now, a)
		return
	}
	if l.r.set.Scheme == SPPIFO && a.inLine {
		if want := l.r.set.Mapping.Queues - 1 - a.key.class; a.queue != want {
			l.r.tell(a, a.at, causeMapping(l.r.who, a.id, a.rank, a.queue, want), "", "")
		}
	}
	if (l.r.set.STFQ || l.r.set.Scheme == AFQ) && a.seen != a.rank {
		l.r.tell(a, a.at, causeStart(l.r.who, a.id, a.seen, a.rank), "", "")
	}
	var first *arrival
	if len(l.waiting) > 0 {
		first = l.waiting[0]
	}
	l.overtaken(a)
	ahead := -1 // the first of its flow
	if l.r.set.Scheme == AIFO && a.inLine && first != a {
		ahead = slices.IndexFunc(l.waiting, func(w *arrival) bool { return w.flow == a.flow })
	}
	if ahead >= 0 && l.waiting[ahead] != a {
		other := l.waiting[ahead].id
		l.r.tell(a, now, causeReordering(l.r.who, a.id, other, now), "", "", other)
	}
	if l.r.set.Scheme == PIEO {
		l.chooses(now, a)
		l.remove(a)
	} else if i := l.remove(a); i > 0 {
		l.overtakes(now, a, first)
	}
	if l.r.set.STFQ {
		l.virtual = a.rank
	} else if l.r.set.Scheme == AFQ {
		l.virtual = max(l.virtual, a.rank)
	}
	l.theory.departs()
	if l.r.set.Scheme == AIFO {
		l.window.departed(now, l.held)
	}
	l.departures++
	if l.r.set.Scheme != AFQ {
		l.inversions(a)
		l.gap.served(a)
		l.course.departs(now, l)
	}
}

// overtaken counts a packet that leaves after a later one of its flow.
func (l *line) overtaken(a *arrival) {
	if a.key.order < l.latest[a.flow] {
		l.late++
		return
	}
	if l.latest[a.flow] = a.key.order; len(l.latest) <= l.mostLast {
		return
	}
	oldest := a.key.order // flows without an older packet here are not overtaken any more
	for _, w := range l.waiting {
		oldest = min(oldest, w.key.order)
	}
	for k, order := range l.latest {
		if order < oldest {
			delete(l.latest, k)
		}
	}
	l.mostLast = max(1024, 2*len(l.latest))
}

// inversions counts the packets that wait although their ranks are smaller.
func (l *line) inversions(a *arrival) {
	n := int64(0)
	switch l.r.set.Scheme {
	case PIFO, PIEO: // sorted
		i, _ := slices.BinarySearchFunc(l.waiting, a.rank, func(w *arrival, rank uint64) int {
			return cmp.Compare(w.rank, rank)
		})
		n = int64(i)
	case AIFO, SPPIFO, AFQ, HPIFO:
		for _, w := range l.waiting {
			if w.rank < a.rank {
				n++
			}
		}
	}
	l.r.judge.inversions.Record(n)
	l.course.inversions += n
	if l.carried() {
		t := l.r.judge.byRank.of(a.rank)
		t.left++
		t.inversions += n
	}
}

// carried reports whether packets come with ranks. Those that a port gives grow with time.
func (l *line) carried() bool {
	return !l.r.set.STFQ && l.r.set.Scheme != AFQ && l.r.set.Scheme != HPIFO
}

// comes counts an arrival.
func (l *line) comes(a *arrival) {
	l.r.judge.measures.waiting.Record(int64(len(l.waiting)))
	l.r.judge.lengths.add(len(l.waiting))
	if l.carried() {
		l.r.judge.byRank.of(a.rank).arrived++
	}
}

// start gives a packet the rank of start-time fair queueing.
func (l *line) start(a *arrival) {
	start := max(int64(l.virtual), l.ends[a.flow])
	l.ends[a.flow] = start + a.moves()
	a.rank = uint64(start)
	if a.fate == refused && a.seen != a.rank {
		l.r.tell(a, a.at, causeStart(l.r.who, a.id, a.seen, a.rank), "", "")
	}
	if len(l.ends) > l.limit {
		l.forget(l.earliest())
	}
}

// forget drops flows that have ended before what is served.
func (l *line) forget(now int64) {
	if len(l.ends) <= l.limit {
		return
	}
	for k, end := range l.ends {
		if end <= now {
			delete(l.ends, k)
		}
	}
	l.limit = max(1024, 2*len(l.ends))
}

func (l *line) undo(a *arrival) {
	if end, known := l.ends[a.flow]; known && l.r.set.Undo {
		l.ends[a.flow] = end - min(end, a.moves())
	}
}

// admission judges by AIFO's algorithm 5.
func (l *line) admission(a *arrival) {
	set := &l.r.set.Admission
	held, c := l.held, l.held
	if set.Stale {
		c = l.window.seen(a.at)
	}
	turn := l.window.arrived%set.Sample == 0
	below, filled, admits := l.window.arrive(a.rank, c)
	l.decisions++
	if set.Stale && admits != set.admits(held, below, filled) {
		l.mismatches++
	}
	l.theory.arrives(a, int64(len(l.waiting)), a.rank)
	if a.fate == refused && filled > 0 {
		l.r.judge.measures.refused.Record(below * ppm / filled)
	}
	why := quota{set.counted(c), below, filled}
	full, holds, room := held+set.takes(a.size) > int64(set.Room), set.counted(held), set.counted(int64(set.Room))
	switch {
	case a.fate == refused && a.reason != "tail" && admits:
		l.r.tell(a, a.at, causeAdmission(l.r.who, a.id, a.rank, "dropped", why), "admitted", "dropped")
	case a.fate == admitted && !admits:
		l.r.tell(a, a.at, causeAdmission(l.r.who, a.id, a.rank, "admitted", why), "dropped", "admitted")
	case a.fate == admitted && full:
		l.r.tell(a, a.at, causeBound(l.r.who, a.id, holds, room), "", "")
	case a.fate == refused && a.reason == "tail" && !full:
		l.r.tell(a, a.at, causeRefused(l.r.who, a.id, holds, room), "", "")
	}
	if d := a.claim; d != nil && (d.Values[0] != int64(a.rank) || d.Values[1] != c || d.Values[2] != below ||
		d.Values[3] != filled) {
		l.r.tell(a, a.at, causeRecord(l.r.who, a.id, quota{set.counted(d.Values[1]), d.Values[2], d.Values[3]}, why), "", "")
	} else {
		l.claims(a, int64(a.rank), c, below, filled, number01(turn))
	}
}

// mapping judges by SP-PIFO's bounds.
func (l *line) mapping(a *arrival) {
	set := &l.r.set.Mapping
	i := len(l.bounds) - 1
	for i > 0 && l.bounds[i] > a.rank {
		i--
	}
	a.key.class = i
	if d := a.claim; d != nil && (d.Values[1] != int64(i) || d.Values[2] != int64(l.bounds[i])) {
		l.r.tell(a, a.at, causeMapping(l.r.who, a.id, a.rank, set.Queues-1-int(d.Values[1]), set.Queues-1-i), "", "")
	}
	full := l.classes[i] >= set.Packets
	switch {
	case a.fate == admitted && full:
		l.r.tell(a, a.at, causeBound(l.r.who, a.id, packets(l.classes[i]), packets(set.Packets)), "", "")
	case a.fate == refused && a.queue >= 0 && a.queue != set.Queues-1-i:
		l.r.tell(a, a.at, causeMapping(l.r.who, a.id, a.rank, a.queue, set.Queues-1-i), "", "")
	case a.fate == refused && !full:
		l.r.tell(a, a.at, causeRefused(l.r.who, a.id, packets(l.classes[i]), packets(set.Packets)), "", "")
	}
	bound, down := l.bounds[i], uint64(0)
	if a.fate == admitted && i == 0 && a.rank < l.bounds[0] && set.PushDown {
		down = l.bounds[0] - a.rank
	}
	l.claims(a, int64(a.rank), int64(i), int64(bound), int64(down))
	if a.fate == refused {
		return
	}
	if down > 0 {
		for j := range l.bounds[1:] {
			l.bounds[1+j] -= min(down, l.bounds[1+j])
		}
	}
	if set.PushUp || a.rank < l.bounds[i] {
		l.bounds[i] = a.rank
	}
}

// calendar judges by AFQ's bids.
func (l *line) calendar(a *arrival) {
	set := &l.r.set.Calendar
	round := set.RoundBytes << WeightBits
	bid := max(int64(l.virtual)*round, l.ends[a.flow]) + a.moves()
	a.rank = uint64(bid / round)
	a.key.rank = a.rank
	ahead := int64(a.rank) - int64(l.virtual)
	far := ahead > int64(set.Rounds)
	limit := l.r.set.Packets
	switch {
	case a.fate == admitted && far, a.fate == refused && a.reason != "tail" && !far:
		l.r.tell(a, a.at, causeHorizon(l.r.who, a.id, a.fate == admitted, ahead, set.Rounds), "", "")
	case a.fate == admitted && limit > 0 && len(l.waiting) >= limit:
		l.r.tell(a, a.at, causeBound(l.r.who, a.id, packets(len(l.waiting)), packets(limit)), "", "")
	case a.fate == refused && a.reason == "tail" && (limit == 0 || len(l.waiting) < limit):
		l.r.tell(a, a.at, causeRefused(l.r.who, a.id, packets(len(l.waiting)), packets(limit)), "", "")
	}
	if a.fate == refused && a.seen != a.rank {
		l.r.tell(a, a.at, causeStart(l.r.who, a.id, a.seen, a.rank), "", "")
	}
	l.claims(a, int64(a.rank), int64(l.virtual))
	if a.fate == admitted {
		l.ends[a.flow] = bid
		l.forget(int64(l.virtual) * round)
	}
}

// fits reports whether the queue has room for a packet.
func (l *line) fits(a *arrival) bool {
	set := l.r.set.Limits
	return (set.Packets == 0 || len(l.waiting) < set.Packets) && (set.Bytes == 0 || l.bytes+a.size <= int64(set.Bytes))
}

// holds returns what waits and the limit that it comes near to first.
func (l *line) holds() (held, limit cause.Counted) {
	set := l.r.set.Limits
	if set.Packets == 0 || len(l.waiting) < set.Packets && set.Bytes > 0 {
		return cause.Bytes(l.bytes), cause.Bytes(int64(set.Bytes))
	}
	return packets(len(l.waiting)), packets(set.Packets)
}

// room judges drops of PIFO.
func (l *line) room(a *arrival) {
	limited := l.r.set.Limits != Limits{}
	held, limit := l.holds()
	switch {
	case a.fate == admitted && limited && !l.fits(a):
		l.r.tell(a, a.at, causeBound(l.r.who, a.id, held, limit), "", "")
	case a.fate == refused && limited && l.fits(a):
		l.needless(a, a.at, a.size, held, limit)
	case a.fate == refused:
		l.last(a, a.at)
	}
}

// needless reports that a packet was dropped although there was room for one of a size.
func (l *line) needless(a *arrival, at clock.Time, size int64, held, limit cause.Counted) {
	c := causeRefused(l.r.who, a.id, held, limit)
	if l.r.plain() {
		if held.N++; held.Noun != packets(0).Noun {
			held.N += size - 1
		}
		c = causeRoom(l.r.who, a.id, at, held, limit)
	}
	l.r.tell(a, at, c, "", "")
}

// last judges that of what waits a packet that is dropped is the last, or would be.
func (l *line) last(a *arrival, at clock.Time) {
	if len(l.waiting) == 0 {
		return
	}
	if last := l.waiting[len(l.waiting)-1]; compareKeys(last.key, a.key) > 0 {
		l.r.tell(a, at, causeDrop(l.r.who, a.id, last.id, at, a.rank, last.rank), "", "", last.id)
	}
}

// evicts judges that a packet makes room for another.
func (l *line) evicts(a, other *arrival) {
	switch {
	case !other.inLine:
	case !l.sorts():
		l.r.tell(other, a.at, causeThrown(l.r.who, other.id, a.at), "", "")
		l.remove(other)
	default:
		if held, limit := l.holds(); l.r.set.Limits != (Limits{}) && l.fits(a) {
			l.needless(other, a.at, a.size, held, limit)
		}
		l.remove(other)
		if compareKeys(a.key, other.key) > 0 {
			l.r.tell(other, a.at, causeDrop(l.r.who, other.id, a.id, a.at, other.rank, a.rank), "", "", a.id)
		} else {
			l.last(other, a.at)
		}
	}
	if l.r.set.STFQ {
		l.ranked(other, a.at)
		l.undo(other)
	}
	if l.carried() {
		l.r.judge.byRank.of(other.rank).dropped++
	}
	l.gap.dropped(other)
}
