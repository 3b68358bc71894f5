package fields

import (
	"fmt"

	"candela.dev/candela/analyzers"
	"candela.dev/candela/analyzers/cause"
	"candela.dev/candela/analyzers/rounds"
	"candela.dev/candela/packet"
	"candela.dev/candela/trace"
)

// maxRepeats bounds how many retransmissions of a trace have their payload compared.
const maxRepeats = 1 << 16

// freshNS is how long before a READ response passes the observer its data may have been read, or how long after a WRITE
// passes it may be executed.
const freshNS = 10_000_000

// repeat is a packet that was sent before.
type repeat struct {
	this, before int64 // when it passed, and the transmission before it
	place        int64
	flow         trace.FlowID
	psn          packet.PSN
	opcode       packet.Opcode
	changed      bool // what a READ returns may have changed
}

// repeated notes a retransmission.
func (a *Analyzer) repeated(r *trace.Record, step *rounds.Step) {
	if !step.Prev.Known || step.Prev.NS == r.TimeNS {
		return
	}
	if len(a.repeats) == maxRepeats {
		a.skipped++
		return
	}
	a.repeats = append(a.repeats, repeat{
		this: r.TimeNS, before: step.Prev.NS, place: step.Place, flow: r.Flow, psn: r.PSN, opcode: r.Opcode,
		changed: r.Opcode.IsResponse() && a.changedNS[a.hosts[r.Flow]] >= step.Prev.NS-freshNS,
	})
}

// Compare implements analyzers.Comparer: of each retransmission it wants two payloads.
func (a *Analyzer) Compare() []trace.Sighting {
	list := make([]trace.Sighting, 0, 2*len(a.repeats))
	for i := range a.repeats {
		p := &a.repeats[i]
		list = append(list, trace.Sighting{Flow: p.flow, PSN: p.psn, TimeNS: p.before},
			trace.Sighting{Flow: p.flow, PSN: p.psn, TimeNS: p.this})
	}
	return list
}

// Compared implements analyzers.Comparer.
func (a *Analyzer) Compared(list []trace.Payload) {
	for i := range a.repeats {
		if before, this := &list[2*i], &list[2*i+1]; before.Len == this.Len && before.Hash.Differs(this.Hash) {
			a.differs(&a.repeats[i], before, this)
		}
	}
	if a.skipped > 0 && a.report.Wants(RuleNotCompared, 0) {
		a.report.Tell(causeNotCompared(a.skipped), analyzers.Finding{
			TimeNS: a.meta.EndNS, Expected: "all retransmissions compared",
			Actual:  fmt.Sprintf("%d compared, %d not", len(a.repeats), a.skipped),
			Message: "the trace has more retransmissions than are compared; analyse a part of it (candela trace slice)",
		})
	}
}

// sender returns who repeated a packet.
func sender(p *repeat) subject { return cause.Sender(&trace.Record{Flow: p.flow, Opcode: p.opcode}) }

// differs reports a retransmission with another payload.
func (a *Analyzer) differs(p *repeat, before, this *trace.Payload) {
	why := causePayloadChanged
	if p.opcode.IsResponse() {
		why = causeReadChanged
	}
	rule := RulePayloadChanged
	if p.opcode.IsResponse() {
		if p.changed {
			return
		}
		rule = RuleReadChanged
	}
	connection := p.flow.Connection()
	if !a.report.Wants(rule, connection) {
		return
	}
	f := analyzers.Finding{
		Connection: connection, Packets: []uint64{this.ID, before.ID}, TimeNS: p.this, PSN: p.place,
		PSNAbs:   uint32(p.psn),
		Expected: fmt.Sprintf("the payload of the original packet, hash %v", before.Hash),
		Actual:   fmt.Sprintf("%v with another payload, hash %v", p.opcode, this.Hash),
		Message:  statement(rule),
	}
	if rule == RulePayloadChanged && a.meta.Kind != trace.KindMirror && a.meta.Connections.Inferred {
		f.Doubt(analyzers.Warning, " Or the application changed the memory before the request was completed, or the queue "+
			"pair was connected anew.")
	}
	a.report.Tell(why(sender(p), p.opcode, psn(p.place)), f)
}
