package orchestrator

import (
	"context"
	"fmt"
	"strings"

	"candela.dev/candela/analyzers"
	"candela.dev/candela/analyzers/gbn"
	"candela.dev/candela/orchestrator/report"
	"candela.dev/candela/packet"
	"candela.dev/candela/trace"
)

// nothingJudged returns why no rule applies to any packet of a capture; nil if some rule does. Requests make a capture
// judgeable: responses and CNPs are judged by the requests that they answer. A mirror trace is complete, so each of its
// findings counts.
func nothingJudged(ctx context.Context, checked *trace.Checked, a *analyzers.Analysis,
	o AnalyzeOptions) (*trace.UnjudgedError, error) {
	for _, n := range a.Coverage[gbn.Name] {
		if n > 0 {
			return nil, nil
		}
	}
	if checked.Meta().Kind == trace.KindMirror && a.Verdict == analyzers.Fail && !foreign(a, o) {
		return nil, nil
	}
	var c composition
	if err := checked.ForEach(ctx, c.add); err != nil {
		return nil, fmt.Errorf("count what the capture holds: %w", err)
	}
	return &trace.UnjudgedError{Name: o.Trace, Reason: c.reason(), Advice: c.advice(o)}, nil
}

// foreign reports whether all violations are packets of connections that the document does not list. The document may
// then belong to another trace.
func foreign(a *analyzers.Analysis, o AnalyzeOptions) bool {
	if o.Connections == "" {
		return false
	}
	for _, f := range a.Findings {
		if f.Severity == analyzers.Violation && f.Rule != string(gbn.RuleUnknownQP) {
			return false
		}
	}
	return true
}

// A part is a kind of packets that no rule applies to on their own.
type part int

const (
	partResponse part = iota
	partCNP
	partMAD
	partUD
	partUC
	partRD
	partXRC
	partUndefined
	partDamaged
	partStranger
	partRequest
	parts
)

var partNames = [parts][2]string{
	partResponse:  {"response", "responses"},
	partCNP:       {"CNP", "CNPs"},
	partMAD:       {"MAD (management datagram)", "MADs (management datagrams)"},
	partUD:        {"unreliable datagram", "unreliable datagrams"},
	partUC:        {"packet of unreliable connections", "packets of unreliable connections"},
	partRD:        {"reliable datagram", "reliable datagrams"},
	partXRC:       {"packet of extended reliable connections", "packets of extended reliable connections"},
	partUndefined: {"packet with an undefined opcode", "packets with an undefined opcode"},
	partDamaged:   {"packet with a wrong iCRC", "packets with a wrong iCRC"},
	partStranger:  {"packet that belongs to no connection", "packets that belong to no connection"},
	partRequest:   {"request", "requests"},
}

// composition counts the packets of a capture by kind.
type composition [parts]int64

func (c *composition) add(r *trace.Record) error {
	if r.Has(trace.Sent) {
		c[partOf(r)]++
	}
	return nil
}

func partOf(r *trace.Record) part {
	const service = 5 // width of the operation field below the transport service bits
	const gsi = 1     // queue pairs 0 and 1 carry management datagrams
	switch {
	case r.ICRC == packet.ICRCInvalid:
		return partDamaged
	case r.Opcode == packet.CNP:
		return partCNP
	case !r.Opcode.Known():
		switch r.Opcode >> service {
		case 1:
			return partUC
		case 2:
			return partRD
		case 3:
			if r.DestQP <= gsi {
				return partMAD
			}
			return partUD
		case 5:
			return partXRC
		}
		return partUndefined
	case r.Flow == trace.NoFlow:
		return partStranger
	case r.Opcode.IsResponse():
		return partResponse
	}
	return partRequest
}

// reason lists the contents of the capture.
func (c *composition) reason() string {
	var words []string
	for i, n := range c {
		switch {
		case n == 1:
			words = append(words, "1 "+partNames[i][0])
		case n > 1:
			words = append(words, fmt.Sprintf("%d %s", n, partNames[i][1]))
		}
	}
	list := strings.Join(words, ", ")
	if n := len(words); n > 1 {
		list = strings.Join(words[:n-1], ", ") + " and " + words[n-1]
	}
	return "nothing was judged: the capture holds " + list
}

// advice returns what to capture instead.
func (c *composition) advice(o AnalyzeOptions) string {
	switch {
	case c[partStranger] > 0 && o.Connections != "":
		return "--connections names other addresses or queue pairs than the packets: leave it out to infer the " +
			"connections, or give the document of this trace"
	case c[partResponse] > 0:
		return "responses are judged by the requests that they answer: capture both directions of the connection, for " +
			"example on the port of one host"
	case c[partCNP] > 0:
		return "CNPs are judged by the data packets that they answer: capture data packets in both directions, too " +
			"(tcpdump filter: udp port 4791)"
	case c[partDamaged] > 0:
		return "a packet with a wrong iCRC proves nothing: capture with whole packets, before a device that changes them"
	case c[partMAD] > 0:
		return "management datagrams set connections up: capture while the test runs, both directions"
	}
	return "Candela judges the reliable connection service (RC): capture traffic of RC queue pairs, both directions"
}

// unjudgedRule is the rule of the only finding of a capture without a verdict.
const unjudgedRule = integrityAnalyzer + ".unjudged"

// unjudgedCapture returns the outcome of a capture without a verdict.
func unjudgedCapture(o AnalyzeOptions, notes []string, why *trace.UnjudgedError) *Outcome {
	verdict := judge(evidence{integrity: []string{why.Text()}})
	doc := &analyzers.Analysis{
		Schema: analyzers.Schema, Verdict: analyzers.Invalid, PacketIDs: trace.PacketIDsFrame,
		Findings: []analyzers.Finding{{
			Analyzer: integrityAnalyzer, Rule: unjudgedRule, Clause: "docs/reference/formats.md, Exit status",
			Severity: analyzers.Violation,
			Packets:  []uint64{}, Expected: "packets that a rule is about", Actual: why.Reason, Message: why.Text(),
		}},
		Metrics: []analyzers.Metric{}, Coverage: map[string]map[string]int64{},
	}
	doc.Findings[0].Because(causeUnjudged(why.Reason))
	rep := &report.Report{
		Name: o.Trace, Notes: notes, Facts: []report.Fact{{Name: "tool", Value: o.Version}},
		Verdict: verdict.Verdict, Reasons: verdict.Reasons, PacketIDs: trace.PacketIDsFrame,
	}
	return &Outcome{Verdict: verdict, Report: rep, Analysis: doc}
}
