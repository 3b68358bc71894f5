package main

import "candela.dev/candela/orchestrator"

// ruleIDs names the rules that a test can expect to be violated.
func ruleIDs() []string {
	var ids []string
	for _, r := range orchestrator.Rules() {
		ids = append(ids, r.ID)
	}
	return ids
}
