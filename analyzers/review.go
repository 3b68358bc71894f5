package analyzers

import (
	"context"
	"slices"
	"strings"

	"candela.dev/candela/trace"
)

// A Reviewer is an analyzer that can have connections observed a second time, in more detail than is affordable for
// each packet of a trace.
type Reviewer interface {
	Analyzer
	// Observer returns a new observer of connections, or nil if the analyzer has observed them in the first pass.
	Observer() Observer
}

// An Observer follows connections of a trace.
type Observer interface {
	Packet(r *trace.Record)
	Finish() []Observed
}

// review has an observer follow every connection on which an endpoint seems to break a rule about what it can have sent
// or owes. It removes the violations that a compliant endpoint explains, and adds what no compliant endpoint can have
// done where no analyzer has found anything. Such cases are rare and need sets of states.
func (a *Analysis) review(ctx context.Context, c *trace.Checked, all []Analyzer) error {
	blamed := map[int]bool{}
	for i := range a.Findings {
		if f := &a.Findings[i]; f.blames() {
			blamed[f.Connection] = true
		}
	}
	if len(blamed) == 0 {
		return nil
	}
	seen := map[endpointKey][]*Observed{}
	var certain []*Observed
	for _, one := range all {
		r, ok := one.(Reviewer)
		if !ok {
			continue
		}
		o := r.Observer()
		if o == nil {
			return nil
		}
		var partitions trace.Partitions
		if err := c.ForEach(ctx, func(r *trace.Record) error {
			if blamed[r.Flow.Connection()] {
				partitions.Mark(r)
				o.Packet(r)
			}
			return nil
		}); err != nil {
			return err
		}
		for _, s := range o.Finish() {
			if s.Certain {
				certain = append(certain, &s)
				continue
			}
			key := endpointKey{s.Connection, s.Responder}
			seen[key] = append(seen[key], &s)
		}
	}
	a.Findings = slices.DeleteFunc(a.Findings, func(f Finding) bool {
		if !f.reviewed() {
			return false
		}
		by := existenceRules[f.Rule]
		return (by == byResponder || explained(seen[endpointKey{f.Connection, false}], &f)) &&
			(by == byRequester || explained(seen[endpointKey{f.Connection, true}], &f))
	})
	for _, responders := range []bool{true, false} {
		for _, o := range certain {
			if o.Responder == responders {
				a.blame(o)
			}
		}
	}
	slices.SortStableFunc(a.Findings, compareFindings)
	return nil
}

// blame adds what o cannot have sent or owes at the end, unless a finding is about that endpoint or that packet.
func (a *Analysis) blame(o *Observed) {
	for i := range o.Unexplained {
		u := &o.Unexplained[i]
		if u.Severity != Violation || slices.ContainsFunc(a.Findings, func(f Finding) bool { return f.concerns(o, u) }) {
			continue
		}
		a.Findings = append(a.Findings, *u)
	}
}

// concerns reports whether f is a violation of the endpoint o, or about the packet of u and not of the other endpoint.
// An exchange that stops half-way is one finding: the requester waits for what the responder owes.
func (f *Finding) concerns(o *Observed, u *Finding) bool {
	if f.Severity != Violation || f.Connection != o.Connection || f.About != 0 && f.About-1 != o.Flow {
		return false
	}
	if len(u.Packets) == 0 && !o.Responder && (endRules[f.Rule] || f.Rule == "gbn.incomplete") {
		return true
	}
	switch existenceRules[f.Rule] {
	case byRequester:
		return !o.Responder
	case byResponder:
		return o.Responder
	default:
	}
	return len(f.Packets) > 0 && len(u.Packets) > 0 && f.Packets[0] == u.Packets[0]
}

// explained reports whether the observer judged the packets of f and found a compliant explanation.
func explained(list []*Observed, f *Finding) bool {
	about := func(o *Observed) bool { return f.About == 0 || o.Flow == f.About-1 }
	proof, judged := match(list, f)
	return judged && proof == nil && slices.ContainsFunc(list, about)
}

// blames reports whether f is a violation of Go-back-N or of the rules of retransmission on some connection.
func (f *Finding) blames() bool {
	transport := strings.HasPrefix(f.Rule, "gbn.") || strings.HasPrefix(f.Rule, "retrans.")
	return transport && f.Severity == Violation && f.Connection > 0
}

// reviewed reports whether f is a violation that an observer decides.
func (f *Finding) reviewed() bool {
	return f.Severity == Violation && existenceRules[f.Rule] != 0 &&
		len(f.Packets) > 0 && f.Connection > 0
}
