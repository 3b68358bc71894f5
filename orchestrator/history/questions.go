package history

import (
	"cmp"
	"context"
	"database/sql"
	"slices"

	"candela.dev/candela/orchestrator/history/statistics"
)

// Window chooses the nights of a question: so many until Last.
type Window struct {
	Last   *Night // nil: the latest night of the store
	Nights int    // 0: 30
}

const defaultNights = 30

func (s *Store) window(ctx context.Context, w Window) (from, to Night, err error) {
	if w.Last != nil {
		to = *w.Last
	} else if to, err = s.latestNight(ctx); err != nil {
		return 0, 0, err
	}
	return to - Night(cmp.Or(w.Nights, defaultNights)) + 1, to, nil
}

// course is what became of a subject night after night.
type course struct {
	Subject
	variant, testbed int64
	nights           []Night
	results          []statistics.Nightly
	environments     []map[int64]bool // of judged runs
	lost             int              // runs that were not judged
}

// fewVariants is up to how many tests are looked for by test, in all nights. Of more the nights are read, for which the
// plus sign keeps the engines from the index of tests.
const fewVariants = 8

// courses reads the results of the runs between two nights, in the order of subjects.
func (s *Store) courses(ctx context.Context, from, to Night, variants []int64) ([]*course, error) {
	var w where
	w.add("runs > 0")
	w.add("night >= ?", int64(from))
	w.add("night <= ?", int64(to))
	switch {
	case len(variants) > fewVariants:
		w.add("+variant IN (" + numbers(variants) + ")")
	case variants != nil:
		w.add("variant IN (" + numbers(variants) + ")")
	}
	byRow := make(map[[2]int64]*course)
	err := s.query(ctx, func(row *sql.Rows) error {
		var k [2]int64
		var night Night
		var verdict Verdict
		var environment int64
		var n int
		if err := row.Scan(&night, &k[0], &k[1], &verdict, &environment, &n); err != nil {
			return err
		}
		c := byRow[k]
		if c == nil {
			c = &course{variant: k[0], testbed: k[1]}
			byRow[k] = c
		}
		if !verdict.Judged() {
			c.lost += n
			return nil
		}
		if last := len(c.nights) - 1; last < 0 || c.nights[last] != night {
			c.nights, c.results = append(c.nights, night), append(c.results, statistics.Nightly{})
			c.environments = append(c.environments, map[int64]bool{})
		}
		last := len(c.nights) - 1
		c.environments[last][environment] = true
		c.results[last].Runs += n
		if verdict == Fail {
			c.results[last].Failed += n
		}
		return nil
	}, `SELECT night, variant, testbed, verdict, environment, runs FROM tally`+w.String()+
		` ORDER BY night, variant, testbed, verdict, environment`, w.args...)
	if err != nil {
		return nil, err
	}
	return s.named(ctx, byRow)
}

func (s *Store) named(ctx context.Context, byRow map[[2]int64]*course) ([]*course, error) {
	ids := make(map[int64]bool)
	for k := range byRow {
		ids[k[0]] = true
	}
	subjects, err := s.subjects(ctx, idsOf(ids))
	if err != nil {
		return nil, err
	}
	beds, err := s.testbeds(ctx)
	if err != nil {
		return nil, err
	}
	list := make([]*course, 0, len(byRow))
	for k, c := range byRow {
		c.Subject = subjects[k[0]]
		c.Testbed = beds[k[1]]
		list = append(list, c)
	}
	slices.SortFunc(list, func(x, y *course) int { return compareSubjects(&x.Subject, &y.Subject) })
	return list, nil
}

// unsteady reports whether a test failed and passed in an unchanged environment within nights from first on.
func (c *course) unsteady(first int) bool {
	failed := false
	for i := first; i < len(c.results); i++ {
		n := c.results[i]
		if n.Failed > 0 && n.Failed < n.Runs {
			return true
		}
		if failed && n.Failed == 0 && sharesOne(c.environments[i-1], c.environments[i]) {
			return true
		}
		failed = n.Failed > 0
	}
	return false
}

func sharesOne(a, b map[int64]bool) bool {
	for k := range a {
		if b[k] {
			return true
		}
	}
	return false
}
