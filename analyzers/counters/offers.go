package counters

// Offers reports whether a vendor's driver has the counter that a rule of this package judges. Rules about counters in
// general are offered by all.
func Offers(naming, rule string) bool {
	for c := range TxDiscards {
		if ruleIDs[c] == rule {
			return namings[naming][c] != ""
		}
	}
	return true
}
