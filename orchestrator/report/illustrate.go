package report

import (
	"cmp"
	"context"
	"fmt"
	"slices"

	"candela.dev/candela/analyzers"
	"candela.dev/candela/packet"
	"candela.dev/candela/trace"
)

// Bounds of what Illustrate collects, independent of the trace's length.
const (
	maxIllustrated   = 100  // findings with packets around them
	maxAroundPackets = 4    // packets of a finding shown with their surroundings
	aroundContext    = 3    // packets of the connection before and after each
	maxLadders       = 4    // windows that are drawn
	ladderBefore     = 6    // packets before the first of a drawn window
	ladderAfter      = 18   // packets after it
	maxSequences     = 4    // connections that are plotted
	maxPoints        = 2000 // of one plot
)

// Illustrate fills in the packet views of r in one pass over the trace: the packets around each finding and, with
// plots, Sequences and Ladders, which only the HTML page shows. Without findings and plots it does not read the trace.
func Illustrate(ctx context.Context, r *Report, c *trace.Checked, plots bool) error {
	il := newIllustrator(r, c.Meta(), plots)
	if len(il.wanted) == 0 && !plots {
		return nil
	}
	if err := c.ForEach(ctx, il.record); err != nil {
		return fmt.Errorf("illustrate report: %w", err)
	}
	il.finish()
	return nil
}

// window collects the packets of one connection before and after the wanted ones.
type window struct {
	connection int
	wanted     map[uint64]bool
	before     int // packets
	after      int
	open       int     // packets still to take
	points     []Point // in trace order
	finding    *Finding
	number     int // of the finding, from 1; 0: none
	title      string
}

type illustrator struct {
	report  *Report
	iter    *trace.IterTracker
	wanted  map[uint64][]*window // windows by the ids that open them
	windows []*window
	ladders []*window
	hints   [64]uint64      // bit set of wanted ids; avoids most map look-ups
	opened  [][]*window     // by connection: windows that take packets now
	recent  []recentPackets // by connection
	highest []int64         // relative PSN by 2·flow + space
	plots   map[int]*plot   // by connection

	current  Point
	plotting bool
	atEvents map[int]*window // by connection: around its first event, if no finding is shown
}

// recentPackets is a ring of the last packets of a connection.
type recentPackets struct {
	ring [ladderBefore]Point
	n    int
}

func (rp *recentPackets) add(p *Point) {
	rp.ring[rp.n%len(rp.ring)] = *p
	rp.n++
}

// last returns the last n packets, oldest first.
func (rp *recentPackets) last(n int) []Point {
	var list []Point
	for i := max(rp.n-min(n, len(rp.ring)), 0); i < rp.n; i++ {
		list = append(list, rp.ring[i%len(rp.ring)])
	}
	return list
}

func newIllustrator(r *Report, meta trace.Meta, plots bool) *illustrator {
	n := meta.Connections.Len()
	il := &illustrator{
		report: r, iter: trace.NewIterTracker(meta.Connections), wanted: map[uint64][]*window{},
		opened: make([][]*window, n+1),
		recent: make([]recentPackets, n+1), highest: make([]int64, 4*n), plots: map[int]*plot{}, plotting: plots,
		atEvents: map[int]*window{},
	}
	for i := range r.Findings {
		f := &r.Findings[i]
		if len(il.windows) < maxIllustrated && len(f.Packets) > 0 && len(f.Around) == 0 {
			il.windows = append(il.windows, il.want(f, f.Packets, aroundContext, aroundContext))
		}
	}
	if !plots {
		return il
	}
	r.nameQueuePairs(meta.Connections)
	il.draw((*Finding).counts)
	if len(il.ladders) == 0 {
		il.draw(func(f *Finding) bool { return f.Severity == analyzers.Warning })
	}
	for _, c := range r.plotted() {
		il.plots[c] = &plot{connection: c}
	}
	return il
}

// nameQueuePairs sets the QPNs of connections.
func (r *Report) nameQueuePairs(known *trace.Connections) {
	all := known.All()
	for i := range r.Connections {
		c := &r.Connections[i]
		if c.Index < 1 || c.Index > len(all) || c.QPNs != nil {
			continue
		}
		for _, side := range []trace.Side{all[c.Index-1].Requester, all[c.Index-1].Responder} {
			if side.QPN != 0 {
				c.QPNs = append(c.QPNs, uint32(side.QPN))
			}
		}
	}
}

// draw requests ladders around the first findings of a kind.
func (il *illustrator) draw(kind func(*Finding) bool) {
	for i := range il.report.Findings {
		if f := &il.report.Findings[i]; kind(f) && len(f.Packets) > 0 && len(il.ladders) < maxLadders {
			w := il.want(f, f.Packets[:1], ladderBefore, ladderAfter)
			w.title = fmt.Sprintf("around %s, %s %s", f.Rule, il.report.packetWord(), packetNumber(f.Packets[0]))
			w.number = i + 1
			il.ladders = append(il.ladders, w)
		}
	}
}

// want requests the surroundings of packets of f.
func (il *illustrator) want(f *Finding, ids []uint64, before, after int) *window {
	w := &window{connection: f.Connection, wanted: map[uint64]bool{}, before: before, after: after, finding: f}
	for _, id := range ids[:min(len(ids), maxAroundPackets)] {
		if !w.wanted[id] {
			w.wanted[id] = true
			il.wanted[id] = append(il.wanted[id], w)
			il.hints[id/64%64] |= 1 << (id % 64)
		}
	}
	return w
}

// plotted returns the connections to plot: those with findings first, then those with events and losses.
func (r *Report) plotted() []int {
	score := map[int]int{}
	for i := range r.Findings {
		if r.Findings[i].counts() {
			score[r.Findings[i].Connection] += 4
		}
	}
	var list []int
	for i := range r.Connections {
		c := &r.Connections[i]
		list = append(list, c.Index)
		if !c.quiet() {
			score[c.Index]++
		}
		if c.Events > 0 {
			score[c.Index]++
		}
	}
	slices.SortStableFunc(list, func(a, b int) int { return cmp.Compare(min(score[b], 4), min(score[a], 4)) })
	list = list[:min(len(list), maxSequences)]
	if len(list) > 1 { // a quiet connection is not plotted if another has something to show
		list = slices.DeleteFunc(list, func(c int) bool { return score[c] == 0 && score[list[0]] > 0 })
	}
	slices.Sort(list)
	return list
}

func (il *illustrator) record(r *trace.Record) error {
	iter, rel := il.iter.Observe(r)
	// A field, not a local: windows take its address, and a local would allocate for each packet.
	p := &il.current
	*p = Point{
		TimeNS: r.TimeNS, PSN: rel, Iter: iter, ID: r.ID, Class: r.Class(), Event: r.Event, Reverse: r.Flow.Reverse(),
		Damaged: r.ICRC == packet.ICRCInvalid,
	}
	connection := r.Flow.Connection()
	if connection >= len(il.recent) || !r.Has(trace.Sent) {
		return nil // the second record of a packet seen at two taps
	}
	if p.Class == packet.ClassData && connection > 0 {
		h := &il.highest[2*int(r.Flow)+int(r.Opcode.Space())]
		p.Resent = rel <= *h
		*h = max(*h, rel)
	}
	il.surround(p, connection)
	if il.plotting {
		if pl := il.plots[connection]; pl != nil {
			pl.streams[numbering(r)].add(*p)
		}
	}
	return nil
}

// numbering returns the PSN space of r: 0 for the requester's requests and their answers, 1 for the responder's. CNPs
// have no PSN and count as 0.
func numbering(r *trace.Record) int {
	if r.Opcode != packet.CNP && r.Flow.Reverse() != (r.Opcode.Space() == packet.Responses) {
		return 1
	}
	return 0
}

// surround adds p to the open windows of its connection and opens the windows that want it.
func (il *illustrator) surround(p *Point, connection int) {
	recent := &il.recent[connection]
	open := il.opened[connection]
	for _, w := range open {
		w.points = append(w.points, *p)
		if w.open--; w.wanted[p.ID] {
			w.open = w.after
		}
	}
	for _, w := range il.waiting(p.ID) {
		if !slices.Contains(open, w) {
			open = append(open, w)
			w.start(recent, p)
		}
	}
	if w := il.eventWindow(p, connection); w != nil {
		open = append(open, w)
		w.start(recent, p)
	}
	if len(open) > 0 {
		il.opened[connection] = slices.DeleteFunc(open, func(w *window) bool { return w.open <= 0 })
	}
	recent.add(p)
}

// waiting returns the windows that a packet opens.
func (il *illustrator) waiting(id uint64) []*window {
	if il.hints[id/64%64]>>(id%64)&1 == 0 {
		return nil
	}
	return il.wanted[id]
}

// eventWindow returns a new window if p is its connection's first packet hit by an event and no finding is shown.
func (il *illustrator) eventWindow(p *Point, connection int) *window {
	if !il.plotting || connection == 0 || p.Event == trace.EventNone || il.plots[connection] == nil ||
		il.atEvents[connection] != nil {
		return nil
	}
	if len(il.ladders) > len(il.atEvents) || len(il.ladders) == maxLadders {
		return nil
	}
	w := &window{connection: connection, after: ladderAfter, before: ladderBefore,
		title: fmt.Sprintf("first event, %s %s", il.report.packetWord(), packetNumber(p.ID))}
	il.atEvents[connection] = w
	il.ladders = append(il.ladders, w)
	return w
}

// start adds p, a wanted packet, and the packets before it that the window does not have yet.
func (w *window) start(recent *recentPackets, p *Point) {
	w.open = w.after
	gap := len(w.points) > 0
	for _, q := range recent.last(w.before) {
		if n := len(w.points); n > 0 && w.points[n-1].ID >= q.ID {
			gap = false // the window already has the packets before
			continue
		}
		q.afterGap, gap = gap, false
		w.points = append(w.points, q)
	}
	w.points = append(w.points, *p)
}

func (il *illustrator) finish() {
	for _, w := range il.windows {
		w.finding.Around, w.finding.Window = il.report.aroundLines(w.points), w.points
	}
	for _, w := range il.ladders {
		if len(w.points) > 0 {
			il.report.Ladders = append(il.report.Ladders, Ladder{Connection: w.connection, Title: w.title,
				Finding: w.number, Steps: w.steps()})
		}
	}
	for _, c := range il.report.plotted() {
		if pl := il.plots[c]; pl != nil {
			il.report.Sequences = append(il.report.Sequences, pl.sequences()...)
		}
	}
}

// foldedRun is the length from which an uneventful run of data packets is drawn as its first and last packet.
const foldedRun = 6

// steps folds long uneventful runs of data.
func (w *window) steps() []Step {
	var steps []Step
	for i := 0; i < len(w.points); {
		n := 1
		for i+n < len(w.points) && w.points[i].continuedBy(&w.points[i+n], n) && w.points[i].Resent == w.points[i+n].Resent &&
			!w.wanted[w.points[i+n].ID] {
			n++
		}
		add := func(p Point) { steps = append(steps, Step{Point: p, Accused: w.finding != nil && w.wanted[p.ID]}) }
		if n >= foldedRun {
			add(w.points[i])
			steps = append(steps, Step{Skipped: n - 2})
			add(w.points[i+n-1])
		} else {
			for _, p := range w.points[i : i+n] {
				add(p)
			}
		}
		i += n
	}
	return steps
}

// plot collects the points of one connection. It thins out ordinary points to keep at most maxPoints.
type plot struct {
	connection int
	streams    [2]thinned // by numbering
}

// thinned keeps points in bounded memory: every stride-th ordinary point, and the first of the others if those alone
// are too many.
type thinned struct {
	points  []Point
	stride  int64
	seen    int64
	omitted int64
}

func (t *thinned) add(p Point) {
	t.stride = max(t.stride, 1)
	if p.omittable() {
		t.seen++
		if t.seen%t.stride != 0 {
			t.omitted++
			return
		}
	}
	if len(t.points) == maxPoints && !t.halve() {
		t.omitted++
		return
	}
	t.points = append(t.points, p)
}

// halve drops every second ordinary point and reports whether any was dropped.
func (t *thinned) halve() bool {
	t.stride *= 2
	kept, n := t.points[:0], 0
	for _, p := range t.points {
		if p.omittable() {
			if n++; n%2 == 0 {
				t.omitted++
				continue
			}
		}
		kept = append(kept, p)
	}
	t.points = kept
	return len(kept) < maxPoints
}

func (pl *plot) sequences() []Sequence {
	var list []Sequence
	for i := range pl.streams {
		t := &pl.streams[i]
		if !slices.ContainsFunc(t.points, func(p Point) bool { return p.Class == packet.ClassData }) {
			continue
		}
		list = append(list, Sequence{Connection: pl.connection, Reverse: i == 1, Points: t.points, Omitted: t.omitted})
	}
	return list
}
