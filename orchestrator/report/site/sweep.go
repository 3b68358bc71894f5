package site

import (
	"errors"
	"fmt"
	"strings"

	"candela.dev/candela/analyzers"
	"candela.dev/candela/orchestrator/report"
)

// Sweep is a sweep: its varied settings, and the run of each point.
type Sweep struct {
	Name   string
	File   string
	Axes   []string // paths of the varied settings
	Points []Point

	number int
}

// Point is a point of a sweep, or one of its repetitions.
type Point struct {
	Number int
	Repeat int
	Values []string // by axis
	Run    int      // index of the run
}

func (s *Sweep) href() string { return fmt.Sprintf("%s/%d.html", sweepsDir, s.number) }

// Href returns the address of the sweep's page, relative to the index.
func (s *Sweep) Href() string { return s.href() }

// Varied lists the varied settings.
func (s *Sweep) Varied() string { return strings.Join(s.Axes, " × ") }

// given lists the values that the sweep set for a run.
func (s *Sweep) given(run int) string {
	for _, p := range s.Points {
		if p.Run != run {
			continue
		}
		var parts []string
		for i, v := range p.Values {
			if i < len(s.Axes) {
				parts = append(parts, lastKey(s.Axes[i])+" "+v)
			}
		}
		if p.Repeat > 0 {
			parts = append(parts, fmt.Sprintf("repeat %d", p.Repeat))
		}
		return report.OneLine(strings.Join(parts, ", "))
	}
	return ""
}

func lastKey(path string) string { return path[strings.LastIndexByte(path, '.')+1:] }

type measure struct {
	name, unit string
	value      float64
}

// measures returns the numbers of a run that can be plotted: counts over its connections, key numbers, and quantiles of
// each metric over all connections.
func measures(r *report.Report) []measure {
	var list []measure
	violations := 0
	for i := range r.Findings {
		if f := &r.Findings[i]; f.Severity == analyzers.Violation && !f.Wanted && f.Waiver == "" {
			violations++
		}
	}
	list = append(list, measure{"violations", "count", float64(violations)},
		measure{"packets", "count", float64(r.Packets)}, measure{"duration", "ns", float64(r.SpanNS)})
	for _, n := range r.Numbers {
		list = append(list, measure{n.Name, "", n.Value})
	}
	if len(r.Connections) > 0 {
		var sum [8]int64
		for i := range r.Connections {
			c := &r.Connections[i]
			for k, n := range []int64{c.Data, c.Resent, c.Acks, c.Naks, c.RNRs, c.CNPs, c.Timeouts, c.Events} {
				sum[k] += n
			}
		}
		for k, name := range []string{"data packets", "retransmitted packets", "ACKs", "NAKs", "RNR NAKs", "CNPs",
			"timeouts", "events"} {
			list = append(list, measure{name, "count", float64(sum[k])})
		}
	}
	for i := range r.Metrics {
		m := &r.Metrics[i]
		if m.Connection != 0 || m.Count == 0 {
			continue
		}
		if m.Unit == analyzers.UnitCount && m.Count == 1 {
			list = append(list, measure{m.Name, m.Unit, float64(m.Sum)})
			continue
		}
		for _, q := range []struct {
			name  string
			value float64
		}{{"median", float64(m.P50)}, {"p99", float64(m.P99)}, {"mean", float64(m.Sum) / float64(m.Count)},
			{"min", float64(m.Min)}, {"max", float64(m.Max)}, {"count", float64(m.Count)}} {
			unit := m.Unit
			if q.name == "count" {
				unit = analyzers.UnitCount
			}
			list = append(list, measure{m.Name + ", " + q.name, unit, q.value})
		}
	}
	return list
}

// sweepData is the input of the script of a sweep's page.
type sweepData struct {
	Axes    []sweepAxis   `json:"axes"`
	Metrics []sweepMetric `json:"metrics"`
	Points  []sweepPoint  `json:"points"`
}

type sweepAxis struct {
	Path   string   `json:"path"`
	Values []string `json:"values"` // in the order of the sweep
}

type sweepMetric struct {
	Name string `json:"name"`
	Unit string `json:"unit"`
}

type sweepPoint struct {
	At     []int      `json:"at"` // by axis, index into its values
	Word   string     `json:"word"`
	Class  string     `json:"class"`
	Page   string     `json:"page"`
	Number int        `json:"number"`
	Repeat int        `json:"repeat,omitempty"`
	Values []*float64 `json:"values"` // by metric; null: not measured
}

// sweepPage is the input of a sweep's template.
type sweepPage struct {
	*Sweep
	Site   string
	Counts []count
	Class  string
	Rows   []sweepRow
	Data   string
	Total  int
	Panels report.Parts
}

type sweepRow struct {
	Page, Number, Word, Class, Brief string
	Values                           []string
}

func (w *writer) sweep(i int) error {
	s := &w.site.Sweeps[i]
	data := sweepData{Metrics: []sweepMetric{}, Points: []sweepPoint{}}
	for _, path := range s.Axes {
		data.Axes = append(data.Axes, sweepAxis{Path: path, Values: []string{}})
	}
	index := w.metricsOf(s, &data)
	page := sweepPage{Sweep: s, Site: w.site.title(), Data: fmt.Sprintf("%d.js", s.number), Total: len(s.Points)}
	var runs []Run
	for _, p := range s.Points {
		run := &w.site.Runs[p.Run]
		runs = append(runs, *run)
		point := sweepPoint{Word: run.entry.Word, Class: run.entry.Class, Page: "../" + runsDir + "/" + run.file,
			Number: p.Number, Repeat: p.Repeat, Values: make([]*float64, len(data.Metrics))}
		for a := range data.Axes {
			point.At = append(point.At, data.Axes[a].place(p.value(a)))
		}
		for k := range run.values {
			m := &run.values[k]
			point.Values[index[m.name]] = &m.value
		}
		data.Points = append(data.Points, point)
		row := sweepRow{Page: point.Page, Number: fmt.Sprint(p.Number), Word: point.Word, Class: point.Class,
			Brief: run.entry.Brief}
		if p.Repeat > 0 {
			row.Number += fmt.Sprintf(", repeat %d", p.Repeat)
		}
		for a := range s.Axes {
			row.Values = append(row.Values, p.value(a))
		}
		page.Rows = append(page.Rows, row)
	}
	page.Counts, page.Class = counts(runs)
	page.Panels = report.NewParts(nil, w.panels(s), nil)
	return errors.Join(w.script(fmt.Sprintf("%s/%d.js", sweepsDir, s.number), data),
		w.page(s.href(), "sweep.gohtml", page))
}

// metricsOf lists the numbers of all points in order of first occurrence.
func (w *writer) metricsOf(s *Sweep, data *sweepData) map[string]int {
	index := map[string]int{}
	for _, p := range s.Points {
		for _, m := range w.site.Runs[p.Run].values {
			if _, ok := index[m.name]; !ok {
				index[m.name] = len(data.Metrics)
				data.Metrics = append(data.Metrics, sweepMetric{report.OneLine(m.name), m.unit})
			}
		}
	}
	return index
}

func (p *Point) value(axis int) string {
	if axis >= len(p.Values) {
		return ""
	}
	return report.OneLine(p.Values[axis])
}

// place returns the index of a value and adds it if it is new.
func (a *sweepAxis) place(value string) int {
	for i, v := range a.Values {
		if v == value {
			return i
		}
	}
	a.Values = append(a.Values, value)
	return len(a.Values) - 1
}
