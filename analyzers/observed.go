package analyzers

import (
	"slices"

	"candela.dev/candela/analyzers/bounds"
	"candela.dev/candela/trace"
)

// Observed is what an observer of a single capture knows of one endpoint of a connection: what that endpoint can't have
// sent, and where it was not judged.
type Observed struct {
	Connection int
	Flow       trace.FlowID // of the requests
	Responder  bool         // the endpoint that answers requests; otherwise the one that sends them
	// Vouched says that the tap saw all that this endpoint sent and received.
	Vouched bool
	// Away says that frames of this endpoint may have been lost before the tap.
	Away bool
	// Short says that no more packets were seen than those in which a tap is not expected to miss more than two.
	Short bool
	// Certain says that nothing was assumed of the hosts' delays and timers, where they are not known: what is unexplained
	// then is unexplained for certain.
	Certain bool
	// AtRest says that what is missing at the end was judged, too.
	AtRest bool
	// Missed says that the responder counted a message of which the tap saw no end: so the tap missed frames.
	Missed bool
	// Doubted are the packets around those in which the responder acted on a request that the tap did not see: the tap
	// missed it, or the responder accepts gaps.
	Doubted []Span
	// Unexplained holds a finding for each packet that the endpoint can't have sent: a violation if not even frames that
	// the tap missed explain it, else a warning. One without packets is about the end of the trace.
	Unexplained []Finding
	// Blind are the packets in which the endpoint was not judged, because too much was unknown.
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

// An existence says which endpoint breaks a rule about what can have been received, sent or owed. Of a single capture
// the observer knows that best.
type existence uint8

const (
	byRequester existence = iota + 1
	byResponder
	bySender // of the packet
)

// existenceRules are the rules that the observer weighs. Rules on other fields of packets stay as they are.
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

// LostFirst reports whether any number of requests that were lost before the tap may explain a breach of a rule. More
// than two are nothing unusual there, unlike frames that the tap itself misses.
func LostFirst(rule string) bool {
	return rule == "gbn.psn-skip" || rule == "gbn.round-gap" || rule == "gbn.retransmit-first" ||
		rule == "gbn.resend-acknowledged"
}

// endRules are those of them that claim that something is still to come.
var endRules = map[string]bool{
	"gbn.ack-missing": true, "gbn.nak-fatal-missing": true, "gbn.nak-missing": true, "gbn.nak-unanswered": true,
	"gbn.read-missing": true,
}

// endpointKey names one endpoint of one connection.
type endpointKey struct {
	connection int
	responder  bool
}

// weigh gives findings about a single capture the severity that the observer knows, and adds what only the observer has
// found. Unseen is how many frames are known to be missing.
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
			f.Severity = Note
			f.Message += " A frame that was lost after the tap explains this."
		} else if !judged && f.Severity == Violation && !complete && unseenExplains[f.Rule] {
			f.soften()
		}
	}
	a.addUnexplained(reported)
}

// showsUnseen reports whether in some session both endpoints act on a frame that the capture lacks, or one may: a
// second capture decides.
func (a *Analysis) showsUnseen() bool {
	for _, endpoints := range a.warnedEndpoints(nil) {
		if endpoints == bothEndpoints {
			return true
		}
	}
	return slices.ContainsFunc(a.Observed, func(o Observed) bool { return len(o.Doubted) > 0 })
}

// ownFrames are the rules whose breach a frame of the requester's own explains that was lost before the tap. Beside a
// responder that accepts gaps that is no proof that the tap missed one.
var ownFrames = map[string]bool{"gbn.psn-skip": true, "gbn.round-gap": true, "gbn.opcode-sequence": true}

// burstRules are the rules whose breach any number of unseen frames in a row may explain: what one endpoint seems to
// leave out the other one has, so that both break one of them.
var burstRules = map[string]bool{
	"gbn.ack-beyond": true, "gbn.read-order": true, "gbn.resend-acknowledged": true, "gbn.retransmit-first": true,
	"gbn.psn-skip":  true,
	"gbn.round-gap": true,
}

// countRule is the rule of messages that are counted wrongly. Whoever accepts a gap does not know how many messages
// were in it.
const countRule = "gbn.msn"

// doubtViolations makes warnings of what no two unseen frames explain, where more are known to be missing or other
// packets show it. A responder that acts on requests which the tap did not see either accepts gaps, or shows that the
// tap missed frames:
//   - If it miscounts messages there, it accepts gaps, and nothing is in doubt for it.
//   - If it counts messages that the tap did not see, the tap missed frames, and everything is in doubt.
//   - If neither shows, everything is in doubt if other connections lack frames, too, else what is near. A short
//     session does not testify for itself.
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

// doubtSkips makes warnings of skipped requests of hosts that are not at the tap. It comes last: that a network loses
// frames does not show that the tap missed any.
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

// warned reports whether unseen frames explain something about the endpoint. Lost says that frames lost before the tap
// do not count.
func (o *Observed) warned(lost bool) bool {
	return slices.ContainsFunc(o.Unexplained, func(f Finding) bool {
		return (f.Severity == Warning || burstRules[f.Rule]) && !(lost && ownFrames[f.Rule])
	})
}

// provenUnseen returns whether other packets prove to an endpoint that the tap missed frames: in some connection the
// requester acted on a response and the responder on a request that the capture lacks, or the responder counted a
// message that the capture lacks. That a single guilty device does not bring about, even if the network loses frames
// before the tap. A short session does not testify for itself.
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

// warnedEndpoints returns by flow of the requests which endpoints act as if the capture lacked a frame: the requester
// (1), the responder (2).
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

// match returns what the observer has to say about the packets of f, and whether it judged them.
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
