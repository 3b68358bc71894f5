package workload

import (
	"slices"

	"candela.dev/candela/generator/parameter"
)

func single() Kind {
	return Kind{
		Model: parameter.Model{Name: "flow", Doc: "One host to another.", Parameters: parameter.Table{
			host("src", "Host that sends."), host("dst", "Host that receives."),
			{Name: "count", Kind: parameter.Integer, Default: "1", Min: 1, Max: MaxFlows, Doc: "Parallel flows."},
		}},
		For: Transfer, Hosts: []string{"src", "dst"}, Counts: []string{"count"}, Sample: "src: 0, dst: 1, packets: 1",
		Check: func(v parameter.Values, hosts int) (int, []Problem) { return v.Int("count"), pair(v, hosts) },
		Flows: func(v parameter.Values, _ Scope) []Flow {
			return slices.Repeat([]Flow{{Kind: Transfer, Src: v.Int("src"), Dst: v.Int("dst")}}, v.Int("count"))
		},
	}
}

// Between returns the kind and parameters of a transfer between two hosts.
func Between(src, dst int) (kind string, v parameter.Values) {
	if src == dst { // only an incast allows a host to send to itself
		k := incast()
		v = k.Parameters.Defaults()
		for name, n := range map[string]int{"senders": 1, "first-sender": src, "first-receiver": dst, "hairpin": 1} {
			v.SetStep(name, int64(n))
		}
		return k.Name, v
	}
	k := single()
	v = k.Parameters.Defaults()
	v.SetStep("src", int64(src))
	v.SetStep("dst", int64(dst))
	return k.Name, v
}
