package fabric

import (
	"fmt"
	"slices"
	"strings"

	"candela.dev/candela/generator/parameter"
)

// Shape is a kind of topology: its parameters in tests, and its construction. Its name is a TopologyKind.
type Shape struct {
	parameter.Model
	Describe func(v parameter.Values, t *TopologySpec) // sets Hosts and the fields particular to the shape
	Switches func(t *TopologySpec) int
	// Check validates a combination of parameters that are each within bounds. On error it returns parameter, problem and
	// reason.
	Check func(v parameter.Values) (key, what, why string)

	validate func(t *TopologySpec, c *check)
	plan     func(t *TopologySpec) plan
}

// Shapes lists every kind of topology, the default first.
func Shapes() []Shape { return []Shape{singleSwitch(), dumbbell(), leafSpine(), fatTree(), standby()} }

// ShapeOf returns the shape of a kind, or nil.
func ShapeOf(kind TopologyKind) *Shape {
	all := Shapes()
	if i := slices.IndexFunc(all, func(s Shape) bool { return s.Name == string(kind) }); i >= 0 {
		return &all[i]
	}
	return nil
}

func shapeNames() string {
	var names []string
	for _, s := range Shapes() {
		names = append(names, s.Name)
	}
	last := len(names) - 1
	return strings.Join(names[:last], ", ") + " or " + names[last]
}

func count(name, def, doc string, least, most int64) parameter.Parameter {
	return parameter.Parameter{Name: name, Kind: parameter.Integer, Default: def, Min: least, Max: most, Doc: doc}
}

func routing() parameter.Parameter {
	return parameter.Parameter{Name: "routing", Kind: parameter.Word,
		Words:   []string{string(ECMP), string(SprayRandom), string(SprayRoundRobin), string(SourcePath)},
		Default: string(ECMP),
		Doc: "Among several shortest paths: ecmp takes one by a hash of flow and path tag, spray a random one for each " +
			"packet, spray-round-robin each in turn; path takes the one that the path tag names."}
}

func singleSwitch() Shape {
	return Shape{
		Model: parameter.Model{Name: string(SingleSwitch), Doc: "Hosts around one switch; host i is at port i.",
			Parameters: parameter.Table{count("hosts", "64", "Hosts, one at each port.", 2, 512)}},
		Describe: func(v parameter.Values, t *TopologySpec) { t.Hosts = v.Int("hosts") },
		Switches: func(*TopologySpec) int { return 1 },
		plan: func(t *TopologySpec) plan {
			p := plan{names: []string{"switch"}}
			p.attach(0, 0, t.Hosts)
			return p
		},
	}
}

func dumbbell() Shape {
	return Shape{
		Model: parameter.Model{Name: string(Dumbbell),
			Doc:        "Two switches and a trunk between them; the first half of the hosts is at the first switch.",
			Parameters: parameter.Table{count("hosts", "16", "Hosts at both switches together; an even number.", 2, 1022)}},
		Describe: func(v parameter.Values, t *TopologySpec) { t.Hosts = v.Int("hosts") },
		Switches: func(*TopologySpec) int { return 2 },
		Check: func(v parameter.Values) (key, what, why string) {
			if n := v.Int("hosts"); n%2 != 0 {
				return "hosts", fmt.Sprintf("%d is odd", n), "half of the hosts are at either switch"
			}
			return "", "", ""
		},
		validate: func(t *TopologySpec, c *check) {
			c.that(t.Hosts%2 == 0, "topology.hosts", t.Hosts, "must be even: half of them on each side")
		},
		plan: func(t *TopologySpec) plan {
			p := plan{names: []string{"left", "right"}}
			p.attach(0, 0, t.Hosts/2)
			p.attach(1, t.Hosts/2, t.Hosts/2)
			p.join(0, 1)
			return p
		},
	}
}

func leafSpine() Shape {
	return Shape{
		Model: parameter.Model{Name: string(LeafSpine),
			Doc: "Every leaf switch is joined to every spine switch; hosts are at the leaves.",
			Parameters: parameter.Table{
				count("leaves", "4", "Leaf switches.", 1, 128), count("spines", "4", "Spine switches.", 1, 128),
				count("hosts-per-leaf", "8", "Hosts at each leaf.", 1, 128), routing()}},
		Describe: func(v parameter.Values, t *TopologySpec) {
			t.Leaves, t.Spines, t.Balance = v.Int("leaves"), v.Int("spines"), Balance(v.Word("routing"))
			t.Hosts = t.Leaves * v.Int("hosts-per-leaf")
		},
		Switches: func(t *TopologySpec) int { return t.Leaves + t.Spines },
		validate: func(t *TopologySpec, c *check) {
			c.that(t.Leaves >= 1, "topology.leaves", t.Leaves, "must be at least 1")
			c.that(t.Spines >= 1, "topology.spines", t.Spines, "must be at least 1")
			c.that(t.Leaves < 1 || t.Hosts%t.Leaves == 0, "topology.hosts", t.Hosts,
				fmt.Sprintf("must be a multiple of leaves (%d)", t.Leaves))
		},
		plan: planLeafSpine,
	}
}

func fatTree() Shape {
	return Shape{
		Model: parameter.Model{Name: string(FatTree), Doc: "Three layers of switches with k ports each, for k³/4 hosts.",
			Parameters: parameter.Table{count("k", "4", "Ports of each switch; an even number.", 2, 32), routing()}},
		Describe: func(v parameter.Values, t *TopologySpec) {
			t.K, t.Balance = v.Int("k"), Balance(v.Word("routing"))
			t.Hosts = t.K * t.K * t.K / 4
		},
		Switches: func(t *TopologySpec) int { return t.K*t.K + t.K*t.K/4 },
		Check: func(v parameter.Values) (key, what, why string) {
			if k := v.Int("k"); k%2 != 0 {
				return "k", fmt.Sprintf("%d is odd", k), "half of the ports of a fat-tree's switch lead up, half down"
			}
			return "", "", ""
		},
		validate: func(t *TopologySpec, c *check) {
			c.that(t.K >= 2 && t.K%2 == 0 && t.K <= 64, "topology.k", t.K, "must be even, 2 to 64")
			c.that(t.Hosts == t.K*t.K*t.K/4, "topology.hosts", t.Hosts, fmt.Sprintf("must be k³/4 (%d)", t.K*t.K*t.K/4))
		},
		plan: func(t *TopologySpec) plan { return planFatTree(t.K) },
	}
}
