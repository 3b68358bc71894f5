package history_test

import (
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"candela.dev/candela/orchestrator/history"
)

// randomRun is a new run, a later analysis of one of few, or one of a test that took another's name.
func randomRun(rng *rand.Rand) *history.Run {
	name := string(rune('a' + rng.IntN(4)))
	r := made(name, rng.IntN(3), rng.IntN(4))
	r.ID = fmt.Sprintf("%032x", rng.IntN(60))
	r.Analysed = r.Started.Add(time.Duration(rng.IntN(9)) * time.Hour)
	r.Testbed = []string{"lab", "rack"}[rng.IntN(2)]
	r.Environment["requester.kernel"] = fmt.Sprint("6.", rng.IntN(2))
	switch rng.IntN(4) {
	case 0:
		failing(r, fmt.Sprint("gbn.", rng.IntN(2)))
	case 1:
		r.Verdict = history.Broken
	}
	if rng.IntN(12) == 0 {
		r.Test.ID, r.Test.Was = name+"-new", []string{name, string(rune('a' + rng.IntN(4)))}
	}
	return r
}

// What is kept beside the runs, their tally and the packs of nights, agrees with them whatever is written: new runs,
// other verdicts of known ones, tests that become one. A store that was written before these were kept gets them when
// it is opened, and keeps all else.
func TestWhatIsKeptBesideTheRunsAgreesWithThem(t *testing.T) {
	engines(t, func(t *testing.T, address string) {
		rng := rand.New(rand.NewPCG(24, 3))
		s := open(t, address)
		right := func(when string) {
			t.Helper()
			if n, err := history.Miscounted(s); err != nil || n != 0 {
				t.Fatalf("%s: %d rows of the tally differ, %v", when, n, err)
			}
			if wrong, err := history.Mispacked(s); err != nil || len(wrong) > 0 {
				t.Fatalf("%s: %v, %v", when, wrong, err)
			}
		}
		for i := range 40 {
			runs := make([]*history.Run, 1+rng.IntN(9))
			for j := range runs {
				runs[j] = randomRun(rng)
			}
			ingest(t, s, runs...)
			right(fmt.Sprint("batch ", i))
		}
		answer := func() []any {
			list, err := s.List(t.Context(), history.Filter{})
			if err != nil {
				t.Fatal(err)
			}
			flaky, err := s.Flaky(t.Context(), history.Window{})
			if err != nil {
				t.Fatal(err)
			}
			return []any{list, flaky}
		}
		before := answer()
		if err := history.Downgrade(s); err != nil {
			t.Fatal(err)
		}
		if n, err := history.Miscounted(s); err == nil {
			t.Fatalf("there is still a tally, with %d differences", n)
		}
		s = open(t, address)
		right("upgraded")
		if d := cmp.Diff(before, answer()); d != "" {
			t.Error(d)
		}
		ingest(t, s, randomRun(rng), randomRun(rng))
		right("and written to")
	})
}
