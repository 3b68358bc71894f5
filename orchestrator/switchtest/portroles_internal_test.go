package switchtest

import (
	"strings"
	"testing"

	"candela.dev/candela/analyzers"
	"candela.dev/candela/orchestrator/config"
)

// roleAt returns what a finding that names a port of a switch is about.
func roleAt(t *testing.T, topology, workload string, seed uint64, sw string, port int) string {
	t.Helper()
	tests, err := config.ParseSwitchTests("t.yml", []byte("name: t\ntopology: {"+topology+
		"}\nswitch-under-test: {model: droptail}\nhosts: {transport: tcp}\nworkload:\n"+workload), Options())
	if err != nil {
		t.Fatal(err)
	}
	p, err := New(tests[0].WithBaseSeed(seed))
	if err != nil {
		t.Fatal(err)
	}
	r := &run{facts: facts{plan: p}}
	if r.net, err = p.build(1); err != nil {
		t.Fatal(err)
	}
	findings := []analyzers.Finding{{Role: "switch", Place: analyzers.Place{Switch: sw, Port: port, Known: true}}}
	r.addPortRoles(findings)
	return strings.TrimPrefix(findings[0].Role, "switch, ")
}

func TestThePortsRoleIsWhatItIsToTheTestWhateverItsNumber(t *testing.T) {
	const single, fabric = "kind: single-switch, hosts: 6", "kind: leaf-spine, hosts-per-leaf: 4, leaves: 2, spines: 2"
	const incast = "  - flow: {src: 1, dst: 0, bytes: 9000}\n  - flow: {src: 2, dst: 0, bytes: 9000}\n"
	const shuffled = "  - flow: {src: 4, dst: 5, bytes: 9000}\n  - flow: {src: 0, dst: 5, bytes: 9000}\n"
	for _, tt := range []struct {
		name, topology, workload, sw string
		port                         int
		want                         string
	}{
		{"the receiver of two", single, incast, "", 0, "port to incast receiver"},
		{"the same at another port", single, shuffled, "", 5, "port to incast receiver"},
		{"a sender", single, incast, "", 2, "port to sender"},
		{"another sender", single, shuffled, "", 0, "port to sender"},
		{"nobody", single, incast, "", 4, "port to idle host"},
		{"the receiver of one", single, "  - flow: {src: 1, dst: 0, bytes: 9000}\n", "", 0, "port to receiver"},
		{"both", single, "  - permutation: {bytes: 9000}\n", "", 3, "port to sender and receiver"},
		{"a client", single, "  - ping: {src: 1, dst: 2, count: 5}\n", "", 1, "port to client"},
		{"a server", single, "  - ping: {src: 1, dst: 2, count: 5}\n", "", 2, "port to server"},
		{"a trunk up", fabric, incast, "leaf-0", 4, "trunk to spine"},
		{"another trunk up", fabric, incast, "leaf-1", 5, "trunk to spine"},
		{"a trunk down", fabric, incast, "spine-1", 1, "trunk to leaf"},
		{"no such port", single, incast, "", 6, "switch"},
		{"no such switch", fabric, incast, "nic-2", 0, "switch"},
	} {
		for _, seed := range []uint64{1, 2} {
			if got := roleAt(t, tt.topology, tt.workload, seed, tt.sw, tt.port); got != tt.want {
				t.Errorf("%s: %q, want %q", tt.name, got, tt.want)
			}
		}
	}
}
