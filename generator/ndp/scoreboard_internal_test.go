package ndp

import (
	"fmt"
	"strings"
	"testing"

	"candela.dev/candela/packet/ndp"
)

// boardOf hears a period of answers about four paths: letters are paths, capital ones NACKs; "+a" is a loss.
func boardOf(t *testing.T, h *Host, periods string) *scoreboard {
	t.Helper()
	b := &scoreboard{paths: make([]pathScore, 4)}
	for i := 0; i < len(periods); i++ {
		switch c := periods[i]; {
		case c == ' ':
		case c == '+':
			i++
			b.lost(uint16(periods[i] - 'a'))
		case c >= 'a':
			b.answered(h, uint16(c-'a'), false)
		default:
			b.answered(h, uint16(c-'A'), true)
		}
	}
	return b
}

func TestTheScoreboardExcludesOutliers(t *testing.T) {
	const bad, good = "AAAabbbbccccdddd ", "bbbbbbccccccdddd "
	for _, c := range []struct{ name, periods, want string }{
		{"nothing heard", "", ""},
		{"a period that has not ended", bad[:15], ""},
		{"a path with three of four NACKs", bad, "a"},
		{"in the last period of the exclusion", bad + good + good, "a"},
		{"after it", bad + good + good + good, ""},
		{"all paths alike", "AAAaBBBbCCCcDDDd", ""},
		{"a share that is less than twice that of the others", "AAAaBBbbCcccDDdd", ""},
		{"a share below the least", "Aaaaaaaabbbcccdd", ""},
		{"too few answers", "Abbbbbcccccddddd", ""},
		{"losses", "+a+a+aabbbbbccccccdddd", "a"},
		{"two periods exclude two paths", bad + "BBBBBbccccccdddd ", "ab"},
		{"all paths: none", "AAAABBBBccccdddd CCCCCCdddddddddd DDDDDDDDDDDDDDDa", ""},
	} {
		h := &Host{cfg: Config{Penalty: Penalty{On: true, Answers: 4, SharePercent: 25, FactorPercent: 200, Periods: 3}}}
		b, got := boardOf(t, h, c.periods), ""
		for i := range b.paths {
			if !b.uses(uint16(i)) {
				got += string(rune('a' + i))
			}
		}
		if got != c.want {
			t.Errorf("%s: excluded %q, want %q", c.name, got, c.want)
		}
	}
}

func TestPathsOfPacketsSurviveTheGrowthOfTheWindow(t *testing.T) {
	w := sendWindow{tagged: true}
	w.reserve(2)
	for i := range 100 {
		if i == 30 {
			for seq := range 20 {
				w.ack(uint32(seq))
			}
		}
		*w.tag(w.push()) = uint16(i)
	}
	for seq := w.base; seq < w.next; seq++ {
		if *w.tag(seq) != uint16(seq) {
			t.Fatalf("packet %d has path %d", seq, *w.tag(seq))
		}
	}
}

// Paths that no sender has, in answers of a peer with a fault, are ignored.
func TestAnswersWithAnUnknownPathAreNotCounted(t *testing.T) {
	h, err := New(Config{InitialWindow: 2, Payload: 1000, PullGap: 1, Paths: 2,
		Penalty: Penalty{On: true, Answers: 1, SharePercent: 1, FactorPercent: 100, Periods: 1}}, nil)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := h.Send(Flow{To: 1, Bytes: 5000}); err != nil {
		t.Fatal(err)
	}
	h.HandleTimer(0)
	var p Packet
	for h.Poll(0, &p) {
	}
	h.HandlePacket(1, &Packet{From: 1, Header: ndp.Header{Kind: ndp.Nack, Seq: 1, Path: 7}})
	if b := h.senders[0].board; b.answers != 0 {
		t.Errorf("%d answers were counted", b.answers)
	}
}

func TestPenaltiesThatExcludeNothingOrEverythingAreRefused(t *testing.T) {
	good := Penalty{On: true, Answers: 1, SharePercent: 1, FactorPercent: 100, Periods: 1}
	for _, c := range []struct {
		change func(p *Penalty, paths *int)
		want   string
	}{
		{func(*Penalty, *int) {}, ""},
		{func(_ *Penalty, paths *int) { *paths = 1 }, "at least 2"},
		{func(p *Penalty, _ *int) { p.Answers = 0 }, "must be positive"},
		{func(p *Penalty, _ *int) { p.FactorPercent = 99 }, "at least 100"},
		{func(p *Penalty, _ *int) { p.SharePercent = 101 }, "101 %"},
		{func(p *Penalty, paths *int) { p.On, *paths = false, 1 }, ""},
	} {
		p, paths := good, 2
		c.change(&p, &paths)
		if got := fmt.Sprint(p.validate(paths)); c.want == "" && got != "<nil>" || !strings.Contains(got, c.want) {
			t.Errorf("%+v with %d paths: error %s, want %q", p, paths, got, c.want)
		}
	}
}
