package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"candela.dev/candela/generator/rdma"
	"candela.dev/candela/orchestrator"
	"candela.dev/candela/orchestrator/report/site"
	"candela.dev/candela/reproduce"
	"candela.dev/candela/reproduce/afd"
	"candela.dev/candela/reproduce/aifo"
	"candela.dev/candela/reproduce/comparison"
	"candela.dev/candela/reproduce/deflection"
	"candela.dev/candela/reproduce/experiments"
	"candela.dev/candela/reproduce/hcsfq"
	"candela.dev/candela/reproduce/netlock"
	"candela.dev/candela/reproduce/trimming"
	"candela.dev/candela/testbeds"
	"candela.dev/candela/testbeds/virtual"
)

// reproduceFlags are the options of candela reproduce.
type reproduceFlags struct {
	out    string
	keep   bool
	quick  bool
	jobs   int
	format string
	report string
	junit  string
	set    []string // PROFILE.PARAMETER=VALUE
	loads  []float64
}

func newReproduce() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "reproduce PAPER",
		Short: "Reproduce a paper's results on models of NICs and switches",
		Args:  cobra.NoArgs,
		RunE:  func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	cmd.AddCommand(newReproduceLumina(), newReproduceTrimming(), newReproduceAFD(), newReproduceAIFO(),
		newReproduceDeflection(), newReproduceHCSFQ(), newReproduceNetLock())
	return cmd
}

func newReproduceLumina() *cobra.Command {
	var f reproduceFlags
	cmd := &cobra.Command{
		Use:   "lumina",
		Short: "Reproduce Lumina (SIGCOMM 2023): L1 to L9",
		Long: `Run the tests of configs/lumina on the virtual testbed and compare every value
of the paper with what Candela measures on the NIC models. The models are built
to behave as the paper describes, so most values are constants of a model,
measured back through the chain. The headline counts them apart from values that
follow from a mechanism, that were chosen, missed or not judged. Figures and
sections are those of Yu's thesis (Johns Hopkins 2023), which is more detailed
than the paper (Yu et al., SIGCOMM 2023):

  L1  overhead of injector and mirror        figure 5-7a
  L2  dumpers that lose no packet            figure 5-7b
  L3  time from a loss to the NAK            figure 5-8
  L4  time from a NAK to the retransmission  figure 5-9
  L5  message size and retransmission        figures 5-10 and 5-11
  L6  timeouts                               figure 5-12
  L7  retries until an error                 table 5-II
  L8  pacing of CNPs                         tables 5-III and 5-IV
  L9  go-back-N under many drops             section 5.6.2

With --out, results.json, report.html and one SVG for each figure are written.
The exit status is 1 if a value is out of tolerance.`,
		Example: `  candela reproduce lumina
  candela reproduce lumina --out /tmp/lumina --keep-runs
  candela reproduce lumina --set cx6-dx.PipelineDepth=34
  candela reproduce lumina --format json`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return reproduceLumina(cmd.Context(), cmd, f) },
	}
	fl := cmd.Flags()
	fl.StringVar(&f.out, "out", "", "directory for results.json, report.html and plots")
	reportFlag(cmd, &f.report)
	fl.StringVar(&f.junit, "junit", "", "file for the result as JUnit XML")
	fl.BoolVar(&f.keep, "keep-runs", false, "keep the run directories in --out")
	fl.BoolVar(&f.quick, "quick", false, "use fewer messages and rounds")
	fl.IntVar(&f.jobs, "workers", runtime.GOMAXPROCS(0), "runs at a time")
	renamed(fl, "jobs", "workers")
	fl.StringArrayVar(&f.set, "set", nil, "change a NIC model: PROFILE.PARAMETER=VALUE (may be repeated)")
	fl.StringVar(&f.format, "format", "text", "format of stdout: text or json")
	return cmd
}

func reproduceLumina(ctx context.Context, cmd *cobra.Command, f reproduceFlags) error {
	if err := f.check(); err != nil {
		return err
	}
	build, err := builderWith(f.set)
	if err != nil {
		return err
	}
	cfg := reproduce.Config{
		Build: build, Options: configOptions(""), Out: f.out, Keep: f.keep, Quick: f.quick, Workers: f.jobs,
		Version: toolVersion(), Wall: time.Now,
	}
	m := newExperimentMeter(cmd.ErrOrStderr(), "reproduce lumina", reproduce.Experiments)
	defer m.end()
	cfg.Progress = m.next
	results, err := reproduce.Lumina(ctx, cfg)
	if err != nil {
		return infrastructure(err)
	}
	m.end()
	return presentReproduction(cmd, f, results)
}

// presentReproduction writes results to stdout and into the directory of --out. A value out of tolerance is an exit
// status.
func presentReproduction(cmd *cobra.Command, f reproduceFlags, results *comparison.Results) error {
	if f.out != "" {
		if err := writeReproduction(f.out, results); err != nil {
			return infrastructure(err)
		}
	}
	s := &site.Site{Title: results.Paper, Command: commandLine(cmd, cmd.Flags().Args()), Tables: results.Tables()}
	for i := range results.Plots {
		p := &results.Plots[i]
		s.Figures = append(s.Figures, site.Figure{Name: p.Name, Title: p.Title, Write: p.WriteSVG})
	}
	if err := tablesSite(cmd, f.report, s); err != nil {
		return infrastructure(err)
	}
	if err := checksJUnit(f.junit, results.Checks()); err != nil {
		return infrastructure(err)
	}
	write := results.WriteText
	if f.format == "json" {
		write = results.WriteJSON
	}
	if err := write(cmd.OutOrStdout()); err != nil {
		return infrastructure(err)
	}
	if results.Failed() > 0 {
		return statusError{status: orchestrator.ExitFail}
	}
	return nil
}

// check checks the options and makes the directory of --out.
func (f *reproduceFlags) check() error {
	switch {
	case f.format != "text" && f.format != "json":
		return fmt.Errorf("--format %q: want text or json", f.format)
	case f.keep && f.out == "":
		return errors.New("--keep-runs needs --out")
	case f.jobs < 1:
		return fmt.Errorf("--workers %d: want at least 1", f.jobs)
	}
	if err := junitWritable(f.junit); err != nil {
		return err
	}
	if f.out != "" {
		// An error after minutes of measuring would be too late.
		if err := os.MkdirAll(f.out, 0o777); err != nil {
			return fmt.Errorf("--out: %w", err)
		}
	}
	return nil
}

func newReproduceTrimming() *cobra.Command {
	var f reproduceFlags
	cmd := &cobra.Command{
		Use:   "trimming [RESULT]…",
		Short: "Reproduce packet trimming (arXiv:2207.04967): T1 to T16",
		Long: `Run the tests of configs/trimming on the virtual testbed and compare every value
of the paper with what taps and counters measure on the models of trimming
switches. docs/internals/adr/0008-reproduction.md lists the assumptions where
the paper gives no value. The paper is Popa et al., "Implementing packet
trimming support in hardware" (arXiv:2207.04967):

  T1, T2, T3    arrival of trimmed headers     figures 5a, 5c, 5b
  T4            number of senders              figure 6
  T5, T6, T7    18, 32 and 64 senders          figure 7
  T8, T9, T10   response times                 figures 8 and 9
  T11           only one pipeline is notified  section 6.3
  T12, T13      hardware                       figure 11, its table, figure 12
  T14           a leaf-spine network           section 6.5
  T15, T16      ping and memcached beside TCP  figures 13 and 14

With --out, results.json, report.html and one SVG for each figure are written.
The exit status is 1 if a value is out of tolerance. Without RESULT all are
measured.`,
		Example: `  candela reproduce trimming
  candela reproduce trimming T1 T12
  candela reproduce trimming --out /tmp/trimming --keep-runs
  candela reproduce trimming T7 --set tofino.pessimistic-us=30`,
		RunE: func(cmd *cobra.Command, args []string) error { return reproduceSwitches(cmd, f, args) },
	}
	f.ofSwitches(cmd, "run every fourth point of each sweep")
	renamed(cmd.Flags(), "jobs", "workers")
	return cmd
}

// ofSwitches adds the flags of reproductions on models of switches.
func (f *reproduceFlags) ofSwitches(cmd *cobra.Command, quick string) {
	fl := cmd.Flags()
	fl.StringVar(&f.out, "out", "", "directory for results.json, report.html and plots")
	reportFlag(cmd, &f.report)
	fl.StringVar(&f.junit, "junit", "", "file for the result as JUnit XML")
	fl.BoolVar(&f.keep, "keep-runs", false, "keep the run directories in --out")
	fl.BoolVar(&f.quick, "quick", false, quick)
	fl.IntVar(&f.jobs, "workers", runtime.GOMAXPROCS(0), "runs at a time")
	fl.StringArrayVar(&f.set, "set", nil,
		"change a switch model: MODEL.PARAMETER=VALUE (may be repeated)")
	fl.StringVar(&f.format, "format", "text", "format of stdout: text or json")
}

// ofLoads adds the flag of reproductions that have sweeps over the load.
func (f *reproduceFlags) ofLoads(cmd *cobra.Command) {
	cmd.Flags().Float64SliceVar(&f.loads, "loads", nil, "loads to measure of figures by load (default all)")
}

func newReproduceAFD() *cobra.Command {
	var f reproduceFlags
	cmd := &cobra.Command{
		Use:   "afd [RESULT]…",
		Short: "Reproduce AFD, ETRAP and DPP (Cisco Nexus 9000): A-1 to A-10, B-1",
		Long: `Run the tests of configs/aqm on the virtual testbed and compare what taps and
counters measure on the models of active queue management. The paper (Cisco,
Intelligent Buffer Management on Cisco Nexus 9000 Series Switches) has neither
formulas nor data of its figures. Each value is marked as a statement of the
paper, as a calibration of the specification, which a simulator of the same
algorithms gave, or as one of hardware, which is not reproducible here:

  A-8      the elephant trap, packet by packet        section "Elephant Trap"
  A-9      prioritization, packet by packet           section "DPP"
  A-1      max-min fairness of unresponsive flows     section "AFD Algorithm"
  A-2      TCP flows of different round trips         section "AFD Algorithm"
  A-5      other speeds and numbers of flows          table 1
  A-3      100 KB flows beside elephants              section "DPP"
  A-4      loads of web search through six queues     figures 5 and 6, table 2
  A-7      incast beside elephants                    section "DPP"
  A-6      marks instead of drops                     section "AFD Algorithm"
  A-10     elephants that return as mice              specification, 13
  B-1      buffers of C*RTT/sqrt(N)                   appendix B
  FIGURES  data mining and enterprise, two leaves     figures 3 to 6, table 2

With --out, results.json, report.html and one SVG for each figure are written.
The exit status is 1 if a value is out of tolerance. Without RESULT all are
measured, in the order in which they build on each other.`,
		Example: `  candela reproduce afd
  candela reproduce afd A-8 A-9
  candela reproduce afd A-1 --set afd.kp=0.1
  candela reproduce afd --quick --out afd-results`,
		RunE: func(cmd *cobra.Command, args []string) error { return reproduceSwitches(cmd, f, args) },
	}
	f.ofSwitches(cmd, "run one seed, and fewer points of sweeps")
	return cmd
}

func newReproduceAIFO() *cobra.Command {
	var f reproduceFlags
	cmd := &cobra.Command{
		Use:   "aifo [RESULT]…",
		Short: "Reproduce AIFO beside SP-PIFO and PIFO: F1 to F8, T1, T2",
		Long: `Run the tests of configs/rank on the virtual testbed and compare completion
times, admitted sets and order with the source's. Each value is marked: as of
the data that the authors published with their simulator, as a statement of the
text, or as one of hardware, which is not reproducible here:

  S5     gap to PIFO without a transport         specification, 5
  F6     packets that three flows get through    figure 4-12
  F7     reordering within a flow                figure 4-13
  T1     senders at line rate                    figure 4-15
  T2     CUBIC of Linux on real frames           figure 4-16
  F1     web search at 10 and 40 Gb/s            figure 4-7
  F2     headroom                                figure 4-8
  F3     window and sampling                     figure 4-9
  F4     queue length at 1 and 4 Gb/s            figure 4-10
  F5     queue length at 10 and 40 Gb/s          figure 4-11
  F8     fair queueing at 1 and 4 Gb/s           figure 4-14
  TEXT   statements that the data contradict
  TABLE  resources of a Tofino                   table 4-I

T2 runs the tests of configs/rank-live in network namespaces, at 20 Mb/s: the
shape is compared. Without root its rows are SKIP.
With --out, results.json, report.html and one SVG for each figure are written,
and each point of F1 to F5 and F8 as it ends, in points/: the same build, called
again with the same tests and settings, measures only what is missing.
The exit status is 1 if a value is out of tolerance. Without RESULT all are
measured, which takes hours.`,
		Example: `  candela reproduce aifo F6 F7
  candela reproduce aifo --quick --out aifo-results
  candela reproduce aifo F2 --loads 0.2,0.8 --out aifo-results`,
		RunE: func(cmd *cobra.Command, args []string) error { return reproduceSwitches(cmd, f, args) },
	}
	f.ofSwitches(cmd, "run three loads, for 0.1 simulated seconds")
	f.ofLoads(cmd)
	return cmd
}

func newReproduceHCSFQ() *cobra.Command {
	var f reproduceFlags
	cmd := &cobra.Command{
		Use:   "hcsfq [RESULT]…",
		Short: "Reproduce HCSFQ, fair queueing without core state",
		Long: `Run the tests of configs/fair on the virtual testbed and compare what flows get
with statements of the source and with max-min shares. Each value is marked as
a statement of the text or as a calibration of the specification:

  Q1    equal weights                      figure 3-6a
  Q2    weights 1 and 2                    figure 3-6b
  Q3    a flow that rises to 40 Gb/s       figure 3-7
  Q4    flows that join and leave          figure 3-10
  Q5    two tenants                        figure 3-13a
  Q6    two tenants and weights            figure 3-13b
  Q7    what a flow leaves, with a tree    figure 3-2b
  Q8    the same without                   figure 3-2a
  E7    TCP, weights                       figure 3-8
  E8    TCP beside aggressive flows        figure 3-9a
  Q9    TCP beside UDP, through FIFO       figure 3-12
  Q10   the same through HCSFQ             figure 3-12
  Q11   RTTs of 0.3 and 0.7 ms             figure 3-9b
  E10   TCP flows that join and leave      figure 3-11
  E12   two tenants with TCP               figure 3-14
  K     Q10, Q11 and E12 with other K      specification, 11
  E1, E5, E6, E9, E11
        the flows of Q1, Q5, Q6, Q11 and Q10 through FIFO,
        CSFQ, HPIFO, AFQ, SP-PIFO, and with DCTCP
  LIVE  E7 to E10 with the TCP of Linux    figures 3-8, 3-9, 3-11
  S1    web search (Q12)                   figure 3-15
  S2    with UDP (Q13)                     figure 3-16
  S3    incast (Q14)                       figure 3-17
  S4    web search of two tenants (Q15)    figure 3-18
  S5    50 tenants (Q16)                   figure 3-19
  S1A to S5A
        the same with K, K_c and the floor of alpha
        of the published simulator
  TEXT  statements that the text contradicts

LIVE takes ten minutes on real frames (configs/fair-live), and says SKIP where
there are no network namespaces. With --out, results.json, report.html and one
SVG for each figure are written, and each point of S1 to S5 is kept. The exit
status is 1 if a value is out of tolerance. Without RESULT all are measured,
which takes hours.`,
		Example: `  candela reproduce hcsfq Q1 Q5
  candela reproduce hcsfq --quick --out hcsfq-results`,
		RunE: func(cmd *cobra.Command, args []string) error { return reproduceSwitches(cmd, f, args) },
	}
	f.ofSwitches(cmd, "run one seed; of S1, S2 and S4 three loads, for 0.1 simulated seconds")
	f.ofLoads(cmd)
	return cmd
}

func newReproduceDeflection() *cobra.Command {
	var f reproduceFlags
	cmd := &cobra.Command{
		Use:   "deflection [RESULT]…",
		Short: "Reproduce packet deflection (CoNEXT 2023): E4, table 1, figures",
		Long: `Run the tests of configs/deflection on the virtual testbed and compare times
of queries with those of the source. Each value is marked as of the data
that the authors published with their simulator, as a statement of the text, or
as one of hardware, which is not reproducible here:

  E4     six schemes at 1 Gb/s, 55 to 95 %         the authors' artifact
  PATHS  what E4 owes to power-of-two forwarding
  F12A   alpha, on E4                              figures 12a, 12b
  E1     six schemes at 10 and 40 Gb/s             table 1
  F5B, F5C
         the testbed (E0), emulated                figures 5b, 5c
  T2     distributions of priority values          table 2
  F12C, F12D, F14
         window, sampling, old information, on E4  figures 12c, 12d, 14
  F6     Reno, DCTCP, Swift                        figures 1, 6
  F7, F8 goodput, reordering                       figures 7, 8
  F9     450 servers, flows of 100 KB              figures 9a, 9b
  F10    a fat-tree                                figure 10
  F11    100 Gb/s                                  figure 11
  F13    probabilistic PD                          figure 13
  F17    transports                                figure 17
  TEXT   statements that leave open what they mean
  TABLE  resources of a Tofino

With --out, results.json, report.html and one SVG for each figure are written,
and each point as it ends, in points/: the same build, called again with the
same tests and settings, measures only what is missing. The exit status is 1 if
a value is out of tolerance. Without RESULT all are measured, which takes hours.`,
		Example: `  candela reproduce deflection E4 --out deflection-results
  candela reproduce deflection --quick --out deflection-results`,
		RunE: func(cmd *cobra.Command, args []string) error { return reproduceSwitches(cmd, f, args) },
	}
	f.ofSwitches(cmd, "simulate a fraction of the time, and of E1 to E3 fewer hosts")
	f.ofLoads(cmd)
	return cmd
}

func newReproduceNetLock() *cobra.Command {
	var f reproduceFlags
	cmd := &cobra.Command{
		Use:   "netlock [RESULT]…",
		Short: "Reproduce NetLock, a lock manager inside the switch (SIGCOMM 2020)",
		Long: `Run the tests of configs/lock on the virtual testbed and compare grants with
those of the source. Each value is marked SIM if a simulation can reproduce it,
and HW if it depends on the speed of a switch or server of the source; values
that follow from a parameter that was chosen say so:

  LAW  capacity, a small allocation (R17, R18)   figure 2-7
  E1   shared locks (R1, R2)                     figure 2-8a
  E2   exclusive locks without contention (R1)   figure 2-8b
  E3   exclusive locks, by their number (R3)     figures 2-8c, 2-8d
  E4   switch and lock server (R4)               figure 2-9
  E5   TPC-C, 10 clients, 2 servers (R5 to R8, R10)
                                                 figure 2-10
  E6   TPC-C, 6 clients, 6 servers (R9)          figure 2-11
  E7   priorities and quotas (R14, R15)          figure 2-12
  E8   knapsack and random allocation (R11)      figure 2-13
  E9   slots and think time (R12, R13)           figure 2-14
  E10  failure of the switch (R16)               figure 2-15

With --out, results.json, report.html and one SVG for each figure are written.
The exit status is 1 if a value is out of tolerance. Without RESULT all are
measured, which takes minutes.`,
		Example: `  candela reproduce netlock E3
  candela reproduce netlock --quick --out netlock-results`,
		RunE: func(cmd *cobra.Command, args []string) error { return reproduceSwitches(cmd, f, args) },
	}
	f.ofSwitches(cmd, "simulate less time and fewer points")
	return cmd
}

// reproductions are those on models of switches, by command.
func reproductions() map[string]experiments.Reproduction {
	return map[string]experiments.Reproduction{
		"afd": afd.Reproduction(), "aifo": aifo.Reproduction(), "hcsfq": hcsfq.Reproduction(),
		"deflection": deflection.Reproduction(), "netlock": netlock.Reproduction(), "trimming": trimming.Reproduction(),
	}
}

// reproduceSwitches measures results on models of switches.
func reproduceSwitches(cmd *cobra.Command, f reproduceFlags, ids []string) error {
	p := reproductions()[cmd.Name()]
	if err := f.check(); err != nil {
		return err
	}
	cfg := experiments.Config{Out: f.out, Keep: f.keep, Quick: f.quick, Workers: f.jobs, Version: toolVersion(),
		Wall: time.Now, Set: f.set, Loads: f.loads}
	if err := p.Check(&cfg, ids); err != nil {
		return err
	}
	n := len(ids)
	if n == 0 {
		n = len(p.IDs())
	}
	m := newExperimentMeter(cmd.ErrOrStderr(), "reproduce "+cmd.Name(), n)
	defer m.end()
	cfg.Progress = m.next
	results, err := p.Run(cmd.Context(), cfg, ids...)
	if err != nil {
		return infrastructure(err)
	}
	m.end()
	return presentReproduction(cmd, f, results)
}

// builderWith returns what builds virtual testbeds with the changed NIC models.
func builderWith(changes []string) (orchestrator.Builder, error) {
	models := make(map[string]rdma.Profile)
	for _, p := range append(rdma.Profiles(), rdma.Variants()...) {
		models[p.Name] = p
	}
	for _, change := range changes {
		name, value, ok := strings.Cut(change, "=")
		profile, parameter, named := strings.Cut(name, ".")
		p, known := models[profile]
		switch {
		case !ok || !named:
			return nil, fmt.Errorf("--set %s: want PROFILE.PARAMETER=VALUE", change)
		case !known:
			_, err := rdma.ProfileByName(profile)
			return nil, fmt.Errorf("--set %s: %w", change, err)
		}
		if err := p.Set(parameter, value); err != nil {
			return nil, fmt.Errorf("--set %s: %w", change, err)
		}
		models[profile] = p
	}
	return func(spec testbeds.Spec) (orchestrator.Testbed, error) {
		return virtual.NewWith(spec, func(name string) (rdma.Profile, error) {
			if p, ok := models[name]; ok {
				return p, nil
			}
			return rdma.ProfileByName(name) // whose error lists the models
		})
	}, nil
}

// writeReproduction writes results.json, report.html and the plots into dir.
func writeReproduction(dir string, r *comparison.Results) error {
	if err := os.MkdirAll(dir, 0o777); err != nil {
		return err
	}
	if err := writeTo(filepath.Join(dir, "results.json"), r.WriteJSON); err != nil {
		return err
	}
	if err := writeTo(filepath.Join(dir, "report.html"), r.WriteHTML); err != nil {
		return err
	}
	for i := range r.Plots {
		if err := writeTo(filepath.Join(dir, r.Plots[i].Name+".svg"), r.Plots[i].WriteSVG); err != nil {
			return err
		}
	}
	return nil
}

func writeTo(path string, write func(io.Writer) error) (err error) {
	file, err := os.Create(path)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, file.Close()) }()
	return write(file)
}
