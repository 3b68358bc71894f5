package rank

import (
	"cmp"

	"candela.dev/candela/analyzers"
	"candela.dev/candela/analyzers/cause"
	"candela.dev/candela/analyzers/inorder"
	"candela.dev/candela/clock"
	"candela.dev/candela/trace"
)

// replay repeats what a switch does, port by port, from its taps: what arrives, leaves and is dropped, in order. The
// port of an arrival is known at once if its host is attached to the switch, otherwise when the packet leaves; what
// happens after it waits until then.
type replay struct {
	judge  *Judge
	number int // of the switch
	who    cause.Switch
	set    Settings
	hosts  map[uint32]int // port, by host that is attached
	only   bool           // there is one port: a NIC
	// When links are free is not known: the switch sends packets of its own, or real frames, or flow control pauses it.
	untimed bool
	inside  map[uint64]*arrival
	pending *arrival // the latest, whose fate is not known yet
	log     inorder.Log[step]
	ended   bool
	out     bool // of service
	ports   []*line
	busy    map[int]clock.Time // by port: what it sent last takes the link until then, also while the switch is stopped
	links   []link             // by port
}

// link is what a port sends by.
type link struct {
	rate    clock.BitRate
	framing int
	changed bool // since
}

// takes returns how long a frame takes the link of a port.
func (r *replay) takes(port int, size int64) clock.Duration {
	return r.links[port].rate.Serialise(int(size) + r.links[port].framing)
}

// arrival is a packet that came in.
type arrival struct {
	id      uint64
	at      clock.Time
	rank    uint64
	size    int64
	weight  int64 // of its flow, in millionths
	flow    flowKey
	of      int // number of its flow in reports
	port    int // -1: unknown
	fate    fate
	reason  string // of a drop
	queue   int    // where it was; -1: unknown
	seen    uint64 // its rank when it left or was dropped
	evicted []*arrival
	claim   *trace.Decision

	key    sortKey // in its line
	inLine bool
	gap    gapState
}

type flowKey struct {
	src, dst, flow uint32
	protocol       trace.Protocol
	v6             bool
}

type fate uint8

const (
	unknown fate = iota
	admitted
	refused
	elsewhere // the scheme did not see it
)

type step struct {
	at      clock.Time
	a       *arrival
	busy    clock.Time // of a packet that leaves: the one before has taken the link until then
	leaving bool       // or lost in the queue
	lost    bool
	thrown  bool // lost, while the switch and its trunks were in service
}

func newReplay(j *Judge, sw int, set Settings) *replay {
	r := &replay{judge: j, number: sw, who: cause.Switch(j.view.SwitchName(sw)), set: set, hosts: make(map[uint32]int),
		inside: make(map[uint64]*arrival), busy: make(map[int]clock.Time)}
	n := j.view.Ports(sw)
	for port := range n {
		var of link
		of.rate, of.framing = j.view.Link(sw, port)
		r.links = append(r.links, of)
		if host, ok := j.view.HostAt(sw, port); ok {
			r.hosts[host] = port
		}
	}
	r.untimed = j.view.Makes(sw) || analyzers.OnRealFrames(j.view) || analyzers.Pauses(j.view)
	view, ok := j.view.(analyzers.NetworkView)
	if ok {
		_, of := view.Number(sw)
		r.only = !of
	}
	r.reset()
	return r
}

// reset makes the state of a switch that begins to serve.
func (r *replay) reset() {
	clear(r.inside)
	r.pending, r.log = nil, inorder.Log[step]{}
	r.ports = make([]*line, r.judge.view.Ports(r.number))
	for i := range r.ports {
		r.ports[i] = newLine(r, i)
	}
}

func (r *replay) observe(t *trace.SwitchTap) {
	if r.ended || r.out || t.Internal {
		return
	}
	if t.Stage == trace.Entered {
		r.settle()
		r.enter(t)
		return
	}
	a := r.inside[t.ID]
	if a == nil {
		return
	}
	delete(r.inside, t.ID)
	a.queue, a.seen = t.Queue, t.Rank
	if a.port < 0 {
		a.port = t.Port
	} else if a.port != t.Port { // the judge of routes blames it
		a.fate = elsewhere
	}
	arriving := a == r.pending
	switch {
	case t.Stage == trace.Left:
		r.settle()
		a.fate = max(a.fate, admitted)
		r.log.Add(step{at: t.Time, a: a, leaving: true, busy: r.busy[t.Port]})
		r.busy[t.Port] = t.Time.Add(r.takes(t.Port, int64(t.Size)))
	case arriving:
		r.pending = nil
		r.refuse(t, a)
	default:
		reason := r.judge.view.Reason(r.number, t.Reason)
		a.reason = reason.Name
		if p := r.pending; reason.Evicts && p != nil && p.at == t.Time && (p.port < 0 || p.port == t.Port) {
			r.pending.evicted = append(r.pending.evicted, a)
			r.pending.port = t.Port
			break
		}
		r.settle()
		r.log.Add(step{at: t.Time, a: a, leaving: true, lost: true, thrown: !reason.Outage})
	}
	r.advance()
}

func (r *replay) enter(t *trace.SwitchTap) {
	a := &arrival{id: t.ID, at: t.Time, rank: t.Rank, size: int64(t.Size), weight: cmp.Or(t.Weight, millionths),
		queue: -1, port: -1,
		flow: flowKey{t.Src, t.Dst, t.Flow, t.Protocol, t.IPv6}, of: r.judge.view.FlowOf(t)}
	if port, ok := r.hosts[t.Dst]; ok {
		a.port = port
	} else if r.only {
		a.port = 0
	}
	r.inside[t.ID] = a
	r.pending = a
	r.log.Add(step{at: t.Time, a: a})
	if r.log.Full() {
		r.ended = true
		r.log, r.inside = inorder.Log[step]{}, nil
		r.judge.coverage["switches not replayed to the end"]++
		r.tell(a, t.Time, causeUnrepeated(r.who, t.Time), "", "")
	}
}

// settle takes the latest packet for admitted: something else has happened.
func (r *replay) settle() {
	if r.pending != nil {
		r.pending.fate = admitted
		r.pending = nil
	}
}

// refuse notes that a packet was dropped as it came.
func (r *replay) refuse(t *trace.SwitchTap, a *arrival) {
	reason := r.judge.view.Reason(r.number, t.Reason)
	a.reason = reason.Name
	switch {
	case reason.Unseen || reason.Name == "ttl" || reason.Name == "no-route":
		a.fate = elsewhere
	case reason.Outage && r.set.Scheme == HPIFO: // the packet has not joined the tree
		a.fate = elsewhere
	case reason.Outage: // the trunk failed after the scheme had admitted it
		a.fate = admitted
		r.log.Add(step{at: t.Time, a: a, leaving: true, lost: true})
	default:
		a.fate = refused
	}
}

// advance judges what happened before the first packet whose fate or port is unknown.
func (r *replay) advance() {
	for e, ok := r.log.First(); ok; e, ok = r.log.First() {
		if e.a.fate == unknown || e.a.port < 0 && e.a.fate != elsewhere {
			break
		}
		if e.a.fate != elsewhere {
			l := r.ports[e.a.port]
			switch {
			case !e.leaving:
				l.arrives(e.a)
			case e.lost:
				if e.thrown && e.a.inLine {
					r.tell(e.a, e.at, causeThrown(r.who, e.a.id, e.at), "", "")
				}
				l.remove(e.a)
			default:
				l.busy = e.busy
				l.leaves(e.at, e.a)
			}
		}
		r.log.Next()
	}
}

func (r *replay) tell(a *arrival, at clock.Time, c cause.Cause, want, got string, others ...uint64) {
	if r.judge.report.Wants(c.Rule, a.of) {
		r.judge.report.Tell(c, analyzers.Finding{Connection: a.of, Packets: append([]uint64{a.id}, others...),
			TimeNS: at.Nanoseconds(), Expected: want, Actual: got,
			Message: "switch " + r.judge.view.SwitchName(r.number)})
	}
}
