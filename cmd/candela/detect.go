package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime/debug"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"candela.dev/candela/generator/rdma"
	"candela.dev/candela/orchestrator"
	"candela.dev/candela/orchestrator/detection"
	"candela.dev/candela/orchestrator/reduction"
	"candela.dev/candela/orchestrator/report/site"
)

// detectFlags are the options of candela detect.
type detectFlags struct {
	configs   string
	profiles  []string
	scenarios int
	first     uint64
	format    string
	testbed   string
	bugs      []string
	report    string
	junit     string
	line      string // the command line
}

func newDetect() *cobra.Command {
	var f detectFlags
	cmd := &cobra.Command{
		Use:   "detect",
		Short: "Measure how well the analyzers separate broken from correct NICs",
		Long: `Measure detection in three parts:
  - each seeded bug on a NIC model: the rule that is meant for it must fire
  - every example on correct models: no rule may fire
  - random scenarios on correct models: no rule may fire

With --testbed only the first part runs, on real packets, such as those of
network namespaces. A test with events that netns lacks runs on netns-afpacket.
Bugs that software hosts cannot show are listed with the reason.

The exit status is 1 if a bug was missed or caught only by another rule, or if
there was a false alarm.`,
		Example: `  candela detect
  candela detect --profiles cx5 --scenarios 0
  candela detect --scenarios 10000
  candela detect --testbed netns --profiles spec
  candela detect --testbed netns --profiles spec --bugs invalidate-ignored,no-nack`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, args []string) error {
			f.line = commandLine(cmd, args)
			return detect(cmd, f)
		},
	}
	fl := cmd.Flags()
	fl.StringVar(&f.configs, "configs", "configs", "directory of the examples")
	fl.StringSliceVar(&f.profiles, "profiles", nil, "profiles instead of all")
	fl.IntVar(&f.scenarios, "scenarios", 1000, "number of random scenarios")
	fl.Uint64Var(&f.first, "first", 0, "number of the first random scenario")
	fl.StringVar(&f.testbed, "testbed", "",
		"testbed instead of the virtual one: netns, netns-afpacket, or the file of a description")
	fl.StringSliceVar(&f.bugs, "bugs", nil, "seeded bugs instead of all")
	reportFlag(cmd, &f.report)
	fl.StringVar(&f.junit, "junit", "", "file for the result as JUnit XML")
	fl.StringVar(&f.format, "format", "text", "format of stdout: text or json")
	return cmd
}

func detect(cmd *cobra.Command, f detectFlags) error {
	if f.format != "text" && f.format != "json" {
		return fmt.Errorf("--format %q: want text or json", f.format)
	}
	if f.scenarios < 0 {
		return fmt.Errorf("--scenarios %d: want at least 0", f.scenarios)
	}
	if err := junitWritable(f.junit); err != nil {
		return err
	}
	if _, err := os.Stat(filepath.Join(f.configs, "detect")); err != nil {
		return fmt.Errorf("--configs: %w\n  want the directory configs of Candela's sources, with a test for each bug",
			err)
	}
	if f.profiles == nil {
		for _, p := range rdma.Profiles() {
			f.profiles = append(f.profiles, p.Name)
		}
	}
	for _, p := range f.profiles {
		if _, err := rdma.ProfileByName(p); err != nil {
			return err
		}
	}
	if f.testbed != "" {
		if cmd.Flags().Changed("scenarios") {
			return errors.New("--scenarios and --testbed exclude each other: random scenarios run on the virtual testbed only")
		}
		f.scenarios = 0
	}
	defer debug.SetGCPercent(debug.SetGCPercent(collectAt))
	bench := detection.Bench{
		NewRunner: func() (reduction.Runner, func() error) {
			s := newScratch()
			return s.Run, s.Close
		},
		Options: configOptions(""), Configs: f.configs, Only: f.bugs, Wall: time.Now,
	}
	if f.testbed != "" {
		if err := onTestbed(&bench, f.testbed); err != nil {
			return err
		}
	}
	report, err := measure(cmd, &bench, f)
	if err != nil {
		return err
	}
	if err := checksJUnit(f.junit, report.Checks()...); err != nil {
		return infrastructure(err)
	}
	if f.format == "json" {
		enc := json.NewEncoder(cmd.OutOrStdout())
		enc.SetIndent("", "  ")
		err = enc.Encode(report)
	} else {
		err = fitted(cmd.OutOrStdout(), report.Text)
	}
	if err != nil {
		return infrastructure(err)
	}
	s := &site.Site{Title: "Detection of seeded bugs", Command: f.line, Tables: report.Tables()}
	if err := tablesSite(cmd, f.report, s); err != nil {
		return infrastructure(err)
	}
	if len(report.Faults()) > 0 {
		return statusError{status: orchestrator.ExitFail}
	}
	return nil
}

// onTestbed makes a bench run its tests on a live testbed.
func onTestbed(b *detection.Bench, name string) error {
	bed, fallback, err := modelTestbed(name)
	if err != nil {
		return err
	}
	b.Options, b.Workers, b.SoftwareHosts = configOptions(name), 1, !bed.HardwareTimes()
	if fallback != "" {
		o := configOptions(fallback)
		b.Fallback = &o
	}
	b.NewRunner = func() (reduction.Runner, func() error) {
		r := new(liveRunner)
		return r.run, r.close
	}
	return nil
}

func measure(cmd *cobra.Command, bench *detection.Bench, f detectFlags) (*detection.Report, error) {
	report := &detection.Report{Schema: detection.ReportSchema}
	m := newMeter(cmd.ErrOrStderr(), "detect", f.scenarios)
	defer m.end()
	bench.Done = m.done
	for _, p := range f.profiles {
		steps, err := bench.Steps(p, f.testbed == "" && f.bugs == nil)
		if err != nil {
			return nil, err
		}
		m.expect(steps)
	}
	for _, p := range f.profiles {
		bugs, err := bench.Bugs(cmd.Context(), p)
		if err != nil {
			return nil, err
		}
		report.Bugs = append(report.Bugs, bugs...)
		if f.testbed != "" || f.bugs != nil {
			continue
		}
		silence, err := bench.Silence(cmd.Context(), p)
		if err != nil {
			return nil, err
		}
		report.Silence = append(report.Silence, silence...)
	}
	if f.scenarios == 0 {
		return report, nil
	}
	m.clear()
	fmt.Fprintf(cmd.ErrOrStderr(), "%d random scenarios on %s\n", f.scenarios, strings.Join(f.profiles, ", "))
	var err error
	report.Scenarios, err = bench.Scenarios(cmd.Context(), f.first, f.scenarios, f.profiles)
	return report, err
}
