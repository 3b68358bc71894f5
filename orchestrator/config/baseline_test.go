package config_test

import (
	"strings"
	"testing"

	"candela.dev/candela/orchestrator/config"
)

func TestABaselineIsWrittenAsItIsReadAndRefusedWhereItMeansNothing(t *testing.T) {
	const base = "name: x\ntraffic: {message-size: 1024}\nexpect: "
	for _, tt := range []struct {
		expect, want string
		metrics      int
	}{
		{"{baseline: last-green, retrans.nack-reaction-us: {p99: +5 %, mean: \"+2.5%\"}}", "", 1},
		{"{baseline: \"fw:28.39.1002\", retrans.timeout-us: {max: +10 %}, traffic.goodput-gbps: {mean: -5 %}}", "", 2},
		{"{baseline: last-green, cnp.interval-us: {p50: +5 %, min: -5 %}}", "", 1},
		{"{baseline: last-green, retrans.timeout.retry-us: {1: {max: +5 %}, \"3\": {max: +7 %}}}", "", 2},
		{"{baseline: last-green, counters.requester: {packet_seq_err: {max: +0 %}}}", "", 1},
		{"{retrans.nack-reaction-us: {p99: +5 %}}", "has no baseline", 0},
		{"{baseline: last-green}", "is compared with nothing", 0},
		{"{baseline: last-green, retrans.timeout-us: {}}", "retrans.timeout-us: is empty", 0},
		{"{baseline: yesterday, retrans.timeout-us: {max: +10 %}}", "it takes last-green", 0},
		{"{baseline: last-green, retrans.timeout-us: {max: 5}}", "it takes a change such as +5 %", 0},
		{"{baseline: last-green, retrans.timeout-us: {max: -5 %}}", "more is worse of this metric: give how much more", 0},
		{"{baseline: last-green, traffic.goodput-gbps: {mean: +5 %}}", "less is worse of this metric: give how much less", 0},
		{"{baseline: last-green, traffic.goodput-gbps: {mean: -100 %}}", "cannot fail", 0},
		{"{baseline: last-green, retrans.timeout.retry-us: {16: {max: +5 %}}}", "numbers of retries from 1 to 15", 0},
		{"{baseline: last-green, retrans.nack-reaction: {p99: +5 %}}", "did you mean \"retrans.nack-reaction-us\"?", 0},
		{"{baseline: last-green, no.such: {p99: +5 %}}", "traffic.mct-us, ", 0},
	} {
		test, err := config.Parse("x.yml", []byte(base+tt.expect+"\n"), config.Options{})
		if tt.want != "" {
			if err == nil || !strings.Contains(err.Error(), tt.want) {
				t.Errorf("%s: error %v, want %q", tt.expect, err, tt.want)
			}
			continue
		}
		if err != nil {
			t.Errorf("%s: %v", tt.expect, err)
			continue
		}
		again, err := config.Parse("x.yml", test.YAML(), config.Options{})
		if err != nil || string(again.YAML()) != string(test.YAML()) ||
			again.Expect.Baseline.Ref != test.Expect.Baseline.Ref || len(again.Expect.Baseline.Metrics) != tt.metrics {
			t.Errorf("%s: written as\n%s%v", tt.expect, test.YAML(), err)
		}
	}
}
