package history

import (
	"bytes"
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"candela.dev/candela/analyzers"
	"candela.dev/candela/generator"
	"candela.dev/candela/orchestrator"
	"candela.dev/candela/orchestrator/config"
	"candela.dev/candela/orchestrator/report"
	"candela.dev/candela/orchestrator/switchtest"
	"candela.dev/candela/testbeds"
)

// ReadDir reads a run directory. Its errors match [orchestrator.ErrInput].
func ReadDir(dir string) (run *Run, err error) {
	o, err := orchestrator.OpenRun(dir)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, o.Close()) }()
	if run, err = read(o); err != nil {
		return nil, fmt.Errorf("%s: %w", dir, err)
	}
	path, err := filepath.Abs(dir)
	if err != nil {
		return nil, err
	}
	run.Artefacts = []Artefact{{"directory", path}}
	return run, nil
}

func read(o *orchestrator.OpenedRun) (*Run, error) {
	d := &o.Document
	r := &Run{
		ID: d.RunID, Test: Test{Path: d.File, Name: d.Name}, Point: PointText(d.Point), Testbed: d.Testbed,
		Started: d.Started.UTC(), Finished: d.Finished.UTC(), Analysed: d.Finished.UTC(), Seed: d.Seed,
		Repetition: d.Repeat, Config: d.ConfigSHA256, Tool: d.ToolVersion, Verdict: Verdict(d.Exit), Reasons: d.Reasons,
		Night: NightOf(d.Started),
	}
	if r.ID == "" {
		r.ID = orchestrator.DerivedRunID(d, "")
	}
	if d.Night != "" {
		night, err := ParseNight(d.Night)
		if err != nil {
			return nil, fmt.Errorf("run.json: %w", err)
		}
		r.Night = night
	}
	if m := d.Metadata; m != nil {
		r.Test.ID, r.Test.Owner, r.Test.Requirement, r.Test.Was = m.ID, m.Owner, m.Requirement, m.Was
	}
	if !d.Analysed.IsZero() {
		r.Analysed = d.Analysed.UTC()
	}
	r.Config = configOf(o, r.Config)
	if err := r.readEnvironment(o); err != nil {
		return nil, err
	}
	analysis, err := analysisOf(o)
	if err != nil {
		return nil, err
	}
	judged, err := judgedOf(o)
	if err != nil {
		return nil, err
	}
	if r.Test.Path == "" { // of a version that did not say it in run.json
		r.Test.Path = filepath.Base(judged.File)
		if judged.File == "" || judged.File == orchestrator.StandardInput {
			r.Test.Path = ""
		}
	}
	return r, r.results(o, analysis, judged)
}

// configOf returns the hash of the run's configuration without its seed: repetitions of a test differ in it, and the
// test has not changed. recorded is the hash in run.json, of the whole.
func configOf(o *orchestrator.OpenedRun, recorded string) string {
	data, err := o.ReadFile("config.yml")
	if err != nil {
		return recorded // of a run that ended early
	}
	h := sha256.New()
	for line := range bytes.Lines(data) {
		if !bytes.HasPrefix(line, []byte("seed:")) {
			h.Write(line)
		}
	}
	return hex.EncodeToString(h.Sum(nil))
}

// analysisOf returns what the analyzers said; nil: nothing was analysed.
func analysisOf(o *orchestrator.OpenedRun) (*analyzers.Analysis, error) {
	data, err := o.ReadFile("config.yml")
	if errors.Is(err, fs.ErrNotExist) { // of a run that ended early
		return nil, nil
	} else if err != nil {
		return nil, err
	}
	if config.IsSwitchTest(data) {
		return orchestrator.MergeParts(append([]string{"flows"}, switchtest.AnalyzerNames()...), o.ReadFile)
	}
	return orchestrator.MergeAnalysis(o.ReadFile)
}

// A judged report says which findings count, and the totals of a switch test. It is a part of report.json.
type judged struct {
	File     string
	Totals   []report.Total
	Findings []judgedFinding
}

type judgedFinding struct {
	Rule       string `json:"rule"`
	Connection int    `json:"connection"`
	PSN        int64  `json:"psn"`
	TimeNS     int64  `json:"t_ns"`
	Waiver     string
	Wanted     bool
}

func judgedOf(o *orchestrator.OpenedRun) (*judged, error) {
	var document struct {
		Report *judged `json:"report"`
	}
	data, err := o.ReadFile(report.DocumentFile)
	if errors.Is(err, fs.ErrNotExist) { // of a run without reports
		return &judged{}, nil
	} else if err != nil {
		return nil, err
	}
	if err := json.Unmarshal(data, &document); err != nil {
		return nil, fmt.Errorf("%s: %w", report.DocumentFile, err)
	}
	if document.Report == nil {
		return &judged{}, nil
	}
	return document.Report, nil
}

func (r *Run) readEnvironment(o *orchestrator.OpenedRun) error {
	var env testbeds.Environment
	data, err := o.ReadFile("environment.json")
	if err == nil {
		err = json.Unmarshal(data, &env)
	}
	switch {
	case errors.Is(err, fs.ErrNotExist): // of a run that ended before its hosts were ready
	case err != nil:
		return fmt.Errorf("environment.json: %w", err)
	}
	r.Environment = map[string]string{"tool": r.Tool}
	for _, c := range env.Components {
		for _, p := range c.Properties {
			name := c.Name + "." + p.Name
			if slices.Contains(volatile, p.Name) {
				continue
			}
			if before, ok := r.Environment[name]; ok { // addresses, for example
				r.Environment[name] = before + ", " + p.Value
				continue
			}
			r.Environment[name] = p.Value
		}
	}
	return nil
}

// volatile are properties that differ between any two runs and explain nothing.
var volatile = []string{"process", "epoch", "cookie"}

// results fills in findings, metrics and coverage.
func (r *Run) results(o *orchestrator.OpenedRun, a *analyzers.Analysis, j *judged) (err error) {
	if a == nil {
		return nil
	}
	excused := make(map[judgedFinding]judgedFinding)
	for _, f := range j.Findings {
		key := f
		key.Waiver, key.Wanted = "", false
		excused[key] = f
	}
	for i := range a.Findings {
		f := &a.Findings[i]
		e := excused[judgedFinding{Rule: f.Rule, Connection: f.Connection, PSN: f.PSN, TimeNS: f.TimeNS}]
		r.Findings = append(r.Findings, Finding{Rule: f.Rule, Cause: f.Cause, Role: f.Role, Severity: f.Severity,
			Expected: e.Wanted, Waiver: e.Waiver, Connection: f.Connection, PSN: f.PSN, TimeNS: f.TimeNS, Packets: f.Packets,
			Headline: f.Summary()})
	}
	r.Coverage = coverageOf(a.Coverage)
	r.Metrics, err = measured(o, a)
	for _, t := range j.Totals {
		r.Metrics = append(r.Metrics, analyzers.Single(t.Name, t.Unit, t.Value))
	}
	return err
}

// measured returns the metrics of a run. A counter that has not grown is left out, as a NIC has a hundred of them,
// unless the test compares it with earlier runs.
func measured(o *orchestrator.OpenedRun, a *analyzers.Analysis) ([]Metric, error) {
	var g generator.Report
	var c orchestrator.Counters
	for _, d := range []struct {
		name string
		into any
	}{{"generator.json", &g}, {"counters.json", &c}} {
		data, err := o.ReadFile(d.name)
		if err == nil {
			err = json.Unmarshal(data, d.into)
		}
		if err != nil && !errors.Is(err, fs.ErrNotExist) { // a switch test has neither
			return nil, fmt.Errorf("%s: %w", d.name, err)
		}
	}
	list, err := orchestrator.Measured(a, &g, &c)
	if err != nil {
		return nil, err
	}
	compared, err := comparedBy(o)
	return slices.DeleteFunc(list, func(m Metric) bool {
		return counterSide(m.Name) != "" && m.Most == 0 && !compared[m.Name]
	}), err
}

// comparedBy returns the metrics that a test of NICs compares with earlier runs.
func comparedBy(o *orchestrator.OpenedRun) (map[string]bool, error) {
	compared := make(map[string]bool)
	data, err := o.ReadFile("config.yml")
	if err != nil || config.IsSwitchTest(data) || !bytes.Contains(data, []byte("baseline:")) {
		return compared, err
	}
	test, err := o.Test(config.Options{})
	if err != nil {
		return nil, err
	}
	for i := range test.Expect.Baseline.Metrics {
		compared[test.Expect.Baseline.Metrics[i].Metric()] = true
	}
	return compared, nil
}

func coverageOf(all map[string]map[string]int64) map[string]Coverage {
	c := make(map[string]Coverage)
	for name, transitions := range all {
		if len(transitions) == 0 {
			continue
		}
		var part Coverage
		for _, t := range sortedKeys(transitions) {
			if transitions[t] > 0 {
				part.Seen = append(part.Seen, t)
			} else {
				part.Unseen = append(part.Unseen, t)
			}
		}
		c[name] = part
	}
	return c
}

// FromOutcome returns a finished run as the store keeps it.
func FromOutcome(o *orchestrator.Outcome) (*Run, error) { return ReadDir(o.Dir) }

// Reanalysed returns a run with what a later analysis of its directory came to.
func Reanalysed(dir string, o *orchestrator.Outcome, tool string, at time.Time) (run *Run, err error) {
	opened, err := orchestrator.OpenRun(dir)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, opened.Close()) }()
	r, err := ReadDir(dir)
	if err != nil {
		return nil, err
	}
	r.Verdict, r.Reasons, r.Tool, r.Analysed = Verdict(o.Verdict.Exit), o.Verdict.Reasons, tool, at.UTC()
	r.Findings, r.Metrics, r.Coverage = nil, nil, nil
	j := &judged{Totals: o.Report.Totals}
	for i := range o.Report.Findings {
		f := &o.Report.Findings[i]
		j.Findings = append(j.Findings, judgedFinding{f.Rule, f.Connection, f.PSN, f.TimeNS, f.Waiver, f.Wanted})
	}
	return r, r.results(opened, o.Analysis, j)
}

// Runs lists the run directories in the named ones, each a run, a sweep, or a directory with runs somewhere below,
// sorted. A directory in which there is no run is an error.
func Runs(dirs []string) ([]string, error) {
	var all []string
	for _, dir := range dirs {
		found, err := runsBelow(dir)
		if err != nil {
			return nil, err
		}
		if len(found) == 0 {
			_, err := orchestrator.OpenRun(dir)
			return nil, cmp.Or(err, error(usageError{fmt.Errorf("%s: there is no run in it", dir)}))
		}
		all = append(all, found...)
	}
	return all, nil
}

func runsBelow(dir string) (found []string, err error) {
	err = filepath.WalkDir(dir, func(path string, e fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case !e.IsDir():
			return nil
		}
		if _, err := os.Lstat(filepath.Join(path, "run.json")); err == nil {
			found = append(found, path)
			return fs.SkipDir // the other run of a paired one belongs to it
		}
		if path != dir && strings.HasPrefix(e.Name(), ".") {
			return fs.SkipDir
		}
		return nil
	})
	return found, err
}

// Imported says what became of run directories.
type Imported struct {
	Ingested
	Unreadable []string `json:"unreadable"` // with the reason
}

// Import writes run directories to the store. One that cannot be read is listed and does not stop the others.
func (s *Store) Import(ctx context.Context, dirs []string, progress func(done int)) (done Imported, err error) {
	done.Unreadable = []string{}
	for part := range slices.Chunk(dirs, batch) {
		runs := make([]*Run, 0, len(part))
		for _, dir := range part {
			r, err := ReadDir(dir)
			if err == nil {
				err = r.check()
			}
			if err != nil {
				done.Unreadable = append(done.Unreadable, err.Error())
				continue
			}
			runs = append(runs, r)
		}
		n, err := s.Ingest(ctx, runs...)
		if err != nil {
			return done, err
		}
		done.Add(n)
		if progress != nil {
			progress(done.New + done.Updated + done.Unchanged + len(done.Unreadable))
		}
	}
	return done, nil
}
