package main

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"candela.dev/candela/orchestrator"
	"candela.dev/candela/orchestrator/config"
	"candela.dev/candela/orchestrator/history"
)

const comparedTest = `name: compared
responder: {nic: {profile: spec}}
traffic:
  message-size: 10240
  data-pkt-events: [{qpn: 1, psn: 5, type: drop}]
expect: {baseline: last-green, retrans.nack-reaction-us: {p99: +5 %}}
`

func TestARunIsComparedWithItsBaseline(t *testing.T) {
	dir := t.TempDir()
	store := filepath.Join(dir, "history.db")
	good := writeTest(t, comparedTest)
	// The requester of this profile reacts to a NAK in another time.
	slow := writeTest(t, strings.Replace(comparedTest, "responder:", "requester: {nic: {profile: cx5}}\nresponder:", 1))
	if status, _, stderr := candela(t, "run", good, "--out", dir); status != orchestrator.ExitUsage ||
		!strings.Contains(stderr, "needs a results store") {
		t.Errorf("without a store: exit status %d, %s", status, stderr)
	}
	for _, tt := range []struct {
		name, file, night, repeat string
		status                    orchestrator.Exit
		want                      string
	}{
		{"the first runs have nothing before them", good, "2026-11-01", "4", orchestrator.ExitPass, "n is too small"},
		{"the same night is no baseline", slow, "2026-11-01", "1", orchestrator.ExitPass, "n is too small"},
		{"an equal run", good, "2026-11-02", "1", orchestrator.ExitPass, ""},
		{"a few runs are too few", good, "2026-11-03", "1", orchestrator.ExitPass, "has 1 runs"},
	} {
		status, stdout, stderr := candela(t, "run", tt.file, "--out", dir, "--history", store, "--night", tt.night, "--repeat",
			tt.repeat, "--report", "none", "-v")
		if status != tt.status || !strings.Contains(strings.Join(strings.Fields(stdout), " "), tt.want) {
			t.Errorf("%s: exit status %d, want %d with %q\n%s%s", tt.name, status, tt.status, tt.want, stdout, stderr)
		}
	}
	fixed := filepath.Join(dir, "fixed.db")
	night := strings.Replace(comparedTest, "last-green", "night-2026-11-01", 1)
	candela(t, "run", good, "--out", dir, "--history", fixed, "--night", "2026-11-01", "--repeat", "5", "--report", "none")
	for _, tt := range []struct {
		text   string
		status orchestrator.Exit
		want   string
	}{
		{night, orchestrator.ExitPass, ""},
		{strings.Replace(night, "responder:", "requester: {nic: {profile: cx5}}\nresponder:", 1), orchestrator.ExitFail,
			"expect.retrans.nack-reaction-us.p99"},
	} {
		status, stdout, stderr := candela(t, "run", writeTest(t, tt.text), "--out", dir, "--history", fixed, "--night",
			"2026-11-09")
		if status != tt.status || !strings.Contains(stdout, tt.want) {
			t.Errorf("exit status %d, want %d with %q\n%s%s", status, tt.status, tt.want, stdout, stderr)
		}
	}
}

// regressions are tests, each with a change of its device that makes it worse, and with what must fail then.
var regressions = []struct {
	name, text, from, to string
	fails                []string
}{
	{"of NICs", `name: compared
requester: {nic: {profile: spec}}
responder: {nic: {profile: spec}}
traffic:
  message-size: 10240
  num-msgs-per-qp: 4
  data-pkt-events: [{qpn: 1, psn: 5, type: drop}]
expect:
  baseline: night-2026-11-01
  retrans.nack-reaction-us: {p99: +5 %}
  traffic.goodput-gbps: {mean: -1 %}
  traffic.mct-us: {max: +1 %}
  retrans.nack-generation-us: {max: +5 %}
  counters.requester: {tx_vport_rdma_unicast_packets: {max: +5 %}}
  counters.responder: {rx_icrc_encapsulated: {max: +5 %}}
`, "requester: {nic: {profile: spec}}", "requester: {nic: {profile: cx5}}",
		[]string{"retrans.nack-reaction-us.p99", "traffic.goodput-gbps.mean", "traffic.mct-us.max"}},
	{"of counters that did not grow before", `name: compared
responder: {nic: {profile: spec}}
traffic:
  message-size: 10240
  data-pkt-events: [{qpn: 1, psn: 5, type: ecn}]
expect:
  baseline: night-2026-11-01
  counters.responder: {out_of_sequence: {max: +5 %}}
  cnp.count: {min: -5 %}
`, "type: ecn", "type: drop", []string{"counters.responder.out_of_sequence.max", "cnp.count.min"}},
	{"of switches", `name: compared
topology: {kind: single-switch, hosts: 5}
switch-under-test: {model: droptail, data-queue-packets: 100}
hosts: {transport: tcp}
workload: [{incast: {senders: 4, bytes: 60000}}]
expect:
  baseline: night-2026-11-01
  flows.fct-us: {p99: +5 %}
  flows.goodput-gbps: {min: -5 %}
  run.makespan-us: {mean: +5 %}
  flows.queue-max-bytes: {max: +400 %}
`, "hosts: 5}", "hosts: 5, link: {gbps: 25}}",
		[]string{"flows.fct-us.p99", "flows.goodput-gbps.min", "run.makespan-us.mean"}},
}

func TestMetricsThatGotWorseFailOnBothEngines(t *testing.T) {
	for _, engine := range []string{"SQLite", "PostgreSQL"} {
		for _, tt := range regressions {
			t.Run(tt.name+" "+engine, func(t *testing.T) {
				dir := t.TempDir()
				store := filepath.Join(dir, "history.db")
				if engine == "PostgreSQL" {
					store = postgres.Database(t)
				}
				run := func(text, night, repeat string) (orchestrator.Exit, string) {
					status, stdout, stderr := candela(t, "run", writeTest(t, text), "--out", dir, "--history", store, "--night",
						night, "--repeat", repeat, "--report", "none")
					return status, strings.Join(strings.Fields(stdout), " ") + stderr
				}
				if status, out := run(tt.text, "2026-11-01", "4"); status != orchestrator.ExitPass {
					t.Fatalf("the baseline: exit status %d: %s", status, out)
				}
				if status, out := run(tt.text, "2026-11-02", "1"); status != orchestrator.ExitPass ||
					strings.Contains(out, "not judged") {
					t.Errorf("an equal run: exit status %d: %s", status, out)
				}
				worse := strings.Replace(tt.text, tt.from, tt.to, 1)
				status, out := run(worse, "2026-11-03", "1")
				if status != orchestrator.ExitFail {
					t.Errorf("exit status %d: %s", status, out)
				}
				for _, key := range tt.fails {
					if !strings.Contains(out, "expect."+key+":") {
						t.Errorf("%s does not fail: %s", key, out)
					}
				}
				if failed := strings.Count(out, "the limit is"); failed != len(tt.fails) {
					t.Errorf("%d limits fail, want %d: %s", failed, len(tt.fails), out)
				}
				again(t, dir)
			})
		}
	}
}

// again analyses the run that failed once more: the verdict stands, as the directory has the runs of the baseline.
func again(t *testing.T, dir string) {
	t.Helper()
	runs, err := filepath.Glob(filepath.Join(dir, "compared*"))
	if err != nil || len(runs) == 0 {
		t.Fatal(err, runs)
	}
	failed := 0
	for _, run := range runs {
		before, err := history.ReadDir(run)
		if err != nil {
			t.Fatal(err)
		}
		status, stdout, stderr := candela(t, "analyze", run)
		if want := orchestrator.Exit(before.Verdict); status != want {
			t.Errorf("%s: exit status %d, in the run %d: %s%s", run, status, want, stdout, stderr)
		}
		if status == orchestrator.ExitFail {
			failed++
		}
	}
	if failed != 1 {
		t.Errorf("%d of %v fail, want 1", failed, runs)
	}
}

// TestEveryMetricOfTheStoreCanBeCompared holds the metrics that runs leave in the store against the keys of tests.
func TestEveryMetricOfTheStoreCanBeCompared(t *testing.T) {
	const nic = "name: x\ntraffic: {message-size: 1024}\n"
	seen := make(map[string]bool)
	for _, file := range []string{"ecn-cnp.yml", "trim.yml", "retry-exhausted.yml", "send-rnr.yml", "dcqcn.yml",
		"switch-incast-ndp.yml", "switch-queries.yml", "switch-dctcp.yml", "switch-fct.yml", "sai-trimming/sonic-13-counters.yml",
		"rank/pieo.yml", "aqm/a-9.yml", "fair/e4.yml", "lock/first.yml"} {
		path := filepath.Join("../../configs", file)
		text, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		dir := t.TempDir()
		args := []string{"run", path, "--out", dir, "--report", "none"}
		if strings.Contains(string(text), "\nsweep:") {
			args = append(args, "--point", "1")
		}
		if status, stdout, stderr := candela(t, args...); status != orchestrator.ExitPass {
			t.Fatalf("%s: exit status %d: %s%s", file, status, stdout, stderr)
		}
		dirs, err := history.Runs([]string{dir})
		if err != nil {
			t.Fatal(err)
		}
		run, err := history.ReadDir(dirs[0])
		if err != nil || len(run.Metrics) == 0 {
			t.Fatalf("%s: %v, metrics %v", file, err, run.Metrics)
		}
		for _, m := range run.Metrics {
			if seen[m.Name] {
				continue
			}
			seen[m.Name] = true
			test := nic
			if config.IsSwitchTest(text) {
				test = "name: x\ntopology: {kind: single-switch, hosts: 3}\nswitch-under-test: {model: droptail}\nworkload: [{incast: {senders: 2, bytes: 9000}}]\n"
			}
			if !slices.ContainsFunc(keysOf(m.Name), func(key string) bool { return checks(t, test, key) }) {
				t.Errorf("%s: no key of expect is about metric %s (%s)", file, m.Name, m.Unit)
			}
		}
	}
	if len(seen) < 60 {
		t.Errorf("%d metrics were seen: the runs are too few", len(seen))
	}
}

// keysOf returns the keys that a metric may have in tests, with a limit.
func keysOf(metric string) (keys []string) {
	for _, name := range []string{metric, metric + "-us", metric + "-gbps"} {
		keys = append(keys, name+": {max: +5 %}", name+": {max: -5 %}")
	}
	for prefix, key := range map[string]string{"retrans.timeout.retry-": "retrans.timeout.retry-us",
		"flows.fct-": "flows.fct-by-size-us", "flows.slowdown-permille-": "flows.slowdown-permille-by-size",
		"counters.requester.": "counters.requester", "counters.responder.": "counters.responder"} {
		if part, ok := strings.CutPrefix(metric, prefix); ok {
			keys = append(keys, fmt.Sprintf("%s: {%s: {max: +5 %%}}", key, part))
		}
	}
	return keys
}

// checks reports whether a test with this limit is valid.
func checks(t *testing.T, test, limit string) bool {
	t.Helper()
	status, _, _ := candela(t, "config", "check", writeTest(t, test+"expect: {baseline: last-green, "+limit+"}\n"))
	return status == orchestrator.ExitPass
}
