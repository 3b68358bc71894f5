package analyzers

import (
	"slices"
	"strings"

	"candela.dev/candela/trace"
)

// oneDirection are the rules about packets of one direction alone; analyzer fields has no others. How many PSNs a READ
// takes shows in the other direction.
var oneDirection = map[string]bool{
	"gbn.dma-length": true, "gbn.icrc": true, "gbn.opcode-sequence": true, "gbn.p-key-changed": true,
	"gbn.pad-count":      true,
	"gbn.payload-length": true, "gbn.read-restart": true, "gbn.retransmit-changed": true, "gbn.solicited": true,
	"gbn.syndrome": true, "cnp.format": true,
}

// dropOneSided removes findings and observations that compare both directions of a connection of which the trace has
// one, or of which the pairing of directions is not known: a queue pair of such a connection is 0.
func dropOneSided(meta trace.Meta, a *Analysis) {
	oneSided := map[int]bool{}
	for _, c := range meta.Connections.All() {
		oneSided[c.Index] = c.Requester.QPN == 0 || c.Responder.QPN == 0
	}
	a.Observed = slices.DeleteFunc(a.Observed, func(o Observed) bool { return oneSided[o.Connection] })
	a.Findings = slices.DeleteFunc(a.Findings, func(f Finding) bool {
		return oneSided[f.Connection] && f.Severity != Note && !oneDirection[f.Rule] && !strings.HasPrefix(f.Rule, "fields.")
	})
}
