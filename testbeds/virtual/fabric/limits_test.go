package fabric_test

import (
	"strings"
	"testing"

	"candela.dev/candela/clock"
	"candela.dev/candela/testbeds/virtual/fabric"
)

func TestLimitsAreSaidClearly(t *testing.T) {
	recirculating := fabric.SwitchSpec{Recirculation: fabric.RecirculationSpec{Rate: 100 * clock.Gbps}}
	tests := []struct {
		name string
		spec fabric.Spec
		want string // empty: accepted
	}{
		{"as many hosts as have addresses", fabric.Spec{Topology: fabric.TopologySpec{Hosts: 65536}}, ""},
		{"one more", fabric.Spec{Topology: fabric.TopologySpec{Hosts: 65537}}, "topology.hosts: 65537: must be 1 to 65536"},
		{"no port number left to recirculate through",
			fabric.Spec{Topology: fabric.TopologySpec{Hosts: 65536}, Switch: recirculating},
			"at most 65536 ports"},
		{"a fat tree of 65536 hosts", fabric.Spec{Topology: fabric.TopologySpec{Kind: fabric.FatTree, K: 66}},
			"topology.k: 66: must be"},
		{"more ports in all than have numbers", fabric.Spec{Topology: fabric.TopologySpec{
			Kind: fabric.LeafSpine, Hosts: 2000, Leaves: 2000, Spines: 300}}, "more than 1048576 ports in all"},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			_, err := fabric.New(&test.spec, nil)
			switch {
			case test.want == "" && err != nil:
				t.Fatal(err)
			case test.want != "" && (err == nil || !strings.Contains(err.Error(), test.want)):
				t.Errorf("error %v, want one with %q", err, test.want)
			}
		})
	}
}
