package report

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"candela.dev/candela/analyzers"
	"candela.dev/candela/packet"
)

func TestPacketsAroundAFindingSayTheirWayOnlyWhereDataGoesBothWays(t *testing.T) {
	data := func(id uint64, psn int64, reverse bool) Point {
		return Point{TimeNS: int64(id) * 100, ID: id, PSN: psn, Iter: 1, Class: packet.ClassData, Reverse: reverse}
	}
	ack := Point{TimeNS: 900, ID: 9, PSN: 2, Class: packet.ClassAck, Reverse: true}
	for _, tc := range []struct {
		name   string
		points []Point
		want   []string
	}{
		{"one way, with an answer", []Point{data(1, 1, false), data(2, 2, false), ack},
			[]string{"#1-#2 data psn 1-2 iter 1 t=100 ns", "#9 ack psn 2 +800 ns"}},
		{"both ways, where PSNs are the same", []Point{data(1, 1, false), data(2, 1, true), data(3, 2, true), ack},
			[]string{"#1 -> data psn 1 iter 1 t=100 ns", "#2-#3 <- data psn 1-2 iter 1 +100 ns",
				"#9 <- ack psn 2 +700 ns"}},
		{"none", nil, nil},
	} {
		t.Run(tc.name, func(t *testing.T) {
			if diff := cmp.Diff(tc.want, (&Report{}).aroundLines(tc.points)); diff != "" {
				t.Error(diff)
			}
		})
	}
}

func TestACitationNamesItsDocument(t *testing.T) {
	for clause, want := range map[string]string{
		"9.7.5.2; 9.7.5.1.1": "IBTA volume 1, 9.7.5.2; 9.7.5.1.1",
		"IBTA annex A17.9.3": "IBTA annex A17.9.3",
		"RFC 6298, 5.5":      "RFC 6298, 5.5",
		"":                   "",
	} {
		f := Finding{Finding: analyzers.Finding{Clause: clause}}
		if got := f.Citation(); got != want {
			t.Errorf("clause %q is cited as %q, want %q", clause, got, want)
		}
	}
}

func TestLabelsOfSilencesDoNotOverlap(t *testing.T) {
	// Three waits of milliseconds between four packets: each is cut to less than the width of its label.
	a := newTimeAxis([]Point{{TimeNS: 0}, {TimeNS: 10}, {TimeNS: 123456789}, {TimeNS: 250_000_000}, {TimeNS: 250_000_020}})
	views := a.breakViews()
	if len(views) < 2 {
		t.Fatalf("%d silences are cut out, want at least 2", len(views))
	}
	for i := 1; i < len(views); i++ {
		p, q := views[i-1], views[i]
		if gap := q.At - p.At; gap < glyphWidth*float64(len(p.Text)+len(q.Text))/2 && p.Y == q.Y {
			t.Errorf("%q and %q, %.0f apart, stand in one row", p.Text, q.Text, gap)
		}
		if q.Y < rowHeight-3 || q.Y > plotTop {
			t.Errorf("%q stands at %d, outside of the margin", q.Text, q.Y)
		}
	}
}
