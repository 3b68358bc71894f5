package site

import (
	"fmt"
	"slices"
	"testing"

	"candela.dev/candela/orchestrator/report"
)

// pointsOf makes a sweep of seeds, models and loads; the mean FCT of small flows is load · (model + 1) us, plus what
// two seeds differ by.
func pointsOf(axes ...string) (*writer, *Sweep) {
	w, s := &writer{site: &Site{}}, &Sweep{Axes: axes}
	for seed := range 2 {
		for model, name := range []string{"a", "b"} {
			for _, load := range []int{8, 2} { // in any order
				s.Points = append(s.Points, Point{Values: []string{fmt.Sprint(seed), name, fmt.Sprint(load)},
					Run: len(w.site.Runs)})
				fct := float64(load*(model+1)*1000 + seed*100)
				w.site.Runs = append(w.site.Runs, Run{values: []measure{{"flows.fct-below-10-B, mean", "ns", fct},
					{"flows.fct-below-10-B, p99", "ns", 2 * fct}, {"flows.fct, mean", "ns", 7}},
					curves: map[string]report.Series{"Slowdown, cumulative": {Times: []float64{float64(len(s.Points))},
						Values: []float64{1}}}})
			}
		}
	}
	return w, s
}

func TestPanelsDrawTheMeanOfSeedsOverTheLoad(t *testing.T) {
	w, s := pointsOf("seed", "switch-under-test.model", "workload[0].poisson.load")
	charts := w.panels(s)
	var titles []string
	for _, c := range charts {
		titles = append(titles, c.Title)
	}
	if want := []string{"Flow completion time, mean", "Flow completion time, mean, below 10 B",
		"Flow completion time, p99, below 10 B", "Slowdown, cumulative at load 8"}; !slices.Equal(titles, want) {
		t.Fatalf("%q", titles)
	}
	for i, scale := range map[int]float64{1: 1, 2: 2} {
		for j, name := range []string{"a", "b"} {
			l := charts[i].Lines[j]
			m := float64(j + 1)
			if l.Name != name || !slices.Equal(l.Times, []float64{2, 8}) ||
				!slices.Equal(l.Values, []float64{scale * (2*m + 0.05), scale * (8*m + 0.05)}) {
				t.Errorf("%s: %+v", charts[i].Title, l)
			}
		}
	}
	if l := charts[3].Lines; len(l) != 2 || l[0].Name != "a" || l[0].Times[0] != 1 || l[1].Times[0] != 3 {
		t.Errorf("distributions %+v", l)
	}
	if charts[1].X != "load" || charts[1].Y != "us" || !charts[1].Panel {
		t.Errorf("%+v", charts[1])
	}
}

func TestASweepWithoutNumbersHasNoPanels(t *testing.T) {
	w, s := pointsOf("seed", "switch-under-test.model", "seed")
	if charts := w.panels(s); charts != nil {
		t.Errorf("%+v", charts)
	}
}
