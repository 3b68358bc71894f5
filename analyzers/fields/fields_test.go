package fields_test

import (
	"net/netip"
	"slices"
	"testing"

	"candela.dev/candela/analyzers"
	"candela.dev/candela/analyzers/fields"
	"candela.dev/candela/packet"
	"candela.dev/candela/trace"
)

func judge(t *testing.T, kind trace.Kind, records ...trace.Record) []analyzers.Finding {
	t.Helper()
	side := func(ip string, qpn packet.QPN) trace.Side { return trace.Side{IP: netip.MustParseAddr(ip), QPN: qpn} }
	c, err := trace.NewConnections([]trace.Connection{{Index: 1, MTU: 1024, Requester: side("10.0.0.1", 7), Responder: side("10.0.0.2", 9)}})
	if err != nil {
		t.Fatal(err)
	}
	for i := range records {
		records[i].ID, records[i].TimeNS = uint64(i+1), int64(i)*1000
		records[i].Flags |= trace.Sent | trace.Passed
	}
	a := fields.New(trace.CheckedRecords(trace.Meta{Kind: kind, Connections: c}, records).Meta())
	for i := range records {
		a.Packet(&records[i])
	}
	return a.Finish().Findings
}

func TestFieldsOfPackets(t *testing.T) {
	const back = 1
	write := trace.Record{Opcode: packet.WriteOnly, PSN: 5, Flags: trace.MigReq, SrcPort: 50000, PayloadLen: 64}
	with := func(r trace.Record, change func(*trace.Record)) trace.Record { change(&r); return r }
	ack := trace.Record{Opcode: packet.Acknowledge, Flow: back, PSN: 5, Flags: trace.MigReq, SrcPort: 60000}
	imm := trace.Record{Opcode: packet.SendOnlyImm, PSN: 6, Flags: trace.MigReq, SrcPort: 50000, Operands: 1}
	add := trace.Record{Opcode: packet.FetchAdd, PSN: 7, Flags: trace.MigReq, SrcPort: 50000, Operands: 3, VA: 64}
	for _, tc := range []struct {
		name    string
		kind    trace.Kind
		records []trace.Record
		want    []string
	}{
		{"nothing wrong", trace.KindMirror, []trace.Record{write, ack, imm, imm, add, add}, nil},
		{"another version", trace.KindMirror, []trace.Record{with(write, func(r *trace.Record) { r.Version = 1 })}, []string{fields.RuleVersion}},
		{"reserved bits", trace.KindMirror, []trace.Record{with(write, func(r *trace.Record) { r.Reserved = 0x0100 })}, []string{fields.RuleReserved}},
		{"MigReq changes and stays", trace.KindMirror, []trace.Record{write, with(write, func(r *trace.Record) { r.Flags = 0 }), with(write, func(r *trace.Record) { r.Flags = 0 })},
			[]string{fields.RuleMigReq}},
		{"the sides differ in MigReq", trace.KindMirror, []trace.Record{write, with(ack, func(r *trace.Record) { r.Flags = 0 })}, []string{fields.RuleMigReqDiffers}},
		{"the source port changes", trace.KindMirror, []trace.Record{write, with(write, func(r *trace.Record) { r.SrcPort++ })}, []string{fields.RuleSourcePort}},
		{"a CNP comes from a port of its own", trace.KindMirror, []trace.Record{write, {Opcode: packet.CNP, SrcPort: 1, Flags: trace.BECN}}, nil},
		{"another immediate", trace.KindMirror, []trace.Record{imm, write, with(imm, func(r *trace.Record) { r.Operands = 2 })}, []string{fields.RuleRetransmission}},
		{"another operand", trace.KindPlain, []trace.Record{add, with(add, func(r *trace.Record) { r.Operands = 2 })}, []string{fields.RuleRetransmission}},
		{"a misaligned atomic", trace.KindMirror, []trace.Record{with(add, func(r *trace.Record) { r.VA = 68 })}, []string{fields.RuleAtomicAlignment}},
		{"an undefined opcode", trace.KindMirror, []trace.Record{with(ack, func(r *trace.Record) { r.Opcode = 0x15 })}, []string{fields.RuleOpcode}},
		{"BECN in data", trace.KindPlain, []trace.Record{with(write, func(r *trace.Record) { r.Flags |= trace.BECN })}, []string{fields.RuleNotification}},
		{"CE from a host", trace.KindMirror, []trace.Record{with(write, func(r *trace.Record) { r.ECN = packet.CE })}, []string{fields.RuleNotification}},
		{"CE at a tap, which a switch may have set", trace.KindPlain, []trace.Record{with(write, func(r *trace.Record) { r.ECN = packet.CE })}, nil},
		{"an ACK with payload", trace.KindMirror, []trace.Record{with(ack, func(r *trace.Record) { r.PayloadLen = 4 })}, []string{fields.RulePayload}},
		{"a damaged packet proves nothing", trace.KindMirror, []trace.Record{with(write, func(r *trace.Record) { r.Version, r.ICRC = 1, packet.ICRCInvalid })}, nil},
	} {
		t.Run(tc.name, func(t *testing.T) {
			var got []string
			for _, f := range judge(t, tc.kind, tc.records...) {
				got = append(got, f.Rule)
			}
			if !slices.Equal(got, tc.want) {
				t.Errorf("rules %v, want %v", got, tc.want)
			}
		})
	}
}
