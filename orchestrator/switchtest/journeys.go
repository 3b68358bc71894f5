package switchtest

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"

	"candela.dev/candela/clock"
	"candela.dev/candela/orchestrator"
	"candela.dev/candela/orchestrator/report"
	"candela.dev/candela/testbeds/virtual/fabric"
)

// Bounds of what is drawn of findings.
const (
	maxJourneys   = 6   // findings, each the first of its group
	journeyBefore = 8   // hops of the flow before the first that is the finding's
	journeyAfter  = 16  // hops after it
	journeyLater  = 3   // after each further one
	maxContext    = 50  // hops that are not the finding's
	maxHops       = 100 // of one drawing
	ringHops      = 64  // kept of each flow, to look back
	ringTotal     = 1 << 17
	maxLiveTaps   = 1 << 17 // kept of a live run, which cannot be repeated
)

// illustrate draws the packets of findings. A simulated run is repeated for it, as it is a function of its plan: so a
// run that finds nothing keeps nothing. Of a live run the taps were kept.
func (r *run) illustrate(ctx context.Context, rep *report.Report) error {
	numbers := rep.Leading(maxJourneys)
	if len(numbers) == 0 || r.plan.remote != nil || r.net == nil {
		return nil
	}
	j := newJourneys(r, rep, numbers)
	if len(j.stories) == 0 {
		return nil
	}
	if r.plan.live {
		r.kept.show(j)
	} else if err := j.repeat(ctx, r.plan); err != nil {
		return err
	}
	rep.Journeys = j.finish()
	return nil
}

// keptTaps are what the taps of a live run saw first.
type keptTaps struct{ seen []observed }

func (k *keptTaps) observe(at fabric.Point, now clock.Time, p *fabric.Packet) {
	if len(k.seen) < maxLiveTaps {
		k.seen = append(k.seen, observed{at, now, p.Header})
	}
}

func (k *keptTaps) show(j *journeys) {
	var p fabric.Packet
	for i := range k.seen {
		p.Header = k.seen[i].Header
		j.observe(k.seen[i].at, k.seen[i].now, &p)
	}
}

// journeys follows packets from tap to tap and keeps the hops of findings.
type journeys struct {
	net      *fabric.Network
	ledger   *ledger
	familyAt func(device int) *family
	captured bool
	stories  []*story
	until    clock.Time // what comes later is not drawn
	done     func()     // called after that; nil: nothing waits for it

	rings          map[int]*hopRing // by flow
	ring           int              // hops of each
	way            map[uint64]*hop  // on a link, by packet
	inside         map[insideKey]cameIn
	sent           map[int]*bitmap // numbers of data, by flow
	behind, before uint64          // frames of the captures
}

// insideKey names a packet within a switch, whatever becomes of its copies.
type insideKey struct {
	sw   int
	name packetName
	flow int
}

// cameIn is a packet as it came to a switch.
type cameIn struct {
	fabric.Header
	resent bool
}

// Classes of the style sheet that are asked for.
const classData, classResent = "data", "resent"

// hop is a hop with what it is chosen by.
type hop struct {
	report.Hop
	from, to node
	flow     int
	name     packetName
	order    int // among the hops of the flow
}

// node is a host or a switch; the zero value is none.
type node struct {
	host bool
	n    int // from 1
}

type hopRing struct {
	hops []*hop
	n    int
}

func (b *hopRing) add(h *hop, room int) {
	if len(b.hops) < room {
		b.hops = append(b.hops, h)
	} else {
		b.hops[b.n%room] = h
	}
	b.n++
}

// each returns what the ring holds, oldest first.
func (b *hopRing) each() []*hop {
	if b.n <= len(b.hops) {
		return b.hops
	}
	at := b.n % len(b.hops)
	return append(slices.Clone(b.hops[at:]), b.hops[:at]...)
}

// story is the hops of one finding.
type story struct {
	finding int
	found   int64 // ns
	packets []uint64
	flow    int
	name    packetName // that is followed; zero: unknown
	hops    []*hop
	open    int
	context int
	omitted int
}

func newJourneys(r *run, rep *report.Report, numbers []int) *journeys {
	j := &journeys{net: r.net, ledger: r.ledger, familyAt: r.familyAt, captured: r.plan.Test.Taps.Capture,
		rings: map[int]*hopRing{}, way: map[uint64]*hop{}, inside: map[insideKey]cameIn{}, sent: map[int]*bitmap{},
		ring: min(max(ringTotal/max(r.plan.total, 1), journeyBefore), ringHops)}
	for _, n := range numbers {
		f := &rep.Findings[n-1]
		if len(f.Packets) == 0 && f.Connection == 0 {
			continue // about no packet: a counter, an expectation
		}
		s := &story{finding: n, found: f.TimeNS, packets: f.Packets, flow: f.Connection}
		if f.Analyzer == "ndp" && f.PSN > 0 {
			s.name = packetName{"data", uint64(f.PSNAbs)}
		}
		j.stories = append(j.stories, s)
		j.until = max(j.until, clock.Time(clock.Duration(f.TimeNS)*clock.Nanosecond))
	}
	j.until += clock.Time(2 * chunk)
	return j
}

// repeat runs the plan again, as far as findings go.
func (j *journeys) repeat(ctx context.Context, p *Plan) (err error) {
	if p.Streamed() { // the drawings need taps everywhere
		if p.total > keptFlows {
			return nil
		}
		if p, err = New(p.Test.JudgedInFull()); err != nil {
			return err
		}
	}
	again := &run{facts: facts{plan: p}, Cycle: &orchestrator.Cycle{}}
	if again.net, err = p.build(1); err != nil {
		return err
	}
	for range again.net.Switches() {
		again.current = append(again.current, p.Test.Switch.Values)
	}
	again.ledger = newLedger(again.net, p)
	again.net.SetTap(again.ledger.observe)
	if again.endpoints, err = p.attach(again.net, again.ledger); err != nil {
		return err
	}
	ctx, stop := context.WithCancelCause(ctx)
	defer stop(nil)
	j.net, j.ledger, j.familyAt = again.net, again.ledger, again.familyAt
	j.done = func() { stop(errDrawn) }
	again.net.SetTap(j.observe)
	end := clock.Time(0).Add(cmp.Or(p.Test.Duration, p.Test.Deadline))
	if err := again.simulate(ctx, end); err != nil && !errors.Is(err, errDrawn) {
		return fmt.Errorf("repeat the run: %w", err)
	}
	return nil
}

var errDrawn = errors.New("all findings are drawn")

// observe is a tap.
func (j *journeys) observe(at fabric.Point, now clock.Time, p *fabric.Packet) {
	if now > j.until {
		if j.done != nil {
			j.done()
			j.done = nil
		}
		return
	}
	if !at.Host && at.Stage != fabric.Dropped && at.Port >= j.net.Switch(at.Node).Ports() {
		return // between pipelines of a switch
	}
	place := node{at.Host, at.Node + 1}
	switch at.Stage {
	case fabric.Ingress, fabric.Arrived:
		j.arrive(place, at.Port, now, p)
	case fabric.Egress, fabric.Offered, fabric.Departed:
		j.depart(place, at, now, p)
	case fabric.Dropped:
		j.drop(place, at, now, p)
	case fabric.Lost:
		delete(j.way, p.ID)
	case fabric.Queued, fabric.Served, fabric.Withdrawn, fabric.Refused:
	}
}

func (j *journeys) key(place node, p *fabric.Packet) insideKey {
	name, _ := j.nameOf(p)
	return insideKey{place.n, name, j.flowOf(p)}
}

// arrive ends a hop.
func (j *journeys) arrive(place node, port int, now clock.Time, p *fabric.Packet) {
	h := j.way[p.ID]
	delete(j.way, p.ID)
	if h != nil {
		h.to, h.ToPort, h.ArrivedNS = place, port, now.Nanoseconds()
	}
	if place.host {
		if h != nil {
			h.ToPort = report.None
		}
		return
	}
	j.before++
	if h != nil && j.captured {
		h.Before = j.before
	}
	j.inside[j.key(place, p)] = cameIn{p.Header, h != nil && h.Class == classResent}
}

// depart begins a hop. The NIC of a host shows a packet several times until it is on the wire.
func (j *journeys) depart(place node, at fabric.Point, now clock.Time, p *fabric.Packet) {
	if h := j.way[p.ID]; h != nil && place.host && h.from == place {
		h.SentNS = now.Nanoseconds()
		return
	}
	h := j.hop(place, at, now, p)
	if !place.host {
		j.behind++
		if j.captured {
			h.Behind = j.behind
		}
		key := j.key(place, p)
		came, known := j.inside[key]
		delete(j.inside, key)
		h.Fate = changes(&came.Header, known, p)
		if came.resent && h.Class == classData {
			h.Class = classResent
		}
	}
	j.way[p.ID] = h
	j.keep(h)
}

// drop ends the way of a packet. One of which the switch sends a copy on is not lost.
func (j *journeys) drop(place node, at fabric.Point, now clock.Time, p *fabric.Packet) {
	if place.host {
		if h := j.way[p.ID]; h != nil && h.from == place {
			h.Lost, h.Fate = true, "dropped: "+at.Reason.Name()
			delete(j.way, p.ID)
			return
		}
	} else {
		reason := j.familyAt(at.Node).Reason(at.Reason)
		if reason.Copied || at.Reason == fabric.ReasonConsumed {
			return
		}
		delete(j.inside, j.key(place, p))
		h := j.hop(place, at, now, p)
		if h.Lost, h.Fate = true, "dropped: "+reason.Name; reason.Consumed {
			h.Lost, h.Consumed, h.Fate = false, true, "consumed: "+reason.Name
		}
		j.keep(h)
		return
	}
	h := j.hop(place, at, now, p)
	h.Lost, h.Fate = true, "dropped: "+at.Reason.Name()
	j.keep(h)
}

// hop makes the hop of a packet that is at a place.
func (j *journeys) hop(place node, at fabric.Point, now clock.Time, p *fabric.Packet) *hop {
	name, answers := j.nameOf(p)
	h := &hop{from: place, flow: j.flowOf(p), name: name}
	h.ID, h.What, h.SentNS, h.ToPort = p.ID, textOf(&p.Header, name, answers), now.Nanoseconds(), report.None
	h.Class, h.FromPort = classOf(&p.Header, answers), at.Port
	if place.host {
		h.FromPort = report.None
	}
	if name.follows() && h.flow > 0 && !answers {
		if j.sent[h.flow] == nil {
			j.sent[h.flow] = new(bitmap)
		}
		const most = 1 << 24 // of numbers that are told apart
		if place.host && h.name.number < most && !j.sent[h.flow].add(h.name.number) && h.Class == classData {
			h.Class, h.What = classResent, h.What+" retransmitted"
		}
	}
	return h
}

// nameOf names a packet, and reports whether it goes from the receiver of a flow to its sender.
func (j *journeys) nameOf(p *fabric.Packet) (packetName, bool) {
	t := j.ledger.speaks[p.Protocol]
	carries := t == nil || t.Carries(&p.Header)
	return nameOf(&p.Header, carries), answers(&p.Header, carries)
}

// flowOf returns the number of the flow that a packet belongs to, control packets included; 0: unknown.
func (j *journeys) flowOf(p *fabric.Packet) int {
	connection := p.Flow
	if t := j.ledger.speaks[p.Protocol]; t != nil {
		connection = t.ConnectionOf(&p.Header)
	}
	_, answers := j.nameOf(p)
	senders := [2]fabric.HostID{p.Src, p.Dst}
	if answers != (p.Flags&fabric.Returned != 0) {
		senders[0], senders[1] = senders[1], senders[0]
	}
	for _, sender := range senders {
		if n := j.ledger.flowOfConnection(p.Protocol, sender, connection); n > 0 {
			return n
		}
	}
	return 0
}

// keep shows a hop to the stories and remembers it.
func (j *journeys) keep(h *hop) {
	ring := j.rings[h.flow]
	if ring == nil {
		ring = new(hopRing)
		j.rings[h.flow] = ring
	}
	h.order = ring.n
	for _, s := range j.stories {
		s.see(h, ring)
	}
	ring.add(h, j.ring)
}

// see takes a hop that belongs to the story or is near one that does.
func (s *story) see(h *hop, ring *hopRing) {
	named := slices.Contains(s.packets, h.ID)
	h2 := named || s.flow > 0 && s.flow == h.flow && s.name != (packetName{}) && s.name == h.name
	if named && s.name == (packetName{}) && h.name.follows() {
		s.name = h.name
	}
	if named && s.flow == 0 {
		s.flow = h.flow
	}
	late := len(s.packets) == 0 && s.name == (packetName{}) && s.flow == h.flow && h.SentNS >= s.found
	switch {
	case (h2 || late) && s.hops == nil:
		s.begin(ring)
		s.take(h, named, true)
		s.open = journeyAfter
	case h2:
		s.take(h, named, true)
		s.open = max(s.open, journeyLater)
	case s.open > 0 && s.flow == h.flow:
		s.open--
		s.take(h, false, false)
	}
}

// begin takes what was before: hops of the same packet, and the latest of the flow.
func (s *story) begin(ring *hopRing) {
	past := ring.each()
	for i, h := range past {
		named := slices.Contains(s.packets, h.ID)
		if own := named || s.name != (packetName{}) && h.name == s.name; own || i >= len(past)-journeyBefore {
			s.take(h, named, own)
		}
	}
}

func (s *story) take(h *hop, accused, own bool) {
	if !own {
		s.context++
	}
	if len(s.hops) == maxHops || !own && s.context > maxContext {
		s.omitted++
		return
	}
	h.Accused = h.Accused || accused
	s.hops = append(s.hops, h)
}
