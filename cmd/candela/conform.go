package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"candela.dev/candela/clock"
	"candela.dev/candela/generator/rdma"
	"candela.dev/candela/orchestrator"
	"candela.dev/candela/orchestrator/config"
	"candela.dev/candela/orchestrator/conformance"
	"candela.dev/candela/orchestrator/report/site"
)

// conformFlags are the options of candela conform.
type conformFlags struct {
	profile string
	testbed string
	bugs    []string
	out     string
	format  string
	verbose bool
	workers int
	peer    string
	role    string
	nak     float64 // us
	react   float64 // us
	report  string
	junit   string
	line    string // the command line
}

func newConform() *cobra.Command {
	var f conformFlags
	cmd := &cobra.Command{
		Use:   "conform",
		Short: "Qualify a NIC against the transport rules of the specification",
		Long: `Run the conformance suite on a NIC model and judge it rule by rule: the
transport rules that can be observed on the wire, from IBTA volume 1, chapter 9
(reliable connections) and annex A17 (RoCEv2). A rule passes if the trace proves
that its situation occurred and was handled correctly. Otherwise it fails, or is
reported as not exercised with the reason.

The specification does not limit how soon a NAK is sent and how soon a requester
reacts to it. The suite limits both by --nak-us and --reaction-us; without these
flags, by twice the latency of the profile plus 20 us.

With --peer the other host is another NIC model, and --role is the side of
--profile. The findings are about the pair.

With --testbed vm the device under test is Linux's soft-RoCE in virtual
machines; with the description of a lab, the RDMA devices of its hosts. Features
that soft-RoCE lacks by design are not exercised. With --testbed netns the
models exchange real packets; tests with events that its switch lacks run on
netns-afpacket. On all these testbeds times are reported and judged only against
--nak-us and --reaction-us, except those of hardware.

The report is in conformance.md and conformance.json, next to the run
directories. The exit status is 1 if a rule failed.`,
		Example: `  candela conform --profile cx5
  candela conform --profile spec --bugs nack-psn-plus-one
  candela conform --profile cx5 --nak-us 5 --reaction-us 20
  candela conform --profile cx5-slow-path --peer e810-no-migreq --role responder
  candela conform --profile e810 --verbose --format json
  candela conform --testbed vm
  candela conform --testbed netns --profile cx5 --bugs no-nack`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, args []string) error {
			f.line = commandLine(cmd, args)
			return conform(cmd, f)
		},
	}
	fl := cmd.Flags()
	fl.StringVar(&f.profile, "profile", "spec", "NIC model of both hosts")
	fl.StringVar(&f.testbed, "testbed", "",
		"testbed instead of the virtual one: netns, vm, or the file of a description, also of a lab with RDMA devices")
	fl.StringSliceVar(&f.bugs, "bugs", nil, "seeded bugs of both hosts")
	fl.StringVar(&f.peer, "peer", "", "NIC model of the other host (default: the same on both)")
	fl.StringVar(&f.role, "role", "requester", "side of --profile in a run with --peer: requester or responder")
	fl.Float64Var(&f.nak, "nak-us", 0, "longest time from the packet after a gap to the NAK, in us; 0: from the profile")
	fl.Float64Var(&f.react, "reaction-us", 0, "longest time from a NAK to the retransmission, in us; 0: from the profile")
	fl.StringVar(&f.out, "out", "", "directory for the report and the run directories (default runs/conform-PROFILE)")
	fl.StringVar(&f.report, "report", "",
		"directory for a static site of the result (default report in --out); none: no site")
	fl.StringVar(&f.junit, "junit", "", "file for the result as JUnit XML")
	fl.StringVar(&f.format, "format", "text", "format of stdout: text or json")
	fl.BoolVarP(&f.verbose, "verbose", "v", false, "also print the rules that pass")
	fl.IntVar(&f.workers, "workers", 0, "runs at a time; 0: one on each CPU")
	return cmd
}

func conform(cmd *cobra.Command, f conformFlags) (err error) {
	if err := checkConform(&f); err != nil {
		return err
	}
	suite := conformance.Suite{
		Build: buildTestbed, Options: configOptions(""), Profile: f.profile, Bugs: f.bugs, Out: f.out, Workers: f.workers,
		Version: toolVersion(), Command: toolName(), Wall: time.Now,
		Peer: f.peer, MaxNAK: clock.Duration(f.nak * float64(clock.Microsecond)),
		MaxReaction: clock.Duration(f.react * float64(clock.Microsecond)),
		Declared:    declaredLatencies,
	}
	if f.role == config.Responder.String() {
		suite.Role = config.Responder
	}
	var live livebeds
	defer func() { err = errors.Join(err, infrastructureIf(live.close())) }()
	if f.testbed != "" {
		if err := equipSuite(cmd.Context(), &suite, &live, f.testbed); err != nil {
			return err
		}
	}
	m := newMeter(cmd.ErrOrStderr(), "conform", 0)
	defer m.end()
	suite.Begun = m.expect
	suite.Done = m.done
	report, err := suite.Qualify(cmd.Context(), conformance.Catalogue())
	m.end()
	if err != nil {
		return infrastructure(err)
	}
	err = errors.Join(
		writeFile(filepath.Join(f.out, "conformance.md"), report.Markdown),
		writeFile(filepath.Join(f.out, "conformance.json"), report.JSON),
	)
	err = errors.Join(err, checksJUnit(f.junit, report.Checks()))
	s := &site.Site{Title: "Conformance of " + cmp.Or(report.Device, report.Profile), Command: f.line,
		Tables: report.Tables()}
	err = errors.Join(err, tablesSite(cmd, cmp.Or(f.report, freeSite(f.out)), s, report.RunDirs(f.out)...))
	if f.format == "json" {
		err = errors.Join(err, report.JSON(cmd.OutOrStdout()))
	} else {
		err = errors.Join(err, fitted(cmd.OutOrStdout(), func(w io.Writer) error { return report.Text(w, f.verbose) }))
		fmt.Fprintf(cmd.OutOrStdout(), "report  %s\n", filepath.Join(f.out, "conformance.md"))
	}
	if err != nil {
		return infrastructure(err)
	}
	switch {
	case report.Breached():
		return statusError{status: orchestrator.ExitFail}
	case len(report.Broken) > 0:
		return infrastructure(fmt.Errorf("%d runs ended with an error, twice: without them the report qualifies nothing",
			len(report.Broken)))
	case !report.OK():
		return statusError{orchestrator.ExitInvalid, errors.New("no rule was exercised")}
	}
	return nil
}

// equipSuite replaces the NIC models by the devices of a testbed.
func equipSuite(ctx context.Context, s *conformance.Suite, live *livebeds, name string) error {
	bed, err := config.LoadTestbed(name)
	if err != nil {
		return err
	}
	if bed.Kind == config.KindNetns {
		return modelsOn(ctx, s, live, name)
	}
	describe := live.device
	switch {
	case hasRDMA(bed):
		describe = labDevice
	case bed.Kind != config.KindVM:
		return fmt.Errorf("--testbed %s is of kind %s: want vm, with soft-RoCE, lab with an RDMA device as a host, or "+
			"netns, with NIC models on real packets", name, bed.Kind)
	}
	s.Options, s.Build, s.Declared = configOptions(name), live.builder(ctx, bed), nil
	if s.Device, err = describe(ctx, bed); err != nil {
		return infrastructure(err)
	}
	return nil
}

// modelsOn makes the suite run its models on real packets. The latencies that a profile declares do not apply to a
// machine.
func modelsOn(ctx context.Context, s *conformance.Suite, live *livebeds, name string) error {
	_, fallback, err := modelTestbed(name)
	if err != nil {
		return err
	}
	s.Options, s.Declared, s.Real = configOptions(name), nil, true
	if fallback != "" {
		o := configOptions(fallback)
		s.Fallback = &o
	}
	s.BuildFor = func(bed *config.Testbed) orchestrator.Builder { return live.builder(ctx, bed) }
	return nil
}

// declaredLatencies returns the latencies of a profile, zero for an unknown one.
func declaredLatencies(profile string) rdma.Latencies {
	p, err := rdma.ProfileByName(profile)
	if err != nil {
		return rdma.Latencies{}
	}
	return p.Latencies()
}

// checkPair refuses a peer and bounds that make no sense.
func checkPair(f *conformFlags) error {
	if f.role != config.Requester.String() && f.role != config.Responder.String() {
		return fmt.Errorf("--role %q: want requester or responder", f.role)
	}
	if f.nak < 0 || f.react < 0 {
		return fmt.Errorf("--nak-us %g and --reaction-us %g: want at least 0", f.nak, f.react)
	}
	if f.peer == "" {
		return nil
	}
	if _, err := rdma.ProfileByName(f.peer); err != nil {
		return fmt.Errorf("--peer: %w", err)
	}
	return nil
}

// checkConform refuses what does not exist, and fills in the default directory.
func checkConform(f *conformFlags) error {
	if f.format != "text" && f.format != "json" {
		return fmt.Errorf("--format %q: want text or json", f.format)
	}
	if f.testbed != "" && (f.peer != "" || len(f.bugs) > 0) {
		bed, err := config.LoadTestbed(f.testbed)
		if err != nil {
			return err
		}
		if bed.Kind == config.KindVM || hasRDMA(bed) {
			return fmt.Errorf("--testbed %s has a real device: --peer and --bugs need NIC models", f.testbed)
		}
	}
	if err := junitWritable(f.junit); err != nil {
		return err
	}
	if f.workers < 0 {
		return fmt.Errorf("--workers %d: want at least 0", f.workers)
	}
	if _, err := rdma.ProfileByName(f.profile); err != nil {
		return fmt.Errorf("--profile: %w", err)
	}
	if err := checkPair(f); err != nil {
		return err
	}
	var known []string
	for _, b := range rdma.Catalogue() {
		known = append(known, b.Name)
	}
	for _, b := range f.bugs {
		if !slices.Contains(known, b) {
			return fmt.Errorf("--bugs: %w", config.NoSuch("seeded bug", b, known))
		}
	}
	if f.out == "" {
		f.out = filepath.Join("runs", "conform-"+f.profile)
		if f.testbed != "" {
			f.out = filepath.Join("runs", "conform-"+strings.TrimSuffix(filepath.Base(f.testbed), ".yml"))
			if f.profile != "spec" {
				f.out += "-" + f.profile
			}
		}
		if f.peer != "" {
			f.out += "-" + f.role + "-of-" + f.peer
		}
	}
	return nil
}
