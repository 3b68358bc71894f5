package lock

import (
	"cmp"
	"slices"

	"candela.dev/candela/clock"
)

// tenant is what is known of a tenant.
type tenant struct {
	number  uint16
	sw      int32
	partial bool      // the next period is
	windows [2]window // the newest first
}

// window is a period between two resets of the counters.
type window struct {
	number  int64
	known   bool
	partial bool  // requests of it may have been missed
	arrived int64 // requests, in it, at its end or at the end of the one before
	unsure  int64 // those at its end: they may be of the next
	sure    int64 // those in it that were not rejected
}

func (t *tenant) forget() { t.windows, t.partial = [2]window{}, true }

func (j *Judge) tenant(sw int, number uint16) *tenant {
	n := uint32(sw)<<16 | uint32(number)
	t := j.tenants[n]
	if t == nil {
		t = &tenant{number: number, sw: int32(sw), partial: j.gaps > 0}
		j.tenants[n] = t
	}
	return t
}

// windowOf returns the period that an arrival belongs to; not sure: or the next. At the instant of a reset it is one or
// the other.
func (j *Judge) windowOf(d *device, at clock.Time) (n int64, sure bool) {
	u := j.facts.Uncertainty
	first, last := floor(at.Add(-u-1).Sub(d.Reset), d.Period), floor(at.Add(d.PipelineMost+u).Sub(d.Reset), d.Period)
	return first, first == last
}

func floor(a, b clock.Duration) int64 {
	q := int64(a / b)
	if a%b < 0 {
		q--
	}
	return q
}

// counts counts a request of a tenant (N11).
func (j *Judge) counts(d *device, r *request, p *Packet) {
	j.uncount(r)
	quota, ok := d.Quota[r.tenant]
	if d.Period == 0 || !ok {
		return
	}
	t := j.tenant(int(r.sw), r.tenant)
	n, sure := j.windowOf(d, p.Time)
	w := &t.windows[0]
	if !w.known || n > w.number {
		j.closes(t, &t.windows[1], quota)
		t.windows[1] = *w
		*w = window{number: n, known: true, partial: t.partial}
		if last := &t.windows[1]; last.known && last.number == n-1 {
			w.arrived = last.unsure
		}
		t.partial = false
	}
	w.arrived++
	if !sure {
		w.unsure++
		return
	}
	w.sure++
	r.counted, r.window, r.nth = true, n, w.arrived
	if w.partial {
		r.nth = quota + 1
	}
}

// uncount takes back that a request counts as accepted.
func (j *Judge) uncount(r *request) {
	if !r.counted {
		return
	}
	r.counted = false
	t := j.tenant(int(r.sw), r.tenant)
	for i := range t.windows {
		if w := &t.windows[i]; w.known && w.number == r.window {
			w.sure--
		}
	}
}

// rejectedRightly judges that the quota was used up.
func (j *Judge) rejectedRightly(d *device, l *state, r *request, p *Packet) {
	quota, ok := d.Quota[r.tenant]
	if d.Period == 0 || !ok {
		j.tell(l, rejectedFreely(d.place(l, p), int64(r.tenant)), p.Time, p.ID, r.id)
		return
	}
	if !r.counted || r.asks != 1 {
		j.uncount(r)
		return
	}
	for _, w := range j.tenant(int(r.sw), r.tenant).windows {
		if j.facts.Uncertainty > 0 && w.known && w.number == r.window {
			r.nth = max(r.nth, w.arrived) // those that are seen later may have come before
		}
	}
	j.uncount(r)
	if r.nth <= quota && !d.restarted {
		j.tell(l, rejectedEarly(d.place(l, p), int64(r.tenant), r.nth-1, quota), p.Time, p.ID, r.id)
	}
}

func (j *Judge) unaskedReject(d *device, p *Packet) {
	if j.gaps > 0 {
		j.unsure++
		return
	}
	j.tell(nil, unasked(place{d.who, p.Header.Lock, p.ID}, p.Header.Op.String()), p.Time, p.ID)
}

// closes judges a period of which all answers have been seen, but for those that wait at ports.
func (j *Judge) closes(t *tenant, w *window, quota int64) {
	d := j.switches[t.sw]
	if !w.known || w.sure <= quota || d.restarted {
		return
	}
	if sure := w.sure - j.undecided(d, t, w); sure > quota {
		j.tell(nil, overQuota(d.who, int64(t.number), sure, quota), d.Reset.Add(clock.Duration(w.number+1)*d.Period))
	}
}

// undecided counts the requests of a period whose rejections may wait at their ports.
func (j *Judge) undecided(d *device, t *tenant, w *window) (n int64) {
	for i := range j.requests {
		r := &j.requests[i]
		if r.asks > 0 && r.counted && r.window == w.number && r.tenant == t.number && r.sw == t.sw && r.phase == waiting &&
			j.quietSince(d, int(r.port)) <= r.arrived.Add(d.PipelineMost+j.facts.Uncertainty) {
			n++
		}
	}
	return n
}

// finish judges the last periods, without the requests that may still be rejected.
func (t *tenant) finish(j *Judge) {
	for i := range j.requests {
		r := &j.requests[i]
		if r.asks == 0 || r.tenant != t.number || r.sw != t.sw || r.phase != waiting || !r.counted {
			continue
		}
		j.uncount(r)
	}
	for i := range t.windows {
		w := &t.windows[1-i]
		if w.known {
			if quota, ok := j.switches[t.sw].Quota[t.number]; ok {
				j.closes(t, w, quota)
			}
		}
	}
}

func sortedTenants(all map[uint32]*tenant) (list []*tenant) {
	for _, t := range all {
		list = append(list, t)
	}
	slices.SortFunc(list, func(a, b *tenant) int { return cmp.Or(int(a.number)-int(b.number), int(a.sw-b.sw)) })
	return list
}
