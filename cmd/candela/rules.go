package main

import (
	"candela.dev/candela/analyzers"
	"candela.dev/candela/analyzers/cnp"
	"candela.dev/candela/analyzers/counters"
	"candela.dev/candela/analyzers/gbn"
	"candela.dev/candela/analyzers/retrans"
)

// ruleIDs names the rules that a test can expect to be violated.
func ruleIDs() []string {
	var ids []string
	for _, rules := range [][]analyzers.Rule{gbn.Rules(), retrans.Rules(), cnp.Rules(), counters.Rules()} {
		for _, r := range rules {
			ids = append(ids, r.ID)
		}
	}
	return ids
}
