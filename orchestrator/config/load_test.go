package config

import (
	"errors"
	"flag"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"candela.dev/candela/runtimetest"
	"candela.dev/candela/trace"
)

var update = flag.Bool("update", false, "rewrite golden files")

// golden compares got with a file below testdata, or with -update writes it.
func golden(t *testing.T, file, got string) {
	t.Helper()
	if *update {
		if err := os.WriteFile(file, []byte(got), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(string(want), got); diff != "" {
		t.Errorf("%s (-want +got; rewrite with -update):\n%s", file, diff)
	}
}

// laboratory is the Options of these tests.
var laboratory = Options{
	Profiles: []Profile{{Name: "spec"}, {Name: "cx5"}, {Name: "cx6-dx"}},
	Bugs:     []string{"nack-psn-plus-one", "never-acks"},
	Rules:    []string{"gbn.nak-psn", "gbn.nak-missing", "cnp.interval"},
	ReadFile: func(name string) ([]byte, error) {
		switch filepath.Base(name) {
		case "small.yml":
			return []byte("kind: virtual\nswitch: {max-frame-bytes: 1600}\n"), nil
		case "broken.yml":
			return []byte("kind: virtul\ndumpers: [{name: a}, {name: a, weigth: 2}]\nlinks: {requester: {rate-gbps: 0}}\n"), nil
		}
		return nil, fs.ErrNotExist
	},
}

func TestEveryProblemOfAFileIsReportedAtItsPlace(t *testing.T) {
	files, err := filepath.Glob("testdata/errors/*.yml")
	if err != nil || len(files) < 20 {
		t.Fatalf("found %d files, %v", len(files), err)
	}
	for _, file := range files {
		t.Run(filepath.Base(file), func(t *testing.T) {
			data, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			_, err = ParseAll(filepath.Base(file), data, laboratory)
			if !errors.Is(err, ErrInvalid) {
				t.Fatalf("got %v, want an invalid configuration", err)
			}
			types, _ := eventTypes(true) // makes the golden errors independent of new event types
			got := strings.ReplaceAll(err.Error(), enum[trace.EventType]{values: types}.allowed(), "(every type of event)")
			golden(t, strings.TrimSuffix(file, ".yml")+".txt", got+"\n")
		})
	}
}

// Hostile files are refused quickly, whatever their apparent size; quadratic work would make this test hang.
func TestHostileFilesAreRefusedSoon(t *testing.T) {
	runtimetest.SkipRace(t)
	bomb := "name: x\na: &a [x, x, x, x, x, x, x, x, x, x]\n"
	for c := 'b'; c <= 'z'; c++ {
		bomb += fmt.Sprintf("%c: &%c [%s]\n", c, c, strings.TrimSuffix(strings.Repeat(fmt.Sprintf("*%c, ", c-1), 10), ", "))
	}
	events := strings.Repeat("{qpn: 1, psn: 99999, type: drop}, ", maxEvents-1)
	for name, data := range map[string]string{
		"aliases of aliases": bomb + "traffic: {data-pkt-events: *z, rdma-verb: *z}\n",
		"a list of aliases":  "name: x\nexpect: &e {completion: {" + strings.Repeat("? qpn 1\n: *e\n", 3) + "}}\n",
		"many lists by alias": "name: x\ntraffic: {data-pkt-events: [" + strings.Repeat("{trim: &t {size: 1}}, ",
			9000) + "]}",
		"every event is wrong":        "name: x\ntraffic: {data-pkt-events: [" + events + "{}]}",
		"unknown keys without end":    "name: x\ntraffic:\n" + manyKeys(20_000),
		"deep nesting":                strings.Repeat("[", 9_000) + strings.Repeat("]", 9_000),
		"deeper nesting than allowed": strings.Repeat("{a: ", 20_000),
		"too large":                   strings.Repeat("#", maxFileSize+1),
		"a very long key":             strings.Repeat("k", 100_000) + ": 1\n",
		"a very long number":          "name: x\nseed: " + strings.Repeat("9", 100_000),
		"a very long decimal":         "name: x\ndeadline-ms: 1." + strings.Repeat("0", 100_000),
		"a sweep over everything": "name: x\nsweep: {traffic.tx-depth: 1..65536, traffic.rx-depth: 1..65536, seed: " +
			"0..999999999999999999}",
		"a sweep of a large file": "name: x\ntraffic: {data-pkt-events: [" + events +
			"{}]}\nsweep: {traffic.tx-depth: 1..1000}",
		"a sweep of many events": "name: x\ntraffic: {num-msgs-per-qp: 9000, data-pkt-events: [{qpn: 1, every: 1, " +
			"until: 8000, type: ecn}]}\nsweep: {seed: 1..1000}",
		"a sweep along aliases": "name: x\ntraffic: &t {rdma-verb: *t}\nsweep: " +
			"{traffic.rdma-verb.rdma-verb.rdma-verb: [1]}",
		"more values than are read": "name: x\ntraffic: {data-pkt-events: &e [" + events + "{}], control-pkt-events: *e}",
	} {
		t.Run(name, func(t *testing.T) {
			_, err := ParseAll("hostile.yml", []byte(data), laboratory)
			if !errors.Is(err, ErrInvalid) {
				t.Fatalf("got %v", err)
			}
			if n := len(err.Error()); n > 100_000 {
				t.Errorf("the message has %d bytes", n)
			}
		})
	}
}

func manyKeys(n int) string {
	var b strings.Builder
	for i := range n {
		fmt.Fprintf(&b, "  k%d: 1\n", i)
	}
	return b.String()
}

func BenchmarkLoadQuickstart(b *testing.B) {
	data, err := os.ReadFile("../../configs/quickstart.yml")
	if err != nil {
		b.Fatal(err)
	}
	b.ReportAllocs()
	for b.Loop() {
		if _, err := Parse("quickstart.yml", data, Options{}); err != nil {
			b.Fatal(err)
		}
	}
}
