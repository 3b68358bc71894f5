package queues

import (
	"fmt"

	"candela.dev/candela/analyzers"
	"candela.dev/candela/analyzers/cause"
	"candela.dev/candela/clock"
	"candela.dev/candela/trace"
)

// Config is what a switch is said to have.
type Config struct {
	Name   string
	Buffer int     // bytes shared by the queues of all ports; 0: none
	Queues []Queue // of every port
	Ports  []Port
	// Admits says that limits, thresholds and buffer are all that decides whether a queue takes a packet.
	Admits bool
	// Paused says that ports may have to wait for their neighbours (PFC): what they send, and when, is not judged.
	Paused bool
	// Holds says that a port may let packets wait although its wire is free: when it sends is not judged.
	Holds     bool
	Scheduler Scheduler
}

// Queue is a queue of a port. Limits of 0: none.
type Queue struct {
	Bytes, Packets int
	Alpha          float64
	Private        bool // not in the shared buffer
}

// Port is what a port sends by.
type Port struct {
	Rate    clock.BitRate
	Framing int // bytes of each frame beyond the packet
}

// Discipline is how a port chooses among its queues.
type Discipline uint8

// Disciplines. The zero value is any: the choice is not judged.
const (
	Any    Discipline = iota
	Strict            // highest queue first
	ByPackets
	ByBytes
)

// Scheduler describes the choice.
type Scheduler struct {
	Discipline Discipline
	Weights    []int // of each queue; 0: strictly before those with weights
	Quantum    int   // bytes for each weight and round
}

// Judge judges one switch.
type Judge struct {
	cfg    Config
	report *analyzers.Reporter
	used   int // of the shared buffer
	ports  []portState
	events int64
}

// portState is a port as its events show it.
type portState struct {
	queues  []queueState
	waiting int        // packets
	since   clock.Time // packets wait since then
	free    clock.Time // the wire is free from then on
	pairs   []pair     // of queues with weights
}

type queueState struct {
	bytes, packets int
	largest        int     // of all packets
	served         float64 // since the start, in bytes or packets for a weight of 1
}

// pair follows two queues while both have packets.
type pair struct {
	a, b      int
	together  bool
	low, high float64 // of the difference of what they were served, for a weight of 1
}

// New returns the judge of a switch.
func New(cfg Config, report *analyzers.Reporter) *Judge {
	j := &Judge{cfg: cfg, report: report, ports: make([]portState, len(cfg.Ports))}
	for i := range j.ports {
		p := &j.ports[i]
		p.queues = make([]queueState, len(cfg.Queues))
		if d := cfg.Scheduler.Discipline; d != ByPackets && d != ByBytes || cfg.Paused {
			continue
		}
		for a := range cfg.Queues {
			for b := a + 1; b < len(cfg.Queues); b++ {
				if cfg.Scheduler.Weights[a] > 0 && cfg.Scheduler.Weights[b] > 0 {
					p.pairs = append(p.pairs, pair{a: a, b: b})
				}
			}
		}
	}
	return j
}

// Events returns how many events were judged.
func (j *Judge) Events() int64 { return j.events }

// Observe takes the next event.
func (j *Judge) Observe(e *trace.QueueEvent) {
	j.events++
	switch e.Stage {
	case trace.Joined:
		j.join(e)
	case trace.Served:
		j.serve(e)
		j.leave(e)
	case trace.Withdrawn:
		j.leave(e)
	case trace.Refused:
		j.refuse(e)
	}
}

// join checks limits and thresholds.
func (j *Judge) join(e *trace.QueueEvent) {
	p, limits := &j.ports[e.Port], &j.cfg.Queues[e.Queue]
	q := &p.queues[e.Queue]
	free := j.cfg.Buffer - j.used
	q.bytes += e.Size
	q.packets++
	q.largest = max(q.largest, e.Size)
	if !limits.Private {
		j.used += e.Size
	}
	at := j.place(e.Port, e.Queue, e.Time)
	if j.cfg.Buffer > 0 && j.used > j.cfg.Buffer && !limits.Private {
		j.find(e, causeBuffer(at, j.used, j.cfg.Buffer))
	}
	if j.cfg.Admits && !e.Lossless {
		switch {
		case limits.Bytes > 0 && q.bytes > limits.Bytes:
			j.find(e, causeLimit(at, cause.Bytes(q.bytes), cause.Bytes(limits.Bytes)))
		case limits.Packets > 0 && q.packets > limits.Packets:
			j.find(e, causeLimit(at, packets(q.packets), packets(limits.Packets)))
		}
		if allowed := limits.Alpha * float64(free); j.shares(limits) && float64(q.bytes) > allowed {
			j.find(e, causeThreshold(at, q.bytes, int(allowed)))
		}
	}
	if p.waiting++; p.waiting == 1 {
		p.since = e.Time
	}
	for i := range p.pairs {
		c := &p.pairs[i]
		if !c.together && p.queues[c.a].packets > 0 && p.queues[c.b].packets > 0 {
			d := p.queues[c.a].served - p.queues[c.b].served
			c.together, c.low, c.high = true, d, d
		}
	}
}

// shares reports whether a queue has a dynamic threshold.
func (j *Judge) shares(q *Queue) bool { return q.Alpha > 0 && !q.Private && j.cfg.Buffer > 0 }

// leave undoes join.
func (j *Judge) leave(e *trace.QueueEvent) {
	p := &j.ports[e.Port]
	q := &p.queues[e.Queue]
	q.bytes -= e.Size
	q.packets--
	p.waiting--
	if !j.cfg.Queues[e.Queue].Private {
		j.used -= e.Size
	}
	for i := range p.pairs {
		if c := &p.pairs[i]; q.packets == 0 && (c.a == e.Queue || c.b == e.Queue) {
			c.together = false
		}
	}
}

// serve checks when the port serves and which queue.
func (j *Judge) serve(e *trace.QueueEvent) {
	if j.cfg.Paused {
		return
	}
	p := &j.ports[e.Port]
	if may := max(p.free, p.since); e.Time > may && !j.cfg.Holds {
		j.find(e, causeIdle(j.place(e.Port, e.Queue, e.Time), e.Time.Sub(may)))
	}
	if higher := j.higher(p, e.Queue); higher >= 0 {
		j.find(e, causePriority(j.place(e.Port, e.Queue, e.Time), higher))
	}
	if len(p.pairs) > 0 {
		j.share(p, e)
	}
}

// higher returns a queue with packets that goes before queue i, −1 if there is none.
func (j *Judge) higher(p *portState, i int) int {
	s := &j.cfg.Scheduler
	for k := len(p.queues) - 1; k >= 0; k-- {
		if k == i || p.queues[k].packets == 0 {
			continue
		}
		switch s.Discipline {
		case Strict:
			if k > i {
				return k
			}
		case ByPackets, ByBytes:
			if s.Weights[k] == 0 && (s.Weights[i] > 0 || k > i) {
				return k
			}
		case Any:
		}
	}
	return -1
}

// share checks that what queue e.Queue and each other queue are served agrees with their weights.
func (j *Judge) share(p *portState, e *trace.QueueEvent) {
	s, q := &j.cfg.Scheduler, &p.queues[e.Queue]
	if s.Weights[e.Queue] == 0 {
		return
	}
	cost := 1.0
	if s.Discipline == ByBytes {
		cost = float64(e.Size)
	}
	q.served += cost / float64(s.Weights[e.Queue])
	for i := range p.pairs {
		c := &p.pairs[i]
		if !c.together || c.a != e.Queue && c.b != e.Queue {
			continue
		}
		a, b := &p.queues[c.a], &p.queues[c.b]
		d := a.served - b.served
		c.low, c.high = min(c.low, d), max(c.high, d)
		allowed := 1.0
		if s.Discipline == ByBytes {
			allowed = float64(s.Quantum) + float64(a.largest)/float64(s.Weights[c.a]) +
				float64(b.largest)/float64(s.Weights[c.b])
		}
		if apart := c.high - c.low; apart > allowed*(1+1e-9) {
			other := c.a + c.b - e.Queue
			j.find(e, causeShare(j.place(e.Port, e.Queue, e.Time), other, apart, allowed))
			c.low, c.high = d, d
		}
	}
}

// refuse checks that a queue refuses only what has no room.
func (j *Judge) refuse(e *trace.QueueEvent) {
	limits := &j.cfg.Queues[e.Queue]
	q := &j.ports[e.Port].queues[e.Queue]
	free := j.cfg.Buffer - j.used
	switch {
	case !j.cfg.Admits || e.Lossless:
	case limits.Bytes > 0 && q.bytes+e.Size > limits.Bytes, limits.Packets > 0 && q.packets >= limits.Packets:
	case j.cfg.Buffer > 0 && !limits.Private && e.Size > free:
	case j.shares(limits) && float64(q.bytes+e.Size) > limits.Alpha*float64(free):
	default:
		j.find(e, causeRefusal(j.place(e.Port, e.Queue, e.Time), e.Size, q.bytes))
	}
}

// Left takes a frame of size bytes that a port begins to send.
func (j *Judge) Left(now clock.Time, port, queue, size int, id uint64) {
	p, link := &j.ports[port], &j.cfg.Ports[port]
	if p.free > now && !j.cfg.Paused {
		e := trace.QueueEvent{Time: now, Port: port, Queue: queue, ID: id}
		j.find(&e, causeRate(j.place(port, queue, now), p.free.Sub(now)))
	}
	p.free = now.Add(link.Rate.Serialise(size + link.Framing))
}

// Relink says that a port sends by another link from now on. If that is shorter, its next frame leaves so much later
// that it does not overtake the last.
func (j *Judge) Relink(port int, link Port, shorter clock.Duration) {
	j.cfg.Ports[port] = link
	if p := &j.ports[port]; shorter > 0 && p.free > 0 {
		p.free = p.free.Add(shorter)
	}
}

// find reports a finding.
func (j *Judge) find(e *trace.QueueEvent, c cause.Cause) {
	if !j.report.Wants(c.Rule, 0) {
		return
	}
	j.report.Tell(c, analyzers.Finding{Packets: []uint64{e.ID}, TimeNS: e.Time.Nanoseconds(),
		Expected: "as the test describes its queues", Actual: c.Sentence(),
		Message: fmt.Sprintf("switch %s port %d queue %d: %s", j.cfg.Name, e.Port, e.Queue, c.Sentence())})
}
