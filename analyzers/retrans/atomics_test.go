package retrans_test

import (
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"candela.dev/candela/analyzers"
	"candela.dev/candela/analyzers/retrans"
	"candela.dev/candela/analyzers/rounds"
	"candela.dev/candela/analyzers/tracetest"
	"candela.dev/candela/packet"
	"candela.dev/candela/trace"
)

// TestTheFirstResultIsKnownWhateverItsRecordAndPlace has the first answer as record 1, at place 0.
func TestTheFirstResultIsKnownWhateverItsRecordAndPlace(t *testing.T) {
	for _, inferred := range []bool{false, true} {
		c := tracetest.Connections(2, false)
		c.Inferred = inferred
		a := retrans.New(tracetest.Meta(c), retrans.Config{})
		answers := []struct {
			place int64
			value uint64
		}{{0, 5}, {0, 5}, {1, 6}, {0, 6}}
		for i, answer := range answers {
			r := trace.Record{
				ID: uint64(i + 1), TimeNS: int64(i), Flow: trace.NewFlowID(2, true), Opcode: packet.AtomicAcknowledge,
				VA:  answer.value,
				PSN: 0x77, Flags: trace.Sent | trace.Passed | trace.HasAETH, ICRC: packet.ICRCValid,
			}
			a.Follow(&r, &rounds.Step{Flow: trace.NewFlowID(2, false), Place: answer.place})
		}
		want := analyzers.Finding{
			Analyzer: "retrans", Rule: "retrans.atomic-replay", Severity: analyzers.Violation, Clause: "IBTA volume 1, 9.4.5",
			Connection: 2, Packets: []uint64{4, 1}, TimeNS: 3, PSNAbs: 0x77,
			Expected: "0x5, the result of the atomic", Actual: "0x6",
			Message: "the repeated atomic was executed again, or answered with another one's result",
		}
		if inferred {
			want.Severity, want.Doubtful = analyzers.Warning, true
			want.Message += "; or the queue pair was connected anew, which a capture does not show"
		}
		if diff := cmp.Diff([]analyzers.Finding{want}, a.Finish().Findings,
			cmpopts.IgnoreFields(analyzers.Finding{}, "About", "Cause", "Headline", "Role")); diff != "" {
			t.Errorf("findings (-want +got):\n%s", diff)
		}
	}
}

// answered is a trace of one atomic that is requested three times, with its answers.
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
		answer.ID, answer.TimeNS, answer.Flow, answer.Opcode, answer.VA = uint64(2*i+2), at+2000, 1, packet.AtomicAcknowledge,
			value
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
	findings := a.Finish().Findings
	book.Add(t, findings)
	for _, f := range findings {
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
		{"executed again", [3]uint64{7, 7, 8}, same,
			[]string{"violation retrans.atomic-replay 0x7, the result of the atomic 0x8"}},
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
