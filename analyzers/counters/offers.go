package counters

// Offers reports whether a vendor's driver has the counter of a rule of this package. Every driver offers rules about
// counters in general.
func Offers(naming, rule string) bool {
	for c := range TxDiscards {
		if ruleIDs[c] == rule {
			return namings[naming][c] != ""
		}
	}
	return true
}
