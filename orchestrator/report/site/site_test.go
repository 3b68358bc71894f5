package site

import (
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"candela.dev/candela/analyzers"
	"candela.dev/candela/orchestrator/report"
)

func example(name string, v analyzers.Verdict) *report.Report {
	r := &report.Report{Name: name, Testbed: "virtual", Seed: 7, Verdict: v, Packets: 10, SpanNS: 2000,
		Dir:         "runs/" + name,
		Connections: []report.Connection{{Index: 1, OK: true}}}
	if v == analyzers.Fail {
		r.Findings = []report.Finding{{Finding: analyzers.Finding{Rule: "gbn.nak-psn", Cause: "ahead", Connection: 1,
			Severity: analyzers.Violation, Headline: "Responder </script><script>alert(1)</script> sent a NAK."}}}
	}
	return r
}

// keep writes report.json into a run directory.
func keep(t *testing.T, dir string, r *report.Report) {
	t.Helper()
	var b strings.Builder
	if err := report.WriteDocument(&b, r); err != nil {
		t.Fatal(err)
	}
	put(t, filepath.Join(dir, report.DocumentFile), b.String())
}

func put(t *testing.T, path, text string) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(path), 0o777); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(text), 0o666); err != nil {
		t.Fatal(err)
	}
}

// tree returns all files below dir by name.
func tree(t *testing.T, dir string) map[string]string {
	t.Helper()
	files := map[string]string{}
	err := filepath.WalkDir(dir, func(path string, e fs.DirEntry, err error) error {
		if err != nil || e.IsDir() {
			return err
		}
		data, err := os.ReadFile(path)
		name, relErr := filepath.Rel(dir, path)
		if relErr != nil {
			return relErr
		}
		files[filepath.ToSlash(name)] = string(data)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return files
}

// runs makes a directory with two runs, a sweep of two points (one missing), an aborted run and a run of an older
// version.
func runs(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	keep(t, filepath.Join(dir, "a"), example("a", analyzers.Pass))
	keep(t, filepath.Join(dir, "nightly", "b"), example("b", analyzers.Fail))
	put(t, filepath.Join(dir, "a", "trace.pcap"), "packets")
	put(t, filepath.Join(dir, "sweep", "sweep.json"), `{"schema": "candela.sweep/v1", "name": "sizes", "file": "sizes.yml",
		"runs": [{"point": 1, "dir": "p1", "values": [{"path": "traffic.mtu", "value": 1024}]},
			{"point": 2, "dir": "p2", "values": [{"path": "traffic.mtu", "value": 4096}]}]}`)
	keep(t, filepath.Join(dir, "sweep", "p1"), example("sizes", analyzers.Pass))
	put(t, filepath.Join(dir, "c.partial", "log.jsonl"), "")
	put(t, filepath.Join(dir, "old", "run.json"), "{}")
	return dir
}

func collected(t *testing.T, args ...string) *Site {
	t.Helper()
	c := Collector{Judge: func(path string) (*report.Report, error) {
		return example("judged "+filepath.Base(path), analyzers.Invalid), nil
	}}
	s, err := c.Collect(args)
	if err != nil {
		t.Fatal(err)
	}
	s.Workers = 2
	return s
}

func write(t *testing.T, s *Site, dir string) map[string]string {
	t.Helper()
	if _, err := s.Write(dir); err != nil {
		t.Fatal(err)
	}
	return tree(t, dir)
}

func TestASiteHasAPageForEachRunAndSweep(t *testing.T) {
	dir := runs(t)
	s := collected(t, dir)
	files := write(t, s, filepath.Join(dir, "report"))
	for name, want := range map[string]string{
		"runs/a.html": `href="../../a/trace.pcap"`, "runs/nightly-b.html": "gbn.nak-psn", "runs/old.html": "judged old",
		"runs/sizes-p1.html": "../sweeps/1.html", "sweeps/1.html": "traffic.mtu",
		"sweeps/1.js": `"path":"traffic.mtu","values":["1024"]`, "index.html": "gbn.nak-psn",
		"data.js": `"page":"runs/nightly-b.html","group":"nightly"`,
	} {
		if !strings.Contains(files[name], want) {
			t.Errorf("%s lacks %s", name, want)
		}
	}
	for _, name := range []string{"index.html", "data.js", "runs/nightly-b.html"} {
		if strings.Contains(files[name], "<script>alert") {
			t.Errorf("%s holds a script from a report", name)
		}
	}
	notes := strings.Join(s.Notes, "\n")
	if !strings.Contains(notes, "point 2 of sizes") || !strings.Contains(notes, "c.partial") {
		t.Errorf("what is not on the site is not said: %q", notes)
	}
}

func TestTheSameRunsGiveTheSameSite(t *testing.T) {
	dir := runs(t)
	site := filepath.Join(dir, "report")
	first := write(t, collected(t, dir), site)
	if diff := cmp.Diff(first, write(t, collected(t, dir), site)); diff != "" {
		t.Error(diff)
	}
}

func TestASiteElsewhereHoldsSmallFilesOfItsRuns(t *testing.T) {
	dir := runs(t)
	put(t, filepath.Join(dir, "a", "config.yml"), strings.Repeat("x", MaxCopied+1))
	files := write(t, collected(t, filepath.Join(dir, "a")), filepath.Join(t.TempDir(), "site"))
	if files["files/a/trace.pcap"] != "packets" {
		t.Error("the trace is not on the site")
	}
	if _, ok := files["files/a/config.yml"]; ok {
		t.Error("a large file was copied")
	}
}

func TestADirectoryWithOtherFilesIsNotASite(t *testing.T) {
	dir := runs(t)
	_, err := collected(t, dir).Write(dir)
	if err == nil || !strings.Contains(err.Error(), Marker) {
		t.Errorf("a directory with runs was taken for a site: %v", err)
	}
	if _, err := os.Stat(filepath.Join(dir, "a")); err != nil {
		t.Error(err)
	}
	c := Collector{}
	if _, err := c.Collect([]string{t.TempDir()}); err == nil {
		t.Error("an empty directory gave a site")
	}
	put(t, filepath.Join(dir, "bad", "sweep.json"), `{"schema": "candela.sweep/v1", "runs": [{"dir": "../a"}]}`)
	if _, err := c.Collect([]string{filepath.Join(dir, "bad")}); err == nil {
		t.Error("a sweep reached outside its directory")
	}
}

func TestViolationsAreGroupedByRuleAndCause(t *testing.T) {
	var s Site
	for i := range 3 {
		r := example(fmt.Sprint(i), analyzers.Fail)
		if i == 2 {
			r.Findings[0].Cause = "behind"
		}
		s.Runs = append(s.Runs, Loaded(r, ""))
	}
	write(t, &s, filepath.Join(t.TempDir(), "site"))
	list, more := failures(s.Runs)
	if len(list) != 2 || more != 0 || list[0].runs != 2 || list[1].runs != 1 {
		t.Errorf("%+v, %d more", list, more)
	}
}
