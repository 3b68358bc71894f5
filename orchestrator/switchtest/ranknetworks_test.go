package switchtest_test

import (
	"fmt"
	"regexp"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
)

// rankNetwork draws a network whose switches, or NICs, schedule by rank.
func (d networkDraw) rankNetwork() (text string, recorded bool) {
	if text, recorded = d.wideNetwork(); d.IntN(3) == 0 {
		text = d.tcpNetwork("droptail")
		recorded = false
	}
	model := d.of("pifo", "aifo", "aifo", "sp-pifo", "afq", "stfq-pifo", "stfq-aifo", "stfq-sp-pifo",
		"pieo", "pieo", "stfq-pieo", "hpifo", "hpifo", "hpifo")
	settings := "model: " + model
	number := func(name string, most float64) {
		if d.IntN(3) > 0 {
			settings += fmt.Sprintf(", %s: %d", name, int(d.magnitude(1, most)))
		}
	}
	switch strings.TrimPrefix(model, "stfq-") {
	case "aifo":
		dataplane, cells := d.IntN(3) == 0, 0
		if d.IntN(3) == 0 {
			cells = int(d.magnitude(40, 10_000))
			settings += fmt.Sprintf(", target-cells: %d, cell-bytes: %s", cells, d.of("80", "64", "208"))
			number("room-cells", 10_000)
		} else {
			number("target-packets", 500)
			number("room-packets", 500)
		}
		stage := d.between(1, 8)
		if window := int(d.magnitude(1, 300)); dataplane {
			window = (window + stage - 1) / stage * stage
			settings += fmt.Sprintf(", mode: dataplane, registers-per-stage: %d, window: %d", stage, window)
			settings += ", loop-ns: " + d.of("0", "200", "20000")
			if most := cells / window; most > 0 && d.IntN(2) == 0 {
				settings += fmt.Sprintf(", multiplier: %d", 1+d.IntN(most))
			}
		} else {
			settings += fmt.Sprintf(", window: %d", window)
		}
		number("sample", 30)
		settings += ", headroom: " + d.of("0", "0.1", "0.333333", "0.9") + ", update: " + d.of("before", "after") +
			", compare: " + d.of("at-most", "below")
	case "sp-pifo":
		settings += fmt.Sprintf(", priorities: %d, push-down: %s, push-up: %s", d.between(1, 64),
			d.of("true", "false"), d.of("true", "true", "false"))
		number("packets-per-queue", 100)
	case "afq":
		number("rounds", 1000)
		number("round-bytes", 10000)
		number("queue-packets", 500)
	case "pieo":
		number("pace-mbps", 20000)
		number("queue-packets", 500)
	case "hpifo":
		number("queue-packets", 500)
		number("queue-bytes", 500000)
		settings += ", tree: [" + d.tree() + "]"
	case "pifo":
		number("queue-packets", 500)
		number("queue-bytes", 500000)
	}
	if strings.HasPrefix(model, "stfq-") {
		settings += ", undo-drops: " + d.of("true", "false")
	}
	if d.IntN(3) == 0 {
		text += "taps: {decisions: csv}\n"
	}
	text = modelSettings.ReplaceAllString(text, "switch-under-test: {"+settings+"}")
	if d.IntN(2) == 0 {
		text = weighable.ReplaceAllStringFunc(text, func(item string) string {
			return item + "weight: " + d.of("1", "2", "3", "0.01", "0.333333", "7.5", "65537", "1048576") + ", "
		})
	}
	if d.IntN(3) == 0 {
		text = strings.Replace(text, "hosts: {", "hosts: {nic: {"+settings+"}, ", 1)
	}
	if !strings.HasPrefix(model, "stfq-") && model != "afq" && model != "hpifo" && d.IntN(4) > 0 {
		text = d.ranks(text)
	}
	return text, recorded
}

// ranks gives packets of a network ranks other than what remains of their flow, and adds bursts that nothing
// slows down.
func (d networkDraw) ranks(text string) string {
	senders := 1
	if m := someSenders.FindStringSubmatch(text); m != nil {
		senders, _ = strconv.Atoi(m[1])
	}
	kind, items := d.of("uniform", "few", "unique", "bursts", "rising", "falling"), d.between(4, 24)
	rank := func(i int) int {
		switch kind {
		case "few", "bursts":
			return d.IntN(3)
		case "unique":
			return d.IntN(1 << 40)
		case "rising":
			return 10*i + d.IntN(10)
		case "falling":
			return 10*(items-i) + d.IntN(10)
		}
		return d.IntN(1000)
	}
	text = transfers.ReplaceAllStringFunc(text, func(item string) string {
		return fmt.Sprintf("%srank: %d, ", item, rank(0))
	})
	text = exchanges.ReplaceAllString(text, "${1}rank: 7000, ")
	start, gap, more := int(d.magnitude(1, 1000)), int(d.magnitude(1, 200)), ""
	for i := range items {
		at, most := start+gap*i, 40
		if kind == "bursts" {
			at, most = start+gap*(i/4)*4, 120
		}
		more += fmt.Sprintf("  - incast: {rank: %d, senders: %d, packets: %d, transport: raw, start-us: %d}\n", rank(i),
			d.between(1, senders), d.between(1, most), at)
	}
	return strings.Replace(text, "workload:\n", "workload:\n"+more, 1)
}

var weighable = regexp.MustCompile(`  - [a-z]+: \{`)

var someSenders = regexp.MustCompile(`incast: \{senders: ([0-9]+)`)

// Correct TCP hosts behind NICs that keep packets for their pace, and take none while they are full, are not blamed.
func TestTCPHostsBehindPacedNICsAreNotBlamed(t *testing.T) {
	first, count := wideNetworks(t, 12)
	refused := 0
	for seed := first; seed < first+count; seed++ {
		d := newNetworkDraw(uint64(seed), 902)
		text, _ := d.wideNetwork()
		text = sampling.ReplaceAllString(text, "")
		text = ownNIC.ReplaceAllString(text, "")
		nic := fmt.Sprintf("model: %s, pace-mbps: %d, backlog-packets: %s", d.of("pieo", "stfq-pieo"),
			int(d.magnitude(1, 20_000)), d.of("1", "2", "3", "16", "64", "200"))
		if d.IntN(2) == 0 {
			nic += fmt.Sprintf(", queue-packets: %d", int(d.magnitude(1, 300)))
		}
		if strings.Contains(nic, "model: pieo") {
			text = d.ranks(text)
		}
		text = strings.Replace(text, "hosts: {", "hosts: {nic: {"+nic+"}, ", 1)
		if !blamesNobody(t, fmt.Sprintf("# %d\n", seed)+text, false) {
			refused++
		}
	}
	if 2*refused > count {
		t.Errorf("%d of %d networks were refused", refused, count)
	}
}

var ownNIC = regexp.MustCompile(`, nic: \{[^}]*\}`)

// stationaryNetwork draws one in which theorem 3 may be judged.
func (d networkDraw) stationaryNetwork() string {
	rates := make([]float64, d.between(3, 12))
	for i := range rates {
		rates[i] = d.magnitude(1, 8)
	}
	return stationary(fmt.Sprintf("target-packets: %d, window: %d, sample: 1, headroom: %s, update: %s, compare: %s",
		d.between(100, 250), d.between(100, 200), d.of("0", "0.1", "0.333333", "0.5"), d.of("before", "after"),
		d.of("at-most", "below")), 1.2+float64(d.IntN(20))/10, rates...)
}

// tree draws a tree of HPIFO of up to six nodes; each host below 12 may belong to a leaf.
func (d networkDraw) tree() string {
	n := d.between(0, 6)
	parents, children := make([]int, n), make([]int, n+1)
	for i := range parents {
		parents[i] = d.between(0, i)
		children[parents[i]]++
	}
	var leaves []int
	for i := range parents {
		if children[i+1] == 0 {
			leaves = append(leaves, i)
		}
	}
	hosts := make([][]string, n)
	for k, i := range leaves { // each has one
		hosts[i] = append(hosts[i], strconv.Itoa(k))
	}
	for h := len(leaves); h < 12 && len(leaves) > 0; h++ {
		if d.IntN(3) > 0 {
			i := leaves[d.IntN(len(leaves))]
			hosts[i] = append(hosts[i], strconv.Itoa(h))
		}
	}
	var nodes []string
	for i, parent := range parents {
		node := fmt.Sprintf("parent: %d, weight: %d", parent, d.between(1, 9))
		if len(hosts[i]) > 0 {
			node += ", hosts: [" + strings.Join(hosts[i], ", ") + "]"
		}
		nodes = append(nodes, "{"+node+"}")
	}
	return strings.Join(nodes, ", ")
}

var modelSettings = regexp.MustCompile(`(?m)^switch-under-test: .*$`)

// Correct switches and NICs that schedule by rank, and hosts behind them, are not blamed.
func TestSwitchesThatScheduleByRankAreNotBlamed(t *testing.T) {
	first, count := wideNetworks(t, fewer(60, 20))
	const parts = 4
	var refused atomic.Int64
	t.Run("parts", func(t *testing.T) {
		for part := range parts {
			t.Run(strconv.Itoa(part), func(t *testing.T) {
				t.Parallel()
				for seed := first + part; seed < first+count; seed += parts {
					text, recorded := newNetworkDraw(uint64(seed), 900).rankNetwork()
					if d := newNetworkDraw(uint64(seed), 901); d.IntN(10) == 0 {
						text, recorded = d.stationaryNetwork(), false
					}
					if recorded {
						text += captured
					}
					if !blamesNobody(t, fmt.Sprintf("# %d\n", seed)+text, recorded) {
						refused.Add(1)
					}
				}
			})
		}
	})
	t.Logf("%d of %d networks were refused", refused.Load(), count)
	if 2*refused.Load() > int64(count)+1 {
		t.Errorf("%d of %d networks were refused", refused.Load(), count)
	}
}
