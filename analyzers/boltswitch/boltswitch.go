package boltswitch

import (
	"fmt"
	"math"

	"candela.dev/candela/analyzers"
	"candela.dev/candela/analyzers/cause"
	"candela.dev/candela/clock"
)

// Config is what a switch is said to have.
type Config struct {
	Name         string
	SRC, PRU, SM bool
	Threshold    int // bytes
	MTU          int // bytes
	MaxTokens    int // of PRU
	Ports        []Port
	Number       func(sender, connection uint32) int // of a flow, for findings
}

// Port is what a port sends by.
type Port struct {
	Rate    clock.BitRate
	Framing int // bytes of each frame beyond the packet
}

// Flags are those of data.
type Flags uint8

// Flags.
const (
	First Flags = 1 << iota
	Last
	Inc
	Dec
)

// Stage is where a packet is seen.
type Stage uint8

// Stages.
const (
	Arrived Stage = 1 + iota // in the switch
	Joined                   // a queue
	Refused                  // by a queue
	Left                     // a queue
	Ended                    // it is on the wire, or dropped
)

// Event is a packet at a switch.
type Event struct {
	Time  clock.Time
	Stage Stage
	Port  int // below 0: inside the switch, not judged
	ID    uint64
	Size  int
	Data  bool // whole data of Bolt, and no copy
	SRC   bool
	Key   // of Bolt's packets
	Flags Flags
	// SentNS is the time in the packet; Queue and RateMbps are of SRC.
	SentNS, Queue, RateMbps uint32
}

// Key identifies a packet of Bolt by its flow, whose data it is or answers.
type Key struct{ Sender, Receiver, Connection, Number uint32 }

// Judge judges one switch.
type Judge struct {
	cfg    Config
	report *analyzers.Reporter
	ports  []port
	inside map[uint64]*packet
	looks  []look // at the present instant
	now    clock.Time
	events int64
}

// port has the occupancy and the tokens of a port, as they must be.
type port struct {
	waiting int
	pru     int
	sm      float64 // bytes
	supply  float64 // the same before it was cut to an MTU
	updated clock.Time
}

// packet is one in the switch.
type packet struct {
	flags   Flags // as it came
	made    bool  // by the switch
	refused bool  // by a queue, now
	at      clock.Time
}

// look is a data packet that was looked at, and what it is owed.
type look struct {
	key
	id       uint64
	waiting  int
	port     int
	sentNS   uint32
	owed     bool
	answered bool
}

type key = Key

// New returns the judge of a switch.
func New(cfg Config, report *analyzers.Reporter) *Judge {
	return &Judge{cfg: cfg, report: report, ports: make([]port, len(cfg.Ports)), inside: make(map[uint64]*packet)}
}

// Events returns how many packets were looked at.
func (j *Judge) Events() int64 { return j.events }

// Relink says that a port sends by another link from now on.
func (j *Judge) Relink(now clock.Time, port int, link Port) {
	j.settle(now.Add(1))
	p := &j.ports[port]
	p.sm += float64(j.cfg.Ports[port].Rate) * float64(now.Sub(p.updated)) / float64(clock.Second) / 8
	p.updated, j.cfg.Ports[port] = now, link
}

// Started says that the switch begins anew.
func (j *Judge) Started(now clock.Time) {
	j.settle(now.Add(1))
	clear(j.inside)
	for i := range j.ports {
		j.ports[i] = port{updated: now}
	}
}

// Observe takes an event, in order of time.
func (j *Judge) Observe(e *Event) {
	j.settle(e.Time)
	if e.Stage == Ended {
		if p := j.inside[e.ID]; e.SRC && p == nil { // dropped before any queue
			j.answers(e)
		}
		delete(j.inside, e.ID)
		return
	}
	p := j.inside[e.ID]
	if p == nil {
		p = &packet{flags: e.Flags, made: e.Stage != Arrived}
		if j.inside[e.ID] = p; p.made && e.SRC {
			j.answers(e)
		}
	}
	switch {
	case e.Stage == Arrived || p.made && e.SRC && e.Stage == Refused:
	case e.Port < 0:
		p.refused = false
	case e.Stage == Left:
		j.ports[e.Port].waiting -= e.Size
	default:
		again := p.refused && p.at == e.Time
		if !again && !(p.made && e.SRC) {
			j.look(p, e)
		}
		p.refused, p.at = e.Stage == Refused, e.Time
		if e.Stage == Joined {
			j.ports[e.Port].waiting += e.Size
		}
	}
}

// settle closes the present instant if a later one has begun: what was owed is missing.
func (j *Judge) settle(now clock.Time) {
	if now <= j.now {
		return
	}
	for i := range j.looks {
		if l := &j.looks[i]; l.owed && !l.answered {
			j.tell(l.key, l.id, j.causeMissing(l))
		}
	}
	j.looks, j.now = j.looks[:0], now
}

// look computes what a packet that is about to be queued meets.
func (j *Judge) look(p *packet, e *Event) {
	r, c := &j.ports[e.Port], &j.cfg
	if c.SM {
		r.book(e.Time, c, e)
	}
	if !e.Data {
		return
	}
	j.events++
	l := look{key: e.Key, id: e.ID, waiting: r.waiting, port: e.Port, sentNS: e.SentNS}
	if r.waiting >= c.Threshold {
		want := p.flags &^ Inc
		if c.SRC {
			want |= Dec
		}
		l.owed = c.SRC && p.flags&Dec == 0
		if e.Flags != want {
			j.tell(e.Key, e.ID, j.causeMark(&l, e.Flags, want, "congestion"))
		}
	} else {
		j.tokens(r, p, e, &l)
	}
	if j.looks = append(j.looks, l); p.flags != e.Flags {
		p.flags = e.Flags
	}
}

// tokens judges the flags of a packet that meets no congestion, and books the tokens.
func (j *Judge) tokens(r *port, p *packet, e *Event, l *look) {
	c := &j.cfg
	if (e.Flags^p.flags)&^Inc != 0 || e.Flags&^p.flags != 0 {
		j.tell(e.Key, e.ID, j.causeMark(l, e.Flags, p.flags, "none"))
		return
	}
	kept := e.Flags&Inc != 0
	switch {
	case c.PRU && p.flags&Last != 0:
		if p.flags&First == 0 {
			r.pru = min(r.pru+1, c.MaxTokens)
		}
		if p.flags&Inc != 0 && !kept {
			j.tell(e.Key, e.ID, j.causeRefusalLast(l))
		}
	case p.flags&Inc == 0:
	case c.PRU && r.pru > 0:
		if r.pru--; !kept {
			j.tell(e.Key, e.ID, j.causeRefusal(l, r.pru+1, r.sm))
		}
	default:
		j.supplies(r, e, l, kept)
	}
}

// supplies judges whether INC stays for SM tokens. Within what arithmetic may lose, the switch is believed.
func (j *Judge) supplies(r *port, e *Event, l *look, kept bool) {
	const grain = 1e-3 // bytes
	c := &j.cfg
	there := c.SM && r.sm >= float64(c.MTU)
	if c.SM && math.Abs(r.supply-float64(c.MTU)) < grain {
		there = kept
	}
	switch {
	case there && !kept:
		j.tell(e.Key, e.ID, j.causeRefusal(l, r.pru, r.sm))
	case !there && kept:
		j.tell(e.Key, e.ID, j.causeGrant(l, r.sm))
	}
	if there {
		r.sm -= float64(c.MTU)
	}
}

// book books what the link could have sent since the last packet, and what this one takes of it.
func (r *port) book(now clock.Time, c *Config, e *Event) {
	p := &c.Ports[e.Port]
	r.supply = r.sm + float64(p.Rate)*float64(now.Sub(r.updated))/float64(clock.Second)/8 - float64(e.Size+p.Framing)
	r.sm, r.updated = min(r.supply, float64(c.MTU)), now
}

// answers judges an SRC packet of the switch.
func (j *Judge) answers(e *Event) {
	var last *look
	for i := range j.looks {
		if l := &j.looks[i]; l.key == e.Key && (last == nil || l.owed && !l.answered) {
			last = l
		}
	}
	switch {
	case last == nil:
		j.tell(e.Key, e.ID, j.causeNothing(e))
		return
	case !last.owed && last.waiting < j.cfg.Threshold:
		j.tell(e.Key, e.ID, j.causeUnfounded(last))
		return
	case !last.owed:
		j.tell(e.Key, e.ID, j.causeRepeated(last))
		return
	case last.answered:
		j.tell(e.Key, e.ID, j.causeTwice(last))
		return
	}
	last.answered = true
	rate := uint32(max(1, j.cfg.Ports[last.port].Rate/1_000_000))
	switch {
	case int(e.Queue) != last.waiting:
		j.tell(e.Key, e.ID, j.causeContent(last, "the queue", int64(e.Queue), int64(last.waiting)))
	case e.RateMbps != rate:
		j.tell(e.Key, e.ID, j.causeContent(last, "the rate in Mb/s", int64(e.RateMbps), int64(rate)))
	case e.SentNS != last.sentNS:
		j.tell(e.Key, e.ID, j.causeContent(last, "the time in ns", int64(e.SentNS), int64(last.sentNS)))
	}
}

func (j *Judge) tell(k Key, id uint64, c cause.Cause) {
	flow := 0
	if j.cfg.Number != nil {
		flow = j.cfg.Number(k.Sender, k.Connection)
	}
	if !j.report.Wants(c.Rule, flow) {
		return
	}
	j.report.Tell(c, analyzers.Finding{Connection: flow, Packets: []uint64{id}, TimeNS: j.now.Nanoseconds(),
		Message: fmt.Sprintf("switch %s, data %d of host %d to host %d", j.cfg.Name, k.Number, k.Sender, k.Receiver)})
}

// Finish ends the observation.
func (j *Judge) Finish() { j.settle(clock.Never) }
