package config

import (
	"io/fs"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// labOf is a laboratory whose requester has an RDMA device with these settings of congestion control.
func labOf(settings string) Options {
	o := laboratory
	o.ReadFile = func(name string) ([]byte, error) {
		if !strings.HasSuffix(name, "lab.yml") {
			return nil, fs.ErrNotExist
		}
		return []byte(`kind: lab
live:
  requester: {agent: "unix:/run/a", port: 0, rdma: {device: mlx5_0, settings: ` + settings + `}}
  responder: {agent: "unix:/run/b", port: 1, interface: eth0}
  switch: {address: "unix:/run/c"}
  dumpers: [{agent: "unix:/run/d", port: 2, interface: eth0}]
dumpers: [{name: dumper-1}]
`), nil
	}
	return o
}

const losslessNIC = `{mtu: 4200, pfc: [4, 3], trust: dscp, dscp-prio: {26: 3, 8: 0},
  ets: {prio-tc: [0, 0, 0, 1, 0, 0, 0, 0], tc-tsa: [ets, ets, strict, strict, strict, strict, strict, strict],
    tc-bw: [40, 60, 0, 0, 0, 0, 0, 0]}, devlink: {num_doorbells: 8, enable_x: true},
  ethtool: {ring-rx: 512, pause-rx: false, fec: rs, "flag-rx cqe": true}}`

func TestSettingsOfANICAreListedByTheNamesOfTheAgent(t *testing.T) {
	test, err := Parse("f.yml", []byte("name: x\ntestbed: lab.yml\nrequester: {nic: "+losslessNIC+"}\ntraffic: {}\n"),
		labOf("own"))
	if err != nil {
		t.Fatal(err)
	}
	want := []NamedValue{{"mtu", "4200"}, {"pfc", "4 3"},
		{"ets", "prio-tc 0 0 0 1 0 0 0 0 tc-tsa ets ets strict strict strict strict strict strict tc-bw 40 60 0 0 0 0 0 0"},
		{"trust", "dscp"}, {"dscp-prio 8", "0"}, {"dscp-prio 26", "3"}, {"devlink enable_x", "true"},
		{"devlink num_doorbells", "8"}, {"ethtool fec", "rs"}, {"ethtool flag-rx cqe", "true"},
		{"ethtool pause-rx", "false"}, {"ethtool ring-rx", "512"}}
	if diff := cmp.Diff(want, test.Requester.NIC.Settings.List()); diff != "" {
		t.Errorf("(-want +got)\n%s", diff)
	}
	if list := test.Responder.NIC.Settings.List(); len(list) > 0 {
		t.Errorf("the responder's are %v", list)
	}
	again, err := Parse("f.yml", test.YAML(), labOf("own"))
	if err != nil {
		t.Fatalf("written out, it is refused: %v\n%s", err, test.YAML())
	}
	if diff := cmp.Diff(test.Requester.NIC, again.Requester.NIC, same); diff != "" {
		t.Errorf("(-read +written and read again)\n%s", diff)
	}
}

func TestSettingsOfANICThatTheLabCannotHaveAreRefused(t *testing.T) {
	const shares = "ets: {prio-tc: [0, 0, 0, 0, 0, 0, 0, 0], tc-tsa: [ets, strict, strict, strict, strict, strict, strict, " +
		"strict], tc-bw: [%]}"
	for _, tt := range []struct{ side, nic, settings, want string }{
		{"responder", "pfc: [3]", "test", "the responder of this testbed is a NIC model"},
		{"requester", "cnp-dscp: 48", "own", "settings: own of live.requester.rdma"},
		{"requester", "dcqcn-priority: 3", "own", "settings: own of live.requester.rdma"},
		{"requester", "pfc: [3, 3]", "test", "requester.nic.pfc[1]: 3 is given twice"},
		{"requester", strings.Replace(shares, "%", "90, 0, 0, 0, 0, 0, 0, 0", 1), "test", "add up to 90 %"},
		{"requester", strings.Replace(shares, "%", "90, 10, 0, 0, 0, 0, 0, 0", 1), "test", "class 1 is strict"},
		{"requester", "dcqcn-priority: 3", "test", ""}, {"requester", "pfc: []", "own", ""},
	} {
		_, err := Parse("f.yml", []byte("name: x\ntestbed: lab.yml\n"+tt.side+": {nic: {"+tt.nic+"}}\ntraffic: {}\n"),
			labOf(tt.settings))
		if tt.want == "" && err != nil || tt.want != "" && (err == nil || !strings.Contains(err.Error(), tt.want)) {
			t.Errorf("%s: %v, want %q", tt.nic, err, tt.want)
		}
	}
}
