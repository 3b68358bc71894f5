package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/spf13/cobra"

	"candela.dev/candela/orchestrator"
	"candela.dev/candela/orchestrator/config"
	"candela.dev/candela/orchestrator/history"
	"candela.dev/candela/orchestrator/plan"
	"candela.dev/candela/orchestrator/report"
	"candela.dev/candela/orchestrator/switchtest"
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
	exec      string // starts an application
	points    []int
	workers   int
	waivers   string
	report    string
	history   string
	night     string
	suite     string
	line      string // the command line
}

func newRun() *cobra.Command {
	var f runFlags
	cmd := &cobra.Command{
		Use:   "run FILE|DIR...",
		Short: "Run tests and judge the device under test",
		Long: `Run each test, write its run directory, and print the verdict. For a directory,
run the .yml files directly in it.

A file with a sweep runs once for each point. Each point gets a subdirectory
beside sweep.json; a summary table follows.

A test is refused before anything runs if the testbed cannot run it: its switch
lacks an event of the test, or the test's key testbeds names other kinds. The
other tests run, and the summary lists the refused ones with the reason. A file
with an error does not stop the other tests either.

A test of a switch is simulated. With --testbed netns the same switch model
forwards real frames between network namespaces (needs root); see
docs/guide/live.md, "A switch under test".

Several runs, or the points of a sweep, also get a static site with an index,
filters, plots and a page for each run; see candela report --help.

The exit status is that of the worst run, in this order: infrastructure failure
(4), wrong file (2), fail (1), invalid (3), pass (0). It is also 2 if every test
was refused.`,
		Example: `  candela run configs/quickstart.yml
  candela run configs --out /tmp/runs --junit junit.xml
  candela run configs/quickstart.yml --repeat 20
  candela run configs/sweep-psn.yml --point 3,7`,
		Args: cobra.MinimumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			f.hasSeed, f.line = cmd.Flags().Changed("seed"), commandLine(cmd, args)
			return runTests(cmd, args, f)
		},
	}
	fl := cmd.Flags()
	fl.StringVar(&f.out, "out", "runs", "directory for run directories")
	fl.StringVar(&f.testbed, "testbed", "",
		"testbed instead of the file's: virtual, netns, netns-afpacket, bmv2, vm, or the file of a description")
	fl.Uint64Var(&f.seed, "seed", 0, "seed instead of the file's")
	fl.IntVar(&f.repeat, "repeat", 1,
		"run each test this many times; repetitions after the first derive their seeds from the test's seed")
	fl.BoolVar(&f.sameSeed, "repeat-same-seed", false, "use the same seed for every repetition")
	fl.BoolVar(&f.calibrate, "calibrate", false,
		"measure the latency to each host in a run without events first, and correct all latencies by it")
	fl.BoolVar(&f.strict, "strict", false, "warnings fail, too")
	fl.BoolVarP(&f.verbose, "verbose", "v", false, "show all rows")
	fl.StringVar(&f.format, "format", "text", "format of stdout: text or json")
	fl.IntSliceVar(&f.points, "point", nil, "run only these points of a sweep, numbered from 1")
	fl.IntVar(&f.workers, "workers", runtime.GOMAXPROCS(0),
		"processors for tests of a switch: points of a sweep run side by side, and each network is divided among the "+
			"processors that remain; the result does not depend on it")
	fl.StringVar(&f.waivers, "waivers", "", "file of known violations that do not fail")
	fl.StringVar(&f.history, "history", "",
		"results store that the runs are written to: a file, or postgres://HOST/DATABASE (default CANDELA_HISTORY;\n"+
			"without both none)")
	fl.StringVar(&f.night, "night", "",
		"night that the runs belong to, such as 2026-11-20 (default the day, in UTC, on which a run starts)")
	fl.StringVar(&f.suite, "suite", "",
		"directory that paths of tests are relative to in the results store (default that of each file)")
	fl.StringVar(&f.exec, "exec", "",
		"command of the shell that starts the application of a test with traffic.external, once its packets are recorded; "+
			"otherwise you start it")
	fl.StringVar(&f.junit, "junit", "", "file for the result as JUnit XML")
	fl.StringVar(&f.report, "report", "",
		"directory for the site of several runs (default report beside them); none: no site")
	return cmd
}

func runTests(cmd *cobra.Command, args []string, f runFlags) (err error) {
	defer outlivePipe()()
	if f.repeat < 1 {
		return fmt.Errorf("--repeat %d: want at least 1", f.repeat)
	}
	if f.workers < 1 {
		return fmt.Errorf("--workers %d: want at least 1", f.workers)
	}
	if f.format != "text" && f.format != "json" {
		return fmt.Errorf("--format %q: want text or json", f.format)
	}
	files, err := testFiles(args)
	if err != nil {
		return err
	}
	plans, unfit, err := loadPlans(files, f, cmd.ErrOrStderr())
	if err != nil {
		return err
	}
	if f.junit != "" {
		if err := writable(f.junit); err != nil {
			return fmt.Errorf("--junit: %w", err)
		}
	}
	waivers, err := loadWaivers(f.waivers)
	if err != nil {
		return err
	}
	if f.night != "" {
		if _, err := history.ParseNight(f.night); err != nil {
			return fmt.Errorf("--night: %w", err)
		}
	}
	records, err := openRecorder(cmd.Context(), f.history)
	if err != nil {
		return err
	}
	if err := comparable(plans, records); err != nil {
		return err
	}
	defer func() {
		if closing := records.close(); closing != nil {
			err = unrecorded(err, closing)
		}
	}()
	defer warnOfWaivers(cmd, waivers)
	s := suite{
		cmd: cmd, flags: f, waivers: waivers, total: len(plans) * f.repeat, sweeps: make(map[string]*orchestrator.Sweep),
		plans: plans, ahead: make(map[aheadKey]*aheadRun), records: records,
	}
	for i := range unfit {
		r := unfit[i].report()
		s.reports, s.singles = append(s.reports, r), append(s.singles, r)
		s.total++
		s.worst = worse(s.worst, unfit[i].exit())
		unfit[i].say(cmd.ErrOrStderr(), f.format == "json")
	}
	s.meter = newMeter(cmd.ErrOrStderr(), "run", s.total)
	defer s.meter.end()
	return s.all(cmd.Context())
}

// all runs everything and takes down the testbeds that it made. Background runs have ended when it returns.
func (s *suite) all(ctx context.Context) (err error) {
	defer s.running.Wait()
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	defer func() {
		if closing := s.live.close(); closing != nil {
			err = infrastructure(errors.Join(err, closing))
		}
	}()
	for i := range s.plans {
		for repeat := 1; repeat <= s.flags.repeat; repeat++ {
			before := len(s.reports)
			if err := s.one(ctx, &s.plans[i], repeat); err != nil {
				s.giveUp(ctx, aheadKey{&s.plans[i], repeat}, len(s.reports) > before, err)
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
			return nil, fmt.Errorf("%s: this directory contains no .yml file", arg)
		}
		slices.Sort(found)
		files = append(files, found...)
	}
	return files, nil
}

// configOptions tells the configuration which models exist.
func configOptions(testbed string) config.Options {
	o := orchestrator.Models()
	o.Testbed = testbed
	switchtest.Extend(&o)
	return o
}

// planned is a plan, of a test of NICs or of a switch, and the file that it comes from.
type planned struct {
	*plan.Plan                  // nil: it is a test of a switch
	ofSwitch   *switchtest.Plan // nil: it is a test of NICs
	file       string
}

// loadPlans checks every test before the first one runs. A file with a sweep gives a plan for each point. unfit lists
// the files that the testbed cannot run and the files with errors. The error is about the command line or all files.
func loadPlans(files []string, f runFlags, stderr io.Writer) (plans []planned, unfit []refusal, err error) {
	for _, file := range files {
		list, err := loadFile(file, f)
		var option optionError
		switch {
		case errors.As(err, &option):
			return nil, nil, err
		case err != nil:
			unfit = append(unfit, refused(file, f, err))
			continue
		}
		warn(list, stderr)
		plans = append(plans, list...)
	}
	if len(plans) == 0 {
		return nil, nil, allRefused(unfit)
	}
	scaledTimes(plans, stderr)
	return plans, unfit, nil
}

// optionError is about an option of the command, not about a file: no test runs.
type optionError struct{ error }

// warn prints the warnings of one file, each once.
func warn(plans []planned, stderr io.Writer) {
	seen := make(map[string]bool)
	for _, p := range plans {
		if p.Plan == nil {
			continue
		}
		for _, w := range p.Warnings {
			text := w.String()
			if !seen[text] {
				printProblem(stderr, "warning: "+text)
			}
			seen[text] = true
		}
	}
}

func loadFile(file string, f runFlags) ([]planned, error) {
	data, err := os.ReadFile(file)
	if err != nil {
		return nil, err
	}
	if config.IsSwitchTest(data) {
		return loadSwitchTests(file, f)
	}
	tests, err := config.LoadAll(file, configOptions(f.testbed))
	if err != nil {
		return nil, err
	}
	if tests, err = choosePoints(file, tests, f.points, tests[0].Point != nil); err != nil {
		return nil, err
	}
	var plans []planned
	var bare []*plan.Plan
	for _, t := range tests {
		if f.hasSeed {
			t = t.WithBaseSeed(f.seed)
		}
		p, err := plan.New(t)
		if err == nil {
			err = fitsForeign(p)
		}
		if err != nil {
			return nil, err
		}
		plans = append(plans, planned{Plan: p, file: file})
		bare = append(bare, p)
	}
	if err := plan.RefuseAmbiguous(bare, data); err != nil {
		return nil, err
	}
	return plans, nil
}

// choosePoints returns the requested points of a sweep, all of them without a request.
func choosePoints[T any](file string, tests []T, points []int, sweep bool) ([]T, error) {
	if points == nil {
		return tests, nil
	}
	if !sweep {
		return nil, optionError{fmt.Errorf("--point: %s has no sweep", file)}
	}
	var chosen []T
	for _, n := range points {
		if n < 1 || n > len(tests) {
			return nil, optionError{fmt.Errorf("--point %d: %s has points 1 to %d", n, file, len(tests))}
		}
		chosen = append(chosen, tests[n-1])
	}
	return chosen, nil
}

// suite runs tests one after the other and prints their results.
type suite struct {
	cmd     *cobra.Command
	flags   runFlags
	total   int
	reports []*report.Report               // of all runs
	singles []*report.Report               // of runs outside sweeps
	sweeps  map[string]*orchestrator.Sweep // by file
	order   []*orchestrator.Sweep          // in the order of their first runs
	waivers *orchestrator.Waivers          // nil: none
	worst   orchestrator.Exit
	plans   []planned
	ahead   map[aheadKey]*aheadRun // background runs of switch tests
	running sync.WaitGroup         // of them
	live    livebeds
	meter   *meter
	records *recorder // nil: no results store
}

func (s *suite) one(ctx context.Context, from *planned, repeat int) error {
	if from.ofSwitch != nil {
		return s.oneSwitch(ctx, from, repeat)
	}
	p := from.Plan
	sweep, err := s.sweepOf(from)
	if err != nil {
		return infrastructure(err)
	}
	o := s.options(from, repeat, sweep)
	if seed, ok := s.repeatSeed(p.Test.Seed, repeat); ok {
		if p, err = plan.New(p.Test.WithSeed(seed)); err != nil {
			return err
		}
	}
	s.records.baseline(ctx, s.cmd.ErrOrStderr(), &planned{Plan: p}, &o)
	o.Progress = s.progress(p.Test.Title())
	o.Application = s.application
	s.live.warn(s.cmd.ErrOrStderr(), p.Test.Testbed)
	if s.flags.calibrate {
		if o.Calibration, err = orchestrator.Calibrate(ctx, p, s.live.builder(ctx, p.Test.Testbed), o); err != nil {
			return infrastructure(err)
		}
	}
	outcome, err := runPlanned(ctx, &s.live, &planned{Plan: p}, o)
	s.meter.clear()
	return s.concluded(ctx, outcome, err, sweep, p.Test.Point)
}

// runPlanned runs a test once.
func runPlanned(ctx context.Context, live *livebeds, p *planned, o orchestrator.Options) (*orchestrator.Outcome,
	error) {
	if t := p.ofSwitch; t != nil {
		if bed := t.Bed(); bed != nil {
			return switchtest.RunLab(ctx, t, openNetwork(bed), o)
		}
		return switchtest.Run(ctx, t, o)
	}
	return orchestrator.Run(ctx, p.Plan, live.builder(ctx, p.Test.Testbed), o)
}

// options say how to run a test, or one of its repetitions.
func (s *suite) options(from *planned, repeat int, sweep *orchestrator.Sweep) orchestrator.Options {
	name, point := from.named()
	o := orchestrator.Options{
		Out: s.flags.out, ID: name, Strict: s.flags.strict, Version: toolVersion(), Command: toolName(), File: from.file,
		Wall: time.Now, Testbed: s.flags.testbed, Waivers: s.waivers, Night: s.flags.night, Suite: s.flags.suite,
		Executable: executableID(),
	}
	if sweep != nil {
		o.Out, o.ID = sweep.Dir(), sweep.RunID(point)
	}
	if s.flags.repeat > 1 {
		o.Repeat = repeat
		o.ID = fmt.Sprintf("%s-r%d", o.ID, repeat)
	}
	return o
}

// repeatSeed returns the seed of a repetition; not ok: it has the seed of the test.
func (s *suite) repeatSeed(seed uint64, repeat int) (uint64, bool) {
	return orchestrator.RepeatSeed(seed, repeat), repeat > 1 && !s.flags.sameSeed
}

// concluded records and prints the result of a run.
func (s *suite) concluded(ctx context.Context, outcome *orchestrator.Outcome, err error, sweep *orchestrator.Sweep,
	point *config.Point) error {
	if outcome != nil {
		s.record(outcome, sweep, point)
		s.records.record(ctx, outcome)
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
	if outcome != nil {
		s.unjudged(outcome)
	}
	return nil
}

// unjudged prints on stderr why a run has no verdict, for those who let a program read stdout.
func (s *suite) unjudged(o *orchestrator.Outcome) {
	if v := o.Verdict; v.Exit == orchestrator.ExitInfrastructure || v.Exit == orchestrator.ExitInvalid {
		fmt.Fprintf(s.cmd.ErrOrStderr(), "candela: %s: %s\n", o.Report.Name, strings.Join(v.Reasons, "\n  "))
	}
}

// sweepOf returns the sweep that a plan is a point of, a new one at its first point; nil if it is none.
func (s *suite) sweepOf(p *planned) (*orchestrator.Sweep, error) {
	name, point := p.named()
	if point == nil {
		return nil, nil
	}
	if sweep := s.sweeps[p.file]; sweep != nil {
		return sweep, nil
	}
	sweep, err := orchestrator.NewSweep(s.flags.out, p.file, toolVersion(), name, point)
	if err == nil {
		s.sweeps[p.file], s.order = sweep, append(s.order, sweep)
	}
	return sweep, err
}

func (s *suite) record(o *orchestrator.Outcome, sweep *orchestrator.Sweep, point *config.Point) {
	s.reports = append(s.reports, o.Report)
	if sweep != nil {
		sweep.Add(point, o)
		return
	}
	s.singles = append(s.singles, o.Report)
}

// progress returns the function that reports the steps of a run.
func (s *suite) progress(name string) func(step string) {
	s.meter.at(len(s.reports), name)
	return func(step string) { s.meter.at(len(s.reports), name+": "+step) }
}

func buildTestbed(spec testbeds.Spec) (orchestrator.Testbed, error) { return virtual.New(spec) }

// worse returns the exit status that outranks the other.
func worse(a, b orchestrator.Exit) orchestrator.Exit {
	rank := []orchestrator.Exit{
		orchestrator.ExitPass, orchestrator.ExitInvalid, orchestrator.ExitFail, orchestrator.ExitUsage,
		orchestrator.ExitInfrastructure,
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
	if s.total > 1 && !s.flags.verbose &&
		(o.Verdict.Exit == orchestrator.ExitPass || len(s.order) > 0 && len(s.singles) == 0) {
		return nil // the summary, or the table of the sweep, has a line for it
	}
	return report.Text(s.cmd.OutOrStdout(), o.Report, s.textOptions())
}

func (s *suite) textOptions() report.TextOptions {
	return textOptions(s.cmd.OutOrStdout(), s.flags.verbose)
}

// finish prints the summary of several runs, writes JUnit, and turns the worst outcome into the exit status.
func (s *suite) finish() error {
	s.meter.end()
	if err := s.summaries(); err != nil {
		return infrastructure(err)
	}
	s.site()
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

// summaries prints the tables of sweeps and the summary of the other runs, and writes sweep.json.
func (s *suite) summaries() error {
	apart := func(i int) error { // an empty line between one table and the next
		if i == 0 || s.flags.format == "json" {
			return nil
		}
		_, err := fmt.Fprintln(s.cmd.OutOrStdout())
		return err
	}
	for i, sweep := range s.order {
		err := errors.Join(sweep.Save(), apart(i))
		if s.flags.format == "json" {
			err = errors.Join(err, sweep.Write(s.cmd.OutOrStdout()))
		} else {
			err = errors.Join(err, report.SweepText(s.cmd.OutOrStdout(), sweep.Report(), s.textOptions()))
		}
		if err != nil {
			return err
		}
	}
	if s.total > 1 && len(s.singles) > 0 && s.flags.format == "text" {
		if err := apart(len(s.order)); err != nil {
			return err
		}
		return report.SuiteText(s.cmd.OutOrStdout(), s.singles, s.ofSweeps(), s.textOptions())
	}
	return nil
}

// ofSweeps returns the reports of points of sweeps.
func (s *suite) ofSweeps() []*report.Report {
	return slices.DeleteFunc(slices.Clone(s.reports), func(r *report.Report) bool {
		return slices.Contains(s.singles, r)
	})
}
