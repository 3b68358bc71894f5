package rank_test

import (
	"slices"
	"testing"

	"candela.dev/candela/analyzers"
	"candela.dev/candela/analyzers/rank"
	"candela.dev/candela/clock"
	"candela.dev/candela/trace"
)

// claim is what a switch records of a packet.
type claim struct {
	cause  uint8
	values [5]int64
	twice  bool
}

const (
	noCause = iota
	quantileCause
	fullCause
	horizonCause
)

// What is dropped while it waits, for a reason of another scheme or for a packet that it need not make room for, what
// waits without being sent, and records that say something else than happened are found.
func TestDropsPausesAndClaimsAreJudged(t *testing.T) {
	plain := rank.Settings{Limits: rank.Limits{Packets: 2}}
	bytes := rank.Settings{Limits: rank.Limits{Bytes: 250}}
	fair := rank.Settings{STFQ: true, Undo: true, Limits: rank.Limits{Packets: 2}}
	aifo := rank.Settings{Scheme: rank.AIFO, Admission: rank.Admission{Target: 4, Window: 4, Room: 4, Sample: 2}}
	mapped := rank.Settings{Scheme: rank.SPPIFO, Mapping: rank.Mapping{Queues: 2, Packets: 3, PushUp: true, PushDown: true}}
	rounds := rank.Settings{Scheme: rank.AFQ, Calendar: rank.Calendar{Rounds: 32, RoundBytes: 10}}
	tree := rank.Settings{Scheme: rank.HPIFO, Limits: rank.Limits{Packets: 3}, Tree: flat}
	of := func(cause uint8, values ...int64) (c claim) {
		c.cause = cause
		copy(c.values[:], values)
		return c
	}
	for _, c := range []struct {
		name string
		set  rank.Settings
		acts []act
		make map[uint64]claim
		want []string
	}{
		{"a full queue keeps the lower ranks", plain, []act{comes(1, 5), comes(2, 7), comes(3, 6), dies(2, 7, evicted).atOnce(),
			goes(1, 5, 0), goes(3, 6, 0)}, nil, nil},
		{"one too many", plain, []act{comes(1, 5), comes(2, 7), comes(3, 6), goes(1, 5, 0)}, nil, []string{"rank.bound"}},
		{"as many bytes as fit", bytes, []act{comes(1, 5), comes(2, 7), comes(3, 8), dies(3, 8, tail).atOnce(), goes(1, 5, 0)},
			nil, nil},
		{"too many bytes", bytes, []act{comes(1, 5), comes(2, 7), comes(3, 8), goes(1, 5, 0)}, nil, []string{"rank.bound"}},
		{"the arriving one is dropped though lower", plain, []act{comes(1, 5), comes(2, 7), comes(3, 6), dies(3, 6, tail).atOnce(),
			goes(1, 5, 0), goes(2, 7, 0)}, nil, []string{"rank.drop"}},
		{"of equal ranks the older is dropped", plain, []act{comes(1, 5), comes(2, 7), comes(3, 7), dies(2, 7, evicted).atOnce(),
			goes(1, 5, 0), goes(3, 7, 0)}, nil, []string{"rank.drop"}},
		{"of equal ranks that wait the older makes room", plain, []act{comes(1, 7), comes(2, 7), comes(3, 5),
			dies(1, 7, evicted).atOnce(), goes(3, 5, 0), goes(2, 7, 0)}, nil, []string{"rank.drop"}},
		{"a lower rank makes room for a higher", plain, []act{comes(1, 5), comes(2, 7), comes(3, 9), dies(2, 7, evicted).atOnce(),
			goes(1, 5, 0), goes(3, 9, 0)}, nil, []string{"rank.drop"}},
		{"one makes room for nothing", plain, []act{comes(1, 5), comes(3, 4), dies(1, 5, evicted).atOnce(), goes(3, 4, 0)}, nil,
			[]string{"rank.room"}},
		{"a packet is thrown away", plain, []act{comes(1, 5), comes(2, 7), dies(2, 7, evicted), goes(1, 5, 0)}, nil,
			[]string{"rank.refused", "rank.room"}},
		{"evicted as it comes", plain, []act{comes(1, 5), comes(2, 7), comes(3, 9), dies(3, 9, evicted).atOnce(),
			goes(1, 5, 0), goes(2, 7, 0)}, nil, []string{"rank.refused"}},
		{"a low rank is not served", plain, []act{comes(1, 5), comes(2, 3), goes(1, 5, 0)}, nil, []string{"rank.order"}},
		{"the first of AIFO is thrown away", aifo, []act{comes(1, 5), comes(2, 5), dies(1, 5, evicted), goes(2, 5, 0)}, nil,
			[]string{"rank.refused"}},
		{"AIFO makes room", aifo, []act{comes(1, 5), comes(2, 4), comes(3, 1), dies(1, 5, evicted).atOnce(), goes(2, 4, 0),
			goes(3, 1, 0)}, nil, []string{"rank.refused"}},
		{"the reason of another scheme", aifo, []act{comes(1, 5), comes(2, 5), dies(2, 5, horizon).atOnce(), goes(1, 5, 0)}, nil,
			[]string{"rank.refused", "rank.admission"}},
		{"a wrong rank of what makes room", fair, []act{sends(1, 1, 100), sends(2, 1, 100), sends(3, 2, 100),
			dies(2, 50, evicted).atOnce(), goes(1, 0, 0), goes(3, 0, 0)}, nil, []string{"rank.start"}},

		{"recorded as it was", plain, []act{comes(1, 5), comes(2, 7), comes(3, 9), dies(3, 9, tail).atOnce(), goes(1, 5, 0)},
			map[uint64]claim{1: of(noCause, 5, 0), 2: of(noCause, 7, 1), 3: of(fullCause, 9, 2)}, nil},
		{"another number that waits", plain, []act{comes(1, 5), comes(2, 7), goes(1, 5, 0)},
			map[uint64]claim{2: of(noCause, 7, 2)}, []string{"rank.record"}},
		{"another rank", plain, []act{comes(1, 5), goes(1, 5, 0)}, map[uint64]claim{1: of(noCause, 4, 0)},
			[]string{"rank.record"}},
		{"recorded twice", plain, []act{comes(1, 5), goes(1, 5, 0)}, map[uint64]claim{1: {values: of(noCause, 5, 0).values, twice: true}},
			[]string{"rank.record"}},
		{"another cause", plain, []act{comes(1, 5), comes(2, 7), comes(3, 9), dies(3, 9, tail).atOnce(), goes(1, 5, 0)},
			map[uint64]claim{3: of(quantileCause, 9, 2)}, []string{"rank.record"}},
		{"sampled as it was", aifo, []act{comes(1, 5), comes(2, 5), goes(1, 5, 0)},
			map[uint64]claim{1: of(noCause, 5, 0, 0, 0, 1), 2: of(noCause, 5, 1, 0, 1, 0)}, nil},
		{"sampled otherwise", aifo, []act{comes(1, 5), comes(2, 5), goes(1, 5, 0)},
			map[uint64]claim{2: of(noCause, 5, 1, 0, 1, 1)}, []string{"rank.record"}},
		{"a fall of the bounds", mapped, []act{comes(1, 5), comes(2, 3), comes(3, 1), goes(2, 3, 1)},
			map[uint64]claim{2: of(noCause, 3, 0, 0, 0), 3: of(noCause, 1, 0, 3, 2)}, nil},
		{"another fall", mapped, []act{comes(1, 5), comes(2, 3), comes(3, 1), goes(2, 3, 1)},
			map[uint64]claim{3: of(noCause, 1, 0, 3, 1)}, []string{"rank.record"}},
		{"another round", rounds, []act{sends(1, 1, 300), goes(1, 30, 0)}, map[uint64]claim{1: of(noCause, 29, 0)},
			[]string{"rank.record"}},
		{"another round is served", rounds, []act{sends(1, 1, 300), goes(1, 30, 0)}, map[uint64]claim{1: of(noCause, 30, 1)},
			[]string{"rank.record"}},
		{"a tree, as it was", tree, []act{sends(1, 2, 100), sends(2, 2, 100), goes(1, 0, 0)},
			map[uint64]claim{1: of(noCause, 0, 0), 2: of(noCause, 100<<rank.WeightBits, 1)}, nil},
		{"another rank in a tree", tree, []act{sends(1, 2, 100), sends(2, 2, 100), goes(1, 0, 0)},
			map[uint64]claim{2: of(noCause, 100, 1)}, []string{"rank.record"}},
	} {
		if got := judged(t, c.set, c.acts, c.make, 0); !slices.Equal(got, c.want) {
			t.Errorf("%s: %v, want %v", c.name, got, c.want)
		}
	}
	// 100 bytes take the link 1 us.
	for _, set := range []rank.Settings{plain, fair, aifo, mapped, rounds, tree} {
		prompt := []act{sends(1, 1, 100), goes(1, 0, 0).atOnce(), sends(2, 2, 100), goes(2, 0, 0).atOnce()}
		late := append(slices.Clone(prompt), sends(3, 3, 100).atOnce(), waits, goes(3, 0, 0))
		stuck := append(slices.Clone(prompt), sends(3, 3, 100).atOnce(), waits, sends(4, 4, 100), sends(5, 4, 100))
		busy := append(slices.Clone(prompt), sends(3, 3, 100).atOnce(), waits)
		forever := append(slices.Clone(busy), waits)
		for i, acts := range [][]act{prompt, busy, late, stuck, forever} {
			got := judged(t, set, acts, nil, clock.Gbps*8/10)
			if idle := slices.Contains(got, "rank.idle"); idle != (i > 1) {
				t.Errorf("%+v, %d: %v", set, i, got)
			}
		}
	}
	paced := rank.Settings{Scheme: rank.PIEO, Pace: clock.Gbps * 4 / 10, Limits: rank.Limits{Packets: 3}} // 2 us
	held := []act{sends(1, 1, 100), goes(1, 0, 0).atOnce(), sends(2, 1, 100), waits}
	if got := judged(t, paced, held, nil, 0); len(got) > 0 {
		t.Errorf("PIEO keeps to the pace: %v", got)
	}
	if got := judged(t, paced, append(held, waits), nil, 0); !slices.Equal(got, []string{"rank.idle"}) {
		t.Errorf("PIEO keeps what may leave: %v", got)
	}
}

// waits is that nothing happens for a time.
var waits = goes(99, 0, 0)

// A flow that has ended starts where it ended, also if what is served then has a lower rank than what was served when
// the judge had to remember many flows.
func TestFlowsAreRememberedUntilTheVirtualTimeCannotFallBehind(t *testing.T) {
	set := rank.Settings{Scheme: rank.AIFO, STFQ: true, Undo: true,
		Admission: rank.Admission{Target: 4000, HeadroomPPM: 999_999, Window: 1, Room: 4000, Sample: 1 << 20}}
	acts := []act{sends(1, 1, 1000), sends(2, 1, 1000), sends(3, 1, 1000), sends(4, 2, 100), // they start at 0, 1000, 2000, 0
		goes(1, 0, 0), goes(2, 1000<<rank.WeightBits, 0), goes(3, 2000<<rank.WeightBits, 0)}
	id := uint64(10)
	for src := uint32(10); src < 1100; src++ { // they start at 2000; host 2 ended at 100
		acts = append(acts, sends(id, src, 1))
		id++
	}
	acts = append(acts, goes(4, 0, 0), sends(5, 2, 100)) // the virtual time is 0 again
	for i := uint64(10); i < id; i++ {
		acts = append(acts, goes(i, 2000<<rank.WeightBits, 0))
	}
	acts = append(acts, goes(5, 100<<rank.WeightBits, 0))
	if got := judged(t, set, acts, nil, 0); len(got) > 0 {
		t.Errorf("%v", got)
	}
}

// two is a switch with two ports, to hosts 0 and 1.
type two struct{ one }

func (two) Ports(int) int                            { return 2 }
func (two) HostAt(_, port int) (host uint32, _ bool) { return uint32(port), true }

// Only a packet that comes to the same port at the same time can have taken the place of another.
func TestAPacketMakesNoRoomAtAnotherPortOrLater(t *testing.T) {
	for _, set := range []rank.Settings{{Limits: rank.Limits{Packets: 1}}, {STFQ: true, Limits: rank.Limits{Packets: 1}},
		{Scheme: rank.HPIFO, Limits: rank.Limits{Packets: 1}, Tree: flat}} {
		for _, c := range []struct {
			dst uint32 // of the packet that comes before another is dropped
			us  int    // so long before
		}{{1, 0}, {0, 1}} {
			j, err := rank.NewJudge(two{one{set: set}})
			if err != nil {
				t.Fatal(err)
			}
			start := clock.Time(0)
			for id, dst := range []uint32{0, c.dst} {
				j.Observe(&trace.SwitchTap{Stage: trace.Entered, ID: uint64(id), Dst: dst, Src: uint32(1 + id), Size: 100,
					Time: start})
			}
			at := start.Add(clock.Duration(c.us) * clock.Microsecond)
			j.Observe(&trace.SwitchTap{Stage: trace.Dropped, ID: 0, Reason: evicted, Dst: 0, Port: 0, Time: at})
			j.Observe(&trace.SwitchTap{Stage: trace.Left, ID: 1, Dst: c.dst, Port: int(c.dst), Time: at})
			result, err := j.Finish()
			if err != nil {
				t.Fatal(err)
			}
			thrown := false
			for _, f := range book.Keep(result.Findings) {
				thrown = thrown || f.Rule == "rank.refused"
			}
			if !thrown {
				t.Errorf("%+v %+v: %+v", set, c, result.Findings)
			}
		}
	}
}

// A packet of which the port is not known is waited for, but not for ever.
func TestASwitchIsNotRepeatedForEver(t *testing.T) {
	j, err := rank.NewJudge(view{})
	if err != nil {
		t.Fatal(err)
	}
	for id := range uint64(1<<18 + 2) {
		j.Observe(&trace.SwitchTap{Stage: trace.Entered, ID: id, Size: 100})
	}
	result, err := j.Finish()
	if err != nil {
		t.Fatal(err)
	}
	if list := book.Keep(result.Findings); len(list) != 1 || list[0].Rule != "rank.not-judged" {
		t.Errorf("%+v", list)
	}
}

// judged returns the rules that acts violate.
func judged(t *testing.T, set rank.Settings, acts []act, claims map[uint64]claim, rate clock.BitRate) (got []string) {
	t.Helper()
	var view analyzers.SwitchView = linked{one{set: set}, rate}
	if rate == 0 {
		view = one{set: set}
	}
	j, err := rank.NewJudge(view)
	if err != nil {
		t.Fatal(err)
	}
	us := -1
	for _, a := range acts {
		if !a.now {
			us++
		}
		tap := trace.SwitchTap{Time: clock.Time(0).Add(clock.Duration(us) * clock.Microsecond), Stage: a.stage, ID: a.id,
			Rank: a.rank, Queue: a.queue, Reason: a.reason, Src: a.src, Dst: 9, Size: a.size}
		j.Observe(&tap)
		if r, known := claims[a.id]; known && a.stage == trace.Entered {
			d := trace.Decision{Packet: a.id, Cause: r.cause}
			copy(d.Values[:], r.values[:])
			if r.cause != noCause {
				d.Kind = 1
			}
			if j.Decide(&d); r.twice {
				j.Decide(&d)
			}
		}
	}
	result, err := j.Finish()
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range book.Keep(result.Findings) {
		if !slices.Contains(got, f.Rule) {
			got = append(got, f.Rule)
		}
	}
	return got
}

// linked is a switch whose link has a rate.
type linked struct {
	one
	rate clock.BitRate
}

func (l linked) Link(int, int) (clock.BitRate, int) { return l.rate, 0 }
func (linked) Makes(int) bool                       { return false }

// flat is a tree of two leaves.
var flat = analyzers.Tree{{Parent: -1, Weight: 1}, {Weight: 1, Hosts: []int{1}}, {Weight: 1}}

// Makes: how long frames take the link is not known, as what the switch sends by itself comes between them; but of
// PIEO.
func (o one) Makes(int) bool { return o.set.Scheme != rank.PIEO }
func (one) Decisions() []trace.DecisionKind {
	values := []trace.DecisionValue{{Name: "rank"}, {Name: "waiting"}, {Name: "smaller"}, {Name: "window"}, {Name: "sampled"}}
	causes := []string{"", "quantile", "full", "horizon"}
	return []trace.DecisionKind{{Name: "queued", Outcome: trace.OutcomeQueued, Causes: causes, Values: values},
		{Name: "refused", Outcome: trace.OutcomeDropped, Causes: causes, Values: values}}
}

func (view) Ports(int) int                      { return 10 }
func (view) HostAt(int, int) (uint32, bool)     { return 0, false }
func (view) Link(int, int) (clock.BitRate, int) { return 1600 * clock.Gbps, 0 }
func (view) Makes(int) bool                     { return true }
func (view) Decisions() []trace.DecisionKind    { return nil }
