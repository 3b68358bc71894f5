package aifo

import (
	"cmp"
	"context"
	"math"
	"path/filepath"
	"slices"
	"strconv"

	"candela.dev/candela/clock"
	"candela.dev/candela/orchestrator"
	"candela.dev/candela/orchestrator/config"
	"candela.dev/candela/reproduce/comparison"
	"candela.dev/candela/reproduce/experiments"
)

// labels are the loads as the source calls them; the last is an overload.
func labels() []float64 { return []float64{0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8} }

// quickFor is the simulated time of a point of a quick reproduction.
const quickFor = 100 * clock.Millisecond

// quickLabels are the indices of its loads.
func quickLabels() []int { return []int{0, 3, 6} }

// Classes of sizes in bytes.
const small, large = 100_000, 1_000_000

// cell is what one scheme did to the flows of one load, in ms. Completion times are of flows that have ended.
type cell struct {
	mean, p99, large  float64 // flows below 100 KB: mean and 99th percentile; from 1 MB on: mean; NaN: none ended
	ended, unfinished int
	lateLarge         int // of the unfinished: from 1 MB on
}

// stored is a cell in a file; what is NaN is absent.
type stored struct {
	Mean      *float64 `json:"small_mean_ms,omitempty"`
	P99       *float64 `json:"small_p99_ms,omitempty"`
	Large     *float64 `json:"large_mean_ms,omitempty"`
	Ended     int      `json:"ended"`
	Late      int      `json:"unfinished"`
	LateLarge int      `json:"unfinished_large"`
}

func (c *cell) stored() *stored {
	known := func(v float64) *float64 {
		if math.IsNaN(v) {
			return nil
		}
		return &v
	}
	return &stored{known(c.mean), known(c.p99), known(c.large), c.ended, c.unfinished, c.lateLarge}
}

func (s *stored) cell() *cell {
	value := func(v *float64) float64 {
		if v == nil {
			return math.NaN()
		}
		return *v
	}
	return &cell{value(s.Mean), value(s.P99), value(s.Large), s.Ended, s.Late, s.LateLarge}
}

// measures says whether the load with an index is measured.
func (l *lab) measures(i int) bool {
	if c := &l.Config; len(c.Loads) > 0 {
		return slices.Contains(c.Loads, labels()[i])
	} else if c.Quick {
		return slices.Contains(quickLabels(), i)
	}
	return true
}

// point is one scheme at one load, by its index.
type point struct {
	scheme
	load int
	test *config.SwitchTest
}

// sweeps measures schemes at all loads; a cell of another load is nil. Overloads take longest and come first, so that
// no worker ends long before the others.
func (l *lab) sweeps(ctx context.Context, schemes ...scheme) error {
	if l.cells == nil {
		l.cells = make(map[string][]*cell)
	}
	var wanted []point
	for _, s := range schemes {
		if l.cells[s.file] != nil {
			continue
		}
		tests, err := l.Tests(s.file)
		if err != nil {
			return err
		}
		l.cells[s.file] = make([]*cell, len(tests))
		for i, t := range tests {
			if !l.measures(i) {
				continue
			}
			if l.Config.Quick {
				shorten(t)
			}
			wanted = append(wanted, point{s, i, t})
		}
	}
	slices.SortStableFunc(wanted, func(a, b point) int { return cmp.Compare(b.load, a.load) })
	return l.Batch(ctx, len(wanted), func(n int) (err error) {
		p := wanted[n]
		l.cells[p.file][p.load], err = l.measure(ctx, p)
		return err
	})
}

// measure runs a point, or reads what an earlier call kept of it.
func (l *lab) measure(ctx context.Context, p point) (c *cell, err error) {
	run := experiments.NewRun(p.test, 1)
	var was stored
	if known, err := l.Recall(p.file, &run, &was); known || err != nil {
		return was.cell(), err
	}
	err = l.Do(ctx, &run, nil, func(out *orchestrator.Outcome) (err error) {
		c, err = readCell(filepath.Join(out.Dir, "flows.csv"))
		return err
	})
	if err != nil {
		return nil, err
	}
	return c, l.Keep(p.file, &run, c.stored())
}

// shorten ends a test early.
func shorten(t *config.SwitchTest) {
	t.Deadline = quickFor
	for i := range t.Workload {
		w := &t.Workload[i]
		w.Values = w.Values.Clone()
		w.Values.SetStep("stop-us", int64(quickFor))
	}
}

func readCell(path string) (*cell, error) {
	c := &cell{}
	var smalls, larges []float64
	err := experiments.ReadTable(path, []string{"bytes", "fct_ns", "finished"}, func(fields []string) error {
		bytes, err := strconv.ParseInt(fields[0], 10, 64)
		if err != nil {
			return err
		}
		if fields[2] != "1" {
			if c.unfinished++; bytes >= large {
				c.lateLarge++
			}
			return nil
		}
		ns, err := strconv.ParseInt(fields[1], 10, 64)
		ms := float64(ns) / 1e6
		switch c.ended++; {
		case bytes < small:
			smalls = append(smalls, ms)
		case bytes >= large:
			larges = append(larges, ms)
		}
		return err
	})
	c.mean, c.large, c.p99 = mean(smalls), mean(larges), quantile(smalls, 0.99)
	return c, err
}

// mean returns NaN if there are no values.
func mean(values []float64) float64 {
	sum := 0.0
	for _, v := range values {
		sum += v
	}
	return sum / float64(len(values))
}

// quantile returns the least value that a share of the values does not exceed, NaN if there are none. It sorts them.
func quantile(values []float64, share float64) float64 {
	if len(values) == 0 {
		return math.NaN()
	}
	slices.Sort(values)
	return values[max(0, int(math.Ceil(share*float64(len(values))))-1)]
}

// figure is one of three plots of completion times over the load.
type figure struct {
	suffix, title string
	of            func(c *cell) float64
}

func figures() []figure {
	return []figure{
		{"-small-mean", "flows below 100 KB, mean", func(c *cell) float64 { return c.mean }},
		{"-small-p99", "flows below 100 KB, 99th percentile", func(c *cell) float64 { return c.p99 }},
		{"-large-mean", "flows from 1 MB on, mean", func(c *cell) float64 { return c.large }},
	}
}

// plotLoads draws what was measured as the figures of the source.
func (l *lab) plotLoads(name string, schemes []scheme, measured map[string][]*cell) {
	for _, f := range figures() {
		p := comparison.Plot{Name: name + f.suffix, Title: "Figure " + name[len("fig-"):] + ": " + f.title, X: "load",
			Y: "completion time, ms"}
		for _, s := range schemes {
			line := comparison.Series{Name: s.name}
			for i, c := range measured[s.name] {
				if c != nil && !math.IsNaN(f.of(c)) {
					line.X, line.Y = append(line.X, labels()[i]), append(line.Y, f.of(c))
				}
			}
			p.Series = append(p.Series, line)
		}
		l.Plot(p)
	}
}

// unfinished adds a row for the flows that a load left unfinished: they are in no completion time.
func (l *lab) unfinished(id string, load float64, s scheme, c *cell) {
	from := comparison.Unjudged("the data have no such count; what has not ended is in no completion time")
	row := comparison.NewRow(id, at(load)+s.name+": unfinished flows of all", "%", 0, 0, 0,
		100*float64(c.unfinished)/float64(c.ended+c.unfinished))
	l.Row(from, row.Noted(strconv.Itoa(c.unfinished)+" flows, "+strconv.Itoa(c.lateLarge)+" of them from 1 MB on"))
}
