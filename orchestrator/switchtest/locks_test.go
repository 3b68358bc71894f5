package switchtest_test

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"candela.dev/candela/orchestrator"
	"candela.dev/candela/orchestrator/config"
	"candela.dev/candela/orchestrator/switchtest"
)

// counters returns what a run has counted.
func counters(t *testing.T, o *orchestrator.Outcome) map[string]int64 {
	t.Helper()
	var doc struct{ Counters map[string]int64 }
	data, err := os.ReadFile(filepath.Join(o.Dir, "switch-counters.json"))
	if err == nil {
		err = json.Unmarshal(data, &doc)
	}
	if err != nil {
		t.Fatal(err)
	}
	return doc.Counters
}

const lockStar = `
topology: {kind: single-switch, hosts: 6, link: {gbps: 40, delay-ns: 100, framing-bytes: 24}}
hosts: {transport: netlock, host-delay-ns: 2000, host-jitter-ns: 500}
`

// Locks in the switch are granted by it, the others by their server; requests that find no slot wait at the server and
// come back. Every transaction ends, and every client gets each lock once.
func TestLocksAreGrantedBySwitchOrServer(t *testing.T) {
	for _, c := range []struct {
		what, model                 string
		bySwitch, byServer, buffers bool
	}{
		{"all in the switch", "locks: 20", true, false, false},
		{"none", "locks: 0", false, true, false},
		{"half", "locks: 10", true, true, false},
		{"one slot each", "locks: 20, slots-each: 1", true, false, true},
		{"the listing alone", "locks: 20, processing: listing", true, false, false},
	} {
		t.Run(c.what, func(t *testing.T) {
			t.Parallel()
			test := parse(t, lockStar+"switch-under-test: {model: netlock, "+c.model+`}
workload: [{locks: {clients: 0..4, servers: 5, threads: 4, locks: 20, shared: 0.5, count: 50, timeout-us: 100000}}]
taps: {capture: true}
`)[0]
			o := run(t, test)
			if o.Verdict.Exit != orchestrator.ExitPass {
				t.Fatal(o.Verdict)
			}
			n := counters(t, o)
			sum := func(name string) (total int64) {
				for host := range 5 {
					total += n[fmt.Sprintf("host-%d.locks.%s", host, name)]
				}
				return total
			}
			const want = 5 * 4 * 50
			switched, served := sum("granted-by-switch"), sum("granted-by-server")
			if switched+served != want || sum("transactions") != want || sum("expired") != 0 {
				t.Errorf("%d + %d grants, %d transactions, %d expired; want %d grants and transactions", switched, served,
					sum("transactions"), sum("expired"), want)
			}
			if (switched > 0) != c.bySwitch || (served > 0) != c.byServer ||
				(n["switch.lock-buffered"] > 0) != c.buffers || n["switch.lock-buffered"] != n["switch.lock-pushed-back"] {
				t.Errorf("%d grants by the switch, %d by the server, %d requests buffered, %d pushed back", switched, served,
					n["switch.lock-buffered"], n["switch.lock-pushed-back"])
			}
		})
	}
}

// A thread whose client dies never ends, and whoever wants its lock waits.
func TestADeadClientKeepsItsLock(t *testing.T) {
	test := parse(t, lockStar+`
switch-under-test: {model: netlock, locks: 1}
workload:
  - locks: {clients: 0, servers: 5, locks: 1, think-us: 100, kill-us: 50, count: 1}
  - locks: {clients: 1, servers: 5, locks: 1, count: 1, start-us: 20}
duration-us: 3000
expect: {unfinished: 2}
`)[0]
	o := run(t, test)
	if o.Verdict.Exit != orchestrator.ExitPass {
		t.Fatal(o.Verdict)
	}
	if n := counters(t, o); n["host-1.locks.expired"] < 4 || n["host-1.locks.transactions"] != 0 {
		t.Errorf("%d expired, %d transactions", n["host-1.locks.expired"], n["host-1.locks.transactions"])
	}
}

// BenchmarkLockRequests measures what a lock request costs with all that belongs to it: 12 clients with locks of their
// own at one switch.
func BenchmarkLockRequests(b *testing.B) {
	const threads = 12 * 16
	tests, err := config.ParseSwitchTests("f.yml", fmt.Appendf(nil, `
name: locks
topology: {kind: single-switch, hosts: 13, link: {gbps: 40, delay-ns: 1000, framing-bytes: 24}}
switch-under-test: {model: netlock, locks: 55000}
hosts: {transport: netlock}
workload: [{locks: {clients: 0..11, servers: 12, threads: 16, locks: 55000, sets: own, count: %d}}]
judge: off
queue-statistics: off
expect: {unfinished: 0}
`, max(1, b.N/threads)), configOptions())
	if err != nil {
		b.Fatal(err)
	}
	p, err := switchtest.New(tests[0])
	if err != nil {
		b.Fatal(err)
	}
	b.ResetTimer()
	o, err := switchtest.Run(b.Context(), p, unwritten())
	if err != nil || o.Verdict.Exit != orchestrator.ExitPass {
		b.Fatal(o.Verdict, err)
	}
}
