package switchtest_test

import (
	"fmt"
	"strconv"
	"strings"
	"testing"

	"candela.dev/candela/orchestrator/config"
	"candela.dev/candela/orchestrator/switchtest"
)

// trunkNetwork draws a network of several switches whose trunks fail, degrade and come back; empty: the draw has no
// trunks.
func (d networkDraw) trunkNetwork() (text string, recorded bool) {
	models := switchtest.Options().Switches
	model := models[d.IntN(len(models))].Name
	switch d.IntN(4) {
	case 0:
		text, recorded = d.wideNetwork()
		text = strings.Split(text, "changes: [")[0] + "deadline-us: 100000\n"
	case 1:
		text = d.tcpNetwork(model)
	case 2:
		text = d.ndpNetwork(model, "30", "50", "200", "1000")
	case 3:
		text = d.queueNetwork(model)
	}
	text = strings.Replace(text, "kind: single-switch", "kind: leaf-spine, leaves: 2, spines: 2, hosts-per-leaf: 16 #", 1)
	text = strings.Replace(text, "hosts-per-leaf: 16 #, hosts: ", "hosts-per-leaf: ", 1)
	text = strings.Replace(text, "topology: {", fmt.Sprintf("topology: {reroute-us: %s, ", d.of("0", "0", "3", "100")), 1)
	tests, err := config.ParseSwitchTests("f.yml", []byte("name: x\n"+text), switchtest.Options())
	if err != nil {
		return "", false
	}
	spec := tests[0].Topology.Spec()
	trunks := spec.Trunks()
	if len(trunks) == 0 {
		return "", false
	}
	end := 1000
	if tests[0].Duration > 0 {
		end = min(end, int(tests[0].Duration.Microseconds())-1)
	}
	failed := make(map[int]bool)
	for _, o := range tests[0].Topology.Trunks {
		for i, l := range trunks {
			failed[i] = failed[i] || o.Failed && o.Joins(l.A, l.B)
		}
	}
	text += "changes:\n"
	for i, at := range d.instants(end) {
		k := d.IntN(min(len(trunks), 6)) // few, so that each has several changes
		what := d.of("failed: true", "failed: true", fmt.Sprintf("gbps: %s", d.of("1", "10", "100", "0.5")),
			"delay-ns: "+d.delay())
		if failed[k] {
			what = "failed: false" + d.of("", ", gbps: 10", ", delay-ns: "+d.delay())
		}
		failed[k] = strings.HasPrefix(what, "failed: true")
		text += fmt.Sprintf("  - {at-us: %d, trunk: {from: %s, to: %s, %s}} # %d\n", at, trunks[k].A, trunks[k].B, what, i)
	}
	return text, recorded
}

// instants draws up to eight instants in us, in order, that differ.
func (d networkDraw) instants(end int) (list []int) {
	for at := d.between(1, 30); at < end && len(list) < 8; at += int(d.magnitude(1, 200)) {
		list = append(list, at)
	}
	return list
}

// Correct hosts and switches of every model are not blamed for what trunks lose that change, nor for detours,
// reordering and longer round trips; and no packet is unaccounted for.
func TestTrunksThatChangeBlameNobody(t *testing.T) {
	first, count := wideNetworks(t, 8)
	const parts = 4
	for part := range parts {
		t.Run(strconv.Itoa(part), func(t *testing.T) {
			t.Parallel()
			refused, ran := 0, 0
			for seed := first + part; seed < first+count; seed += parts {
				text, recorded := newNetworkDraw(uint64(seed), 700).trunkNetwork()
				if text == "" {
					continue
				}
				if recorded {
					text += captured
				}
				ran++
				if !blamesNobody(t, fmt.Sprintf("# %d\n", seed)+text, recorded) {
					refused++
				}
			}
			if 2*refused > ran+1 {
				t.Errorf("%d of %d networks were refused", refused, ran)
			}
		})
	}
}
