package virtual

import "candela.dev/candela/testbeds"

func describe(spec *testbeds.Spec, hosts [2]*host) testbeds.Environment {
	env := testbeds.Environment{Testbed: "virtual"}
	for i, h := range hosts {
		s := &spec.Hosts[i]
		env.Components = append(env.Components, testbeds.Component{
			Name: s.Name, Kind: "host", Properties: s.Properties(spec.Connections[0].MTU, h.nic.Profile())})
	}
	env.Components = append(env.Components,
		testbeds.Component{Name: "switch", Kind: "switch", Properties: []testbeds.Property{
			testbeds.NewProperty("model", "embedded injector pipeline"),
			testbeds.NewProperty("latency", spec.Switch.Latency),
			testbeds.NewProperty("egress-buffer-bytes", spec.Switch.EgressBuffer),
			testbeds.NewProperty("snap-bytes", spec.Switch.Snap),
		}})
	for _, d := range spec.Dumpers {
		env.Components = append(env.Components,
			testbeds.Component{Name: d.Name, Kind: "dumper", Properties: []testbeds.Property{
				testbeds.NewProperty("weight", d.Weight), testbeds.NewProperty("link-rate", testbeds.Gbps(d.Rate)),
				testbeds.NewProperty("cores", d.Cores), testbeds.NewProperty("packets-per-second-per-core", d.PPSPerCore),
				testbeds.NewProperty("buffer-bytes-per-core", d.Buffer),
			}})
	}
	return env
}
