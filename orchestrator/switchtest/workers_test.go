package switchtest_test

import (
	"bytes"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"candela.dev/candela/orchestrator"
	"candela.dev/candela/orchestrator/config"
	"candela.dev/candela/orchestrator/switchtest"
)

// parallelTests are tests of all transports, kinds of traffic, judgements and families. With several workers every link
// may be cut.
var parallelTests = []struct{ name, text string }{
	{"NDP incast, judged", `
topology: {kind: leaf-spine, leaves: 3, spines: 2, hosts-per-leaf: 4, routing: spray}
switch-under-test: {model: ndp-ideal, data-queue-bytes: 6000, header-queue-bytes: 640}
hosts: {transport: ndp, rto-us: 30}
workload: [incast: {senders: 11, packets: 20}, permutation: {bytes: 40001, start-us: 5}]
taps: {capture: true}
`},
	{"NDP, poisson, off", `
topology: {kind: leaf-spine, leaves: 3, spines: 2, hosts-per-leaf: 4, link: {gbps: 10}}
switch-under-test: {model: ndp-ideal, data-queue-bytes: 12000}
hosts: {transport: ndp}
workload: [poisson: {load: 0.5, stop-us: 1000, sizes: web-search, form: discrete, truncate: 0.5}]
judge: off
expect: {unfinished: {min: 0}}
series-us: 50
`},
	{"TCP, poisson, sampled", `
topology: {kind: leaf-spine, leaves: 3, spines: 2, hosts-per-leaf: 4, link: {gbps: 10}}
switch-under-test: {model: droptail, data-queue-bytes: 30000}
hosts: {transport: tcp, min-rto-us: 1000, send-jitter-us: 1}
workload: [poisson: {load: 0.5, stop-us: 1000, sizes: web-search, form: discrete, truncate: 0.5}]
judge: {flows: 0.3, ports: [leaf-0, spine-1.port-0]}
`},
	{"TCP, incast and requests, judged", `
topology: {kind: dumbbell, hosts: 8}
switch-under-test: {model: droptail, data-queue-bytes: 20000, ecn-min-bytes: 3000, ecn-max-bytes: 9000}
hosts: {transport: tcp, min-rto-us: 500, congestion-control: reno}
workload:
- incast: {senders: 7, bytes: 50000}
- requests: {clients: 1..7, server: 0, count: 5, request-bytes: 4000, response-bytes: 9000, service-us: 3}
`},
	{"requests over NDP, off", `
topology: {kind: fat-tree, k: 4, routing: ecmp}
switch-under-test: {model: tofino}
hosts: {transport: ndp}
workload:
- requests: {clients: 1..15, server: 0, count: 9, request-bytes: 4000, response-bytes: 9000, service-us: 3}
judge: off
expect: {unfinished: 0}
`},
	{"raw and echo, off", `
topology: {kind: leaf-spine, leaves: 2, spines: 2, hosts-per-leaf: 3}
switch-under-test: {model: sfc, data-queue-bytes: 9000, threshold-bytes: 4000}
hosts: {transport: raw}
workload: [incast: {senders: 5, packets: 30}, ping: {src: 1, dst: 5, count: 9}, ping: {src: 5, dst: 0, count: 9}]
judge: off
expect: {unfinished: {min: 0}}
`},
	{"raw and echo, judged", `
topology: {kind: single-switch, hosts: 7}
switch-under-test: {model: mod, data-queue-bytes: 9000, to-sender: true}
hosts: {transport: raw}
workload: [incast: {senders: 6, packets: 30}, ping: {src: 1, dst: 5, count: 9}, ping: {src: 5, dst: 0, count: 9}]
series-us: 2
`},
	{"SAI with decisions, changes and bugs", `
topology: {kind: leaf-spine, leaves: 2, spines: 1, hosts-per-leaf: 3}
switch-under-test: {model: sai, trim-queue: 7, profiles: [{queues: [0], action: trim, limit-bytes: 9000}],
  bugs: [duplicates-headers]}
hosts: {transport: ndp}
workload: [incast: {senders: 5, packets: 60}]
changes: [{at-us: 9, set: {trim-size: 200}}]
taps: {decisions: csv}
`},
	{"a restart", `
topology: {kind: fat-tree, k: 4, routing: spray-round-robin}
switch-under-test: {model: tofino2}
hosts: {transport: ndp, rto-us: 100}
workload: [permutation: {packets: 40}]
changes: [{at-us: 20, switch: 3, state: stopped}, {at-us: 60, switch: 3, state: running}]
`},
	{"NICs, PFC and guilty hosts", `
topology: {kind: leaf-spine, leaves: 2, spines: 2, hosts-per-leaf: 3}
switch-under-test: {model: droptail, pfc-classes: [0], pfc-xoff-bytes: 9000}
hosts: {transport: ndp, bugs: [forgets-nack], nic: {model: ndp-ideal, data-queue-bytes: 9000}}
workload: [incast: {senders: 5, packets: 60}]
`},
	{"guilty TCP hosts", `
topology: {kind: dumbbell, hosts: 6}
switch-under-test: {model: droptail, data-queue-bytes: 20000}
hosts: {transport: tcp, bugs: [acks-beyond], min-rto-us: 500}
workload: [incast: {senders: 5, bytes: 90000}]
judge: {flows: 0.5}
`},
}

// A run directory does not depend on the number of workers.
func TestWorkersChangeNoByteOfARun(t *testing.T) {
	for _, c := range parallelTests {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			counts := []int{2, 3, 7}
			if testing.Short() {
				counts = []int{3}
			}
			test := parse(t, c.text)[0]
			want, _ := written(t, test, 1)
			for _, count := range counts {
				got, divided := written(t, test, count)
				sameFiles(t, c.name, count, want, got)
				if !divided && test.Topology.HostCount() > 2*count {
					t.Errorf("%d workers: the network is not divided", count)
				}
			}
		})
	}
}

// sameFiles compares the files of a run with those of a run of one worker.
func sameFiles(t testing.TB, name string, workers int, want, got map[string][]byte) {
	t.Helper()
	if len(got) != len(want) || len(want) < 8 {
		t.Errorf("%s, %d workers: %d files, want %d", name, workers, len(got), len(want))
	}
	for file := range want {
		if !bytes.Equal(want[file], got[file]) {
			t.Errorf("%s, %d workers: %s differs:\n%s", name, workers, file, firstDifference(want[file], got[file]))
		}
	}
}

// firstDifference returns the first lines that differ.
func firstDifference(a, b []byte) string {
	x, y := strings.Split(string(a), "\n"), strings.Split(string(b), "\n")
	for i := range min(len(x), len(y)) {
		if x[i] != y[i] {
			return fmt.Sprintf("line %d\n%.300q\n%.300q", i+1, x[i], y[i])
		}
	}
	return fmt.Sprintf("%d and %d lines", len(x), len(y))
}

// written runs a test with a number of workers and returns the files that it wrote but for the log, which says whether
// the network was divided.
func written(t testing.TB, test *config.SwitchTest, workers int) (files map[string][]byte, divided bool) {
	t.Helper()
	p, err := switchtest.New(test)
	if err != nil {
		t.Fatal(err)
	}
	p.Spec.Forced = true
	o := options(t.TempDir())
	o.NoReports = false
	o.Workers = workers
	out, err := switchtest.Run(t.Context(), p, o)
	if err != nil {
		t.Fatal(err)
	}
	files = make(map[string][]byte)
	err = filepath.WalkDir(out.Dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		data, err := os.ReadFile(path)
		name, _ := filepath.Rel(out.Dir, path)
		files[name] = bytes.ReplaceAll(data, []byte(out.Dir), nil)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	log := string(files["log.jsonl"])
	delete(files, "log.jsonl")
	divided = strings.Contains(log, `"windows":`) && !strings.Contains(log, `"windows":0`)
	alone := strings.Contains(log, `"workers":1,"workers_why":"`)
	if workers > 1 && divided == alone || workers == 1 && (divided || alone) {
		t.Errorf("%d workers: %s", workers, log)
	}
	if out.Verdict.Exit == orchestrator.ExitInfrastructure || out.Verdict.Exit == orchestrator.ExitInvalid {
		t.Errorf("%+v", out.Verdict)
	}
	if guilty := len(test.Hosts.Bugs)+len(test.Switch.Bugs) > 0; guilty && len(out.Analysis.Findings) == 0 {
		t.Error("nothing is found")
	}
	return files, divided
}

// Random networks of all models do not depend on the number of workers, whatever is judged. CANDELA_TEST_SILENCE draws
// more of them (make silence).
func TestWorkersChangeNoByteOfARandomNetwork(t *testing.T) {
	models := configOptions().Switches
	networks := seedsOfModel(t, 1)
	runs, divided := 0, 0
	for i := range networks * len(models) {
		d := newNetworkDraw(uint64(i/len(models)), uint64(200+i%len(models)))
		text := d.tcpNetwork(models[i%len(models)].Name)
		if d.one(2) {
			text = d.ndpNetwork(models[i%len(models)].Name, "10", "30", "200", "1000", "0")
		}
		text += d.of("", "", captured, "judge: {flows: 0.5, ports: 3}\n", "judge: off\nexpect: {unfinished: {min: 0}}\n")
		tests, err := config.ParseSwitchTests("f.yml", []byte("name: x\n"+text), configOptions())
		if err != nil {
			continue
		}
		if _, err := switchtest.New(tests[0]); err != nil {
			continue
		}
		workers := d.between(2, 7)
		want, _ := written(t, tests[0], 1)
		got, apart := written(t, tests[0], workers)
		sameFiles(t, text, workers, want, got)
		if runs++; apart {
			divided++
		}
	}
	if 2*runs < networks*len(models) {
		t.Errorf("%d of %d networks were refused", networks*len(models)-runs, networks*len(models))
	}
	if 4*divided < runs {
		t.Errorf("%d of %d networks were divided", divided, runs)
	}
	t.Logf("%d networks, %d divided", runs, divided)
}
