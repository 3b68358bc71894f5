package switchtest_test

import (
	"cmp"
	"encoding/csv"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"candela.dev/candela/orchestrator/config"
)

// served returns the ranks that a port of 1 Gb/s sends, in order, if they arrive 1 us apart while it sends another
// packet for 12 us.
func served(t *testing.T, model string, ranks ...int) []int {
	t.Helper()
	text := fmt.Sprintf("name: figure\ntopology: {kind: single-switch, hosts: %d, link: {gbps: 10, delay-ns: 0},\n"+
		"  links: [{host: %d, gbps: 1}]}\nswitch-under-test: {%s}\nhosts: {transport: raw, packet-size: 1500}\n"+
		"duration-us: 200\nresults: {flows: csv}\nexpect: {unfinished: {min: 0}}\nworkload:\n"+
		"  - flow: {src: 0, dst: %d, packets: 1, rank: 0}\n", len(ranks)+2, len(ranks)+1, model, len(ranks)+1)
	for i, rank := range ranks {
		text += fmt.Sprintf("  - flow: {src: %d, dst: %d, packets: 1, rank: %d, start-us: %d}\n", i+1, len(ranks)+1, rank,
			i+1)
	}
	tests, err := config.ParseSwitchTests("f.yml", []byte(text), configOptions())
	if err != nil {
		t.Fatal(err)
	}
	f, err := os.Open(filepath.Join(runWith(t, tests[0], options(t.TempDir())).Dir, "flows.csv"))
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	rows, err := csv.NewReader(f).ReadAll()
	if err != nil {
		t.Fatal(err)
	}
	column := func(name string) int { return slices.Index(rows[0], name) }
	type departure struct{ rank, ns int }
	var list []departure
	for _, row := range rows[1:] {
		item, err := strconv.Atoi(row[column("item")])
		if err != nil {
			t.Fatal(err)
		}
		if item == 0 || row[column("finished")] != "1" { // the packet that keeps the port busy, and what was dropped
			continue
		}
		ns, err := strconv.Atoi(row[column("fct_ns")])
		if err != nil {
			t.Fatal(err)
		}
		list = append(list, departure{ranks[item-1], ns + 1000*item})
	}
	slices.SortFunc(list, func(a, b departure) int { return cmp.Compare(a.ns, b.ns) })
	var order []int
	for _, d := range list {
		order = append(order, d.rank)
	}
	return order
}

// Figures 4-2 and 4-3 of Yu: four places, and arrivals 1, 4, 5, 1, 2, 2; in figure 4-3 the fourth and the fifth are
// swapped, which gives the order that is printed (the text says the third and fourth).
func TestPIFOAndFIFOServeWhatTheFiguresHave(t *testing.T) {
	const fifo = "model: droptail, data-queue-packets: 4, data-queue-bytes: 1000000"
	for _, c := range []struct {
		model string
		ranks []int
		want  []int
	}{
		{"model: pifo, queue-packets: 4", []int{1, 4, 5, 1, 2, 2}, []int{1, 1, 2, 2}},
		{"model: pifo, queue-packets: 4", []int{1, 4, 5, 2, 1, 2}, []int{1, 1, 2, 2}},
		{"model: pieo, queue-packets: 4", []int{1, 4, 5, 1, 2, 2}, []int{1, 1, 2, 2}},
		{fifo, []int{1, 4, 5, 1, 2, 2}, []int{1, 4, 5, 1}},
	} {
		t.Run(strings.Fields(c.model)[1]+fmt.Sprint(c.ranks), func(t *testing.T) {
			if got := served(t, c.model, c.ranks...); !slices.Equal(got, c.want) {
				t.Errorf("sends %v, want %v", got, c.want)
			}
		})
	}
}
