// Package conformance qualifies a NIC against the transport rules of IBTA volume 1, chapter 9 (reliable connection),
// and annex A17 (RoCEv2) that an observer of packets can check. For each rule the catalogue has the test that
// stimulates it, the evidence in the trace that the situation occurred, and the findings of analyzers that break it. A
// rule without that evidence is not exercised; silence alone is never a pass.
package conformance

import (
	"path"
	"strconv"
)

// A Rule is one statement of the specification that is visible on the wire.
type Rule struct {
	ID     string `json:"id"`
	Clause string `json:"clause"` // of IBTA volume 1, or of annex A17
	// SectionOnly says that the clause is the section of the rule, not the paragraph.
	SectionOnly bool     `json:"section_only,omitempty"`
	Verbs       []string `json:"verbs"` // to which it applies
	Statement   string   `json:"statement"`
	Stimulus    string   `json:"stimulus"`
	Test        string   `json:"test"` // name of a file in configs/conformance
	// Adaptive switches adaptive retransmission on for the test; NICs without it do not exercise the rule.
	Adaptive bool       `json:"adaptive,omitempty"`
	Evidence []Evidence `json:"evidence"` // all of it proves that the situation occurred
	// Judges are the analyzers' rules whose findings break this one, and expectations of the test (expect.…) that must be
	// met. Warnings count: what is milder for a test run is still a breach of the clause.
	Judges []string `json:"judges"`
	// Basis names what the rule depends on besides the clause: DCQCN, which the annex leaves to implementations, or a
	// bound that the user or the profile sets. Empty: the clause requires it.
	Basis string `json:"basis,omitempty"`
	// Bound is the latency that the suite bounds in the test; its judge is the expectation of the same name.
	Bound Bound `json:"bound,omitempty"`
	// Everywhere says that the rule applies in every situation: its judges count in the runs of all rules.
	Everywhere bool `json:"everywhere,omitempty"`
}

// run names the run of a rule: rules with the same one share it.
func (r *Rule) run() string {
	if r.Adaptive {
		return r.Test + adaptiveSuffix
	}
	return r.Test
}

// What a rule may depend on besides the specification.
const (
	basisDCQCN = "DCQCN (SIGCOMM 2015); the annex leaves the reaction to the implementation"
	basisScope = "the scope of pacing that the NIC documents; the annex leaves pacing to the implementation"
	basisBound = "a bound that the user or the profile sets; the specification has none"
)

// Bound names a latency that the suite bounds. The specification bounds none.
type Bound string

// Latencies that can be bounded.
const (
	Unbounded     Bound = ""
	NAKBound      Bound = "nak"      // from the first packet after a gap to the NAK
	ReactionBound Bound = "reaction" // from the NAK to the retransmission
)

const adaptiveSuffix = "-adaptive"

// Evidence is something that a run must show.
type Evidence struct {
	Kind  Kind   `json:"kind"`
	Name  string `json:"name"`
	Least int64  `json:"least"` // how often
}

// Kind says where evidence is found.
type Kind string

// Kinds of evidence.
const (
	Events     Kind = "events"     // every event of the test fired; Name is empty
	Transition Kind = "transition" // a transition of the Go-back-N machines was taken; * in Name stands for anything
	Restart    Kind = "restart"    // the requester went back for this reason, in the words of the analyzer retrans
	Measured   Kind = "measured"   // a metric has values
	Packets    Kind = "packets"    // packets or situations of a [census] were seen
)

// String says in words what is missing if the evidence is.
func (e Evidence) String() string {
	times := ""
	if e.Least > 1 {
		times = " " + strconv.FormatInt(e.Least, 10) + " times"
	}
	switch e.Kind {
	case Transition:
		return "transition “" + e.Name + "”" + times
	case Restart:
		return "restart by " + e.Name + times
	case Measured:
		return "a value of " + e.Name + times
	case Packets:
		return e.Name + times
	case Events:
	}
	return "every event of the test"
}

// matches reports whether a transition is meant by the evidence.
func (e Evidence) matches(transition string) bool {
	ok, err := path.Match(e.Name, transition)
	return err == nil && ok
}

func events() Evidence                          { return Evidence{Events, "", 1} }
func transition(name string) Evidence           { return Evidence{Transition, name, 1} }
func transitions(name string, n int64) Evidence { return Evidence{Transition, name, n} }
func restart(cause string) Evidence             { return Evidence{Restart, cause, 1} }
func measured(metric string) Evidence           { return Evidence{Measured, metric, 1} }
func seen(what string) Evidence                 { return Evidence{Packets, what, 1} }
func seenTimes(what string, n int64) Evidence   { return Evidence{Packets, what, n} }
