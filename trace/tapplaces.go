package trace

import (
	"cmp"
	"fmt"
	"maps"
	"math"
	"net/netip"
	"slices"

	"candela.dev/candela/packet"
)

// A Placement says where two captures were taken.
type Placement uint8

// Placements.
const (
	// PlacementUnknown: the packets show it.
	PlacementUnknown Placement = iota
	// PlacementBracket: the first capture is upstream of the second in both directions, as before and after an injector.
	PlacementBracket
	// PlacementHosts: the first capture was taken at the requester's host, the second at the responder's. Each is upstream
	// for what its host sends.
	PlacementHosts
)

// A WayReport says which capture is upstream for one direction, and what shows it.
type WayReport struct {
	Source      netip.Addr `json:"source"`
	Destination netip.Addr `json:"destination"`
	// FirstUpstream: packets in this direction pass the first capture's tap before the second's.
	FirstUpstream bool   `json:"first_upstream"`
	Reason        string `json:"reason"`
	// Assumed: nothing shows it.
	Assumed bool `json:"assumed,omitempty"`

	certain bool // it is given, or packets show it
	weak    bool // so few packets show it that a tap may have missed them
}

// String says it for people.
func (w *WayReport) String() string {
	order := "the first capture, then the second"
	if !w.FirstUpstream {
		order = "the second capture, then the first"
	}
	return fmt.Sprintf("packets from %v to %v pass %s (%s)", w.Source, w.Destination, order, w.Reason)
}

// wayEvidence counts what shows which capture is upstream for one direction.
type wayEvidence struct {
	matched     int // frames that both captures certainly hold
	hopsFirst   int // of them, those with a lower TTL in the second capture: routed in between
	hopsSecond  int
	marksFirst  int // those with CE in the second capture only
	marksSecond int
	// packets with more transmissions in the first capture than in the second, which has some: lost in between
	lostFirst  int
	lostSecond int
	// packets of which one capture holds more frames with the same identification: copied in between
	copiedFirst  int // those that the second capture holds more often
	copiedSecond int
	alone        [2]int // packets that are not retransmitted if they are lost, seen in one capture only
	repeated     int    // packets with several transmissions
}

// upstream returns 1 if the evidence shows the first capture to be upstream, −1 for the second, 0 if it does not
// decide. missed is the share of frames that each tap misses, estimated from packets that would have been
// retransmitted.
//
// Weak evidence is so few losses that taps may have missed these frames.
func (e *wayEvidence) upstream(missed [2]float64) (side int, reason string, weak bool) {
	// A tap that misses frames misses some retransmissions, too: that many look like losses.
	lost := func(seen, tap int, of int) int { return seen - int(math.Ceil(3*missed[tap]*float64(of))) }
	for _, c := range []struct {
		first, second int
		reason        string
		least         int // as many are not weak
	}{
		{e.hopsFirst, e.hopsSecond, "the TTL decreases", 1},
		{e.marksFirst, e.marksSecond, "CE marks appear", 1},
		{e.copiedFirst, e.copiedSecond, "copies of frames appear", 1},
		{lost(e.lostFirst, 1, e.repeated), lost(e.lostSecond, 0, e.repeated), "lost packets were retransmitted", manyLosses},
		{lost(e.alone[0], 1, e.matched), lost(e.alone[1], 0, e.matched), "packets are missing in the other capture",
			manyLosses},
	} {
		switch {
		case c.first > 0 && c.first > 3*max(0, c.second):
			return 1, c.reason, c.first < c.least
		case c.second > 0 && c.second > 3*max(0, c.first):
			return -1, c.reason, c.second < c.least
		}
	}
	return 0, "", false
}

// manyLosses are more than a tap is expected to miss.
const manyLosses = 3

// common calls fn for every packet that both captures show equally often: the first frames of both are the same one,
// unless each tap missed another transmission.
func (s *survey) common(fn func(a, b *glimpse)) {
	for _, key := range s.keys() {
		a, b := s.taps[0].seen[key], s.taps[1].seen[key]
		if a != nil && b != nil && a.copies == b.copies && a.id == b.id {
			fn(a, b)
		}
	}
}

// keys returns the sampled contents that either capture holds, in a fixed order.
func (s *survey) keys() []uint64 {
	if s.order != nil {
		return s.order
	}
	mask := s.taps[0].mask | s.taps[1].mask
	for i := range s.taps {
		for key, g := range s.taps[i].seen {
			if g.share&mask == 0 && (i == 0 || s.taps[0].seen[key] == nil) {
				s.order = append(s.order, key)
			}
		}
	}
	slices.Sort(s.order)
	return s.order
}

// evidence counts the evidence for each way, and the share of frames that each tap misses.
func (s *survey) evidence() (list []wayEvidence, missed [2]float64) {
	list = make([]wayEvidence, len(s.list))
	var from, to [2]int64 // of each capture, what lies between common frames
	first := true
	s.common(func(a, b *glimpse) {
		e := &list[a.way]
		e.matched++
		count(&e.hopsFirst, b.ttl < a.ttl)
		count(&e.hopsSecond, a.ttl < b.ttl)
		count(&e.marksFirst, b.marked && !a.marked)
		count(&e.marksSecond, a.marked && !b.marked)
		for i, g := range [2]*glimpse{a, b} {
			if first || g.timeNS < from[i] {
				from[i] = g.timeNS
			}
			to[i] = max(to[i], g.timeNS)
		}
		first = false
	})
	data, gone, answered, repeated := 0, [2]int{}, s.answered(), s.answeredTwice()
	identified := s.identified()
	for _, key := range s.keys() {
		seen := [2]*glimpse{s.taps[0].seen[key], s.taps[1].seen[key]}
		if a, b := seen[0], seen[1]; a != nil && b != nil {
			e := &list[a.way]
			count(&e.repeated, a.copies > 1 || b.copies > 1)
			sentA, sentB := a.copies, b.copies
			if identified {
				sentA, sentB = sentA-a.doubled, sentB-b.doubled
				count(&e.copiedFirst, b.doubled > a.doubled)
				count(&e.copiedSecond, a.doubled > b.doubled)
			}
			count(&e.lostFirst, sentA > sentB && a.within(from[0], to[0]))
			count(&e.lostSecond, sentB > sentA && b.within(from[1], to[1]))
			count(&data, a.data && a.copies == 1 && b.copies == 1)
			continue
		}
		for i, g := range seen {
			if g == nil || g.timeNS <= from[i] || g.timeNS >= to[i] {
				continue
			}
			count(&gone[1-i], g.copies == 1 && !repeated[g.place] && (g.data && s.repaired(g) || answered[g.place]))
			count(&list[g.way].alone[i], !g.data)
		}
	}
	for i := range missed {
		missed[i] = float64(gone[i]) / float64(max(1, data))
	}
	return list, missed
}

// within reports whether all its frames were captured between two instants.
func (g *glimpse) within(from, to int64) bool { return g.timeNS >= from && g.lastNS <= to }

// repaired reports whether the receiver of a packet seems to have received it, although only one frame of it was seen:
// it acknowledged the packet or a later one, or the packet is a READ response that the requester did not request again.
func (s *survey) repaired(g *glimpse) bool {
	if g.place&0xff != placeRequest {
		return true
	}
	acked, ok := s.acked[connectionOf(g.place)]
	return ok && !acked.Before(packet.PSN(g.place>>8&maxUint24))
}

// answered returns the places of READ and atomic requests that were answered. A responder answers only what it
// received, so a capture that lacks such a request without a retransmission missed it.
func (s *survey) answered() map[uint64]bool {
	places := make(map[uint64]bool)
	for i := range s.taps {
		for _, g := range s.taps[i].seen {
			if g.place&0xff == placeAnswer && !g.cumulative && g.answer != 0 {
				places[g.answer] = true
			}
		}
	}
	return places
}

// answeredTwice returns the places of READ responses that were transmitted with different contents: a READ that is
// repeated from the middle starts there with FIRST or ONLY, and newer responses have a newer MSN. A tap did not miss
// what was lost of the earlier ones.
func (s *survey) answeredTwice() map[uint64]bool {
	first, repeated := make(map[uint64]uint64), make(map[uint64]bool)
	for i := range s.taps {
		for key, g := range s.taps[i].seen {
			if !g.data || g.place&0xff != placeAnswer {
				continue
			}
			if other, ok := first[g.place]; ok && other != key {
				repeated[g.place] = true
			}
			first[g.place] = key
		}
	}
	return repeated
}

// complete reports whether nothing suggests that one of the taps missed frames. If either capture shows some packets
// more often than the other, some were missed: losses in between affect the downstream capture only.
func (s *survey) complete() bool {
	list, missed := s.evidence()
	for i := range list {
		if e := &list[i]; e.lostFirst > 0 && e.lostSecond > 0 || e.alone[0] > 0 && e.alone[1] > 0 {
			return false
		}
	}
	return missed == [2]float64{}
}

func count(n *int, yes bool) {
	if yes {
		*n++
	}
}

// causes adds the bounds that hold wherever the captures were taken: an answer is seen after its request, at any taps.
func (s *survey) causes(c *clockBounds) {
	mask := s.taps[0].mask | s.taps[1].mask
	identified := s.identified()
	var places [2]map[uint64]*glimpse
	for i := range s.taps {
		places[i] = make(map[uint64]*glimpse)
		for _, key := range s.keys() {
			g := s.taps[i].seen[key]
			if g == nil || g.share&mask != 0 {
				continue
			}
			if _, ok := places[i][g.place]; ok {
				places[i][g.place] = nil // which of them an answer belongs to is not known
				continue
			}
			places[i][g.place] = g
		}
	}
	for _, key := range s.keys() {
		for i := range s.taps {
			g := s.taps[i].seen[key]
			if g == nil || g.place&0xff != placeRequest || g.answer == 0 || places[i][g.place] != g {
				continue
			}
			other := places[1-i]
			if twin, seen := other[g.place]; seen && (twin == nil || twin.copies != g.copies || twin.id != g.id ||
				twin.lastID != g.lastID) {
				continue // the other tap saw several transmissions, or another one
			}
			if answer := other[g.answer]; answer != nil && answer.answer == g.place {
				c.cause(g.timeNS, answer.timeNS, i == 0)
				// Each of them was answered.
				if g.copies > 1 && answer.copies == g.copies && !answer.cumulative && (answer.doubled == 0 || !identified) {
					c.cause(g.lastNS, answer.lastNS, i == 0)
				}
			}
		}
	}
}

// transits adds the bounds that come from frames which pass one tap before the other.
func (s *survey) transits(c *clockBounds, firstUpstream []bool, only func(way int32) bool) {
	s.common(func(a, b *glimpse) {
		if only != nil && !only(a.way) {
			return
		}
		c.transit(a.timeNS, b.timeNS, firstUpstream[a.way])
		if a.copies > 1 && a.lastID == b.lastID {
			c.transit(a.lastNS, b.lastNS, firstUpstream[a.way])
		}
	})
}

// place decides for each way which capture is upstream.
func (s *survey) place(p Placement, ordered bool, requesters func(src netip.Addr) bool) []WayReport {
	evidence, missed := s.evidence()
	list := make([]WayReport, len(s.list))
	for i, key := range s.list {
		w := &list[i]
		w.Source, w.Destination, _ = key.addrs()
		switch p {
		case PlacementBracket:
			w.FirstUpstream, w.Reason = true, asGiven
		case PlacementHosts:
			w.FirstUpstream, w.Reason = requesters(w.Source), asGiven
		case PlacementUnknown:
			side, reason, weak := evidence[i].upstream(missed)
			if w.weak = weak && !ordered; !w.weak {
				w.FirstUpstream, w.Reason = side >= 0, reason
			}
		}
		w.certain = w.Reason != ""
	}
	for i := range list {
		w := &list[i]
		if w.Reason != "" {
			w.weak = false
			continue
		}
		if s.placeByTime(list, i, ordered); w.weak && w.Assumed {
			side, reason, _ := evidence[i].upstream(missed)
			w.FirstUpstream, w.Reason, w.Assumed = side >= 0, reason, false
		} else {
			w.weak = false
		}
	}
	return list
}

// asGiven is the reason for a place that the caller names.
const asGiven = "as given"

// decisiveNS is the least difference between two ways that timing must show, and decisiveFrames how many frames of each
// way must show it.
const (
	decisiveNS     = 1000
	decisiveFrames = 8
)

// placeByTime decides about a way that nothing else decides: if each host's packets are seen earlier at another
// capture, whatever the clocks' offset, the captures were taken at the hosts. Else the first is upstream of the second,
// if the caller says so or nothing contradicts it on the way back.
func (s *survey) placeByTime(list []WayReport, way int, ordered bool) {
	back := slices.IndexFunc(list, func(w WayReport) bool {
		return w.Source == list[way].Destination && w.Destination == list[way].Source
	})
	list[way].FirstUpstream, list[way].Reason, list[way].Assumed = true,
		"taken for granted: nothing in the packets shows it", !ordered
	if back < 0 {
		return
	}
	known := list[back].Reason != ""
	for _, firstUpstream := range []bool{true, false} {
		if known && list[back].FirstUpstream == firstUpstream {
			continue
		}
		if s.apart(way, back, firstUpstream) {
			const why = "packets of each host are seen earlier at a capture of its own"
			list[way].FirstUpstream, list[way].Reason, list[way].Assumed = firstUpstream, why, false
			if !known {
				list[back].FirstUpstream, list[back].Reason, list[back].Assumed = !firstUpstream, why, false
			}
			return
		}
	}
	if known && !ordered { // one place in between, then
		list[way].FirstUpstream = list[back].FirstUpstream
	}
}

// otherPlaces are places of the taps that nothing rules out, although others were taken.
type otherPlaces struct {
	upstream map[flowKey]bool
	clock    *clockEstimate
}

// assumed returns the other places that assumed taps may have: those for which the times of causes and effects agree as
// well.
func (s *survey) assumed(places []WayReport, clock *clockEstimate, sameClock bool) (list []otherPlaces) {
	if !slices.ContainsFunc(places, func(w WayReport) bool { return w.Assumed || w.weak }) {
		return nil
	}
	for _, other := range alternatives(places, func(w *WayReport) bool { return !w.Assumed && !w.weak }) {
		o := otherPlaces{upstream: s.upstream(other), clock: clock}
		if maps.Equal(o.upstream, s.upstream(places)) ||
			slices.ContainsFunc(list, func(x otherPlaces) bool { return maps.Equal(x.upstream, o.upstream) }) {
			continue
		}
		if !sameClock {
			var err error
			if o.clock, _, err = s.clockFor(other); err != nil || o.clock.report.Discarded > clock.report.Discarded {
				continue
			}
		}
		list = append(list, o)
	}
	return list
}

// upstream says for each way whether the first capture is upstream.
func (s *survey) upstream(places []WayReport) map[flowKey]bool {
	m := make(map[flowKey]bool, len(places))
	for i := range places {
		m[s.list[i]] = places[i].FirstUpstream
	}
	return m
}

// apart reports whether the captures can be those of two hosts, the first at the source of way if firstUpstream, with a
// time between them that neither one place nor clock drift explains.
func (s *survey) apart(way, back int, firstUpstream bool) bool {
	upstream := make([]bool, len(s.list))
	upstream[way], upstream[back] = firstUpstream, !firstUpstream
	c := &clockBounds{}
	s.transits(c, upstream, func(w int32) bool { return int(w) == way || int(w) == back })
	if !c.apart() {
		return false
	}
	s.causes(c)
	e, err := c.estimate(true)
	return err == nil && e.report.Discarded == 0 && e.roomNS > decisiveNS
}

// apart reports whether every lower bound leaves more than decisiveNS to the nearest upper bounds in time, whatever the
// drift in between. At least decisiveFrames of either kind must show it.
func (c *clockBounds) apart() bool {
	list := slices.Clone(c.list)
	slices.SortFunc(list, func(a, b bound) int { return cmp.Or(cmp.Compare(a.atNS, b.atNS), cmp.Compare(a.ns, b.ns)) })
	shown, last := [2]int{}, [2]int{-1, -1} // by kind of bound: how many show it, and the latest
	counted := make([]bool, len(list))
	for i := range list {
		last[bit(list[i].upper)] = i
		j := last[bit(!list[i].upper)]
		if j < 0 {
			continue
		}
		room := list[i].ns - list[j].ns
		if !list[i].upper {
			room = -room
		}
		switch drifted := int64(maxDrift * float64(list[i].atNS-list[j].atNS)); {
		case room <= decisiveNS && room >= decisiveNS-drifted: // a pair nearer in time decides
		case room <= decisiveNS:
			return false
		case room-drifted > decisiveNS:
			for _, k := range [...]int{i, j} {
				if !counted[k] {
					counted[k] = true
					shown[bit(list[k].upper)]++
				}
			}
		}
	}
	return shown[0] >= decisiveFrames && shown[1] >= decisiveFrames
}

// reconcile estimates the clocks for the places that were found. If they contradict the times it takes the places that
// agree best. What packets show is kept, unless the taps miss frames, which look like losses in between. Named places
// are kept unless both hosts send requests, so that the caller may mean either by the requester.
func (s *survey) reconcile(found []WayReport) (places []WayReport, clock *clockEstimate, bounds clockBounds,
	err error) {
	places = found
	clock, bounds, err = s.clockFor(found)
	if err == nil && clock.report.Discarded == 0 {
		return places, clock, bounds, err
	}
	if slices.ContainsFunc(found, func(w WayReport) bool { return w.Reason == asGiven }) {
		if s.bothRequest() {
			return s.exchanged(found, clock, bounds, err)
		}
		return places, clock, bounds, err
	}
	complete := s.complete()
	keep := func(w *WayReport) bool { return w.certain && complete }
	for _, other := range alternatives(found, keep) {
		c, b, failed := s.clockFor(other)
		if failed == nil && (err != nil || c.better(clock)) {
			places, clock, bounds, err = other, c, b, nil
		}
	}
	return places, clock, bounds, err
}

// bothRequest reports whether two hosts send each other requests.
func (s *survey) bothRequest() bool {
	requests := make([]bool, len(s.list))
	for _, key := range s.keys() {
		for i := range s.taps {
			if g := s.taps[i].seen[key]; g != nil && g.place&0xff == placeRequest {
				requests[g.way] = true
			}
		}
	}
	ways := map[[2]netip.Addr]bool{}
	for i, key := range s.list {
		if src, dst, _ := key.addrs(); requests[i] {
			ways[[2]netip.Addr{src, dst}] = true
			if ways[[2]netip.Addr{dst, src}] {
				return true
			}
		}
	}
	return false
}

// exchanged swaps captures that were named as those of the two hosts, if the times contradict them.
func (s *survey) exchanged(found []WayReport, clock *clockEstimate, bounds clockBounds, err error) ([]WayReport,
	*clockEstimate, clockBounds, error) {
	places := slices.Clone(found)
	for i := range places {
		places[i].FirstUpstream = !places[i].FirstUpstream
	}
	if c, b, failed := s.clockFor(places); failed == nil && (err != nil || c.better(clock)) {
		return places, c, b, nil
	}
	return found, clock, bounds, err
}

// alternatives returns other possible places of the captures: one after the other, or at two hosts. It changes the ways
// that keep does not select.
func alternatives(found []WayReport, keep func(*WayReport) bool) [][]WayReport {
	var list [][]WayReport
	for _, first := range []func(w *WayReport) bool{
		func(*WayReport) bool { return true },
		func(*WayReport) bool { return false },
		func(w *WayReport) bool { return w.Source.Less(w.Destination) },
		func(w *WayReport) bool { return !w.Source.Less(w.Destination) },
	} {
		places := slices.Clone(found)
		for i := range places {
			if w := &places[i]; !keep(w) {
				w.FirstUpstream, w.Reason, w.Assumed = first(w), "the only order that the times of causes and effects allow", false
			}
		}
		list = append(list, places)
	}
	return list
}

// clockFor estimates the clocks, given which capture is upstream for each way.
func (s *survey) clockFor(places []WayReport) (clock *clockEstimate, bounds clockBounds, err error) {
	upstream, mixed := make([]bool, len(places)), false
	for i := range places {
		upstream[i] = places[i].FirstUpstream
		mixed = mixed || upstream[i] != upstream[0]
	}
	// rounding of stamps matters for the estimate only if frames precede their causes
	for _, tick := range []int64{0, s.tick()} {
		bounds = clockBounds{tickNS: tick}
		s.transits(&bounds, upstream, nil)
		s.causes(&bounds)
		if clock, err = bounds.estimate(!mixed); err == nil && clock.report.Discarded == 0 {
			break
		}
	}
	return clock, bounds, err
}

// disagreement explains why two captures cannot be of the same traffic, or returns an empty string.
func (s *survey) disagreement() string {
	n, common := 0, 0
	for _, key := range s.keys() {
		n++
		if s.taps[0].seen[key] != nil && s.taps[1].seen[key] != nil {
			common++
		}
	}
	if n == 0 || 10*common >= min(n, s.kept(0), s.kept(1)) {
		return ""
	}
	return fmt.Sprintf("only %d of %d packets are in both captures: they are not of the same traffic, or hardly overlap",
		common, n)
}

func (s *survey) kept(tap int) int {
	n := 0
	for _, key := range s.keys() {
		if s.taps[tap].seen[key] != nil {
			n++
		}
	}
	return n
}
