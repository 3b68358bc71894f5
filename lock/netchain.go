package lock

import "candela.dev/candela/clock"

// Rules of the analyzer netchain. Numbers are those of the reference model's section 10, as far as it has one.
const (
	RuleChainExclusion    = "netchain.mutual-exclusion" // N1
	RuleChainOnce         = "netchain.exactly-once"     // N2
	RuleChainLost         = "netchain.lost"             // N2, N3
	RuleChainRejection    = "netchain.rejection"        // §13
	RuleChainRelease      = "netchain.release"          // §13
	RuleChainOwner        = "netchain.owner"            // §9
	RuleChainPlacement    = "netchain.placement"        // N10
	RuleChainDelay        = "netchain.delay"            // N8
	RuleChainLease        = "netchain.lease"            // N12
	RuleChainFailover     = "netchain.failover"         // N13
	RuleChainTransparency = "netchain.transparency"     // N15
)

// NetChain is what a test sets of a switch that has all locks, exclusive ones without queues (§13).
type NetChain struct {
	Name  string
	Ports []Port

	// IDs is one more than the largest lock id, and Slots how many locks the switch has memory for. Share returns how many
	// neighbouring ids share a lock.
	IDs, Slots int64

	Pipeline    clock.Duration // bounds the time from ingress to egress without waiting (§5.2)
	Lease, Poll clock.Duration // T_lease and T_poll (§9); Lease 0: none
	Pauses      bool           // flow control may keep its ports from sending
}

// Share returns the least number of neighbouring lock ids that must share a lock for all locks to fit.
func (n *NetChain) Share() int64 {
	slots := max(1, n.Slots)
	return max(1, (n.IDs+slots-1)/slots)
}
