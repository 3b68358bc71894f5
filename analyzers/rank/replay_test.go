package rank_test

import (
	"slices"
	"testing"

	"candela.dev/candela/analyzers"
	"candela.dev/candela/analyzers/rank"
	"candela.dev/candela/clock"
	"candela.dev/candela/trace"
)

// one is a switch with one port, to host 9, and settings.
type one struct {
	analyzers.SwitchView
	set rank.Settings
}

func (one) Switches() int                      { return 1 }
func (one) Link(int, int) (clock.BitRate, int) { return 1600 * clock.Gbps, 0 }
func (o one) Settings(int) (any, error)        { return o.set, nil }
func (one) SwitchName(int) string              { return "s" }
func (one) FlowOf(*trace.SwitchTap) int        { return 1 }
func (one) Ports(int) int                      { return 1 }
func (one) HostAt(int, int) (uint32, bool)     { return 9, true }
func (one) Reason(_ int, code uint8) analyzers.DropReason {
	return analyzers.DropReason{Name: [...]string{"tail", "quantile", "horizon", "evicted"}[code], Evicts: code == evicted}
}

const (
	tail = iota
	quantile
	horizon
	evicted
)

// act is what a packet of 100 bytes does: it comes in, leaves from a queue or is dropped for a reason; rank is that in
// the tap.
type act struct {
	stage  trace.SwitchStage
	id     uint64
	rank   uint64
	queue  int
	reason uint8
	src    uint32
	size   int32
	now    bool // at the time of the one before
	weight float64
}

// weighs returns a of a flow of a weight.
func (a act) weighs(w float64) act {
	a.weight = w
	return a
}

// atOnce returns a at the time of the act before it.
func (a act) atOnce() act {
	a.now = true
	return a
}

func comes(id, rank uint64) act { return act{stage: trace.Entered, id: id, rank: rank, size: 100} }
func goes(id, rank uint64, queue int) act {
	return act{stage: trace.Left, id: id, rank: rank, queue: queue}
}
func dies(id, rank uint64, reason uint8) act {
	return act{stage: trace.Dropped, id: id, rank: rank, reason: reason}
}
func sends(id uint64, src uint32, size int32) act {
	return act{stage: trace.Entered, id: id, src: src, size: size}
}

// recorded is the records that a switch makes of packets: waiting, smaller, window.
type recorded map[uint64][3]int64

func TestSchemesAreRepeated(t *testing.T) {
	aifo := func(a rank.Admission) rank.Settings {
		a.Sample = max(a.Sample, 1)
		return rank.Settings{Scheme: rank.AIFO, Admission: a}
	}
	plain := aifo(rank.Admission{Target: 4, Window: 4, Room: 4})
	small := aifo(rank.Admission{Target: 4, Window: 4, Room: 3})
	// Cells of 60 bytes: a packet takes 2 of 6. One smaller rank counts as 2 cells.
	cells := aifo(rank.Admission{Target: 6, Window: 2, Room: 6, Cell: 60, Multiplier: 2, Stale: true})
	mapped := rank.Settings{Scheme: rank.SPPIFO, Mapping: rank.Mapping{Queues: 2, Packets: 3, PushUp: true, PushDown: true}}
	const whole = 100 << rank.WeightBits
	fair := rank.Settings{STFQ: true, Undo: true, Limits: rank.Limits{Packets: 2}}
	paced := rank.Settings{Scheme: rank.PIEO, Pace: clock.Gbps * 4 / 10, Limits: rank.Limits{Packets: 3}} // 2 us
	first := []act{sends(9, 5, 100), goes(9, 0, 0).atOnce(), comes(1, 5), goes(1, 5, 0).atOnce(), comes(2, 5)}
	then := func(more ...act) []act { return append(slices.Clone(first), more...) }
	tick := goes(99, 0, 0)
	// Host 1 weighs 2 in a node of its own, all others 1. Ranks are those at the link.
	parted := rank.Settings{Scheme: rank.HPIFO, Limits: rank.Limits{Packets: 3},
		Tree: analyzers.Tree{{Parent: -1, Weight: 1}, {Weight: 2, Hosts: []int{1}}, {Weight: 1}}}
	rounds := rank.Settings{Scheme: rank.AFQ, Calendar: rank.Calendar{Rounds: 32, RoundBytes: 10},
		Limits: rank.Limits{Packets: 3}}
	for _, c := range []struct {
		name string
		set  rank.Settings
		acts []act
		make recorded
		want []string
	}{
		{"in order of arrival", plain, []act{comes(1, 9), comes(2, 1), goes(1, 9, 0), goes(2, 1, 0)}, nil, nil},
		{"the second first", plain, []act{comes(1, 9), comes(2, 1), goes(2, 1, 0), goes(1, 9, 0)}, nil,
			[]string{"rank.reordering", "rank.departure"}},
		// 3 of 4 places are free, 2 of 2 ranks smaller
		{"a high rank while one waits", plain, []act{comes(1, 1), goes(1, 1, 0), comes(2, 1), comes(3, 1),
			goes(2, 1, 0), comes(4, 9), dies(4, 9, quantile)}, nil, nil},
		{"of four one is smaller", plain, []act{comes(1, 9), goes(1, 9, 0), comes(2, 8), goes(2, 8, 0), comes(5, 9), goes(5, 9, 0),
			comes(3, 9), comes(4, 9), dies(4, 9, quantile)}, nil, []string{"rank.admission"}},
		{"all are smaller", plain, []act{comes(1, 1), comes(2, 1), comes(3, 1), comes(5, 1), dies(5, 1, tail), comes(4, 9),
			goes(1, 1, 0), goes(2, 1, 0), goes(3, 1, 0), goes(4, 9, 0)}, nil, []string{"rank.refused", "rank.admission"}},
		{"one too many", small, []act{comes(1, 1), comes(2, 1), comes(3, 1), comes(4, 1), goes(1, 1, 0)}, nil,
			[]string{"rank.bound"}},
		{"one too few", small, []act{comes(1, 1), comes(2, 1), comes(4, 1), dies(4, 1, tail), goes(1, 1, 0)}, nil,
			[]string{"rank.refused"}},
		{"cells, none smaller", cells, []act{comes(1, 1), comes(2, 1), comes(3, 1), comes(4, 1), dies(4, 1, tail),
			goes(1, 1, 0)}, nil, nil},
		{"cells, one too many", cells, []act{comes(1, 1), comes(2, 1), comes(3, 1), comes(4, 1), goes(1, 1, 0)}, nil,
			[]string{"rank.bound"}},
		{"cells, room is left", cells, []act{comes(1, 1), comes(2, 1), comes(3, 1), dies(3, 1, tail), goes(1, 1, 0)}, nil,
			[]string{"rank.refused"}},
		// The packet that left last left 4 cells behind, and two ranks are smaller: 4 + 2 * 2 is above 6.
		{"cells, too many smaller", cells, []act{comes(1, 1), comes(2, 1), comes(3, 1), goes(1, 1, 0), comes(4, 9),
			dies(4, 9, quantile)}, nil, nil},
		{"cells, admitted all the same", cells, []act{comes(1, 1), comes(2, 1), comes(3, 1), goes(1, 1, 0), comes(4, 9),
			goes(2, 1, 0)}, nil, []string{"rank.admission"}},
		// 2 cells were left behind: 2 + 4 is not above 6.
		{"cells, few enough", cells, []act{comes(1, 1), comes(2, 1), goes(1, 1, 0), comes(4, 9), dies(4, 9, quantile)}, nil,
			[]string{"rank.admission"}},
		{"a wrong record", plain, []act{comes(1, 1), comes(2, 1), comes(3, 1), goes(1, 1, 0)},
			recorded{1: {0, 0, 0}, 2: {1, 0, 1}, 3: {1, 0, 2}}, []string{"rank.record"}},
		{"queue 0 is served last", mapped, []act{comes(1, 5), comes(2, 3), goes(2, 3, 1), goes(1, 5, 0)}, nil, nil},
		{"the wrong queue", mapped, []act{comes(1, 5), goes(1, 5, 1)}, nil, []string{"rank.mapping"}},
		{"an inversion lowers the bounds", mapped, []act{comes(1, 5), comes(2, 3), comes(3, 1), comes(4, 3),
			goes(2, 3, 1), goes(3, 1, 1), goes(1, 5, 0), goes(4, 3, 0)}, nil, nil},
		{"a queue with room", mapped, []act{comes(1, 5), comes(2, 5), dies(2, 5, tail)}, nil, []string{"rank.refused"}},
		{"starts where its flow ends", fair, []act{sends(1, 1, 100), sends(2, 1, 100), goes(1, 0, 0), goes(2, whole, 0)}, nil,
			nil},
		{"of another flow", fair, []act{sends(1, 1, 100), sends(2, 2, 100), goes(1, 0, 0), goes(2, 0, 0)}, nil, nil},
		{"a wrong start", fair, []act{sends(1, 1, 100), goes(1, whole, 0)}, nil, []string{"rank.start"}},
		{"what is dropped does not count", fair, []act{sends(1, 1, 100), sends(2, 1, 100), sends(3, 1, 100),
			dies(3, 2*whole, tail), goes(1, 0, 0), sends(4, 1, 100), goes(2, whole, 0), goes(4, 2*whole, 0)}, nil, nil},
		{"evicted by a lower rank", fair, []act{sends(1, 1, 100), sends(2, 1, 100), sends(3, 2, 100), dies(2, whole, evicted).atOnce(),
			goes(1, 0, 0), goes(3, 0, 0)}, nil, nil},
		{"the wrong one is evicted", fair, []act{sends(1, 1, 100), sends(2, 1, 100), sends(3, 2, 100), dies(1, 0, evicted).atOnce(),
			goes(3, 0, 0), goes(2, whole, 0)}, nil, []string{"rank.drop"}},
		{"of weight 3 a third as far", fair, []act{sends(1, 1, 100).weighs(3), sends(2, 1, 100).weighs(3), goes(1, 0, 0),
			sends(3, 1, 100).weighs(3), goes(2, whole/3, 0), goes(3, 2*(whole/3), 0)}, nil, nil},
		{"of weight 1/2 twice as far", fair, []act{sends(1, 1, 100).weighs(0.5), sends(2, 1, 100).weighs(0.5), goes(1, 0, 0),
			goes(2, 2*whole, 0)}, nil, nil},
		{"its weight is ignored", fair, []act{sends(1, 1, 100).weighs(3), sends(2, 1, 100).weighs(3), goes(1, 0, 0),
			goes(2, whole, 0)}, nil, []string{"rank.start"}},
		{"an undone packet of weight 3", fair, []act{sends(1, 1, 100).weighs(3), sends(2, 1, 100).weighs(3),
			sends(3, 1, 100).weighs(3), dies(3, 2*(whole/3), tail), goes(1, 0, 0), sends(4, 1, 100).weighs(3),
			goes(2, whole/3, 0), goes(4, 2*(whole/3), 0)}, nil, nil},
		{"as its flow may", paced, then(goes(2, 5, 0)), nil, nil},
		{"before its flow may", paced, then(goes(2, 5, 0).atOnce()), nil, []string{"rank.eligible"}},
		{"later than it could", paced, then(tick, goes(2, 5, 0)), nil, []string{"rank.idle"}},
		{"a higher rank that may leave", paced, then(sends(3, 7, 100).atOnce(), goes(3, 0, 0).atOnce(), goes(2, 5, 0)), nil, nil},
		{"a lower rank goes first", paced, then(sends(3, 7, 100), goes(2, 5, 0).atOnce(), goes(3, 0, 0).atOnce()), nil,
			[]string{"rank.departure"}},
		{"two for one", parted, []act{sends(1, 2, 100), sends(2, 2, 100), sends(3, 1, 100), goes(1, 0, 0), goes(3, 0, 0),
			sends(4, 1, 100), goes(4, whole/2, 0), goes(2, whole, 0)}, nil, nil},
		{"one for two", parted, []act{sends(1, 2, 100), sends(2, 2, 100), sends(3, 1, 100), goes(1, 0, 0), goes(3, 0, 0),
			sends(4, 1, 100), goes(2, whole, 0), goes(4, whole/2, 0)}, nil, []string{"rank.tree"}},
		{"a weight is ignored", parted, []act{sends(1, 1, 100), sends(2, 1, 100), goes(1, 0, 0), goes(2, whole, 0)}, nil,
			[]string{"rank.start"}},
		{"flows of a leaf in turn", parted, []act{sends(1, 2, 100), sends(2, 2, 100), sends(3, 3, 100), goes(1, 0, 0),
			goes(3, 2*whole, 0), goes(2, whole, 0)}, nil, nil},
		{"flows of a leaf by arrival", parted, []act{sends(1, 2, 100), sends(2, 2, 100), sends(3, 3, 100), goes(1, 0, 0),
			goes(2, whole, 0), goes(3, 2*whole, 0)}, nil, []string{"rank.tree"}},
		{"the last of the last makes room", parted, []act{sends(1, 2, 100), sends(2, 2, 100), sends(3, 2, 100),
			sends(4, 1, 100), dies(3, 2*whole, evicted).atOnce(), goes(1, 0, 0), goes(4, 0, 0), goes(2, whole, 0)}, nil, nil},
		{"another makes room", parted, []act{sends(1, 2, 100), sends(2, 2, 100), sends(3, 2, 100), sends(4, 1, 100),
			dies(2, whole, evicted).atOnce(), goes(1, 0, 0), goes(4, 0, 0), goes(3, 2*whole, 0)}, nil, []string{"rank.tree-drop"}},
		{"what a tree drops does not count", parted, []act{sends(1, 2, 100), sends(2, 2, 100), sends(3, 2, 100),
			sends(4, 2, 100), dies(4, 3*whole, tail), goes(1, 0, 0), sends(5, 2, 100), goes(2, whole, 0), goes(3, 2*whole, 0),
			goes(5, 3*whole, 0)}, nil, nil},
		{"weights of flows of a leaf", parted, []act{sends(1, 2, 100).weighs(2), sends(2, 2, 100).weighs(2), sends(3, 3, 100),
			goes(1, 0, 0), goes(3, 2*whole, 0), sends(4, 3, 100), goes(2, whole, 0), goes(4, 3*whole, 0)}, nil, nil},
		{"weights of flows are ignored", parted, []act{sends(1, 2, 100).weighs(2), sends(2, 2, 100).weighs(2),
			sends(3, 3, 100), goes(1, 0, 0), sends(4, 3, 100), goes(3, 2*whole, 0), goes(4, 3*whole, 0), goes(2, whole, 0)}, nil,
			[]string{"rank.tree"}},
		{"a tree with room", parted, []act{sends(1, 2, 100), sends(2, 2, 100), dies(2, whole, tail), goes(1, 0, 0)}, nil,
			[]string{"rank.refused"}},
		{"a tree with one too many", parted, []act{sends(1, 2, 100), sends(2, 2, 100), sends(3, 2, 100), sends(4, 2, 100),
			goes(1, 0, 0)}, nil, []string{"rank.bound"}},
		{"a round ahead", rounds, []act{sends(1, 1, 300), goes(1, 30, 0)}, nil, nil},
		{"half a round of weight 2", rounds, []act{sends(1, 1, 300).weighs(2), goes(1, 15, 0)}, nil, nil},
		{"too far ahead", rounds, []act{sends(4, 1, 330), goes(4, 33, 0)}, nil, []string{"rank.horizon"}},
		{"not too far", rounds, []act{sends(4, 1, 310), dies(4, 31, horizon)}, nil, []string{"rank.horizon"}},
	} {
		j, err := rank.NewJudge(one{set: c.set})
		if err != nil {
			t.Fatal(err)
		}
		i := -1
		for _, a := range c.acts {
			if !a.now {
				i++
			}
			tap := trace.SwitchTap{Time: clock.Time(0).Add(clock.Duration(i) * clock.Microsecond), Stage: a.stage, ID: a.id,
				Rank: a.rank, Queue: a.queue, Reason: a.reason, Src: a.src, Dst: 9, Size: a.size, Weight: int64(1e6 * a.weight)}
			j.Observe(&tap)
			if r, known := c.make[a.id]; known && a.stage == trace.Entered {
				j.Decide(&trace.Decision{Packet: a.id, Values: [trace.DecisionValues]int64{int64(a.rank), r[0], r[1], r[2], 1}})
			}
		}
		result, err := j.Finish()
		if err != nil {
			t.Fatal(err)
		}
		var got []string
		for _, f := range book.Keep(result.Findings) {
			got = append(got, f.Rule)
		}
		if !slices.Equal(got, c.want) {
			t.Errorf("%s: %v, want %v", c.name, got, c.want)
		}
	}
}

// A packet that leaves after a later one of its flow is late; what is dropped had smaller ranks in the window.
func TestLatePacketsAndQuantilesOfDropsAreMeasured(t *testing.T) {
	j, err := rank.NewJudge(one{set: rank.Settings{Scheme: rank.AIFO,
		Admission: rank.Admission{Target: 4, Window: 4, Room: 4, Sample: 1}}})
	if err != nil {
		t.Fatal(err)
	}
	for i, a := range []act{comes(1, 1), comes(2, 3), goes(2, 3, 0), goes(1, 1, 0), comes(3, 1), comes(4, 2), comes(5, 1),
		comes(6, 2), dies(6, 2, quantile), goes(3, 1, 0)} {
		j.Observe(&trace.SwitchTap{Time: clock.Time(0).Add(clock.Duration(i) * clock.Microsecond), Stage: a.stage, ID: a.id,
			Rank: a.rank, Queue: a.queue, Reason: a.reason, Dst: 9, Size: 100})
	}
	result, err := j.Finish()
	if err != nil {
		t.Fatal(err)
	}
	got := make(map[string]int64)
	for _, m := range result.Metrics {
		got[m.Name] = m.Max
	}
	if got["rank.late"] != 1 || got["rank.refused-quantile"] != 500_000 { // of 3, 1, 2 and 1 two are smaller than 2
		t.Errorf("%v", got)
	}
}
