package virtual

import (
	"fmt"
	"reflect"
	"strings"

	"candela.dev/candela/clock"
	"candela.dev/candela/testbeds"
)

// describe lists what stands in the testbed. Models have no firmware to read back: their parameters take its place.
func describe(spec *testbeds.Spec, hosts [2]*host) testbeds.Environment {
	env := testbeds.Environment{Testbed: "virtual"}
	for i, h := range hosts {
		s := &spec.Hosts[i]
		c := testbeds.Component{Name: s.Name, Kind: "host"}
		c.Properties = append(c.Properties,
			property("nic", "model "+s.Profile),
			property("bugs", strings.Join(s.Bugs, ", ")),
			property("mac", s.MAC),
			property("ip", strings.Trim(fmt.Sprint(s.IPs), "[]")),
			property("link-rate", gbps(s.Rate)),
			property("propagation", s.Propagation),
			property("dcqcn-rp", s.DCQCNRP),
			property("dcqcn-np", s.DCQCNNP),
			property("min-time-between-cnps", s.MinTimeBetweenCNPs),
			property("cnp-pacing", s.CNPPacing),
			property("slow-restart", s.SlowRestart),
			property("adaptive-retrans", s.AdaptiveRetrans),
			property("mtu", spec.Connections[0].MTU),
		)
		c.Properties = append(c.Properties, parameters("profile.", h.nic.Profile())...)
		env.Components = append(env.Components, c)
	}
	env.Components = append(env.Components, testbeds.Component{Name: "switch", Kind: "switch", Properties: []testbeds.Property{
		property("model", "embedded injector pipeline"),
		property("latency", spec.Switch.Latency),
		property("egress-buffer-bytes", spec.Switch.EgressBuffer),
		property("snap-bytes", spec.Switch.Snap),
	}})
	for _, d := range spec.Dumpers {
		env.Components = append(env.Components, testbeds.Component{Name: d.Name, Kind: "dumper", Properties: []testbeds.Property{
			property("weight", d.Weight), property("link-rate", gbps(d.Rate)), property("cores", d.Cores),
			property("packets-per-second-per-core", d.PPSPerCore), property("buffer-bytes-per-core", d.Buffer),
		}})
	}
	return env
}

func property(name string, value any) testbeds.Property {
	return testbeds.Property{Name: name, Value: fmt.Sprint(value)}
}

func gbps(r clock.BitRate) string { return fmt.Sprintf("%g Gb/s", float64(r)/float64(clock.Gbps)) }

// parameters lists the exported scalar and list fields of a model's parameter struct, so that a new parameter can't be forgotten here.
func parameters(prefix string, model any) []testbeds.Property {
	v := reflect.ValueOf(model)
	var list []testbeds.Property
	for i := range v.NumField() {
		f := v.Type().Field(i)
		switch f.Type.Kind() {
		case reflect.Map, reflect.Pointer, reflect.Func, reflect.Struct:
			continue
		default:
			list = append(list, property(prefix+f.Name, v.Field(i).Interface()))
		}
	}
	return list
}
