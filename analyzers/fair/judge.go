package fair

import (
	"cmp"
	"fmt"
	"slices"

	"candela.dev/candela/analyzers"
	"candela.dev/candela/analyzers/cause"
	"candela.dev/candela/analyzers/chance"
	"candela.dev/candela/analyzers/inorder"
	"candela.dev/candela/clock"
	"candela.dev/candela/fair"
	"candela.dev/candela/trace"
)

// Judge judges all switches of a run.
type Judge struct {
	view     analyzers.SwitchView
	report   *analyzers.Reporter
	wagers   chance.Budget
	switches []*device
	streams  []*stream     // of all ports, as far as records show their draws
	twins    *chance.Twins // of all ports
	measures measures
	coverage map[string]int64
}

// NewJudge returns a judge.
func NewJudge(v analyzers.SwitchView) (analyzers.SwitchJudge, error) {
	j := &Judge{view: v, report: analyzers.NewReporter(Name, Rules()), measures: newMeasures(),
		coverage: map[string]int64{
			"packets": 0, "records": 0, "draws": 0, "unsure": 0, "slots": 0, "steady": 0, "varying": 0}}
	j.twins = chance.NewTwins(&j.wagers)
	for i := range v.Switches() {
		d := &device{judge: j, number: i, who: cause.Switch(v.SwitchName(i)), inside: make(map[uint64]*arrival),
			noted: make(map[string]bool), relinked: make(map[int]bool)}
		if err := d.configure(); err != nil {
			return nil, err
		}
		d.start(0)
		j.switches = append(j.switches, d)
	}
	return j, nil
}

func (d *device) configure() error {
	settings, err := d.judge.view.Settings(d.number)
	if err != nil {
		return err
	}
	set, ok := settings.(fair.Settings)
	if !ok {
		return fmt.Errorf("settings of switch %s are %T: want fair.Settings", d.who, settings)
	}
	d.set = &set
	d.children = make([][]int, len(set.Nodes))
	for i := range set.Nodes[1:] {
		parent := set.Nodes[i+1].Parent
		d.children[parent] = append(d.children[parent], i+1)
	}
	return nil
}

// fates of packets.
type fate uint8

const (
	unknown   fate = iota // still inside
	inside                // queued as it should be, as far as is known
	left                  // queued, and has left
	excess                // dropped by the drop test
	tail                  // dropped for want of room
	withdrawn             // queued, and lost as the switch stopped
	elsewhere             // never came to a queue
)

// flowKey is what a tap shows of a 5-tuple.
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
	flags      trace.PacketFlags
	rank       uint64
	weight     int64 // of its flow, in millionths, by the workload
	size       int64 // without a shim
	shim       int64 // with which it came
	in         int
	fate       fate
	port       int
	claim      *trace.Decision
	states     []trace.Decision
	// as it left
	leftRank   uint64
	leftRanked bool
	leftShim   int64
	// of judging
	sequence     uint64 // at its port
	bypassed     bool
	unsure       bool // its label afterwards is not known
	node         int
	bound        bound   // of its label afterwards
	others       []bound // by other readings of the specification
	taken        int64   // bytes that it takes in the queue and on the link: with the shim that it should have there
	waits        int64   // those, if it waits
	neverOrdered bool
}

// event is an entry of the log of a switch.
type event struct {
	at      clock.Time
	a       *arrival       // nil: the switch has started
	set     *fair.Settings // it has these settings from now on
	leaving bool           // rather than arriving
}

// device is a switch. By which port a packet goes is known when it leaves or is dropped; so what happens is logged, and
// judged in its order as soon as the fates of the packets are known.
type device struct {
	judge    *Judge
	number   int
	who      cause.Switch
	set      *fair.Settings
	children [][]int // interior nodes, by node
	inside   map[uint64]*arrival
	log      inorder.Log[event]
	out      bool
	overrun  bool
	noted    map[string]bool
	relinked map[int]bool // ports
	began    clock.Time
	ports    []*port
	flows    map[flowKey]*measured
	twins    *chance.Twins // of ports
	lives    int
	counted  []fair.PortCounters // since the start; what the taps show at once
	states   int                 // records of nodes since the start
	altered  bool                // what it is set to has changed: rooms and what bypasses are those of no one setting
	astray   bool                // a packet was lost elsewhere than at a queue, or from it
}

// Observe implements analyzers.SwitchJudge.
func (j *Judge) Observe(t *trace.SwitchTap) {
	if d := j.switches[t.Switch]; !t.Internal && !d.overrun {
		d.observe(t)
	}
}

func (d *device) observe(t *trace.SwitchTap) {
	if t.Stage == trace.Entered {
		if d.out {
			return
		}
		a := &arrival{at: d.set.Ticked(t.Time), id: t.ID, key: flowKey{t.Src, t.Dst, t.Flow, t.Protocol, t.IPv6}, in: t.Port,
			connection: t.Connection, flags: t.Flags, rank: t.Rank, weight: cmp.Or(t.Weight, million),
			size: int64(t.Size) - int64(t.Shim),
			shim: int64(t.Shim), port: -1}
		d.inside[t.ID] = a
		d.log.Add(event{at: t.Time, a: a})
		d.judge.coverage["packets"]++
		if d.log.Full() && !d.presume() {
			d.giveUp(t.Time)
		}
		return
	}
	a := d.inside[t.ID]
	if a == nil {
		return
	}
	delete(d.inside, t.ID)
	if a.fate == unknown {
		a.port = t.Port
	}
	d.count(t, a)
	presumed := a.fate == inside
	was := a.port
	switch a.fate = d.fateOf(t); a.fate {
	case left, withdrawn:
		a.leftRank, a.leftRanked, a.leftShim = t.Rank, t.Flags&trace.Ranked != 0, int64(t.Shim)
		d.log.Add(event{at: t.Time, a: a, leaving: true})
	case excess, tail, unknown, inside, elsewhere:
	}
	if presumed && (was != t.Port || a.fate != left && a.fate != withdrawn) { // not where it was taken to wait
		d.ports[was].lose()
		a.neverOrdered = true
	}
	d.judgeLog()
}

func (d *device) fateOf(t *trace.SwitchTap) fate {
	if t.Stage == trace.Left {
		return left
	}
	switch r := d.judge.view.Reason(d.number, t.Reason); {
	case r.Unseen:
		return elsewhere
	case r.Outage:
		return withdrawn
	case r.Name == fair.ReasonExcess:
		return excess
	case r.Name == "tail", r.Name == "headroom":
		return tail
	}
	return elsewhere
}

// judgeLog judges what happened before the first packet whose fate is unknown.
func (d *device) judgeLog() {
	for e, ok := d.log.First(); ok; e, ok = d.log.First() {
		if e.set != nil {
			d.follow(e.at, e.set)
		} else if e.a == nil {
			d.start(e.at)
		} else if !e.leaving && e.a.fate == unknown {
			break
		} else if e.leaving {
			if p := d.portOf(e.a); p != nil {
				p.now = e.at
				p.leaves(e.a)
			}
		} else if e.a.fate != elsewhere {
			if p := d.portOf(e.a); p != nil {
				p.now = e.at
				p.arrives(e.a)
			}
		}
		d.log.Next()
	}
}

func (d *device) portOf(a *arrival) *port {
	if a.port < 0 || a.port >= len(d.ports) {
		return nil
	}
	return d.ports[a.port]
}

// presume takes the first packet of the log to wait where it should, if that is known, and judges on.
func (d *device) presume() bool {
	first, ok := d.log.First()
	a := first.a
	if !ok || first.set != nil || a == nil || a.fate != unknown {
		return false
	}
	if a.port = d.routed(a); a.port < 0 {
		return false
	}
	a.fate = inside
	d.judgeLog()
	return true
}

// routed returns the port that a packet has to leave by; −1: the taps do not show it.
func (d *device) routed(a *arrival) int {
	if a.claim != nil {
		return a.claim.Port
	}
	for port := range d.ports {
		if host, ok := d.judge.view.HostAt(d.number, port); ok && host == a.key.dst && a.flags&trace.Returned == 0 {
			return port
		}
	}
	return -1
}

// giveUp ends the judgement of a switch.
func (d *device) giveUp(now clock.Time) {
	d.overrun = true
	d.log, d.inside = inorder.Log[event]{}, nil
	d.note(now, "the rest of the run", "a packet has waited for so long that the log is full")
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
	a := j.switches[r.Switch].inside[r.Packet]
	if a == nil {
		return
	}
	j.coverage["records"]++
	if r.Kind == fair.State {
		a.states = append(a.states, *r)
		d := j.switches[r.Switch]
		d.counter(r.Port).Updates++
		d.states++
		return
	}
	own := *r
	a.claim = &own
}

// Relinked implements analyzers.LinkJudge: rates and times of the port are no longer known.
func (j *Judge) Relinked(now clock.Time, sw, port int, _ *analyzers.Relink) {
	d := j.switches[sw]
	d.relinked[port] = true
	d.ports[port].retire()
	d.note(now, fmt.Sprintf("port %d", port), "its link changed")
}

// Changed implements analyzers.SwitchJudge.
func (j *Judge) Changed(now clock.Time, sw int) {
	d := j.switches[sw]
	settings, err := j.view.Settings(sw)
	set, ok := settings.(fair.Settings)
	if d.overrun || err != nil || !ok {
		return
	}
	d.altered = true
	d.log.Add(event{at: now, set: &set})
	d.judgeLog()
}

// follow goes on with other settings, for packets that come from now on. What shares were before says nothing of them,
// and the bound of theorem 2 is one of constant times.
func (d *device) follow(now clock.Time, set *fair.Settings) {
	for _, p := range d.ports { // by what was in force
		p.shares.finish()
	}
	d.set = set
	for _, p := range d.ports {
		p.times = set.At(clock.BitRate(p.link))
		p.meters = constants{set, p.times.Window}
		for _, f := range p.flows {
			f.excess.over = true
		}
		stopped := p.shares.stopped
		if p.shares = newShares(p, now); stopped {
			p.shares.stop()
		}
	}
}

// Stopping implements analyzers.SwitchJudge: the counters are read a last time, and what waits is lost.
func (j *Judge) Stopping(now clock.Time, sw int) {
	d := j.switches[sw]
	d.compareCounters(now)
	d.out = true
}

// Started implements analyzers.SwitchJudge: registers and counters are those of a new switch.
func (j *Judge) Started(now clock.Time, sw int) {
	d := j.switches[sw]
	d.out = false
	d.counted, d.states, d.astray = nil, 0, false
	d.log.Add(event{at: now})
	d.judgeLog()
}

// start makes the state of a switch that begins to serve.
func (d *device) start(now clock.Time) {
	for _, p := range d.ports {
		p.shares.finish()
	}
	d.began = now
	d.flows = make(map[flowKey]*measured)
	d.twins = d.judge.twins
	if d.lives++; d.lives > 1 { // whether a switch draws anew after a restart is its own affair
		d.twins = chance.NewTwins(&d.judge.wagers)
	}
	d.ports = nil
	for i := range d.judge.view.Ports(d.number) {
		p := newPort(d, i, now)
		if d.relinked[i] {
			p.retire()
		}
		d.ports = append(d.ports, p)
	}
}

// tell reports a finding about a packet.
func (d *device) tell(a *arrival, c cause.Cause, others ...uint64) {
	t := trace.SwitchTap{Src: a.key.src, Dst: a.key.dst, Flow: a.key.flow, Protocol: a.key.protocol, IPv6: a.key.v6,
		Connection: a.connection, Flags: a.flags}
	flow := d.judge.view.FlowOf(&t)
	if d.judge.report.Wants(c.Rule, flow) {
		d.judge.report.Tell(c, analyzers.Finding{Connection: flow, Packets: append([]uint64{a.id}, others...),
			TimeNS: a.at.Nanoseconds(), Message: c.Sentence()})
	}
}

// tellAt reports a finding about an instant.
func (d *device) tellAt(now clock.Time, c cause.Cause) {
	if d.judge.report.Wants(c.Rule, 0) {
		d.judge.report.Tell(c, analyzers.Finding{TimeNS: now.Nanoseconds(), Message: c.Sentence()})
	}
}

// Finish implements analyzers.SwitchJudge.
func (j *Judge) Finish() (analyzers.Result, error) {
	for _, d := range j.switches {
		for !d.overrun && d.presume() { // packets that wait at the end
		}
		if !d.overrun {
			d.compareCounters(d.began)
			d.compareFlows(d.began)
		}
		for _, p := range d.ports {
			p.shares.finish()
		}
	}
	findings := j.report.Findings()
	slices.SortStableFunc(findings, func(a, b analyzers.Finding) int { return cmp.Compare(a.TimeNS, b.TimeNS) })
	return analyzers.Result{Findings: findings, Metrics: j.measures.metrics(), Coverage: j.coverage}, nil
}
