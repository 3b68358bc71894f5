package tcp

// Faults of Swift.
const (
	BugSwiftIgnoresDelay Bug = iota + ecnBugs
	BugSwiftEagerIncrease
	BugSwiftDecreasesAlways
	BugSwiftDeepDecrease
	BugSwiftNoFlowScaling
	BugSwiftWholeRTT
	BugSwiftNoPacing
	BugSwiftHidesDelay // of the receiver
)

var swiftCatalogue = []BugInfo{
	{Name: "swift-ignores-delay", Rule: "tcp.swift-window", What: "Swift's windows grow whatever the delay is"},
	{Name: "swift-eager-increase", Rule: "tcp.swift-window",
		What: "every acknowledged segment adds Swift's increment, not its share of the window"},
	{Name: "swift-decreases-always", Rule: "tcp.swift-overreaction",
		What: "every acknowledgement above Swift's target decreases the window, not one in a round trip"},
	{Name: "swift-deep-decrease", Rule: "tcp.swift-overreaction",
		What: "one decrease may take 95 % of Swift's window, not max_mdf"},
	{Name: "swift-no-flow-scaling", Rule: "tcp.swift-overreaction",
		What: "Swift's target does not rise when the window is small"},
	{Name: "swift-whole-rtt", Rule: "tcp.swift-overreaction",
		What: "Swift's fabric delay includes the delay at the receiver"},
	{Name: "swift-no-pacing", Rule: "tcp.swift-pacing", What: "with a window below one segment, nothing is paced"},
	{Name: "swift-hides-delay", Rule: "tcp.swift-delay", What: "Swift's receiver says that it answers at once"},
}
