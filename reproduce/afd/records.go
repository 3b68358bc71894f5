package afd

import (
	"math"
	"slices"
	"strconv"
	"strings"

	"candela.dev/candela/clock"
	"candela.dev/candela/reproduce/experiments"
)

// decision is what a switch recorded of a packet.
type decision struct {
	flow, queue, size int
	kind              string
	etrap             int64 // bytes of the flow
	elephant          bool
}

func readDecisions(path string) (list []decision, err error) {
	columns := []string{"flow", "queue", "size", "etrap_bytes", "elephant", "kind"}
	return list, experiments.ReadTable(path, columns, func(fields []string) error {
		var n [5]int64
		for i := range n {
			if fields[i] == "" {
				continue
			}
			v, err := strconv.ParseInt(fields[i], 10, 64)
			if err != nil {
				return err
			}
			n[i] = v
		}
		list = append(list, decision{flow: int(n[0]), queue: int(n[1]), size: int(n[2]), etrap: n[3], elephant: n[4] == 1,
			kind: strings.Clone(fields[5])})
		return nil
	})
}

// of returns the decisions about a flow, in order.
func (p *point) of(flow int) (list []decision) {
	for _, d := range p.decisions {
		if d.flow == flow {
			list = append(list, d)
		}
	}
	return list
}

// series are time series by name.
type series map[string]*samples

// samples are values at instants.
type samples struct {
	at     []clock.Time
	values []float64
}

func readSeries(path string) (series, error) {
	all := make(series)
	return all, experiments.ReadTable(path, []string{"t_ns", "name", "value"}, func(fields []string) error {
		ns, err := strconv.ParseInt(fields[0], 10, 64)
		if err != nil {
			return err
		}
		value, err := strconv.ParseFloat(fields[2], 64)
		if err != nil {
			return err
		}
		s := all[fields[1]]
		if s == nil {
			s = new(samples)
			all[strings.Clone(fields[1])] = s
		}
		s.at, s.values = append(s.at, clock.Time(0).Add(clock.Duration(ns)*clock.Nanosecond)), append(s.values, value)
		return nil
	})
}

// mean returns the mean of a series after from, until to; NaN if there is none.
func (all series) mean(name string, from, to clock.Duration) float64 {
	return mean(all.between(name, from, to))
}

func (all series) between(name string, from, to clock.Duration) (list []float64) {
	if s := all[name]; s != nil {
		for i, at := range s.at {
			if at.Sub(0) > from && at.Sub(0) <= to {
				list = append(list, s.values[i])
			}
		}
	}
	return list
}

// mean returns NaN if there are no values.
func mean(values []float64) float64 {
	sum := 0.0
	for _, v := range values {
		sum += v
	}
	return sum / float64(len(values))
}

// each returns a value of every run.
func each(points []*point, value func(*point) float64) (list []float64) {
	for _, p := range points {
		list = append(list, value(p))
	}
	return list
}

// counter returns a counter of the switch.
func (p *point) counter(name string) float64 {
	n, ok := p.Counts["switch."+name]
	if !ok {
		return math.NaN()
	}
	return float64(n)
}

// quantile returns the value below which a share of the values lies, NaN if there are none. It sorts them.
func quantile(values []float64, share float64) float64 {
	if len(values) == 0 {
		return math.NaN()
	}
	slices.Sort(values)
	return values[min(len(values)-1, int(share*float64(len(values))))]
}
