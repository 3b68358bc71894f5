package retrans_test

import (
	"slices"
	"testing"

	"candela.dev/candela/analyzers/retrans"
	"candela.dev/candela/analyzers/tracetest"
	"candela.dev/candela/packet"
	"candela.dev/candela/trace"
)

// answered is a trace of one atomic that is asked for three times, with its answers.
func answered(t *testing.T, values [3]uint64, change func(answer int, r *trace.Record)) []string {
	t.Helper()
	meta := tracetest.Meta(tracetest.Connections(1, false))
	conn := meta.Connections.All()[0]
	var list []trace.Record
	for i, value := range values {
		at := int64(i) * 100_000
		request := trace.Record{
			ID: uint64(2*i + 1), TimeNS: at, PSN: conn.Requester.IPSN, Flow: 0, Flags: trace.Sent | trace.Passed | trace.AckReq,
			Opcode: packet.FetchAdd, ICRC: packet.ICRCValid,
		}
		answer := request
		answer.ID, answer.TimeNS, answer.Flow, answer.Opcode, answer.VA = uint64(2*i+2), at+2000, 1, packet.AtomicAcknowledge, value
		answer.Flags = trace.Sent | trace.Passed | trace.HasAETH
		answer.Event = trace.EventDrop
		change(i, &answer)
		list = append(list, request, answer)
	}
	checked := trace.CheckedRecords(meta, list)
	a := retrans.New(checked.Meta(), retrans.Config{})
	if err := checked.ForEach(t.Context(), func(r *trace.Record) error { a.Packet(r); return nil }); err != nil {
		t.Fatal(err)
	}
	var found []string
	for _, f := range a.Finish().Findings {
		found = append(found, string(f.Severity)+" "+f.Rule+" "+f.Expected+" "+f.Actual)
	}
	return found
}

func TestRepeatedAtomicsBringBackTheFirstResult(t *testing.T) {
	same := func(int, *trace.Record) {}
	tests := []struct {
		name   string
		values [3]uint64
		change func(int, *trace.Record)
		want   []string
	}{
		{"the saved result, three times", [3]uint64{7, 7, 7}, same, nil},
		{"executed again", [3]uint64{7, 7, 8}, same, []string{"violation retrans.atomic-replay 0x7, the result of the atomic 0x8"}},
		{"an answer with a bad iCRC says nothing", [3]uint64{7, 9, 7}, func(i int, r *trace.Record) {
			if i == 1 {
				r.ICRC = packet.ICRCInvalid
			}
		}, nil},
		{"what the injector made of an answer is not what was sent", [3]uint64{7, 9, 7}, func(i int, r *trace.Record) {
			if i == 1 {
				r.Flags &^= trace.Sent
			}
		}, nil},
		{"the next atomic has a result of its own", [3]uint64{7, 8, 7}, func(i int, r *trace.Record) {
			if i == 1 {
				r.PSN++
			}
		}, nil},
		{"an atomic 128 places on takes the place of the first", [3]uint64{7, 8, 9}, func(i int, r *trace.Record) {
			r.PSN = r.PSN.Add(128 * i)
		}, nil},
	}
	for _, test := range tests {
		if got := answered(t, test.values, test.change); !slices.Equal(got, test.want) {
			t.Errorf("%s: %q, want %q", test.name, got, test.want)
		}
	}
}
