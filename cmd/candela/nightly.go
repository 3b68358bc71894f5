package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"runtime/debug"
	"strings"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/spf13/cobra"

	"candela.dev/candela/exporter"
	"candela.dev/candela/orchestrator"
	"candela.dev/candela/orchestrator/config"
	"candela.dev/candela/orchestrator/history"
	"candela.dev/candela/orchestrator/nightly"
	"candela.dev/candela/orchestrator/plan"
	"candela.dev/candela/testbeds"
)

// nightlyFlags are the options of candela nightly.
type nightlyFlags struct {
	history string
	night   string
	workers int
	asJSON  bool
	check   bool
	metrics string
	file    string // of metrics
}

func newNightly() *cobra.Command {
	var f nightlyFlags
	cmd := &cobra.Command{
		Use:   "nightly PLAN",
		Short: "Run a plan for a night, and say what broke and where to look",
		Long: `Run the tests of a plan on its testbeds, write every run to the results store,
and print what broke since last night. Tests that failed last night run first. A
test that fails runs again, to tell flaky from failing. A file with an error, a
testbed that does not answer, and a test that crashes or hangs cost only
themselves.

A plan that was killed goes on where it was: start it again. A second start
while the first runs is refused. The night's directory has summary.json,
journal.jsonl and the runs; captures of most passing runs are removed.

candela config schema --nightly prints the schema of a plan.

The exit status is that of the worst test, as of candela run: no verdict because
of the lab (4), a wrong file or an expired quarantine (2), failing or flaky (1),
invalid or not run (3), pass (0).`,
		Example: `  candela nightly plan.yml
  candela nightly plan.yml --check`,
		Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error { return runNightly(cmd, args[0], f) },
	}
	fl := cmd.Flags()
	fl.StringVar(&f.history, "history", "",
		"results store instead of the plan's: a file, or postgres://HOST/DATABASE\n"+
			"(default CANDELA_HISTORY, if the plan names none)")
	fl.StringVar(&f.night, "night", "", "date of the night, such as 2026-11-20 (default today, in UTC)")
	fl.IntVar(&f.workers, "workers", max(1, runtime.GOMAXPROCS(0)/2), "how many simulated tests run side by side")
	fl.StringVar(&f.metrics, "metrics", "", "serve metrics for Prometheus on this address while it runs, such as :9561")
	fl.StringVar(&f.file, "metrics-file", "", "file for metrics at the end, for node_exporter's textfile collector")
	fl.BoolVar(&f.asJSON, "json", false, "print the summary as JSON")
	fl.BoolVar(&f.check, "check", false, "check the plan and list its tests, without running them")
	cmd.AddCommand(newNightlyWorker())
	return cmd
}

func runNightly(cmd *cobra.Command, file string, f nightlyFlags) (err error) {
	defer outlivePipe()()
	if f.workers < 1 {
		return fmt.Errorf("--workers %d: want at least 1", f.workers)
	}
	p, err := config.LoadNightPlan(file)
	if err != nil {
		return err
	}
	o := nightly.Options{Plan: p, Version: toolVersion(), Command: toolName(), Workers: f.workers, Now: time.Now,
		Start: startWorker}
	if f.night != "" {
		night, err := history.ParseNight(f.night)
		if err != nil {
			return fmt.Errorf("--night: %w", err)
		}
		o.Night = &night
	}
	if p.Waivers != "" {
		if _, err := loadWaivers(p.Path(p.Waivers)); err != nil {
			return err
		}
	}
	o.Cases, o.Refused = nightCases(p)
	for i := range o.Refused {
		printProblem(cmd.ErrOrStderr(), o.Refused[i].Reason)
	}
	if len(o.Cases) == 0 {
		return errors.New("no test of the plan can run")
	}
	if f.check {
		return checkedPlan(cmd, &o)
	}
	o.History = nightStore(p, f.history)
	if o.Store, err = history.Open(cmd.Context(), o.History); err != nil {
		return storeFailed(err)
	}
	defer func() {
		if closing := o.Store.Close(); closing != nil {
			err = unrecorded(err, machineError(closing))
		}
	}()
	total := 0
	for i := range o.Cases {
		total += o.Cases[i].Repetitions
	}
	m := newMeter(cmd.ErrOrStderr(), "nightly", total)
	o.Progress = func(done, _ int, a *nightly.Attempt) {
		m.at(done, fmt.Sprintf("%s on %s: %v", a.Title(), a.Bed(), a.Verdict))
	}
	registry := exporter.New(toolVersion(), "nightly")
	o.Metrics = nightly.NewMetrics(registry, p.Name)
	stop, err := serveMetrics(cmd.Context(), f.metrics, registry)
	if err != nil {
		return err
	}
	defer stop()
	s, err := nightly.Run(cmd.Context(), o)
	m.end()
	var busy *nightly.BusyError
	switch {
	case errors.As(err, &busy):
		return err
	case err != nil:
		return infrastructure(err)
	}
	if f.file != "" {
		if err := prometheus.WriteToTextfile(f.file, registry); err != nil {
			s.Exit = orchestrator.ExitInfrastructure
			printProblem(cmd.ErrOrStderr(), "--metrics-file: "+err.Error())
		}
	}
	if err := new(nightly.Notifier).Notify(cmd.Context(), p, s); err != nil {
		s.Exit = orchestrator.ExitInfrastructure
		printProblem(cmd.ErrOrStderr(), err.Error())
	}
	return nightEnded(cmd, s, f)
}

// serveMetrics serves metrics if an address is given.
func serveMetrics(ctx context.Context, address string, r prometheus.Gatherer) (stop func(), err error) {
	if address == "" {
		return func() {}, nil
	}
	_, end, err := exporter.Serve(ctx, address, r)
	if err != nil {
		return nil, err
	}
	return func() { _ = end() }, nil // what is not served any more is missed by nobody
}

// nightEnded prints the summary and turns it into the exit status.
func nightEnded(cmd *cobra.Command, s *nightly.Summary, f nightlyFlags) error {
	var err error
	if f.asJSON {
		err = writeIndented(cmd.OutOrStdout(), s)
	} else {
		err = s.Text(cmd.OutOrStdout())
	}
	if err != nil {
		return infrastructure(err)
	}
	if s.Exit != orchestrator.ExitPass {
		return statusError{status: s.Exit}
	}
	return nil
}

// nightStore is the address of the results store: of the flag, the plan, the environment, or a file beside the nights.
func nightStore(p *config.NightPlan, flag string) string {
	switch {
	case flag != "":
		return flag
	case strings.Contains(p.History, "://"):
		return p.History
	case p.History != "":
		return p.Path(p.History)
	case os.Getenv(historyVariable) != "":
		return os.Getenv(historyVariable)
	}
	return p.Path(p.Out) + "/" + history.DefaultFile
}

// nightCases expands a plan. A file or a testbed with an error costs only its own tests.
func nightCases(p *config.NightPlan) (cases []nightly.Case, refusals []nightly.Refused) {
	for i := range p.Suites {
		s := &p.Suites[i]
		files, err := testFiles([]string{p.Path(s.Path)})
		if err != nil {
			refusals = append(refusals, nightly.Refused{File: p.Path(s.Path), Wrong: true,
				Reason: fmt.Sprintf("%s: suites[%d].path: %v", s.Where, i, err)})
			continue
		}
		beds := s.Testbeds
		if len(beds) == 0 {
			beds = p.Testbeds
		}
		if len(beds) == 0 {
			beds = []string{""}
		}
		for _, bed := range beds {
			if bed != "" {
				bed = p.Testbed(bed, testbeds.TopologyNames())
			}
			for _, file := range files {
				found, refusal := casesOf(file, bed)
				if refusal != nil {
					refusals = append(refusals, *refusal)
				}
				for _, c := range found {
					if c.Repetitions = s.Repetitions; c.Repetitions == 0 {
						c.Repetitions = p.Repetitions
					}
					cases = append(cases, c)
				}
			}
		}
	}
	return cases, refusals
}

// casesOf returns the cases of a file on a testbed, or why there are none.
func casesOf(file, bed string) (cases []nightly.Case, refusal *nightly.Refused) {
	f := runFlags{testbed: bed}
	plans, err := loadGuarded(file, f)
	if err != nil {
		r := refused(file, f, err)
		return nil, &nightly.Refused{File: file, Testbed: bed, Reason: r.reason.Error(), Wrong: r.wrong}
	}
	for i := range plans {
		cases = append(cases, caseOf(&plans[i], bed))
	}
	return cases, nil
}

// loadGuarded is loadFile for many files, of which one may make it panic.
func loadGuarded(file string, f runFlags) (plans []planned, err error) {
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("%s: reading it failed, which is a bug of candela: %v\n%s", file, p, debug.Stack())
		}
	}()
	return loadFile(file, f)
}

func caseOf(p *planned, bed string) nightly.Case {
	name, point := p.named()
	c := nightly.Case{File: p.file, Testbed: bed, Simulated: true, Bed: config.VirtualTestbed,
		Values: history.PointText(point.Assigned())}
	if point != nil {
		c.Point = point.Index
	}
	var m *config.Metadata
	if t := p.ofSwitch; t != nil {
		m, c.Seed = t.Test.Metadata, t.Test.Seed
		if t.Live() {
			c.Simulated, c.Bed = false, config.NetnsTestbed
			if b := t.Bed(); b != nil {
				c.Bed = b.Name
			}
		}
	} else {
		m, c.Seed = p.Test.Metadata, p.Test.Seed
		c.Bed, c.Simulated = p.Test.Testbed.Name, p.Test.Testbed.Kind == config.KindVirtual
	}
	c.Test = history.Test{Name: name, Path: (&orchestrator.Options{File: p.file}).SuitePath()}
	if m != nil {
		c.Test.ID, c.Test.Owner, c.Test.Requirement, c.Test.Was = m.ID, m.Owner, m.Requirement, m.Was
	}
	return c
}

// checkedPlan lists what a plan would run.
func checkedPlan(cmd *cobra.Command, o *nightly.Options) error {
	runs := 0
	for i := range o.Cases {
		c := &o.Cases[i]
		runs += c.Repetitions
		fmt.Fprintf(cmd.OutOrStdout(), "%s on %s, %d times\n", c.Title(), c.Bed, c.Repetitions)
	}
	fmt.Fprintf(cmd.OutOrStdout(), "%s: ok, %d tests, %d runs\n", o.Plan.File(), len(o.Cases), runs)
	for i := range o.Refused {
		if o.Refused[i].Wrong {
			return statusError{status: orchestrator.ExitUsage}
		}
	}
	return nil
}

// workerCommand is the hidden command of a worker.
const workerCommand = "worker"

func startWorker(_ context.Context, _ string, log *os.File) (nightly.Worker, error) {
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	return nightly.StartProcess(log, self, "nightly", workerCommand)
}

func newNightlyWorker() *cobra.Command {
	return &cobra.Command{
		Use:    workerCommand,
		Short:  "Run the tests that candela nightly asks for on stdin",
		Hidden: true,
		Args:   cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) (err error) {
			var w nightWorker
			defer func() {
				if closing := w.close(); closing != nil {
					err = infrastructure(errors.Join(err, closing))
				}
			}()
			return nightly.Serve(cmd.Context(), cmd.InOrStdin(), cmd.OutOrStdout(), w.run)
		},
	}
}

// nightWorker runs tests one after the other. Its testbeds stay up between them.
type nightWorker struct {
	live    livebeds
	records *recorder
}

func (w *nightWorker) close() error { return errors.Join(w.live.close(), w.records.close()) }

// run runs a test as candela run does.
func (w *nightWorker) run(ctx context.Context, r *nightly.Request) *nightly.Result {
	o, err := w.attempt(ctx, r)
	if err != nil {
		return &nightly.Result{Error: err.Error()}
	}
	result := &nightly.Result{Dir: o.Dir, Verdict: history.Verdict(o.Verdict.Exit), Reasons: o.Verdict.Reasons}
	run, err := history.ReadDir(o.Dir)
	if err != nil {
		return &nightly.Result{Error: err.Error()}
	}
	result.Run, result.Lost = run.ID, framesLost(o.Dir)
	return result
}

// framesLost is how many frames the dumpers of a run lost, as far as its counters say.
func framesLost(dir string) (n int64) {
	var c struct {
		Dumpers []struct {
			Dropped  int64 `json:"dropped"`
			Exceeded int64 `json:"exceeded"`
		} `json:"dumpers"`
	}
	data, err := os.ReadFile(filepath.Join(dir, "counters.json"))
	if err != nil || json.Unmarshal(data, &c) != nil {
		return 0
	}
	for _, d := range c.Dumpers {
		n += d.Dropped + d.Exceeded
	}
	return n
}

func (w *nightWorker) attempt(ctx context.Context, r *nightly.Request) (*orchestrator.Outcome, error) {
	f := runFlags{testbed: r.Testbed}
	if r.Point > 0 {
		f.points = []int{r.Point}
	}
	plans, err := loadFile(r.File, f)
	if err != nil {
		return nil, err
	}
	p := &plans[0]
	waivers, err := loadWaivers(r.Waivers)
	if err != nil {
		return nil, err
	}
	o := orchestrator.Options{
		Out: r.Out, ID: r.ID, Strict: r.Strict, Version: toolVersion(), Command: toolName(), File: r.File, Wall: time.Now,
		Testbed: r.Testbed, Waivers: waivers, Night: r.Night, Executable: executableID(), Repeat: r.Repetition, Workers: 1,
	}
	if t := p.ofSwitch; t != nil {
		p.ofSwitch, err = t.WithSeed(r.Seed)
	} else {
		p.Plan, err = plan.New(p.Test.WithSeed(r.Seed))
	}
	if err != nil {
		return nil, err
	}
	if p.baseline() != "" {
		if w.records == nil {
			if w.records, err = openRecorder(ctx, r.History); err != nil {
				return nil, err
			}
		}
		w.records.baseline(ctx, os.Stderr, p, &o)
	}
	return runPlanned(ctx, &w.live, p, o)
}
