package site

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"candela.dev/candela/orchestrator/report"
)

// statistic is a quantity of flows whose panels a sweep shows.
type statistic struct {
	metric, word, unit string
	divisor            float64
	curve              string // title of the chart of a run that has the distribution
}

func statistics() []statistic {
	return []statistic{
		{"flows.fct", "Flow completion time", "us", 1e3, "Flow completion time, cumulative"},
		{"flows.slowdown-permille", "Slowdown", "times the ideal", 1e3, "Slowdown, cumulative"},
	}
}

// curvesOf keeps the distributions that panels show.
func curvesOf(r *report.Report) map[string]report.Series {
	curves := make(map[string]report.Series)
	for _, s := range statistics() {
		for _, c := range r.Charts {
			if c.Title == s.curve && len(c.Lines) == 1 {
				curves[s.curve] = c.Lines[0]
			}
		}
	}
	return curves
}

// panels draws completion times over the load: a panel for mean and p99 of each class of sizes, with a line for each
// combination of the other settings. Seeds and repetitions are averaged. At the greatest load it draws distributions.
// A sweep without loads has none.
func (w *writer) panels(s *Sweep) (charts []report.Chart) {
	x := s.loads()
	if x < 0 {
		return nil
	}
	for _, of := range statistics() {
		for _, class := range w.classes(s, of.metric) {
			for _, q := range []string{"mean", "p99"} {
				name := of.metric + class + ", " + q
				if lines := w.linesOver(s, x, name, of.divisor); len(lines) > 0 {
					charts = append(charts, report.Chart{Title: of.word + ", " + q + classText(class), X: lastKey(s.Axes[x]),
						Y: of.unit, Lines: lines, Panel: true})
				}
			}
		}
	}
	return append(charts, w.distributions(s, x)...)
}

// loads returns the axis of loads: that named so, or else the first whose values are several numbers; -1: none.
func (s *Sweep) loads() int {
	found := -1
	for i, path := range s.Axes {
		values := make(map[float64]bool)
		for _, p := range s.Points {
			if v, ok := p.number(i); ok {
				values[v] = true
			}
		}
		key := lastKey(path)
		if len(values) > 1 && key != seedKey && (key == "load" || found < 0) {
			found = i
		}
	}
	return found
}

const seedKey = "seed"

func (p *Point) number(axis int) (float64, bool) {
	v, err := strconv.ParseFloat(p.value(axis), 64)
	return v, err == nil
}

// classes returns the classes of sizes of a metric in the order of the runs, as suffixes of its name; all flows first.
func (w *writer) classes(s *Sweep, metric string) []string {
	list := []string{""}
	for _, p := range s.Points {
		for _, m := range w.site.Runs[p.Run].values {
			name, found := strings.CutSuffix(m.name, ", mean")
			if class, of := strings.CutPrefix(name, metric+"-"); found && of && !slices.Contains(list, "-"+class) &&
				strings.Contains(class, "B") {
				list = append(list, "-"+class)
			}
		}
	}
	return list
}

func classText(class string) string {
	if class == "" {
		return ""
	}
	return ", " + strings.ReplaceAll(class[1:], "-", " ")
}

// of names the line of a point by its settings but those of an axis and the seed.
func (p *Point) of(s *Sweep, x int) string {
	var words []string
	for i := range s.Axes {
		if i != x && lastKey(s.Axes[i]) != seedKey {
			words = append(words, p.value(i))
		}
	}
	return strings.Join(words, ", ")
}

// linesOver returns a measure over an axis.
func (w *writer) linesOver(s *Sweep, x int, quantity string, divisor float64) (lines []report.Series) {
	counts := make(map[string][]float64) // of the values of each mean, by line
	for i := range s.Points {
		p := &s.Points[i]
		values := w.site.Runs[p.Run].values
		k := slices.IndexFunc(values, func(m measure) bool { return m.name == quantity })
		at, ok := p.number(x)
		if k < 0 || !ok {
			continue
		}
		name := p.of(s, x)
		j := slices.IndexFunc(lines, func(l report.Series) bool { return l.Name == name })
		if j < 0 {
			j, lines = len(lines), append(lines, report.Series{Name: name})
		}
		l := &lines[j]
		place, found := slices.BinarySearch(l.Times, at)
		if !found {
			l.Times, l.Values = slices.Insert(l.Times, place, at), slices.Insert(l.Values, place, 0)
			counts[name] = slices.Insert(counts[name], place, 0)
		}
		n := &counts[name][place]
		*n++
		l.Values[place] += (values[k].value/divisor - l.Values[place]) / *n
	}
	return lines
}

// distributions draws those of the runs at the greatest value of an axis; of several runs that differ by seed alone,
// that of the first.
func (w *writer) distributions(s *Sweep, x int) (charts []report.Chart) {
	most, text := 0.0, ""
	for i := range s.Points {
		if v, ok := s.Points[i].number(x); ok && (text == "" || v > most) {
			most, text = v, s.Points[i].value(x)
		}
	}
	for _, of := range statistics() {
		c := report.Chart{Title: fmt.Sprintf("%s at %s %s", of.curve, lastKey(s.Axes[x]), text), X: of.unit, Y: "share",
			Steps: true, Panel: true}
		for i := range s.Points {
			p := &s.Points[i]
			line, ok := w.site.Runs[p.Run].curves[of.curve]
			line.Name = p.of(s, x)
			known := slices.ContainsFunc(c.Lines, func(l report.Series) bool { return l.Name == line.Name })
			if p.value(x) == text && ok && !known {
				c.Lines = append(c.Lines, line)
			}
		}
		if len(c.Lines) > 0 {
			charts = append(charts, c)
		}
	}
	return charts
}
