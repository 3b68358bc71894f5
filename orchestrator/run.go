// Package orchestrator runs tests: it prepares hosts, programs the injector, records, collects, reconstructs, checks
// integrity, analyses and judges, in that order and the same way on every testbed (design, "One run"). It owns the run
// directory and the verdict.
package orchestrator

import (
	"context"
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"time"

	"candela.dev/candela/analyzers"
	"candela.dev/candela/analyzers/trim"
	"candela.dev/candela/dumper"
	"candela.dev/candela/generator"
	"candela.dev/candela/injector"
	"candela.dev/candela/orchestrator/config"
	"candela.dev/candela/orchestrator/plan"
	"candela.dev/candela/orchestrator/report"
	"candela.dev/candela/testbeds"
	"candela.dev/candela/trace"
)

// A Testbed is where a test runs. One goroutine calls its methods in the order listed here. Each method returns when
// ctx ends. An error of any of them is an infrastructure failure.
type Testbed interface {
	// Prepare makes the hosts and their queue pairs ready and returns the QPNs and initial PSNs that they chose.
	Prepare(ctx context.Context) ([]injector.Connection, error)
	// Injector returns the access to the injector.
	Injector(ctx context.Context) (testbeds.Access, error)
	// Environment describes the testbed as read back from its components.
	Environment(ctx context.Context) (testbeds.Environment, error)
	// StartDumpers makes every dumper ready to write its shards into dir.
	StartDumpers(ctx context.Context, dir string) error
	// Counters reads the hosts' NIC counters: once before the traffic and once after.
	Counters(ctx context.Context) ([]testbeds.HostCounters, error)
	// Run starts the traffic and returns when it has ended and the wire is quiet.
	Run(ctx context.Context) (generator.Report, error)
	// StopDumpers ends the recording and returns the shards' names in dir.
	StopDumpers(ctx context.Context) (testbeds.Dump, error)
	// Close tears everything down. It is called once, even after a failed step.
	Close() error
}

// A MemoryTestbed is a testbed whose dumpers can also write their shards to memory.
type MemoryTestbed interface {
	Testbed
	// RecordTo is StartDumpers with shards that create opens.
	RecordTo(ctx context.Context, create func(name string) (io.WriteCloser, error)) error
}

// A Blamer is a testbed that may know the root cause of a failed step.
type Blamer interface {
	// Blame returns the root cause of err, the error of a step, or err itself.
	Blame(err error) error
}

// A Builder makes the testbed for a specification.
type Builder func(testbeds.Spec) (Testbed, error)

// Steps of a run, in order (design, "One run").
const (
	stepPrepare     = "prepare hosts"
	stepCabling     = "check cabling"
	stepProgram     = "program injector"
	stepDumpers     = "start dumpers"
	stepTraffic     = "run traffic"
	stepCollect     = "collect"
	stepReconstruct = "reconstruct"
	stepCheck       = "check integrity"
	stepAnalyse     = "analyse"
)

// Options configure a run.
type Options struct {
	Out     string // parent of run directories
	ID      string // of the run; empty: the test's name
	Strict  bool   // warnings fail
	Version string // of the tool, for run.json
	Command string // how the tool was called, for the commands that a report suggests
	File    string // the test's file name
	Suite   string // root of the suite that File is in; empty: the directory of File
	Night   string // of a nightly plan, YYYY-MM-DD; empty: the day on which the run starts
	// Executable identifies the program, for the ids of runs; empty: Version does.
	Executable string
	Testbed    string // overrides the testbed of the file, as given; empty: the file's
	Repeat     int    // 1-based repetition; 0: not repeated
	Workers    int    // that simulate a network of switches, if it can be divided; 0: one
	Wall       func() time.Time
	Progress   func(step string) // called before each step; nil: never
	// Application starts what makes the traffic of tests with traffic.external; nil: it starts by itself.
	Application Application
	// Waivers excuse known violations; nil: none.
	Waivers *Waivers
	// Baseline has earlier runs, for tests that compare metrics with them; nil: there are none, and that is not judged.
	Baseline Baseline
	// Calibration corrects latencies; nil: they are reported only as seen at the switch.
	Calibration *Calibration
	// NoReports leaves out junit.xml, report.html and the illustrations of findings.
	NoReports bool
	// Discard writes nothing, captures included: the outcome has neither report nor directory. It is for tests of
	// switches, whose judges need no files.
	Discard bool

	// Both serve a [Scratch], whose outcomes have no report: memory replaces the run directory on disk, and session reuses
	// the injector's client.
	memory  *memory
	session *session

	// follow is the event whose packets analyzer trim follows instead of trims. It is set in a run that is compared with a
	// run with trims.
	follow trace.EventType
}

// Outcome is the result of a run.
type Outcome struct {
	Verdict  Verdict
	Report   *report.Report      // nil of a [Scratch]
	Analysis *analyzers.Analysis // nil if nothing was analysed
	Dir      string              // the run directory, complete or abandoned
	// Generator is the report of the generators; zero if the traffic never ran.
	Generator generator.Report

	// EventsFired is how many events of the test hit a packet.
	EventsFired int

	losses []trim.Packet // that analyzer trim followed
	facts  *facts        // of a [Scratch]'s run that failed
}

// facts are the inputs of the verdict and the reports.
type facts struct {
	plan        *plan.Plan
	connections []injector.Connection
	known       *trace.Connections
	counters    Counters
	generator   generator.Report
	hits        []uint64 // by intent
	integrity   *trace.IntegrityReport
	checked     *trace.Checked // nil without integrity
	summary     *Summary
	analysis    *analyzers.Analysis
	workers     int                  // parallel workers, each for some of the connections; 0: one
	follow      trace.EventType      // that analyzer trim follows; EventNone: trims
	losses      func() []trim.Packet // packets that trim followed; nil before the analysis
	comparison  *Comparison          // with a paired run; nil: none

	miscabled      []string         // differences from the described cabling; the run ended there
	cables         []testbeds.Cable // by side; none: the testbed records no frames
	trustedCables  []string         // unverified cables, each with the reason
	applicationEnd string           // how an application that made the traffic failed; empty: it did not
	soundCables    bool             // the testbed is in this process: only the injector damages frames

	calibration *Calibration // nil: none
	waivers     *Waivers     // nil: none

	file     string // the test's file name
	baseline Baseline
	testbed  string // overrides the testbed of the file; empty: not overridden
	strict   bool
	version  string
	command  string // how the tool was called
	repeat   int
}

// run is a NIC test in progress. Each step stores what the next steps need.
type run struct {
	facts
	*Cycle
	build Builder
	bed   Testbed

	access      testbeds.Access
	client      *injector.Client
	located     bool // every machine was found at its port
	program     *injector.Program
	environment testbeds.Environment
	dump        testbeds.Dump
	merge       dumper.Reconstruction
}

// Run runs p once on the testbed that build makes, writes the run directory and judges, as [Execute] does.
func Run(ctx context.Context, p *plan.Plan, build Builder, o Options) (*Outcome, error) {
	return Execute(ctx, &run{build: build, facts: facts{
		plan: p, file: o.File, testbed: o.Testbed, strict: o.Strict, version: o.Version, command: o.Command, repeat: o.Repeat,
		calibration: o.Calibration, waivers: o.Waivers, follow: o.follow, baseline: o.Baseline,
	}}, o)
}

func (r *run) Document() RunDocument {
	t := r.plan.Test
	return RunDocument{Name: t.Name, ConfigSHA256: t.Hash(), Testbed: t.Testbed.Name, Seed: t.Seed,
		Point: t.Point.Assigned(), Metadata: t.Metadata, Simulated: t.Testbed.Kind == config.KindVirtual}
}

func (r *run) Prepare(c *Cycle) []Step {
	r.Cycle = c
	return []Step{{Do: r.buildTestbed}, {stepPrepare, r.prepareHosts}, {stepCabling, r.checkCabling}}
}

func (r *run) Program() []Step {
	return []Step{{stepProgram, r.programInjector}, {stepDumpers, r.startDumpers}}
}

func (r *run) Run() []Step { return []Step{{stepTraffic, r.traffic}} }

func (r *run) Collect() []Step {
	return []Step{{stepCollect, r.collect}, {stepReconstruct, r.reconstruct}}
}

func (r *run) Judge() []Step { return []Step{{stepCheck, r.check}, {stepAnalyse, r.analyse}} }

func (r *run) buildTestbed(context.Context) (err error) {
	t := r.plan.Test
	if err := errors.Join(
		r.WriteText("config.yml", func() []byte { return t.WithTestbedFile("testbed.yml").YAML() }),
		r.WriteText("testbed.yml", t.Testbed.YAML),
	); err != nil {
		return err
	}
	if r.calibration != nil {
		if err := r.Dir.WriteJSON(calibrationFile, r.calibration); err != nil {
			return err
		}
	}
	if r.bed, err = r.build(specOf(r.plan)); err != nil {
		return fmt.Errorf("build testbed: %w", err)
	}
	return nil
}

// CleanUp tears the testbed down.
func (r *run) CleanUp(failed bool) error {
	if r.bed == nil {
		return nil
	}
	r.endSession(failed)
	if err := r.bed.Close(); err != nil {
		return fmt.Errorf("tear down testbed: %w", err)
	}
	return nil
}

// Blame asks the testbed for the root cause of a failed step.
func (r *run) Blame(err error) error {
	if b, ok := r.bed.(Blamer); ok {
		return b.Blame(err)
	}
	return err
}

func (r *run) prepareHosts(ctx context.Context) (err error) {
	if r.connections, err = r.bed.Prepare(ctx); err != nil {
		return err
	}
	if !r.external() {
		if err := r.know(r.connections); err != nil {
			return err
		}
	}
	if r.environment, err = r.bed.Environment(ctx); err != nil {
		return err
	}
	return r.Dir.WriteJSON("environment.json", r.environment)
}

// know keeps the connections.
func (r *run) know(conns []injector.Connection) (err error) {
	r.connections = conns
	if r.known, err = knownConnections(r.plan, conns); err != nil {
		return err
	}
	return r.Dir.WriteFile(connectionsFile, r.known.Write)
}

// knownConnections describes the connections for analyzers and for connections.json.
func knownConnections(p *plan.Plan, conns []injector.Connection) (*trace.Connections, error) {
	list := make([]trace.Connection, len(conns))
	for i, c := range conns {
		list[i] = trace.Connection{
			Index: i + 1, MTU: p.Test.Traffic.MTU,
			Requester: trace.Side{IP: c.Requester.IP, QPN: c.Requester.QPN, IPSN: c.Requester.IPSN},
			Responder: trace.Side{IP: c.Responder.IP, QPN: c.Responder.QPN, IPSN: c.Responder.IPSN},
		}
		verbs := p.Connections[i].Traffic[testbeds.Requester].Verbs
		if len(verbs) == 1 {
			list[i].Verb = verbs[0].String()
			continue
		}
		for _, v := range verbs {
			list[i].Verbs = append(list[i].Verbs, v.String())
		}
	}
	return trace.NewConnections(list)
}

func (r *run) programInjector(ctx context.Context) (err error) {
	setup := injector.Setup{Snap: uint32(r.plan.Snap)}
	for _, p := range r.access.Forwarding {
		setup.Forwarding = append(setup.Forwarding, injector.Forwarding{MAC: p.MAC, Port: p.Number})
		setup.FloodPorts = append(setup.FloodPorts, p.Number)
	}
	for _, m := range r.access.Mirrors {
		setup.Mirrors = append(setup.Mirrors, injector.Mirror{Port: m.Number, Weight: m.Weight})
	}
	intents := r.plan.Intents
	if r.external() {
		intents = nil // their connections do not exist yet
	}
	if r.program, err = r.client.Program(ctx, setup, r.connections, intents); err != nil {
		return err
	}
	return r.checkDelivery(ctx)
}

func (r *run) startDumpers(ctx context.Context) error {
	if err := r.Dir.Mkdir("shards"); err != nil {
		return err
	}
	if dir, ok := r.Dir.(*RunDir); ok {
		return r.bed.StartDumpers(ctx, dir.Join("shards"))
	}
	bed, ok := r.bed.(MemoryTestbed)
	if !ok {
		return errors.New("the dumpers of this testbed can't record into memory")
	}
	return bed.RecordTo(ctx, func(name string) (io.WriteCloser, error) { return r.Dir.Create(shardFile(name)) })
}

func shardFile(name string) string { return filepath.Join("shards", name) }

// traffic runs the traffic: read counters, open the gate, wait until quiet, close the gate, read counters.
func (r *run) traffic(ctx context.Context) error {
	base, err := r.client.Counters(ctx)
	if err != nil {
		return err
	}
	before, err := r.bed.Counters(ctx)
	if err != nil {
		return err
	}
	if err := r.client.OpenGate(ctx); err != nil {
		return err
	}
	if r.external() {
		err = r.application(ctx)
	} else {
		r.generator, err = r.bed.Run(ctx)
	}
	if err != nil {
		return err
	}
	if err := r.client.CloseGate(ctx); err != nil {
		return err
	}
	after, err := r.bed.Counters(ctx)
	if err != nil {
		return err
	}
	now, err := r.client.Counters(ctx)
	if err != nil {
		return err
	}
	if r.hits, err = r.client.Hits(ctx); err != nil {
		return err
	}
	if err := r.collectFrames(ctx); err != nil {
		return err
	}
	// A second controller may have taken over and left in between; the answers above do not show that.
	if err := r.client.Primary(); err != nil {
		return err
	}
	r.counters = newCounters(r.plan, before, after, now.Since(base))
	return nil
}

func (r *run) collect(ctx context.Context) (err error) {
	if r.dump, err = r.bed.StopDumpers(ctx); err != nil {
		return err
	}
	r.counters.Dumpers, r.counters.Discards = r.dump.Dumpers, r.dump.Discards
	r.counters.TimeDisorderNS, r.counters.HostDelays = r.dump.TimeDisorder.Nanoseconds(), r.dump.HostDelays
	return errors.Join(
		r.Dir.WriteFile("generator.json", r.generator.Write),
		r.Dir.WriteJSON("counters.json", r.counters),
		r.Dir.WriteFile("entries.json", func(w io.Writer) error { return r.program.Document(r.hits).Write(w) }),
		r.client.Clear(ctx),
	)
}

func (r *run) reconstruct(ctx context.Context) error {
	shards := make([]trace.Source, len(r.dump.Shards))
	for i, name := range r.dump.Shards {
		shards[i] = r.Dir.Source(shardFile(name))
	}
	file, err := r.Dir.Create(traceFile)
	if err != nil {
		return err
	}
	r.merge, err = dumper.Reconstruct(ctx, shards, file, traceFile)
	return errors.Join(err, file.Close())
}

const (
	traceFile       = "trace.pcap"
	connectionsFile = "connections.json"
)

func (r *run) check(ctx context.Context) error {
	found := r.known
	if err := r.facts.check(ctx, r.Dir.Source(traceFile)); err != nil {
		return err
	}
	var numbered error
	if r.known != found {
		numbered = r.Dir.WriteFile(connectionsFile, r.known.Write)
	}
	return errors.Join(numbered, r.Dir.WriteFile("integrity.json", r.integrity.Write))
}

func (r *run) analyse(ctx context.Context) error {
	if err := r.facts.analyse(ctx); err != nil || r.analysis == nil {
		return err
	}
	return r.WriteAnalysis(r.analysis, analyzerNames)
}
