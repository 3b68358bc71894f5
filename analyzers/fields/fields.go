// Package fields judges the fields of packets that package gbn does not follow: versions, reserved bits, flags, marks,
// and what must be the same in all packets of a connection or in a retransmission.
package fields

import (
	"fmt"
	"net/netip"

	"candela.dev/candela/analyzers"
	"candela.dev/candela/analyzers/cause"
	"candela.dev/candela/analyzers/rounds"
	"candela.dev/candela/packet"
	"candela.dev/candela/trace"
)

// Name is that of the analyzer.
const Name = "fields"

// recent is how many requests with immediate data or operands are kept for each direction.
const recent = 64

// direction is what is known of the packets from one side.
type direction struct {
	seen     bool
	migReq   bool
	port     uint16
	dscp     [dscpKinds]uint8 // DSCP of the packets before, plus one, by kind; 0: there were none
	id       uint64           // of the first packet
	remember []request
	next     int
	atomics  []atomicRequest
	settings *Settings // nil: nothing is known
	usual    headers   // of the latest data packet that was right; 0: none yet
}

// headers are the fields of a data packet that are judged by themselves, packed in a word that is never 0.
type headers uint64

// judged are the flags among them.
const judged = trace.Solicited | trace.FECN | trace.BECN | trace.MigReq

func headersOf(r *trace.Record) headers {
	const known = 1 << 63
	return known | headers(r.Flags&judged)<<32 | headers(r.SrcPort)<<16 | headers(r.DSCP)<<8 | headers(r.ECN)
}

// plainData are the opcodes of requests with data and nothing else to compare in a retransmission.
var plainData = func() (list [256]bool) {
	for op := range list {
		o := packet.Opcode(op)
		verb := o.Verb()
		list[op] = o.IsRequest() && o.IsData() && (verb == packet.VerbSend || verb == packet.VerbWrite) &&
			o.Headers()&(packet.HasImmDt|packet.HasIETH) == 0
	}
	return list
}()

// followPlain handles r if it is a data packet in order with the same headers as the one before, so that nothing is to
// be judged.
func (a *Analyzer) followPlain(r *trace.Record, step *rounds.Step, d *direction) bool {
	if !plainData[r.Opcode] || r.PayloadLen == 0 || step == nil || step.Marks&rounds.Retransmitted != 0 ||
		len(a.regions) > 0 ||
		headersOf(r) != d.usual {
		return false
	}
	a.changedNS[a.hosts[r.Flow.Peer()]] = r.TimeNS
	return true
}

// request is one with immediate data or operands.
type request struct {
	psn              packet.PSN
	opcode           packet.Opcode
	operand, compare uint64
	id               uint64
}

// Analyzer implements analyzers.Analyzer.
type Analyzer struct {
	meta    trace.Meta
	tracker *rounds.Tracker
	general bool // without the fast path, for tests
	flows   []direction
	report  *analyzers.Reporter

	// controlled says that the traffic is a test's: nothing but its packets changes memory.
	controlled bool
	hosts      []int32                // by flow: the host that sends
	changedNS  []int64                // by host: when something that may change its memory passed last
	regions    map[regionKey]*region  // that atomics use
	repeats    []repeat               // retransmissions whose payload is to be compared
	skipped    int64                  // retransmissions beyond those
	naked      map[trace.FlowID]naked // NAKs for packets with MigReq = 0
}

// New returns an analyzer of the trace that meta describes.
func New(meta trace.Meta, cfg Config) *Analyzer {
	n := 2 * meta.Connections.Len()
	a := &Analyzer{
		meta: meta, tracker: rounds.New(meta), flows: make([]direction, n), hosts: make([]int32, n),
		report: analyzers.NewReporter(Name, rules), regions: map[regionKey]*region{}, naked: map[trace.FlowID]naked{},
	}
	a.controlled = meta.Kind == trace.KindMirror && !meta.Connections.Inferred
	number := map[netip.Addr]int32{}
	for i, c := range meta.Connections.All() {
		for side, ip := range [2]netip.Addr{c.Requester.IP, c.Responder.IP} {
			if _, ok := number[ip]; !ok {
				number[ip] = int32(len(number))
			}
			flow := 2*i + side
			a.hosts[flow], a.flows[flow].settings = number[ip], cfg.of(c.Index, side)
		}
	}
	a.changedNS = make([]int64, len(number))
	for i := range a.changedNS {
		a.changedNS[i] = rounds.Never
	}
	return a
}

// Name implements analyzers.Analyzer.
func (a *Analyzer) Name() string { return Name }

// Share implements analyzers.Follower.
func (a *Analyzer) Share(t *rounds.Tracker) { a.tracker = t }

// Packet implements analyzers.Analyzer.
func (a *Analyzer) Packet(r *trace.Record) { a.Follow(r, a.tracker.Packet(r)) }

// Follow implements analyzers.Follower.
func (a *Analyzer) Follow(r *trace.Record, step *rounds.Step) {
	if r.Flags&trace.Sent == 0 || r.Flow < 0 || int(r.Flow) >= len(a.flows) || r.ICRC == packet.ICRCInvalid {
		return
	}
	d := &a.flows[r.Flow]
	if r.Version != 0 || r.Reserved != 0 {
		a.header(r)
	} else if !a.general && a.followPlain(r, step, d) {
		return
	}
	d.usual = 0
	if d.settings != nil {
		a.settings(r, d.settings)
	}
	if r.Opcode == packet.CNP {
		return // NICs make them apart from their queue pairs; package cnp judges their form
	}
	if migReq := r.Flags&trace.MigReq != 0; !d.seen {
		d.seen, d.migReq, d.port, d.id = true, migReq, r.SrcPort, r.ID
	} else if d.migReq != migReq || d.port != r.SrcPort {
		a.changed(r, d, migReq)
	}
	if last := &d.dscp[dscpKind(r.Opcode)]; *last != r.DSCP+1 {
		a.otherDSCP(r, d, last)
	}
	if r.Flags&(trace.FECN|trace.BECN) != 0 || r.ECN == packet.CE {
		a.marked(r)
	}
	if step != nil && step.Marks&rounds.Retransmitted != 0 && r.PayloadLen > 0 {
		a.repeated(r, step)
	}
	if r.PayloadLen > 0 {
		a.changedNS[a.hosts[r.Flow.Peer()]] = r.TimeNS
	}
	if r.Opcode.IsRequest() {
		a.requested(r, d)
		if r.Flags&(trace.FECN|trace.BECN) == 0 && r.ECN != packet.CE && (d.settings == nil || d.settings.agree(r)) {
			d.usual = headersOf(r)
		}
	} else {
		a.answered(r, step)
	}
}

// requested judges a request.
func (a *Analyzer) requested(r *trace.Record, d *direction) {
	switch op := r.Opcode; {
	case op == packet.CmpSwap || op == packet.FetchAdd:
		a.changedNS[a.hosts[r.Flow.Peer()]] = r.TimeNS
		a.atomic(r)
		a.repeatedOperands(r, d)
		a.atomicRequest(r, d)
	case op.Headers()&packet.HasImmDt != 0:
		a.repeatedOperands(r, d)
	case op == packet.ReadRequest:
		a.empty(r)
		return
	}
	if len(a.regions) > 0 && r.Flags&trace.HasRETH != 0 {
		a.written(r, d)
	}
}

// answered judges a packet that is not a request.
func (a *Analyzer) answered(r *trace.Record, step *rounds.Step) {
	if !r.Opcode.IsResponse() {
		if !r.Opcode.Known() {
			a.found(causeOpcode(a.what(r)), r, "an opcode of the reliable connection service", r.Opcode.String())
		}
		return
	}
	if r.Flags&(trace.Solicited|trace.AckReq) != 0 {
		a.asking(r)
	}
	switch r.Opcode {
	case packet.Acknowledge:
		a.empty(r)
		if r.Syndrome == packet.SyndromeNakSequence {
			a.nak(r, step)
		}
	case packet.AtomicAcknowledge:
		a.empty(r)
		a.atomicAnswer(r)
	default:
	}
}

// finding returns a finding about r, or nil if enough of its kind are kept.
func (a *Analyzer) finding(why cause.Cause, r *trace.Record, expected, actual string,
	support ...uint64) *analyzers.Finding {
	connection := r.Flow.Connection()
	if !a.report.Wants(why.Rule, connection) {
		return nil
	}
	f := analyzers.Finding{
		Connection: connection, Packets: append([]uint64{r.ID}, support...), TimeNS: r.TimeNS,
		PSNAbs:   uint32(r.PSN),
		Expected: expected, Actual: actual, Message: statement(why.Rule),
	}
	if r.Opcode.Known() && r.Opcode != packet.CNP {
		f.PSN = a.meta.Connections.RelPSN(r.Flow, r.Opcode.Space(), r.PSN)
	}
	return &f
}

// statement returns what a rule demands.
func statement(rule string) string {
	for _, info := range rules {
		if info.ID == rule {
			return info.Statement
		}
	}
	return ""
}

// found reports a finding about r.
func (a *Analyzer) found(why cause.Cause, r *trace.Record, expected, actual string, support ...uint64) {
	if f := a.finding(why, r, expected, actual, support...); f != nil {
		a.report.Tell(why, *f)
	}
}

func (a *Analyzer) header(r *trace.Record) {
	if r.Version != 0 {
		a.found(causeVersion(a.what(r), r.Version), r, "transport header version 0", fmt.Sprintf("%v with version %d",
			r.Opcode, r.Version))
	}
	if r.Reserved != 0 {
		a.found(causeReserved(a.what(r), r.Reserved), r, "reserved bits 0",
			fmt.Sprintf("%v with 0x%02x beside FECN and BECN and 0x%02x beside the acknowledge request",
				r.Opcode, r.Reserved>>8, r.Reserved&0xff))
	}
}

// changed reports what differs from the packets before, and goes on from r.
func (a *Analyzer) changed(r *trace.Record, d *direction, migReq bool) {
	if d.migReq != migReq {
		a.found(causeMigReq(a.what(r), bit(d.migReq), bit(migReq)), r, fmt.Sprintf("MigReq %v, as in the packets before",
			bit(d.migReq)),
			fmt.Sprintf("%v with MigReq %v", r.Opcode, bit(migReq)), d.id)
	}
	if d.port != r.SrcPort {
		a.found(causeSourcePort(a.what(r), d.port, r.SrcPort), r, fmt.Sprintf(
			"UDP source port %d, as in the packets before", d.port),
			fmt.Sprintf("%v from port %d", r.Opcode, r.SrcPort), d.id)
	}
	d.migReq, d.port, d.id = migReq, r.SrcPort, r.ID
}

// Kinds of packets that may have a DSCP of their own.
const (
	dscpRequests = iota
	dscpReadResponses
	dscpAcknowledgements
	dscpKinds
)

func dscpKind(op packet.Opcode) int {
	switch {
	case op.IsReadResponse():
		return dscpReadResponses
	case op.IsResponse():
		return dscpAcknowledgements
	}
	return dscpRequests
}

// otherDSCP handles r, whose DSCP differs from that of earlier packets of its kind. A packet that is cut off may have
// been trimmed, which changes the DSCP.
func (a *Analyzer) otherDSCP(r *trace.Record, d *direction, last *uint8) {
	if r.Flags&trace.Truncated != 0 {
		return
	}
	if before := *last; before != 0 && (d.settings == nil || d.settings.DSCP == nil) {
		a.found(causeDSCPChanged(a.what(r), before-1, r.DSCP), r, fmt.Sprintf("DSCP %d, as in the packets before", before-1),
			fmt.Sprintf("%v with DSCP %d", r.Opcode, r.DSCP))
	}
	*last = r.DSCP + 1
}

func bit(on bool) int {
	if on {
		return 1
	}
	return 0
}

// marked reports marks that a host must not set. A CE mark is the host's only if the observer is the first switch.
func (a *Analyzer) marked(r *trace.Record) {
	if r.Flags&(trace.FECN|trace.BECN) != 0 {
		a.found(causeNotification(a.what(r), bit(r.Has(trace.FECN)), bit(r.Has(trace.BECN))), r, "FECN and BECN 0",
			fmt.Sprintf("%v with FECN %d, BECN %d", r.Opcode, bit(r.Has(trace.FECN)), bit(r.Has(trace.BECN))))
	}
	if r.ECN == packet.CE && (a.controlled || a.atSender(r.Flow)) {
		a.found(causeCE(a.what(r)), r, "no congestion mark before the first switch", fmt.Sprintf("%v with CE", r.Opcode))
	}
}

// atSender reports whether packets are seen as they leave their sender: the capture is declared to be taken at its
// port.
func (a *Analyzer) atSender(flow trace.FlowID) bool {
	return a.meta.AtTap(flow) || a.meta.AtHosts && !a.meta.HostsInferred
}

// asking reports a response that asks for what only requests may ask for.
func (a *Analyzer) asking(r *trace.Record) {
	if r.Has(trace.Solicited) {
		a.found(causeSolicited(a.what(r)), r, "solicited event 0", fmt.Sprintf("%v with the solicited event bit", r.Opcode))
	}
	if r.Has(trace.AckReq) {
		a.found(causeAckReq(a.what(r)), r, "acknowledge request 0", fmt.Sprintf("%v with the acknowledge request bit",
			r.Opcode))
	}
}

func (a *Analyzer) atomic(r *trace.Record) {
	if r.VA%cellLen != 0 {
		a.found(causeAlignment(a.what(r), r.VA), r, "an address that is a multiple of 8", fmt.Sprintf("%v at 0x%x",
			r.Opcode, r.VA))
	}
	a.empty(r)
}

func (a *Analyzer) empty(r *trace.Record) {
	if r.PayloadLen != 0 || r.PadCount != 0 {
		a.found(causePayload(a.what(r), r.PayloadLen, r.PadCount), r, "no payload",
			fmt.Sprintf("%v with %d bytes and %d bytes of padding", r.Opcode, r.PayloadLen, r.PadCount))
	}
}

// repeatedOperands compares a retransmission with the request that it repeats.
func (a *Analyzer) repeatedOperands(r *trace.Record, d *direction) {
	for i := range d.remember {
		m := &d.remember[i]
		if m.psn != r.PSN || m.opcode != r.Opcode { // another opcode is gbn's business
			continue
		}
		if m.operand != r.Operand || m.compare != r.Compare {
			what, why := "immediate data", causeImmediate
			if r.Opcode.Verb() == packet.VerbAtomic {
				what, why = "operands", causeOperands
			}
			a.found(why(a.what(r)), r, "the "+what+" of the original request",
				fmt.Sprintf("%v with other %s", r.Opcode, what), m.id)
		}
		m.operand, m.compare, m.id = r.Operand, r.Compare, r.ID
		return
	}
	if d.remember == nil {
		d.remember = make([]request, 0, recent)
	}
	next := request{r.PSN, r.Opcode, r.Operand, r.Compare, r.ID}
	if len(d.remember) < recent {
		d.remember = append(d.remember, next)
		return
	}
	d.remember[d.next] = next
	d.next = (d.next + 1) % recent
}

// Finish implements analyzers.Analyzer.
func (a *Analyzer) Finish() analyzers.Result {
	a.labels()
	for connection := 1; 2*connection <= len(a.flows); connection++ {
		a.migReqs(connection)
	}
	return analyzers.Result{Findings: a.report.Findings()}
}
