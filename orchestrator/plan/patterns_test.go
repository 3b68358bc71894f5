package plan_test

import (
	"fmt"
	"strings"
	"testing"

	"candela.dev/candela/orchestrator/config"
	"candela.dev/candela/orchestrator/plan"
	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"
)

// named lists the packets of p's intents as "qpn:psn/iter".
func named(p *plan.Plan) string {
	var words []string
	for _, in := range p.Intents {
		words = append(words, fmt.Sprintf("%d:%d/%d", in.Flow.Connection(), in.RelPSN, in.Nth))
	}
	return strings.Join(words, " ")
}

func TestPatternsStandForSingleEvents(t *testing.T) {
	for _, tt := range []struct{ name, traffic, want string }{
		{"a range of packets", "{data-pkt-events: [{qpn: 1, psn: 5..8, type: drop}]}", "1:5/1 1:6/1 1:7/1 1:8/1"},
		{"a list of packets in the order of the file", "{data-pkt-events: [{qpn: 1, psn: [7, 1, 3], type: drop}]}",
			"1:7/1 1:1/1 1:3/1"},
		{"a list with ranges", "{data-pkt-events: [{qpn: 1, psn: [1, 4..5, last], type: drop}]}", "1:1/1 1:4/1 1:5/1 1:10/1"},
		{"the last data packet", "{data-pkt-events: [{qpn: 1, psn: last, type: drop}]}", "1:10/1"},
		{"the last data packet of several messages",
			"{num-msgs-per-qp: 3, data-pkt-events: [{qpn: 1, psn: last, type: drop}]}", "1:30/1"},
		{"counted from the last", "{data-pkt-events: [{qpn: 1, psn: last-2..last, type: drop}]}", "1:8/1 1:9/1 1:10/1"},
		{"every third packet", "{data-pkt-events: [{qpn: 1, every: 3, type: ecn}]}", "1:3/1 1:6/1 1:9/1"},
		{"every third packet from the first", "{data-pkt-events: [{qpn: 1, every: 3, start: 1, type: ecn}]}",
			"1:1/1 1:4/1 1:7/1 1:10/1"},
		{"every second packet of a part", "{data-pkt-events: [{qpn: 1, every: 2, start: 4, until: 7, type: ecn}]}",
			"1:4/1 1:6/1"},
		{"seven rounds of one packet", "{data-pkt-events: [{qpn: 1, psn: last, iter: 1..3, type: drop}]}",
			"1:10/1 1:10/2 1:10/3"},
		{"rounds by list", "{data-pkt-events: [{qpn: 1, psn: 2, iter: [1, 3], type: drop}]}", "1:2/1 1:2/3"},
		{"packets times rounds", "{data-pkt-events: [{qpn: 1, psn: [2, 4], iter: 1..2, type: drop}]}",
			"1:2/1 1:2/2 1:4/1 1:4/2"},
		{"several connections, each with its own last packet",
			"{num-connections: 2, rdma-verb: [write, fetch-add], verbs-by: connection, data-pkt-events: [{qpn: 1..last, psn: " +
				"last, type: drop}]}",
			"1:10/1 2:1/1"},
		{"control packets", "{control-pkt-events: [{qpn: 1, packet: nak, nth: 1..3, type: drop}]}", "1:0/1 1:0/2 1:0/3"},
		{"control packets by PSN",
			"{num-msgs-per-qp: 2, control-pkt-events: [{qpn: 1, packet: ack, psn: [10, last], type: drop}]}", "1:10/1 1:20/1"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			if got := named(mustPlan(t, "f.yml", "name: x\ntraffic: "+tt.traffic)); got != tt.want {
				t.Errorf("got %s, want %s", got, tt.want)
			}
		})
	}
}

func TestEventsOfAPatternKnowTheItemOfTheFile(t *testing.T) {
	p := mustPlan(t, "f.yml",
		"name: x\ntraffic:\n  data-pkt-events:\n    - {qpn: 1, psn: 1..2, type: ecn}\n    - {qpn: 1, psn: 5, type: drop}\n")
	var got []string
	for _, in := range p.Intents {
		got = append(got, fmt.Sprint(in.Index, " ", in.Where))
	}
	want := []string{
		"0 f.yml:4:7: traffic.data-pkt-events[0] (qpn 1 psn 1 iter 1)",
		"1 f.yml:4:7: traffic.data-pkt-events[0] (qpn 1 psn 2 iter 1)",
		"2 f.yml:5:7: traffic.data-pkt-events[1]",
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got)\n%s", diff)
	}
}

func TestAPatternWarnsOnceAndCountsTheRest(t *testing.T) {
	p := mustPlan(t, "f.yml", "name: x\ntraffic: {num-msgs-per-qp: 3, data-pkt-events: [{qpn: 1, every: 5, type: drop}]}")
	if len(p.Warnings) != 1 || !strings.HasSuffix(p.Warnings[0].Why, "\nlikewise 4 more of this pattern") {
		t.Errorf("got %q", p.Warnings)
	}
}

// A pattern and the equivalent single events are the same test: their hashes are equal.
func TestPatternsAndWhatTheyStandForAreTheSameTest(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		first := rapid.IntRange(1, 20).Draw(t, "first")
		last := rapid.IntRange(first, 20).Draw(t, "last")
		rounds := rapid.IntRange(1, 3).Draw(t, "rounds")
		const head = "name: x\ntraffic: {num-msgs-per-qp: 2, data-pkt-events: ["
		var singles []string
		for psn := first; psn <= last; psn++ {
			for iter := 1; iter <= rounds; iter++ {
				singles = append(singles, fmt.Sprintf("{qpn: 1, psn: %d, iter: %d, type: ecn}", psn, iter))
			}
		}
		hash := func(events string) string {
			test, err := config.Parse("f.yml", []byte(head+events+"]}"), config.Options{})
			if err != nil {
				t.Fatal(err)
			}
			return test.Hash()
		}
		pattern := fmt.Sprintf("{qpn: 1, psn: %d..%d, iter: 1..%d, type: ecn}", first, last, rounds)
		if a, b := hash(pattern), hash(strings.Join(singles, ", ")); a != b {
			t.Fatalf("%s and %v differ", pattern, singles)
		}
	})
}
