package switchtest_test

import (
	"slices"

	"candela.dev/candela/generator/parameter"
)

// firstCaught is the drawn network in which a test first finds its bug. The search begins there. If the draws have
// changed, it looks at all others.
var firstCaught = map[string]struct {
	model string
	seed  int
}{
	"TestSeededTCPBugsAreCaughtInNetworksOfOtherShapes/acks-backwards":       {"ndp-ideal", 0},
	"TestSeededTCPBugsAreCaughtInNetworksOfOtherShapes/acks-third":           {"cp", 0},
	"TestSeededTCPBugsAreCaughtInNetworksOfOtherShapes/fast-retransmits":     {"cp", 0},
	"TestSeededTCPBugsAreCaughtInNetworksOfOtherShapes/forgets-ack":          {"dod", 0},
	"TestSeededTCPBugsAreCaughtInNetworksOfOtherShapes/forgets-syn":          {"cp", 1},
	"TestSeededTCPBugsAreCaughtInNetworksOfOtherShapes/gives-up-early":       {"tofino2", 1},
	"TestSeededTCPBugsAreCaughtInNetworksOfOtherShapes/hasty-first":          {"ndp-ideal", 0},
	"TestSeededTCPBugsAreCaughtInNetworksOfOtherShapes/hasty-syn":            {"cp", 1},
	"TestSeededTCPBugsAreCaughtInNetworksOfOtherShapes/ignores-max-rto":      {"tofino", 2},
	"TestSeededTCPBugsAreCaughtInNetworksOfOtherShapes/ignores-receiver":     {"cp", 0},
	"TestSeededTCPBugsAreCaughtInNetworksOfOtherShapes/keeps-initial-window": {"red", 5},
	"TestSeededTCPBugsAreCaughtInNetworksOfOtherShapes/keeps-window":         {"cp", 0},
	"TestSeededTCPBugsAreCaughtInNetworksOfOtherShapes/late-ack":             {"dod", 0},
	"TestSeededTCPBugsAreCaughtInNetworksOfOtherShapes/never-avoids":         {"dod", 0},
	"TestSeededTCPBugsAreCaughtInNetworksOfOtherShapes/no-backoff":           {"ndp-ideal", 0},
	"TestSeededTCPBugsAreCaughtInNetworksOfOtherShapes/overruns-receiver":    {"cp", 0},
	"TestSeededTCPBugsAreCaughtInNetworksOfOtherShapes/resends-window":       {"mod", 0},
	"TestSeededTCPBugsAreCaughtInNetworksOfOtherShapes/retries-forever":      {"wred", 2},
	"TestSeededTCPBugsAreCaughtInNetworksOfOtherShapes/skips-bytes":          {"dod", 0},
	"TestSeededTCPBugsAreCaughtInNetworksOfOtherShapes/slow-ack":             {"cp", 1},
	"TestSeededTCPBugsAreCaughtInNetworksOfOtherShapes/stalls-partial-ack":   {"mod", 0},
	"TestSeededTCPBugsAreCaughtInNetworksOfOtherShapes/transmits-more":       {"ndp-ideal", 1},
	"TestSeededTCPBugsAreCaughtInNetworksOfOtherShapes/wraps-badly":          {"cp", 0},
	"TestSeededTCPBugsAreCaughtInRandomNetworks/acks-backwards":              {"cp", 0},
	"TestSeededTCPBugsAreCaughtInRandomNetworks/acks-beyond":                 {"mod", 0},
	"TestSeededTCPBugsAreCaughtInRandomNetworks/acks-third":                  {"mod", 0},
	"TestSeededTCPBugsAreCaughtInRandomNetworks/early-timeout":               {"cp", 0},
	"TestSeededTCPBugsAreCaughtInRandomNetworks/false-sack":                  {"ndp-ideal", 0},
	"TestSeededTCPBugsAreCaughtInRandomNetworks/fast-retransmits":            {"mod", 0},
	"TestSeededTCPBugsAreCaughtInRandomNetworks/forgets-ack":                 {"mod", 0},
	"TestSeededTCPBugsAreCaughtInRandomNetworks/forgets-syn":                 {"droptail", 1},
	"TestSeededTCPBugsAreCaughtInRandomNetworks/gives-up-early":              {"droptail", 1},
	"TestSeededTCPBugsAreCaughtInRandomNetworks/hasty":                       {"ndp-ideal", 0},
	"TestSeededTCPBugsAreCaughtInRandomNetworks/hasty-data":                  {"mod", 0},
	"TestSeededTCPBugsAreCaughtInRandomNetworks/hasty-first":                 {"cp", 0},
	"TestSeededTCPBugsAreCaughtInRandomNetworks/hasty-syn":                   {"ecn-threshold", 0},
	"TestSeededTCPBugsAreCaughtInRandomNetworks/hurried-timeout":             {"cp", 0},
	"TestSeededTCPBugsAreCaughtInRandomNetworks/ignores-loss":                {"pifo", 1},
	"TestSeededTCPBugsAreCaughtInRandomNetworks/ignores-max-rto":             {"cp", 0},
	"TestSeededTCPBugsAreCaughtInRandomNetworks/ignores-receiver":            {"droptail", 8},
	"TestSeededTCPBugsAreCaughtInRandomNetworks/ignores-syn":                 {"mod", 0},
	"TestSeededTCPBugsAreCaughtInRandomNetworks/keeps-initial-window":        {"sfc", 1},
	"TestSeededTCPBugsAreCaughtInRandomNetworks/keeps-window":                {"cp", 0},
	"TestSeededTCPBugsAreCaughtInRandomNetworks/large-initial-window":        {"mod", 0},
	"TestSeededTCPBugsAreCaughtInRandomNetworks/late-ack":                    {"mod", 0},
	"TestSeededTCPBugsAreCaughtInRandomNetworks/never-avoids":                {"cp", 0},
	"TestSeededTCPBugsAreCaughtInRandomNetworks/no-backoff":                  {"cp", 0},
	"TestSeededTCPBugsAreCaughtInRandomNetworks/no-duplicate-ack":            {"ndp-ideal", 1},
	"TestSeededTCPBugsAreCaughtInRandomNetworks/no-sack":                     {"mod", 0},
	"TestSeededTCPBugsAreCaughtInRandomNetworks/no-timeout":                  {"cp", 0},
	"TestSeededTCPBugsAreCaughtInRandomNetworks/overruns-receiver":           {"pifo", 1},
	"TestSeededTCPBugsAreCaughtInRandomNetworks/overruns-window":             {"cp", 0},
	"TestSeededTCPBugsAreCaughtInRandomNetworks/samples-retransmissions":     {"ndp-ideal", 1},
	"TestSeededTCPBugsAreCaughtInRandomNetworks/reduces-once":                {"sai", 2},
	"TestSeededTCPBugsAreCaughtInRandomNetworks/resends-sacked":              {"sai", 2},
	"TestSeededTCPBugsAreCaughtInRandomNetworks/resends-twice":               {"sai", 2},
	"TestSeededTCPBugsAreCaughtInRandomNetworks/resends-window":              {"pifo", 1},
	"TestSeededTCPBugsAreCaughtInRandomNetworks/retries-forever":             {"sai", 0},
	"TestSeededTCPBugsAreCaughtInRandomNetworks/shrinks-window":              {"cp", 0},
	"TestSeededTCPBugsAreCaughtInRandomNetworks/skips-bytes":                 {"cp", 0},
	"TestSeededTCPBugsAreCaughtInRandomNetworks/slow-ack":                    {"droptail", 2},
	"TestSeededTCPBugsAreCaughtInRandomNetworks/stalls-partial-ack":          {"pifo", 1},
	"TestSeededTCPBugsAreCaughtInRandomNetworks/transmits-more":              {"pifo", 1},
	"TestSeededTCPBugsAreCaughtInRandomNetworks/wraps-badly":                 {"cp", 0},
	"TestSeededTCPBugsAreCaughtInRandomNetworks/wrong-syn-ack":               {"mod", 0},
	"TestShortTimeoutsOfNDPHostsExcuseNoFault/forgets-nack":                  {"cp", 1},
	"TestShortTimeoutsOfNDPHostsExcuseNoFault/retransmits-acknowledged":      {"ndp-ideal", 2},
	"TestShortTimeoutsOfNDPHostsExcuseNoFault/retransmits-without-pull":      {"ndp-ideal", 2},
	"TestShortTimeoutsOfNDPHostsExcuseNoFault/sends-without-pull":            {"ndp-ideal", 2},
	"TestSeededTCPBugsOfECNAreCaughtInWideNetworks/offers-no-ecn":            {"sfc", 0},
	"TestSeededTCPBugsOfECNAreCaughtInWideNetworks/never-cwr":                {"mod", 0},
	"TestSeededTCPBugsOfECNAreCaughtInWideNetworks/keeps-ece":                {"dod", 0},
}

// firstOf returns the number of the network that a test looks at first.
func firstOf(test string, models []parameter.Model) int {
	first, ok := firstCaught[test]
	i := slices.IndexFunc(models, func(m parameter.Model) bool { return m.Name == first.model })
	if !ok || i < 0 {
		return 0
	}
	return first.seed*len(models) + i
}
