// Package forwarding judges whether switches forward and trim packets correctly, by the taps at their ports.
package forwarding

import "candela.dev/candela/analyzers"

// Name is the analyzer's.
const Name = "switch"

// Rules. Identifiers are never reused or renamed.
const (
	UnmatchedHeader = "switch.unmatched-header"
	UnmatchedPacket = "switch.unmatched-packet"
	PacketChanged   = "switch.packet-changed"
	MadeUnasked     = "switch.made-without-cause"
	WrongPort       = "switch.wrong-port"
	PathMissed      = "switch.path-missed"
	PathUnused      = "switch.path-unused"
	InService       = "switch.trunk-in-service"
)

// Rules lists what is checked.
func Rules() []analyzers.Rule {
	const clause = "Packet trimming: correctness properties"
	const routing = "Topology: routing, trunks, reroute-us"
	return []analyzers.Rule{
		{ID: UnmatchedHeader, Severity: analyzers.Violation, Needs: analyzers.NeedsSwitch, Clause: clause,
			Statement: "A trimmed packet keeps addresses (reversed if it is returned), flow and sequence number of a packet " +
				"that came in, and leaves once."},
		{ID: UnmatchedPacket, Severity: analyzers.Violation, Needs: analyzers.NeedsSwitch, Clause: clause,
			Statement: "A packet that is not trimmed leaves with the addresses, flow and sequence number of one that came in, " +
				"once."},
		{ID: PacketChanged, Severity: analyzers.Violation, Needs: analyzers.NeedsSwitch, Clause: clause,
			Statement: "A packet that is not trimmed leaves with the size that it came with."},
		{ID: MadeUnasked, Severity: analyzers.Violation, Needs: analyzers.NeedsSwitch, Clause: "Packets that switches make",
			Statement: "A switch sends packets of its own only if its family does, and, if it records decisions, for a cause " +
				"that a record names."},
		{ID: WrongPort, Severity: analyzers.Violation, Needs: analyzers.NeedsSwitch, Clause: routing,
			Statement: "A packet is routed to a port on a shortest path to its host, over trunks that have not failed as far " +
				"as routes have had time to learn (reroute-us)."},
		{ID: InService, Severity: analyzers.Violation, Needs: analyzers.NeedsSwitch, Clause: routing,
			Statement: "A packet is dropped for a trunk that has failed (trunk-down, trunk-failed) only while that trunk is " +
				"out of service."},
		{ID: PathMissed, Severity: analyzers.Violation, Needs: analyzers.NeedsSwitch, Clause: routing,
			Statement: "A packet is dropped as unreachable only if no path leads to its host."},
		{ID: PathUnused, Severity: analyzers.Violation, Needs: analyzers.NeedsSwitch, Clause: routing,
			Statement: "Each of equally short paths is used, also after its trunk has come back: a port is unused only if a " +
				"fair choice could have missed it with a probability of 10^-9."},
	}
}
