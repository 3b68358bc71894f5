// Package cnp checks a notification point of DCQCN: which marked packets it answers with a congestion notification
// packet.
//
// A trigger is a delivered data packet that carries CE or, on some NICs, a sequence NAK. It yields a CNP if its group
// had none yet, or if more than the configured minimum time has passed since the group's last trigger that yielded one.
// What a group is differs between NICs ([Mode]); the analyzer predicts the CNPs of every mode and names those that fit.
//
// The observer at the switch sees a trigger before the NIC does and a CNP after it was sent. Both delays are constant
// up to jitter, so intervals seen here equal those in the NIC up to [Config].JitterNS; a trigger closer than that to
// the end of the minimum time may or may not yield a CNP.
package cnp

import (
	"fmt"
	"net/netip"

	"candela.dev/candela/analyzers"
	"candela.dev/candela/analyzers/bounds"
	"candela.dev/candela/analyzers/rounds"
	"candela.dev/candela/packet"
	"candela.dev/candela/trace"
)

// Name is the analyzer's name in configurations, metrics and rule ids.
const Name = "cnp"

// Mode is the scope in which a notification point keeps CNPs apart.
type Mode uint8

// Modes.
const (
	ModeUnknown Mode = iota
	PerPort          // one for everything that a port receives
	PerDestIP        // per destination of the CNP, the data sender
	PerIPPair        // per sender and receiver address
	PerQP
	numModes
)

var modeNames = [numModes]string{"unknown", "port", "destination-ip", "ip-pair", "qp"}

// String returns the mode in the words of the configuration.
func (m Mode) String() string {
	if m < numModes {
		return modeNames[m]
	}
	return fmt.Sprintf("mode(%d)", uint8(m))
}

// ParseMode returns the mode that a configuration names.
func ParseMode(name string) (Mode, bool) {
	for m := PerPort; m < numModes; m++ {
		if modeNames[m] == name {
			return m, true
		}
	}
	return ModeUnknown, false
}

// Config is what a test knows about its endpoints besides the trace. The zero Config judges what needs no such
// knowledge.
type Config struct {
	// Requester and Responder are the settings of the connections' two sides, each as receiver of marked data.
	Requester, Responder NotificationPoint
	// Ports names the port of each address. Without it, all requesters share one port, and so do all responders; if an
	// address is both, each address is a port.
	Ports map[netip.Addr]string
	// JitterNS bounds the variation of delays between switch and hosts, in nanoseconds: on an idle path the time of one
	// full frame, on a machine that runs the hosts the time that a host may wait for a CPU. 0: 5 us. A minimum time that
	// is not longer is not judged.
	JitterNS int64
}

// NotificationPoint are the settings of one side.
type NotificationPoint struct {
	Known     bool // without it nothing is predicted
	Enabled   bool
	Absent    bool  // the device declares that it has none: it owes no CNP and sends none
	MinTimeNS int64 // minimum time between CNPs of one group; 0: a CNP for every trigger
	Mode      Mode  // ModeUnknown: any that fits
	WithNack  bool  // a sequence NAK is a trigger, too
}

// Analyzer follows the CNPs of every connection.
type Analyzer struct {
	cfg     Config
	meta    trace.Meta
	tracker *rounds.Tracker // nil if NAKs trigger nothing
	flows   []flow          // by trace.FlowID of the data
	pacers  [numModes][]pacer
	report  *analyzers.Reporter
	metrics []distributions // by connection, 0 being all together

	firstID uint64
	marked  []bool  // by direction (group of [PerIPPair]): some packet arrived at the tap with CE already
	foreign bool    // there are packets of no known connection besides CNPs
	strays  []stray // CNPs of no known connection, the first few
	nStrays int64
}

type stray struct {
	id     uint64
	ns     int64
	destQP packet.QPN
}

const maxStrays = 8

// flow is the data that one side of a connection sends, and the CNPs that answer it.
type flow struct {
	group     [numModes]int32 // index into pacers, by mode
	predicted [numModes]prediction

	marks   int64 // delivered packets with CE
	credit  int64 // triggers that may each still yield a CNP
	gap     bool  // a packet was lost, and none was delivered since
	granted bool  // a CNP was granted for a gap whose NAK has not been seen
	cnps    int64
	doubted int64 // CNPs that a marked packet which the capture missed may have provoked
	lastNS  int64 // of the latest CNP
	waiting waiting
}

// A prediction is the least and most CNPs that a mode predicts.
type prediction struct {
	least, most int64
}

// distributions are the metrics of one connection or of all; of a connection without CNPs they are nil.
type distributions struct {
	interval, latency *analyzers.Distribution
}

func newDistributions(connection int) distributions {
	return distributions{
		interval: analyzers.NewDistribution("cnp.interval", analyzers.UnitNS, connection),
		latency:  analyzers.NewDistribution("cnp.latency", analyzers.UnitNS, connection),
	}
}

// New returns an analyzer for one trace.
func New(meta trace.Meta, cfg Config) *Analyzer {
	if cfg.JitterNS == 0 {
		cfg.JitterNS = bounds.IdleJitterNS
	}
	a := &Analyzer{
		cfg: cfg, meta: meta, flows: make([]flow, 2*meta.Connections.Len()), report: analyzers.NewReporter(Name, Rules()),
		metrics: make([]distributions, meta.Connections.Len()+1),
	}
	a.metrics[0] = newDistributions(0)
	if cfg.Requester.WithNack || cfg.Responder.WithNack {
		a.tracker = rounds.New(meta)
	}
	a.assignGroups()
	return a
}

// Name returns "cnp".
func (a *Analyzer) Name() string { return Name }

// receiver returns the settings of the side that receives the data of a flow.
func (a *Analyzer) receiver(data trace.FlowID) *NotificationPoint {
	if data.Reverse() {
		return &a.cfg.Requester
	}
	return &a.cfg.Responder
}

// Share implements analyzers.Follower.
func (a *Analyzer) Share(t *rounds.Tracker) { a.tracker = t }

// Packet observes one record.
func (a *Analyzer) Packet(r *trace.Record) {
	var step *rounds.Step
	if a.tracker != nil {
		step = a.tracker.Packet(r)
	}
	a.Follow(r, step)
}

// Follow implements analyzers.Follower.
func (a *Analyzer) Follow(r *trace.Record, step *rounds.Step) {
	if a.firstID == 0 {
		a.firstID = r.ID
	}
	if r.Opcode == packet.CNP {
		a.notification(r)
		return
	}
	if r.Flow < 0 || int(r.Flow) >= len(a.flows) {
		a.foreign = true
		return
	}
	if step != nil {
		a.nacked(r, step)
	}
	f := &a.flows[r.Flow]
	switch {
	case r.Lost() || r.ICRC == packet.ICRCInvalid:
		f.gap = true
	case f.gap && r.Delivered():
		f.gap = false
		f.granted = a.allowForLoss(f, r.Flow)
	}
	if r.Delivered() && r.Marked() {
		f.marks++
		a.trigger(r.Flow, r.TimeNS, r.Opcode.IsData())
	}
	if r.ECN == packet.CE {
		a.marked[f.group[PerIPPair]] = true
	}
	if r.Opcode == packet.Acknowledge && r.Syndrome == packet.SyndromeNakSequence {
		a.nackSent(r)
	}
}

// allowForLoss allows a CNP for a gap, or for the NAK that shows one, if it is unknown whether those are triggers.
func (a *Analyzer) allowForLoss(f *flow, data trace.FlowID) bool {
	if a.receiver(data).Known {
		return false
	}
	f.credit++
	return true
}

// nackSent grants a CNP for a NAK unless one was granted for its gap.
func (a *Analyzer) nackSent(r *trace.Record) {
	data := r.Flow.Peer()
	f := &a.flows[data]
	if r.Has(trace.Sent) && !f.granted {
		a.allowForLoss(f, data)
	}
	f.granted = false
}

// midway reports whether the trace may begin when the connections were busy already.
func (a *Analyzer) midway() bool {
	return a.meta.Connections != nil && a.meta.Connections.Inferred && (a.meta.Kind != trace.KindMirror || a.firstID > 1)
}

// nacked treats an out-of-order packet, which a receiver answers with a NAK, as a trigger. A requester sends no NAK for
// missing READ responses; whether it sends a CNP is left open.
func (a *Analyzer) nacked(r *trace.Record, step *rounds.Step) {
	if step.Is(rounds.GapOpened) && a.receiver(r.Flow).WithNack {
		a.trigger(r.Flow, r.TimeNS, r.Opcode.IsRequest())
	}
}

// trigger predicts what a trigger yields in each mode; sure says that every implementation takes it for one.
func (a *Analyzer) trigger(data trace.FlowID, ns int64, sure bool) {
	f := &a.flows[data]
	f.credit++
	np := a.receiver(data)
	if !np.Known {
		f.waiting.first(ns)
		return
	}
	if !np.Enabled {
		return
	}
	for m := PerPort; m < numModes; m++ {
		outcome := a.pacers[m][f.group[m]].trigger(ns, np.MinTimeNS, a.cfg.JitterNS, sure)
		if outcome != suppressed {
			f.predicted[m].most++
		}
		if outcome == yields {
			f.predicted[m].least++
		}
		if outcome != suppressed && m == np.scope() {
			f.waiting.push(ns, np.MinTimeNS > 0)
		}
	}
}

// scope returns the mode for judging single CNPs: the known one, or the one that allows the most.
func (np *NotificationPoint) scope() Mode {
	if np.Mode == ModeUnknown {
		return PerQP
	}
	return np.Mode
}
