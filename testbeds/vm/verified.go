package vm

import (
	"candela.dev/candela/generator"
	"candela.dev/candela/generator/verbs"
)

// verified reports for every connection and side whether the received data is the data sent.
func (t *Testbed) verified(r *generator.Report) []generator.DataReport {
	return verbs.Verified(r, [2][]verbs.Data{t.reports[0].Data, t.reports[1].Data},
		func(connection int, side generator.Side) *generator.Traffic {
			return &t.spec.Connections[connection].Traffic[side]
		})
}
