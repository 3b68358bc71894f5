package orchestrator

import (
	"context"

	"candela.dev/candela/analyzers"
	"candela.dev/candela/analyzers/gbn"
)

// Illegal returns how often a failed run of a [Scratch] took each illegal transition of gbn's machines; nil for other
// runs.
func Illegal(ctx context.Context, o *Outcome) (map[string]int64, error) {
	f := o.facts
	if f == nil {
		return nil, nil
	}
	g := gbn.New(f.checked.Meta(), gbnConfig(f.checked.Meta().Connections.Len(), f.plan.Test, &f.counters))
	_, err := analyzers.Run(ctx, f.checked, g)
	return g.Illegal(), err
}
