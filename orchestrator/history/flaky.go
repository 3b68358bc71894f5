package history

import (
	"cmp"
	"context"
	"database/sql"
	"slices"

	"candela.dev/candela/orchestrator/history/statistics"
)

// FlakyTest is a test that fails and passes without a change.
type FlakyTest struct {
	Subject
	Failed int     `json:"failed"`
	Runs   int     `json:"runs"`
	Rate   float64 `json:"rate"`
	Low    float64 `json:"rate_low"` // with 95 % confidence
	High   float64 `json:"rate_high"`
	Since  Night   `json:"since"` // first night with this rate
	// Rules are what its failed runs violated.
	Rules []string `json:"rules"`
}

// FlakyList is the answer to which tests are flaky.
type FlakyList struct {
	From  Night       `json:"from"`
	To    Night       `json:"to"`
	Tests []FlakyTest `json:"tests"`
}

// Flaky lists the tests whose failures come and go, the worst first. Runs that the lab spoiled do not count, and a test
// that broke or was repaired is not flaky.
func (s *Store) Flaky(ctx context.Context, w Window) (*FlakyList, error) {
	from, to, err := s.window(ctx, w)
	if err != nil {
		return nil, err
	}
	courses, err := s.courses(ctx, from, to, nil)
	if err != nil {
		return nil, err
	}
	list := &FlakyList{From: from, To: to, Tests: []FlakyTest{}}
	rows := make(map[[2]int64]int)
	for _, c := range courses {
		if len(c.results) == 0 {
			continue
		}
		segments := statistics.Segments(c.results)
		last := segments[len(segments)-1]
		if last.Failed == 0 || last.Failed == last.Runs || !c.unsteady(last.First) {
			continue
		}
		f := FlakyTest{Subject: c.Subject, Failed: last.Failed, Runs: last.Runs, Rate: last.Rate(),
			Since: c.nights[last.First], Rules: []string{}}
		f.Low, f.High = last.Interval()
		rows[[2]int64{c.variant, c.testbed}] = len(list.Tests)
		list.Tests = append(list.Tests, f)
	}
	if err := s.flakyRules(ctx, list, rows); err != nil {
		return nil, err
	}
	slices.SortStableFunc(list.Tests, func(x, y FlakyTest) int {
		return cmp.Or(-cmp.Compare(x.Rate, y.Rate), compareSubjects(&x.Subject, &y.Subject))
	})
	return list, nil
}

func (s *Store) flakyRules(ctx context.Context, list *FlakyList, rows map[[2]int64]int) error {
	if len(rows) == 0 {
		return nil
	}
	variants := make(map[int64]bool)
	for k := range rows {
		variants[k[0]] = true
	}
	return s.query(ctx, func(row *sql.Rows) error {
		var k [2]int64
		var rule string
		if err := row.Scan(&k[0], &k[1], &rule); err != nil {
			return err
		}
		if i, ok := rows[k]; ok {
			list.Tests[i].Rules = append(list.Tests[i].Rules, rule)
		}
		return nil
	}, `SELECT DISTINCT r.variant, r.testbed, i.rule FROM run r CROSS JOIN finding f CROSS JOIN issue i
		WHERE f.run = r.id AND i.id = f.issue AND +r.variant IN (`+numbers(idsOf(variants))+`) AND r.night >= $1 AND
		r.night <= $2 AND r.verdict = 1 AND f.severity = 1 AND f.expected = 0 AND f.waiver IS NULL
		ORDER BY r.variant, r.testbed, i.rule`, int64(list.From),
		int64(list.To))
}

// OwnedTest is a failing test of an owner.
type OwnedTest struct {
	Subject
	State  State    `json:"state"` // new, still or flaky
	Failed int      `json:"failed"`
	Runs   int      `json:"runs"`
	Since  Night    `json:"since"` // first night of the failures
	Rules  []string `json:"rules"`
}

// Owner has the failing tests of one owner.
type Owner struct {
	Owner  string      `json:"owner"` // empty: the tests name none
	Tests  []OwnedTest `json:"tests"`
	Passed int         `json:"passed"` // tests
	Lost   int         `json:"not_judged"`
}

// OwnerList is the answer to whose the failures are.
type OwnerList struct {
	Night  Night   `json:"night"`
	Owners []Owner `json:"owners"`
}

// Owners lists the failing tests of a night by owner, who has most of them first.
func (s *Store) Owners(ctx context.Context, w Window) (*OwnerList, error) {
	from, to, err := s.window(ctx, w)
	if err != nil {
		return nil, err
	}
	courses, err := s.courses(ctx, from, to, nil)
	if err != nil {
		return nil, err
	}
	list := &OwnerList{Night: to, Owners: []Owner{}}
	byName := make(map[string]*Owner)
	failing := &FlakyList{From: to, To: to}
	rows := make(map[[2]int64]int)
	var owned []OwnedTest
	for _, c := range courses {
		last := len(c.nights) - 1
		o := byName[c.Owner]
		if o == nil {
			o = &Owner{Owner: c.Owner, Tests: []OwnedTest{}}
			byName[c.Owner] = o
		}
		switch {
		case last < 0 || c.nights[last] != to:
			o.Lost++
			continue
		case c.results[last].Failed == 0:
			o.Passed++
			continue
		}
		t := OwnedTest{Subject: c.Subject, Failed: c.results[last].Failed, Runs: c.results[last].Runs}
		t.State, t.Since = c.failing()
		rows[[2]int64{c.variant, c.testbed}] = len(owned)
		owned = append(owned, t)
		failing.Tests = append(failing.Tests, FlakyTest{})
	}
	if err := s.flakyRules(ctx, failing, rows); err != nil {
		return nil, err
	}
	for i, t := range owned {
		t.Rules = append([]string{}, failing.Tests[i].Rules...)
		byName[t.Owner].Tests = append(byName[t.Owner].Tests, t)
	}
	for _, name := range sortedKeys(byName) {
		list.Owners = append(list.Owners, *byName[name])
	}
	slices.SortStableFunc(list.Owners, func(x, y Owner) int { return -cmp.Compare(len(x.Tests), len(y.Tests)) })
	return list, nil
}

// failing says how a test fails that failed on its last night, and since when.
func (c *course) failing() (State, Night) {
	segments := statistics.Segments(c.results)
	segment := segments[len(segments)-1]
	first := len(c.results) - 1
	for first > 0 && c.results[first-1].Failed == c.results[first-1].Runs {
		first--
	}
	last := c.results[len(c.results)-1]
	switch {
	case segment.Failed < segment.Runs && c.unsteady(segment.First):
		return Flaky, c.nights[segment.First]
	case first == len(c.results)-1 && last.Failed == last.Runs:
		return New, c.nights[first]
	case last.Failed < last.Runs:
		return Flaky, c.nights[len(c.nights)-1]
	}
	return Still, c.nights[first]
}
