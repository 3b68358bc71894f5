package bundle

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"strings"

	"candela.dev/candela/orchestrator"
	"candela.dev/candela/orchestrator/config"
	"candela.dev/candela/orchestrator/diff"
	"candela.dev/candela/orchestrator/plan"
	"candela.dev/candela/orchestrator/report"
	"candela.dev/candela/orchestrator/switchtest"
)

// Replayed is the result of a replay.
type Replayed struct {
	Outcome *orchestrator.Outcome
	// Differences lists the documents that are not byte-identical; none: the run is reproduced.
	Differences []Difference
	// Matched counts the byte-identical documents.
	Matched int
	// Diff compares the original (a) with the replay (b); nil if the run is reproduced.
	Diff *diff.Report
	// VersionNote names the tool version that made the bundle; empty if it is this one.
	VersionNote string
}

// Reproduced reports whether every document of the bundle came out byte-identical.
func (r *Replayed) Reproduced() bool { return len(r.Differences) == 0 }

// Difference is a document with another hash; Got is empty if the replay has no such document.
type Difference struct {
	Name, Want, Got string // hashes
}

// Replay runs the bundle's test again with options o. Test, testbed and calibration are the bundle's.
func (b *Bundle) Replay(ctx context.Context, build orchestrator.Builder, known config.Options,
	o orchestrator.Options) (*Replayed, error) {
	outcome, err := b.rerun(ctx, build, known, o)
	if err != nil {
		return nil, err
	}
	if outcome.Verdict.Exit == orchestrator.ExitInfrastructure {
		return nil, fmt.Errorf("the replay failed: %s", strings.Join(outcome.Verdict.Reasons, "; "))
	}
	r := &Replayed{Outcome: outcome}
	if b.Manifest.ToolVersion != o.Version {
		r.VersionNote = fmt.Sprintf("the bundle was made by candela %q, this is %q", b.Manifest.ToolVersion, o.Version)
	}
	return r, b.compare(r)
}

func (b *Bundle) rerun(ctx context.Context, build orchestrator.Builder, known config.Options,
	o orchestrator.Options) (*orchestrator.Outcome, error) {
	if b.Manifest.names(flowsName) {
		return b.rerunSwitch(ctx, known, o)
	}
	test, err := orchestrator.ParseRecorded(configName, b.ReadFile, known)
	if err != nil {
		return nil, fmt.Errorf("the bundle's test: %w", err)
	}
	if got := test.Hash(); got != b.Manifest.ConfigSHA256 && o.Version == b.Manifest.ToolVersion {
		return nil, invalid("config.yml and testbed.yml have hash %s, the run's was %s", got, b.Manifest.ConfigSHA256)
	}
	p, err := plan.New(test)
	if err != nil {
		return nil, fmt.Errorf("the bundle's test: %w", err)
	}
	if o.Calibration, err = b.calibration(); err != nil {
		return nil, err
	}
	if o.Baseline, err = b.baseline(); err != nil {
		return nil, err
	}
	return orchestrator.Run(ctx, p, build, o)
}

// rerunSwitch runs a switch test, whose configuration includes the testbed.
func (b *Bundle) rerunSwitch(ctx context.Context, known config.Options, o orchestrator.Options) (*orchestrator.Outcome,
	error) {
	data, err := b.ReadFile(configName)
	if err != nil {
		return nil, err
	}
	tests, err := config.ParseSwitchTests(configName, data, known)
	if err != nil {
		return nil, fmt.Errorf("the bundle's test: %w", err)
	}
	if got := tests[0].Hash(); len(tests) > 1 || got != b.Manifest.ConfigSHA256 && o.Version == b.Manifest.ToolVersion {
		return nil, invalid("config.yml has %d tests and hash %s, the run's was %s", len(tests), got, b.Manifest.ConfigSHA256)
	}
	p, err := switchtest.New(tests[0])
	if err != nil {
		return nil, fmt.Errorf("the bundle's test: %w", err)
	}
	if o.Baseline, err = b.baseline(); err != nil {
		return nil, err
	}
	return switchtest.Run(ctx, p, o)
}

func (b *Bundle) baseline() (orchestrator.Baseline, error) {
	earlier, err := orchestrator.ReadBaseline(b.ReadFile)
	if err != nil {
		return nil, invalid("%v", err)
	}
	return earlier, nil
}

func (b *Bundle) calibration() (*orchestrator.Calibration, error) {
	data, err := b.ReadFile("calibration.json")
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	var c orchestrator.Calibration
	if err := json.Unmarshal(data, &c); err != nil {
		return nil, invalid("calibration.json: %v", err)
	}
	return &c, nil
}

// compare compares the hashes of the replay's documents with the manifest.
func (b *Bundle) compare(r *Replayed) (err error) {
	run, err := orchestrator.OpenRun(r.Outcome.Dir)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, run.Close()) }()
	for _, f := range b.Manifest.Files {
		_, got, err := hashFile(run, f.Name)
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
		if got == f.SHA256 {
			r.Matched++
			continue
		}
		r.Differences = append(r.Differences, Difference{f.Name, f.SHA256, got})
	}
	if r.Reproduced() {
		return nil
	}
	r.Diff, err = b.explain(run)
	return err
}

func (b *Bundle) explain(run *orchestrator.OpenedRun) (*diff.Report, error) {
	m := &b.Manifest
	doc := orchestrator.RunDocument{
		Schema: orchestrator.RunSchema, Name: m.Name, ToolVersion: m.ToolVersion, ConfigSHA256: m.ConfigSHA256, Seed: m.Seed,
		Verdict: orchestrator.Verdict{Verdict: m.Verdict, Exit: m.Exit, Reasons: m.Reasons},
	}
	original, err := diff.Read("bundle", doc, b.ReadFile)
	if err != nil {
		return nil, err
	}
	replay, err := diff.Read(run.Dir(), run.Document, run.ReadFile)
	if err != nil {
		return nil, err
	}
	return diff.Compare(original, replay), nil
}

// Text writes the result of the replay.
func (r *Replayed) Text(w io.Writer) error {
	var b strings.Builder
	if r.Reproduced() {
		fmt.Fprintf(&b, "reproduced: %d files are the same to the byte, captures among them\n", r.Matched)
	} else {
		fmt.Fprintf(&b, "NOT reproduced: %d files differ, %d are the same to the byte\n", len(r.Differences), r.Matched)
	}
	if r.VersionNote != "" {
		fmt.Fprintln(&b, r.VersionNote)
	}
	for _, d := range r.Differences {
		got := "missing"
		if d.Got != "" {
			got = d.Got[:12]
		}
		fmt.Fprintf(&b, "  %s: SHA-256 %s in the bundle, %s now\n", d.Name, d.Want[:12], got)
	}
	fmt.Fprintf(&b, "verdict: %s\nrun directory: %s\n", r.Outcome.Verdict.Verdict, r.Outcome.Dir)
	if r.Diff != nil {
		b.WriteString("\n")
		if err := r.Diff.Text(&b, report.TextOptions{}); err != nil {
			return err
		}
	}
	_, err := io.WriteString(w, b.String())
	return err
}
