package trace

import (
	"context"
	"slices"
	"testing"

	"candela.dev/candela/packet"
)

func TestRequestsBehindAnInvalidationOfTheirKeyAreMarked(t *testing.T) {
	_, connections := benchTrace(t, 1)
	const key = 0x1200
	inv := func(psn packet.PSN, key uint32, event EventType) Record {
		return Record{Opcode: packet.SendOnlyInv, PSN: psn, RKey: key, Flags: Sent | Passed, Event: event}
	}
	ask := func(psn packet.PSN, key uint32) Record {
		return Record{Opcode: packet.ReadRequest, PSN: psn, RKey: key, Flags: Sent | Passed}
	}
	other := ask(9, key)
	other.Flow = 2
	tests := []struct {
		name string
		list []Record
		want []packet.PSN
	}{
		{"behind it", []Record{ask(1, key), inv(2, key, EventNone), ask(3, key)}, []packet.PSN{3}},
		{"a repeated READ from before it may still be executed", []Record{ask(1, key), inv(2, key, EventNone), ask(1, key)},
			nil},
		{"across the wrap", []Record{inv(1<<24-1, key, EventNone), ask(0, key)}, []packet.PSN{0}},
		{"another key", []Record{inv(2, key, EventNone), ask(3, key+1)}, nil},
		{"another connection", []Record{inv(2, key, EventNone), other}, nil},
		{"the SEND did not arrive", []Record{inv(2, key, EventDrop), ask(3, key)}, nil},
		{"it arrived when it came again", []Record{inv(2, key, EventDrop), inv(2, key, EventNone), ask(3, key)},
			[]packet.PSN{3}},
	}
	for _, test := range tests {
		c := CheckedRecords(Meta{Connections: connections}, test.list).WithInvalidations()
		for range 2 { // each pass starts without state
			var got []packet.PSN
			err := c.ForEach(context.Background(), func(r *Record) error {
				if r.Has(ForeignRKey) {
					got = append(got, r.PSN)
				}
				return nil
			})
			if err != nil || !slices.Equal(got, test.want) {
				t.Errorf("%s: marked %v, error %v; want %v", test.name, got, err, test.want)
			}
		}
	}
}

func TestOnlyTheLatest255InvalidationsCount(t *testing.T) {
	_, connections := benchTrace(t, 1)
	var list []Record
	for i := range 256 {
		list = append(list, Record{Opcode: packet.SendOnlyInv, PSN: packet.PSN(i), RKey: 0x1200 | uint32(i),
			Flags: Sent | Passed})
	}
	list = append(list, Record{Opcode: packet.WriteOnly, PSN: 256, RKey: 0x1200, Flags: Sent | Passed}) // in use again
	list = append(list, Record{Opcode: packet.WriteOnly, PSN: 257, RKey: 0x1201, Flags: Sent | Passed})
	var marked []packet.PSN
	err := CheckedRecords(Meta{Connections: connections}, list).WithInvalidations().ForEach(t.Context(),
		func(r *Record) error {
			if r.Has(ForeignRKey) {
				marked = append(marked, r.PSN)
			}
			return nil
		})
	if err != nil || !slices.Equal(marked, []packet.PSN{257}) {
		t.Errorf("marked %v, error %v", marked, err)
	}
}
