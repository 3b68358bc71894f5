package analyzers

import (
	"slices"
	"strings"

	"candela.dev/candela/trace"
)

// oneDirection are the rules that need the packets of one direction only; analyzer fields has no others. How many PSNs
// a READ takes is known from the other direction.
var oneDirection = map[string]bool{
	"gbn.dma-length": true, "gbn.icrc": true, "gbn.opcode-sequence": true, "gbn.p-key-changed": true,
	"gbn.pad-count":      true,
	"gbn.payload-length": true, "gbn.read-restart": true, "gbn.retransmit-changed": true, "gbn.solicited": true,
	"gbn.syndrome": true, "cnp.format": true,
}

// dropOneSided removes findings and observations that compare both directions of a connection of which the trace has
// only one, or whose directions could not be paired: one of its queue pair numbers is 0.
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
