package deflect

import (
	"slices"

	"candela.dev/candela/deflect"
)

// fullBits returns which eligible ports are full, as bits.
func (d *device) fullBits(a *arrival, eligible []int) (mask int64) {
	for i, port := range eligible {
		if i < 63 && d.full(a, port) {
			mask |= 1 << i
		}
	}
	return mask
}

// judgePick judges where a packet was deflected to, or why nowhere.
func (d *device) judgePick(v *verdict) {
	a, p := v.a, v.c.pick
	full := d.fullBits(a, v.eligible)
	if p != nil {
		at := place{d.who, p.Port, a.id}
		d.expect(a, at, "destination port", p.Values[deflect.PickEgress], int64(v.egress))
		d.expect(a, at, "eligible ports", p.Values[deflect.PickEligible], int64(len(v.eligible)))
		if got := p.Values[deflect.PickBits]; got != full && len(v.eligible) < 63 {
			if d.period > 0 {
				d.tell(a, staleBit(at, got, full))
			} else {
				d.tell(a, claimed(at, "congested ports, as bits", got, full))
			}
		}
		if v.c.fate != nil && v.c.fate.Kind != deflect.NoPort && v.c.fate.Port != p.Port {
			d.tell(a, claimed(at, "the port", int64(p.Port), int64(v.c.fate.Port)))
		}
	}
	free := len(v.eligible)
	for _, port := range v.eligible {
		if d.full(a, port) {
			free--
		}
	}
	none := a.fate == portless
	if !none && !slices.Contains(v.eligible, a.port) {
		d.tell(a, ineligible(d.placeOf(a)))
	}
	switch d.set.Scheme {
	case deflect.DIBS, deflect.SD:
		d.judgeScan(v, free, none)
	case deflect.Naive:
		for _, port := range v.eligible {
			d.draw(a, bet{of: ofPort, port: port}, 1/float64(len(v.eligible)), !none && port == a.port)
		}
		if none && len(v.eligible) > 0 {
			d.tell(a, dropped(d.placeOf(a), v.eligible[0]))
		}
	case deflect.PD:
		d.judgeCandidates(v, none)
	case deflect.ECMP, deflect.Vertigo:
	}
	if p != nil {
		at := place{d.who, p.Port, a.id}
		switch got := p.Values[deflect.PickSeen]; {
		case p.Cause == deflect.PickNone && got != -1:
			d.tell(a, claimed(at, "bytes at the picked port", got, -1))
		case p.Cause != deflect.PickNone && p.Port >= 0 && p.Port < len(d.ports):
			d.expectSeen(a, at, got, d.sees(a, p.Port).bytes)
		}
		if p.Cause == deflect.PickNone {
			d.expect(a, at, "avoidable", p.Values[deflect.PickAvoidable], int64(free))
		}
	}
	if a.fate == refused {
		d.judgeTail(v, !d.full(a, a.port))
	}
}

// judgeScan judges the choice of DIBS and SD.
func (d *device) judgeScan(v *verdict, free int, none bool) {
	a := v.a
	if none {
		for _, port := range v.eligible {
			if !d.full(a, port) {
				d.tell(a, dropped(d.placeOf(a), port))
				return
			}
		}
		return
	}
	n := len(v.eligible)
	at := slices.Index(v.eligible, a.port)
	if at < 0 {
		return
	}
	if d.full(a, a.port) {
		d.tell(a, toFull(d.placeOf(a), d.sees(a, a.port).bytes))
		return
	}
	if p := v.c.pick; d.set.Scheme == deflect.SD && p != nil {
		r := int(p.Values[deflect.PickDraw])
		if r < 0 || r >= n && (r > n || !d.set.Inclusive) {
			d.tell(a, badDraw(d.placeOf(a), r, n))
			return
		}
		i := r % n
		for d.full(a, v.eligible[i]) { // one has room
			i = (i + 1) % n
		}
		if i != at {
			d.tell(a, otherScan(d.placeOf(a), r, v.eligible[i]))
			return
		}
		for j := range n {
			d.draw(a, bet{of: ofStart, port: v.eligible[j]}, d.begins(j, n), j == r%n)
		}
		return
	}
	if p := v.c.pick; p != nil {
		if drawn := int(p.Values[deflect.PickDraw]); drawn < 1 || drawn > n-free+1 {
			d.tell(a, badDraw(d.placeOf(a), drawn, n))
		}
	}
	if d.set.Scheme == deflect.DIBS {
		behind := func(j int) bool { return d.full(a, v.eligible[(j+n-1)%n]) }
		count := 0
		for j, port := range v.eligible {
			if !d.full(a, port) && behind(j) {
				count++
			}
		}
		d.draw(a, bet{of: ofNext}, float64(count)/float64(free), behind(at))
	}
	for j, port := range v.eligible {
		if d.full(a, port) {
			continue
		}
		chance := 1 / float64(free)
		if d.set.Scheme == deflect.SD { // its own position, and those of congested ports before it
			chance = d.begins(j, n)
			for k := (j + n - 1) % n; k != j && d.full(a, v.eligible[k]); k = (k + n - 1) % n {
				chance += d.begins(k, n)
			}
		}
		d.draw(a, bet{of: ofPort, port: port}, chance, j == at)
	}
}

// begins returns with what probability a scan of n ports begins at a position.
func (d *device) begins(at, n int) float64 {
	switch {
	case !d.set.Inclusive:
		return 1 / float64(n)
	case at == 0: // n, too
		return 2 / float64(n+1)
	}
	return 1 / float64(n+1)
}

// judgeCandidates judges PD's choice.
func (d *device) judgeCandidates(v *verdict, none bool) {
	a := v.a
	n := len(v.eligible)
	want := min(max(d.set.Choices, 1), n)
	var list []int
	var results []test
	switch {
	case len(v.c.tests) > 0:
		for _, r := range v.c.tests[1:] {
			if slices.Contains(list, r.Port) || !slices.Contains(v.eligible, r.Port) {
				d.tell(a, badCandidate(place{d.who, r.Port, a.id}))
				if r.Port < 0 || r.Port >= len(d.ports) {
					continue
				}
			}
			if r.Port == v.egress {
				d.tell(a, testedAgain(place{d.who, r.Port, a.id}))
			}
			t := d.tests(a, r.Port, r)
			d.judgeTest(v, r.Port, &t, r)
			list, results = append(list, r.Port), append(results, t)
		}
		list, results = v.withDestination(list, results, want)
		if len(list) != want {
			if none {
				d.tell(a, tooFewDrawn(d.placeOf(a), len(list), want))
			} else {
				d.tell(a, fewCandidates(d.placeOf(a), len(list), want))
			}
			return
		}
		if want == 2 {
			d.pair(a, v.eligible, list[0], list[1])
		}
		if n > want {
			for _, port := range v.eligible {
				d.draw(a, bet{of: ofCandidate, port: port}, float64(want)/float64(n), slices.Contains(list, port))
			}
		}
		d.judgePair(v, list)
	case n <= want:
		for _, port := range v.eligible {
			t := v.test // the destination port is not tested again
			if port != v.egress {
				t = d.tests(a, port, nil)
			}
			list, results = append(list, port), append(results, t)
		}
	default:
		if d.set.Relative == deflect.Quantile {
			d.loseWindows(a)
		}
		d.judgeUndrawn(v, none)
		return
	}
	best := int64(-1)
	certain := true
	for i := range list {
		if results[i].draws && results[i].known && results[i].cause != 0 && list[i] != v.egress {
			d.draw(a, bet{of: ofThreshold, port: list[i]}, results[i].probability, results[i].cause == deflect.TestOver)
		}
		certain = certain && results[i].cause != 0
		if results[i].cause == deflect.TestRoom && (best < 0 || results[i].seen.bytes < best) {
			best = results[i].seen.bytes
		}
	}
	if !certain {
		return
	}
	if none {
		for i, port := range list {
			if results[i].cause == deflect.TestRoom {
				d.tell(a, candidateFree(d.placeOf(a), port))
				return
			}
		}
		return
	}
	at := slices.Index(list, a.port)
	switch {
	case at < 0:
		d.tell(a, notCandidate(d.placeOf(a)))
	case results[at].cause != deflect.TestRoom:
		d.tell(a, toFull(d.placeOf(a), results[at].seen.bytes))
	case results[at].seen.bytes > best:
		d.tell(a, notShortest(d.placeOf(a), results[at].seen.bytes, best))
	default:
		d.judgeTie(v, list, results, best, at)
	}
}

// withDestination adds the destination port to the candidates, if it was drawn: it is not tested again. Where among
// those after the second it was drawn no record says.
func (v *verdict) withDestination(list []int, results []test, want int) ([]int, []test) {
	if v.c.pick == nil || slices.Contains(list, v.egress) || !slices.Contains(v.eligible, v.egress) {
		return list, results
	}
	at := -1
	for i, value := range []int{deflect.PickFirst, deflect.PickSecond} {
		if v.c.pick.Values[value] == int64(v.egress) {
			at = i
		}
	}
	if at < 0 && len(list) == want-1 && want > 2 && v.c.pick.Values[deflect.PickDraw] == int64(want) {
		at = len(list)
	}
	if at < 0 || at > len(list) {
		return list, results
	}
	return slices.Insert(list, at, v.egress), slices.Insert(results, at, v.test)
}

// judgePair judges the candidates that the record of the choice names.
func (d *device) judgePair(v *verdict, list []int) {
	p := v.c.pick
	if p == nil {
		return
	}
	at := place{d.who, p.Port, v.a.id}
	d.expect(v.a, at, "candidates", p.Values[deflect.PickDraw], int64(len(list)))
	for i, value := range []int64{p.Values[deflect.PickFirst], p.Values[deflect.PickSecond]} {
		want := int64(-1)
		if i < len(list) {
			want = int64(list[i])
		}
		d.expect(v.a, at, "candidate", value, want)
	}
}

// judgeTie judges the choice among candidates with equal queues.
func (d *device) judgeTie(v *verdict, list []int, results []test, best int64, at int) {
	var tied []int
	for i := range list {
		if results[i].cause == deflect.TestRoom && results[i].seen.bytes == best {
			tied = append(tied, list[i])
		}
	}
	if len(tied) < 2 {
		return
	}
	if d.set.TieFirst {
		if len(v.c.tests) > 0 && list[at] != tied[0] {
			d.tell(v.a, notFirst(d.placeOf(v.a), tied[0]))
		}
		return
	}
	for _, port := range tied {
		d.draw(v.a, bet{of: ofTie, port: port}, 1/float64(len(tied)), port == v.a.port)
	}
}

// judgeUndrawn judges PD's choice if no record shows the candidates: all eligible ports may have been drawn.
func (d *device) judgeUndrawn(v *verdict, none bool) {
	a := v.a
	if none {
		// Unless fewer ports refuse it than are drawn, all that were drawn may have.
		refuse := 0
		for _, port := range v.eligible {
			s := d.sees(a, port)
			if d.full(a, port) || d.set.Probabilistic && s.bytes > int64(d.set.MinThreshold) ||
				!d.set.Probabilistic && int64(d.set.Queue)-s.bytes <= int64(d.set.Queue)*d.set.Alpha/1_000_000+1 {
				refuse++
			}
		}
		if refuse < min(d.set.Choices, len(v.eligible)) {
			d.tell(a, candidateFree(d.placeOf(a), a.port))
		}
		return
	}
	if d.full(a, a.port) {
		d.tell(a, toFull(d.placeOf(a), d.sees(a, a.port).bytes))
	}
}
