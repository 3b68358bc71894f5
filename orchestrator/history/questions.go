package history

import (
	"cmp"
	"context"
	"database/sql"
	"math"
	"slices"
	"strings"
	"time"

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

// TrendPoint is a metric on a night.
type TrendPoint struct {
	Night  Night   `json:"night"`
	Runs   int     `json:"runs"`
	Median float64 `json:"median"`
	Spread float64 `json:"spread"` // standard deviation of the runs; relative if all values are positive
}

// Shift is a change of a metric's level.
type Shift struct {
	Subject
	Name   string  `json:"metric"` // empty: most metrics of the testbed together
	Unit   string  `json:"unit,omitempty"`
	First  Night   `json:"first"` // night of the new level
	Last   Night   `json:"last_before"`
	Found  Night   `json:"found"`
	Change float64 `json:"change"` // relative
	P      float64 `json:"p"`
	Passed bool    `json:"passed,omitempty"` // the next night was as before
}

// Trend is the course of one metric of a test.
type Trend struct {
	Subject
	Name   string       `json:"metric"`
	Unit   string       `json:"unit"`
	Points []TrendPoint `json:"nights"`
	Shifts []Shift      `json:"shifts"`
	// Noise is the greatest change from night to night that is usual for the metric; 0: too few nights.
	Noise float64 `json:"noise,omitempty"`
	// Smallest is the change that two nights would show; 0: too few nights.
	Smallest float64 `json:"smallest_visible_change,omitempty"`
}

// TrendList is the answer to how metrics went.
type TrendList struct {
	From   Night   `json:"from"`
	To     Night   `json:"to"`
	Trends []Trend `json:"trends"`
}

// bedSeries is a metric with its nights.
type bedSeries struct {
	id       int64
	variant  int64
	name     string
	unit     string
	nights   map[Night]aNight
	positive bool // all values of all nights
	constant bool // there is nothing to see
	first    float64
}

// add adds a night of a testbed.
func (b *bedSeries) add(to *bed, night Night, n aNight) {
	if b.nights == nil {
		b.nights = make(map[Night]aNight, defaultNights)
		b.first = n.center
		to.series = append(to.series, b)
	}
	b.nights[night] = n
	b.positive = b.positive && n.positive
	b.constant = b.constant && n.spread == 0 && n.center == b.first
}

// A bed is a testbed with its metrics.
type bed struct {
	name   string
	series []*bedSeries // that have a night, in the order of their rows
	nights []Night
}

// varying counts the metrics that can shift: those among which false alarms are limited.
func (b *bed) varying() (n int) {
	for _, x := range b.series {
		n += 1 - flag(x.constant)
	}
	return n
}

// beds reads the nights of all metrics, by testbed in the order of names.
func (s *Store) beds(ctx context.Context, from, to Night) (list []*bed, err error) {
	names, err := s.testbeds(ctx)
	if err != nil {
		return nil, err
	}
	byID, ids := make(map[int64]*bed), make(map[string]int64)
	for id, name := range names {
		byID[id], ids[name] = &bed{name: name}, id
	}
	byRow := make(map[int64]*bedSeries)
	err = s.query(ctx, func(row *sql.Rows) error {
		b := &bedSeries{positive: true, constant: true}
		err := row.Scan(&b.id, &b.variant, &b.name, &b.unit)
		byRow[b.id] = b
		return err
	}, `SELECT id, variant, name, unit FROM series`)
	if err != nil {
		return nil, err
	}
	err = s.query(ctx, func(row *sql.Rows) error {
		var testbed int64
		var night Night
		var data sql.RawBytes
		if err := row.Scan(&testbed, &night, &data); err != nil {
			return err
		}
		b := byID[testbed]
		if len(data) > 0 {
			b.nights = append(b.nights, night)
		}
		return eachPacked(data, func(series int64, n aNight) {
			if x := byRow[series]; x != nil { // nil: added since
				x.add(b, night, n)
			}
		})
	}, `SELECT testbed, night, metrics FROM pack WHERE night >= $1 AND night <= $2 ORDER BY night, testbed`, int64(from),
		int64(to))
	for _, name := range sortedKeys(ids) {
		list = append(list, byID[ids[name]])
	}
	return list, err
}

// values are the nights of a series as it is compared: as logarithms if all are positive.
func (b *bedSeries) values(nights []Night) statistics.Series {
	values := make(statistics.Series, len(nights))
	for i, night := range nights {
		n, ok := b.nights[night]
		switch {
		case !ok:
			values[i] = math.NaN()
		case b.positive:
			values[i] = n.center
		default:
			values[i] = n.median
		}
	}
	return values
}

// shifts detects the shifts of a testbed's metrics; others counts those of other testbeds.
func (b *bed) shifts(others int) (list []foundShift) {
	// A metric with a value of 0 or less is compared as it is: its changes are absolute, and it is left out of what all
	// metrics do together.
	var family []statistics.Series
	var of, odd []*bedSeries
	for _, x := range b.series {
		switch {
		case x.constant:
		case x.positive:
			family, of = append(family, x.values(b.nights)), append(of, x)
		default:
			odd = append(odd, x)
		}
	}
	list = detected(family, of, b.nights, others+len(odd))
	for _, x := range odd {
		list = append(list, detected([]statistics.Series{x.values(b.nights)}, []*bedSeries{x}, b.nights,
			others+len(family)+len(odd)-1)...)
	}
	for i := range list {
		list[i].Testbed = b.name
	}
	return list
}

// name gives shifts the names of their tests.
func (s *Store) name(ctx context.Context, list []foundShift) ([]Shift, error) {
	ids := make(map[int64]bool)
	for _, f := range list {
		if f.of != nil {
			ids[f.of.variant] = true
		}
	}
	subjects, err := s.subjects(ctx, idsOf(ids))
	if err != nil {
		return nil, err
	}
	shifts := make([]Shift, len(list))
	for i, f := range list {
		shifts[i] = f.Shift
		if f.of != nil {
			shifts[i].Subject = subjects[f.of.variant]
			shifts[i].Testbed = f.Testbed
		}
	}
	return shifts, nil
}

type foundShift struct {
	Shift
	of *bedSeries // nil: all
}

func detected(family []statistics.Series, of []*bedSeries, nights []Night, others int) (list []foundShift) {
	for _, d := range statistics.Detect(family, others) {
		f := foundShift{Shift: Shift{First: nights[d.First], Last: nights[max(d.First-1, 0)], Found: nights[d.Found],
			P: d.P, Passed: d.Passed, Change: math.Expm1(d.Change)}}
		if d.Series != statistics.Common {
			f.of = of[d.Series]
			f.Name, f.Unit = f.of.name, f.of.unit
			if !f.of.nights[f.First].positive {
				f.Change = 0
				if before := f.of.nights[f.Last].median; before != 0 {
					f.Change = f.of.nights[f.First].median/before - 1
				}
			}
		}
		list = append(list, f)
	}
	return list
}

// ShiftList is the answer to which metrics have shifted.
type ShiftList struct {
	From   Night   `json:"from"`
	To     Night   `json:"to"`
	Shifts []Shift `json:"shifts"`
}

// Shifts lists the shifts of all metrics, the latest first.
func (s *Store) Shifts(ctx context.Context, w Window) (*ShiftList, error) {
	from, to, err := s.window(ctx, w)
	if err != nil {
		return nil, err
	}
	beds, err := s.beds(ctx, from, to)
	if err != nil {
		return nil, err
	}
	list := &ShiftList{From: from, To: to, Shifts: []Shift{}}
	all := 0
	for _, b := range beds {
		all += b.varying()
	}
	var found []foundShift
	for _, b := range beds {
		found = append(found, b.shifts(all-b.varying())...)
	}
	if list.Shifts, err = s.name(ctx, found); err != nil {
		return nil, err
	}
	slices.SortFunc(list.Shifts, func(x, y Shift) int {
		return cmp.Or(-cmp.Compare(x.Found, y.Found), compareSubjects(&x.Subject, &y.Subject), cmp.Compare(x.Name, y.Name))
	})
	return list, nil
}

// Trend returns the course of a metric of the named tests; * in either is any text.
func (s *Store) Trend(ctx context.Context, metric string, tests []string, testbed string, w Window) (*TrendList,
	error) {
	from, to, err := s.window(ctx, w)
	if err != nil {
		return nil, err
	}
	var variants []int64
	if len(tests) > 0 {
		if variants, err = s.variants(ctx, tests); err != nil {
			return nil, err
		}
	}
	if testbed != "" {
		if _, err := s.testbed(ctx, testbed); err != nil {
			return nil, err
		}
	}
	beds, err := s.beds(ctx, from, to)
	if err != nil {
		return nil, err
	}
	all := 0
	for _, b := range beds {
		all += b.varying()
	}
	list := &TrendList{From: from, To: to, Trends: []Trend{}}
	others := make(map[string]bool)
	for _, b := range beds {
		if testbed != "" && b.name != testbed {
			continue
		}
		chosen := slices.DeleteFunc(slices.Clone(b.series), func(x *bedSeries) bool {
			if variants != nil && !slices.Contains(variants, x.variant) {
				return true
			}
			others[x.name] = true
			return !alike(metric, x.name)
		})
		if err := s.bedTrends(ctx, list, b, chosen, all); err != nil {
			return nil, err
		}
	}
	if len(list.Trends) == 0 {
		return nil, usagef("metric %q: these tests and nights have none; they have: %s", metric,
			cmp.Or(strings.Join(sortedKeys(others), ", "), "no metric"))
	}
	slices.SortFunc(list.Trends, func(x, y Trend) int {
		return cmp.Or(compareSubjects(&x.Subject, &y.Subject), cmp.Compare(x.Name, y.Name))
	})
	return list, nil
}

func (s *Store) bedTrends(ctx context.Context, list *TrendList, b *bed, chosen []*bedSeries, all int) error {
	if len(chosen) == 0 {
		return nil
	}
	found := b.shifts(all - b.varying())
	shifts, err := s.name(ctx, found)
	if err != nil {
		return err
	}
	ids := make(map[int64]bool)
	for _, x := range chosen {
		ids[x.variant] = true
	}
	subjects, err := s.subjects(ctx, idsOf(ids))
	if err != nil {
		return err
	}
	for _, x := range chosen {
		t := Trend{Subject: subjects[x.variant], Name: x.name, Unit: x.unit, Shifts: []Shift{}}
		t.Testbed = b.name
		var medians []float64
		for _, night := range b.nights {
			if n, ok := x.nights[night]; ok {
				t.Points, medians = append(t.Points, TrendPoint{night, n.n, n.median, n.spread}), append(medians, n.median)
			}
		}
		for i, f := range found {
			if f.of == x {
				t.Shifts = append(t.Shifts, shifts[i])
			}
		}
		t.Noise, _ = statistics.Noise(medians)
		if x.positive && !x.constant {
			t.Smallest, _ = statistics.SmallestShift(x.values(b.nights), all)
		}
		list.Trends = append(list.Trends, t)
	}
	return nil
}

// Bed is what a testbed can show.
type Bed struct {
	Testbed string `json:"testbed"`
	Metrics int    `json:"metrics"`
	// Smallest is the change of a metric that two nights would show: the median over metrics, and the largest of the best
	// nine tenths; 0: too few nights.
	Smallest float64 `json:"smallest_visible_change"`
	Tenth    float64 `json:"smallest_visible_change_p90"`
	// Within and Between are median relative deviations of runs in a night, and of nights.
	Within  float64 `json:"deviation_within_nights"`
	Between float64 `json:"deviation_between_nights"`
	// Apart is the median relative difference of its metrics from those of the other testbeds with the same tests.
	Apart float64 `json:"difference_from_other_testbeds"`
	Lost  int     `json:"runs_not_judged"`
	Runs  int     `json:"runs"`
}

// BedList is the answer to what testbeds can show.
type BedList struct {
	From     Night `json:"from"`
	To       Night `json:"to"`
	Testbeds []Bed `json:"testbeds"`
}

// Beds says of each testbed which change it could show, and how it differs from the others.
func (s *Store) Beds(ctx context.Context, w Window) (*BedList, error) {
	from, to, err := s.window(ctx, w)
	if err != nil {
		return nil, err
	}
	beds, err := s.beds(ctx, from, to)
	if err != nil {
		return nil, err
	}
	type shared struct {
		variant int64
		name    string
	}
	levels := make(map[shared]map[string]float64)
	list := &BedList{From: from, To: to, Testbeds: []Bed{}}
	metrics := 0
	for _, b := range beds {
		metrics += b.varying()
	}
	for _, of := range beds {
		b := Bed{Testbed: of.name, Metrics: len(of.series)}
		var smallest, within, between []float64
		for _, x := range of.series {
			if !x.positive || x.constant {
				continue
			}
			centers := x.values(of.nights)
			present := slices.DeleteFunc(slices.Clone(centers), math.IsNaN)
			for _, night := range of.nights {
				if n := x.nights[night]; n.n > 1 {
					within = append(within, n.spread)
				}
			}
			if len(present) > 1 {
				between = append(between, statistics.Spread(present))
			}
			if change, ok := statistics.SmallestShift(centers, metrics); ok {
				smallest = append(smallest, change)
			}
			key := shared{x.variant, x.name}
			if levels[key] == nil {
				levels[key] = make(map[string]float64)
			}
			levels[key][of.name] = statistics.Median(present)
		}
		b.Smallest, b.Within, b.Between = statistics.Median(smallest), statistics.Median(within), statistics.Median(between)
		b.Tenth = statistics.Percentile(smallest, 0.9)
		list.Testbeds = append(list.Testbeds, b)
	}
	runs := make(map[string][2]int)
	err = s.query(ctx, func(row *sql.Rows) error {
		var name string
		var n [2]int
		err := row.Scan(&name, &n[0], &n[1])
		runs[name] = n
		return err
	}, `SELECT b.name, r.runs, r.lost FROM (SELECT testbed, sum(runs) AS runs, sum(CASE WHEN verdict NOT IN (0, 1)
		THEN runs ELSE 0 END) AS lost FROM tally WHERE night >= $1 AND night <= $2 GROUP BY testbed) r
		JOIN testbed b ON b.id = r.testbed WHERE r.runs > 0`,
		int64(from), int64(to))
	if err != nil {
		return nil, err
	}
	for i := range list.Testbeds {
		b := &list.Testbeds[i]
		var apart []float64
		for _, of := range levels {
			own, ok := of[b.Testbed]
			var rest []float64
			for other, level := range of {
				if other != b.Testbed {
					rest = append(rest, level)
				}
			}
			if ok && len(rest) > 0 {
				apart = append(apart, own-statistics.Median(rest))
			}
		}
		b.Apart = math.Expm1(statistics.Median(apart))
		b.Runs, b.Lost = runs[b.Testbed][0], runs[b.Testbed][1]
	}
	return list, nil
}

// BlameRun is a run that bounds a change.
type BlameRun struct {
	ID      string    `json:"run_id"`
	Night   Night     `json:"night"`
	Started time.Time `json:"started"`
	Verdict Verdict   `json:"verdict"`
	Tool    string    `json:"tool_version"`
}

// Blame says when a test or a finding began to fail, and what changed then.
type Blame struct {
	Subject
	Finding string `json:"finding,omitempty"`
	State   State  `json:"state"` // new, still, flaky or fixed; empty: it never failed
	Failed  int    `json:"failed"`
	Runs    int    `json:"runs"`
	// LastGood and FirstBad bound the change; nil: there is none in the nights that were looked at.
	LastGood *BlameRun `json:"last_good"`
	FirstBad *BlameRun `json:"first_bad"`
	// Earliest and Latest bound the night of the change with 95 % confidence.
	Earliest *Night `json:"earliest,omitempty"`
	Latest   *Night `json:"latest,omitempty"`
	// Environment, Config and Tool are what changed between them.
	Environment []EnvironmentChange `json:"environment"`
	ConfigSame  bool                `json:"config_same"`
	// Lost counts runs between them that were not judged.
	Lost     int      `json:"not_judged_between"`
	Headline string   `json:"headline,omitempty"`
	Rules    []string `json:"rules"`

	lastEnvironment, firstEnvironment int64
}

// BlameList is the answer to since when something fails.
type BlameList struct {
	From   Night   `json:"from"`
	To     Night   `json:"to"`
	Blames []Blame `json:"blames"`
}

// blameRun is a run of the subject, in the order of time.
type blameRun struct {
	BlameRun
	row, environment int64
	config           string
	bad              bool
}

// Blame finds the last good and the first bad run of a test, or of a finding by its identity or the beginning of it,
// and what changed between them.
func (s *Store) Blame(ctx context.Context, what, testbed string, w Window) (*BlameList, error) {
	from, to, err := s.window(ctx, w)
	if err != nil {
		return nil, err
	}
	issue, hash, variants, err := s.blamed(ctx, what)
	if err != nil {
		return nil, err
	}
	courses, err := s.courses(ctx, from, to, variants)
	if err != nil {
		return nil, err
	}
	list := &BlameList{From: from, To: to, Blames: []Blame{}}
	for _, c := range courses {
		if testbed != "" && c.Testbed != testbed {
			continue
		}
		b, err := s.blame(ctx, c, issue, from, to)
		if err != nil {
			return nil, err
		}
		b.Finding = hash
		list.Blames = append(list.Blames, *b)
	}
	if len(list.Blames) == 0 {
		return nil, usagef("%q: no run from night %v to %v has it; --nights looks further back", what, from, to)
	}
	return list, nil
}

// blamed returns the finding or the tests that a person named.
func (s *Store) blamed(ctx context.Context, what string) (issue int64, hash string, variants []int64, err error) {
	if len(what) >= shortID && strings.Trim(what, "0123456789abcdef") == "" {
		var found []int64
		err = s.query(ctx, func(row *sql.Rows) error {
			var variant int64
			err := row.Scan(&issue, &hash, &variant)
			found = append(found, variant)
			return err
		}, `SELECT id, hash, variant FROM issue WHERE hash >= $1 AND hash < $2 ORDER BY hash LIMIT 2`, what, what+"g")
		switch {
		case err != nil:
			return 0, "", nil, err
		case len(found) == 1:
			return issue, hash, found, nil
		case len(found) > 1:
			return 0, "", nil, usagef("finding %s: several findings begin so; give more of it", what)
		}
	}
	variants, err = s.variants(ctx, []string{what})
	return 0, "", variants, err
}

func (s *Store) blame(ctx context.Context, c *course, issue int64, from, to Night) (*Blame, error) {
	runs, err := s.blameRuns(ctx, c, issue, from, to)
	if err != nil {
		return nil, err
	}
	b := &Blame{Subject: c.Subject, Environment: []EnvironmentChange{}, Rules: []string{}}
	var nights []Night
	var results []statistics.Nightly
	for i := range runs {
		r := &runs[i]
		if !r.Verdict.Judged() {
			continue
		}
		if len(nights) == 0 || nights[len(nights)-1] != r.Night {
			nights, results = append(nights, r.Night), append(results, statistics.Nightly{})
		}
		n := &results[len(results)-1]
		n.Runs++
		n.Failed += flag(r.bad)
	}
	if len(results) == 0 {
		return b, nil
	}
	b.bound(runs, nights, results)
	if b.FirstBad != nil {
		if err := s.blameFacts(ctx, b, issue); err != nil {
			return nil, err
		}
	}
	if b.LastGood != nil && b.FirstBad != nil && b.lastEnvironment != b.firstEnvironment {
		if b.Environment, err = s.environmentChanges(ctx, b.lastEnvironment, b.firstEnvironment); err != nil {
			return nil, err
		}
		for i := range b.Environment {
			b.Environment[i].Testbed, b.Environment[i].Tests = c.Testbed, 1
		}
	}
	return b, nil
}

// bound finds the change from which on the test fails as it does now.
func (b *Blame) bound(runs []blameRun, nights []Night, results []statistics.Nightly) {
	segments := statistics.Segments(results)
	at := len(segments) - 1
	now := segments[at]
	// The last change for the worse.
	for at > 0 && segments[at].Rate() <= segments[at-1].Rate() {
		at--
	}
	segment := segments[at]
	b.Failed, b.Runs = now.Failed, now.Runs
	switch {
	case now.Failed == 0 && len(segments) == 1:
		return
	case now.Failed == 0:
		b.State = Fixed
	case now.Failed == now.Runs && now.First == len(results)-1 && now.First > 0:
		b.State = New
	case now.Failed == now.Runs:
		b.State = Still
	case cameAndWent(results[now.First:]):
		b.State = Flaky
	default:
		b.State = New // the last nights fail; it is too early for a segment of its own
	}
	first, begin := nights[segment.First], 0
	if at > 0 {
		earliest, latest := nights[max(segment.Earliest-1, 0)], nights[segment.Latest]
		b.Earliest, b.Latest = &earliest, &latest
		for begin < len(runs) && runs[begin].Night < first {
			begin++
		}
	} else if b.State == New {
		for i := len(runs) - 1; i >= 0; i-- {
			if runs[i].Verdict.Judged() && !runs[i].bad {
				begin = i + 1
				break
			}
		}
	}
	// A change within a night lies between two of its runs.
	for begin > 0 && runs[begin-1].bad && runs[begin-1].Verdict.Judged() {
		begin--
	}
	bad := begin
	for bad < len(runs) && !(runs[bad].bad && runs[bad].Verdict.Judged()) {
		bad++
	}
	if bad == len(runs) {
		return
	}
	r := runs[bad]
	b.FirstBad, b.firstEnvironment = &r.BlameRun, r.environment
	for i := bad - 1; i >= 0; i-- {
		if !runs[i].Verdict.Judged() {
			b.Lost++
			continue
		}
		if !runs[i].bad {
			good := runs[i]
			b.LastGood, b.lastEnvironment = &good.BlameRun, good.environment
			b.ConfigSame = good.config == r.config
			return
		}
	}
	b.Lost = 0
}

func (s *Store) blameRuns(ctx context.Context, c *course, issue int64, from, to Night) (runs []blameRun, err error) {
	bad := make(map[int64]bool)
	if issue != 0 {
		err = s.query(ctx, func(row *sql.Rows) error {
			var id int64
			err := row.Scan(&id)
			bad[id] = true
			return err
		}, `SELECT DISTINCT run FROM finding WHERE issue = $1 AND severity = 1`, issue)
		if err != nil {
			return nil, err
		}
	}
	return runs, s.query(ctx, func(row *sql.Rows) error {
		var r blameRun
		var started int64
		var config []byte
		err := row.Scan(&r.row, &r.ID, &r.Night, &started, &r.Verdict, &r.Tool, &r.environment, &config)
		r.Started, r.config = time.UnixMicro(started).UTC(), string(config)
		if r.bad = r.Verdict == Fail; issue != 0 {
			r.bad = bad[r.row]
		}
		runs = append(runs, r)
		return err
	}, `SELECT id, run_id, night, started, verdict, tool, environment, config FROM run WHERE variant = $1 AND testbed = $2
		AND night >= $3 AND night <= $4 ORDER BY night, started, run_id`, c.variant, c.testbed, int64(from), int64(to))
}

// blameFacts reads what the first bad run violated.
func (s *Store) blameFacts(ctx context.Context, b *Blame, issue int64) error {
	return s.query(ctx, func(row *sql.Rows) error {
		var id int64
		var rule, headline string
		if err := row.Scan(&id, &rule, &headline); err != nil {
			return err
		}
		if issue != 0 && id != issue {
			return nil
		}
		if b.Headline == "" {
			b.Headline = headline
		}
		if !slices.Contains(b.Rules, rule) {
			b.Rules = append(b.Rules, rule)
		}
		return nil
	}, `SELECT i.id, i.rule, f.headline FROM run r JOIN finding f ON f.run = r.id JOIN issue i ON i.id = f.issue
		WHERE r.run_id = $1 AND f.severity = 1 AND f.expected = 0 ORDER BY f.number`, b.FirstBad.ID)
}

// environmentChanges compares two environments.
func (s *Store) environmentChanges(ctx context.Context, a, b int64) ([]EnvironmentChange, error) {
	values := map[int64]map[string]string{a: {}, b: {}}
	err := s.query(ctx, func(row *sql.Rows) error {
		var id int64
		var name, value string
		err := row.Scan(&id, &name, &value)
		values[id][name] = value
		return err
	}, `SELECT environment, name, value FROM property WHERE environment IN ($1, $2)`, a, b)
	list := propertyChanges(values[a], values[b])
	sortChanges(list)
	return list, err
}
