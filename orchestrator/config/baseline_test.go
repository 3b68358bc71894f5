package config_test

import (
	"strings"
	"testing"

	"candela.dev/candela/orchestrator/config"
)

func TestABaselineIsWrittenAsItIsReadAndRefusedWhereItMeansNothing(t *testing.T) {
	const base = "name: x\ntraffic: {message-size: 1024}\nexpect: "
	for _, tt := range []struct{ expect, want string }{
		{"{baseline: last-green, retrans.nack-reaction-us: {p99: +5 %, mean: \"-2.5%\"}}", ""},
		{"{baseline: \"fw:28.39.1002\", retrans.timeout-us: {max: +10 %}}", ""},
		{"{retrans.nack-reaction-us: {p99: +5 %}}", "has no baseline"},
		{"{baseline: last-green}", "is compared with nothing"},
		{"{baseline: yesterday, retrans.timeout-us: {max: +10 %}}", "it takes last-green"},
		{"{baseline: last-green, retrans.timeout-us: {max: 5}}", "it takes a change such as +5 %"},
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
			again.Expect.Baseline.Ref != test.Expect.Baseline.Ref ||
			len(again.Expect.Baseline.Compared()) != 1 {
			t.Errorf("%s: written as\n%s%v", tt.expect, test.YAML(), err)
		}
	}
}
