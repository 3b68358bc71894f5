package fabric

import (
	"fmt"

	"candela.dev/candela/generator/parameter"
)

// Switches of the topology Standby.
const (
	Original = "original"
	Backup   = "backup"
)

// standby is a pair of switches between two others that have the hosts. Routes lead through the original until Prefer
// says otherwise.
func standby() Shape {
	return Shape{
		Model: parameter.Model{Name: string(Standby),
			Doc: "Two switches under test, original and backup, each joined to the other and to the switches left and right, " +
				"which have the hosts and only forward. Packets between left and right pass the original; reroute-us after " +
				"it has stopped (changes) they pass the backup, and reroute-us after it has returned, the original again.",
			Parameters: parameter.Table{
				count("hosts", "8", "Hosts in all.", 2, 1022),
				count("right-hosts", "1", "Hosts at the switch on the right, those with the highest numbers.", 1, 511)}},
		Describe: func(v parameter.Values, t *TopologySpec) { t.Hosts, t.Right = v.Int("hosts"), v.Int("right-hosts") },
		Switches: func(*TopologySpec) int { return 4 },
		Check: func(v parameter.Values) (key, what, why string) {
			if hosts, right := v.Int("hosts"), v.Int("right-hosts"); right >= hosts {
				return "right-hosts", fmt.Sprintf("is %d of %d hosts", right, hosts), "at least one host is on the left"
			}
			return "", "", ""
		},
		validate: func(t *TopologySpec, c *check) {
			c.that(t.Right >= 1 && t.Right < t.Hosts, "topology.right", t.Right,
				fmt.Sprintf("must be 1 to %d: hosts are on both sides", t.Hosts-1))
		},
		plan: func(t *TopologySpec) plan {
			const original, backup, left, right = 0, 1, 2, 3
			p := plan{names: []string{Original, Backup, "left", "right"}}
			p.attach(left, 0, t.Hosts-t.Right)
			p.attach(right, t.Hosts-t.Right, t.Right)
			for _, of := range []int{original, backup} {
				p.join(of, left)
				p.join(of, right)
			}
			p.join(original, backup)
			return p
		},
	}
}

// Pair returns the port that leads from a switch of a pair to the other one, and whether it is the backup; −1: it is of
// no pair.
func (sw *Switch) Pair() (port int, backup bool) {
	if sw.net.spec.Topology.Kind != Standby {
		return -1, false
	}
	other := map[string]string{Original: Backup, Backup: Original}[sw.name]
	for i := range sw.ports[:sw.front] {
		if peer := sw.ports[i].Peer(); peer != nil && peer.name == other {
			return i, sw.name == Backup
		}
	}
	return -1, false
}

// Prefer has packets between the hosts of both sides pass the backup, or the original again, between calls of Run.
func (n *Network) Prefer(backup bool) {
	if n.spare = Backup; backup {
		n.spare = Original
	}
	n.Reroute(n.avoid)
}

// spares reports whether a link leads from a switch with hosts to the one of a pair that packets do not pass.
func (n *Network) spares(from, to string) bool {
	return to == n.spare && from != Original && from != Backup
}
