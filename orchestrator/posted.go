package orchestrator

import (
	"context"
	"fmt"
	"slices"
	"time"

	"candela.dev/candela/analyzers"
	"candela.dev/candela/orchestrator/config"
	"candela.dev/candela/orchestrator/plan"
	"candela.dev/candela/packet"
	"candela.dev/candela/trace"
)

// tickNS is by how much the timer of a kernel may be short of what was asked for: it counts in ticks of 4 ms, rounds
// down, and starts in the middle of one.
const tickNS = 10_000_000

// earlyRules are the rules that a retransmission broke whose timer cannot have run for T.
var earlyRules = []string{"gbn.timeout-early", "retrans.timeout-early"}

// proveTimes returns which findings of software hosts about an early timeout the order of packets proves, with the
// proof, by the number of the retransmission. A span between two packets of such a host proves nothing: either may have
// been held up. But a test that keeps one message outstanding posts the next one when the answer to the last one has
// come, so not before that answer passed the switch. The timer of the new message started later than that, however long
// packets took.
func proveTimes(ctx context.Context, checked *trace.Checked, t *config.Test, a *analyzers.Analysis) (map[uint64]string,
	error) {
	early := func(f analyzers.Finding) bool {
		return slices.Contains(earlyRules, f.Rule) && f.Severity == analyzers.Violation
	}
	if t.Traffic.TxDepth != 1 || !slices.ContainsFunc(a.Findings, early) {
		return nil, nil
	}
	p := postings{
		timeoutNS: plan.AckTimeout(t.Traffic.AckTimeout).Nanoseconds(),
		flows:     make([]posting, 2*checked.Meta().Connections.Len()),
		wanted:    map[uint64]bool{}, proofs: map[uint64]string{},
	}
	for _, f := range a.Findings {
		if early(f) && len(f.Packets) > 0 {
			p.wanted[f.Packets[0]] = true
		}
	}
	if err := checked.ForEach(ctx, p.packet); err != nil {
		return nil, fmt.Errorf("follow what was posted: %w", err)
	}
	return p.proofs, nil
}

// postings follows when messages can have been posted at the earliest.
type postings struct {
	timeoutNS int64
	flows     []posting // by the FlowID of the requests
	wanted    map[uint64]bool
	proofs    map[uint64]string
}

// posting is what is known of the requests of one flow.
type posting struct {
	started  bool
	highest  packet.PSN // of requests
	first    packet.PSN // of the latest message
	known    bool       // sinceNS is
	sinceNS  int64      // the answer that completes the message before it passed the switch
	answered bool
	through  packet.PSN // what was answered
	answerNS int64      // when that answer passed
}

func (p *postings) packet(r *trace.Record) error {
	if r.Flow == trace.NoFlow || int(r.Flow) >= len(p.flows) || r.ICRC == packet.ICRCInvalid {
		return nil
	}
	switch {
	case r.Opcode.IsResponse():
		p.flows[r.Flow.Peer()].answer(r)
	case r.Opcode.IsRequest():
		f := &p.flows[r.Flow]
		f.request(r)
		if p.wanted[r.ID] {
			p.prove(f, r)
		}
	}
	return nil
}

// answer notes that everything through a PSN is answered.
func (f *posting) answer(r *trace.Record) {
	switch {
	case r.Event.Loses():
		return // the requester learns nothing
	case r.Event.Edits():
		f.answered = false // it may have learnt anything
		return
	}
	through := r.PSN
	switch r.Class() {
	case packet.ClassNak, packet.ClassNakInv, packet.ClassNakAcc, packet.ClassNakOp, packet.ClassRNR:
		through = through.Add(-1)
	default:
	}
	if !f.answered || f.through.Before(through) {
		f.answered, f.through, f.answerNS = true, through, r.TimeNS
	}
}

// request notes the first packet of a message that was not seen before.
func (f *posting) request(r *trace.Record) {
	if f.started && !f.highest.Before(r.PSN) {
		return
	}
	if r.Opcode.Starts() {
		f.first = r.PSN
		// A READ names its responses by PSN, too: what is asked for again in the middle of one is no new message.
		f.known, f.sinceNS = f.answered && f.through == r.PSN.Add(-1) && r.Opcode != packet.ReadRequest, f.answerNS
	}
	f.started, f.highest = true, r.PSN
}

// prove says why the timer behind a retransmission cannot have run for T, if the order of packets shows that.
func (p *postings) prove(f *posting, r *trace.Record) {
	passed := r.TimeNS - f.sinceNS
	if !f.known || r.PSN.Before(f.first) || passed >= p.timeoutNS-tickNS {
		return
	}
	p.proofs[r.ID] = fmt.Sprintf("the order of packets proves it: this message was posted after the answer to the one "+
		"before, which passed the switch only %v ago",
		time.Duration(passed).Round(time.Microsecond))
}
