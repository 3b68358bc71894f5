package conformance

import "slices"

// Catalogue returns all rules, grouped by what they are about.
func Catalogue() []Rule {
	return slices.Concat(packetRules, acknowledgeRules, gapRules, duplicateRules, timerRules, validityRules, rocev2Rules,
		fieldRules)
}
