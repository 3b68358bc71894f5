package main

import "context"

// recorded is a figure that another program reached elsewhere, on an idle machine of the same kind: it is not measured
// again, and a loaded or slower machine makes the ratio to it look worse than it is.
type recorded float64

func (v recorded) open(context.Context, *lab) (sampler, error) {
	return func(context.Context) (float64, error) { return float64(v), nil }, nil
}
