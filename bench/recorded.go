package main

import "context"

// recorded is a figure that another program reached on another, idle machine of the same kind. It is not measured
// again, so a loaded or slower machine makes the ratio look worse.
type recorded float64

func (v recorded) open(context.Context, *lab) (sampler, error) {
	return func(context.Context) (float64, error) { return float64(v), nil }, nil
}
