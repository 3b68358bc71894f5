package history

import (
	"cmp"
	"context"
	"database/sql"
	"math"
	"slices"
	"strings"

	"candela.dev/candela/orchestrator/history/statistics"
)

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
