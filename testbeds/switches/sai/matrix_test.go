package sai_test

import (
	"cmp"
	"os"
	"slices"
	"strings"
	"testing"

	"candela.dev/candela/analyzers"
	"candela.dev/candela/orchestrator/config"
	model "candela.dev/candela/testbeds/switches/sai"
)

// impossible are bugs that can't meet a condition, or have no effect under it.
var impossible = map[string]string{
	"checksum-stale@ipv6":           "IPv6 has no header checksum",
	"v4-only@ipv4":                  "it is about IPv6",
	"acl-v4-only@ipv4":              "it is about IPv6",
	"trims-runts@long":              "it is about short packets",
	"drops-short@long":              "it is about short packets",
	"wrong-size@short":              "a short packet is not cut",
	"length-stale@short":            "a short packet keeps its length",
	"clears-ecn@not-ect":            "there is nothing to clear",
	"headers-behind-data@1-in-100":  "it is a matter of luck whether data leaves meanwhile",
	"headers-behind-data@1-in-1000": "it is a matter of luck whether data leaves meanwhile",
}

// whole are bugs of the switch as a whole, not of single packets.
var whole = []string{
	"forgets-toggle", "count-port-off", "count-switch-off", "count-acl-off", "octets-of-originals", "octets-miss-copies",
	"octets-fcs-one-way", "octets-acl-ip", "count-swaps-queues", "count-restarts", "reorders-headers",
}

// A switch that mishandles only some packets must be caught, too.
func TestTheSuiteCatchesBugsThatFewPacketsMeet(t *testing.T) {
	few := []string{"wrong-size@ipv6", "wrong-dscp@short", "checksum-stale@from-tc", "ignores-acl@ipv6",
		"drops-headers@1-in-1000", "headers-behind-data@idle",
		"trims-lossless@ipv6", "count-misses-trims@queue-2", "clears-ecn@ect", "wrong-port-map@uplink",
		"delivers-both@1-in-100"}
	if os.Getenv("CANDELA_TEST_MATRIX") != "" {
		few = matrix()
	}
	tests := suite(t)
	// The tests that find most come first.
	slices.SortStableFunc(tests, func(a, b *config.SwitchTest) int {
		return -cmp.Compare(strings.Count(a.Title(), "sai-"), strings.Count(b.Title(), "sai-"))
	})
	for _, bug := range few {
		t.Run(bug, func(t *testing.T) {
			caught := slices.IndexFunc(tests, func(test *config.SwitchTest) bool {
				buggy := *test
				buggy.Switch.Bugs = []string{bug}
				return play(t, &buggy).Verdict.Verdict == analyzers.Fail
			})
			if caught < 0 {
				t.Fatal("no test of the suite fails")
			}
			t.Logf("caught by %s", tests[caught].Title())
		})
	}
}

// matrix is every bug under every condition.
func matrix() (list []string) {
	for _, bug := range model.Model().Bugs {
		if slices.Contains(whole, bug.Name) {
			continue
		}
		for _, limit := range model.Conditions() {
			if name := bug.Name + "@" + limit; impossible[name] == "" {
				list = append(list, name)
			}
		}
	}
	return list
}
