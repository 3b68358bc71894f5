package history

import (
	"context"
	"database/sql"
	"math"
	"slices"

	"candela.dev/candela/orchestrator/history/statistics"
)

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
