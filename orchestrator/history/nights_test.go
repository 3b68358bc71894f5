package history_test

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"candela.dev/candela/orchestrator/history"
	"candela.dev/candela/runtimetest"
)

// Plan of the simulated lab: two testbeds, thirty nights.
const (
	labNights   = 30
	brokeOn     = 20 // with a new firmware of lab-1
	brokenFrom  = 6  // repaired on repairedOn, without a change of the environment
	repairedOn  = 12
	faultOn     = 15 // lab-2 fails
	renamedOn   = 18
	shiftedOn   = 24
	stoppedOn   = 28
	repetitions = 4
)

func labNight(i int) history.Night { return history.NightOf(firstNight) + history.Night(i) }

// simulate returns the runs of the lab, night after night.
func simulate(seed uint64) (nights [][]*history.Run) {
	rng := rand.New(rand.NewPCG(seed, 24))
	tests := []string{"broke", "flaky", "repaired", "waived", "renamed", "stopped", "expected", "limit"}
	for i := range 12 {
		tests = append(tests, fmt.Sprintf("steady-%02d", i))
	}
	for night := range labNights {
		var runs []*history.Run
		for bed := range 2 {
			for _, test := range tests {
				level := 1 + 0.02*rng.NormFloat64()
				for repetition := range repetitions {
					runs = append(runs, labRun(rng, night, bed, repetition, test, level))
				}
			}
		}
		runs = slices.DeleteFunc(runs, func(r *history.Run) bool { return r == nil })
		nights = append(nights, runs)
	}
	return nights
}

func labRun(rng *rand.Rand, night, bed, repetition int, test string, level float64) *history.Run {
	if test == "stopped" && night >= stoppedOn {
		return nil
	}
	r := made(test, night, repetition)
	r.ID = fmt.Sprintf("%016x%016x", rng.Uint64(), rng.Uint64())
	r.Testbed = fmt.Sprintf("lab-%d", bed+1)
	r.Seed = rng.Uint64()
	value := 10_000 * level * (1 + 0.05*rng.NormFloat64())
	if test == "steady-03" && bed == 0 && night >= shiftedOn {
		value *= 1.15
	}
	r.Metrics[0] = history.Metric{Name: "retrans.nack-reaction", Unit: "ns", N: 10, Least: value, Mean: value, P50: value,
		P99: value, P999: value, Most: value}
	r.Metrics = append(r.Metrics, history.Metric{Name: "goodput", Unit: "bps", N: 1, Least: 9e9, Mean: 9e9, P50: 9e9,
		P99: 9e9, P999: 9e9, Most: 9e9})
	if bed == 0 && night >= brokeOn {
		r.Environment["requester.firmware"] = "28.41.1000"
	}
	find := func(rule string) {
		f := violation(rule)
		f.Connection, f.PSN, f.TimeNS = 1+rng.IntN(9), rng.Int64N(1000), rng.Int64N(1e6)
		f.Headline = fmt.Sprintf("Responder of qpn %d did it at psn %d.", f.Connection, f.PSN)
		r.Findings = append(r.Findings, f)
	}
	switch {
	case bed == 1 && night == faultOn:
		r.Verdict, r.Reasons, r.Metrics = history.Broken, []string{"prepare hosts: agent lab-2 does not answer"}, nil
		return r
	case test == "broke" && bed == 0 && night >= brokeOn:
		find("gbn.nak-psn")
		find("gbn.nak-psn")
	case test == "flaky" && rng.Float64() < 0.3:
		find("retrans.timeout-early")
	case test == "repaired" && night >= brokenFrom && night < repairedOn:
		find("cnp.missing")
	case test == "waived":
		find("fields.mig-req")
		r.Findings[0].Waiver = "DEF-1, team, until 2027-01-01"
		return r
	case test == "expected":
		find("gbn.ghost")
		r.Findings[0].Expected = true
		return r
	case test == "renamed":
		find("gbn.retransmit-first")
		if night >= renamedOn {
			r.Test.ID, r.Test.Was = "renamed-well", []string{"renamed"}
		}
	case test == "limit" && bed == 1 && night == labNights-1:
		r.Verdict = history.Fail
		r.Reasons = []string{fmt.Sprintf("expect.retrans.nack-reaction-us: largest of 10 values is %.0f us, want at most 8 us",
			value)}
		return r
	}
	if len(r.Findings) > 0 {
		r.Verdict, r.Reasons = history.Fail, []string{"violations"}
	}
	return r
}

// ask returns an answer and its JSON.
func ask[T history.Answer](t *testing.T) func(answer T, err error) (T, string) {
	return func(answer T, err error) (T, string) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
		text, err := json.MarshalIndent(answer, "", " ")
		if err != nil {
			t.Fatal(err)
		}
		return answer, string(text)
	}
}

// TestThirtyNightsOfALab plants regressions, flaky tests, faults of the lab and a firmware change, and asks every
// question of both engines, whose answers must be equal.
func TestThirtyNightsOfALab(t *testing.T) {
	runtimetest.SkipRace(t)
	nights := simulate(1)
	answers := make(map[string]string)
	engines(t, func(t *testing.T, address string) {
		s := open(t, address)
		for _, runs := range nights {
			ingest(t, s, runs...)
		}
		same := func(question, answer string) {
			t.Helper()
			if before, ok := answers[question]; ok && before != answer {
				t.Errorf("%s: the engines differ (-SQLite +PostgreSQL)\n%s", question, cmp.Diff(before, answer))
			}
			answers[question] = answer
		}
		t.Run("compare", func(t *testing.T) { compareNights(t, s, same) })
		t.Run("flaky", func(t *testing.T) {
			list, text := ask[*history.FlakyList](t)(s.Flaky(t.Context(), history.Window{}))
			same("flaky", text)
			var names []string
			for _, f := range list.Tests {
				names = append(names, f.Test+" "+f.Testbed)
				if f.Low > 0.3 || f.High < 0.3 || !slices.Equal(f.Rules, []string{"retrans.timeout-early"}) {
					t.Errorf("%+v", f)
				}
			}
			slices.Sort(names)
			if !slices.Equal(names, []string{"flaky lab-1", "flaky lab-2"}) {
				t.Errorf("flaky: %v", names)
			}
		})
		t.Run("owners", func(t *testing.T) {
			list, text := ask[*history.OwnerList](t)(s.Owners(t.Context(), history.Window{}))
			same("owners", text)
			states := make(map[string]history.State)
			for _, o := range list.Owners {
				for _, x := range o.Tests {
					states[x.Test+" "+x.Testbed] = x.State
				}
			}
			for name, want := range map[string]history.State{"broke lab-1": history.Still, "renamed-well lab-1": history.Still,
				"limit lab-2": history.New, "broke lab-2": "", "repaired lab-1": ""} {
				if states[name] != want {
					t.Errorf("%s is %q, want %q", name, states[name], want)
				}
			}
		})
		t.Run("blame", func(t *testing.T) { blameNights(t, s, same) })
		t.Run("trend", func(t *testing.T) { trendNights(t, s, same) })
		t.Run("list", func(t *testing.T) {
			list, err := s.List(t.Context(), history.Filter{Limit: 50})
			_, text := ask[*history.RunList](t)(&history.RunList{Runs: list}, err)
			same("list", text)
			shown, text := ask[*history.FoundRun](t)(s.Show(t.Context(), nights[0][0].ID[:12]))
			same("show", text)
			if shown.ID != nights[0][0].ID {
				t.Errorf("shown: %s", shown.ID)
			}
		})
	})
}

func compareNights(t *testing.T, s *history.Store, same func(question, answer string)) {
	for _, tt := range []struct {
		a, b string
		want map[string]history.State
	}{
		{night(brokeOn - 1), night(brokeOn), map[string]history.State{"broke lab-1 gbn.nak-psn": history.New,
			"renamed-well lab-2 gbn.retransmit-first": history.Still, "waived lab-1 fields.mig-req": history.Waived,
			"expected lab-1 gbn.ghost": ""}},
		{night(brokenFrom), night(repairedOn), map[string]history.State{"repaired lab-2 cnp.missing": history.Fixed}},
		{night(renamedOn - 1), night(renamedOn), map[string]history.State{
			"renamed-well lab-1 gbn.retransmit-first": history.Still}},
		{night(faultOn - 1), night(faultOn), map[string]history.State{"renamed-well lab-2 gbn.retransmit-first": history.NotRun,
			"renamed-well lab-1 gbn.retransmit-first": history.Still}},
		{"last-green", "last-night", map[string]history.State{"broke lab-1 gbn.nak-psn": history.New,
			"limit lab-2 expectation.unmet": history.New}},
		{"fw:28.39.1002", "fw:28.41.1000", map[string]history.State{"broke lab-1 gbn.nak-psn": history.NotRun}},
	} {
		c, text := ask[*history.Comparison](t)(s.Compare(t.Context(), tt.a, tt.b))
		same(tt.a+" "+tt.b, text)
		got := make(map[string]history.State)
		for i := range c.Findings {
			f := &c.Findings[i]
			got[f.Test+" "+f.Testbed+" "+f.Rule] = f.State
		}
		for finding, want := range tt.want {
			if strings.HasPrefix(tt.a, "fw:") {
				continue // the firmwares ran on two testbeds on the latest night
			}
			if got[finding] != want {
				t.Errorf("%s, %s: %s is %q, want %q", tt.a, tt.b, finding, got[finding], want)
			}
		}
		for finding, state := range got {
			if _, ok := tt.want[finding]; !ok && state == history.New {
				t.Errorf("%s, %s: %s is new", tt.a, tt.b, finding)
			}
		}
		if tt.b == night(brokeOn) && (len(c.Environment) != 1 || c.Environment[0].B != "28.41.1000" ||
			c.Environment[0].Testbed != "lab-1" || c.Environment[0].Tests != 20) {
			t.Errorf("environment: %+v", c.Environment)
		}
	}
	c, _ := ask[*history.Comparison](t)(s.Compare(t.Context(), night(stoppedOn-1), "last-night"))
	stopped := 0
	for _, x := range c.Tests {
		if x.State == history.NotRun && x.Test == "stopped" {
			stopped++
		}
	}
	if stopped != 2 {
		t.Errorf("tests: %+v", c.Tests)
	}
}

func night(i int) string { return "night-" + labNight(i).String() }

func blameNights(t *testing.T, s *history.Store, same func(question, answer string)) {
	for _, tt := range []struct {
		test, testbed string
		state         history.State
		bad           int // -1: none
		environment   int
	}{
		{"broke", "lab-1", history.Still, brokeOn, 1}, {"broke", "lab-2", "", -1, 0},
		{"repaired", "lab-1", history.Fixed, brokenFrom, 0}, {"limit", "lab-2", history.New, labNights - 1, 0},
		{"renamed", "lab-1", history.Still, 0, 0},
	} {
		list, text := ask[*history.BlameList](t)(s.Blame(t.Context(), tt.test, tt.testbed, history.Window{}))
		same("blame "+tt.test+tt.testbed, text)
		b := list.Blames[0]
		if b.State != tt.state || (b.FirstBad == nil) != (tt.bad < 0) || len(b.Environment) != tt.environment {
			t.Errorf("%s %s: %s", tt.test, tt.testbed, text)
			continue
		}
		if tt.bad >= 0 && b.FirstBad.Night != labNight(tt.bad) {
			t.Errorf("%s %s: first bad %v, want %v", tt.test, tt.testbed, b.FirstBad.Night, labNight(tt.bad))
		}
		if tt.bad > 0 && (b.LastGood == nil || b.LastGood.Night != labNight(tt.bad-1)) {
			t.Errorf("%s %s: last good %+v", tt.test, tt.testbed, b.LastGood)
		}
	}
}

func trendNights(t *testing.T, s *history.Store, same func(question, answer string)) {
	list, text := ask[*history.ShiftList](t)(s.Shifts(t.Context(), history.Window{}))
	same("shifts", text)
	found, others := false, 0
	for i := range list.Shifts {
		x := &list.Shifts[i]
		if x.Test == "steady-03" && x.Testbed == "lab-1" && x.First == labNight(shiftedOn) && x.Change > 0.05 && !x.Passed {
			found = true
		} else {
			others++
		}
	}
	if !found || others > 3 {
		t.Errorf("shifts: %s", text)
	}
	trend, text := ask[*history.TrendList](t)(s.Trend(t.Context(), "retrans.*", []string{"steady-03"}, "lab-1",
		history.Window{Nights: 20}))
	same("trend", text)
	if len(trend.Trends) != 1 || len(trend.Trends[0].Points) != 20 || trend.Trends[0].Noise == 0 ||
		trend.Trends[0].Smallest == 0 {
		t.Errorf("trend: %s", text)
	}
	beds, text := ask[*history.BedList](t)(s.Beds(t.Context(), history.Window{}))
	same("testbeds", text)
	if len(beds.Testbeds) != 2 || beds.Testbeds[1].Lost == 0 || beds.Testbeds[0].Smallest == 0 ||
		beds.Testbeds[0].Within < 0.02 {
		t.Errorf("testbeds: %s", text)
	}
}

func TestNightsAreDates(t *testing.T) {
	for _, tt := range []struct {
		at   time.Time
		want string
	}{
		{time.Date(2026, 11, 20, 23, 59, 59, 0, time.UTC), "2026-11-20"},
		{time.Date(2026, 11, 21, 0, 0, 0, 0, time.UTC), "2026-11-21"},
		{time.Date(1969, 12, 31, 23, 0, 0, 0, time.UTC), "1969-12-31"},
	} {
		if got := history.NightOf(tt.at).String(); got != tt.want {
			t.Errorf("%v: %s, want %s", tt.at, got, tt.want)
		}
	}
}
