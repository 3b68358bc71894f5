package switchtest_test

import "testing"

// Three tenants by numbers of flows on every hop of a leaf-spine network, two with TCP and one with UDP, as in S2 and
// S5 of HCSFQ's evaluation.
func TestTenantsWithTCPBesideOneWithUDPAreNotBlamed(t *testing.T) {
	for _, records := range []string{"", "taps: {decisions: csv}\n"} {
		ran, draws := fairBlamesNobody(t, records+`
topology: {kind: leaf-spine, leaves: 3, spines: 2, hosts-per-leaf: 4, link: {gbps: 1, delay-ns: 20, framing-bytes: 54},
  trunk: {gbps: 1, delay-ns: 20, framing-bytes: 54}}
switch-under-test: {model: hcsfq, bypass-bytes: 125, ecn-threshold-bytes: 46272, tree: [{}, {}, {}],
  flows: [{numbers: [1..12], node: 1}, {numbers: [13..36], node: 2}, {numbers: [37..48], node: 3}]}
hosts: {transport: tcp, packet-size: 1446, congestion-control: dctcp, handshake: true}
workload:
  - permutation: {shift: 4, tenant: 1}
  - permutation: {shift: 5, tenant: 2}
  - permutation: {shift: 6, tenant: 2}
  - cbr: {src: 0..11, shift: 4, rate-gbps: 0.5, jitter: 0.05, tenant: 3}
duration-us: 20000
`)
		if !ran || records != "" && draws < 1000 {
			t.Errorf("%d drops at random were judged", draws)
		}
	}
}
