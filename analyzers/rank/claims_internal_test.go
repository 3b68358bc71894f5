package rank

import (
	"candela.dev/candela/clock"
	"candela.dev/candela/trace"
)

// Link and Makes: how long frames take the link is not known, as what the switch sends by itself comes between them.
func (single) Link(int, int) (clock.BitRate, int) { return clock.Gbps, 0 }
func (single) Makes(int) bool                     { return true }
func (single) Decisions() []trace.DecisionKind    { return nil }
