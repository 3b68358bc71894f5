package orchestrator

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"path/filepath"
	"strings"
	"time"

	"candela.dev/candela/analyzers"
	"candela.dev/candela/orchestrator/config"
	"candela.dev/candela/orchestrator/report"
)

// A Runnable is a test of some kind in the hands of [Execute], which calls its methods in the order in which they are
// listed here, from one goroutine. Each of the first five phases is a list of steps; a phase that a kind of test does
// not have is empty.
type Runnable interface {
	// Document is what run.json says of the test: name, hash, testbed, seed, point. [Execute] adds the rest.
	Document() RunDocument
	// Prepare writes the configuration into the directory of c and makes everything ready that a test needs.
	Prepare(c *Cycle) []Step
	// Program tells the device between the hosts what to do.
	Program() []Step
	// Run has the traffic run.
	Run() []Step
	// Collect gathers what was recorded.
	Collect() []Step
	// Judge checks the integrity of what was recorded and analyses it.
	Judge() []Step
	// CleanUp takes down what the steps have made; failed: one of them returned an error. It is called once, whatever
	// happened.
	CleanUp(failed bool) error
	// Verdict is what the run came to. failure is an infrastructure failure or nil.
	Verdict(failure error) Verdict
	// Outcome is the verdict with what callers of the run ask for. It is complete but for report and directory.
	Outcome(v Verdict) *Outcome
	// Report gathers what people read of the run in the directory dir.
	Report(v Verdict, dir string) *report.Report
	// Write writes rep in every format; complete: nothing failed.
	Write(ctx context.Context, rep *report.Report, complete bool) error
	// Progress says for log.jsonl in numbers what a step has come to.
	Progress(step string) []any
}

// Step is a part of a run. Progress and log.jsonl name it, unless it has no name.
type Step struct {
	Name string
	Do   func(context.Context) error
}

// errStop ends a run after the step that returns it. Nothing has failed, but nothing can be learnt about a device.
var errStop = errors.New("there is nothing to judge")

// A comparer runs something else once the run itself has succeeded and is cleaned up.
type comparer interface {
	compare(ctx context.Context) error
}

// Cycle is one run of a test in progress: its options, its directory and its log.
type Cycle struct {
	Options
	Dir Directory

	test    Runnable
	log     *slog.Logger // log.jsonl
	started time.Time
}

// Execute takes a test through the life cycle of a run: prepare, program, run, collect, judge, clean up, and write the
// run directory. The error is about what could not even be attempted or written; everything that the run itself came
// to, infrastructure failures included, is in the Outcome.
func Execute(ctx context.Context, t Runnable, o Options) (*Outcome, error) {
	if o.ID == "" && !o.unwritten() {
		o.ID = t.Document().Name
	}
	dir, err := o.directory()
	if err != nil {
		return nil, err
	}
	c := &Cycle{Options: o, Dir: dir, test: t, started: o.Wall(), log: slog.New(slog.DiscardHandler)}
	closeLog, err := c.openLog()
	if err != nil {
		dir.Abandon()
		return nil, err
	}
	failure := c.steps(ctx)
	stopped := errors.Is(failure, errStop)
	if stopped {
		failure = nil
	}
	failure = errors.Join(failure, t.CleanUp(failure != nil))
	if t, ok := t.(comparer); ok && failure == nil {
		failure = t.compare(ctx)
	}
	failure = errors.Join(failure, closeLog())
	return c.conclude(ctx, failure, failure == nil && !stopped)
}

// directory makes the place for what the run writes.
func (o *Options) directory() (Directory, error) {
	switch {
	case o.memory != nil:
		return o.memory, nil
	case o.Discard:
		return &nowhere{}, nil
	}
	return CreateRunDir(o.Out, o.ID)
}

// unwritten reports whether documents of the run would be read by nobody.
func (o *Options) unwritten() bool { return o.memory != nil || o.Discard }

// openLog starts log.jsonl: one line a step, with what it came to.
func (c *Cycle) openLog() (closeLog func() error, err error) {
	if c.unwritten() {
		return func() error { return nil }, nil
	}
	file, err := c.Dir.Create("log.jsonl")
	if err != nil {
		return nil, err
	}
	c.log = slog.New(slog.NewJSONHandler(file, nil))
	return file.Close, nil
}

// steps takes the steps of all phases. Its error is an infrastructure failure, or errStop.
func (c *Cycle) steps(ctx context.Context) error {
	prepare := func() []Step { return append(c.test.Prepare(c), Step{Do: c.writeBaseline}) }
	for _, phase := range []func() []Step{prepare, c.test.Program, c.test.Run, c.test.Collect, c.test.Judge} {
		for _, s := range phase() {
			if err := c.step(ctx, s); err != nil {
				return err
			}
		}
	}
	return nil
}

func (c *Cycle) step(ctx context.Context, s Step) error {
	if s.Name == "" {
		return s.Do(ctx)
	}
	if c.Progress != nil {
		c.Progress(s.Name)
	}
	if ctx.Err() != nil {
		return fmt.Errorf("%s: %w", s.Name, context.Cause(ctx))
	}
	err := s.Do(ctx)
	if err != nil && !errors.Is(err, errStop) {
		c.log.Error(s.Name, "error", err.Error())
		return fmt.Errorf("%s: %w", s.Name, c.causeOf(ctx, err))
	}
	c.log.Info(s.Name, c.test.Progress(s.Name)...)
	return err
}

// causeOf returns what made a step fail: that the run was told to stop, what the test knows, or else the step's own
// error.
func (c *Cycle) causeOf(ctx context.Context, err error) error {
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	if b, ok := c.test.(Blamer); ok {
		return b.Blame(err)
	}
	return err
}

// conclude judges, writes what is left to write and gives the directory its final name.
func (c *Cycle) conclude(ctx context.Context, failure error, complete bool) (*Outcome, error) {
	verdict := c.test.Verdict(failure)
	out := c.test.Outcome(verdict)
	if c.unwritten() {
		return out, nil
	}
	out.Report = c.test.Report(verdict, c.Dir.Final())
	doc := c.test.Document()
	doc.Schema, doc.ToolVersion, doc.Repeat, doc.Verdict = RunSchema, c.Version, c.Repeat, verdict
	doc.Started, doc.Finished, doc.Complete = c.started.UTC(), c.Wall().UTC(), complete
	doc.File, doc.Night = c.SuitePath(), c.Night
	doc.RunID = runIDOf(&doc, c.Executable)
	var err error
	if !c.NoReports {
		err = c.test.Write(ctx, out.Report, failure == nil)
	}
	if err = errors.Join(err, c.Dir.WriteJSON("run.json", doc)); err != nil || !complete {
		out.Dir = c.Dir.Abandon()
		out.Report.Dir = out.Dir
		for i, command := range out.Report.Next { // the directory has another name than the one that was meant
			out.Report.Next[i] = strings.ReplaceAll(command, c.Dir.Final()+"/", out.Dir+"/")
		}
		return out, err
	}
	out.Report.Took = doc.Finished.Sub(doc.Started)
	out.Dir, err = c.Dir.Complete()
	return out, err
}

// WriteReports writes the report as JUnit XML, as a page, and as the data from which sites are made.
func (c *Cycle) WriteReports(rep *report.Report) error {
	return errors.Join(
		c.Dir.WriteFile("junit.xml", func(w io.Writer) error { return report.JUnit(w, []*report.Report{rep}) }),
		c.Dir.WriteFile("report.html", func(w io.Writer) error { return report.HTML(w, rep) }),
		c.Dir.WriteFile(report.DocumentFile, func(w io.Writer) error { return report.WriteDocument(w, rep) }),
	)
}

// WriteAnalysis writes what each of the named analyzers said into a document of its own.
func (c *Cycle) WriteAnalysis(a *analyzers.Analysis, names []string) error {
	if err := c.Dir.Mkdir("analysis"); err != nil {
		return err
	}
	for _, name := range names {
		if err := c.Dir.WriteFile(filepath.Join("analysis", name+".json"), a.Only(name).Write); err != nil {
			return err
		}
	}
	return nil
}

// WriteText writes a document, which is made only if the run has a directory on disk.
func (c *Cycle) WriteText(name string, text func() []byte) error {
	return c.Dir.WriteFile(name, func(w io.Writer) error {
		_, err := w.Write(text())
		return err
	})
}

// RunSchema names the format of run.json.
const RunSchema = "candela.run/v1"

// RunDocument is run.json: what a run was, when, and what it came to.
type RunDocument struct {
	Schema string `json:"schema"`
	// RunID identifies the run wherever its directory goes: random on real frames, otherwise a hash of what was run, by
	// which executable and when.
	RunID string `json:"run_id,omitempty"`
	Name  string `json:"name"`
	// File is the path of the test in its suite.
	File string `json:"file,omitempty"`
	// Night groups the runs of a nightly plan: the date on which it began. Empty: the day (UTC) of Started.
	Night        string `json:"night,omitempty"`
	ToolVersion  string `json:"tool_version"`
	ConfigSHA256 string `json:"config_sha256"`
	Testbed      string `json:"testbed"`
	Seed         uint64 `json:"seed"`
	Repeat       int    `json:"repeat,omitempty"`
	// Metadata is that of the test.
	Metadata *config.Metadata `json:"metadata,omitempty"`
	// Point has the values of the point of a sweep.
	Point []config.Assigned `json:"point,omitempty"`
	// NotJudged lists rules that were not judged because the test does not have everything seen, and why.
	NotJudged    []string  `json:"not_judged,omitempty"`
	ClockEpochNS int64     `json:"clock_epoch_ns"` // since 1970, of mirror stamp 0
	Started      time.Time `json:"started"`
	Finished     time.Time `json:"finished"`
	// Analysed is when the run was analysed last; zero: when it was run.
	Analysed time.Time `json:"analysed,omitzero"`
	Complete bool      `json:"complete"`
	// Simulated runs are functions of configuration and seed.
	Simulated bool `json:"-"`
	Verdict
}
