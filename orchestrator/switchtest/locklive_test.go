package switchtest_test

import (
	"os"
	"slices"
	"strings"
	"testing"

	"candela.dev/candela/analyzers"
	"candela.dev/candela/generator/parameter"
	"candela.dev/candela/orchestrator"
	"candela.dev/candela/testbeds/switches/lock"
)

const liveLocks = "../../configs/lock/live.yml"

// Clients and a lock server with UDP sockets of their kernels, in real time, are never a reason to blame a correct
// switch, whatever the machine's scheduler does to them.
func TestLocksOnRealFramesAreJudgedWithoutFalseAlarms(t *testing.T) {
	runs := uint64(30)
	if needsRealFrames(t) {
		runs = 3
	}
	for seed := range runs {
		out := runsLive(t, load(t, liveLocks)[0].WithSeed(seed+1))
		if v := out.Verdict; v.Exit != orchestrator.ExitPass {
			t.Errorf("seed %d: exit status %d: %s", seed+1, v.Exit, strings.Join(v.Reasons, "; "))
		}
		for _, what := range []string{"grants-switch", "grants-server", "buffered", "pushed-back", "orders", "delays"} {
			if out.Analysis.Coverage["lock"][what] == 0 {
				t.Errorf("seed %d: nothing was seen of %s: %v", seed+1, what, out.Analysis.Coverage["lock"])
			}
		}
	}
}

// What the test of liveLocks does not do, and switches with bugs get wrong.
const (
	liveClients   = "locks: {clients: 0..3, servers: 4, threads: 4, locks: 6, shared: 0.5, count: 60, think-us: 1000, "
	resending     = liveClients + "on-timeout: resend, "
	twoPriorities = liveClients + "priority: 2, timeout-us: 250000}\n  - " + liveClients + "priority: 1, "
)

// Seeded bugs of every main rule are found from the packets of real sockets. Those that need a lost push request or a
// rare order (never-repeats, double-push-back, priority-ignored, quota-shared) are left to simulations.
func TestLockSwitchesWithBugsAreConvictedOnRealFrames(t *testing.T) {
	sampled := needsRealFrames(t)
	family := lock.Family()
	model, ok := family.Model("netlock")
	if !ok {
		t.Fatal("there is no model netlock")
	}
	for _, tt := range []struct {
		bugs  string
		swaps []string
	}{
		{"grants-shared-beside-exclusive grants-twice loses-tail", nil}, // what CI judges: N1, N2, N3
		{"never-expires", nil}, // and N12
		{"forgets-over chain-skips-one newest-first overtakes-exclusive overflow-overtakes push-while-busy buffers-early " +
			"aliases expires-early", nil},
		{"ignores-tid no-dedup",
			[]string{"lease-us: 60000, poll-us: 5000}", "lease-us: 60000, poll-us: 5000, loss: 0.02, duplicates: 0.1}",
				liveClients, resending}},
		{"lowest-first", []string{"locks: 4,", "locks: 4, priorities: 2,", liveClients, twoPriorities}},
		{"quota-off-by-one", []string{"locks: 4,", "locks: 4, quota: 20, quota-us: 50000, tenants: 4,",
			liveClients, liveClients + "tenant: 1, ", "kill-us", "tenant: 2, kill-us"}},
		{"queues-query answers-both", []string{"hosts: 5,", "hosts: 6,", "locks: 4,", "locks: 4, databases: 5,",
			liveClients, liveClients + "databases: 5, queries: on, ", "kill-us", "databases: 5, queries: on, kill-us"}},
		{"grants-before-lease", []string{"duration-us: 2000000",
			"duration-us: 2000000\nchanges: [{at-us: 90000, state: stopped}, {at-us: 95000, state: running}]"}},
	} {
		checked := tt.swaps == nil // with the test as it is: see the other test
		for bug := range strings.FieldsSeq(tt.bugs) {
			if sampled && tt.swaps == nil && len(strings.Fields(tt.bugs)) > 3 || sampled && tt.swaps != nil {
				continue
			}
			i := slices.IndexFunc(model.Bugs, func(b parameter.Bug) bool { return b.Name == bug })
			if i < 0 {
				t.Fatalf("there is no bug %s", bug)
			}
			t.Run(bug, func(t *testing.T) {
				text, err := os.ReadFile(liveLocks)
				if err != nil {
					t.Fatal(err)
				}
				swapped := strings.Replace(string(text), "name: lock-live\n", "", 1)
				for i := 0; i < len(tt.swaps); i += 2 {
					if !strings.Contains(swapped, tt.swaps[i]) {
						t.Fatalf("%s has no %q", liveLocks, tt.swaps[i])
					}
					swapped = strings.Replace(swapped, tt.swaps[i], tt.swaps[i+1], 1)
				}
				if !checked {
					checked = true
					passesLive(t, parse(t, swapped)[0])
				}
				test := parse(t, swapped)[0]
				test.Switch.Bugs = []string{bug}
				out := runsLive(t, test)
				if out.Verdict.Exit != orchestrator.ExitFail || !slices.ContainsFunc(out.Analysis.Findings,
					func(f analyzers.Finding) bool { return f.Rule == model.Bugs[i].Rule }) {
					t.Errorf("verdict %v, want a violation of %s", out.Verdict, model.Bugs[i].Rule)
				}
			})
		}
	}
}
