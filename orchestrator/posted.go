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

// tickNS bounds how early a kernel timer may fire, in ns. It counts ticks of 4 ms, rounds down, and starts within a
// tick.
const tickNS = 10_000_000

// earlyRules are the rules against a timeout that fires before T.
var earlyRules = []string{"gbn.timeout-early", "retrans.timeout-early"}

// proveTimes returns the findings of early timeouts on software hosts that the packet order proves: the proof by the
// number of the retransmission.
//
// A span between two packets of a software host proves nothing, because either packet may have been delayed. With one
// outstanding message (tx-depth 1) the next message is posted only after the answer to the previous one has passed the
// switch. The timer of the new message therefore started after that answer, whatever the delays.
func proveTimes(ctx context.Context, checked *trace.Checked, t *config.Test, a *analyzers.Analysis) (map[uint64]string,
	error) {
	early := func(f analyzers.Finding) bool {
		return slices.Contains(earlyRules, f.Rule) && f.Severity == analyzers.Violation
	}
	// Nobody knows when an application posts.
	if t.Traffic.TxDepth != 1 || t.Traffic.External != nil || !slices.ContainsFunc(a.Findings, early) {
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

// postings tracks the earliest time at which each message can have been posted.
type postings struct {
	timeoutNS int64
	flows     []posting // by the FlowID of the requests
	wanted    map[uint64]bool
	proofs    map[uint64]string
}

type posting struct {
	started  bool
	highest  packet.PSN // of requests
	first    packet.PSN // of the latest message
	known    bool       // sinceNS is valid
	sinceNS  int64      // when the answer that completes the previous message passed the switch
	answered bool
	through  packet.PSN // last PSN answered
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

// answer records that everything up to a PSN is answered.
func (f *posting) answer(r *trace.Record) {
	switch {
	case r.Event.Loses():
		return // the requester does not receive it
	case r.Event.Edits():
		f.answered = false // the requester may have received any value
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

// request records a new message. Retransmissions are ignored.
func (f *posting) request(r *trace.Record) {
	if f.started && !f.highest.Before(r.PSN) {
		return
	}
	if r.Opcode.Starts() {
		f.first = r.PSN
		// A READ request in the middle of a READ's response PSNs is a retry, not a new message.
		f.known, f.sinceNS = f.answered && f.through == r.PSN.Add(-1) && r.Opcode != packet.ReadRequest, f.answerNS
	}
	f.started, f.highest = true, r.PSN
}

// prove records a proof if the packet order shows that the timer of a retransmission ran for less than T.
func (p *postings) prove(f *posting, r *trace.Record) {
	passed := r.TimeNS - f.sinceNS
	if !f.known || r.PSN.Before(f.first) || passed >= p.timeoutNS-tickNS {
		return
	}
	p.proofs[r.ID] = fmt.Sprintf("the order of packets proves it: this message was posted after the answer to the one "+
		"before, which passed the switch only %v ago",
		time.Duration(passed).Round(time.Microsecond))
}
