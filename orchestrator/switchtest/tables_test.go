package switchtest_test

import (
	"bytes"
	"encoding/csv"
	"encoding/json"
	"fmt"
	"math"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"candela.dev/candela/orchestrator"
	"candela.dev/candela/orchestrator/switchtest"
	"candela.dev/candela/runtimetest"
)

// csvOf reads a table of a run.
func csvOf(t *testing.T, dir, name string) [][]string {
	t.Helper()
	file, err := os.Open(filepath.Join(dir, name))
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	rows, err := csv.NewReader(file).ReadAll()
	if err != nil {
		t.Fatal(err)
	}
	return rows
}

// parquetOf reads a table of a run with hyparquet, which tools/setup installs.
func parquetOf(t *testing.T, dir, name string) [][]string {
	t.Helper()
	reader := filepath.Join("..", "..", "tools", "parquet")
	node, err := exec.LookPath("node")
	if _, missing := os.Stat(filepath.Join(reader, "node_modules")); err != nil || missing != nil {
		t.Skip("node or hyparquet is not here; tools/setup installs hyparquet where there is npm")
	}
	program := filepath.Join(reader, "read.mjs")
	out, err := exec.CommandContext(t.Context(), node, program, filepath.Join(dir, name)).Output()
	if err != nil {
		t.Fatal(err)
	}
	var got struct {
		Columns []string
		Rows    [][]any
	}
	decoder := json.NewDecoder(bytes.NewReader(out))
	decoder.UseNumber()
	if err := decoder.Decode(&got); err != nil {
		t.Fatal(err)
	}
	rows := [][]string{got.Columns}
	for _, row := range got.Rows {
		var cells []string
		for _, v := range row {
			cell := ""
			if v != nil {
				cell = fmt.Sprint(v)
			}
			cells = append(cells, cell)
		}
		rows = append(rows, cells)
	}
	return rows
}

const tabled = `
topology: {kind: leaf-spine, leaves: 2, spines: 2, hosts-per-leaf: 4, link: {gbps: 10}}
switch-under-test: {model: ndp-ideal, data-queue-bytes: 12000}
hosts: {transport: ndp}
workload:
  - incast: {senders: 6, bytes: 60000, stagger-us: 5}
  - flow: {src: 1, dst: 6, transport: raw, rate-gbps: 0.5}
size-classes-bytes: [1000]
duration-us: 1500
results: {flows: FORMAT, queues: FORMAT, metrics: FORMAT}
`

// Both formats hold what flows.json says of each flow, whatever is judged.
func TestTablesOfFlowsSayWhatTheDocumentSays(t *testing.T) {
	for _, judge := range []string{"full", "off"} {
		text := tabled + "judge: " + judge + "\nexpect: {unfinished: 0}\n"
		plain := outcome(t, strings.ReplaceAll(text, "FORMAT", "csv"))
		packed := outcome(t, strings.ReplaceAll(text, "FORMAT", "parquet"))
		for _, name := range []string{"flows", "metrics", "queues", "queue-series"} {
			a, b := csvOf(t, plain.Dir, name+".csv"), parquetOf(t, packed.Dir, name+".parquet")
			if !slices.EqualFunc(a, b, slices.Equal[[]string]) {
				t.Errorf("%s, judge %s:\ncsv     %v\nparquet %v", name, judge, a, b)
			}
		}
		rows := csvOf(t, plain.Dir, "flows.csv")
		doc := flowsOf(t, plain.Dir)
		if len(rows) != len(doc.Flows)+1 || len(doc.Flows) != 7 {
			t.Fatalf("%d rows of %d flows", len(rows), len(doc.Flows))
		}
		for i := range doc.Flows {
			f, data := &doc.Flows[i], map[string]any{}
			encoded, err := json.Marshal(f)
			if err == nil {
				err = json.Unmarshal(encoded, &data)
			}
			if err != nil {
				t.Fatal(err)
			}
			for j, name := range rows[0] {
				want := fmt.Sprint(data[name])
				switch v := data[name].(type) {
				case nil: // the document leaves out a zero
					want = ""
				case float64:
					want = strconv.FormatFloat(v, 'f', -1, 64)
				case bool:
					want = map[bool]string{true: "1", false: "0"}[v]
				}
				if name == "weight" && want == "" {
					want = "1"
				}
				got := rows[i+1][j]
				if name == "slowdown" && f.Finished {
					want = strconv.FormatFloat(float64(f.FCTNS)/float64(f.IdealNS), 'f', -1, 64)
				}
				if got != want && (want != "" || got != "0") {
					t.Errorf("judge %s, flow %d: %s is %q, want %q", judge, f.Flow, name, got, want)
				}
			}
		}
	}
}

// A flow alone in the network takes its ideal time to the nanosecond, whatever the links are; no flow is faster.
func TestSlowdownOfAFlowAloneIsOne(t *testing.T) {
	for _, c := range []struct{ topology, latency string }{
		{"{kind: single-switch, hosts: 8, link: {gbps: 100}}", "0"},
		{"{kind: single-switch, hosts: 8, link: {gbps: 25, framing-bytes: 24}, links: [{host: 7, gbps: 10}]}", "450"},
		{"{kind: leaf-spine, leaves: 2, spines: 2, hosts-per-leaf: 4, link: {gbps: 10}, trunk: {gbps: 40, delay-ns: 700}}",
			"300"},
		{"{kind: leaf-spine, leaves: 2, spines: 2, hosts-per-leaf: 4, link: {gbps: 40, framing-bytes: 24}, " +
			"trunk: {gbps: 10}}", "300"},
	} {
		text := fmt.Sprintf("\ntopology: %s\nswitch-under-test: {model: droptail, latency-ns: %s}\nhosts: {transport: raw}\n"+
			"workload:\n", c.topology, c.latency)
		at := 0
		for _, size := range []int{1, 1000, 1436, 1437, 9000, 100_000} {
			for dst := 1; dst < 8; dst += 3 {
				text += fmt.Sprintf("  - flow: {src: 0, dst: %d, bytes: %d, start-us: %d}\n", dst, size, at)
				at += 500
			}
		}
		for i, f := range flowsOf(t, outcome(t, text).Dir).Flows {
			if f.IdealNS == 0 || f.FCTNS != f.IdealNS {
				t.Errorf("%s: flow %d of %d bytes took %d ns, ideal are %d", c.topology, i+1, f.Bytes, f.FCTNS, f.IdealNS)
			}
		}
	}
	o := outcome(t, strings.ReplaceAll(tabled, "FORMAT", "csv"))
	for _, f := range flowsOf(t, o.Dir).Flows {
		if f.Finished && (f.FCTNS < f.IdealNS || f.IdealNS == 0) {
			t.Errorf("flow %d took %d ns, ideal are %d", f.Flow, f.FCTNS, f.IdealNS)
		}
	}
}

// statisticsOf recomputes the statistics of the flows that a table lists: mean, and quantiles by nearest rank.
func statisticsOf(rows [][]string, column string, keep func(bytes int64) bool) (count int64, mean float64,
	quantiles []int64) {
	at, size := slices.Index(rows[0], column), slices.Index(rows[0], "bytes")
	var values []int64
	for _, row := range rows[1:] {
		bytes, _ := strconv.ParseInt(row[size], 10, 64)
		if v, err := strconv.ParseInt(row[at], 10, 64); err == nil && keep(bytes) {
			values, mean = append(values, v), mean+float64(v)
		}
	}
	slices.Sort(values)
	for _, q := range []float64{0.5, 0.95, 0.99, 0.999} {
		quantiles = append(quantiles, values[max(0, int(math.Ceil(q*float64(len(values))))-1)])
	}
	return int64(len(values)), mean / float64(len(values)), quantiles
}

// compareStatistics holds the groups of flows.json against the rows of flows.csv.
func compareStatistics(t *testing.T, dir string, tolerance float64) {
	t.Helper()
	rows, doc := csvOf(t, dir, "flows.csv"), flowsOf(t, dir)
	for i := range doc.Statistics.Groups {
		g := &doc.Statistics.Groups[i]
		keep := func(int64) bool { return true }
		switch {
		case g.By == "item":
			continue
		case strings.HasPrefix(g.Name, "below"):
			keep = func(bytes int64) bool { return bytes > 0 && bytes < doc.Statistics.SizeClasses[0] }
		case g.By == "size":
			keep = func(bytes int64) bool { return bytes >= doc.Statistics.SizeClasses[0] }
		}
		for name, s := range map[string]*switchtest.Spread{"fct_ns": g.FCT, "goodput_bps": g.Goodput} {
			count, mean, q := statisticsOf(rows, name, keep)
			got := []int64{s.P50, s.P95, s.P99, s.P999}
			for j := range got {
				if math.Abs(float64(got[j]-q[j])) > tolerance*float64(q[j]) {
					t.Errorf("%s %s: quantiles %v of %s, the rows have %v", g.By, g.Name, got, name, q)
					break
				}
			}
			if s.Count != count || math.Abs(s.Mean-mean) > 1e-9*mean {
				t.Errorf("%s %s: %d values of %s with mean %g, the rows have %d with %g", g.By, g.Name, s.Count, name, s.Mean,
					count, mean)
			}
		}
	}
}

// Fairness is 1 where a scheduler gives each flow its share by weight, and Jain's index where it does not: shares of 2
// and 1 with equal weights have (2+1)²/(2·(4+1)) = 0.9.
func TestFairnessIsByWeight(t *testing.T) {
	const text = `
topology: {kind: single-switch, hosts: 3, link: {gbps: 10}}
switch-under-test: {model: droptail, queues: 2, weights: [1, 2], scheduler: dwrr}
hosts: {transport: raw}
workload:
  - flow: {src: 0, dst: 2, rate-gbps: 9, tc: 0}
  - flow: {src: 1, dst: 2, rate-gbps: 9, tc: 1, weight: WEIGHT}
duration-us: 3000
judge: JUDGE
expect: {fairness: FAIRNESS}
`
	for weight, fairness := range map[string]string{"2": "{min: 0.9999, max: 1}", "1": "{min: 0.899, max: 0.901}"} {
		for _, judge := range []string{"full", "off"} {
			o := outcome(t, strings.NewReplacer("WEIGHT", weight, "FAIRNESS", fairness, "JUDGE", judge).Replace(text))
			if o.Verdict.Exit != orchestrator.ExitPass {
				t.Errorf("weight %s, judge %s: %v, fairness %v", weight, judge, o.Verdict,
					flowsOf(t, o.Dir).Statistics.Groups[0].Fairness)
			}
		}
	}
}

// Statistics are those of the flows: to the nanosecond up to 1000 of them, beyond with three digits.
func TestStatisticsAreThoseOfTheRows(t *testing.T) {
	runtimetest.SkipRace(t)
	const mix = `
topology: {kind: single-switch, hosts: 16, link: {gbps: 10}}
switch-under-test: {model: ndp-ideal}
hosts: {transport: ndp}
workload:
  - poisson: {load: 0.5, sizes: web-search, stop-us: STOP, pairs: uniform}
results: {flows: csv}
size-classes-bytes: [30000]
judge: off
expect: {unfinished: 0}
deadline-us: 200000
`
	compareStatistics(t, outcome(t, strings.ReplaceAll(mix, "STOP", "8000")).Dir, 0)
	if !testing.Short() {
		compareStatistics(t, outcome(t, strings.ReplaceAll(mix, "STOP", "60000")).Dir, 0.001)
	}
}
