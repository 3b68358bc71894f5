package exploration

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"candela.dev/candela/analyzers"
	"candela.dev/candela/orchestrator"
	"candela.dev/candela/orchestrator/bundle"
	"candela.dev/candela/orchestrator/config"
	"candela.dev/candela/orchestrator/plan"
	"candela.dev/candela/orchestrator/reduction"
	"candela.dev/candela/orchestrator/report"
)

// Store is a corpus directory: NNNN.yml are tests that reached something new, in the order in which they were found,
// and failures/<rule>/ holds a bug report for each rule that was violated.
type Store struct {
	Dir     string
	Config  config.Options
	Build   orchestrator.Builder
	Version string
	Command string // how to call Candela, for what the reports suggest
}

const testbedFile = "testbed.yml"

// Load returns the tests of the corpus; none if the directory doesn't exist.
func (s *Store) Load() ([]*config.Test, error) {
	files, err := filepath.Glob(filepath.Join(s.Dir, "[0-9]*.yml"))
	if err != nil {
		return nil, err
	}
	slices.Sort(files)
	var tests []*config.Test
	for _, file := range files {
		t, err := config.Load(file, s.Config)
		if err != nil {
			return nil, err
		}
		tests = append(tests, t)
	}
	return tests, nil
}

// Keep adds a test to the corpus; n is its number.
func (s *Store) Keep(n int, t *config.Test, reached []string) error {
	if err := os.MkdirAll(s.Dir, 0o777); err != nil {
		return err
	}
	var b strings.Builder
	for _, name := range reached {
		fmt.Fprintf(&b, "# reaches %s\n", name)
	}
	b.Write(t.WithTestbedFile(testbedFile).YAML())
	return errors.Join(
		os.WriteFile(filepath.Join(s.Dir, testbedFile), t.Testbed.YAML(), 0o666),
		os.WriteFile(filepath.Join(s.Dir, fmt.Sprintf("%04d.yml", n)), []byte(b.String()), 0o666),
	)
}

// reductionRuns bounds how long one failure holds up the search for others.
const reductionRuns = 300

// Report reduces a test that violates a rule and writes the bug report: the smallest test, the bundle of its run, and
// the report as text. It returns the report's directory.
func (s *Store) Report(ctx context.Context, t *config.Test, f analyzers.Finding, run reduction.Runner) (dir string,
	err error) {
	target := reduction.Target{Rule: f.Rule, Severity: f.Severity}
	r, err := reduction.Reduce(ctx, t, target, forgiving(run), reduction.Options{Config: s.Config, Runs: reductionRuns})
	if err != nil {
		return "", err
	}
	o, err := run(ctx, r.Test)
	if err != nil {
		return "", err
	}
	if r.Test, _, err = forgive(ctx, r.Test, o, run); err != nil {
		return "", err
	}
	dir = filepath.Join(s.Dir, "failures", f.Rule)
	if err := os.MkdirAll(dir, 0o777); err != nil {
		return "", err
	}
	file := filepath.Join(dir, "test.yml")
	doc := r.Written(s.Config, "candela fuzz", file, testbedFile, s.Command)
	if doc.Testbed != nil {
		err = os.WriteFile(filepath.Join(dir, testbedFile), doc.Testbed, 0o666)
	}
	if err = errors.Join(err, os.WriteFile(file, doc.Test, 0o666)); err != nil {
		return "", err
	}
	return dir, s.record(ctx, r.Test, dir, file)
}

// record runs the smallest test once more, for the bundle and the text.
func (s *Store) record(ctx context.Context, t *config.Test, dir, file string) (err error) {
	p, err := plan.New(t)
	if err != nil {
		return err
	}
	out, err := os.MkdirTemp("", "candela-fuzz-")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(out)) }()
	o, err := orchestrator.Run(ctx, p, s.Build, orchestrator.Options{
		Out: out, ID: "run", Version: s.Version, Command: s.Command, File: file, NoReports: true,
		Wall: func() time.Time { return time.Unix(0, 0) },
	})
	if err != nil {
		return err
	}
	tarFile := filepath.Join(dir, "bundle.tar")
	o.Report.Next = []string{s.Command + " run " + report.ShellWord(file),
		s.Command + " replay " + report.ShellWord(tarFile)}
	return errors.Join(
		writeFile(filepath.Join(dir, "report.txt"),
			func(f *os.File) error { return report.Text(f, o.Report, report.TextOptions{Verbose: true}) }),
		writeFile(tarFile, func(f *os.File) error { return pack(f, o.Dir) }),
	)
}

func pack(f *os.File, dir string) error {
	run, err := orchestrator.OpenRun(dir)
	if err != nil {
		return err
	}
	_, err = bundle.Write(f, run, true)
	return errors.Join(err, run.Close())
}

func writeFile(path string, write func(*os.File) error) error {
	f, err := os.Create(path)
	if err != nil {
		return err
	}
	return errors.Join(write(f), f.Close())
}
