package fields_test

import (
	"slices"
	"testing"

	"candela.dev/candela/analyzers/fields"
	"candela.dev/candela/packet"
	"candela.dev/candela/trace"
)

func TestPortsAndLabelsThatQueuePairsAreSetTo(t *testing.T) {
	write := trace.Record{Opcode: packet.WriteOnly, PSN: 5, Flags: trace.MigReq, SrcPort: 50000, PayloadLen: 64}
	ack := trace.Record{Opcode: packet.Acknowledge, Flow: 1, PSN: 5, Flags: trace.MigReq, SrcPort: 50001}
	cnp := trace.Record{Opcode: packet.CNP, Flow: 1, SrcPort: 7, Flags: trace.BECN}
	port, label := uint16(50000), uint32(0x123)
	ofPort := fields.Config{Connections: map[int]fields.Settings{1: {SourcePort: &port}}}
	ofLabel := fields.Config{Connections: map[int]fields.Settings{1: {FlowLabel: &label}}}
	label1 := func(flow trace.FlowID, label uint32, id uint64) trace.FlowLabel {
		return trace.FlowLabel{Flow: flow, Label: label, ID: id}
	}
	for _, tc := range []struct {
		name   string
		kind   trace.Kind
		cfg    fields.Config
		labels []trace.FlowLabel
		want   []string
	}{
		{"ports that nobody has set", trace.KindMirror, fields.Config{}, nil, nil},
		{"the answers come from another port", trace.KindMirror, ofPort, nil, []string{fields.RuleSourcePortSetting}},
		{"at a tap, a switch may have changed it", trace.KindPlain, ofPort, nil,
			[]string{fields.RuleSourcePortSetting + " warning"}},
		{"the label that is set", trace.KindMirror, ofLabel, []trace.FlowLabel{label1(0, 0x123, 1), label1(1, 0x123, 2)}, nil},
		{"another label from one side", trace.KindMirror, ofLabel, []trace.FlowLabel{label1(0, 0x123, 1), label1(1, 0, 2)},
			[]string{fields.RuleFlowLabel}},
		{"another label at times", trace.KindMirror, ofLabel, []trace.FlowLabel{label1(0, 0x123, 1), label1(0, 0, 2)},
			[]string{fields.RuleFlowLabel}},
		{"IPv4 has no label", trace.KindMirror, ofLabel, nil, nil},
		{"another connection's is not set", trace.KindMirror, ofLabel, []trace.FlowLabel{label1(2, 5, 2)}, nil},
		{"a label that changes", trace.KindMirror, fields.Config{}, []trace.FlowLabel{label1(0, 1, 1), label1(1, 2, 2),
			label1(0, 3, 3)}, []string{fields.RuleFlowLabelChanged + " warning"}},
		{"each side has its own", trace.KindMirror, fields.Config{}, []trace.FlowLabel{label1(0, 1, 1), label1(1, 2, 2)}, nil},
	} {
		findings := judgeWith(t, trace.Meta{Kind: tc.kind, FlowLabels: tc.labels}, false, tc.cfg, write, write, ack, cnp)
		if got := rulesOf(findings); !slices.Equal(got, tc.want) {
			t.Errorf("%s: %v, want %v", tc.name, got, tc.want)
		}
	}
}

// TestTheFastPathSeesAWrongPort: packets like the one before are not judged one by one.
func TestTheFastPathSeesAWrongPort(t *testing.T) {
	port := uint16(50000)
	var records []trace.Record
	for psn := range 5 {
		records = append(records, trace.Record{Opcode: packet.WriteMiddle, PSN: packet.PSN(psn), Flags: trace.MigReq,
			SrcPort: 50001, PayloadLen: 1024})
	}
	findings := judgeWith(t, trace.Meta{Kind: trace.KindMirror}, false,
		fields.Config{Connections: map[int]fields.Settings{1: {SourcePort: &port}}}, records...)
	if len(findings) != len(records) {
		t.Errorf("%d findings for %d packets", len(findings), len(records))
	}
}
