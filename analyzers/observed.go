package analyzers

import (
	"slices"

	"candela.dev/candela/trace"
)

// Observed is what an observer of a single capture knows of one endpoint of a connection: what that endpoint can't have sent, and
// where it was not judged.
type Observed struct {
	Connection int
	Flow       trace.FlowID // of the requests
	Responder  bool         // the endpoint that answers requests; otherwise the one that sends them
	// Short says that no more packets were seen than those in which a tap is not expected to miss more than two.
	Short bool
	// AtRest says that what is missing at the end was judged, too.
	AtRest bool
	// Confirms says that it acted on a frame that the other endpoint seems not to have sent: so the tap missed one.
	Confirms bool
	// Unexplained holds a finding for each packet that the endpoint can't have sent: a violation if not even frames that the tap
	// missed explain it, else a warning. One without packets is about the end of the trace.
	Unexplained []Finding
	// Blind are the packets in which the endpoint was not judged, because too much was unknown.
	Blind []Span
}

// A Span is a range of packets, by their ids. To is the first one after it; 0: the range is open.
type Span struct{ From, To uint64 }

func (o *Observed) blindAt(id uint64) bool {
	return slices.ContainsFunc(o.Blind, func(s Span) bool { return id >= s.From && (id < s.To || s.To == 0) })
}

// An existence says which endpoint breaks a rule about what can have been received, sent or owed. Of a single capture the observer
// knows that best.
type existence uint8

const (
	byRequester existence = iota + 1
	byResponder
	bySender // of the packet
)

// existenceRules are the rules that the observer weighs. Rules on other fields of packets stay as they are.
var existenceRules = map[string]existence{
	"gbn.ack-beyond": byResponder, "gbn.ack-decreasing": byResponder, "gbn.ack-missing": byResponder,
	"gbn.atomic-unexpected": byResponder, "gbn.msn": byResponder, "gbn.nak-duplicate": byResponder, "gbn.nak-fatal-missing": byResponder,
	"gbn.nak-missing": byResponder, "gbn.nak-psn": byResponder, "gbn.nak-repeat": byResponder, "gbn.nak-unprovoked": byResponder,
	"gbn.read-missing": byResponder, "gbn.read-length": byResponder, "gbn.read-opcode": byResponder, "gbn.read-order": byResponder, "gbn.read-unexpected": byResponder,
	"gbn.rnr-unprovoked": byResponder, "retrans.atomic-replay": byResponder,
	"gbn.nak-unanswered": byRequester, "gbn.opcode-sequence": byRequester, "gbn.psn-skip": byRequester,
	"gbn.resend-acknowledged": byRequester, "gbn.retransmit-first": byRequester, "gbn.retry-exceeded": byRequester,
	"gbn.rnr-early": byRequester, "gbn.round-gap": byRequester, "gbn.timeout-early": byRequester, "gbn.timeout-start": byRequester,
	"retrans.retry-exceeded": byRequester, "retrans.rnr-early": byRequester, "retrans.rnr-retry-exceeded": byRequester,
	"retrans.timeout-early": byRequester,
	"gbn.after-error":       bySender, "gbn.capture-gap": bySender,
}

// endRules are those of them that claim that something is still to come.
var endRules = map[string]bool{
	"gbn.ack-missing": true, "gbn.nak-fatal-missing": true, "gbn.nak-missing": true, "gbn.nak-unanswered": true, "gbn.read-missing": true,
}

// endpointKey names one endpoint of one connection.
type endpointKey struct {
	connection int
	responder  bool
}

// weigh gives findings about a single capture the severity that the observer knows, and adds what only the observer has found.
// Unseen is how many frames are known to be missing.
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
	}
	told := map[*Finding]bool{}
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
			if told[proof] && f.Severity == Note {
				continue
			}
			if f.Rule == "gbn.capture-gap" && proof.Severity == Violation {
				continue
			}
			told[proof] = true
			f.weighted(proof.Severity)
		} else if judged && f.Severity != Note {
			f.Severity = Note
			f.Message += " A frame that was lost after the tap explains this."
		} else if !judged && f.Severity == Violation && !complete && unseenExplains[f.Rule] {
			f.soften()
		}
	}
	a.addUnexplained(told)
}

// expectedUnseen is how many frames a tap may have missed without being known for it.
const expectedUnseen = 2

// showsUnseen reports whether in some session both endpoints act on a frame that the capture lacks.
func (a *Analysis) showsUnseen() bool {
	for _, endpoints := range a.warned() {
		if endpoints == bothEndpoints {
			return true
		}
	}
	return false
}

const bothEndpoints = 3

// warned returns by flow of the requests which endpoints act as if the capture lacked a frame: the requester (1), the responder (2).
func (a *Analysis) warned() map[trace.FlowID]int {
	warned := map[trace.FlowID]int{}
	for i := range a.Observed {
		o := &a.Observed[i]
		if slices.ContainsFunc(o.Unexplained, func(f Finding) bool { return f.Severity == Warning }) {
			bit := 1
			if o.Responder {
				bit = 2
			}
			warned[o.Flow] |= bit
		}
		if o.Confirms {
			warned[o.Flow] |= bothEndpoints
		}
	}
	return warned
}

// doubtViolations makes warnings of what no two unseen frames explain, where more are known to be missing or other packets show it: in
// some connection both endpoints behave as if a frame had passed that the capture lacks. That a single guilty device does not bring
// about. A short session does not testify for itself.
func (a *Analysis) doubtViolations(unseen int64) {
	testify := map[int]bool{} // connections of which both endpoints do
	for flow, bits := range a.warned() {
		if bits == bothEndpoints {
			testify[flow.Connection()] = true
		}
	}
	for i := range a.Observed {
		o := &a.Observed[i]
		if unseen <= expectedUnseen && (len(testify) == 0 || len(testify) == 1 && testify[o.Connection] && o.Short) {
			continue
		}
		for j := range o.Unexplained {
			o.Unexplained[j].Severity = Warning
		}
	}
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

// addUnexplained adds what no analyzer has told.
func (a *Analysis) addUnexplained(told map[*Finding]bool) {
	for i := range a.Observed {
		for j := range a.Observed[i].Unexplained {
			u := &a.Observed[i].Unexplained[j]
			if told[u] {
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
