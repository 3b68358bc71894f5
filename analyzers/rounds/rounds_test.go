package rounds_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"candela.dev/candela/analyzers/rounds"
	"candela.dev/candela/analyzers/tracetest"
)

var markNames = []struct {
	mark rounds.Marks
	name string
}{
	{rounds.Retransmitted, "again"}, {rounds.Restart, "restart"}, {rounds.Repair, "repair"}, {rounds.GapOpened, "gap"},
	{rounds.OutOfOrder, "out-of-order"}, {rounds.ByAck, "by-ack"}, {rounds.Duplicate, "duplicate"},
	{rounds.AnswersGap, "answers-gap"}, {rounds.FirstReplay, "first-replay"}, {rounds.Progress, "progress"},
}

// describe prints what is worth reading of a step.
func describe(s *rounds.Step) string {
	var words []string
	for _, m := range markNames {
		if s.Is(m.mark) {
			words = append(words, m.name)
		}
	}
	if s.Is(rounds.Restart) {
		words = append(words, "by", s.Cause.String())
		if s.Certain {
			words = append(words, "for certain")
		}
	}
	return strings.Join(words, " ")
}

func TestSteps(t *testing.T) {
	tests := []struct {
		name, text string
		want       []string // one for each record, after its #
	}{
		{
			name: "a NAK restarts the sender, which cannot have known the place before",
			text: `
				0 > first 1
				1 > mid 2 drop
				2 > mid 3
				3 > mid 4
				4 < nak 2
				5 > mid 2
				6 > mid 3
				7 > last 4 ar
				8 < ack 4`,
			want: []string{
				"", "", "gap out-of-order", "out-of-order", "answers-gap progress", "again restart repair by NAK for certain",
				"again", "again", "progress",
			},
		},
		{
			name: "without a NAK a jump back is a timeout",
			text: "0 > first 1\n 1 > last 2 ar drop\n 90 > first 1\n 91 > last 2 ar\n 92 < ack 2",
			want: []string{"", "", "again restart duplicate by timeout for certain", "again repair", "progress"},
		},
		{
			name: "a timeout that crosses the ACK starts after it",
			text: "0 > only 1 ar\n 1 < ack 1\n 1.5 > only 1 ar",
			want: []string{"", "progress", "again restart repair duplicate by timeout"},
		},
		{
			name: "a NAK still on its way leaves doubt about a restart elsewhere",
			text: "0 > first 1\n 1 > mid 2 drop\n 2 > last 3 ar\n 3 < nak 2\n 4 > first 1\n 5 > mid 2",
			want: []string{"", "", "gap out-of-order", "answers-gap progress", "again restart duplicate by timeout",
				"again repair"},
		},
		{
			name: "a repeated READ request after a gap is an implied NAK",
			text: "0 > read 1+3\n 1 < resp 1\n 2 < resp 2 drop\n 3 < resp 3\n 4 > read 2+2\n 5 < resp 2\n 6 < resp 3",
			want: []string{
				"", "progress", "", "gap out-of-order", "again restart duplicate by implied NAK",
				"again repair first-replay progress", "again progress",
			},
		},
		{
			name: "an ACK that passes over a READ opens a gap",
			text: "0 > read 1+1\n 1 > only 2 ar\n 2 < resp 1 drop\n 3 < ack 2",
			want: []string{"", "", "", "gap out-of-order by-ack"},
		},
		{
			name: "a corrupted packet counts as lost",
			text: "0 > first 1 corrupt\n 1 > last 2 ar\n 2 < nak 1\n 3 > first 1",
			want: []string{"", "gap out-of-order", "answers-gap", "again restart repair by NAK"},
		},
		{
			name: "CNPs and strangers have no step",
			text: "0 < cnp\n 1 > mid 1 stray",
			want: []string{"none", "none"},
		},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			records, err := tracetest.Parse(test.text)
			if err != nil {
				t.Fatal(err)
			}
			tracker := rounds.New(tracetest.Meta(tracetest.Connections(1, false)))
			got := make([]string, len(records))
			for i := range records {
				got[i] = "none"
				if step := tracker.Packet(&records[i]); step != nil {
					got[i] = describe(step)
				}
			}
			if diff := cmp.Diff(test.want, got); diff != "" {
				t.Errorf("steps (-want +got):\n%s", diff)
			}
		})
	}
}

func TestMuchInFlightIsRemembered(t *testing.T) {
	const packets = 5000
	var b strings.Builder
	for i := range packets {
		event := ""
		if i == 7 {
			event = " drop"
		}
		b.WriteString(line(i, i+1) + event + "\n")
	}
	b.WriteString("6000 < nak 8\n")
	for i := 7; i < packets; i++ {
		b.WriteString(line(7000+i, i+1) + "\n")
	}
	records, err := tracetest.Parse(b.String())
	if err != nil {
		t.Fatal(err)
	}
	tracker := rounds.New(tracetest.Meta(tracetest.Connections(1, false)))
	for i := range records {
		step := tracker.Packet(&records[i])
		if i > packets && (!step.Prev.Known || step.Prev.NS != records[i].TimeNS-7_000_000) {
			t.Fatalf("record %d: previous transmission %+v at %d", i, step.Prev, records[i].TimeNS)
		}
	}
}

func line(us, psn int) string {
	return fmt.Sprintf("%d > mid %d", us, psn)
}
