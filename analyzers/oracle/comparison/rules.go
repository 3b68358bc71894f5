package comparison

import (
	"candela.dev/candela/analyzers"
	"candela.dev/candela/analyzers/oracle"
)

// side says which endpoint breaks a rule.
type side int

const (
	requester side = iota + 1
	responder
	sender   // the sender of the first packet of the finding
	either   // the rule is about the connection as a whole
	excluded // about fields that the oracle does not see
)

// sides is the table of rules by endpoint. Excluded ones need fields that the oracle does not have, or judge times that
// the standard does not bound.
var sides = map[string]side{
	"gbn.ack-beyond": responder, "gbn.ack-decreasing": responder, "gbn.ack-missing": responder, "gbn.after-error": sender,
	"gbn.atomic-unexpected": responder, "gbn.capture-gap": sender, "gbn.dma-length": requester, "gbn.icrc": excluded,
	"gbn.incomplete": either, "gbn.msn": responder, "gbn.nak-code": excluded, "gbn.nak-duplicate": responder,
	"gbn.nak-fatal-missing": responder, "gbn.nak-missing": responder, "gbn.nak-psn": responder,
	"gbn.nak-repeat":     responder,
	"gbn.nak-unanswered": requester, "gbn.nak-unprovoked": responder, "gbn.opcode-sequence": requester,
	"gbn.p-key-changed": excluded,
	"gbn.pad-count":     excluded, "gbn.payload-length": sender, "gbn.psn-skip": requester, "gbn.read-length": responder,
	"gbn.read-missing": responder, "gbn.read-opcode": responder, "gbn.read-order": responder,
	"gbn.read-restart":    requester,
	"gbn.read-unexpected": responder, "gbn.replay-opcode": excluded, "gbn.resend-acknowledged": requester,
	"gbn.retransmit-changed": requester, "gbn.retransmit-first": requester, "gbn.retry-exceeded": requester,
	"gbn.rnr-early": requester,
	"gbn.rnr-timer": excluded, "gbn.rnr-unprovoked": responder, "gbn.round-gap": requester, "gbn.solicited": excluded,
	"gbn.syndrome": excluded, "gbn.timeout-early": requester, "gbn.timeout-start": requester, "gbn.unknown-qp": excluded,

	"retrans.atomic-replay": responder, "retrans.retry-exceeded": requester, "retrans.rnr-early": requester,
	"retrans.rnr-retry-exceeded": requester, "retrans.timeout-early": requester, "retrans.timeout-late": excluded,
	"retrans.ack-silence": excluded, "retrans.nak-silence": excluded,
	"retrans.timer-off": requester,
}

// atTheEnd are rules that report something missing at the end. In an open trace they may be wrong, and the analyzers
// cannot know that it is open.
var atTheEnd = map[string]bool{
	"gbn.incomplete": true, "gbn.ack-missing": true, "gbn.read-missing": true, "gbn.nak-missing": true,
	"gbn.nak-unanswered":    true,
	"gbn.nak-fatal-missing": true,
}

// blamed is what findings say of each endpoint.
type blamed struct {
	worst [2]oracle.Verdict
	rule  [2]string
	// either is what findings say of the connection as a whole, or of its end. It is right if one of the endpoints is at
	// fault.
	either        oracle.Verdict
	eitherRule    string
	eitherExcused bool
	atEnd         oracle.Verdict // of findings that something is missing at the end
	atEndRule     string
}

// attribute sorts the findings about the requests of one host.
func attribute(t *oracle.Trace, findings []analyzers.Finding, other bool) blamed {
	b := blamed{eitherExcused: true}
	for i := range findings {
		f := &findings[i]
		v := severity(f)
		if v == oracle.Possible || aboutOther(t, f) != other {
			continue
		}
		s, known := sides[f.Rule]
		if !known {
			s = sender // a new rule: the sender of the packet
		}
		if s == excluded {
			continue
		}
		if (s == either || atTheEnd[f.Rule]) && v > b.atEnd {
			b.atEnd, b.atEndRule = v, f.Rule
		}
		if s == either || !t.View.Closed && atTheEnd[f.Rule] {
			// The network may cause a connection to fail: only the test knows whether it should.
			b.eitherExcused = b.eitherExcused && (!t.View.Closed || f.Rule == "gbn.incomplete")
			if v > b.either {
				b.either, b.eitherRule = v, f.Rule
			}
			continue
		}
		e := oracle.Requester
		if s == responder || s == sender && len(f.Packets) > 0 && sentBack(t, f.Packets[0]) != other {
			e = oracle.Responder
		}
		if v > b.worst[e] {
			b.worst[e], b.rule[e] = v, f.Rule
		}
	}
	return b
}

// aboutOther reports whether a finding is about the requests of the second host.
func aboutOther(t *oracle.Trace, f *analyzers.Finding) bool {
	if len(f.Packets) == 0 || f.Packets[0] < 1 || f.Packets[0] > uint64(len(t.Packets)) {
		return oracle.OtherPSN(f.PSNAbs)
	}
	p := &t.Packets[f.Packets[0]-1]
	return p.Op.IsRequest() == p.Back
}

func sentBack(t *oracle.Trace, id uint64) bool {
	return id >= 1 && id <= uint64(len(t.Packets)) && t.Packets[id-1].Back
}

func severity(f *analyzers.Finding) oracle.Verdict {
	switch f.Severity {
	case analyzers.Violation:
		return oracle.Violation
	case analyzers.Warning:
		return oracle.Warning
	default:
		return oracle.Possible
	}
}

// of returns what was said of an endpoint, and by which rule. A finding about the connection counts where it is
// deserved; an exchange that stops half-way is one finding, even if both endpoints are at fault.
func (b *blamed) of(e oracle.Endpoint, d oracle.Decision) (oracle.Verdict, string) {
	if b.either > b.worst[e] && d.Verdict > b.worst[e] {
		return min(b.either, d.Verdict), b.eitherRule
	}
	if d.At < 0 && b.atEnd > b.worst[e] && d.Verdict > b.worst[e] {
		return min(b.atEnd, d.Verdict), b.atEndRule
	}
	return b.worst[e], b.rule[e]
}
