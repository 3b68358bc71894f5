// Package retrans measures how fast losses are repaired (Lumina, figure 5-5), checks the rules of timers and retry
// counts, and checks that repeated atomics return their first result.
//
// All times are those of the observer at the switch. NACK generation is t(NACK) − t(first delivered out-of-order
// packet); NACK reaction is t(retransmitted packet) − t(NACK delivered); retransmission latency is t(retransmitted) −
// t(lost packet). For a READ the repeated request is the NACK. A packet lost after an earlier loss has no NACK and is
// repaired by the round of the earlier one. A timeout is measured on the first lost packet of its round, from its
// latest transmission to its retransmission, also per retry of that packet. Timers that expire without a loss to
// repair, because of a wrong NAK, are only counted.
//
// Generation and reaction contain the round trip from the switch to the host. If a calibration run ([Calibrate])
// measured it, corrected values are reported, too, under names that end in ".corrected".
//
// A finding is a violation only if no times of reception at the hosts explain the trace: what a response that passed at
// t causes happens after t, but a sender may have acted any time before its packet passed. Where a bound depends on a
// packet of the sender, its path may have become faster meanwhile by [Config].JitterNS.
package retrans

import (
	"cmp"
	"fmt"

	"candela.dev/candela/analyzers"
	"candela.dev/candela/analyzers/bounds"
	"candela.dev/candela/analyzers/rounds"
	"candela.dev/candela/packet"
	"candela.dev/candela/trace"
)

// Name is the analyzer's name in configurations, metrics and rule ids.
const Name = "retrans"

// Config is what a test knows about its endpoints besides the trace. The zero Config measures and judges what needs no
// such knowledge.
type Config struct {
	// Default holds for every connection that Connections does not name.
	Default Params
	// Connections overrides Default by 1-based connection.
	Connections map[int]Params

	// HalfRTT is the result of a calibration run. 0: not measured, no corrected metrics.
	HalfRTT Sides
	// HostDelayNS bounds the delay between a host and the switch, either way, in nanoseconds. 0: package bounds assumes
	// one.
	HostDelayNS int64
	// LinkDelayNS is the longest one-way propagation of the links between hosts and switch in the described testbed. An
	// assumed bound is at least twice that: a test may set T below the round trip on purpose.
	LinkDelayNS int64
	// JitterNS bounds how much that delay changes. 0: HostDelayNS.
	JitterNS int64

	// AckSilenceNS and NakSilenceNS are the shortest silence of a responder, and of a requester after a NAK, that is
	// reported. 0: half and three quarters of the local ACK timeout.
	AckSilenceNS, NakSilenceNS int64
}

// Params are the transport settings of one connection.
type Params struct {
	// Known says that the other fields are known: without them neither timeouts nor retries are judged.
	Known bool
	// TimeoutExponent is t of the local ACK timeout T = 4.096 us · 2^t. 0: the timer is off.
	TimeoutExponent uint8
	// RetryCount is retry_cnt, RNRRetry is rnr_retry, whose 7 means no limit.
	RetryCount, RNRRetry uint8
	// Adaptive says that the NIC chooses its timeouts and retries: breaches are then notes.
	Adaptive bool
}

// timeoutNS returns T in nanoseconds, 0 if the timer is off.
func (p Params) timeoutNS() int64 {
	if p.TimeoutExponent == 0 {
		return 0
	}
	return 4096 << min(p.TimeoutExponent, 31)
}

// hostDelayNS bounds the delay between a host of a connection with a timer and the switch.
func (a *Analyzer) hostDelayNS(p Params) int64 {
	return a.host.BesideNS(p.timeoutNS())
}

// jitterNS bounds how much that delay changes.
func (a *Analyzer) jitterNS(p Params) int64 { return cmp.Or(a.cfg.JitterNS, a.hostDelayNS(p)) }

// Sides are durations in nanoseconds from the switch to a host and back.
type Sides struct {
	Requester, Responder int64
}

// Analyzer measures and judges retransmission on every connection of a trace.
type Analyzer struct {
	cfg     Config
	host    bounds.Delay
	tracker *rounds.Tracker
	params  []Params // by connection − 1
	metrics metrics
	report  *analyzers.Reporter
	causes  [rounds.Timeout + 1]int64

	reloaded []bool     // by flow of the requests: the first restart since the last progress may not count as a retry
	results  []*results // of atomics, by flow of the requests; nil until there is one
	inferred bool       // the beginnings of connections are unknown

	arrivals bool    // what arrives is known, so that silence can be judged
	owed     []owed  // by flow of the requests
	hosts    []int32 // by flow: the host that sends
	slowest  []int64 // by host: its slowest acknowledgement that no retransmission asked for
	silent   []silent
}

// New returns an analyzer for traces with the given connections.
func New(meta trace.Meta, cfg Config) *Analyzer {
	n := meta.Connections.Len()
	a := &Analyzer{
		cfg: cfg, host: bounds.Hosts{DelayNS: cfg.HostDelayNS, LinkNS: cfg.LinkDelayNS}.Delay(meta.Kind),
		tracker: rounds.New(meta), params: make([]Params, n),
		metrics: newMetrics(n), report: analyzers.NewReporter(Name, Rules()),
		results: make([]*results, 2*n), reloaded: make([]bool, 2*n), inferred: meta.Connections.Inferred,
	}
	if a.arrivals = meta.EventsKnown; a.arrivals {
		a.owed = make([]owed, 2*n)
		a.hosts, a.slowest = hosts(meta)
	}
	for i := range a.params {
		a.params[i] = cfg.Default
		if p, ok := cfg.Connections[i+1]; ok {
			a.params[i] = p
		}
	}
	return a
}

// Name returns "retrans".
func (a *Analyzer) Name() string { return Name }

// Share implements analyzers.Follower.
func (a *Analyzer) Share(t *rounds.Tracker) { a.tracker = t }

// Packet observes one record.
func (a *Analyzer) Packet(r *trace.Record) { a.Follow(r, a.tracker.Packet(r)) }

// Follow implements analyzers.Follower.
func (a *Analyzer) Follow(r *trace.Record, step *rounds.Step) {
	if r.Opcode == packet.AtomicAcknowledge && step != nil {
		a.atomic(r, step)
	}
	if a.arrivals && step != nil {
		a.listen(r, step)
	}
	if step == nil || step.Marks&(rounds.Retransmitted|rounds.Restart|rounds.AnswersGap|rounds.FirstReplay) == 0 {
		return
	}
	if r.Opcode.IsRequest() {
		a.request(r, step)
	} else {
		a.response(r, step)
	}
}

// request measures a retransmitted request and judges a restart.
func (a *Analyzer) request(r *trace.Record, step *rounds.Step) {
	restart := step.Is(rounds.Restart)
	if restart {
		a.causes[step.Cause]++
		a.judge(r, step)
	}
	since := r.TimeNS - step.CauseNS
	switch step.Cause {
	case rounds.Nack:
		if restart {
			a.heeded(r, step)
			a.sample(reaction, step.Flow, since, a.sender(step.Flow))
		}
	case rounds.Implied:
		if restart {
			a.sample(generation, step.Flow, since, a.sender(step.Flow))
		}
	case rounds.RNR:
		if restart {
			a.metrics.record(rnrDelay, step.Flow.Connection(), since)
		}
	case rounds.Timeout:
		if restart {
			a.metrics.record(expiry, step.Flow.Connection(), int64(step.Retries))
		}
	case rounds.None:
	}
	a.repaired(r, step, restart && step.Cause == rounds.Nack)
}

// response measures a NACK for an open gap, and replayed responses.
func (a *Analyzer) response(r *trace.Record, step *rounds.Step) {
	if step.Is(rounds.AnswersGap) {
		a.sample(generation, step.Flow, r.TimeNS-step.CauseNS, a.receiver(step.Flow))
		return
	}
	first := step.Is(rounds.FirstReplay)
	if first && step.Cause == rounds.Implied {
		a.sample(reaction, step.Flow, r.TimeNS-step.CauseNS, a.receiver(step.Flow))
	}
	a.repaired(r, step, first && step.Cause == rounds.Implied)
}

// repaired measures a packet that is retransmitted. With asked a NACK requested it: it was lost even if the observer
// could not see that.
func (a *Analyzer) repaired(r *trace.Record, step *rounds.Step, asked bool) {
	if !step.Prev.Known {
		return
	}
	since := r.TimeNS - step.Prev.NS
	switch step.Cause {
	case rounds.Nack, rounds.Implied:
		if step.Prev.Lost || asked {
			a.metrics.record(retransmission, step.Flow.Connection(), since)
		}
	case rounds.Timeout:
		if step.Is(rounds.Repair) {
			a.metrics.record(timeout, step.Flow.Connection(), since)
			a.metrics.record(retry(int(step.Prev.Tries)+1), step.Flow.Connection(), since)
		}
	case rounds.RNR, rounds.None:
	}
}

// sender and receiver return the half RTT of the host that sends, or answers, the requests of a flow.
func (a *Analyzer) sender(flow trace.FlowID) int64 {
	if flow.Reverse() {
		return a.cfg.HalfRTT.Responder
	}
	return a.cfg.HalfRTT.Requester
}

func (a *Analyzer) receiver(flow trace.FlowID) int64 { return a.sender(flow.Peer()) }

// sample records a generation or reaction and, if the half RTT in it is known, the corrected one.
func (a *Analyzer) sample(k kind, flow trace.FlowID, ns, halfRTT int64) {
	a.metrics.record(k, flow.Connection(), ns)
	if halfRTT > 0 {
		a.metrics.record(k.corrected(), flow.Connection(), max(0, ns-halfRTT))
	}
}

// Finish returns findings, metrics and how often each cause of retransmission was seen.
func (a *Analyzer) Finish() analyzers.Result {
	a.silences()
	coverage := make(map[string]int64, len(a.causes))
	for c := rounds.Nack; c <= rounds.Timeout; c++ {
		coverage[fmt.Sprintf("restart by %v", c)] = a.causes[c]
	}
	return analyzers.Result{Findings: a.report.Findings(), Metrics: a.metrics.list(), Coverage: coverage}
}
