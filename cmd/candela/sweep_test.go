package main

import (
	"encoding/json"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"candela.dev/candela/orchestrator"
)

const sweepOfThree = `name: three
traffic:
  message-size: 10240
  min-retransmit-timeout: 8
  data-pkt-events: [{qpn: 1, psn: 5, type: drop}]
sweep: {'traffic.data-pkt-events[0].psn': [3, 7, last]}
`

func writeTest(t *testing.T, text string) string {
	t.Helper()
	file := filepath.Join(t.TempDir(), "test.yml")
	if err := os.WriteFile(file, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
	return file
}

func readSweep(t *testing.T, dir string) orchestrator.Sweep {
	t.Helper()
	data, err := os.ReadFile(filepath.Join(dir, "sweep.json"))
	if err != nil {
		t.Fatal(err)
	}
	var s orchestrator.Sweep
	if err := json.Unmarshal(data, &s); err != nil {
		t.Fatal(err)
	}
	return s
}

func TestASweepRunsEveryPointAndEndsInOneTable(t *testing.T) {
	out := t.TempDir()
	status, stdout, stderr := candela(t, "run", writeTest(t, sweepOfThree), "--out", out)
	if status != orchestrator.ExitPass || stderr != "" {
		t.Fatalf("exit status %d\n%s%s", status, stdout, stderr)
	}
	for _, want := range []string{"point  psn", "3 runs: 3 pass, 0 fail, 0 invalid", "mean MCT"} {
		if !strings.Contains(stdout, want) {
			t.Errorf("the table lacks %q:\n%s", want, stdout)
		}
	}
	s := readSweep(t, filepath.Join(out, "three"))
	if s.Schema != orchestrator.SweepSchema || len(s.Runs) != 3 || s.Points != 3 {
		t.Fatalf("sweep.json: %+v", s)
	}
	for i, run := range s.Runs {
		m := run.Metrics
		tail := i == 2
		if (m.NackGeneration == nil) != tail || (m.Timeout != nil) != tail || m.Completion == nil ||
			run.Exit != orchestrator.ExitPass {
			t.Errorf("point %d: %+v", i+1, run)
		}
		if _, err := os.Stat(filepath.Join(out, "three", run.Dir, "run.json")); err != nil {
			t.Error(err)
		}
	}
	if a, b := s.Runs[0].Values[0].Value, s.Runs[2].Values[0].Value; a != 3.0 || b != "last" {
		t.Errorf("values are %v and %v, want 3 and last", a, b)
	}
}

func TestAPointRunsAloneAsItDidInTheSweep(t *testing.T) {
	out, file := t.TempDir(), writeTest(t, sweepOfThree)
	candela(t, "run", file, "--out", out)
	status, stdout, stderr := candela(t, "run", file, "--out", out, "--point", "2")
	if status != orchestrator.ExitPass {
		t.Fatalf("exit status %d\n%s%s", status, stdout, stderr)
	}
	all, one := readSweep(t, filepath.Join(out, "three")), readSweep(t, filepath.Join(out, "three-2"))
	if diff := cmp.Diff(all.Runs[1], one.Runs[0]); diff != "" {
		t.Errorf("(-in the sweep +alone)\n%s", diff)
	}
	status, stdout, _ = candela(t, "run", filepath.Join(out, "three", "p2", "config.yml"), "--out", out, "--format",
		"json")
	if status != orchestrator.ExitPass || stdout == "" {
		t.Errorf("the point's config.yml: exit status %d\n%s", status, stdout)
	}
}

func TestSweepsPrintOneJSONObjectARunAndThenTheSweep(t *testing.T) {
	_, stdout, _ := candela(t, "run", writeTest(t, sweepOfThree), "--out", t.TempDir(), "--format", "json")
	var schemas []string
	for dec := json.NewDecoder(strings.NewReader(stdout)); ; {
		var doc struct {
			Schema string `json:"schema"`
			Name   string `json:"name"`
		}
		if err := dec.Decode(&doc); err == io.EOF {
			break
		} else if err != nil {
			t.Fatal(err)
		}
		schemas = append(schemas, doc.Schema+" "+doc.Name)
	}
	want := []string{
		orchestrator.OutcomeSchema + " three [psn=3]", orchestrator.OutcomeSchema + " three [psn=7]",
		orchestrator.OutcomeSchema + " three [psn=last]", orchestrator.SweepSchema + " three",
	}
	if diff := cmp.Diff(want, schemas); diff != "" {
		t.Errorf("(-want +got)\n%s", diff)
	}
}

func TestWrongPointsAreRefused(t *testing.T) {
	for _, tt := range []struct {
		text, point, want string
	}{
		{sweepOfThree, "4", "has points 1 to 3"},
		{sweepOfThree, "0", "has points 1 to 3"},
		{"name: x\ntraffic: {}\n", "1", "has no sweep"},
		{"name: x\ntraffic: {}\nsweep: {traffic.mtu: [256, 257]}\n", "1", "at point 2 of 2: mtu=257"},
	} {
		status, _, stderr := candela(t, "run", writeTest(t, tt.text), "--out", t.TempDir(), "--point", tt.point)
		if status != orchestrator.ExitUsage || !strings.Contains(stderr, tt.want) {
			t.Errorf("--point %s: exit status %d, %s; want %s", tt.point, status, stderr, tt.want)
		}
	}
}
