package deflect

import (
	"slices"

	"candela.dev/candela/analyzers"
	"candela.dev/candela/clock"
	"candela.dev/candela/deflect"
	"candela.dev/candela/trace"
)

// paths follows packets over all switches.
type paths struct {
	judge    *Judge
	journeys table[journey]
	free     []*journey // that have ended
	outage   bool       // something was out of service: packets may have been lost on links
}

// journey is that of a packet.
type journey struct {
	tap         trace.SwitchTap // the latest
	inside      bool
	visits      int
	deflections int
	longer      int // trunks beyond those of a shortest path
	claimed     int // kind of the latest record about its fate at this switch; -1: none
}

func newPaths(j *Judge) paths {
	p := paths{judge: j}
	if n := j.network; n != nil {
		p.outage = len(n.Outages) > 0 || len(n.Failed) > 0
	}
	return p
}

// begin begins the journey of a packet.
func (p *paths) begin(id uint64) *journey {
	var w *journey
	if n := len(p.free); n > 0 {
		w, p.free = p.free[n-1], p.free[:n-1]
		*w = journey{}
	} else {
		w = new(journey)
	}
	p.journeys.put(id, w)
	return w
}

// end ends it.
func (p *paths) end(id uint64, w *journey) {
	p.journeys.remove(id)
	p.free = append(p.free, w)
}

func (p *paths) observe(d *device, t *trace.SwitchTap) {
	if t.Flags&trace.Notification != 0 {
		return
	}
	w := p.journeys.get(t.ID)
	at := place{d.who, t.Port, t.ID}
	if w == nil && t.Flags&trace.Made != 0 && p.judge.view.Makes(t.Switch) {
		w = p.begin(t.ID)
		w.tap, w.inside, w.claimed = *t, true, -1
	}
	switch t.Stage {
	case trace.Entered:
		p.enters(d, w, t)
	case trace.Left:
		if w == nil || !w.inside || w.tap.Switch != t.Switch {
			d.tellTap(t, notInside(at))
			return
		}
		p.leaves(d, w, t)
	case trace.Dropped:
		if w == nil || !w.inside || w.tap.Switch != t.Switch {
			d.tellTap(t, notInside(at))
			return
		}
		if r := d.reason(t); r.Name == "ttl" {
			d.tellTap(t, ttlEnded(at, w.visits))
			if t.TTL > 0 {
				d.tellTap(t, ttlDrop(at, t.TTL))
			}
		}
		p.end(t.ID, w)
	}
}

func (p *paths) enters(d *device, w *journey, t *trace.SwitchTap) {
	at := place{d.who, t.Port, t.ID}
	host, fromHost := d.hostAt(t.Port)
	switch {
	case w == nil:
		w = p.begin(t.ID)
		// A switch that is not judged may have sent it.
		if n := p.judge.network; n != nil && d.place >= 0 && !fromHost && n.sees(n.Peers[d.place][t.Port]) {
			d.tellTap(t, fromNowhere(at))
		} else if fromHost && host == t.Src && t.TTL >= deflect.TTL {
			d.tellTap(t, ttlAtFirst(at, t.TTL))
		}
	case w.inside:
		d.tellTap(t, twice(at))
	default:
		if t.TTL != w.tap.TTL-1 {
			d.tellTap(t, ttlStep(at, t.TTL, w.tap.TTL))
		}
		if n := p.judge.network; n != nil && d.place >= 0 {
			from := p.judge.switches[w.tap.Switch].place
			if from >= 0 && n.Peers[from][w.tap.Port] != d.place && n.sees(n.Peers[from][w.tap.Port]) {
				d.tellTap(t, fromNowhere(at))
			}
		}
	}
	w.tap, w.inside, w.claimed = *t, true, -1
	if w.visits++; w.visits > deflect.TTL {
		d.tellTap(t, tooMany(at, w.visits))
	}
}

func (p *paths) leaves(d *device, w *journey, t *trace.SwitchTap) {
	at := place{d.who, t.Port, t.ID}
	if t.TTL != w.tap.TTL {
		d.tellTap(t, ttlStep(at, t.TTL, w.tap.TTL))
	}
	longer, known := p.longer(d, &w.tap, t.Port)
	if known {
		w.longer += longer
		if longer > 0 && w.claimed == deflect.Queued {
			d.tellTap(t, detour(at))
		}
	}
	w.tap, w.inside = *t, false
	if _, ok := d.hostAt(t.Port); ok {
		p.judge.measures.delivered(w)
		p.end(t.ID, w)
	}
}

// longer returns by how many trunks a port makes the path of a packet longer than the shortest: 0, 1 or 2.
func (p *paths) longer(d *device, came *trace.SwitchTap, port int) (trunks int, known bool) {
	n := p.judge.network
	if n == nil || d.place < 0 || int(came.Dst) >= len(n.Homes) || len(n.epochs) > 1 || port >= len(n.Peers[d.place]) {
		return 0, false
	}
	home := n.Homes[came.Dst]
	hops := n.from(&n.epochs[0], home.Switch)
	next := n.Peers[d.place][port]
	if next < 0 || hops[next] < 0 || hops[d.place] < 0 {
		return 0, false
	}
	return hops[next] - hops[d.place] + 1, true
}

// decide follows what records say of deflections.
func (p *paths) decide(d *device, r *trace.Decision) {
	w := p.journeys.get(r.Packet)
	if w == nil || !w.inside || w.tap.Switch != r.Switch {
		return
	}
	switch r.Kind {
	case deflect.Deflected:
		w.deflections++
		w.claimed = int(r.Kind)
		p.judge.coverage.deflected++
		p.judge.measures.deflected(d, r)
	case deflect.Queued:
		w.claimed = int(r.Kind)
	case deflect.NoPort, deflect.Tail, deflect.Extracted, deflect.Displaced:
	default:
		return
	}
	at := place{d.who, r.Port, r.Packet}
	want := int64(w.deflections)
	// Whether an attempt that failed counts is not said.
	attempt := r.Kind != deflect.Deflected && r.Kind != deflect.Queued && r.Values[deflect.FateDeflections] == want+1
	if got := r.Values[deflect.FateDeflections]; got != want && !attempt {
		d.tellRecord(r, claimed(at, "deflections of it", got, want))
	}
	if got := r.Values[deflect.FateTTL]; got != int64(w.tap.TTL) {
		d.tellRecord(r, claimed(at, "its TTL", got, int64(w.tap.TTL)))
	}
	if got := r.Values[deflect.FateIngress]; got != int64(w.tap.Port) {
		d.tellRecord(r, claimed(at, "the port that it came by", got, int64(w.tap.Port)))
	}
}

// finish judges packets that have not arrived although nothing is on its way.
func (p *paths) finish() {
	v := p.judge.view
	if v.InFlight() || v.Bounded() || p.outage {
		return
	}
	var lost []*journey
	for _, w := range p.journeys.all {
		lost = append(lost, w)
	}
	slices.SortFunc(lost, func(a, b *journey) int { return compareTaps(&a.tap, &b.tap) })
	for _, w := range lost {
		d := p.judge.switches[w.tap.Switch]
		arrives := false // at a switch that is judged
		if n := p.judge.network; n != nil && d.place >= 0 {
			arrives = n.sees(n.Peers[d.place][w.tap.Port])
		}
		if w.inside || arrives {
			d.tellTap(&w.tap, vanished(place{d.who, w.tap.Port, w.tap.ID}))
		}
	}
}

func compareTaps(a, b *trace.SwitchTap) int {
	if a.Time != b.Time {
		return compareTimes(a.Time, b.Time)
	}
	return int(int64(a.ID) - int64(b.ID))
}

func compareTimes(a, b clock.Time) int {
	if a < b {
		return -1
	}
	return 1
}

var _ analyzers.LinkJudge = (*Judge)(nil)
