package rank_test

import (
	"os"
	"slices"
	"testing"

	"candela.dev/candela/analyzers"
	"candela.dev/candela/analyzers/cause/causetest"
	"candela.dev/candela/analyzers/rank"
	"candela.dev/candela/clock"
	"candela.dev/candela/trace"
)

// book keeps what the tests of this package make the analyzer report.
var book = causetest.NewBook(rank.Causes())

func TestMain(m *testing.M) {
	rank.Keep = book.Keep
	os.Exit(book.Main(m))
}

func TestEveryRuleHasCausesWithSentences(t *testing.T) {
	causetest.Table(t, rank.Rules(), rank.Causes())
}

// view is that of a network with one switch.
type view struct{ analyzers.SwitchView }

func (view) Switches() int { return 1 }
func (view) Settings(int) (any, error) {
	return rank.Settings{Limits: rank.Limits{Packets: 2, Bytes: 250}}, nil
}
func (view) SwitchName(int) string       { return "s" }
func (view) FlowOf(*trace.SwitchTap) int { return 1 }
func (view) Reason(_ int, code uint8) analyzers.DropReason {
	return analyzers.DropReason{Name: [...]string{"tail", "ttl", "evicted"}[code], Evicts: code == 2}
}

func TestPacketsLeaveAndAreDroppedByRank(t *testing.T) {
	type step struct {
		us    int
		stage trace.SwitchStage
		id    uint64
		rank  uint64
		port  int
	}
	in := func(us int, id, rank uint64) step { return step{us, trace.Entered, id, rank, 9} }
	out := func(us int, id uint64) step { return step{us, trace.Left, id, 0, 0} }
	for _, tt := range []struct {
		name  string
		steps []step
		want  []string
	}{
		{"the lowest first", []step{in(0, 1, 20), in(1, 2, 10), out(3, 2), out(5, 1)}, nil},
		{"the highest first", []step{in(0, 1, 20), in(1, 2, 10), out(3, 1), out(5, 2)}, []string{"rank.order"}},
		{"at different ports", []step{in(0, 1, 20), in(1, 2, 10), {3, trace.Left, 1, 0, 1}, out(5, 2)}, nil},
		{"before the other came", []step{in(0, 1, 20), out(3, 1), in(3, 2, 10), out(5, 2)}, nil},
		{"of one rank the oldest first", []step{in(0, 1, 10), in(1, 2, 10), out(2, 1), out(4, 2)}, nil},
		{"of one rank the youngest first", []step{in(0, 1, 10), in(1, 2, 10), out(2, 2), out(4, 1)},
			[]string{"rank.fifo"}},
		{"the highest is dropped", []step{in(0, 1, 20), in(1, 2, 10), in(2, 3, 15), {2, trace.Dropped, 1, 2, 0}, out(4, 2)}, nil},
		{"the lowest is dropped", []step{in(0, 1, 20), in(1, 2, 10), in(2, 3, 15), {2, trace.Dropped, 2, 2, 0}, out(4, 3), out(5, 1)},
			[]string{"rank.drop"}},
		{"the lowest is dropped for its TTL", []step{in(0, 1, 20), in(1, 2, 10), {2, trace.Dropped, 2, 1, 0}, out(4, 1)},
			nil},
		{"the only one is dropped", []step{in(0, 1, 20), {2, trace.Dropped, 1, 0, 0}}, []string{"rank.room"}},
	} {
		j, err := rank.NewJudge(view{})
		if err != nil {
			t.Fatal(err)
		}
		for _, s := range tt.steps {
			tap := trace.SwitchTap{Time: clock.Time(0).Add(clock.Duration(s.us) * clock.Microsecond), Stage: s.stage, ID: s.id,
				Rank: s.rank, Port: s.port, Size: 100}
			if s.stage == trace.Dropped { // its rank is that of its arrival
				tap.Reason, tap.Rank = uint8(s.rank), 0
			}
			j.Observe(&tap)
		}
		result, err := j.Finish()
		if err != nil {
			t.Fatal(err)
		}
		var got []string
		for _, f := range book.Keep(result.Findings) {
			if !slices.Contains(got, f.Rule) {
				got = append(got, f.Rule)
			}
		}
		if !slices.Equal(got, tt.want) {
			t.Errorf("%s: %v, want %v", tt.name, got, tt.want)
		}
	}
}
