package trace_test

import (
	"testing"

	"candela.dev/candela/packet"
	"candela.dev/candela/trace"
)

func TestKeysAreOfOnePartitionIfOneIsAFullMember(t *testing.T) {
	for _, tt := range []struct {
		a, b uint16
		want bool
	}{
		{0xffff, 0xffff, true}, {0xffff, 0x7fff, true}, {0x7fff, 0x7fff, false}, {0xffff, 0x8001, false},
		{0x8001, 0x0001, true},
	} {
		if trace.SamePartition(tt.a, tt.b) != tt.want || trace.SamePartition(tt.b, tt.a) != tt.want {
			t.Errorf("0x%04x and 0x%04x: want %v", tt.a, tt.b, tt.want)
		}
	}
}

// TestPacketsOfAnotherPartitionThanTheReceiversAreMarked goes through connections with records "direction key" and the
// expected marks.
func TestPacketsOfAnotherPartitionThanTheReceiversAreMarked(t *testing.T) {
	type seen struct {
		back    bool
		key     uint16
		foreign bool
	}
	for name, records := range map[string][]seen{
		"the default partition":      {{false, 0xffff, false}, {true, 0xffff, false}},
		"another one, on both sides": {{false, 0x8001, false}, {true, 0x8001, false}, {false, 0x8001, false}},
		"a requester that changes": {{false, 0xffff, false}, {false, 0x8001, true}, {true, 0xffff, false},
			{false, 0x8001, true}},
		"a limited member and a full one":     {{false, 0x7fff, false}, {true, 0xffff, false}, {false, 0x7fff, false}},
		"a full member that becomes limited":  {{false, 0xffff, false}, {true, 0xffff, false}, {false, 0x7fff, false}},
		"limited where the other one is, too": {{true, 0x7fff, false}, {false, 0xffff, false}, {false, 0x7fff, true}},
		"a responder that changes":            {{false, 0x8001, false}, {true, 0x8001, false}, {true, 0xffff, true}},
		"records without keys":                {{false, 0, false}, {true, 0, false}},
	} {
		t.Run(name, func(t *testing.T) {
			var p trace.Partitions
			for i, s := range records {
				r := trace.Record{
					Flow: trace.NewFlowID(3, s.back), PKey: s.key, Flags: trace.Sent | trace.Passed, ICRC: packet.ICRCValid,
					Opcode: packet.WriteOnly,
				}
				if p.Mark(&r); r.Has(trace.ForeignPKey) != s.foreign {
					t.Errorf("record %d is marked: %v, want %v", i+1, !s.foreign, s.foreign)
				}
			}
		})
	}
}
