package ndp

import "candela.dev/candela/analyzers"

// Name is the analyzer's.
const Name = "ndp"

// A Rule identifies a check of the analyzer. Identifiers are never reused or renamed.
type Rule string

// Rules about the network.
const (
	RuleSilentLoss    Rule = "ndp.silent-loss"
	RuleHeaderChanged Rule = "ndp.header-changed"
	RuleDuplicated    Rule = "ndp.duplicated"
	RuleMisdelivered  Rule = "ndp.misdelivered"
)

// OfNetwork reports whether a rule is about what lies between the hosts.
func OfNetwork(r Rule) bool {
	return r == RuleSilentLoss || r == RuleHeaderChanged || r == RuleDuplicated || r == RuleMisdelivered
}

// Rules about the sender.
const (
	RuleSendWithoutPull  Rule = "ndp.send-without-pull"
	RuleRetransmitFirst  Rule = "ndp.retransmit-first"
	RuleReturnUnanswered Rule = "ndp.return-unanswered"
	RuleReturnEcho       Rule = "ndp.return-echo"
	RuleSpurious         Rule = "ndp.retransmit-spurious"
	RuleTimeoutEarly     Rule = "ndp.timeout-early"
	RuleSeqSkip          Rule = "ndp.seq-skip"
)

// Rules about the receiver.
const (
	RuleAckTrimmed     Rule = "ndp.ack-trimmed"
	RuleAckUnprovoked  Rule = "ndp.ack-unprovoked"
	RuleAckMissing     Rule = "ndp.ack-missing"
	RuleNackWhole      Rule = "ndp.nack-whole"
	RuleNackUnprovoked Rule = "ndp.nack-unprovoked"
	RuleNackMissing    Rule = "ndp.nack-missing"
	RulePullCounter    Rule = "ndp.pull-counter"
	RulePullExcess     Rule = "ndp.pull-excess"
	RulePullMissing    Rule = "ndp.pull-missing"
	RulePullFast       Rule = "ndp.pull-fast"
	RulePullSlow       Rule = "ndp.pull-slow"
	RulePullUnfair     Rule = "ndp.pull-unfair"
)

// Another rule about the sender.
const (
	RulePullUnanswered Rule = "ndp.pull-unanswered"
)

// Rules about the scoreboard of paths.
const (
	RulePathExcluded Rule = "ndp.path-excluded"
	RulePathUnused   Rule = "ndp.path-unused"
)

type ruleInfo struct {
	Rule      Rule
	Statement string
}

// clause of every rule: the shared specification, which summarises the paper.
const clause = "Handley et al. 2017; trimming 5"

// ruleTable is append-only: findings in old run directories refer to it.
var ruleTable = []ruleInfo{
	{RuleSilentLoss, "Every data packet is delivered whole, or its header reaches the receiver or the sender."},
	{RuleHeaderChanged, "A trimmed or returned header is the one that was sent, but for the trimmed and returned marks."},
	{RuleDuplicated, "No transmission of a data packet is delivered twice."},
	{RuleMisdelivered, "A packet goes to its destination, a returned header to its sender."},
	{RuleSendWithoutPull,
		"After its first window a connection sends one packet for each PULL, and one more for each RTO."},
	{RuleRetransmitFirst, "A NACKed packet is retransmitted before new data."},
	{RuleReturnUnanswered, "A packet whose header came back is retransmitted before new data."},
	{RuleReturnEcho, "While PULLs are still to come, a packet whose header came back waits for one."},
	{RuleSpurious, "A packet that the sender knows to be acknowledged is not retransmitted."},
	{RuleTimeoutEarly, "A packet that was neither NACKed nor returned is not retransmitted before the RTO has run out."},
	{RuleSeqSkip, "Packets are sent for the first time in the order of their numbers, none left out."},
	{RuleAckTrimmed, "A trimmed header is not acknowledged, unless its packet has arrived whole before."},
	{RuleAckUnprovoked, "There is one ACK for each whole packet that arrives, and no other."},
	{RuleAckMissing, "Every whole packet that arrives is acknowledged."},
	{RuleNackWhole, "A packet that arrived whole is not NACKed."},
	{RuleNackUnprovoked, "There is one NACK for each trimmed header that arrives, and no other."},
	{RuleNackMissing, "Every trimmed header that arrives is NACKed."},
	{RulePullCounter, "The counter of a connection's PULLs grows with each of them."},
	{RulePullExcess, "There is at most one PULL for each packet that has arrived, whole or trimmed."},
	{RulePullMissing, "There is a PULL for each packet that has arrived, until all of the flow is there."},
	{RulePullFast, "A host's PULLs, of all connections together, leave no faster than its link takes full packets."},
	{RulePullSlow, "While a host owes PULLs they leave as fast as its link takes full packets."},
	{RulePullUnfair, "The connections of a host that are owed PULLs get them in turn."},
	{RulePullUnanswered, "A sender that has new data and a free link sends as many packets as were PULLed, however many " +
		"of the PULLs were lost."},
	{RulePathExcluded, "With `path-penalty`, no data takes a path that the scoreboard of its sender excludes."},
	{RulePathUnused, "With `path-penalty`, every path that the scoreboard does not exclude gets data in its turn."},
}

// needs returns what must be seen to judge a rule: the pace and the turns of PULLs are those of a host, and what it has
// answered on one connection shows what it has received on the others.
func needs(r Rule) analyzers.Needs {
	switch r {
	case RulePullExcess, RulePullMissing, RulePullFast, RulePullSlow, RulePullUnfair, RulePullUnanswered:
		return analyzers.NeedsHost
	default:
		return analyzers.NeedsFlow
	}
}

// Rules lists what the analyzer checks.
func Rules() []analyzers.Rule {
	list := make([]analyzers.Rule, len(ruleTable))
	for i, r := range ruleTable {
		list[i] = analyzers.Rule{ID: string(r.Rule), Severity: analyzers.Violation, Clause: clause, Statement: r.Statement,
			Needs: needs(r.Rule)}
	}
	return list
}
