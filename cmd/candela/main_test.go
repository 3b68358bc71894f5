package main

import (
	"bytes"
	"context"
	"encoding/json"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"candela.dev/candela/analyzers"
	"candela.dev/candela/orchestrator"
	"candela.dev/candela/runtimetest"
)

// candela runs one command line as main does.
func candela(t *testing.T, args ...string) (status orchestrator.Exit, stdout, stderr string) {
	t.Helper()
	var out, errs bytes.Buffer
	status = run(t.Context(), args, &out, &errs)
	return status, out.String(), errs.String()
}

func examples(t *testing.T) []string {
	t.Helper()
	files, err := filepath.Glob("../../configs/*.yml")
	if err != nil || len(files) < 10 {
		t.Fatalf("found %d example configurations, want at least 10 (%v)", len(files), err)
	}
	return files
}

func TestEveryExamplePassesIsSilentAndGivesTheSameBytesAgain(t *testing.T) {
	for _, file := range examples(t) {
		t.Run(filepath.Base(file), func(t *testing.T) {
			t.Parallel()
			out := t.TempDir()
			status, stdout, stderr := candela(t, "run", file, "--out", out, "--format", "json")
			if status != orchestrator.ExitPass {
				t.Fatalf("exit status %d, want 0\n%s%s", status, stdout, stderr)
			}
			for _, f := range findingsOf(t, stdout) {
				if f.Severity != analyzers.Note && !toleratedFinding(file, f) {
					t.Errorf("%s %s on an unbroken NIC: %s", f.Severity, f.Rule, f.Message)
				}
			}
			if runtimetest.Race {
				return // the second run does as the first one
			}
			if diff := cmp.Diff(runFiles(t, out), directory(t, file, "--format", "json")); diff != "" {
				t.Errorf("two runs with one seed differ:\n%s", diff)
			}
		})
	}
}

// toleratedFinding reports whether a finding is the subject of an example.
func toleratedFinding(file string, f analyzers.Finding) bool {
	return filepath.Base(file) == "retry-exhausted.yml" && f.Rule == "gbn.incomplete" && f.Severity != analyzers.Violation
}

// findingsOf returns the findings of all runs in the output of candela run --format json.
func findingsOf(t *testing.T, outcomes string) []analyzers.Finding {
	t.Helper()
	var all []analyzers.Finding
	for dec := json.NewDecoder(strings.NewReader(outcomes)); dec.More(); {
		var doc struct {
			Schema   string
			Analysis *analyzers.Analysis
		}
		if err := dec.Decode(&doc); err != nil {
			t.Fatal(err)
		}
		if doc.Schema == orchestrator.OutcomeSchema {
			all = append(all, doc.Analysis.Findings...)
		}
	}
	return all
}

func TestAnotherSeedDrawsOtherNumbersAndFindsTheSame(t *testing.T) {
	file := "../../configs/broken/nack-plus-one.yml"
	first, second := directory(t, file, "--seed", "1"), directory(t, file, "--seed", "2")
	if first["connections.json"] == second["connections.json"] {
		t.Error("seeds 1 and 2 drew the same QPNs and IPSNs")
	}
	rules := func(files map[string]string) []string {
		var doc analyzers.Analysis
		if err := json.Unmarshal([]byte(files["analysis/gbn.json"]), &doc); err != nil {
			t.Fatal(err)
		}
		var list []string
		for _, f := range doc.Findings {
			list = append(list, f.Rule)
		}
		return list
	}
	if a, b := rules(first), rules(second); !slices.Equal(a, b) || len(a) == 0 {
		t.Errorf("seed 1 finds %v, seed 2 %v; want the same, and something", a, b)
	}
}

// directory runs a test and returns the files of its run directory by name, without wall-clock data.
func directory(t *testing.T, file string, args ...string) map[string]string {
	t.Helper()
	out := t.TempDir()
	candela(t, append([]string{"run", file, "--out", out}, args...)...)
	return runFiles(t, out)
}

// runFiles returns the files of the only run directory in out by name, without wall-clock data.
func runFiles(t *testing.T, out string) map[string]string {
	t.Helper()
	dirs, err := os.ReadDir(out)
	if err != nil || len(dirs) != 1 {
		t.Fatalf("%d run directories, want 1 (%v)", len(dirs), err)
	}
	root := filepath.Join(out, dirs[0].Name())
	files := map[string]string{}
	err = filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		data, err := os.ReadFile(path)
		name, _ := filepath.Rel(root, path)
		files[name] = strings.ReplaceAll(withoutTimes(t, name, data), out, "OUT")
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return files
}

func withoutTimes(t *testing.T, name string, data []byte) string {
	t.Helper()
	switch filepath.Base(name) {
	case "run.json":
	case "log.jsonl":
		return regexp.MustCompile(`"time":"[^"]*"`).ReplaceAllString(string(data), "")
	default:
		return string(data)
	}
	var doc map[string]any
	if err := json.Unmarshal(data, &doc); err != nil {
		t.Fatal(err)
	}
	for _, key := range []string{"started", "finished", "run_id"} { // which is made of the start, too
		if _, ok := doc[key]; !ok {
			t.Errorf("run.json has no %q", key)
		}
		delete(doc, key)
	}
	text, err := json.Marshal(doc)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

func TestRunDirectoryCanBeRejudged(t *testing.T) {
	for _, tc := range []struct {
		file string
		want orchestrator.Exit
	}{
		{"../../configs/lumina-listing-5-2.yml", orchestrator.ExitPass},
		{"../../configs/retry-exhausted.yml", orchestrator.ExitPass},
		{"../../configs/broken/nack-plus-one.yml", orchestrator.ExitFail},
		{"../../configs/broken/slow-dumper.yml", orchestrator.ExitInvalid},
		{"../../configs/broken/small-buffer.yml", orchestrator.ExitInvalid},
	} {
		t.Run(filepath.Base(tc.file), func(t *testing.T) {
			t.Parallel()
			out := t.TempDir()
			status, stdout, stderr := candela(t, "run", tc.file, "--out", out)
			if status != tc.want {
				t.Fatalf("run: exit status %d, want %d\n%s%s", status, tc.want, stdout, stderr)
			}
			dirs, err := os.ReadDir(out)
			if err != nil || len(dirs) != 1 {
				t.Fatalf("%d run directories, want 1 (%v)", len(dirs), err)
			}
			second, stdout, stderr := candela(t, "analyze", filepath.Join(out, dirs[0].Name()))
			if second != tc.want {
				t.Errorf("analyze: exit status %d, want %d\n%s%s", second, tc.want, stdout, stderr)
			}
		})
	}
}

func TestSeededBugIsCaughtAndNamed(t *testing.T) {
	status, stdout, _ := candela(t, "run", "../../configs/broken/nack-plus-one.yml", "--out", t.TempDir())
	if status != orchestrator.ExitFail {
		t.Errorf("exit status %d, want %d", status, orchestrator.ExitFail)
	}
	for _, want := range []string{"gbn.nak-psn", "expected  nack psn 5", "actual    nack psn 6", "mirror #11"} {
		if !strings.Contains(stdout, want) {
			t.Errorf("the report does not say %q:\n%s", want, stdout)
		}
	}
}

func TestBadInputIsRefusedWithTheRightStatus(t *testing.T) {
	dir := t.TempDir()
	write := func(name, text string) string {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	runDir := filepath.Join(dir, "runs", "quickstart")
	if status, _, stderr := candela(t, "run", "../../configs/quickstart.yml", "--out",
		filepath.Join(dir, "runs")); status != 0 {
		t.Fatal(stderr)
	}
	pcap, err := os.ReadFile(filepath.Join(runDir, "trace.pcap"))
	if err != nil {
		t.Fatal(err)
	}
	shards, err := filepath.Glob(filepath.Join(runDir, "shards", "*.pcap"))
	if err != nil || len(shards) < 2 {
		t.Fatalf("shards: %v, %v", shards, err)
	}
	slices.SortFunc(shards, func(a, b string) int { return int(fileSize(t, b) - fileSize(t, a)) })
	for _, tc := range []struct {
		name   string
		args   []string
		status orchestrator.Exit
		says   string
	}{
		{"a misspelt key", []string{"run", write("k.yml", "name: x\ntrafic: {}\n")}, 2, "trafic"},
		{"a psn past the traffic", []string{"run", write("p.yml",
			"name: x\ntraffic:\n  data-pkt-events:\n    - {qpn: 1, psn: 999999, type: drop}\n")}, 2, "999999"},
		{"a file that is not there", []string{"run", filepath.Join(dir, "nowhere.yml")}, 2, "nowhere.yml"},
		{"an empty directory", []string{"run", t.TempDir()}, 2, "no .yml"},
		{"an unknown command", []string{"rum"}, 2, "did you mean run?"},
		{"an unknown command below another", []string{"trace", "shw"}, 2, "did you mean show?"},
		{"no test at all", []string{"run"}, 2, "usage: candela run FILE|DIR..."},
		{"one run of two", []string{"diff", dir}, 2, "usage: candela diff A B"},
		{"an argument to a command that takes none", []string{"version", "1"}, 2, "no argument"},
		{"an unknown flag", []string{"run", "--sed", "1"}, 2, "candela run --help lists the flags"},
		{"a word for a number", []string{"run", "--seed", "one"}, 2, `--seed "one": want a whole number`},
		{"a time without unit", []string{"fuzz", "--time", "3"}, 2, `--time "3": want a time with its unit`},
		{"no worker", []string{"run", "../../configs/quickstart.yml", "--workers", "0"}, 2, "--workers 0: want at least 1"},
		{"no repetition at all", []string{"run", "../../configs/quickstart.yml", "--repeat", "0"}, 2, "--repeat"},
		{"garbage for a trace", []string{"analyze", write("g.pcap", "this is no capture at all, not even nearly")}, 2,
			"g.pcap"},
		{"an empty trace", []string{"analyze", write("e.pcap", "")}, 2, "e.pcap"},
		{"a trace that ends in the middle of a packet", []string{"analyze", write("t.pcap", string(pcap[:len(pcap)-7]))}, 2,
			"t.pcap"},
		{"a directory that is no run", []string{"analyze", dir}, 2, "is not a run directory"},
		{"a missing shard", []string{"trace", "merge", shards[0], filepath.Join(dir, "gone.pcap"), "--out",
			filepath.Join(dir, "m.pcap")}, 2, "gone.pcap"},
		{"one shard of two", []string{"analyze", shards[0]}, 3, "sequence"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			status, stdout, stderr := candela(t, tc.args...)
			if status != tc.status || !strings.Contains(stdout+stderr, tc.says) {
				t.Errorf("exit status %d, want %d and a message with %q:\n%s%s", status, tc.status, tc.says, stdout, stderr)
			}
		})
	}
}

func TestEveryFlagSaysWhatItTakes(t *testing.T) {
	var walk func(c *cobra.Command)
	walk = func(c *cobra.Command) {
		c.Flags().VisitAll(func(f *pflag.Flag) {
			switch kind := f.Value.Type(); {
			case strings.HasPrefix(kind, "string"): // accepts any value
			case wanted(kind) == kind:
				t.Errorf("%s --%s: nothing describes the values of type %s", c.CommandPath(), f.Name, kind)
			}
		})
		for _, sub := range c.Commands() {
			walk(sub)
		}
	}
	walk(newRoot())
}

func fileSize(t *testing.T, path string) int64 {
	t.Helper()
	info, err := os.Stat(path)
	if err != nil {
		t.Fatal(err)
	}
	return info.Size()
}

func TestInterruptedRunKeepsWhatItHasAndSaysSo(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	out := t.TempDir()
	var stdout, stderr bytes.Buffer
	status := run(ctx, []string{"run", "../../configs/quickstart.yml", "--out", out}, &stdout, &stderr)
	if status != orchestrator.ExitInfrastructure {
		t.Errorf("exit status %d, want %d\n%s%s", status, orchestrator.ExitInfrastructure, &stdout, &stderr)
	}
	dirs, err := os.ReadDir(out)
	if err != nil || len(dirs) != 1 || !strings.HasSuffix(dirs[0].Name(), ".partial") {
		t.Fatalf("run directories %v (%v), want one that ends in .partial", dirs, err)
	}
	data, err := os.ReadFile(filepath.Join(out, dirs[0].Name(), "run.json"))
	if err != nil || !strings.Contains(string(data), `"complete": false`) {
		t.Errorf("run.json does not say that the run is incomplete (%v):\n%s", err, data)
	}
}

func TestUnfiredEventTurnsAPassIntoInvalidAndSaysWhy(t *testing.T) {
	file := filepath.Join(t.TempDir(), "unfired.yml")
	text := "name: unfired\ntraffic:\n  message-size: 10240\n  data-pkt-events:\n    - {qpn: 1, psn: 5, iter: 3, type: " +
		"drop}\n"
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	status, stdout, stderr := candela(t, "run", file, "--out", t.TempDir())
	if status != orchestrator.ExitInvalid || !strings.Contains(stdout, "psn 5 passed 1 times, at iter 1") {
		t.Errorf("exit status %d, want 3 and the reason:\n%s%s", status, stdout, stderr)
	}
}
