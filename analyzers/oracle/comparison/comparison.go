// Package comparison compares the analyzers with the oracle on small random traces. It calls the analyzers through the
// interface that every analysis uses.
package comparison

import (
	"context"
	"fmt"
	"math/bits"

	"candela.dev/candela/analyzers"
	"candela.dev/candela/analyzers/gbn"
	"candela.dev/candela/analyzers/oracle"
	"candela.dev/candela/analyzers/retrans"
	"candela.dev/candela/trace"
)

// A Judge says what it finds in a trace.
type Judge func(*oracle.Trace) ([]analyzers.Finding, error)

// Analyzers judges with gbn and retrans, which get everything that the view knows.
func Analyzers() Judge {
	connections := oracle.Connections()
	return func(t *oracle.Trace) ([]analyzers.Finding, error) {
		c := t.Checked(connections)
		doc, err := analyzers.Run(context.Background(), c, Configured(c.Meta(), t.View)...)
		if err != nil {
			return nil, err
		}
		fresh := func(m trace.Meta) []analyzers.Analyzer { return Configured(m, t.View) }
		if err := analyzers.SoftenUnseen(context.Background(), c, 1, doc, fresh); err != nil {
			return nil, err
		}
		return doc.Findings, nil
	}
}

// Configured returns the analyzers that the oracle judges, with what a view knows.
func Configured(meta trace.Meta, v oracle.View) []analyzers.Analyzer {
	limits := gbn.Limits{TimeoutNS: v.TimeoutNS, ErrorsExpected: !v.Closed, AtRest: v.Closed}
	params := retrans.Params{}
	if v.Retry >= 0 {
		limits.Retry = gbn.AtMost(v.Retry)
	}
	if v.RNRRetry >= 0 {
		limits.RNRRetry = gbn.AtMost(v.RNRRetry)
	}
	if v.TimeoutNS > 0 && v.Retry >= 0 && v.RNRRetry >= 0 {
		params = retrans.Params{
			Known: true, TimeoutExponent: uint8(bits.Len64(uint64(v.TimeoutNS/4096)) - 1), RetryCount: uint8(v.Retry),
			RNRRetry: uint8(v.RNRRetry),
		}
	}
	return []analyzers.Analyzer{
		gbn.New(meta, gbn.Config{Default: limits, HostDelayNS: v.HostDelayNS}),
		retrans.New(meta, retrans.Config{Default: params, HostDelayNS: v.HostDelayNS}),
	}
}

// Kind says how a judge and the oracle disagree.
type Kind int

// Kinds.
const (
	FalseAlarm Kind = iota + 1 // a finding where the oracle has none
	TooSevere                  // a violation where frames may be missing
	TooMild                    // a warning where nothing else explains it
	Missed                     // nothing where the oracle has a warning or violation
)

// String names the kind.
func (k Kind) String() string {
	return [...]string{"", "false alarm", "too severe", "too mild", "missed"}[k]
}

// Disagreement is one difference between a judge and the oracle.
type Disagreement struct {
	Kind     Kind
	Endpoint oracle.Endpoint
	Rule     string // that was reported; of a miss what the oracle says
	Detail   string // of a miss what the oracle stumbles over
	Oracle   oracle.Decision
	Peer     oracle.Verdict // of the other endpoint
	Findings []analyzers.Finding
	Trace    *oracle.Trace
}

// Class names disagreements that have probably one cause.
func (d *Disagreement) Class() string {
	if d.Detail == "" {
		return d.Group()
	}
	return d.Group() + " " + d.Detail
}

// Unjust reports whether the judge claims more than is certain: it blames an innocent endpoint, or reports a doubt as a
// fact.
func (d *Disagreement) Unjust() bool { return d.Kind == FalseAlarm || d.Kind == TooSevere }

// Group names a class without what a miss stumbles over.
func (d *Disagreement) Group() string {
	peer := ""
	if d.Peer != oracle.Possible {
		peer = ", peer guilty"
	}
	return fmt.Sprintf("%s: %v, %v, %s%s", d.Trace.Tap(), d.Kind, d.Endpoint, d.Rule, peer)
}

// Compare judges a trace both ways and returns how the results differ.
func Compare(t *oracle.Trace, judge Judge) ([]Disagreement, error) {
	findings, err := judge(t)
	if err != nil {
		return nil, err
	}
	var decisions [oracle.Endpoints]oracle.Decision
	for e := range oracle.Endpoints {
		decisions[e] = oracle.Decide(t, e)
	}
	var list []Disagreement
	for e := oracle.Requester; e < oracle.Endpoints; e += 2 {
		list = append(list, compareRequests(t, findings, e, decisions)...)
	}
	return list, nil
}

// compareRequests compares what concerns the requests of one host, whose requester is given.
func compareRequests(
	t *oracle.Trace, findings []analyzers.Finding, first oracle.Endpoint, all [oracle.Endpoints]oracle.Decision,
) []Disagreement {
	decisions := all[first : first+2]
	open := *t
	open.View.Closed = false
	innocent := decisions[0].Verdict == oracle.Possible && decisions[1].Verdict == oracle.Possible
	var list []Disagreement
	for e := oracle.Requester; e <= oracle.Responder; e++ {
		d := Disagreement{
			Endpoint: first + e, Oracle: decisions[e], Peer: decisions[1-e].Verdict, Findings: findings, Trace: t,
		}
		blame := attribute(t, findings, first == oracle.OtherRequester)
		if n := all[d.Endpoint.Neighbour()]; n.Verdict != oracle.Possible && n.At >= 0 {
			// The state of a queue pair that sent something wrong elsewhere is unknown: what it owes at the end is not judged.
			blame = attribute(&open, findings, first == oracle.OtherRequester)
		}
		said, rule := blame.of(e, decisions[e])
		switch want := decisions[e].Verdict; {
		case said == want:
			continue
		case want == oracle.Possible:
			d.Kind, d.Rule = FalseAlarm, rule
		case said == oracle.Possible:
			d.Kind, d.Rule, d.Detail = Missed, d.Oracle.Verdict.String(), stumblingBlock(t, d.Oracle)
		case said > want:
			d.Kind, d.Rule = TooSevere, rule
		case t.View.Plain && !t.View.Complete &&
			(analyzers.LostFirst(rule) || rule == "gbn.capture-gap" || rule == "gbn.opcode-sequence"):
			continue // the oracle allows two unseen frames; a network may lose more of them before the tap
		default:
			d.Kind, d.Rule = TooMild, rule
		}
		list = append(list, d)
	}
	blame := attribute(t, findings, first == oracle.OtherRequester)
	if innocent && blame.either > oracle.Possible && !blame.eitherExcused {
		list = append(list, Disagreement{
			Kind: FalseAlarm, Endpoint: first, Rule: blame.eitherRule, Oracle: decisions[0], Findings: findings, Trace: t,
		})
	}
	return list
}

// stumblingBlock names what the oracle can't explain.
func stumblingBlock(t *oracle.Trace, d oracle.Decision) string {
	if d.At < 0 || d.At >= len(t.Packets) {
		return "(something missing at the end)"
	}
	return "(" + t.Packets[d.At].Word() + ")"
}
