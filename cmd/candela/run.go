package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"candela.dev/candela/generator/rdma"
	"candela.dev/candela/orchestrator"
	"candela.dev/candela/orchestrator/config"
	"candela.dev/candela/orchestrator/plan"
	"candela.dev/candela/orchestrator/report"
	"candela.dev/candela/testbeds"
	"candela.dev/candela/testbeds/virtual"
)

// runFlags are the options of candela run.
type runFlags struct {
	out       string
	testbed   string
	seed      uint64
	hasSeed   bool
	repeat    int
	sameSeed  bool
	strict    bool
	calibrate bool
	verbose   bool
	format    string
	junit     string
}

func newRun() *cobra.Command {
	var f runFlags
	cmd := &cobra.Command{
		Use:   "run FILE|DIR...",
		Short: "Run tests and judge the device under test",
		Long: `Run each test, write its run directory, and print the verdict. A directory stands for the .yml files directly in it.

The exit status is that of the worst run: infrastructure failure (4), then fail (1), then invalid (3), then pass (0).`,
		Example: `  candela run configs/quickstart.yml
  candela run configs --out /tmp/runs --junit junit.xml
  candela run configs/quickstart.yml --repeat 20`,
		Args: cobra.MinimumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			f.hasSeed = cmd.Flags().Changed("seed")
			return runTests(cmd, args, f)
		},
	}
	fl := cmd.Flags()
	fl.StringVar(&f.out, "out", "runs", "directory for run directories")
	fl.StringVar(&f.testbed, "testbed", "", `testbed instead of the file's: a description, or "virtual"`)
	fl.Uint64Var(&f.seed, "seed", 0, "seed instead of the file's")
	fl.IntVar(&f.repeat, "repeat", 1, "run each test N times; repetition i > 1 uses a seed derived from the first")
	fl.BoolVar(&f.sameSeed, "repeat-same-seed", false, "use the same seed for every repetition")
	fl.BoolVar(&f.calibrate, "calibrate", false, "first measure the way to each host without events, and correct latencies by it")
	fl.BoolVar(&f.strict, "strict", false, "warnings fail, too")
	fl.BoolVarP(&f.verbose, "verbose", "v", false, "print everything, not just what tells")
	fl.StringVar(&f.format, "format", "text", "output on stdout: text or json")
	fl.StringVar(&f.junit, "junit", "", "also write JUnit XML of all runs to this file")
	return cmd
}

func runTests(cmd *cobra.Command, args []string, f runFlags) error {
	if f.repeat < 1 {
		return fmt.Errorf("--repeat %d: want at least 1", f.repeat)
	}
	if f.format != "text" && f.format != "json" {
		return fmt.Errorf("--format %q: want text or json", f.format)
	}
	files, err := testFiles(args)
	if err != nil {
		return err
	}
	plans, err := loadPlans(files, f, cmd.ErrOrStderr())
	if err != nil {
		return err
	}
	s := suite{cmd: cmd, flags: f, total: len(plans) * f.repeat}
	for i, p := range plans {
		for repeat := 1; repeat <= f.repeat; repeat++ {
			if err := s.one(cmd.Context(), p, files[i], repeat); err != nil {
				return errors.Join(err, s.finish())
			}
		}
	}
	return s.finish()
}

// testFiles expands directories into the tests directly in them, sorted.
func testFiles(args []string) ([]string, error) {
	var files []string
	for _, arg := range args {
		info, err := os.Stat(arg)
		if err != nil {
			return nil, err
		}
		if !info.IsDir() {
			files = append(files, arg)
			continue
		}
		found, err := filepath.Glob(filepath.Join(arg, "*.yml"))
		if err != nil {
			return nil, err
		}
		if len(found) == 0 {
			return nil, fmt.Errorf("%s: no .yml file in this directory", arg)
		}
		slices.Sort(found)
		files = append(files, found...)
	}
	return files, nil
}

// configOptions tells the configuration which models exist.
func configOptions(testbed string) config.Options {
	o := config.Options{Testbed: testbed, Rules: ruleIDs()}
	for _, b := range rdma.Catalogue() {
		o.Bugs = append(o.Bugs, b.Name)
	}
	for _, p := range rdma.Profiles() {
		o.Profiles = append(o.Profiles, config.Profile{Name: p.Name, Defaults: profileDefaults(p)})
	}
	return o
}

func profileDefaults(p rdma.Profile) config.RoCE {
	pacing := config.PerPort
	switch p.CNPMode {
	case rdma.CNPPerDestIP:
		pacing = config.PerDestinationIP
	case rdma.CNPPerIPPair:
		pacing = config.PerIPPair
	case rdma.CNPPerConnection:
		pacing = config.PerQP
	case rdma.CNPPerPort, rdma.CNPModeUnset:
	}
	return config.RoCE{DCQCNRP: true, DCQCNNP: true, MinTimeBetween: p.CNPInterval, Pacing: pacing}
}

// loadPlans checks every test before the first one runs.
func loadPlans(files []string, f runFlags, stderr io.Writer) ([]*plan.Plan, error) {
	var plans []*plan.Plan
	var errs []error
	for _, file := range files {
		p, err := loadPlan(file, f)
		if err != nil {
			errs = append(errs, err)
			continue
		}
		for _, w := range p.Warnings {
			fmt.Fprintf(stderr, "warning: %s\n", w)
		}
		plans = append(plans, p)
	}
	return plans, errors.Join(errs...)
}

func loadPlan(file string, f runFlags) (*plan.Plan, error) {
	t, err := config.Load(file, configOptions(f.testbed))
	if err != nil {
		return nil, err
	}
	if f.hasSeed {
		t = t.WithSeed(f.seed)
	}
	return plan.New(t)
}

// suite runs tests one after the other and prints what they come to.
type suite struct {
	cmd     *cobra.Command
	flags   runFlags
	total   int
	reports []*report.Report
	worst   orchestrator.Exit
}

func (s *suite) one(ctx context.Context, p *plan.Plan, file string, repeat int) error {
	o := orchestrator.Options{
		Out: s.flags.out, ID: p.Test.Name, Strict: s.flags.strict, Version: toolVersion(), Command: toolName(), File: file, Wall: time.Now,
	}
	if s.flags.repeat > 1 {
		o.Repeat = repeat
		o.ID = fmt.Sprintf("%s-r%d", p.Test.Name, repeat)
		if repeat > 1 && !s.flags.sameSeed {
			var err error
			if p, err = plan.New(p.Test.WithSeed(orchestrator.RepeatSeed(p.Test.Seed, repeat))); err != nil {
				return err
			}
		}
	}
	o.Progress = s.progress(p.Test.Name)
	if s.flags.calibrate {
		var err error
		if o.Calibration, err = orchestrator.Calibrate(ctx, p, buildTestbed, o); err != nil {
			return infrastructure(err)
		}
	}
	outcome, err := orchestrator.Run(ctx, p, buildTestbed, o)
	s.clearProgress()
	if outcome != nil {
		s.reports = append(s.reports, outcome.Report)
		s.worst = worse(s.worst, outcome.Verdict.Exit)
		if e := s.print(outcome); e != nil {
			return infrastructure(e)
		}
	}
	if err != nil {
		return infrastructure(err)
	}
	if ctx.Err() != nil {
		return infrastructure(fmt.Errorf("stopped: %w", context.Cause(ctx)))
	}
	return nil
}

// progress returns what tells a person at a terminal where a long run is; nil if stderr is none.
func (s *suite) progress(name string) func(step string) {
	if !colourful(s.cmd.ErrOrStderr()) {
		return nil
	}
	return func(step string) {
		fmt.Fprintf(s.cmd.ErrOrStderr(), "\r\x1b[K[%d/%d] %s: %s", len(s.reports)+1, s.total, name, step)
	}
}

func (s *suite) clearProgress() {
	if colourful(s.cmd.ErrOrStderr()) {
		fmt.Fprint(s.cmd.ErrOrStderr(), "\r\x1b[K")
	}
}

func buildTestbed(spec testbeds.Spec) (orchestrator.Testbed, error) { return virtual.New(spec) }

// worse returns the exit status that outranks the other.
func worse(a, b orchestrator.Exit) orchestrator.Exit {
	rank := []orchestrator.Exit{
		orchestrator.ExitPass, orchestrator.ExitInvalid, orchestrator.ExitFail, orchestrator.ExitUsage, orchestrator.ExitInfrastructure,
	}
	if slices.Index(rank, b) > slices.Index(rank, a) {
		return b
	}
	return a
}

func (s *suite) print(o *orchestrator.Outcome) error {
	if s.flags.format == "json" {
		return orchestrator.WriteOutcome(s.cmd.OutOrStdout(), o)
	}
	if s.total > 1 && !s.flags.verbose && o.Verdict.Exit == orchestrator.ExitPass {
		return nil // the summary has a line for it
	}
	return report.Text(s.cmd.OutOrStdout(), o.Report, s.textOptions())
}

func (s *suite) textOptions() report.TextOptions {
	return report.TextOptions{Color: colourful(s.cmd.OutOrStdout()), Verbose: s.flags.verbose}
}

// finish prints the summary of several runs, writes JUnit, and turns the worst outcome into the exit status.
func (s *suite) finish() error {
	if s.total > 1 && s.flags.format == "text" {
		if err := report.SuiteText(s.cmd.OutOrStdout(), s.reports, s.textOptions()); err != nil {
			return infrastructure(err)
		}
	}
	if s.flags.junit != "" {
		if err := writeJUnit(s.flags.junit, s.reports); err != nil {
			return infrastructure(err)
		}
	}
	if s.worst != orchestrator.ExitPass {
		return statusError{status: s.worst}
	}
	return nil
}

func writeJUnit(path string, reports []*report.Report) (err error) {
	file, err := os.Create(path)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, file.Close()) }()
	return report.JUnit(file, reports)
}

// colourful reports whether w is a terminal that wants colour (https://no-color.org).
func colourful(w io.Writer) bool {
	file, ok := w.(*os.File)
	if !ok || os.Getenv("NO_COLOR") != "" || strings.EqualFold(os.Getenv("TERM"), "dumb") {
		return false
	}
	info, err := file.Stat()
	return err == nil && info.Mode()&os.ModeCharDevice != 0
}
