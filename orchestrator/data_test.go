package orchestrator

import (
	"testing"

	"candela.dev/candela/generator"
	"candela.dev/candela/injector"
	"candela.dev/candela/trace"
)

func TestWrongDataFailsUnlessAnEventRewroteIt(t *testing.T) {
	g := &generator.Report{Data: []generator.DataReport{
		{Connection: 1, Side: "responder", Messages: 10},
		{Connection: 2, Side: "requester", Messages: 10, Wrong: 1, First: "READ of message 3: byte 7 of 9 is 0x01, want 0x02"},
	}}
	rewrite := injector.Intent{Flow: trace.NewFlowID(2, false), Action: injector.Action{Type: trace.EventRewrite}}
	drop := injector.Intent{Flow: trace.NewFlowID(2, false), Action: injector.Action{Type: trace.EventDrop}}
	elsewhere := injector.Intent{Flow: trace.NewFlowID(1, false), Action: injector.Action{Type: trace.EventRewrite}}
	const want = "data of qpn 2 at the requester: 1 differences in 10 messages, the first: READ of message 3: byte 7 of 9 is 0x01, want 0x02"
	for _, tt := range []struct {
		name    string
		intents []injector.Intent
		fails   bool
	}{
		{"without events", nil, true},
		{"a loss explains nothing", []injector.Intent{drop}, true},
		{"a rewrite on another connection explains nothing", []injector.Intent{elsewhere}, true},
		{"a rewritten packet has a valid iCRC", []injector.Intent{rewrite}, false},
	} {
		t.Run(tt.name, func(t *testing.T) {
			got := wrongData(g, tt.intents)
			if tt.fails && (len(got) != 1 || got[0] != want) || !tt.fails && len(got) != 0 {
				t.Errorf("%q", got)
			}
		})
	}
}
