package workload

import (
	"fmt"
	"math/rand/v2"

	"candela.dev/candela/generator/parameter"
)

func permutation() Kind {
	return Kind{
		Model: parameter.Model{Name: "permutation", Doc: "Every host sends to one other host and receives from one other.",
			Parameters: parameter.Table{
				{Name: "hosts", Kind: parameter.Integer, Optional: true, Min: 2, Max: MaxHosts,
					Doc: "The first so many hosts; by default all."},
				{Name: "shift", Kind: parameter.Integer, Optional: true, Min: 1, Max: MaxHosts - 1,
					Doc: "Host i sends to host i + shift, modulo hosts; by default the seed draws who sends to whom."},
			}},
		For: Transfer, Sample: "packets: 1",
		Check: func(v parameter.Values, hosts int) (int, []Problem) {
			n := hosts
			if v.Has("hosts") {
				if n = v.Int("hosts"); hosts > 0 && n > hosts {
					return 0, []Problem{{"hosts", fmt.Sprintf("%d are more than there are (%d)", n, hosts), ""}}
				}
			}
			if v.Has("shift") && n > 0 && v.Int("shift")%n == 0 {
				return n, []Problem{{"shift", fmt.Sprintf("by %d every host would send to itself", v.Int("shift")), ""}}
			}
			return n, nil
		},
		Flows: permute,
	}
}

// permute makes each host send to another: by a shift, or by a random cycle through all hosts drawn by seed.
func permute(v parameter.Values, in Scope) []Flow {
	n := in.Hosts
	if v.Has("hosts") {
		n = v.Int("hosts")
	}
	list := make([]Flow, n)
	for i := range list {
		list[i] = Flow{Kind: Transfer, Src: i}
	}
	if v.Has("shift") {
		for i := range list {
			list[i].Dst = (i + v.Int("shift")) % n
		}
		return list
	}
	order := rand.New(rand.NewPCG(in.Seed, uint64(in.Item))).Perm(n)
	for i, host := range order {
		list[host].Dst = order[(i+1)%n]
	}
	return list
}
