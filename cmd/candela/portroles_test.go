package main

import (
	"fmt"
	"path/filepath"
	"slices"
	"testing"

	"candela.dev/candela/orchestrator"
	"candela.dev/candela/orchestrator/history"
)

// A switch whose ports take more than their room is found at each port that is full. Findings at ports of two roles are
// two; hosts that change their places have ports with other numbers and the same findings.
func TestFindingsAreRecognisedByTheRoleOfThePort(t *testing.T) {
	dir := t.TempDir()
	store := filepath.Join(dir, "history.db")
	run := func(night string, flows ...[2]int) (ids, roles []string) {
		t.Helper()
		text := "name: ports\ntopology: {kind: leaf-spine, hosts-per-leaf: 4, leaves: 2, spines: 1, link: {gbps: 10}, " +
			"trunk: {gbps: 10}}\nswitch-under-test: {model: tail-shallow, port-buffer-bytes: 30000, bugs: [overfills-port]}\n" +
			"hosts: {transport: raw}\nworkload:\n"
		for _, f := range flows {
			text += fmt.Sprintf("  - flow: {src: %d, dst: %d, rate-gbps: 7, packets: 300}\n", f[0], f[1])
		}
		status, stdout, stderr := candela(t, "run", writeTest(t, text), "--out", dir, "--history", store, "--night", night,
			"--report", "none")
		if status != orchestrator.ExitFail {
			t.Fatalf("exit status %d: %s%s", status, stdout, stderr)
		}
		s, err := history.OpenExisting(t.Context(), store)
		if err != nil {
			t.Fatal(err)
		}
		defer func() {
			if err := s.Close(); err != nil {
				t.Error(err)
			}
		}()
		list, err := s.List(t.Context(), history.Filter{Limit: 1})
		if err != nil || len(list) != 1 {
			t.Fatal(list, err)
		}
		shown, err := s.Show(t.Context(), list[0].ID)
		if err != nil {
			t.Fatal(err)
		}
		for _, f := range shown.Findings {
			ids, roles = append(ids, f.ID+" "+f.Rule), append(roles, f.Role)
		}
		slices.Sort(ids)
		slices.Sort(roles)
		return slices.Compact(ids), slices.Compact(roles)
	}
	// Two flows fill the trunk of a leaf switch, two others the port of their receiver at the other.
	before, roles := run("2026-11-01", [2]int{0, 4}, [2]int{1, 5}, [2]int{6, 7}, [2]int{4, 7})
	if want := []string{"switch leaf, port to incast receiver", "switch leaf, trunk to spine"}; !slices.Equal(roles, want) {
		t.Errorf("roles %q, want %q", roles, want)
	}
	if len(before) != 2 {
		t.Errorf("findings %q, want two", before)
	}
	after, _ := run("2026-11-02", [2]int{5, 1}, [2]int{6, 2}, [2]int{2, 0}, [2]int{3, 0})
	if !slices.Equal(before, after) {
		t.Errorf("at other ports %q, before %q", after, before)
	}
	if fewer, _ := run("2026-11-03", [2]int{2, 0}, [2]int{3, 0}); len(fewer) != 1 || !slices.Contains(before, fewer[0]) {
		t.Errorf("at one of them %q, before %q", fewer, before)
	}
}
