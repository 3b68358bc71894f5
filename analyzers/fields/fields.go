// Package fields judges what single packets carry beside what package gbn follows: versions, reserved bits, flags, and what must be the same in
// all packets of a connection or in a retransmission.
package fields

import (
	"fmt"

	"candela.dev/candela/analyzers"
	"candela.dev/candela/packet"
	"candela.dev/candela/trace"
)

// Name is that of the analyzer.
const Name = "fields"

// Rules of this package.
const (
	RuleVersion         = "fields.version"
	RuleReserved        = "fields.reserved"
	RuleMigReq          = "fields.mig-req"
	RuleMigReqDiffers   = "fields.mig-req-differs"
	RuleSourcePort      = "fields.source-port"
	RuleRetransmission  = "fields.retransmission"
	RuleAtomicAlignment = "fields.atomic-alignment"
	RuleOpcode          = "fields.opcode"
	RuleNotification    = "fields.notification"
	RulePayload         = "fields.payload"
)

var rules = []analyzers.Rule{
	{ID: RuleVersion, Severity: analyzers.Violation, Clause: "9.2", Statement: "The transport header version of a packet is 0."},
	{ID: RuleReserved, Severity: analyzers.Violation, Clause: "9.2", Statement: "The reserved bits of the BTH are sent as 0."},
	{ID: RuleMigReq, Severity: analyzers.Violation, Clause: "9.2; 17.2.8",
		Statement: "MigReq stays the same in all packets of a side of a connection whose path does not migrate."},
	{ID: RuleMigReqDiffers, Severity: analyzers.Note, Clause: "17.2.8; Lumina (Yu, thesis, Johns Hopkins 2023), section 6.2.2",
		Statement: "Both sides of a connection send the same MigReq. A receiver that looks closer at packets with MigReq = 0 may drop some of them."},
	{ID: RuleSourcePort, Severity: analyzers.Warning, Clause: "RoCEv2 A17.3.1.1",
		Statement: "The UDP source port stays the same in one direction of a connection, so that its packets take one path and stay in order."},
	{ID: RuleRetransmission, Severity: analyzers.Violation, Clause: "9.7.2",
		Statement: "A request that is sent again carries the same immediate data, or the same operands of an atomic operation."},
	{ID: RuleAtomicAlignment, Severity: analyzers.Violation, Clause: "9.4.5", Statement: "The address of an atomic request is a multiple of 8."},
	{ID: RuleOpcode, Severity: analyzers.Violation, Clause: "9.2; table 38",
		Statement: "Packets of a reliable connection carry an opcode that the service defines."},
	{ID: RuleNotification, Severity: analyzers.Violation, Clause: "RoCEv2 A17.9; RFC 3168, 6.1",
		Statement: "A host sets FECN in no packet, BECN in CNPs only, and the congestion mark CE in none."},
	{ID: RulePayload, Severity: analyzers.Violation, Clause: "9.3; 9.7.4.1",
		Statement: "Acknowledgements, atomic requests and their answers, and READ requests carry no payload."},
}

// Rules returns the table of rules.
func Rules() []analyzers.Rule { return append([]analyzers.Rule(nil), rules...) }

// recent is how many requests with immediate data or operands are remembered for each direction.
const recent = 64

// direction is what is known of the packets from one side.
type direction struct {
	seen     bool
	migReq   bool
	port     uint16
	id       uint64 // of the first packet
	remember []request
	next     int
}

// request is one with immediate data or operands.
type request struct {
	psn      packet.PSN
	opcode   packet.Opcode
	operands uint64
	id       uint64
}

// Analyzer implements analyzers.Analyzer.
type Analyzer struct {
	meta   trace.Meta
	flows  []direction
	report *analyzers.Reporter
}

// New returns an analyzer of the trace that meta describes.
func New(meta trace.Meta) *Analyzer {
	return &Analyzer{meta: meta, flows: make([]direction, 2*meta.Connections.Len()), report: analyzers.NewReporter(Name, rules)}
}

// Name implements analyzers.Analyzer.
func (a *Analyzer) Name() string { return Name }

// Packet implements analyzers.Analyzer.
func (a *Analyzer) Packet(r *trace.Record) {
	if r.Flags&trace.Sent == 0 || r.Flow < 0 || int(r.Flow) >= len(a.flows) || r.ICRC == packet.ICRCInvalid {
		return
	}
	if r.Version != 0 || r.Reserved != 0 {
		a.header(r)
	}
	if r.Opcode == packet.CNP {
		return // NICs make them apart from their queue pairs; package cnp judges their form
	}
	d := &a.flows[r.Flow]
	if migReq := r.Flags&trace.MigReq != 0; !d.seen {
		d.seen, d.migReq, d.port, d.id = true, migReq, r.SrcPort, r.ID
	} else if d.migReq != migReq || d.port != r.SrcPort {
		a.changed(r, d, migReq)
	}
	if r.Flags&(trace.FECN|trace.BECN) != 0 || r.ECN == packet.CE {
		a.marked(r)
	}
	switch {
	case r.Opcode == packet.CmpSwap || r.Opcode == packet.FetchAdd:
		a.atomic(r)
		a.again(r, d)
	case r.Opcode.Headers()&packet.HasImmDt != 0:
		a.again(r, d)
	case r.Opcode == packet.Acknowledge || r.Opcode == packet.AtomicAcknowledge || r.Opcode == packet.ReadRequest:
		a.empty(r)
	case !r.Opcode.Known():
		a.found(RuleOpcode, r, "an opcode of the reliable connection service", r.Opcode.String())
	}
}

// found reports a finding about r.
func (a *Analyzer) found(rule string, r *trace.Record, expected, actual string, support ...uint64) {
	connection := r.Flow.Connection()
	if !a.report.Wants(rule, connection) {
		return
	}
	f := analyzers.Finding{
		Rule: rule, Connection: connection, Packets: append([]uint64{r.ID}, support...), TimeNS: r.TimeNS, PSNAbs: uint32(r.PSN),
		Expected: expected, Actual: actual,
	}
	if r.Opcode.Known() {
		f.PSN = a.meta.Connections.RelPSN(r.Flow, r.Opcode.Space(), r.PSN)
	}
	for _, info := range rules {
		if info.ID == rule {
			f.Message = info.Statement
		}
	}
	a.report.Report(f)
}

func (a *Analyzer) header(r *trace.Record) {
	if r.Version != 0 {
		a.found(RuleVersion, r, "transport header version 0", fmt.Sprintf("%v with version %d", r.Opcode, r.Version))
	}
	if r.Reserved != 0 {
		a.found(RuleReserved, r, "reserved bits 0", fmt.Sprintf("%v with 0x%02x beside FECN and BECN and 0x%02x beside the acknowledge request",
			r.Opcode, r.Reserved>>8, r.Reserved&0xff))
	}
}

// changed reports what differs from the packets before, and goes on from r.
func (a *Analyzer) changed(r *trace.Record, d *direction, migReq bool) {
	if d.migReq != migReq {
		a.found(RuleMigReq, r, fmt.Sprintf("MigReq %v, as in the packets before", bit(d.migReq)), fmt.Sprintf("%v with MigReq %v", r.Opcode, bit(migReq)), d.id)
	}
	if d.port != r.SrcPort {
		a.found(RuleSourcePort, r, fmt.Sprintf("UDP source port %d, as in the packets before", d.port), fmt.Sprintf("%v from port %d", r.Opcode, r.SrcPort), d.id)
	}
	d.migReq, d.port, d.id = migReq, r.SrcPort, r.ID
}

func bit(on bool) int {
	if on {
		return 1
	}
	return 0
}

// marked reports marks that a host must not set. Only where the observer is the first switch is a CE mark the host's.
func (a *Analyzer) marked(r *trace.Record) {
	if r.Flags&(trace.FECN|trace.BECN) != 0 {
		a.found(RuleNotification, r, "FECN and BECN 0", fmt.Sprintf("%v with FECN %d, BECN %d", r.Opcode, bit(r.Has(trace.FECN)), bit(r.Has(trace.BECN))))
	}
	if r.ECN == packet.CE && a.meta.Kind == trace.KindMirror && !a.meta.Connections.Inferred {
		a.found(RuleNotification, r, "no congestion mark before the first switch", fmt.Sprintf("%v with CE", r.Opcode))
	}
}

func (a *Analyzer) atomic(r *trace.Record) {
	const size = 8
	if r.VA%size != 0 {
		a.found(RuleAtomicAlignment, r, "an address that is a multiple of 8", fmt.Sprintf("%v at 0x%x", r.Opcode, r.VA))
	}
	a.empty(r)
}

func (a *Analyzer) empty(r *trace.Record) {
	if r.PayloadLen != 0 || r.PadCount != 0 {
		a.found(RulePayload, r, "no payload", fmt.Sprintf("%v with %d bytes and %d bytes of padding", r.Opcode, r.PayloadLen, r.PadCount))
	}
}

// again compares a retransmission with the request that it repeats.
func (a *Analyzer) again(r *trace.Record, d *direction) {
	for i := range d.remember {
		m := &d.remember[i]
		if m.psn != r.PSN || m.opcode != r.Opcode { // another opcode is gbn's business
			continue
		}
		if m.operands != r.Operands {
			what := "immediate data"
			if r.Opcode.Verb() == packet.VerbAtomic {
				what = "operands"
			}
			a.found(RuleRetransmission, r, "the "+what+" of the request that is sent again", fmt.Sprintf("%v with other %s", r.Opcode, what), m.id)
		}
		m.operands, m.id = r.Operands, r.ID
		return
	}
	if d.remember == nil {
		d.remember = make([]request, 0, recent)
	}
	next := request{r.PSN, r.Opcode, r.Operands, r.ID}
	if len(d.remember) < recent {
		d.remember = append(d.remember, next)
		return
	}
	d.remember[d.next] = next
	d.next = (d.next + 1) % recent
}

// Finish implements analyzers.Analyzer.
func (a *Analyzer) Finish() analyzers.Result {
	for i := 0; i+1 < len(a.flows); i += 2 {
		toward, back := &a.flows[i], &a.flows[i+1]
		connection := i/2 + 1
		if !toward.seen || !back.seen || toward.migReq == back.migReq || !a.report.Wants(RuleMigReqDiffers, connection) {
			continue
		}
		a.report.Report(analyzers.Finding{
			Rule: RuleMigReqDiffers, Connection: connection, Packets: []uint64{toward.id, back.id}, TimeNS: a.meta.EndNS,
			Expected: "the same MigReq from both sides", Actual: fmt.Sprintf("the requester sends %d, the responder %d", bit(toward.migReq), bit(back.migReq)),
			Message: rules[3].Statement,
		})
	}
	return analyzers.Result{Findings: a.report.Findings()}
}
