package plan

import (
	"candela.dev/candela/injector"
	"candela.dev/candela/orchestrator/config"
)

// iterScope is the path of the key that defines the meaning of iter.
const iterScope = "traffic.iter-scope"

// RefuseAmbiguous returns an error if an event has an ITER that depends on timing and the test does not set iter-scope.
// The error shows the corrected lines of source, the text of the file whose points are plans. A test that sets
// iter-scope only gets warnings.
func RefuseAmbiguous(plans []*Plan, source []byte) error {
	var problems []config.Problem
	var first *config.Test
	for _, p := range plans {
		if p.Test.Wrote(iterScope) {
			continue
		}
		for _, w := range p.Warnings {
			if !w.Ambiguous {
				continue
			}
			problems = append(problems, p.Test.ProblemAt(w.Path, w.Message, w.Why))
			if first == nil {
				first = p.Test
			}
		}
	}
	if first == nil {
		return nil
	}
	missing := first.ProblemAt(iterScope, "is missing, and without it iter is ambiguous in this test",
		"iter-scope: packet counts the transmissions of each packet. iter-scope: connection, the default, counts rounds of "+
			"the connection: after a go-back packets that were never sent before carry iter 2, too. Corrected:")
	missing.Lines = first.Corrected(source, iterScope, injector.IterPacket.String())
	return config.NewError(append(problems, missing))
}

// Unambiguous plans the points of one file, whose text is source. It returns an error if a point cannot run or an event
// is ambiguous; see [RefuseAmbiguous].
func Unambiguous(points []*config.Test, source []byte) error {
	plans := make([]*Plan, len(points))
	for i, t := range points {
		p, err := New(t)
		if err != nil {
			return err
		}
		plans[i] = p
	}
	return RefuseAmbiguous(plans, source)
}
