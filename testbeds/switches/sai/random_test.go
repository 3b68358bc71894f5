package sai_test

import (
	"fmt"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"candela.dev/candela/clock"
	"candela.dev/candela/generator/parameter"
	"candela.dev/candela/packet"
)

// drawSettings draws a value for every setting.
func drawSettings(t *rapid.T, hosts int) func(parameter.Values) {
	number := func(name string, low, high int) string { return fmt.Sprint(rapid.IntRange(low, high).Draw(t, name)) }
	words := []string{
		"trim-size", number("trim-size", 62, 1600), "trim-dscp", number("trim-dscp", 0, 63), "trim-queue",
		number("trim-queue", 0, 7),
		"trim-tc", number("trim-tc", 0, 7), "buffer-bytes", number("buffer", 10_000, 200_000),
		"queue-mode", rapid.SampledFrom([]string{"static", "dynamic"}).Draw(t, "queue-mode"),
		"dscp-mode", rapid.SampledFrom([]string{"dscp-value", "from-tc"}).Draw(t, "dscp-mode"),
		"scheduler", rapid.SampledFrom([]string{"strict", "wrr", "dwrr"}).Draw(t, "scheduler"),
	}
	list := drawProfiles(t)
	var maps, rules []parameter.Values
	for port := range hosts {
		for tc := range 8 {
			m := item("tc-to-dscp", map[string][]int64{"ports": {int64(port)}}, "tc", fmt.Sprint(tc))
			m.SetStep("dscp", int64((port*9+tc*5)%64))
			maps = append(maps, m)
		}
	}
	if rapid.Bool().Draw(t, "acl") {
		rules = append(rules, item("disable-trim", nil, "source", number("exempt", 0, hosts-1),
			"ip", rapid.SampledFrom([]string{"any", "ipv4", "ipv6"}).Draw(t, "ip")))
	}
	var shapers []parameter.Values
	for range rapid.IntRange(0, 2).Draw(t, "shapers") {
		q := int64(rapid.IntRange(0, 7).Draw(t, "shaped"))
		shapers = append(shapers, item("shapers", map[string][]int64{"queues": {q}}, "rate-gbps", number("gbps", 0, 40)))
	}
	return func(v parameter.Values) {
		text(words...)(v)
		v.SetList("profiles", list)
		v.SetList("tc-to-dscp", maps)
		v.SetList("disable-trim", rules)
		v.SetList("shapers", shapers)
	}
}

func drawProfiles(t *rapid.T) []parameter.Values {
	var list []parameter.Values
	for q := range int64(8) {
		p := item("profiles", map[string][]int64{"queues": {q}})
		switch rapid.SampledFrom([]string{"trim", "drop", "lossless"}).Draw(t, fmt.Sprintf("profile %d", q)) {
		case "trim":
			p.SetStep("action", 1)
		case "lossless":
			p.SetStep("lossless", 1)
		}
		switch rapid.SampledFrom([]string{"static", "dynamic", "none"}).Draw(t, fmt.Sprintf("threshold %d", q)) {
		case "static":
			p.SetStep("limit-bytes", int64(rapid.IntRange(500, 40_000).Draw(t, "limit")))
		case "dynamic":
			p.SetStep("alpha", int64(rapid.IntRange(1, 4_000_000).Draw(t, "alpha")))
		}
		p.SetStep("reserved-bytes", int64(rapid.IntRange(0, 3000).Draw(t, "reserved")))
		list = append(list, p)
	}
	return list
}

func drawFlows(t *rapid.T, hosts int) []flow {
	var flows []flow
	for i := range rapid.IntRange(1, 8).Draw(t, "flows") {
		f := flow{
			from: rapid.IntRange(0, hosts-1).Draw(t, "from"), to: rapid.IntRange(0, min(1, hosts-1)).Draw(t, "to"),
			packets: rapid.IntRange(1, 120).Draw(t, "packets"), size: rapid.IntRange(64, 5000).Draw(t, "size"),
			dscp: rapid.IntRange(0, 63).Draw(t, "dscp"), v6: rapid.Bool().Draw(t, "v6"),
			start: clock.Duration(rapid.IntRange(0, 20_000).Draw(t, "start")) * clock.Nanosecond,
			ecn:   packet.ECN(rapid.IntRange(0, 3).Draw(t, "ecn")),
		}
		if f.from == f.to {
			f.from = (f.to + 1 + i%(hosts-1)) % hosts
		}
		flows = append(flows, f)
	}
	return flows
}

// drawChanges draws changes by a management plane.
func drawChanges(t *rapid.T) []change {
	var list []change
	var at clock.Duration
	for range rapid.IntRange(0, 4).Draw(t, "changes") {
		at += clock.Duration(rapid.IntRange(1, 30_000).Draw(t, "after")) * clock.Nanosecond
		set := drawProfiles(t)
		size := fmt.Sprint(rapid.IntRange(62, 1600).Draw(t, "new size"))
		dscp := fmt.Sprint(rapid.IntRange(0, 63).Draw(t, "new dscp"))
		list = append(list, change{at, func(v parameter.Values) {
			text("trim-size", size, "trim-dscp", dscp)(v)
			v.SetList("profiles", set)
		}})
	}
	return list
}

func TestTheCorrectSwitchIsNeverBlamed(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		hosts := rapid.IntRange(2, 6).Draw(t, "hosts")
		s := scenario{hosts: hosts, set: drawSettings(t, hosts), flows: drawFlows(t, hosts), changes: drawChanges(t),
			blind: rapid.Bool().Draw(t, "blind")}
		o := run(t, s)
		for _, f := range o.Findings {
			t.Errorf("%s: want %s, got %s (%s)", f.Rule, f.Expected, f.Actual, f.Message)
		}
		if broken := o.counters.Invariants(); len(broken) > 0 {
			t.Errorf("invariants: %+v", broken)
		}
	})
}

func TestARunIsTheSameTwice(t *testing.T) {
	once := func() string {
		o := run(t, scenario{hosts: 6, set: trimming(asymmetric), flows: incast(5, 100, 1500),
			bugs: []string{"count-misses-trims"}})
		var b strings.Builder
		fmt.Fprintln(&b, o.counters, o.Findings, o.Metrics, o.net.Hops())
		return b.String()
	}
	if a, b := once(), once(); a != b {
		t.Errorf("two runs differ:\n%s\n%s", a, b)
	}
}
