package aifo

import (
	"context"

	"candela.dev/candela/reproduce/experiments"
)

// scheme is a queue and the hosts that it was evaluated with.
type scheme struct{ Name, File string } // of configs/rank

// What sweeps over the load share.
type (
	cell   = experiments.Cell
	figure = experiments.LoadFigure
)

func labels() []float64      { return experiments.LoadLabels() }
func figures() []figure      { return experiments.LoadFigures() }
func at(load float64) string { return experiments.AtLoad(load) }

// shared returns schemes as sweeps have them.
func shared(schemes []scheme) (list []experiments.Scheme) {
	for _, s := range schemes {
		list = append(list, experiments.Scheme(s))
	}
	return list
}

// sweeps measures schemes at all loads and returns their cells by name; a cell of a load that is not measured is nil.
func (l *lab) sweeps(ctx context.Context, schemes ...scheme) (map[string][]*cell, error) {
	if err := l.loads.Measure(ctx, l.Lab, shared(schemes)...); err != nil {
		return nil, err
	}
	measured := make(map[string][]*cell)
	for _, s := range schemes {
		measured[s.Name] = l.loads.Of(s.File, 0)
	}
	return measured, nil
}

// plotLoads draws what was measured as the figures of the source.
func (l *lab) plotLoads(number string, schemes ...scheme) {
	for _, f := range figures() {
		l.loads.Plot(l.Lab, number, "", "", f, 0, shared(schemes)...)
	}
}
