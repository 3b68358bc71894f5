// Package trim follows every packet whose payload was cut off: how long its receiver takes to request it, the sender to
// retransmit it, and the whole repair; whether its headers are unchanged; and whether a NIC that is said to react to
// trimmed headers does so once for each, for the right packet, and does not take one for data.
//
// Times are those of the observer at the switch. NACK generation is t(NACK) − t(trim), for a READ response t(repeated
// READ request) − t(trim); reaction is t(retransmission) − t(NACK); recovery is t(delivered whole) − t(trim). A packet
// that is trimmed several times counts once for each trim; all end with the same delivery.
//
// A mirror shows the packet before it was trimmed: size, DSCP and length fields of the header come from the entries of
// the run ([Config].Cuts) or from a second capture after the switch. Without either they are not judged.
//
// The same analyzer follows dropped packets for a comparison: see [Config].Follow.
package trim

import (
	"fmt"

	"candela.dev/candela/analyzers"
	"candela.dev/candela/analyzers/bounds"
	"candela.dev/candela/analyzers/rounds"
	"candela.dev/candela/trace"
)

// Name is the analyzer's name in configurations, metrics and rule ids.
const Name = "trim"

// Config is what a test knows besides the trace. The zero Config measures and judges what needs no such knowledge.
type Config struct {
	// Cuts are the trims of the run as its entries say.
	Cuts []trace.Cut
	// Follow is the event whose packets are followed; none stands for trims. Other events are measured, not judged.
	Follow trace.EventType
	// AnswerWithinNS bounds the time from a trimmed header at the switch to the answer of a NIC that reacts, round trip
	// included. 0: 100 us, a hundred times any published reaction. A later answer is measured; without any answer by then
	// the NIC is blamed.
	AnswerWithinNS int64
	// TimeoutNS is the local ACK timeout T of the test; 0: unknown. A READ request that is repeated later than T/2 after a
	// trimmed response is attributed to the timer, not to the header. 0: 1 ms instead of T/2.
	TimeoutNS int64
	// ErrorsExpected says that the test makes connections fail, after which a host is silent.
	ErrorsExpected bool
}

const defaultAnswerNS = 100_000

// timerNS is the time after which a repeated READ request may be a timeout.
func (c *Config) timerNS() int64 {
	if c.TimeoutNS > 0 {
		return c.TimeoutNS / 2
	}
	return bounds.ShortestTimeoutNS
}

// A Packet is one followed loss.
type Packet struct {
	ID         uint64       `json:"id"` // of the record
	Connection int          `json:"connection"`
	Flow       trace.FlowID `json:"-"`
	PSN        int64        `json:"psn"` // relative to the requests that it belongs to, from 1
	Response   bool         `json:"read_response"`
	Nth        int          `json:"nth"` // loss of this packet, from 1
	TimeNS     int64        `json:"t_ns"`
	Size       int          `json:"size,omitempty"` // bytes that were left, 0: not known

	// When the answer, the retransmission and the delivery were seen; 0: never.
	NackID      uint64 `json:"nack,omitempty"`
	NackNS      int64  `json:"nack_t_ns,omitempty"`
	ResentID    uint64 `json:"resent,omitempty"`
	ResentNS    int64  `json:"resent_t_ns,omitempty"`
	RecoveredID uint64 `json:"recovered,omitempty"`
	RecoveredNS int64  `json:"recovered_t_ns,omitempty"`
}

// keptPackets is how many followed packets are kept one by one; all are in the distributions.
const keptPackets = 1000

// loss is a followed packet that has not been delivered yet.
type loss struct {
	Packet
	place int64
	// expected: its receiver waited for this packet when the header arrived; alone: only this header can have caused its
	// request.
	expected, alone bool
	busy            bool // its receiver sent other answers meanwhile, so that this one may wait in a queue
	blamed          bool
	index           int // in Analyzer.packets, -1: not kept
	nacks           int
}

// flowState is what is open on one flow of requests, its READ responses included.
type flowState struct {
	open  []*loss
	times map[placeKey]int // losses of packets that are open
}

type placeKey struct {
	place    int64
	response bool
}

// Analyzer follows trimmed packets on every connection of a trace.
type Analyzer struct {
	meta    trace.Meta
	cfg     Config
	tracker *rounds.Tracker
	flows   []flowState
	spoke   []int64 // by flow: when its sender was last seen
	cuts    *trace.Cuts
	sent    map[uint64]trace.Record // of a pair: trimmed packets before the cut, until they pass
	packets []Packet
	metrics metrics
	report  *analyzers.Reporter
	headers headers
	count   [numOutcomes]int64
}

var _ analyzers.Analyzer = (*Analyzer)(nil)

// New returns an analyzer for one trace that meta describes.
func New(meta trace.Meta, cfg Config) *Analyzer {
	if cfg.Follow == trace.EventNone {
		cfg.Follow = trace.EventTrim
	}
	if cfg.AnswerWithinNS <= 0 {
		cfg.AnswerWithinNS = defaultAnswerNS
	}
	n := meta.Connections.Len()
	a := &Analyzer{
		meta: meta, cfg: cfg, tracker: rounds.New(meta), flows: make([]flowState, 2*n), spoke: make([]int64, 2*n),
		cuts: trace.NewCuts(meta.Connections, cfg.Cuts), sent: map[uint64]trace.Record{}, metrics: newMetrics(n),
		report: analyzers.NewReporter(Name, Rules()),
	}
	return a
}

// Name returns "trim".
func (a *Analyzer) Name() string { return Name }

// Packets returns the followed packets in trace order, the first 1000.
func (a *Analyzer) Packets() []Packet { return a.packets }

// Share implements analyzers.Follower.
func (a *Analyzer) Share(t *rounds.Tracker) { a.tracker = t }

// Packet observes one record.
func (a *Analyzer) Packet(r *trace.Record) { a.Follow(r, a.tracker.Packet(r)) }

// Follow implements analyzers.Follower.
func (a *Analyzer) Follow(r *trace.Record, step *rounds.Step) {
	if r.Flow >= 0 && int(r.Flow) < len(a.spoke) && r.Has(trace.Sent) {
		a.spoke[r.Flow] = r.TimeNS
	}
	if step == nil {
		return
	}
	f := &a.flows[step.Flow]
	if len(f.open) > 0 {
		a.advance(f, r, step)
	}
	if r.Event == a.cfg.Follow && followed(r) {
		a.lost(f, r, step)
	}
}

// followed reports whether r is a packet of a kind that can be trimmed.
func followed(r *trace.Record) bool { return r.Opcode.IsData() }

// advance updates the open losses of a flow with r.
func (a *Analyzer) advance(f *flowState, r *trace.Record, step *rounds.Step) {
	if r.Has(trace.Sent) {
		a.answered(f, r, step)
	}
	if !followed(r) {
		return
	}
	kept := f.open[:0]
	for _, l := range f.open {
		if l.place == step.Place && l.Response == !r.Opcode.IsRequest() && a.repeated(l, r) {
			continue
		}
		kept = append(kept, l)
	}
	clear(f.open[len(kept):])
	f.open = kept
	if len(kept) == 0 {
		f.times = nil
	}
}

// repeated handles another transmission of a lost packet and reports whether the loss is settled.
func (a *Analyzer) repeated(l *loss, r *trace.Record) bool {
	if r.Has(trace.Sent) && l.ResentID == 0 {
		l.ResentID, l.ResentNS = r.ID, r.TimeNS
		if l.NackID != 0 {
			a.metrics.record(reaction, l.Connection, r.TimeNS-l.NackNS)
		}
		a.missing(l, r.TimeNS)
		a.keep(l)
	}
	if !r.Delivered() {
		return false
	}
	l.RecoveredID, l.RecoveredNS = r.ID, r.TimeNS
	a.metrics.record(recovery, l.Connection, r.TimeNS-l.TimeNS)
	a.settle(l)
	return true
}

// settle counts what became of a loss.
func (a *Analyzer) settle(l *loss) {
	a.keep(l)
	switch {
	case l.RecoveredID == 0:
		a.count[neverRecovered]++
	case l.NackID == 0:
		a.count[recoveredUnasked]++
	default:
		a.count[recoveredAsked]++
	}
}

// lost opens the story of r.
func (a *Analyzer) lost(f *flowState, r *trace.Record, step *rounds.Step) {
	before, pair := a.sent[r.ID]
	if !r.Has(trace.Passed) && a.cfg.Follow == trace.EventTrim {
		a.sent[r.ID] = *r // its header comes later
		return
	}
	delete(a.sent, r.ID)
	k := placeKey{step.Place, !r.Opcode.IsRequest()}
	if f.times == nil {
		f.times = map[placeKey]int{}
	}
	f.times[k]++
	l := &loss{place: step.Place, index: -1, Packet: Packet{
		ID: r.ID, Connection: r.Flow.Connection(), Flow: r.Flow, PSN: step.Place, Response: k.response, Nth: f.times[k],
		TimeNS: r.TimeNS,
	}}
	if a.cfg.Follow == trace.EventTrim {
		a.inspect(l, r, &before, pair)
		a.reacts(l, step)
	}
	if step.Is(rounds.Duplicate) || a.cfg.Follow == trace.EventTrim &&
		step.Marks&(rounds.TrimmedNext|rounds.TrimmedAhead) == 0 && a.received(step, k.response) {
		a.count[alreadyReceived]++
	}
	if len(a.packets) < keptPackets {
		l.index = len(a.packets)
		a.packets = append(a.packets, l.Packet)
	}
	f.open = append(f.open, l)
}

// received reports whether marks show that the receiver has received the packet before.
func (a *Analyzer) received(step *rounds.Step, response bool) bool {
	return step.Is(rounds.Retransmitted) && !response && !step.Prev.Lost
}

// keep brings the kept copy of a followed packet up to date.
func (a *Analyzer) keep(l *loss) {
	if l.index >= 0 {
		a.packets[l.index] = l.Packet
	}
}

// Finish returns findings, metrics and how the losses ended.
func (a *Analyzer) Finish() analyzers.Result {
	for i := range a.flows {
		for _, l := range a.flows[i].open {
			a.missing(l, a.meta.EndNS)
			a.settle(l)
		}
		a.flows[i].open = nil
	}
	a.describe()
	cover := map[string]int64{}
	for o := range numOutcomes {
		cover[fmt.Sprintf("%s: %s", a.cfg.Follow, outcomeNames[o])] = a.count[o]
	}
	return analyzers.Result{Findings: a.report.Findings(), Metrics: a.metrics.list(), Coverage: cover}
}

// outcome is what became of a followed packet.
type outcome int

const (
	recoveredAsked outcome = iota
	recoveredUnasked
	neverRecovered
	alreadyReceived
	numOutcomes
)

var outcomeNames = [numOutcomes]string{"asked for and recovered", "recovered without being asked for", "not recovered",
	"a duplicate"}
