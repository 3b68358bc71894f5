package orchestrator

import (
	"strings"
	"testing"

	"candela.dev/candela/packet"
	"candela.dev/candela/trace"
)

// TestWhatWasDeliveredIsNotSaidToBeMissing covers packets that the injector changed, held or copied, with two records
// each.
func TestWhatWasDeliveredIsNotSaidToBeMissing(t *testing.T) {
	for _, tt := range []struct {
		name    string
		event   trace.EventType
		change  func(*trace.Record)
		missing bool
	}{
		{"a hop limit", trace.EventRewrite, func(*trace.Record) {}, false},
		{"a service class", trace.EventRewrite, func(r *trace.Record) { r.DSCP = 4 }, false},
		{"held for a while", trace.EventDelay, func(r *trace.Record) { r.TimeNS += 1000 }, false},
		{"a copy", trace.EventDuplicate, func(*trace.Record) {}, false},
		{"another packet's number", trace.EventRewrite, func(r *trace.Record) { r.PSN += 7 }, true},
		{"another queue pair", trace.EventRewrite, func(r *trace.Record) { r.Flow = trace.NoFlow }, true},
		{"another partition", trace.EventRewrite, func(r *trace.Record) { r.Flags |= trace.ForeignPKey }, true},
		{"dropped", trace.EventDrop, nil, true},
	} {
		t.Run(tt.name, func(t *testing.T) {
			sent := trace.Record{ID: 1, Opcode: packet.WriteOnly, Flags: trace.Sent, Event: tt.event}
			if tt.change == nil {
				sent.Flags |= trace.Passed
			}
			var s stories
			s.observe(&sent, 1, 1)
			if tt.change != nil {
				passed := sent
				passed.Flags = trace.Passed
				tt.change(&passed)
				s.left(&passed)
			}
			if got := strings.Contains(s.lines()[0], "never retransmitted"); got != tt.missing {
				t.Errorf("%q", s.lines()[0])
			}
		})
	}
}
