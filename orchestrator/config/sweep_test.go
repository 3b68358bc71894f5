package config

import (
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"
)

func points(t *testing.T, text string) []*Test {
	t.Helper()
	tests, err := ParseAll("f.yml", []byte("name: x\n"+text), laboratory)
	if err != nil {
		t.Fatal(err)
	}
	return tests
}

func TestPointsAreTheProductOfTheValuesWithTheLastKeyFastest(t *testing.T) {
	for _, tt := range []struct{ name, text, want string }{
		{"one key", "traffic: {}\nsweep: {traffic.tx-depth: [4, 1, 2]}", "tx-depth=4|tx-depth=1|tx-depth=2"},
		{"two keys", "traffic: {}\nsweep: {traffic.mtu: [256, 512], traffic.tx-depth: 1..2}",
			"mtu=256 tx-depth=1|mtu=256 tx-depth=2|mtu=512 tx-depth=1|mtu=512 tx-depth=2"},
		{"ranges in lists", "traffic: {}\nsweep: {seed: [1..3, 9]}", "seed=1|seed=2|seed=3|seed=9"},
		{"steps", "traffic: {}\nsweep: {traffic.message-size: {from: 10, to: 35, step: 10}}",
			"message-size=10|message-size=20|message-size=30"},
		{"an item of a list",
			"traffic: {data-pkt-events: [{qpn: 1, psn: 1, type: ecn}]}\nsweep: {'traffic.data-pkt-events[0].psn': [last, 2]}",
			"psn=last|psn=2"},
		{"quotes keep a range together",
			"traffic: {data-pkt-events: [{qpn: 1, psn: 1, type: ecn}]}\nsweep: {'traffic.data-pkt-events[0].psn': ['1..2', 3]}",
			"psn=1..2|psn=3"},
		{"names as long as needed", "traffic: {}\nsweep: {requester.nic.profile: [spec], responder.nic.profile: [cx5]}",
			"requester.nic.profile=spec responder.nic.profile=cx5"},
		{"several paths alike", "traffic: {}\nsweep: {'requester.nic.profile, responder.nic.profile': [spec, cx5]}",
			"profile=spec|profile=cx5"},
		{"a value for each path",
			"traffic: {}\nsweep: {'responder.nic.profile, expect.retrans.nack-reaction-us.max': [[spec, 5], [cx5, 8]]}",
			"profile=spec max=5|profile=cx5 max=8"},
		{"through an alias", "traffic: &t {tx-depth: 2}\nsweep: {traffic.rx-depth: [3]}", "rx-depth=3"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			var got []string
			for i, test := range points(t, tt.text) {
				if test.Point.Index != i+1 {
					t.Errorf("point %d says it is %d", i+1, test.Point.Index)
				}
				got = append(got, test.Point.String())
			}
			if got := strings.Join(got, "|"); got != tt.want {
				t.Errorf("got  %s\nwant %s", got, tt.want)
			}
		})
	}
}

func TestAPointIsTheTestThatOneWouldWriteByHand(t *testing.T) {
	const traffic = "traffic: {message-size: %d, data-pkt-events: [{qpn: 1, psn: %d, type: drop}, {qpn: 1, psn: 1, " +
		"type: ecn}]}\nexpect: {retrans: {nack-reaction-us: {max: %d}}}\n"
	swept := points(t, fmt.Sprintf(traffic, 0, 1, 1)+"sweep:\n  traffic.message-size: [10240, 20480]\n"+
		"  'traffic.data-pkt-events[0].psn, expect.retrans.nack-reaction-us.max': [[5, 20], [6, 30]]\n")
	var hand []*Test
	for _, size := range []int{10240, 20480} {
		for psn, bound := range map[int]int{5: 20, 6: 30} {
			hand = append(hand, points(t, fmt.Sprintf(traffic, size, psn, bound))[0])
		}
	}
	for _, test := range swept {
		found := false
		for _, h := range hand {
			found = found || h.WithSeed(test.Seed).Hash() == test.Hash()
		}
		if !found {
			t.Errorf("%s is none of the tests written by hand:\n%s", test.Point, test.YAML())
		}
	}
	if len(swept) != 4 {
		t.Errorf("%d points, want 4", len(swept))
	}
}

func TestSeedsOfPointsDependOnTheirValuesAlone(t *testing.T) {
	few := points(t, "traffic: {}\nsweep: {traffic.tx-depth: [2, 4]}")
	more := points(t, "traffic: {}\nsweep: {traffic.tx-depth: [1, 2, 3, 4]}")
	if few[0].Seed != more[1].Seed || few[1].Seed != more[3].Seed {
		t.Error("adding points changed the seeds of others")
	}
	if few[0].Seed == few[1].Seed {
		t.Error("two points have one seed")
	}
	other := few[0].WithBaseSeed(7)
	if other.Seed == few[0].Seed || other.Point.BaseSeed != 7 || few[0].Point.BaseSeed != 1 {
		t.Errorf("base seed 7 gives %d, point %+v; the first was %d, %+v", other.Seed, other.Point, few[0].Seed, few[0].Point)
	}
	for i, test := range points(t, "traffic: {}\nsweep: {seed: 5..6}") {
		if test.Seed != uint64(5+i) || test.WithBaseSeed(9).Seed != test.Seed {
			t.Errorf("a sweep over seeds has seed %d at point %d", test.Seed, i+1)
		}
	}
}

func TestPointsStandForThemselvesInRunDirectories(t *testing.T) {
	for _, test := range points(t, "traffic: {}\nsweep: {traffic.tx-depth: [2, 4], seed: [3]}") {
		reparsed, err := Parse("config.yml", test.YAML(), laboratory)
		if err != nil {
			t.Fatal(err)
		}
		if reparsed.Hash() != test.Hash() || reparsed.Point != nil {
			t.Errorf("(-point +written and read again)\n%s", cmp.Diff(test, reparsed, same))
		}
	}
}

func TestASweepIsRefusedWhereOneTestIsNeeded(t *testing.T) {
	_, err := Parse("f.yml", []byte("name: x\ntraffic: {}\nsweep: {traffic.tx-depth: [1, 2]}"), laboratory)
	const want = "f.yml:3:8: sweep: gives several tests; this command takes a single one\n  candela run and candela " +
		"config check take files with a sweep"
	if err == nil || err.Error() != want {
		t.Errorf("got %v, want %s", err, want)
	}
}

// The number of points is the product of the lists' lengths, and all points differ.
func TestEveryCombinationOccursOnce(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		keys := []string{"traffic.tx-depth", "traffic.rx-depth", "traffic.num-msgs-per-qp", "traffic.dscp"}
		text, want := "name: x\ntraffic: {}\nsweep:\n", 1
		for _, key := range keys[:rapid.IntRange(1, len(keys)).Draw(t, "keys")] {
			first := rapid.IntRange(1, 50).Draw(t, key+" first")
			n := rapid.IntRange(1, 5).Draw(t, key+" values")
			text += fmt.Sprintf("  %s: %d..%d\n", key, first, first+n-1)
			want *= n
		}
		tests, err := ParseAll("f.yml", []byte(text), laboratory)
		if err != nil {
			t.Fatal(err)
		}
		seen := map[string]bool{}
		for _, test := range tests {
			seen[test.Point.String()] = true
		}
		if len(tests) != want || len(seen) != want {
			t.Fatalf("%d points, %d different ones, want %d\n%s", len(tests), len(seen), want, text)
		}
	})
}
