package experiments

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"math"
	"path/filepath"
	"slices"
	"strconv"

	"candela.dev/candela/clock"
	"candela.dev/candela/orchestrator"
	"candela.dev/candela/orchestrator/config"
	"candela.dev/candela/reproduce/comparison"
)

// LoadLabels are the loads of sweeps as NetBench's configurations call them; the last is an overload.
func LoadLabels() []float64 { return []float64{0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8} }

// AtLoad begins the words of a row.
func AtLoad(load float64) string { return fmt.Sprintf("load %.1f, ", load) }

// quickFor is the simulated time of a point of a quick reproduction.
const quickFor = 100 * clock.Millisecond

// quickLoads are the indices of its loads.
func quickLoads() []int { return []int{0, 3, 6} }

// Classes of sizes in bytes.
const small, large = 100_000, 1_000_000

// Scheme is a queue and the hosts that it is evaluated with.
type Scheme struct{ Name, File string }

// Cell is what one scheme did to the flows of one load, in ms. Completion times are of flows that have ended.
type Cell struct {
	Mean, P99, Large  float64 // flows below 100 KB: mean and 99th percentile; from 1 MB on: mean; NaN: none ended
	Ended, Unfinished int
	LateLarge         int // of the unfinished: from 1 MB on
	Sizes             []OfSize
}

// OfSize is what became of the flows of one size that ended. Distributions with more than mostSizes have none.
type OfSize struct {
	Bytes int64   `json:"bytes"`
	Mean  float64 `json:"mean_ms"`
	P99   float64 `json:"p99_ms"`
}

const mostSizes = 32

// stored is a cell in a file; what is NaN is absent.
type stored struct {
	Mean      *float64 `json:"small_mean_ms,omitempty"`
	P99       *float64 `json:"small_p99_ms,omitempty"`
	Large     *float64 `json:"large_mean_ms,omitempty"`
	Ended     int      `json:"ended"`
	Late      int      `json:"unfinished"`
	LateLarge int      `json:"unfinished_large"`
	Sizes     []OfSize `json:"sizes,omitempty"`
}

func (c *Cell) stored() *stored {
	known := func(v float64) *float64 {
		if math.IsNaN(v) {
			return nil
		}
		return &v
	}
	return &stored{known(c.Mean), known(c.P99), known(c.Large), c.Ended, c.Unfinished, c.LateLarge, c.Sizes}
}

func (s *stored) cell() *Cell {
	value := func(v *float64) float64 {
		if v == nil {
			return math.NaN()
		}
		return *v
	}
	return &Cell{value(s.Mean), value(s.P99), value(s.Large), s.Ended, s.Late, s.LateLarge, s.Sizes}
}

// Sweeps are schemes at all loads. Several results share some.
type Sweeps struct {
	Groups int               // of flows, beside all; 0: none
	Group  func(src int) int // of a flow, from 1, by the host that sends it
	cells  map[string][]cells
}

// cells are those of one load: of all flows, then of each group; nil: not measured.
type cells []*Cell

// Of returns what the scheme of a file did to a group of flows, by load; group 0 is all. A cell of a load that was not
// measured is nil.
func (w *Sweeps) Of(file string, group int) []*Cell {
	of := make([]*Cell, len(LoadLabels()))
	for i, c := range w.cells[file] {
		if c != nil {
			of[i] = c[group]
		}
	}
	return of
}

// Set is for tests: it takes cells of all flows, by load, as measured.
func (w *Sweeps) Set(file string, all []*Cell) {
	if w.cells == nil {
		w.cells = make(map[string][]cells)
	}
	w.cells[file] = make([]cells, len(all))
	for i, c := range all {
		if c != nil {
			w.cells[file][i] = slices.Repeat(cells{c}, 1+w.Groups)
		}
	}
}

// Measures says whether the load with an index is measured.
func (l *Lab) Measures(i int) bool {
	if c := &l.Config; len(c.Loads) > 0 {
		return slices.Contains(c.Loads, LoadLabels()[i])
	} else if c.Quick {
		return slices.Contains(quickLoads(), i)
	}
	return true
}

// pointOfSweep is one scheme at one load, by its index.
type pointOfSweep struct {
	Scheme
	load int
	test *config.SwitchTest
}

// Measure measures schemes at all loads that are not measured yet. Overloads take longest and come first, so that no
// worker ends long before the others.
func (w *Sweeps) Measure(ctx context.Context, l *Lab, schemes ...Scheme) error {
	if w.cells == nil {
		w.cells = make(map[string][]cells)
	}
	var wanted []pointOfSweep
	for _, s := range schemes {
		if w.cells[s.File] != nil {
			continue
		}
		tests, err := l.Tests(s.File)
		if err != nil {
			return err
		}
		w.cells[s.File] = make([]cells, len(tests))
		for i, t := range tests {
			if !l.Measures(i) {
				continue
			}
			if l.Config.Quick {
				Shorten(t, quickFor)
			}
			wanted = append(wanted, pointOfSweep{s, i, t})
		}
	}
	slices.SortStableFunc(wanted, func(a, b pointOfSweep) int { return cmp.Compare(b.load, a.load) })
	return l.Batch(ctx, len(wanted), func(n int) (err error) {
		p := wanted[n]
		w.cells[p.File][p.load], err = w.measure(ctx, l, p)
		return err
	})
}

// measure runs a point, or reads what an earlier call kept of it.
func (w *Sweeps) measure(ctx context.Context, l *Lab, p pointOfSweep) (c cells, err error) {
	run := NewRun(p.test, 1)
	var kept []*stored
	if known, err := l.Recall(p.File, &run, &kept); known || err != nil {
		for _, s := range kept {
			c = append(c, s.cell())
		}
		return c, err
	}
	err = l.Do(ctx, &run, nil, func(out *orchestrator.Outcome) (err error) {
		c, err = w.read(filepath.Join(out.Dir, "flows.csv"))
		return err
	})
	if err != nil {
		return nil, err
	}
	for _, of := range c {
		kept = append(kept, of.stored())
	}
	return c, l.Keep(p.File, &run, kept)
}

// Shorten ends a test early.
func Shorten(t *config.SwitchTest, after clock.Duration) {
	if t.Duration > 0 {
		t.Duration = after
	} else {
		t.Deadline = after
	}
	for i := range t.Workload {
		w := &t.Workload[i]
		if w.Values.Table().Find("stop-us") < 0 {
			continue
		}
		w.Values = w.Values.Clone()
		w.Values.SetStep("stop-us", int64(after))
	}
}

// read takes completion times from a table of flows. Those of endless flows, which have no size, do not count.
func (w *Sweeps) read(path string) (cells, error) {
	c := make(cells, 1+w.Groups)
	smalls, larges, sizes := make([][]float64, len(c)), make([][]float64, len(c)), make([]map[int64][]float64, len(c))
	for i := range c {
		c[i], sizes[i] = &Cell{}, make(map[int64][]float64)
	}
	columns := []string{"bytes", "fct_ns", "finished"}
	if w.Groups > 0 {
		columns = append(columns, "src")
	}
	err := ReadTable(path, columns, func(fields []string) error {
		bytes, err := strconv.ParseInt(fields[0], 10, 64)
		if err != nil || bytes == 0 {
			return err
		}
		in := []int{0}
		if w.Groups > 0 {
			src, err := strconv.Atoi(fields[3])
			if err != nil {
				return err
			}
			in = append(in, w.Group(src))
		}
		ended := fields[2] == "1"
		ns := int64(0)
		if ended {
			ns, err = strconv.ParseInt(fields[1], 10, 64)
		}
		ms := float64(ns) / 1e6
		for _, i := range in {
			switch of := c[i]; {
			case !ended:
				if of.Unfinished++; bytes >= large {
					of.LateLarge++
				}
				continue
			default:
				of.Ended++
			}
			if of := sizes[i]; len(of) <= mostSizes {
				of[bytes] = append(of[bytes], ms)
			}
			if bytes < small {
				smalls[i] = append(smalls[i], ms)
			} else if bytes >= large {
				larges[i] = append(larges[i], ms)
			}
		}
		return err
	})
	for i, of := range c {
		of.Mean, of.Large, of.P99 = Mean(smalls[i]), Mean(larges[i]), quantile(smalls[i], 0.99)
		if len(sizes[i]) > mostSizes {
			continue
		}
		for _, bytes := range slices.Sorted(maps.Keys(sizes[i])) {
			took := sizes[i][bytes]
			of.Sizes = append(of.Sizes, OfSize{bytes, Mean(took), quantile(took, 0.99)})
		}
	}
	return c, err
}

// Mean returns NaN if there are no values.
func Mean(values []float64) float64 {
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

// LoadFigure is one of three plots of completion times over the load.
type LoadFigure struct {
	Suffix, Title string
	Of            func(c *Cell) float64
}

// LoadFigures lists them.
func LoadFigures() []LoadFigure {
	return []LoadFigure{
		{"-small-mean", "flows below 100 KB, mean", func(c *Cell) float64 { return c.Mean }},
		{"-small-p99", "flows below 100 KB, 99th percentile", func(c *Cell) float64 { return c.P99 }},
		{"-large-mean", "flows from 1 MB on, mean", func(c *Cell) float64 { return c.Large }},
	}
}

// Plot draws a figure of what a group of flows got under schemes; number is that of the figure in the source.
func (w *Sweeps) Plot(l *Lab, number, suffix, title string, f LoadFigure, group int, schemes ...Scheme) {
	p := comparison.Plot{Name: "fig-" + number + suffix + f.Suffix, Title: "Figure " + number + ": " + f.Title + title,
		X: "load", Y: "completion time, ms"}
	for _, s := range schemes {
		line := comparison.Series{Name: s.Name}
		for i, c := range w.Of(s.File, group) {
			if c != nil && !math.IsNaN(f.Of(c)) {
				line.X, line.Y = append(line.X, LoadLabels()[i]), append(line.Y, f.Of(c))
			}
		}
		p.Series = append(p.Series, line)
	}
	l.Plot(p)
}

// RowOfUnfinished adds a row for the flows that a load left unfinished: they are in no completion time.
func (l *Lab) RowOfUnfinished(id string, load float64, scheme string, c *Cell) {
	from := comparison.Unjudged("the data have no such count; what has not ended is in no completion time")
	row := comparison.NewRow(id, AtLoad(load)+scheme+": unfinished flows of all", "%", 0, 0, 0,
		100*float64(c.Unfinished)/float64(c.Ended+c.Unfinished))
	l.Row(from, row.Noted(strconv.Itoa(c.Unfinished)+" flows, "+strconv.Itoa(c.LateLarge)+" of them from 1 MB on"))
}
