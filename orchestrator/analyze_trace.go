package orchestrator

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"candela.dev/candela/analyzers"
	"candela.dev/candela/analyzers/cause"
	"candela.dev/candela/injector"
	"candela.dev/candela/orchestrator/config"
	"candela.dev/candela/orchestrator/plan"
	"candela.dev/candela/orchestrator/report"
	"candela.dev/candela/packet"
	"candela.dev/candela/trace"
)

// AnalyzeOptions configure an analysis.
type AnalyzeOptions struct {
	Trace       string   // a run directory, a capture, or "-" for Stdin
	Archive     string   // archive that the run directory was unpacked from; empty: none
	Inner       string   // the run's directory in that archive
	More        []string // files that continue the capture, in any order
	Second      string   // another capture of the same traffic, taken elsewhere; empty: none
	SecondMore  []string // files that continue it
	Taps        []Tap    // several captures, instead of Trace and Second; two of them are compared
	Notes       []string // notes of the caller about the captures
	Stdin       io.Reader
	Connections string // connections document; empty: inferred from the packets
	Format      trace.Format
	Placement   trace.Placement
	Place       trace.Place // of a single capture
	Ordered     bool        // Second must be downstream of Trace
	SameClock   bool        // one clock stamped both captures
	Complete    bool        // the captures hold every frame that was sent, or that passed a tap whose place is given
	MTU         int         // path MTU of inferred connections; 0: inferred from packets and connection managers
	// Settings apply where neither a document nor a connection manager gives the value.
	Settings    trace.Settings
	KeepPartial bool     // a partial last record of a plain capture is a note
	Waivers     *Waivers // of known violations, for run directories; nil: none
	Strict      bool
	Workers     int  // parallel workers, each for some of the connections; without effect on the result; 0: one
	Plots       bool // Report gets the data of the HTML page, too
	Version     string
	Command     string         // command line, for the commands that a report suggests
	Config      config.Options // known models, to read a run directory's configuration
}

// ErrInput matches errors in the files named on the command line, as opposed to internal failures.
var ErrInput = errors.New("input")

// inputError marks err as an error in the user's files.
type inputError struct{ error }

func (e inputError) Is(target error) bool { return target == ErrInput }
func (e inputError) Unwrap() error        { return e.error }

// Analyze judges a recorded trace: a run directory with its documents, or a bare capture.
func Analyze(ctx context.Context, o AnalyzeOptions) (*Outcome, error) {
	if len(o.Taps) > 0 {
		return analyzeTaps(ctx, o)
	}
	if o.Trace != StandardInput && len(o.More) == 0 {
		info, err := os.Stat(o.Trace)
		if err != nil {
			return nil, inputError{err}
		}
		if info.IsDir() {
			return analyzeRun(ctx, o)
		}
	}
	src, release, err := OpenCaptures(ctx, append([]string{o.Trace}, o.More...), o.Stdin)
	if err != nil {
		return nil, err
	}
	var second trace.Source
	if o.Second != "" {
		var releaseSecond func() error
		if second, releaseSecond, err = OpenCaptures(ctx, append([]string{o.Second}, o.SecondMore...), o.Stdin); err != nil {
			return nil, errors.Join(err, release())
		}
		first := release
		release = func() error { return errors.Join(first(), releaseSecond()) }
	}
	outcome, err := analyzeCapture(ctx, o, src, second)
	if rerr := release(); rerr != nil && err == nil {
		return nil, rerr
	}
	return outcome, err
}

func analyzeRun(ctx context.Context, o AnalyzeOptions) (*Outcome, error) {
	if o.Second != "" || o.Connections != "" {
		return nil, inputError{fmt.Errorf("%s is a run directory, which knows its connections and events: analyse it "+
			"alone, without --connections", o.Trace)}
	}
	f, err := loadFacts(o)
	if err != nil {
		return nil, inputError{err}
	}
	if err := f.check(ctx, trace.FileSource(filepath.Join(o.Trace, traceFile))); err != nil {
		return nil, traceError(err)
	}
	if err := f.analyse(ctx); err != nil {
		return nil, err
	}
	verdict := judge(f.evidence(nil))
	out := &Outcome{Verdict: verdict, Report: f.report(verdict), Analysis: f.analysis, Dir: o.Trace}
	out.Report.Dir = o.Trace
	out.Report.Next = f.next(o.Trace)
	if o.Archive != "" {
		out.Report.Dir, out.Report.File, out.Report.Next = "", o.Archive, f.nextOfArchive(o)
	}
	if f.analysis != nil {
		if err := report.Illustrate(ctx, out.Report, f.checked, o.Plots); err != nil {
			return nil, err
		}
	}
	if out.Analysis == nil {
		out.Analysis = incompleteAnalysis(f.integrity, trace.PacketIDsMirror)
	}
	return out, nil
}

// traceError marks err as an input error if the file is damaged, missing or empty. Other errors are failures to read
// it.
func traceError(err error) error {
	var damaged *trace.FileError
	if errors.As(err, &damaged) || errors.Is(err, fs.ErrNotExist) || errors.Is(err, trace.ErrNothingToAnalyse) {
		return inputError{err}
	}
	return err
}

func loadFacts(o AnalyzeOptions) (*facts, error) {
	dir := o.Trace
	if err := checkRunDir(dir); err != nil {
		return nil, err
	}
	f := &facts{strict: o.Strict, version: o.Version, command: o.Command, waivers: o.Waivers, workers: o.Workers}
	options := o.Config
	options.Testbed = filepath.Join(dir, "testbed.yml")
	test, err := config.Load(filepath.Join(dir, "config.yml"), options)
	if err != nil {
		return nil, err
	}
	if f.plan, err = plan.New(test); err != nil {
		return nil, err
	}
	if f.known, err = loadConnections(filepath.Join(dir, connectionsFile)); err != nil {
		return nil, err
	}
	for _, c := range f.known.All() {
		f.connections = append(f.connections, injector.Connection{
			Requester: injector.Endpoint{IP: c.Requester.IP, QPN: c.Requester.QPN, IPSN: c.Requester.IPSN},
			Responder: injector.Endpoint{IP: c.Responder.IP, QPN: c.Responder.QPN, IPSN: c.Responder.IPSN},
		})
	}
	if f.calibration, err = loadCalibration(dir); err != nil {
		return nil, err
	}
	if f.comparison, err = loadComparison(filepath.Join(dir, comparisonFile)); err != nil {
		return nil, err
	}
	f.soundCables = !test.Testbed.IsLive()
	if f.cables, err = loadCables(dir); err != nil {
		return nil, err
	}
	var entries entryHits
	err = errors.Join(
		readJSON(filepath.Join(dir, "counters.json"), &f.counters),
		readJSON(filepath.Join(dir, "generator.json"), &f.generator),
		readJSON(filepath.Join(dir, "entries.json"), &entries),
	)
	if err != nil {
		return nil, err
	}
	if err := f.counters.check(); err != nil {
		return nil, fmt.Errorf("%s: %w", filepath.Join(dir, "counters.json"), err)
	}
	if f.known.Len() != len(f.plan.Connections) {
		return nil, fmt.Errorf("%s: connections.json has %d connections, config.yml %d", dir, f.known.Len(),
			len(f.plan.Connections))
	}
	f.baseline, err = ReadBaseline(func(name string) ([]byte, error) { return os.ReadFile(filepath.Join(dir, name)) })
	if err != nil {
		return nil, fmt.Errorf("%s: %w", dir, err)
	}
	f.hits, err = hitsByIntent(f.plan.Intents, entries)
	return f, err
}

// entryHits is the part of [injector.Entries] that the verdict needs. Keys and parameters, the larger part, are
// skipped.
type entryHits struct {
	Events []struct {
		Index  int    `json:"index"`
		Packet string `json:"packet"`
		Hits   uint64 `json:"hits"`
	} `json:"events"`
}

// hitsByIntent returns the hits of entries.json in the order of the plan: data events first, then control events.
func hitsByIntent(intents []injector.Intent, doc entryHits) ([]uint64, error) {
	type key struct {
		control bool
		index   int
	}
	hits := map[key]uint64{}
	for _, e := range doc.Events {
		hits[key{e.Packet != packet.ClassData.String(), e.Index}] = e.Hits
	}
	list := make([]uint64, len(intents))
	for i := range intents {
		n, ok := hits[key{intents[i].Class != packet.ClassData, intents[i].Index}]
		if !ok {
			return nil, fmt.Errorf("entries.json has no entry for %s", intents[i].Where)
		}
		list[i] = n
	}
	return list, nil
}

func readJSON(path string, v any) error {
	data, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	if err := json.Unmarshal(data, v); err != nil {
		return fmt.Errorf("%s: %w", path, err)
	}
	return nil
}

func loadConnections(path string) (*trace.Connections, error) {
	file, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer file.Close()
	c, err := trace.ReadConnections(file)
	if err != nil {
		return nil, wrongConnections{path, err}
	}
	return c, nil
}

// wrongConnections is the error of a file that is not a connections document.
type wrongConnections struct {
	path  string
	cause error
}

// placeInLine matches a problem that begins with its line and column.
var placeInLine = regexp.MustCompile(`(?m)^[0-9]+:[0-9]+: `)

// Error begins each problem with file, line and column.
func (e wrongConnections) Error() string {
	text := placeInLine.ReplaceAllString(e.cause.Error(), strings.ReplaceAll(e.path, "$", "$$")+":$0")
	if !strings.HasPrefix(text, e.path) {
		text = e.path + ": " + text
	}
	return text + "\n  A connections document is JSON of the schema candela.connections/v1, as the connections.json of " +
		"a run directory; without --connections the connections are inferred from the packets."
}

func (e wrongConnections) Unwrap() error { return e.cause }

func (o *AnalyzeOptions) traceOptions() (trace.Options, error) {
	options := trace.Options{
		Format: o.Format, KeepTruncated: o.KeepPartial, Placement: o.Placement, Ordered: o.Ordered, SameClock: o.SameClock,
		Complete: o.Complete, MTU: o.MTU,
		Workers: o.Workers, Place: o.Place,
	}
	if o.Connections != "" {
		known, err := loadConnections(o.Connections)
		if err != nil {
			return options, inputError{err}
		}
		options.Connections = known
	}
	return options, nil
}

func analyzeCapture(ctx context.Context, o AnalyzeOptions, src, second trace.Source) (*Outcome, error) {
	options, err := o.traceOptions()
	if err != nil {
		return nil, err
	}
	checked, pair, integrity, err := checkCapture(ctx, src, second, options)
	notes := append(slices.Clone(o.Notes), pairNotes(pair)...)
	var unjudged *trace.UnjudgedError
	if errors.As(err, &unjudged) {
		outcome := unjudgedCapture(o, notes, unjudged)
		outcome.Report.Observation = observe(&o, pair)
		return outcome, nil
	}
	if err != nil {
		return nil, traceError(err)
	}
	rep := &report.Report{Name: src.Name, Notes: notes, Observation: observe(&o, pair),
		Facts: []report.Fact{{Name: "tool", Value: o.Version}}}
	if checked == nil {
		verdict := judge(evidence{integrity: integrity.Violations()})
		rep.Verdict, rep.Reasons, rep.Packets = verdict.Verdict, verdict.Reasons, integrity.Packets
		return &Outcome{Verdict: verdict, Report: rep, Analysis: incompleteAnalysis(integrity, trace.PacketIDsMirror)}, nil
	}
	outcome, err := judgeCapture(ctx, o, checked, rep)
	if err == nil && outcome.Analysis != nil {
		outcome.Analysis.Taps, outcome.Analysis.Notes = pair, outcome.Report.Notes
	}
	if err == nil && checked.Meta().Connections.Inferred {
		outcome.Report.Notes = append(slices.Clone(outcome.Report.Notes), "the connections were inferred from the packets")
	}
	return outcome, err
}

func checkCapture(ctx context.Context, src, second trace.Source, options trace.Options) (*trace.Checked,
	*trace.PairReport, *trace.IntegrityReport, error) {
	if second.Open != nil {
		checked, pair, err := trace.CheckPair(ctx, src, second, options)
		return checked, pair, nil, err
	}
	var incomplete *trace.IntegrityError
	checked, integrity, err := trace.Check(ctx, src, options)
	if errors.As(err, &incomplete) {
		err = nil
	}
	return checked, nil, integrity, err
}

func pairNotes(p *trace.PairReport) []string {
	if p == nil {
		return nil
	}
	return []string{fmt.Sprintf("between the captures: %d packets in, %d out; %d dropped, %d marked, %d corrupted, %d "+
		"trimmed, %d reordered; the upstream tap missed %d",
		p.Sent, p.Passed, p.Dropped, p.Marked, p.Corrupted, p.Trimmed, p.Reordered, p.Missed)}
}

func judgeCapture(ctx context.Context, o AnalyzeOptions, checked *trace.Checked, rep *report.Report) (*Outcome, error) {
	meta := checked.Meta()
	summary := newSummary(meta.Connections)
	analysis, err := analyzers.RunParallel(ctx, checked, o.Workers,
		append(captureAnalyzers(meta, &o.Settings), summary)...)
	if err != nil {
		return nil, err
	}
	fresh := func(m trace.Meta) []analyzers.Analyzer { return captureAnalyzers(m, &o.Settings) }
	if err := analyzers.SoftenUnseen(ctx, checked, o.Workers, analysis, fresh); err != nil {
		return nil, err
	}
	if err := softenUnfinished(ctx, checked, analysis, &o.Settings); err != nil {
		return nil, err
	}
	if nothing, err := nothingJudged(ctx, checked, analysis, o); err != nil {
		return nil, err
	} else if nothing != nil {
		outcome := unjudgedCapture(o, slices.Concat(rep.Notes, meta.Notes), nothing)
		outcome.Report.Observation = rep.Observation
		describe(outcome.Report, &o, meta, summary, analysis)
		return outcome, report.Illustrate(ctx, outcome.Report, checked, o.Plots)
	}
	e := evidence{strict: o.Strict}
	for _, f := range analysis.Findings {
		switch f.Severity {
		case analyzers.Violation:
			e.violations++
		case analyzers.Warning:
			e.warnings++
		case analyzers.Note:
		}
		rep.Findings = append(rep.Findings, report.Finding{Finding: f})
	}
	verdict := judge(e)
	rep.Verdict, rep.Reasons = verdict.Verdict, verdict.Reasons
	rep.Metrics, rep.Coverage = analysis.Metrics, analysis.Coverage
	rep.Notes, rep.Stories = append(rep.Notes, meta.Notes...), summary.stories.lines()
	describe(rep, &o, meta, summary, analysis)
	if err := report.Illustrate(ctx, rep, checked, o.Plots); err != nil {
		return nil, err
	}
	return &Outcome{Verdict: verdict, Report: rep, Analysis: analysis}, nil
}

// describe fills rep with the contents of a capture, judged or not.
func describe(rep *report.Report, o *AnalyzeOptions, meta trace.Meta, summary *Summary, analysis *analyzers.Analysis) {
	rep.Packets, rep.SpanNS, rep.PacketIDs = summary.Packets, meta.EndNS-meta.StartNS, meta.PacketIDs
	rep.OriginNS = meta.StartNS
	if meta.Kind == trace.KindMirror {
		observeMirror(rep.Observation)
	}
	addInterfaces(rep.Observation, meta.Interfaces)
	for _, c := range meta.Connections.All() {
		rep.Connections = append(rep.Connections, captureConnection(summary, analysis, &c))
	}
	if o.Trace == StandardInput {
		return
	}
	command := []string{o.Command, "trace show", report.ShellWord(o.Trace)}
	for _, file := range o.More {
		command = append(command, report.ShellWord(file))
	}
	rep.Next = []string{strings.Join(command, " ") + around(analysis)}
}

func captureConnection(s *Summary, a *analyzers.Analysis, c *trace.Connection) report.Connection {
	r := summarise(s, a, c.Index)
	r.Traffic = fmt.Sprintf("mtu %d", c.MTU)
	if c.Verb != "" {
		r.Traffic = c.Verb + ", " + r.Traffic
	}
	side := func(s trace.Side) string { return endpoint(injector.Endpoint{IP: s.IP, QPN: s.QPN, IPSN: s.IPSN}) }
	r.Requester, r.Responder, r.OK = side(c.Requester), side(c.Responder), true
	return r
}

// integrityAnalyzer is the analyzer name in the findings of a trace without integrity.
const integrityAnalyzer = "integrity"

// incompleteAnalysis returns the analysis document of a trace without integrity. Nothing is analysed; each violated
// condition is a finding.
func incompleteAnalysis(r *trace.IntegrityReport, ids string) *analyzers.Analysis {
	doc := &analyzers.Analysis{
		Schema: analyzers.Schema, Verdict: analyzers.Invalid, PacketIDs: ids,
		Findings: []analyzers.Finding{}, Metrics: []analyzers.Metric{}, Coverage: map[string]map[string]int64{},
	}
	for _, c := range r.Conditions {
		if c.Status != trace.StatusViolated {
			continue
		}
		f := analyzers.Finding{
			Analyzer: integrityAnalyzer, Rule: integrityAnalyzer + "." + c.Name,
			Clause: "Lumina (Yu, thesis, Johns Hopkins 2023), section 5.3.6", Severity: analyzers.Violation,
			Packets: integrityPackets(c), Expected: "a complete trace", Actual: c.Message, Message: c.Message,
		}
		f.Because(causeIncomplete(f.Rule, c.Message))
		doc.Findings = append(doc.Findings, f)
	}
	return doc
}

// causeIncomplete is the cause for a violated integrity condition; message is the condition's text.
func causeIncomplete(rule, message string) cause.Cause {
	return cause.Of(rule, "not-held", "The trace is not complete: %v.", cause.Name(strings.TrimSuffix(message, ".")))
}

func causeUnjudged(reason string) cause.Cause {
	return cause.Of(unjudgedRule, "nothing-judged", "No rule is about this capture: %v.",
		cause.Name(strings.TrimPrefix(reason, "nothing was judged: ")))
}

// integrityPackets returns the packet numbers of a condition: missing copies first.
func integrityPackets(c trace.Condition) []uint64 {
	ids := []uint64{}
	for _, m := range c.Missing {
		ids = append(ids, m.First)
	}
	for _, d := range c.Duplicates {
		ids = append(ids, d.Seq)
	}
	for _, b := range c.Back {
		ids = append(ids, b.Seq)
	}
	return ids
}
