package sai

import (
	"fmt"
	"net/netip"

	"candela.dev/candela/analyzers"
	"candela.dev/candela/analyzers/cause"
	"candela.dev/candela/clock"
	"candela.dev/candela/sai"
)

// Change is what the switch is set to from an instant on.
type Change struct {
	FromPS   int64
	Settings sai.Settings
}

// Config is what the analyzer must know besides the packets.
type Config struct {
	Ports []string // names by number; bindings and maps of the settings use them
	// Settings are in order of time; the first holds from the beginning.
	Settings []Change
	// Name is the switch's in findings; "": the only one.
	Name string
	// GracePS is how long after a change either setting may apply: 0 if the switch shares the clock, about a second
	// through a management plane.
	GracePS int64
	// PortOf returns the egress port towards a destination; false if there are several or it is unknown. Nil: none is
	// known.
	PortOf func(netip.Addr) (int, bool)
	// PoolBytes is the shared buffer of queues without a limit; 0: unknown, then trimming despite room is not judged.
	PoolBytes int
	// Strict says that a port always serves its highest queue first: then copies must overtake data.
	Strict bool
	// ReactionPS is how long after a packet's arrival its copy may enter the trim queue; 0: immediately.
	ReactionPS int64
	// Closed says that only observed packets cross the switch: then counters may not exceed what was seen.
	Closed bool
	// Undrained says that packets may still be inside at the end: missing packets are not judged then.
	Undrained bool
	// MaxPending bounds the arrivals kept that have not left; 0: 262 144, more than any switch holds.
	MaxPending int
}

const defaultPending = 1 << 18

// Analyzer judges one switch. Feed it every observation in order of time, then Finish.
type Analyzer struct {
	config   Config
	report   *analyzers.Reporter
	current  int // index of the settings in force
	compiled []compiled

	pending pending
	inside  int64 // bytes of pending
	ports   []portState
	order   map[orderKey]int64 // arrival of the last copy
	acl     []aclTally

	sent []sentShare // by port, before the latest start of the switch

	trying, refuted bool // violations are not reported, but noted

	unattributed int
	latency      *analyzers.Distribution
	trimmed      *analyzers.Distribution
	coverage     map[string]int64
}

// compiled is one setting as tables.
type compiled struct {
	settings sai.Settings
	fromPS   int64
	dscp     []int // of copies by egress port, −1: undefined
	queue    []int
	profiles [][]sai.Profile // [port][queue]
}

type orderKey struct{ in, out, queue int }

type portState struct {
	arrived        int64 // by this ingress port
	arrivedBytes   int64
	arrivedPadding int64 // that frames may have had on the wire
	leftPadding    int64
	left, copies   int64 // by this egress port
	leftBytes      int64
	copyBytes      int64
	queues         []tally
	lower          [][dataRing]int64 // [queue]: when the last packets of a queue left
	lowerNext      []int
	firstPS        int64
	lastPS         int64
	lostCopyTarget []bool // queues that copies of this port go to
	// queues with a rate limit or that may be paused, at any time: they may wait while lower ones send
	shaped []bool
}

// dataRing is how many departures of a queue are kept, to prove that a copy was overtaken.
const dataRing = 32

// tally is what was seen of the packets meant for one queue of one port.
type tally struct {
	whole, wholeBytes       int64
	copies, copiedBytes     int64 // bytes of originals
	ambiguous, unclearBytes int64 // left whole, perhaps as runt copies
	missing, missingBytes   int64
	mustTrim                int64 // missing packets that, if refused, were to be trimmed
	mayTrim                 int64 // missing packets near a change of settings
	sentPadding             int64
	sentBy, sentBytes       int64 // packets that left by this queue, where it is known
	inside                  int64 // bytes of packets that arrived and have not left, at most
	blurred                 bool  // what was counted here may belong to another queue, or the other way round
	// copies that were lost in the trim queue when its link failed: surely, and perhaps
	flushed, maybeFlushed int64
}

type aclTally struct{ packets, bytes, padding int64 }

// New returns an analyzer. It panics if c has no settings, which is a programming error.
func New(c Config) *Analyzer {
	if len(c.Settings) == 0 {
		panic("analyzers/sai: no settings")
	}
	if c.PortOf == nil {
		c.PortOf = func(netip.Addr) (int, bool) { return 0, false }
	}
	if c.MaxPending == 0 {
		c.MaxPending = defaultPending
	}
	a := &Analyzer{
		config: c, report: analyzers.NewReporter(Name, Rules()), order: map[orderKey]int64{},
		ports:    make([]portState, len(c.Ports)),
		latency:  analyzers.NewDistribution("sai.trim-latency", analyzers.UnitNS, 0),
		trimmed:  analyzers.NewDistribution("sai.trimmed-length", analyzers.UnitBytes, 0),
		coverage: map[string]int64{},
	}
	for _, name := range coverageNames() {
		a.coverage[name] = 0
	}
	for i := range a.ports {
		p := &a.ports[i]
		p.queues = make([]tally, queues)
		p.lower, p.lowerNext = make([][dataRing]int64, queues), make([]int, queues)
		p.lostCopyTarget, p.shaped = make([]bool, queues), make([]bool, queues)
		for q := range p.lower {
			for j := range p.lower[q] {
				p.lower[q][j] = -1
			}
		}
	}
	a.pending.init()
	for _, change := range c.Settings {
		a.compiled = append(a.compiled, a.compile(change))
	}
	a.acl = make([]aclTally, len(c.Settings[0].Settings.Rules))
	return a
}

// queues is how many queues of a port the analyzer knows: SONiC has 8.
const queues = 8

// AddChange adds settings that apply from now on, for callers that learn of them as they happen.
func (a *Analyzer) AddChange(c Change) { a.compiled = append(a.compiled, a.compile(c)) }

func (a *Analyzer) compile(c Change) compiled {
	t := compiled{settings: c.Settings, fromPS: c.FromPS}
	for i, name := range a.config.Ports {
		dscp, ok := c.Settings.CopyDSCP(name)
		if !ok {
			dscp = -1
		}
		t.dscp = append(t.dscp, dscp)
		t.queue = append(t.queue, c.Settings.CopyQueue(max(dscp, 0)))
		profiles := make([]sai.Profile, queues)
		for q := range profiles {
			profiles[q], _ = c.Settings.ProfileOf(name, q)
			a.ports[i].shaped[q] = a.ports[i].shaped[q] || c.Settings.PFC || c.Settings.Shaped(name, q)
		}
		t.profiles = append(t.profiles, profiles)
		if q := t.queue[i]; q < queues && ok {
			a.ports[i].lostCopyTarget[q] = true
		}
	}
	return t
}

// Name returns the analyzer's name.
func (a *Analyzer) Name() string { return Name }

func coverageNames() []string {
	return []string{"copy", "copy-ipv4", "copy-ipv6", "runt", "exempt", "from-tc", "dynamic-queue", "settings-changed",
		"missing"}
}

// Observe takes the next packet.
func (a *Analyzer) Observe(o *sai.Observation) {
	if o.Port < 0 || o.Port >= len(a.ports) {
		return
	}
	for a.current+1 < len(a.compiled) && a.compiled[a.current+1].fromPS <= o.TimePS {
		a.current++
		a.coverage["settings-changed"]++
	}
	if o.Side == sai.Before {
		a.arrive(o)
		return
	}
	a.depart(o)
}

// arrive remembers a packet until it leaves.
func (a *Analyzer) arrive(o *sai.Observation) {
	a.ports[o.Port].arrived++
	a.ports[o.Port].arrivedBytes += int64(o.Length)
	a.ports[o.Port].arrivedPadding += padding(o.Length)
	s := &a.compiled[a.current]
	e := entry{Observation: *o, settings: a.current, other: a.current, rule: -1}
	if a.current > 0 && o.TimePS-s.fromPS <= a.config.GracePS {
		e.other = a.current - 1
	}
	e.queue = s.settings.QueueOf(int(o.DSCP))
	e.rule = matching(s.settings.Rules, o)
	if e.rule >= 0 && e.rule < len(a.acl) {
		a.acl[e.rule].packets++
		a.acl[e.rule].bytes += int64(o.Length)
		a.acl[e.rule].padding += padding(o.Length)
	}
	a.admit(&e)
	a.pending.add(&e)
	for a.pending.size > a.config.MaxPending {
		a.miss(a.pending.oldest())
	}
}

// admit notes what is in the way of a packet, at most.
func (a *Analyzer) admit(e *entry) {
	e.out, e.around = -1, a.inside
	a.inside += int64(e.Length)
	if port, ok := a.config.PortOf(e.Dst); ok && port >= 0 && port < len(a.ports) && e.queue >= 0 && e.queue < queues {
		at := &a.ports[port].queues[e.queue]
		e.out, e.ahead = port, at.inside
		at.inside += int64(e.Length)
	}
}

// release notes that a packet is not inside any more.
func (a *Analyzer) release(e *entry) {
	a.inside -= int64(e.Length)
	if e.out >= 0 {
		a.ports[e.out].queues[e.queue].inside -= int64(e.Length)
	}
}

// matching returns the index of the rule that applies to a packet, the one of the highest priority; −1: none.
func matching(rules []sai.Rule, o *sai.Observation) int {
	best := -1
	for i := range rules {
		if rules[i].Matches(o.Src, o.Dst) && (best < 0 || rules[i].Priority > rules[best].Priority) {
			best = i
		}
	}
	return best
}

// depart matches a packet that leaves with its arrival.
func (a *Analyzer) depart(o *sai.Observation) {
	p := &a.ports[o.Port]
	p.left++
	p.leftBytes += int64(o.Length)
	p.leftPadding += padding(o.Length)
	if p.firstPS == 0 {
		p.firstPS = o.TimePS
	}
	p.lastPS = o.TimePS
	if o.Queue >= 0 && o.Queue < queues {
		p.queues[o.Queue].sentBy++
		p.queues[o.Queue].sentBytes += int64(o.Length)
		p.queues[o.Queue].sentPadding += padding(o.Length)
	}
	e, in, ok := a.take(o)
	if !ok {
		a.violate(causeOnce(a.what(nil, o)), o, nil, "a packet that arrived and has not left",
			"one that did not arrive, or had left before")
		return
	}
	if !in.blurred {
		a.release(&e) // it is unknown which of several different packets has left
	}
	if e.queue < 0 || e.queue >= queues {
		return
	}
	a.blur(o.Port, &in)
	if in.unlike && a.fitsAny(in.looks, o) {
		if a.tally(&e, o, &in) == copied {
			a.countCopy(&e, o, true)
		}
		return
	}
	if e.out >= 0 && e.out != o.Port && o.Dst == e.Dst {
		a.violate(causeOtherPort(a.what(&e, o)), o, &e, "by port "+a.config.Ports[e.out], "by port "+a.config.Ports[o.Port])
		return
	}
	switch a.tally(&e, o, &in) {
	case whole:
		a.checkWhole(&e, o)
	case copied:
		a.countCopy(&e, o, in.mixed)
		a.checkCopy(&e, o, in.mixed)
	case unclear:
	}
}

// Flush takes a packet that waited in queue o.Queue of o.Port and was lost as the port's link failed. Its arrival stays
// pending: it has not left.
func (a *Analyzer) Flush(o *sai.Observation) {
	in, ok := a.pending.by[o.Signature]
	if !ok || o.Port < 0 || o.Port >= len(a.ports) {
		return
	}
	var copyOf, maybeOf [queues]bool // original queues
	all := true                      // every arrival that it may be makes it a copy
	for i := in.head; i != none; i = a.pending.slots[i].twin {
		e := &a.pending.slots[i].entry
		if e.queue < 0 || e.queue >= queues {
			all = false
			continue
		}
		switch a.classify(e, o) {
		case copied:
			copyOf[e.queue] = true
		case unclear:
			maybeOf[e.queue], all = true, false
		case whole:
			all = false
		}
	}
	candidates := 0
	for q := range queues {
		if copyOf[q] || maybeOf[q] {
			candidates++
		}
	}
	for q := range queues {
		switch at := &a.ports[o.Port].queues[q]; {
		case copyOf[q] && all && candidates == 1:
			at.flushed++
		case copyOf[q] || maybeOf[q]:
			at.maybeFlushed++
		}
	}
}

// tally counts a packet that has left.
func (a *Analyzer) tally(e *entry, o *sai.Observation, in *crowd) kind {
	p := &a.ports[o.Port]
	at := &p.queues[e.queue]
	kind := a.classify(e, o)
	switch kind {
	case whole:
		at.whole++
		at.wholeBytes += int64(e.Length)
		if !in.blurred || o.Queue != sai.UnknownQueue {
			a.rememberData(p, e, o)
		}
	case unclear:
		at.ambiguous++
		at.unclearBytes += int64(e.Length)
	case copied:
		at.copies++
		at.copiedBytes += int64(e.Length)
		p.copies++
		p.copyBytes += int64(o.Length)
	}
	return kind
}

// kind is what a departure is.
type kind uint8

const (
	whole kind = 1 + iota
	copied
	unclear // whole, or a runt's copy with the DSCP that it had anyway
)

func (a *Analyzer) classify(e *entry, o *sai.Observation) kind {
	if o.Length < e.Length || o.DSCP != e.DSCP {
		return copied
	}
	for _, s := range []int{e.settings, e.other} {
		t := &a.compiled[s]
		if o.Queue != sai.UnknownQueue && o.Queue != t.settings.QueueOf(int(e.DSCP)) && o.Queue == t.queue[o.Port] {
			return copied // it has changed queues: a copy that kept its DSCP
		}
		if t.dscp[o.Port] != int(e.DSCP) || e.Length > t.settings.Trimming.Size {
			continue
		}
		if o.Queue == sai.UnknownQueue || t.queue[o.Port] == e.queue {
			return unclear
		}
		if o.Queue == t.queue[o.Port] {
			return copied
		}
	}
	return whole
}

// rememberData keeps when packets of a queue left.
func (a *Analyzer) rememberData(p *portState, e *entry, o *sai.Observation) {
	q := e.queue
	if o.Queue >= 0 && o.Queue < queues {
		q = o.Queue
	}
	p.lower[q][p.lowerNext[q]] = o.TimePS
	p.lowerNext[q] = (p.lowerNext[q] + 1) % dataRing
}

// violate reports a finding about packet o, which belongs to arrival e.
func (a *Analyzer) violate(c cause.Cause, o *sai.Observation, e *entry, expected, actual string) {
	if a.trying {
		a.refuted = true
		return
	}
	if !a.report.Wants(c.Rule, 0) {
		return
	}
	ids := []uint64{o.ID}
	message := fmt.Sprintf("port %s, %v → %v", a.config.Ports[o.Port], o.Src, o.Dst)
	if e != nil {
		if e.ID != o.ID {
			ids = append(ids, e.ID)
		}
		message += fmt.Sprintf(": %d bytes with DSCP %d arrived at %s", e.Length, e.DSCP, clock.Duration(e.TimePS).Text())
	}
	a.report.Tell(c, analyzers.Finding{
		Packets: ids, TimeNS: o.TimePS / 1000, Expected: expected, Actual: actual, Message: message,
	})
}

// miss settles an arrival that never left.
func (a *Analyzer) miss(e entry, in crowd) {
	a.release(&e)
	a.coverage["missing"]++
	port, ok := a.config.PortOf(e.Dst)
	if !ok || port < 0 || port >= len(a.ports) || e.queue < 0 || e.queue >= queues {
		a.unattributed++
		return
	}
	a.blur(port, &in)
	at := &a.ports[port].queues[e.queue]
	at.missing++
	at.missingBytes += int64(e.Length)
	now, before := a.mayTrim(&e, e.settings, port), a.mayTrim(&e, e.other, port)
	switch {
	case now && before:
		at.mustTrim++
	case now || before:
		at.mayTrim++
	}
}

// mayTrim reports whether settings s have a packet trimmed that is not admitted.
func (a *Analyzer) mayTrim(e *entry, s, port int) bool {
	t := &a.compiled[s]
	p := &t.profiles[port][e.queue]
	return p.Action == sai.DropAndTrim && !p.Lossless && matching(t.settings.Rules, &e.Observation) < 0
}

// Cut is Config.Undrained for callers that know it only at the end.
func (a *Analyzer) Cut() { a.config.Undrained = true }

// Finish judges the counters, counted since before the first observation, and returns the results.
func (a *Analyzer) Finish(counters sai.Snapshot) analyzers.Result {
	for a.pending.size > 0 {
		a.miss(a.pending.oldest())
	}
	a.judgeCounters(counters)
	return a.result()
}

// inherit takes over findings and metrics of an earlier, finished analyzer of the same switch.
func (a *Analyzer) inherit(before *Analyzer) {
	a.report, a.latency, a.trimmed, a.coverage = before.report, before.latency, before.trimmed, before.coverage
	a.sent = before.copyShares()
}

// result is what was found and measured so far.
func (a *Analyzer) result() analyzers.Result {
	r := analyzers.Result{Findings: a.report.Findings(), Coverage: a.coverage}
	r.Metrics = append(r.Metrics, a.latency.Metric(), a.trimmed.Metric(), a.share())
	return r
}

// share is the metric of the copies' part of each port's bytes, in thousandths, without ports that sent none.
func (a *Analyzer) share() analyzers.Metric {
	d := analyzers.NewDistribution("sai.copy-share-permille", analyzers.UnitCount, 0)
	for _, s := range a.copyShares() {
		if s.copies > 0 && s.bytes > 0 { // a record may claim 0 bytes
			d.Record(s.copyBytes * 1000 / s.bytes)
		}
	}
	return d.Metric()
}

// sentShare is what left by a port, and the copies among it.
type sentShare struct{ copies, copyBytes, bytes int64 }

// copyShares returns what left by each port, including before the latest start of the switch.
func (a *Analyzer) copyShares() []sentShare {
	list := make([]sentShare, len(a.ports))
	copy(list, a.sent)
	for i := range a.ports {
		p, s := &a.ports[i], &list[i]
		s.copies, s.copyBytes, s.bytes = s.copies+p.copies, s.copyBytes+p.copyBytes, s.bytes+p.leftBytes
	}
	return list
}

// entry is an arrival that has not left yet.
type entry struct {
	sai.Observation
	settings, other int   // in force when it arrived; other differs near a change
	queue           int   // that it was meant for
	rule            int   // that exempts it, −1: none
	out             int   // port that it is meant for, −1: unknown
	ahead, around   int64 // bytes that were inside when it came, for its queue and in all
}
