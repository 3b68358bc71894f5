package analyzers

import (
	"slices"

	"candela.dev/candela/analyzers/bounds"
	"candela.dev/candela/trace"
)

// Observed is what the observer of a single capture knows of one endpoint of a connection.
type Observed struct {
	Connection int
	Flow       trace.FlowID // of the requests
	Responder  bool         // the endpoint that answers requests; otherwise the one that sends them
	// Vouched says that the tap saw all that this endpoint sent and received.
	Vouched bool
	// Away says that the network may have lost frames of this endpoint before the tap.
	Away bool
	// Short says that the trace is so short that a tap is not expected to miss more than two of its packets.
	Short bool
	// Certain says that unknown delays and timers of hosts were not assumed: what is unexplained is certain.
	Certain bool
	// AtRest says that what is missing at the end was judged, too.
	AtRest bool
	// Missed says that the responder counted a message whose last packet the tap did not see, which proves that the tap
	// missed frames.
	Missed bool
	// Doubted are the packets around those with which the responder acted on a request that the tap did not see. Either
	// the tap missed it, or the responder accepts gaps.
	Doubted []Span
	// Unexplained holds a finding for each packet that the endpoint cannot have sent: a warning if frames that the tap
	// missed explain it, else a violation. A finding without packets is about the end of the trace.
	Unexplained []Finding
	// Blind are the packets during which too much was unknown to judge the endpoint.
	Blind []Span
}

// A Span is a range of packets, by their ids. To is the first one after it; 0: the range is open.
type Span struct{ From, To uint64 }

func (o *Observed) blindAt(id uint64) bool { return slices.ContainsFunc(o.Blind, Span{id, id}.in) }

// doubts reports whether the packets of f, or the end of the trace if it has none, are in doubt.
func (o *Observed) doubts(f *Finding) bool {
	switch {
	case o == nil:
		return false
	case len(f.Packets) == 0:
		return slices.ContainsFunc(o.Doubted, func(s Span) bool { return s.To == 0 })
	}
	return slices.ContainsFunc(o.Doubted, Span{f.Packets[0], f.Packets[0]}.in)
}

// in reports whether all packets of s are in o.
func (s Span) in(o Span) bool { return s.From >= o.From && (s.To < o.To || o.To == 0) }

// An existence is the endpoint that breaks a rule about what was received, sent or owed. For a single capture the
// observer decides such findings.
type existence uint8

const (
	byRequester existence = iota + 1
	byResponder
	bySender // of the packet
)

// existenceRules are the rules that the observer decides.
var existenceRules = map[string]existence{
	"gbn.ack-beyond": byResponder, "gbn.ack-decreasing": byResponder, "gbn.ack-missing": byResponder,
	"gbn.atomic-unexpected": byResponder, "gbn.msn": byResponder, "gbn.nak-duplicate": byResponder,
	"gbn.nak-fatal-missing": byResponder,
	"gbn.nak-missing":       byResponder, "gbn.nak-psn": byResponder, "gbn.nak-repeat": byResponder,
	"gbn.nak-unprovoked": byResponder,
	"gbn.read-missing":   byResponder, "gbn.read-length": byResponder, "gbn.read-opcode": byResponder,
	"gbn.read-order": byResponder, "gbn.read-unexpected": byResponder,
	"gbn.rnr-unprovoked": byResponder, "retrans.atomic-replay": byResponder,
	"gbn.nak-unanswered": byRequester, "gbn.opcode-sequence": byRequester, "gbn.psn-skip": byRequester,
	"gbn.resend-acknowledged": byRequester, "gbn.retransmit-first": byRequester, "gbn.retry-exceeded": byRequester,
	"gbn.rnr-early": byRequester, "gbn.round-gap": byRequester, "gbn.timeout-early": byRequester,
	"gbn.timeout-start":      byRequester,
	"retrans.retry-exceeded": byRequester, "retrans.rnr-early": byRequester, "retrans.rnr-retry-exceeded": byRequester,
	"retrans.timeout-early": byRequester,
	"gbn.after-error":       bySender, "gbn.capture-gap": bySender,
}

// LostFirst reports whether requests lost before the tap, however many, explain a breach of rule. A network may lose
// more than two; a tap is not expected to miss more.
func LostFirst(rule string) bool {
	return rule == "gbn.psn-skip" || rule == "gbn.round-gap" || rule == "gbn.retransmit-first" ||
		rule == "gbn.resend-acknowledged"
}

// endRules are those existence rules that report something missing.
var endRules = map[string]bool{
	"gbn.ack-missing": true, "gbn.nak-fatal-missing": true, "gbn.nak-missing": true, "gbn.nak-unanswered": true,
	"gbn.read-missing": true,
}

// endpointKey names one endpoint of one connection.
type endpointKey struct {
	connection int
	responder  bool
}

// weigh sets the severity of findings about a single capture to what the observer knows, and adds what only the
// observer found. Unseen is the number of frames known to be missing.
func (a *Analysis) weigh(complete bool, unseen int64) {
	seen := map[endpointKey][]*Observed{}
	sender := map[uint64]endpointKey{}
	for i := range a.Observed {
		o := &a.Observed[i]
		key := endpointKey{o.Connection, o.Responder}
		seen[key] = append(seen[key], o)
		for j := range o.Unexplained {
			if p := o.Unexplained[j].Packets; len(p) > 0 {
				sender[p[0]] = key
			}
		}
	}
	if !complete {
		a.doubtViolations(unseen)
		a.doubtSkips()
	}
	reported := map[*Finding]bool{}
	for i := range a.Findings {
		f := &a.Findings[i]
		key := endpointKey{f.Connection, existenceRules[f.Rule] == byResponder}
		switch existenceRules[f.Rule] {
		case 0:
			continue
		case bySender:
			if len(f.Packets) == 0 {
				continue
			}
			key = sender[f.Packets[0]]
		case byRequester, byResponder:
		}
		if proof, judged := match(seen[key], f); proof != nil {
			if reported[proof] && f.Severity == Note {
				continue
			}
			if f.Rule == "gbn.capture-gap" && proof.Severity == Violation {
				continue
			}
			reported[proof] = true
			f.weighted(proof.Severity)
		} else if judged && f.Severity != Note {
			f.Doubt(Note, " A frame that was lost after the tap explains this.")
		} else if !judged && f.Severity == Violation && !complete && unseenExplains[f.Rule] {
			f.soften()
		}
	}
	a.addUnexplained(reported)
}

// showsUnseen reports whether on some flow both endpoints may have acted on frames that the capture lacks. A second
// capture decides.
func (a *Analysis) showsUnseen() bool {
	for _, endpoints := range a.warnedEndpoints(nil) {
		if endpoints == bothEndpoints {
			return true
		}
	}
	return slices.ContainsFunc(a.Observed, func(o Observed) bool { return len(o.Doubted) > 0 })
}

// ownFrames are the rules whose breach is explained by a request lost before the tap. If the responder accepts gaps,
// such a breach does not prove that the tap missed a frame.
var ownFrames = map[string]bool{"gbn.psn-skip": true, "gbn.round-gap": true, "gbn.opcode-sequence": true}

// burstRules are the rules whose breach any number of consecutive unseen frames may explain: what one endpoint seems to
// leave out the other has received, so that both seem to break a rule.
var burstRules = map[string]bool{
	"gbn.ack-beyond": true, "gbn.read-order": true, "gbn.resend-acknowledged": true, "gbn.retransmit-first": true,
	"gbn.psn-skip":  true,
	"gbn.round-gap": true,
}

// countRule is the rule about the number of messages. A responder that accepts a gap does not know how many messages
// were in it.
const countRule = "gbn.msn"

// doubtViolations makes warnings of violations that two unseen frames do not explain, where more frames are known to be
// missing or other packets show it. If a responder acts on requests that the tap did not see, either it accepts gaps or
// the tap missed frames:
//   - If it miscounts messages there, it accepts gaps: nothing is in doubt.
//   - If it counts messages that the tap did not see, the tap missed frames: everything is in doubt.
//   - Otherwise everything is in doubt if other connections lack frames, too, else only what is near. A short session
//     is not evidence for itself.
func (a *Analysis) doubtViolations(unseen int64) {
	doubted := map[trace.FlowID]*Observed{}
	accepts := false
	for i := range a.Observed {
		o := &a.Observed[i]
		if len(o.Doubted) == 0 {
			continue
		}
		doubted[o.Flow] = o
		accepts = accepts || slices.ContainsFunc(o.Unexplained, func(f Finding) bool {
			return f.Rule == countRule && f.Severity == Violation && o.doubts(&f)
		})
	}
	proven := a.provenUnseen(doubted)
	elsewhere := slices.ContainsFunc(a.Observed, func(o Observed) bool { return doubted[o.Flow] == nil && o.warned(true) })
	if accepts {
		clear(doubted)
	}
	for i := range a.Observed {
		o := &a.Observed[i]
		if o.Vouched {
			continue
		}
		all := unseen > bounds.UnseenFrames || proven(o) || len(doubted) > 1 || len(doubted) == 1 && elsewhere
		for j := range o.Unexplained {
			if f := &o.Unexplained[j]; all || !o.Short && f.Rule != countRule && doubted[o.Flow].doubts(f) {
				f.Severity = Warning
			}
		}
	}
}

// doubtSkips makes warnings of skipped requests of hosts that are not at the tap. It comes last: losses in the network
// do not show that the tap missed frames.
func (a *Analysis) doubtSkips() {
	for i := range a.Observed {
		o := &a.Observed[i]
		for j := range o.Unexplained {
			if f := &o.Unexplained[j]; o.Away && LostFirst(f.Rule) {
				f.Severity = Warning
			}
		}
	}
}

// warned reports whether unseen frames explain a packet of the endpoint. With lost, frames lost before the tap do not
// count.
func (o *Observed) warned(lost bool) bool {
	return slices.ContainsFunc(o.Unexplained, func(f Finding) bool {
		return (f.Severity == Warning || burstRules[f.Rule]) && !(lost && ownFrames[f.Rule])
	})
}

// provenUnseen returns whether other packets prove that the tap missed frames of an endpoint: on some connection the
// requester acted on a response and the responder on a request that the capture lacks, or the responder counted a
// message that the capture lacks. A single faulty device does not cause that, even if the network loses frames before
// the tap. A short session is not evidence for itself.
func (a *Analysis) provenUnseen(doubted map[trace.FlowID]*Observed) func(*Observed) bool {
	testify := map[int]bool{} // connections of which both endpoints do
	for flow, bits := range a.warnedEndpoints(doubted) {
		if bits == bothEndpoints {
			testify[flow.Connection()] = true
		}
	}
	return func(o *Observed) bool {
		return len(testify) > 1 || len(testify) == 1 && (!testify[o.Connection] || !o.Short)
	}
}

const bothEndpoints = 3

// warnedEndpoints returns by flow of the requests which endpoints act as if the capture lacked a frame: 1 the
// requester, 2 the responder.
func (a *Analysis) warnedEndpoints(doubted map[trace.FlowID]*Observed) map[trace.FlowID]int {
	warned := map[trace.FlowID]int{}
	for i := range a.Observed {
		o := &a.Observed[i]
		if o.warned(doubted[o.Flow] != nil) {
			bit := 1
			if o.Responder {
				bit = 2
			}
			warned[o.Flow] |= bit
		}
		if o.Missed {
			warned[o.Flow] |= bothEndpoints
		}
	}
	return warned
}

// weighted gives f the severity that the observer knows.
func (f *Finding) weighted(s Severity) {
	if s == Warning {
		f.soften()
		return
	}
	f.Severity = s
}

// match returns the observer's finding about the packets of f, and whether it judged them.
func match(list []*Observed, f *Finding) (proof *Finding, judged bool) {
	judged = len(list) > 0
	for _, o := range list {
		if f.About != 0 && o.Flow != f.About-1 {
			continue // about the requests of the other host
		}
		for i := range o.Unexplained {
			u := &o.Unexplained[i]
			if len(u.Packets) == 0 {
				if (len(f.Packets) == 0 || endRules[f.Rule]) && proof == nil {
					proof = u
				}
			} else if slices.Contains(f.Packets, u.Packets[0]) && (proof == nil || u.Severity == Violation) {
				proof = u
			}
		}
		if len(f.Packets) == 0 || endRules[f.Rule] {
			judged = judged && o.AtRest
		}
		if len(f.Packets) > 0 {
			judged = judged && !o.blindAt(f.Packets[0])
		}
	}
	return proof, judged
}

// addUnexplained adds what no analyzer has reported.
func (a *Analysis) addUnexplained(reported map[*Finding]bool) {
	for i := range a.Observed {
		for j := range a.Observed[i].Unexplained {
			u := &a.Observed[i].Unexplained[j]
			if reported[u] {
				continue
			}
			f := *u
			if f.Severity == Warning {
				f.soften()
			}
			a.Findings = append(a.Findings, f)
		}
	}
	slices.SortStableFunc(a.Findings, compareFindings)
	a.Verdict = a.verdict()
}
