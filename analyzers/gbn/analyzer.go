package gbn

import (
	"cmp"
	"fmt"
	"maps"
	"slices"

	"candela.dev/candela/analyzers"
	"candela.dev/candela/analyzers/bounds"
	"candela.dev/candela/analyzers/cause"
	"candela.dev/candela/analyzers/fsm"
	"candela.dev/candela/analyzers/observer"
	"candela.dev/candela/packet"
	"candela.dev/candela/prefetch"
	"candela.dev/candela/trace"
)

// Name is the analyzer's name in configurations, results and rule identifiers.
const Name = "gbn"

// An Analyzer judges Go-back-N on every connection of a trace. It is not safe for concurrent use.
type Analyzer struct {
	meta  trace.Meta
	cfg   Config
	host  bounds.Delay
	delay int64 // ns after which what passed towards a host shows in the packets from it

	sessions  []*session // by flow of the requests; nil until a packet needs it
	requester coverage
	responder coverage

	findings   []analyzers.Finding
	suppressed map[ruleKey]int64
	reported   map[ruleKey]int
	firstID    uint64
	original   trace.Record // the latest packet that was rewritten, as it was sent
	partitions trace.Partitions
	lines      prefetch.Lines
	general    bool                 // nothing is taken for ordinary, for a test
	strays     int64                // records of no known connection
	unknown    int64                // records with an opcode that RC does not have
	observer   *observer.Observer   // of a single capture, else nil
	observed   []analyzers.Observed // by the parts that were joined
	unclear    map[int]bool         // connections on which more or fewer packets may be lost than the trace shows
}

type ruleKey struct {
	rule       Rule
	connection int
}

var _ analyzers.Analyzer = (*Analyzer)(nil)

// New returns an analyzer for one trace that meta describes.
func New(meta trace.Meta, cfg Config) *Analyzer {
	if cfg.MaxPerRule <= 0 {
		cfg.MaxPerRule = defaultMaxPerRule
	}
	host := cfg.delay(meta.Kind)
	a := &Analyzer{
		meta:       meta,
		cfg:        cfg,
		host:       host,
		delay:      host.RoundTripNS() + meta.ClockUncertaintyNS,
		sessions:   make([]*session, 2*meta.Connections.Len()),
		requester:  fsm.NewCoverage(requesterMachine),
		responder:  fsm.NewCoverage(responderMachine),
		suppressed: map[ruleKey]int64{},
		reported:   map[ruleKey]int{},
		unclear:    map[int]bool{},
	}
	if meta.Kind == trace.KindPlain && !meta.EventsKnown {
		a.observer = observer.New(meta, cfg.observer(func(Limits) int64 { return cfg.HostDelayNS }))
	}
	return a
}

// Name implements analyzers.Analyzer.
func (a *Analyzer) Name() string { return Name }

// Packet implements analyzers.Analyzer. What a record shows of its sender is handled before its effect on its receiver.
func (a *Analyzer) Packet(r *trace.Record) {
	if a.firstID == 0 {
		a.firstID = r.ID
	}
	a.noteRewritten(r)
	a.observer.Packet(r)
	flow := r.Flow
	if flow < 0 || int(flow) >= len(a.sessions) {
		a.stray(r)
		return
	}
	if r.ICRC == packet.ICRCInvalid && r.Has(trace.Sent) {
		a.damaged(r)
	}
	if r.Has(trace.Sent) {
		a.checkPartition(r)
	}
	switch {
	case r.Opcode.IsRequest():
		s := a.session(flow)
		if !a.general && s.ordinary(r) {
			return
		}
		if r.Has(trace.Sent) {
			s.requestSent(r)
		}
		if r.Has(trace.Passed) {
			s.requestPassed(r)
		}
	case r.Opcode.IsResponse():
		s := a.session(flow.Peer())
		if r.Has(trace.Sent) {
			s.responseSent(r)
		}
		if r.Has(trace.Passed) {
			s.responsePassed(r)
		}
	case r.Opcode != packet.CNP:
		a.unknown++
	}
}

// forged reports whether the injector changed a field that the receiver of r acts upon.
func (a *Analyzer) forged(r *trace.Record) bool {
	if !r.Event.Forges() || r.Has(trace.Sent) || a.original.ID != r.ID {
		return false
	}
	was, is := a.original, *r
	for _, p := range []*trace.Record{&was, &is} {
		p.Flags &^= trace.Sent | trace.Passed | trace.AckReq
		p.DSCP, p.ECN = 0, 0
	}
	return was != is
}

// unpunctual reports whether the hosts' timers may be off by more than a path delay: the hosts are software on machines
// that may be suspended.
func (a *Analyzer) unpunctual() bool { return a.cfg.SoftwareHosts }

// whole reports whether the trace holds the connections from their first packet on: mirror sequence numbers count from
// when the gate opened, before which nothing was sent.
func (a *Analyzer) whole() bool { return a.meta.Kind == trace.KindMirror && a.firstID <= 1 }

// session returns the state of the requests on flow.
func (a *Analyzer) session(flow trace.FlowID) *session {
	s := a.sessions[flow]
	if s == nil {
		s = newSession(a, flow)
		a.sessions[flow] = s
	}
	return s
}

// damaged reports a packet with a bad iCRC. A single capture may have been taken after the injector, and Lumina's
// copies have the damage that its injector did.
func (a *Analyzer) damaged(r *trace.Record) {
	if !a.meta.EventsKnown || r.Event != trace.EventNone {
		return
	}
	f := a.report(RuleICRC, r, r.Flow.Connection())
	say(f, "a valid iCRC", fmt.Sprintf("%v with a bad iCRC, and the injector did not touch it", r.Opcode),
		causeICRC(cause.Sender(r), cause.At(&a.meta, r.TimeNS), r.Opcode))
}

// stray counts a packet of no known connection. There should be none where the connections are given and the observer
// is a test's own switch.
func (a *Analyzer) stray(r *trace.Record) {
	if r.Has(trace.HasCM) {
		return
	}
	a.strays++
	if a.meta.Kind != trace.KindMirror || a.meta.Connections == nil || a.meta.Connections.Inferred || !r.Has(trace.Sent) ||
		r.ICRC == packet.ICRCInvalid ||
		!r.Opcode.IsRequest() && !r.Opcode.IsResponse() {
		return
	}
	say(a.report(RuleUnknownQP, r, 0), "the queue pair of a connection",
		fmt.Sprintf("%v to queue pair %v", r.Opcode, r.DestQP), causeUnknownQP(cause.At(&a.meta, r.TimeNS), r.Opcode,
			r.DestQP))
}

// report adds a finding about r, which belongs to a connection or to none (0). If the rule was reported often enough it
// only counts it and returns nil.
func (a *Analyzer) report(rule Rule, r *trace.Record, connection int) *analyzers.Finding {
	key := ruleKey{rule, connection}
	if a.reported[key] >= a.cfg.MaxPerRule {
		a.suppressed[key]++
		return nil
	}
	a.reported[key]++
	info := &ruleTable[ruleIndex[rule]]
	f := analyzers.Finding{
		Analyzer: Name, Rule: string(rule), Clause: info.Clause, Severity: info.Severity, Connection: connection,
		TimeNS: a.meta.EndNS, Message: info.Statement, Packets: []uint64{},
	}
	if r != nil {
		f.TimeNS, f.PSNAbs = r.TimeNS, uint32(r.PSN)
		f.Packets = append(f.Packets, r.ID)
	}
	a.findings = append(a.findings, f)
	return &a.findings[len(a.findings)-1]
}

var _ analyzers.Reviewer = (*Analyzer)(nil)

// Observer implements analyzers.Reviewer: an observer follows mirror traces and pairs of captures in which an endpoint
// seems to break a rule. It judges the end, too: a run ends after a quiet time, and in captures the caller softens what
// was not due yet.
func (a *Analyzer) Observer() analyzers.Observer {
	if a.observer != nil {
		return nil
	}
	usual, certain := a.cfg, a.cfg
	usual.Default, certain.Default = a.assumed(a.cfg.Default), a.known(a.cfg.Default)
	usual.Connections, certain.Connections = maps.Clone(a.cfg.Connections), maps.Clone(a.cfg.Connections)
	for i, l := range a.cfg.Connections {
		usual.Connections[i], certain.Connections[i] = a.assumed(l), a.known(l)
	}
	return &review{
		a:       a,
		usual:   observer.New(a.meta, usual.observer(func(l Limits) int64 { return a.host.BesideNS(l.TimeoutNS) })),
		certain: observer.New(a.meta, certain.observer(func(Limits) int64 { return a.knownDelay() })),
	}
}

// assumed returns l with the shortest timeout where none is known.
func (a *Analyzer) assumed(l Limits) Limits {
	l.TimeoutNS, l.AtRest = bounds.TimeoutNS(l.TimeoutNS), true
	return l
}

// known returns the certain part of l. Times of software hosts prove nothing.
func (a *Analyzer) known(l Limits) Limits {
	if l.AtRest = true; a.unpunctual() {
		l.TimeoutNS = 0
	}
	return l
}

// knownDelay returns the bound of the host delays, 0 if unknown.
func (a *Analyzer) knownDelay() int64 {
	if a.unpunctual() {
		return 0
	}
	return a.cfg.HostDelayNS
}

// A review observes twice: with the usual delays of hosts, which must explain a violation that is removed, and with
// what is known for certain, which decides about new ones.
type review struct {
	a              *Analyzer
	usual, certain *observer.Observer
}

// Packet implements analyzers.Observer.
func (r *review) Packet(p *trace.Record) {
	r.usual.Packet(p)
	r.certain.Packet(p)
}

// Finish implements analyzers.Observer.
func (r *review) Finish() []analyzers.Observed {
	list := r.usual.Finish()
	for _, o := range r.certain.Finish() {
		if r.a.unclear[o.Connection] {
			continue // a receiver drops packets of another partition, which an observer does not know
		}
		o.Certain = true
		if !o.Responder && r.a.cfg.limits(o.Connection).ErrorsExpected {
			o.Unexplained = slices.DeleteFunc(o.Unexplained, func(f analyzers.Finding) bool { return len(f.Packets) == 0 })
		}
		list = append(list, o)
	}
	r.a.word(list)
	return list
}

// Finish implements analyzers.Analyzer.
func (a *Analyzer) Finish() analyzers.Result {
	a.finishSessions()
	a.noteSuppressed()
	a.noteStrays()
	cover := map[string]int64{}
	a.requester.AddTo(cover)
	a.responder.AddTo(cover)
	return analyzers.Result{Findings: a.findings, Coverage: cover, Observed: a.observations()}
}

func (a *Analyzer) finishSessions() {
	for _, s := range a.sessions {
		if s == nil {
			continue
		}
		if s.finish(); s.captured || s.fateUnknown || a.strangers(s.flow) {
			a.unclear[s.flow.Connection()] = true
		}
	}
}

// observations returns what the observer of a single capture could not explain, with clauses and statements.
func (a *Analyzer) observations() []analyzers.Observed {
	list := append(a.observed, a.observer.Finish()...)
	slices.SortStableFunc(list, func(x, y analyzers.Observed) int { return cmp.Compare(x.Connection, y.Connection) })
	a.word(list)
	return list
}

// word completes what an observer found by the table of rules.
func (a *Analyzer) word(list []analyzers.Observed) {
	for i := range list {
		for j := range list[i].Unexplained {
			f := &list[i].Unexplained[j]
			info := &ruleTable[ruleIndex[Rule(f.Rule)]]
			f.Analyzer, f.Clause, f.Message = Name, info.Clause, info.Statement
			if len(f.Packets) == 0 {
				f.TimeNS = a.meta.EndNS
			}
		}
	}
}

// Illegal returns how often each illegal transition was taken, for tests of the machines.
func (a *Analyzer) Illegal() map[string]int64 {
	out := map[string]int64{}
	a.requester.AddIllegal(out)
	a.responder.AddIllegal(out)
	return out
}

func (a *Analyzer) noteSuppressed() {
	for i := range ruleTable {
		for c := 0; c <= a.meta.Connections.Len(); c++ {
			n := a.suppressed[ruleKey{ruleTable[i].Rule, c}]
			if n == 0 {
				continue
			}
			f := analyzers.Finding{
				Analyzer: Name, Rule: string(ruleTable[i].Rule), Clause: ruleTable[i].Clause, Severity: analyzers.Note,
				Connection: c,
				TimeNS:     a.meta.EndNS, Packets: []uint64{},
				Message: fmt.Sprintf("%d more findings of this rule on connection %d are not listed", n, c),
			}
			f.Because(cause.Unlisted(f.Rule, c, n))
			a.findings = append(a.findings, f)
		}
	}
}

func (a *Analyzer) noteStrays() {
	note := func(n int64, what string, c happened) {
		if n == 0 {
			return
		}
		f := analyzers.Finding{
			Analyzer: Name, Rule: string(RuleCaptureGap), Clause: ruleTable[ruleIndex[RuleCaptureGap]].Clause,
			Severity: analyzers.Note,
			TimeNS:   a.meta.EndNS, Packets: []uint64{}, Message: fmt.Sprintf("%d packets %s were not judged", n, what),
		}
		f.Because(c)
		a.findings = append(a.findings, f)
	}
	note(a.strays, "of no known connection", causeStrays(a.strays))
	note(a.unknown, "with opcodes that a reliable connection does not have", causeUnknownOpcodes(a.unknown))
}
