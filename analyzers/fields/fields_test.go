package fields_test

import (
	"net/netip"
	"slices"
	"strings"
	"testing"

	"candela.dev/candela/analyzers"
	"candela.dev/candela/analyzers/fields"
	"candela.dev/candela/packet"
	"candela.dev/candela/trace"
)

func judge(t *testing.T, kind trace.Kind, records ...trace.Record) []analyzers.Finding {
	t.Helper()
	return judgeWith(t, trace.Meta{Kind: kind}, false, fields.Config{}, records...)
}

func judgeWith(t *testing.T, meta trace.Meta, inferred bool, cfg fields.Config,
	records ...trace.Record) []analyzers.Finding {
	t.Helper()
	side := func(ip string, qpn packet.QPN) trace.Side { return trace.Side{IP: netip.MustParseAddr(ip), QPN: qpn} }
	c, err := trace.NewConnections([]trace.Connection{
		{Index: 1, MTU: 1024, Requester: side("10.0.0.1", 7), Responder: side("10.0.0.2", 9)},
		{Index: 2, MTU: 1024, Requester: side("10.0.0.1", 8), Responder: side("10.0.0.2", 10)},
	})
	if err != nil {
		t.Fatal(err)
	}
	c.Inferred = inferred
	meta.Connections = c
	for i := range records {
		records[i].ID, records[i].TimeNS = uint64(i+1), int64(i)*1000
		records[i].Flags |= trace.Sent | trace.Passed
	}
	checked := trace.CheckedRecords(meta, records)
	doc, err := analyzers.Run(t.Context(), checked, fields.New(checked.Meta(), cfg))
	if err != nil {
		t.Fatal(err)
	}
	book.Add(t, doc.Findings)
	return doc.Findings
}

// rulesOf lists the rules of findings, with the severity of warnings and notes.
func rulesOf(findings []analyzers.Finding) (list []string) {
	for _, f := range findings {
		rule := f.Rule
		if f.Severity != analyzers.Violation {
			rule += " " + string(f.Severity)
		}
		list = append(list, rule)
	}
	slices.Sort(list)
	return list
}

func TestFieldsOfPackets(t *testing.T) {
	const back = 1
	write := trace.Record{Opcode: packet.WriteOnly, PSN: 5, Flags: trace.MigReq, SrcPort: 50000, PayloadLen: 64}
	with := func(r trace.Record, change func(*trace.Record)) trace.Record { change(&r); return r }
	ack := trace.Record{Opcode: packet.Acknowledge, Flow: back, PSN: 5, Flags: trace.MigReq, SrcPort: 60000}
	imm := trace.Record{Opcode: packet.SendOnlyImm, PSN: 6, Flags: trace.MigReq, SrcPort: 50000, Operand: 1}
	add := trace.Record{Opcode: packet.FetchAdd, PSN: 7, Flags: trace.MigReq, SrcPort: 50000, Operand: 3, VA: 64}
	for _, tc := range []struct {
		name    string
		kind    trace.Kind
		records []trace.Record
		want    []string
	}{
		{"nothing wrong", trace.KindMirror, []trace.Record{write, ack, imm, imm, add, add}, nil},
		{"another version", trace.KindMirror, []trace.Record{with(write, func(r *trace.Record) { r.Version = 1 })},
			[]string{fields.RuleVersion}},
		{"reserved bits", trace.KindMirror, []trace.Record{with(write, func(r *trace.Record) { r.Reserved = 0x0100 })},
			[]string{fields.RuleReserved}},
		{"MigReq changes and stays", trace.KindMirror,
			[]trace.Record{write, with(write, func(r *trace.Record) { r.Flags = 0 }),
				with(write, func(r *trace.Record) { r.Flags = 0 })},
			[]string{fields.RuleMigReq}},
		{"the sides differ in MigReq", trace.KindMirror,
			[]trace.Record{write, with(ack, func(r *trace.Record) { r.Flags = 0 })}, []string{fields.RuleMigReqDiffers}},
		{"the source port changes", trace.KindMirror,
			[]trace.Record{write, with(write, func(r *trace.Record) { r.SrcPort++ })}, []string{fields.RuleSourcePort}},
		{"the DSCP changes and stays", trace.KindPlain,
			[]trace.Record{write, with(write, func(r *trace.Record) { r.DSCP = 7 }),
				with(write, func(r *trace.Record) { r.DSCP = 7 })},
			[]string{fields.RuleDSCPChanged}},
		{"acknowledgements and READ responses have a DSCP of their own", trace.KindMirror, []trace.Record{
			with(ack, func(r *trace.Record) { r.DSCP = 7 }),
			with(ack, func(r *trace.Record) { r.Opcode = packet.ReadResponseOnly }),
			with(ack, func(r *trace.Record) { r.Flow, r.SrcPort, r.DSCP = 2, 50001, 9 }), write,
			with(ack, func(r *trace.Record) { r.DSCP = 7 }),
		}, nil},
		{"a CNP comes from a port of its own", trace.KindMirror,
			[]trace.Record{write, {Opcode: packet.CNP, SrcPort: 1, Flags: trace.BECN}}, nil},
		{"another immediate", trace.KindMirror,
			[]trace.Record{imm, write, with(imm, func(r *trace.Record) { r.Operand = 2 })}, []string{fields.RuleRetransmission}},
		{"another operand", trace.KindPlain, []trace.Record{add, with(add, func(r *trace.Record) { r.Operand = 2 })},
			[]string{fields.RuleRetransmission}},
		{"a misaligned atomic", trace.KindMirror, []trace.Record{with(add, func(r *trace.Record) { r.VA = 68 })},
			[]string{fields.RuleAtomicAlignment}},
		{"an undefined opcode", trace.KindMirror, []trace.Record{with(ack, func(r *trace.Record) { r.Opcode = 0x15 })},
			[]string{fields.RuleOpcode}},
		{"BECN in data", trace.KindPlain, []trace.Record{with(write, func(r *trace.Record) { r.Flags |= trace.BECN })},
			[]string{fields.RuleNotification}},
		{"CE from a host", trace.KindMirror, []trace.Record{with(write, func(r *trace.Record) { r.ECN = packet.CE })},
			[]string{fields.RuleNotification}},
		{"CE at a tap, which a switch may have set", trace.KindPlain,
			[]trace.Record{with(write, func(r *trace.Record) { r.ECN = packet.CE })}, nil},
		{"an ACK that asks for an event", trace.KindMirror,
			[]trace.Record{with(ack, func(r *trace.Record) { r.Flags |= trace.Solicited })}, []string{fields.RuleSolicited}},
		{"a READ response that asks for an acknowledgement", trace.KindMirror,
			[]trace.Record{with(ack, func(r *trace.Record) { r.Opcode = packet.ReadResponseOnly; r.Flags |= trace.AckReq })},
			[]string{fields.RuleAckReq}},
		{"a READ request with payload", trace.KindMirror,
			[]trace.Record{with(write, func(r *trace.Record) { r.Opcode = packet.ReadRequest })}, []string{fields.RulePayload}},
		{"an ACK with payload", trace.KindMirror, []trace.Record{with(ack, func(r *trace.Record) { r.PayloadLen = 4 })},
			[]string{fields.RulePayload}},
		{"a damaged packet proves nothing", trace.KindMirror,
			[]trace.Record{with(write, func(r *trace.Record) { r.Version, r.ICRC = 1, packet.ICRCInvalid })}, nil},
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

// A retransmission carries what the packet carried that it repeats.
func TestPayloadsOfRetransmissions(t *testing.T) {
	const whole, start = 0xff000000, 0x09000000
	with := func(r trace.Record, change func(*trace.Record)) trace.Record { change(&r); return r }
	payload := func(r trace.Record, h trace.PayloadHash) trace.Record { r.Payload = h; return r }
	write := trace.Record{Opcode: packet.WriteOnly, PSN: 5, PayloadLen: 64, Flags: trace.HasRETH, Payload: whole | 1}
	send := trace.Record{Opcode: packet.SendOnly, PSN: 5, PayloadLen: 64, Payload: whole | 1}
	read := trace.Record{Opcode: packet.ReadRequest, PSN: 5, DMALen: 64, Flags: trace.HasRETH}
	response := trace.Record{Opcode: packet.ReadResponseOnly, PSN: 5, Flow: 1, PayloadLen: 64, Payload: whole | 1}
	reads := []trace.Record{read, response, read, payload(response, whole|2)}
	for _, tc := range []struct {
		name     string
		kind     trace.Kind
		inferred bool
		records  []trace.Record
		want     []string
	}{
		{"the same WRITE", trace.KindMirror, false, []trace.Record{write, write}, nil},
		{"a WRITE with other data", trace.KindMirror, false, []trace.Record{write, payload(write, whole|2)},
			[]string{fields.RulePayloadChanged}},
		{"a SEND with other data, at its third transmission", trace.KindMirror, false,
			[]trace.Record{send, send, payload(send, whole|2)},
			[]string{fields.RulePayloadChanged}},
		{"a start that differs", trace.KindMirror, false, []trace.Record{payload(send, start|1), payload(send, start|2)},
			[]string{fields.RulePayloadChanged}},
		{"a start and a whole packet", trace.KindMirror, false, []trace.Record{payload(send, start|1), send}, nil},
		{"other packets of the connection", trace.KindMirror, false,
			[]trace.Record{send, with(send, func(r *trace.Record) { r.PSN, r.Payload = 6, whole|2 })}, nil},
		{"another length, which is gbn's business", trace.KindMirror, false,
			[]trace.Record{send, with(send, func(r *trace.Record) { r.PayloadLen, r.Payload = 32, whole|2 })}, nil},
		{"a damaged retransmission", trace.KindMirror, false,
			[]trace.Record{send, with(send, func(r *trace.Record) { r.Payload, r.ICRC = whole|2, packet.ICRCInvalid })}, nil},
		{"a retransmission of what was damaged", trace.KindMirror, false,
			[]trace.Record{with(send, func(r *trace.Record) { r.Payload, r.ICRC = whole|2, packet.ICRCInvalid }), send}, nil},
		{"in a capture with connections", trace.KindPlain, false, []trace.Record{send, payload(send, whole|2)},
			[]string{fields.RulePayloadChanged}},
		{"in a capture of an unknown application", trace.KindPlain, true, []trace.Record{send, payload(send, whole|2)},
			[]string{fields.RulePayloadChanged + " warning"}},
		{"the same READ response", trace.KindMirror, false, []trace.Record{read, response, read, response}, nil},
		{"a READ response with other data", trace.KindMirror, false, reads, []string{fields.RuleReadChanged + " warning"}},
		{"a READ response with other data after a WRITE of another connection to that host", trace.KindMirror, false,
			append(reads[:3:3], with(write, func(r *trace.Record) { r.Flow = 2 }), reads[3]), nil},
		{"a READ response with other data after a WRITE to the other host", trace.KindMirror, false,
			append(reads[:3:3], with(write, func(r *trace.Record) { r.Flow = 3 }), reads[3]),
			[]string{fields.RuleReadChanged + " warning"}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			if got := rulesOf(judgeWith(t, trace.Meta{Kind: tc.kind}, tc.inferred, fields.Config{},
				tc.records...)); !slices.Equal(got, tc.want) {
				t.Errorf("rules %v, want %v", got, tc.want)
			}
		})
	}
}

// What an atomic finds is what the one before it has left.
func TestResultsOfAtomics(t *testing.T) {
	add := func(psn packet.PSN, n uint64) trace.Record {
		return trace.Record{Opcode: packet.FetchAdd, PSN: psn, VA: 64, RKey: 1, Operand: n}
	}
	swap := func(psn packet.PSN, compare, n uint64) trace.Record {
		return trace.Record{Opcode: packet.CmpSwap, PSN: psn, VA: 64, RKey: 1, Operand: n, Compare: compare}
	}
	found := func(psn packet.PSN, value uint64) trace.Record {
		return trace.Record{Opcode: packet.AtomicAcknowledge, PSN: psn, Flow: 1, VA: value, Flags: trace.HasAETH}
	}
	write := func(flow trace.FlowID, psn packet.PSN, va uint64) trace.Record {
		return trace.Record{Opcode: packet.WriteOnly, Flow: flow, PSN: psn, VA: va, RKey: 1, DMALen: 8, PayloadLen: 8,
			Flags: trace.HasRETH}
	}
	other := func(r trace.Record) trace.Record { r.Flow += 2; return r }
	wrong := []string{fields.RuleAtomicResult}
	for _, tc := range []struct {
		name     string
		kind     trace.Kind
		inferred bool
		records  []trace.Record
		want     []string
	}{
		{"additions", trace.KindMirror, false,
			[]trace.Record{add(1, 3), found(1, 10), add(2, 3), found(2, 13), add(3, 1), found(3, 16)}, nil},
		{"additions, several in flight", trace.KindMirror, false,
			[]trace.Record{add(1, 3), add(2, 3), add(3, 1), found(1, 10), found(2, 13), found(3, 16)}, nil},
		{"an addition that did nothing", trace.KindMirror, false,
			[]trace.Record{add(1, 3), found(1, 10), add(2, 3), found(2, 10)}, wrong},
		{"an overflow", trace.KindMirror, false, []trace.Record{add(1, ^uint64(0)), found(1, 10), add(2, 3), found(2, 9)},
			nil},
		{"a swap that succeeds", trace.KindMirror, false,
			[]trace.Record{swap(1, 10, 20), found(1, 10), add(2, 3), found(2, 20)}, nil},
		{"a swap that fails", trace.KindMirror, false, []trace.Record{swap(1, 11, 20), found(1, 10), add(2, 3), found(2, 10)},
			nil},
		{"a swap that should have failed", trace.KindMirror, false,
			[]trace.Record{swap(1, 11, 20), found(1, 10), add(2, 3), found(2, 20)}, wrong},
		{"another address", trace.KindMirror, false, []trace.Record{add(1, 3), found(1, 10),
			func() trace.Record { r := add(2, 3); r.VA = 72; return r }(), found(2, 500)}, nil},
		{"an answer that was not seen", trace.KindMirror, false,
			[]trace.Record{add(1, 3), found(1, 10), add(2, 3), add(3, 3), found(3, 16)}, nil},
		{"an answer that was not seen, to an addition that did nothing", trace.KindMirror, false,
			[]trace.Record{add(1, 3), found(1, 10), add(2, 3), add(3, 3), found(3, 13)}, wrong},
		{"an answer that comes late", trace.KindMirror, false,
			[]trace.Record{add(1, 3), found(1, 10), add(2, 3), add(3, 3), found(3, 16), add(2, 3), found(2, 13)}, nil},
		{"a wrong answer that comes late", trace.KindMirror, false,
			[]trace.Record{add(1, 3), found(1, 10), add(2, 3), add(3, 3), found(3, 16), add(2, 3), found(2, 16)}, wrong},
		{"a duplicate", trace.KindMirror, false,
			[]trace.Record{add(1, 3), found(1, 10), add(1, 3), found(1, 10), add(2, 3), found(2, 13)}, nil},
		{"a duplicate with another answer, which retrans reports", trace.KindMirror, false,
			[]trace.Record{add(1, 3), found(1, 10), add(1, 3), found(1, 13), add(2, 3), found(2, 16)}, nil},
		{"a WRITE in between", trace.KindMirror, false,
			[]trace.Record{add(1, 3), found(1, 10), write(0, 2, 60), add(3, 3), found(3, 99)}, nil},
		{"a WRITE in between, before the answer", trace.KindMirror, false,
			[]trace.Record{add(1, 3), write(0, 2, 60), found(1, 10), add(3, 3), found(3, 99)}, nil},
		{"a WRITE elsewhere", trace.KindMirror, false,
			[]trace.Record{add(1, 3), found(1, 10), write(0, 2, 72), add(3, 3), found(3, 99)}, wrong},
		{"a WRITE of another connection", trace.KindMirror, false,
			[]trace.Record{add(1, 3), found(1, 10), write(2, 2, 64), add(3, 3), found(3, 99)}, nil},
		{"an atomic of another connection", trace.KindMirror, false,
			[]trace.Record{add(1, 3), found(1, 10), other(add(1, 5)), other(found(1, 13)), add(2, 3), found(2, 18)}, nil},
		{"a damaged answer", trace.KindMirror, false, []trace.Record{add(1, 3), found(1, 10), add(2, 3),
			func() trace.Record { r := found(2, 99); r.ICRC = packet.ICRCInvalid; return r }(), add(2, 3), found(2, 13)}, nil},
		{"a capture does not show what the host itself writes", trace.KindPlain, true,
			[]trace.Record{add(1, 3), found(1, 10), add(2, 3), found(2, 10)},
			[]string{fields.RuleAtomicResult + " warning"}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			if got := rulesOf(judgeWith(t, trace.Meta{Kind: tc.kind}, tc.inferred, fields.Config{},
				tc.records...)); !slices.Equal(got, tc.want) {
				t.Errorf("rules %v, want %v", got, tc.want)
			}
		})
	}
}

// Fields are compared with the host's settings if these are known.
func TestFieldsAgainstTheirSettings(t *testing.T) {
	dscp, cnp, ecn, set, clear := uint8(26), uint8(48), packet.ECT0, true, false
	known := fields.Settings{DSCP: &dscp, CNPDSCP: &cnp, ECN: &ecn, Origin: "the test"}
	migReq := func(on *bool) fields.Settings { s := known; s.MigReq = on; return s }
	data := trace.Record{Opcode: packet.SendOnly, PSN: 5, PayloadLen: 64, DSCP: 26, ECN: packet.ECT0, Flags: trace.MigReq}
	ack := trace.Record{Opcode: packet.Acknowledge, PSN: 5, Flow: 1, DSCP: 26, ECN: packet.ECT0, Flags: trace.MigReq}
	notification := trace.Record{Opcode: packet.CNP, Flow: 1, PayloadLen: 16, DSCP: 48}
	with := func(r trace.Record, change func(*trace.Record)) []trace.Record { change(&r); return []trace.Record{r} }
	for _, tc := range []struct {
		name    string
		kind    trace.Kind
		set     fields.Settings
		records []trace.Record
		want    []string
	}{
		{"as set", trace.KindMirror, migReq(&set), []trace.Record{data, ack, notification}, nil},
		{"nothing is known", trace.KindMirror, fields.Settings{},
			with(data, func(r *trace.Record) { r.DSCP, r.ECN, r.Flags = 1, packet.ECT1, 0 }), nil},
		{"data with another DSCP", trace.KindMirror, known, with(data, func(r *trace.Record) { r.DSCP = 0 }),
			[]string{fields.RuleDSCP}},
		{"an ACK with another DSCP", trace.KindMirror, known, with(ack, func(r *trace.Record) { r.DSCP = 0 }),
			[]string{fields.RuleDSCP}},
		{"a CNP with the DSCP of data", trace.KindMirror, known, with(notification, func(r *trace.Record) { r.DSCP = 26 }),
			[]string{fields.RuleDSCP}},
		{"a DSCP that a switch may have changed", trace.KindPlain, known, with(data, func(r *trace.Record) { r.DSCP = 0 }),
			[]string{fields.RuleDSCP + " warning"}},
		{"data that is not ECN-capable", trace.KindMirror, known, with(data, func(r *trace.Record) { r.ECN = packet.NotECT }),
			[]string{fields.RuleECN}},
		{"data with the other codepoint", trace.KindMirror, known, with(data, func(r *trace.Record) { r.ECN = packet.ECT1 }),
			[]string{fields.RuleECN}},
		{"an ACK that is not ECN-capable", trace.KindMirror, known,
			with(ack, func(r *trace.Record) { r.ECN = packet.NotECT }), nil},
		{"an ACK with the other codepoint", trace.KindMirror, known, with(ack, func(r *trace.Record) { r.ECN = packet.ECT1 }),
			[]string{fields.RuleECN}},
		{"marked data", trace.KindPlain, known, with(data, func(r *trace.Record) { r.ECN = packet.CE }), nil},
		{"MigReq 0 where it is 1", trace.KindMirror, migReq(&set), with(data, func(r *trace.Record) { r.Flags = 0 }),
			[]string{fields.RuleMigReqSetting}},
		{"MigReq 1 where it is 0", trace.KindMirror, migReq(&clear), []trace.Record{data},
			[]string{fields.RuleMigReqSetting}},
		{"a damaged packet", trace.KindMirror, migReq(&set),
			with(data, func(r *trace.Record) { r.DSCP, r.Flags, r.ICRC = 0, 0, packet.ICRCInvalid }), nil},
	} {
		t.Run(tc.name, func(t *testing.T) {
			cfg := fields.Config{Requester: tc.set, Responder: tc.set}
			if got := rulesOf(judgeWith(t, trace.Meta{Kind: tc.kind}, false, cfg, tc.records...)); !slices.Equal(got, tc.want) {
				t.Errorf("rules %v, want %v", got, tc.want)
			}
			cfg = fields.Config{Connections: map[int]fields.Settings{1: tc.set}}
			if got := rulesOf(judgeWith(t, trace.Meta{Kind: tc.kind}, false, cfg, tc.records...)); !slices.Equal(got, tc.want) {
				t.Errorf("by connection: rules %v, want %v", got, tc.want)
			}
		})
	}
}

// If packets with MigReq = 0 are retransmitted on request although they arrived, the finding names the known cause.
func TestMigReqThatDiffersNamesTheInteroperabilityFault(t *testing.T) {
	send := func(psn packet.PSN) trace.Record {
		return trace.Record{Opcode: packet.SendMiddle, PSN: psn, PayloadLen: 1024}
	}
	nak := trace.Record{Opcode: packet.Acknowledge, PSN: 6, Flow: 1, Syndrome: packet.SyndromeNakSequence,
		Flags: trace.MigReq | trace.HasAETH}
	lost := send(6)
	lost.Event = trace.EventDrop
	for _, tc := range []struct {
		name     string
		records  []trace.Record
		severity analyzers.Severity
	}{
		{"nothing is asked for again",
			[]trace.Record{send(5), {Opcode: packet.Acknowledge, PSN: 5, Flow: 1, Flags: trace.MigReq}}, analyzers.Note},
		{"a packet that arrived is asked for again", []trace.Record{send(5), send(6), send(7), nak, send(6)},
			analyzers.Warning},
		{"a packet that was lost is asked for again", []trace.Record{send(5), lost, send(7), nak, send(6)}, analyzers.Note},
	} {
		t.Run(tc.name, func(t *testing.T) {
			got := judge(t, trace.KindMirror, tc.records...)
			if len(got) != 1 || got[0].Rule != fields.RuleMigReqDiffers || got[0].Severity != tc.severity {
				t.Fatalf("%v", got)
			}
			for _, word := range []string{"MigReq = 0", "ConnectX", "E810", "slow path", "automatic path migration"} {
				if !strings.Contains(got[0].Message, word) {
					t.Errorf("no %q in %q", word, got[0].Message)
				}
			}
		})
	}
}

// A CE mark is the host's only if packets are seen as they leave it.
func TestMarksAreTheHostsAtItsPort(t *testing.T) {
	data := trace.Record{Opcode: packet.WriteOnly, PSN: 5, ECN: packet.CE, PayloadLen: 64}
	ack := trace.Record{Opcode: packet.Acknowledge, Flow: 1, PSN: 5, ECN: packet.CE}
	for name, tc := range map[string]struct {
		meta trace.Meta
		want int
	}{
		"a capture at the requester":       {trace.Meta{Kind: trace.KindPlain, TapHost: "10.0.0.1"}, 1},
		"a capture anywhere":               {trace.Meta{Kind: trace.KindPlain}, 0},
		"captures at both hosts":           {trace.Meta{Kind: trace.KindPair, AtHosts: true}, 2},
		"captures that may be at a switch": {trace.Meta{Kind: trace.KindPair, AtHosts: true, HostsInferred: true}, 0},
		"captures around a switch":         {trace.Meta{Kind: trace.KindPair}, 0},
	} {
		findings := judgeWith(t, tc.meta, true, fields.Config{}, data, ack)
		if len(findings) != tc.want {
			t.Errorf("%s: %d findings, want %d: %+v", name, len(findings), tc.want, findings)
		}
	}
}
