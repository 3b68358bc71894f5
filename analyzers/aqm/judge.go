package aqm

import (
	"cmp"
	"slices"
	"strconv"

	"candela.dev/candela/analyzers"
	"candela.dev/candela/analyzers/cause"
	"candela.dev/candela/analyzers/chance"
	"candela.dev/candela/analyzers/inorder"
	"candela.dev/candela/aqm"
	"candela.dev/candela/clock"
	"candela.dev/candela/trace"
)

// Judge judges all switches of a run.
type Judge struct {
	view     analyzers.SwitchView
	report   *analyzers.Reporter
	wagers   chance.Budget
	switches []*device
	measures measures
	coverage map[string]int64
}

// NewJudge returns a judge.
func NewJudge(v analyzers.SwitchView) (analyzers.SwitchJudge, error) {
	j := &Judge{view: v, report: analyzers.NewReporter(Name, Rules()), measures: newMeasures(),
		coverage: map[string]int64{"packets": 0, "records": 0, "draws": 0}}
	for i := range v.Switches() {
		settings, err := v.Settings(i)
		if err != nil {
			return nil, err
		}
		set := settings.(aqm.Settings)
		d := &device{judge: j, number: i, who: cause.Switch(v.SwitchName(i)), set: &set,
			inside: make(map[uint64]*arrival)}
		d.start(0)
		j.switches = append(j.switches, d)
	}
	return j, nil
}

// fates of packets.
type fate uint8

const (
	unknown   fate = iota // still inside
	inside                // queued as it should be, as far as is known
	left                  // queued, and has left
	early                 // dropped by the scheme
	tail                  // dropped for want of room
	withdrawn             // queued, and lost as the switch stopped
	elsewhere             // never came to a queue
)

// arrival is a packet at a switch.
type arrival struct {
	at         clock.Time
	id         uint64
	key        flowKey
	connection uint32
	flags      trace.PacketFlags
	size       int64
	in         int
	class      uint8
	capable    bool // ECN-capable
	congested  bool // came with CE
	fate       fate
	marked     bool // leaves with CE and came without
	lossless   bool
	port       int
	queue      int
	claim      *trace.Decision
	// of judging
	sequence   uint64
	generation int
	latest     clock.Time // of mice: when it must have left
}

// event is an entry of the log of a switch.
type event struct {
	at      clock.Time
	a       *arrival // nil: the switch has started
	leaving bool     // rather than arriving
}

// device is a switch. Which queue a packet waits in is known when it leaves; so what happens is logged, and judged in
// its order as soon as the fates of the packets are known.
type device struct {
	judge   *Judge
	number  int
	who     cause.Switch
	set     *aqm.Settings
	inside  map[uint64]*arrival
	log     inorder.Log[event]
	out     bool
	overrun bool
	// ports whose links have changed, and since when
	relinked map[int]clock.Time
	counted  [][]tally // by port and queue, since the start
	state
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
		a := &arrival{at: t.Time, id: t.ID, key: flowKey{t.Src, t.Dst, t.Flow, t.Protocol, t.IPv6}, in: t.Port,
			connection: t.Connection, flags: t.Flags, size: int64(t.Size), class: t.Class,
			capable: t.ECN != notCapable, congested: t.ECN == congestion,
			lossless: t.Class < 8 && d.set.Lossless&(1<<t.Class) != 0}
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
	if a.fate == inside && (a.port != t.Port || a.queue != t.Queue) {
		was := a.queue
		a.queue = t.Queue
		d.tell(a, wrongGroup(d.place(a), 0, d.isMice(was)))
		a.queue = was
	} else if a.fate == unknown {
		a.port, a.queue = t.Port, t.Queue
	}
	a.fate = d.fateOf(t)
	switch a.fate {
	case left, withdrawn:
		a.marked = a.fate == left && t.ECN == congestion && !a.congested
		d.log.Add(event{at: t.Time, a: a, leaving: true})
	case early, tail:
	case unknown, inside, elsewhere:
		a.port = -1
	}
	d.count(t, a)
	d.judgeLog()
}

// Relinked implements analyzers.LinkJudge: how long mice wait at the port is not judged from then on.
func (j *Judge) Relinked(now clock.Time, sw, port int, _ *analyzers.Relink) {
	d := j.switches[sw]
	if d.relinked == nil {
		d.relinked = make(map[int]clock.Time)
	}
	if _, known := d.relinked[port]; known {
		return
	}
	d.relinked[port] = now
	if d.set.DPP != nil {
		d.note(now, "how long mice wait at port "+strconv.Itoa(port)+" (aqm.mice-delay)", "its link changed")
	}
}

// Values of the ECN field.
const (
	notCapable = 0
	congestion = 3
)

func (d *device) fateOf(t *trace.SwitchTap) fate {
	if t.Stage == trace.Left {
		return left
	}
	switch r := d.judge.view.Reason(d.number, t.Reason); {
	case r.Unseen:
		return elsewhere
	case r.Outage:
		return withdrawn
	case r.Name == "early":
		return early
	case r.Name == "tail", r.Name == "headroom":
		return tail
	}
	return elsewhere
}

// judgeLog judges what happened before the first packet whose fate is unknown.
func (d *device) judgeLog() {
	for e, ok := d.log.First(); ok; e, ok = d.log.First() {
		if e.a == nil {
			d.start(e.at)
		} else if !e.leaving && e.a.fate == unknown {
			break
		} else if e.leaving {
			d.leaves(e.at, e.a)
		} else if e.a.fate != elsewhere {
			d.arrives(e.a)
		}
		d.log.Next()
	}
}

// presume takes the first packet of the log to wait where it should, if that is known, and judges on.
func (d *device) presume() bool {
	first, ok := d.log.First()
	a := first.a
	if !ok || a == nil || a.fate != unknown {
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

// note says that something is not judged.
func (d *device) note(now clock.Time, what, why string) {
	if d.judge.report.Wants(ruleNotJudged, 0) {
		c := notJudged(d.who, what, why)
		d.judge.report.Tell(c, analyzers.Finding{TimeNS: now.Nanoseconds(), Message: c.Sentence()})
	}
}

// Decide implements analyzers.SwitchJudge.
func (j *Judge) Decide(r *trace.Decision) {
	if a := j.switches[r.Switch].inside[r.Packet]; a != nil {
		own := *r
		a.claim = &own
		j.coverage["records"]++
	}
}

// Changed implements analyzers.SwitchJudge: no setting changes.
func (j *Judge) Changed(clock.Time, int) {}

// Stopping implements analyzers.SwitchJudge: the counters are read a last time, and what waits is lost.
func (j *Judge) Stopping(now clock.Time, sw int) {
	d := j.switches[sw]
	d.compareCounters(now)
	d.out = true
}

// Started implements analyzers.SwitchJudge: tables, rates and counters are those of a new switch.
func (j *Judge) Started(now clock.Time, sw int) {
	d := j.switches[sw]
	d.out = false
	d.counted = nil
	d.log.Add(event{at: now})
	d.judgeLog()
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

func (d *device) place(a *arrival) place { return place{d.who, a.port, a.queue, a.id} }

// Finish implements analyzers.SwitchJudge.
func (j *Judge) Finish() (analyzers.Result, error) {
	for _, d := range j.switches {
		d.finish()
	}
	findings := j.report.Findings()
	slices.SortStableFunc(findings, func(a, b analyzers.Finding) int { return cmp.Compare(a.TimeNS, b.TimeNS) })
	return analyzers.Result{Findings: findings, Metrics: j.measures.metrics(), Coverage: j.coverage}, nil
}
