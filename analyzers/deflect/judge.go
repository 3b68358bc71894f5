package deflect

import (
	"cmp"
	"fmt"
	"slices"

	"candela.dev/candela/analyzers"
	"candela.dev/candela/analyzers/cause"
	"candela.dev/candela/analyzers/chance"
	"candela.dev/candela/analyzers/inorder"
	"candela.dev/candela/clock"
	"candela.dev/candela/deflect"
	"candela.dev/candela/trace"
)

// Judge judges all switches of a run.
type Judge struct {
	view     analyzers.SwitchView
	report   *analyzers.Reporter
	wagers   chance.Budget
	network  *network // nil: the view does not know it
	switches []*device
	paths    paths
	marks    marks
	layers   layers
	measures measures
	coverage coverage
	free     []*arrival // that are not used any more
	exact    bool       // times and order of what happens at a switch are known
}

// coverage is how much was judged.
type coverage struct {
	packets, records, decisions, deflected, draws, unsure, victims, marks, ordered, made int64
}

func (c *coverage) counts() map[string]int64 {
	return map[string]int64{"packets": c.packets, "records": c.records, "decisions": c.decisions,
		"deflected": c.deflected, "draws": c.draws, "unsure": c.unsure, "victims": c.victims, "marks": c.marks,
		"ordered": c.ordered, "made": c.made}
}

// NewJudge returns a judge.
func NewJudge(v analyzers.SwitchView) (analyzers.SwitchJudge, error) {
	j := &Judge{view: v, report: analyzers.NewReporter(Name, Rules()), measures: newMeasures(),
		exact: !analyzers.OnRealFrames(v)}
	if view, ok := v.(analyzers.NetworkView); ok {
		j.network = newNetwork(view)
	}
	for i := range v.Switches() {
		settings, err := v.Settings(i)
		if err != nil {
			return nil, err
		}
		set, ok := settings.(deflect.Settings)
		if !ok {
			return nil, fmt.Errorf("settings of switch %s are %T: want deflect.Settings", v.SwitchName(i), settings)
		}
		j.switches = append(j.switches, newDevice(j, i, &set))
	}
	j.paths = newPaths(j)
	j.marks, j.layers = newMarks(j), newLayers(j)
	return j, nil
}

// fates of packets.
type fate uint8

const (
	unknown   fate = iota // still inside
	inside                // queued, and still inside at the end, as far as records say
	left                  // queued, and has left
	withdrawn             // queued, and lost as the switch stopped or a trunk failed
	refused               // dropped as it came: its queue has no room
	portless              // dropped as it came, for want of a port to deflect to
	failed                // dropped as it came: its trunk has failed
	elsewhere             // the scheme has not seen it
)

// flowKey is what a tap shows of a flow.
type flowKey struct {
	src, dst, flow uint32
	protocol       trace.Protocol
	v6             bool
}

// arrival is a packet at a switch.
type arrival struct {
	at         clock.Time
	id         uint64
	key        flowKey
	connection uint32
	entropy    uint16
	flags      trace.PacketFlags
	ttl        uint8
	rank       uint64
	size       int64
	in         int
	fate       fate
	port       int // where it left, waited or was dropped
	records    []trace.Decision
	// of judging
	priority uint64
	carries  uint64 // the mean that it writes as it leaves
	egress   int    // its destination port; -1: unknown
	joined   bool
	line     int  // of Vertigo: the port where it waits; -1: none
	made     bool // by the switch itself
	// of counters
	counted, over, avoidable, tested bool
}

// event is an entry of the log of a switch.
type event struct {
	at      clock.Time
	a       *arrival // nil: the switch has started
	leaving bool     // rather than arriving
	lost    bool     // rather than sent
}

// arrival returns one of which nothing is known.
func (j *Judge) arrival() *arrival {
	n := len(j.free)
	if n == 0 {
		return &arrival{port: -1, egress: -1, line: -1}
	}
	a := j.free[n-1]
	j.free = j.free[:n-1]
	*a = arrival{port: -1, egress: -1, line: -1, records: a.records[:0]}
	return a
}

// forget says that an arrival is not used any more.
func (j *Judge) forget(a *arrival) { j.free = append(j.free, a) }

// device is a switch. By which port a packet goes is known when it leaves or is dropped; so what happens is logged, and
// judged in its order as soon as the fates of the packets are known. A Vertigo moves what waits: its records say where,
// and it is judged at once.
type device struct {
	judge      *Judge
	number     int
	who        cause.Switch
	set        *deflect.Settings
	place      int // in the network; -1: unknown
	inside     table[arrival]
	pending    *arrival // the latest that has come, if nothing has happened since
	log        inorder.Log[event]
	out        bool
	overrun    bool
	recorded   bool // it keeps records
	noted      map[string]bool
	relinked   map[int]bool
	neighbours []int   // NB
	hosts      []int64 // by port; −1: none
	links      []link  // by port
	eligibles  []int   // of the packet at hand
	verdict    verdict // on it
	claims     []*trace.Decision
	busy       []clock.Time
	state
	tally
	vertigo
}

func newDevice(j *Judge, number int, set *deflect.Settings) *device {
	d := &device{judge: j, number: number, who: cause.Switch(j.view.SwitchName(number)), set: set, place: -1,
		noted: make(map[string]bool), relinked: make(map[int]bool)}
	if j.network != nil {
		d.place = j.network.places[number]
	}
	d.busy, d.links = make([]clock.Time, j.view.Ports(number)), make([]link, j.view.Ports(number))
	for port := range j.view.Ports(number) {
		host, ok := j.view.HostAt(number, port)
		if !ok {
			d.neighbours = append(d.neighbours, port)
			d.hosts = append(d.hosts, -1)
			continue
		}
		d.hosts = append(d.hosts, int64(host))
	}
	if !j.exact {
		d.giveUp(0, "real frames do not show when exactly what happens")
	}
	d.start(0)
	return d
}

// Observe implements analyzers.SwitchJudge.
func (j *Judge) Observe(t *trace.SwitchTap) {
	if t.Internal {
		return
	}
	d := j.switches[t.Switch]
	if t.Stage == trace.Entered {
		j.coverage.packets++
		j.marks.observe(d, t)
	}
	j.paths.observe(d, t)
	if j.exact && t.Stage == trace.Left {
		d.paces(t)
	}
	if !d.overrun {
		d.observe(t)
	}
}

// link is what a port sends with, unless that changes.
type link struct {
	known   bool
	rate    clock.BitRate
	framing int
}

// hostAt returns the host at a port.
func (d *device) hostAt(port int) (host uint32, ok bool) {
	if port >= len(d.hosts) || d.hosts[port] < 0 {
		return 0, false
	}
	return uint32(d.hosts[port]), true
}

// paces judges that the port has sent what it sent before.
func (d *device) paces(t *trace.SwitchTap) {
	if t.Port >= len(d.busy) || d.relinked[t.Port] {
		return
	}
	l := &d.links[t.Port]
	if !l.known {
		l.known = true
		l.rate, l.framing = d.judge.view.Link(d.number, t.Port)
	}
	if l.rate <= 0 {
		return
	}
	if t.Time < d.busy[t.Port] {
		d.tellTap(t, tooFast(place{d.who, t.Port, t.ID}, cause.Span(d.busy[t.Port].Sub(t.Time))))
	}
	d.busy[t.Port] = t.Time.Add(l.rate.Serialise(int(t.Size) + l.framing))
}

func (d *device) observe(t *trace.SwitchTap) {
	if t.Stage == trace.Entered {
		if d.out {
			return
		}
		a := d.judge.arrival()
		a.at, a.id, a.key, a.in = t.Time, t.ID, flowKey{t.Src, t.Dst, t.Flow, t.Protocol, t.IPv6}, t.Port
		a.connection, a.entropy, a.flags, a.ttl, a.rank, a.size = t.Connection, t.Entropy, t.Flags, t.TTL, t.Rank,
			int64(t.Size)
		a.priority = priorityOf(d.set, a)
		d.inside.put(t.ID, a)
		d.pending = a
		if d.set.Scheme == deflect.Vertigo {
			d.comes(a)
			return
		}
		d.log.Add(event{at: t.Time, a: a})
		if d.log.Full() && !d.presume() {
			d.giveUp(t.Time, "a packet has waited for so long that the log is full")
		}
		return
	}
	a := d.inside.get(t.ID)
	if a == nil {
		return
	}
	d.inside.remove(t.ID)
	if a.made {
		d.shows(a, t)
	}
	arriving := d.pending == a && t.Time == a.at
	d.pending = nil
	if d.set.Scheme == deflect.Vertigo {
		d.goes(t, a, arriving)
		return
	}
	presumed, was := a.fate == inside, a.port
	a.port = t.Port
	a.fate = d.fateOf(t, arriving)
	if presumed && (was != t.Port || a.fate != left && a.fate != withdrawn) {
		d.giveUp(t.Time, "a packet was not where its record says")
		return
	}
	if a.fate == left || a.fate == withdrawn {
		d.log.Add(event{at: t.Time, a: a, leaving: true, lost: a.fate == withdrawn})
		if a.fate == withdrawn {
			if r := d.reason(t); !r.Outage {
				d.tell(a, thrown(d.placeOf(a), r.Name))
			}
		}
	}
	d.judgeLog()
}

func (d *device) reason(t *trace.SwitchTap) analyzers.DropReason {
	return d.judge.view.Reason(d.number, t.Reason)
}

func (d *device) fateOf(t *trace.SwitchTap, arriving bool) fate {
	if t.Stage == trace.Left {
		return left
	}
	switch r := d.reason(t); {
	case r.Unseen || r.Name == "ttl" || r.Name == "no-route":
		return elsewhere
	case !arriving:
		return withdrawn
	case r.Outage:
		return failed
	case r.Name == "tail", r.Name == "headroom":
		return refused
	case r.Name == deflect.ReasonNoPort:
		return portless
	}
	return elsewhere
}

// judgeLog judges what happened before the first packet whose fate is unknown.
func (d *device) judgeLog() {
	for e, ok := d.log.First(); ok && !d.overrun; e, ok = d.log.First() {
		over := false // nothing more will be asked of the packet
		if e.a == nil {
			d.start(e.at)
		} else if !e.leaving && e.a.fate == unknown {
			break
		} else if e.leaving {
			d.update(e.at)
			d.leaves(e.at, e.a, e.lost)
			over = true
		} else if e.a.fate != elsewhere {
			d.update(e.at)
			if e.a.made {
				d.queuesMade(e.a)
			} else {
				d.arrives(e.a)
			}
			over = e.a.fate != left && e.a.fate != inside && e.a.fate != withdrawn
		} else {
			over = true
		}
		d.log.Next()
		if over && !d.overrun {
			d.judge.forget(e.a)
		}
	}
}

// presume takes the first packet of the log to wait where its record says, and judges on.
func (d *device) presume() bool {
	first, ok := d.log.First()
	a := first.a
	if !ok || a == nil || a.fate != unknown || d.set.Scheme == deflect.Vertigo {
		return false
	}
	if c := d.claimOf(a); c.fate != nil && (c.fate.Kind == deflect.Queued || c.fate.Kind == deflect.Deflected) {
		a.port = c.fate.Port
	} else if to := d.candidates(a); len(a.records) == 0 && len(to) == 1 && d.set.Scheme == deflect.ECMP {
		a.port = to[0]
	}
	if a.port < 0 || a.port >= len(d.ports) {
		return false
	}
	a.fate = inside
	d.judgeLog()
	return true
}

// giveUp ends the judgement of what a switch does with packets; their paths are still followed.
func (d *device) giveUp(now clock.Time, why string) {
	d.overrun = true
	d.log, d.inside = inorder.Log[event]{}, table[arrival]{}
	d.note(now, "the rest of the run", why)
}

// note says once that something is not judged.
func (d *device) note(now clock.Time, what, why string) {
	if d.noted[what+why] {
		return
	}
	d.noted[what+why] = true
	if d.judge.report.Wants(ruleNotJudged, 0) {
		c := notJudged(d.who, what, why)
		d.judge.report.Tell(c, analyzers.Finding{TimeNS: now.Nanoseconds(), Message: c.Sentence()})
	}
}

// Decide implements analyzers.SwitchJudge.
func (j *Judge) Decide(r *trace.Decision) {
	d := j.switches[r.Switch]
	d.recorded = true
	j.coverage.records++
	j.paths.decide(d, r)
	if d.overrun {
		return
	}
	a := d.inside.get(r.Packet)
	if a == nil && r.Kind == deflect.Made && !d.out && j.view.Makes(r.Switch) {
		d.makes(r)
		return
	}
	if a == nil {
		if !d.out {
			d.tellRecord(r, ofNobody(d.who, r.Packet))
		}
		return
	}
	d.countRecord(a, r)
	if d.set.Scheme == deflect.Vertigo {
		d.says(a, r)
		return
	}
	a.records = append(a.records, *r)
}

// Relinked implements analyzers.LinkJudge: how long frames take the link is not known from then on.
func (j *Judge) Relinked(now clock.Time, sw, port int, _ *analyzers.Relink) {
	d := j.switches[sw]
	d.relinked[port] = true
	d.note(now, fmt.Sprintf("how fast port %d sends (%s)", port, deflect.RuleFloor), "its link changed")
}

// Changed implements analyzers.SwitchJudge: which packets meet which settings is not known.
func (j *Judge) Changed(now clock.Time, sw int) { j.switches[sw].giveUp(now, "its settings changed") }

// Stopping implements analyzers.SwitchJudge: the counters are read a last time, and what waits is lost.
func (j *Judge) Stopping(now clock.Time, sw int) {
	d := j.switches[sw]
	d.compareCounters(now)
	d.out = true
	j.paths.outage = true
}

// Started implements analyzers.SwitchJudge: the state is that of a new switch.
func (j *Judge) Started(now clock.Time, sw int) {
	d := j.switches[sw]
	d.out = false
	d.settle()
	if d.set.Scheme == deflect.Vertigo {
		d.start(now)
	} else if !d.overrun {
		d.log.Add(event{at: now})
		d.judgeLog()
	}
}

// start makes the state of a switch that begins to serve.
func (d *device) start(now clock.Time) {
	d.state = newState(d, now)
	d.vertigo = vertigo{}
	if d.set.Scheme == deflect.Vertigo {
		d.inside = table[arrival]{}
	}
}

func (d *device) flowOf(a *arrival) int {
	return d.judge.view.FlowOf(&trace.SwitchTap{Src: a.key.src, Dst: a.key.dst, Flow: a.key.flow,
		Protocol: a.key.protocol, IPv6: a.key.v6, Connection: a.connection, Flags: a.flags})
}

// tell reports a finding about a packet.
func (d *device) tell(a *arrival, c cause.Cause, others ...uint64) {
	flow := d.flowOf(a)
	if d.judge.report.Wants(c.Rule, flow) {
		d.judge.report.Tell(c, analyzers.Finding{Connection: flow, Packets: append([]uint64{a.id}, others...),
			TimeNS: a.at.Nanoseconds(), Message: c.Sentence()})
	}
}

// tellTap reports a finding about a packet at a tap.
func (d *device) tellTap(t *trace.SwitchTap, c cause.Cause) {
	flow := d.judge.view.FlowOf(t)
	if d.judge.report.Wants(c.Rule, flow) {
		d.judge.report.Tell(c, analyzers.Finding{Connection: flow, Packets: []uint64{t.ID}, TimeNS: t.Time.Nanoseconds(),
			Message: c.Sentence()})
	}
}

// tellRecord reports a finding about a record.
func (d *device) tellRecord(r *trace.Decision, c cause.Cause) {
	if d.judge.report.Wants(c.Rule, 0) {
		d.judge.report.Tell(c, analyzers.Finding{Packets: []uint64{r.Packet}, TimeNS: r.Time.Nanoseconds(),
			Message: c.Sentence()})
	}
}

// tellAt reports a finding about an instant.
func (d *device) tellAt(now clock.Time, c cause.Cause) {
	if d.judge.report.Wants(c.Rule, 0) {
		d.judge.report.Tell(c, analyzers.Finding{TimeNS: now.Nanoseconds(), Message: c.Sentence()})
	}
}

func (d *device) placeOf(a *arrival) place { return place{d.who, a.port, a.id} }

// Finish implements analyzers.SwitchJudge.
func (j *Judge) Finish() (analyzers.Result, error) {
	for _, d := range j.switches {
		for !d.overrun && d.presume() { // packets that wait at the end
		}
		if !d.out {
			d.compareCounters(d.began)
		}
		d.settle()
		for range d.log.Waiting() {
			j.coverage.unsure++
		}
		if len(d.log.Waiting()) > 0 {
			d.note(d.began, "what happened last", "a packet waits of which the taps do not show where")
		}
	}
	j.paths.finish()
	j.layers.finish()
	findings := j.report.Findings()
	slices.SortStableFunc(findings, func(a, b analyzers.Finding) int { return cmp.Compare(a.TimeNS, b.TimeNS) })
	return analyzers.Result{Findings: findings, Metrics: j.measures.metrics(), Tables: j.measures.tables(j),
		Coverage: j.coverage.counts()}, nil
}
