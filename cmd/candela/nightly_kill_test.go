package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"candela.dev/candela/orchestrator/history"
	"candela.dev/candela/orchestrator/nightly"
	"candela.dev/candela/runtimetest"
)

// nightlyProcess runs candela nightly as a process of its own and kills it after a time, 0: never. It returns what it
// printed, and whether it ended by itself.
func (l *nightLab) nightlyProcess(date string, kill time.Duration) (stdout []byte, ended bool) {
	l.t.Helper()
	var out, errs bytes.Buffer
	cmd := exec.Command(os.Args[0], "nightly", l.plan(), "--night", date, "--json")
	cmd.Stdout, cmd.Stderr = &out, &errs
	if err := cmd.Start(); err != nil {
		l.t.Fatal(err)
	}
	limit := 5 * time.Minute
	if kill > 0 {
		limit = kill
	}
	timer := time.AfterFunc(limit, func() { _ = cmd.Process.Kill() })
	err := cmd.Wait()
	killed := !timer.Stop()
	if killed && kill == 0 {
		l.t.Fatalf("the night did not end within %v\n%s", limit, errs.Bytes())
	}
	if err != nil && !killed {
		l.t.Fatalf("%v\n%s", err, errs.Bytes())
	}
	return out.Bytes(), !killed
}

// workersOf returns the processes of workers whose plan is in dir.
func workersOf(t *testing.T, dir string) (list []string) {
	t.Helper()
	names, err := filepath.Glob("/proc/[0-9]*/fd/2")
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range names {
		if to, err := os.Readlink(name); err == nil && strings.HasPrefix(to, dir+"/") {
			list = append(list, name)
		}
	}
	return list
}

// TestAKilledNightLosesNothing kills real processes of candela nightly at random instants and lets the night go on. At
// the end each repetition has one run, in the summary, in the journal and in the store, and no worker is left.
func TestAKilledNightLosesNothing(t *testing.T) {
	runtimetest.SkipRace(t)
	kills := 4
	if text := os.Getenv("CANDELA_KILLS"); text != "" {
		var err error
		if kills, err = strconv.Atoi(text); err != nil || kills < 1 {
			t.Fatalf("CANDELA_KILLS=%s: want a number from 1", text)
		}
	} else if testing.Short() {
		t.Skip("SKIP-short: go test without -short runs it")
	}
	good := strings.Replace(wrongPSN, "responder: {nic: {bugs: [nack-psn-plus-one]}}\n", "", 1)
	const repetitions = 8
	tests := make(map[string]string)
	for i := range 4 {
		name := fmt.Sprintf("kill-%d", i)
		tests[name+".yml"] = strings.NewReplacer("one-drop", name, "TC-1", "TC-"+strconv.Itoa(i)).Replace(good)
	}
	total := len(tests) * repetitions
	rng := rand.New(rand.NewPCG(22, 1))
	plan := fmt.Sprintf("name: lab\nsuites: [{path: suite}]\nrepetitions: %d\nretries: 0\n", repetitions)
	const date = "2026-11-20"
	began := time.Now()
	l := newNightLab(t, plan, tests)
	out, _ := l.nightlyProcess(date, 0)
	l.checkWhole(out, date, total)
	whole := time.Since(began)
	for done := 0; done < kills; {
		l := newNightLab(t, plan, tests)
		// A night that goes on lasts less than a whole one, so several kills in one night come sooner.
		for most := whole; ; most = max(most*2/3, 20*time.Millisecond) {
			limit := time.Duration(0)
			if done < kills {
				limit = 1 + time.Duration(rng.Int64N(int64(most)))
			}
			out, ended := l.nightlyProcess(date, limit)
			if saved, err := os.ReadFile(filepath.Join(l.dir, "nights/lab", date, "summary.json")); err == nil {
				out, ended = saved, true // killed after its last word
			}
			if ended {
				l.checkWhole(out, date, total)
				break
			}
			done++
		}
	}
}

// checkWhole compares the summary of a night with its journal, its directories and the store.
func (l *nightLab) checkWhole(out []byte, date string, total int) {
	l.t.Helper()
	var s nightly.Summary
	if err := json.Unmarshal(out, &s); err != nil {
		l.t.Fatalf("%v\n%s", err, out)
	}
	if s.Runs != total || len(s.Errors) > 0 {
		l.t.Errorf("the summary has %d runs, want %d; errors %v", s.Runs, total, s.Errors)
	}
	dir := filepath.Join(l.dir, "nights/lab", date)
	text, err := os.ReadFile(filepath.Join(dir, "journal.jsonl"))
	if err != nil {
		l.t.Fatal(err)
	}
	store, err := history.OpenExisting(l.t.Context(), filepath.Join(l.dir, "nights/history.db"))
	if err != nil {
		l.t.Fatal(err)
	}
	defer func() {
		if err := store.Close(); err != nil {
			l.t.Error(err)
		}
	}()
	seen := make(map[string]bool)
	for _, line := range strings.Split(strings.TrimSpace(string(text)), "\n")[1:] {
		var a nightly.Attempt
		if err := json.Unmarshal([]byte(line), &a); err != nil {
			l.t.Fatalf("%v: %s", err, line)
		}
		key := fmt.Sprintf("%s %d", a.Case, a.Repetition)
		if seen[key] || a.Verdict != history.Pass {
			l.t.Errorf("%s: twice, or no verdict: %+v", key, a)
		}
		seen[key] = true
		if r, err := store.Show(l.t.Context(), a.Run); err != nil || r.Verdict != history.Pass || len(r.Environment) == 0 {
			l.t.Errorf("run %s in the store: %+v, %v", a.Run, r, err)
		}
		if _, err := os.Stat(filepath.Join(a.Dir, "run.json")); err != nil {
			l.t.Error(err)
		}
	}
	list, err := store.List(l.t.Context(), history.Filter{})
	if err != nil || len(seen) != total || len(list) != total {
		l.t.Errorf("%d runs in the journal and %d in the store, want %d: %v", len(seen), len(list), total, err)
	}
	if left := workersOf(l.t, dir); len(left) > 0 {
		l.t.Errorf("workers are left: %v", left)
	}
}
