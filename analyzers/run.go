package analyzers

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"slices"

	"candela.dev/candela/trace"
)

// Schema names the version of the analysis document.
const Schema = "candela.analysis/v1"

// Verdict is the outcome of an analysis or a run.
type Verdict string

// Verdicts. Invalid: the run does not allow a statement about the device under test.
const (
	Pass    Verdict = "pass"
	Fail    Verdict = "fail"
	Invalid Verdict = "invalid"
)

// maxWorkers bounds the goroutines that can have work.
const maxWorkers = 64

// Analysis is the document that scripts read (design, "Outside interface"). Findings are sorted by first packet, then
// rule.
type Analysis struct {
	Schema    string                      `json:"schema"`
	Verdict   Verdict                     `json:"verdict"`
	PacketIDs string                      `json:"packet_ids"` // "mirror" or "frame"
	Inferred  bool                        `json:"connections_inferred,omitempty"`
	Findings  []Finding                   `json:"findings"`
	Metrics   []Metric                    `json:"metrics"`
	Coverage  map[string]map[string]int64 `json:"coverage"`
	// Notes say how the trace was read: what was inferred, and how certainly.
	Notes []string `json:"notes,omitempty"`
	// Taps is what two captures of the same traffic show of each other: places, clocks, and what happened in between.
	Taps *trace.PairReport `json:"taps,omitempty"`

	// Observed is what the observer of a single capture knows, see [SoftenUnseen].
	Observed []Observed `json:"-"`
	Curves   []Curve    `json:"-"` // drawn and written in a file of their own
	Tables   []Table    `json:"-"` // the same
}

// Run feeds every record of c to every analyzer in one pass and collects their results. It stops early only when ctx
// ends or the trace can't be read.
func Run(ctx context.Context, c *trace.Checked, all ...Analyzer) (*Analysis, error) {
	return RunParallel(ctx, c, 1, all...)
}

// RunParallel is Run with a number of workers, goroutines that run at a time. The result does not depend on it.
func RunParallel(ctx context.Context, c *trace.Checked, workers int, all ...Analyzer) (*Analysis, error) {
	workers = min(max(workers, 1), maxWorkers)
	crew := newCrew(c.Meta(), all, workers)
	f := &feed{crew: crew}
	var err error
	if workers == 1 {
		err = f.alone(ctx, c)
	} else {
		err = f.together(ctx, c, workers)
	}
	if err != nil {
		return nil, fmt.Errorf("analyse trace: %w", err)
	}
	crew.join()
	if err := compare(ctx, c, all); err != nil {
		return nil, fmt.Errorf("compare payloads: %w", err)
	}
	meta := c.Meta()
	doc := &Analysis{
		Schema: Schema, PacketIDs: meta.PacketIDs, Inferred: meta.Connections.Inferred,
		Findings: []Finding{}, Metrics: []Metric{}, Coverage: map[string]map[string]int64{},
	}
	for _, a := range all {
		doc.Add(a.Name(), a.Finish())
	}
	if err := doc.review(ctx, c, all); err != nil {
		return nil, fmt.Errorf("review findings: %w", err)
	}
	dropOneSided(meta, doc)
	doc.Verdict = doc.verdict()
	return doc, nil
}

// Add merges one analyzer's result into the document and updates order and verdict.
func (a *Analysis) Add(name string, r Result) {
	a.Findings = append(a.Findings, r.Findings...)
	a.Metrics = append(a.Metrics, r.Metrics...)
	a.Observed = append(a.Observed, r.Observed...)
	a.Curves = append(a.Curves, r.Curves...)
	a.Tables = append(a.Tables, r.Tables...)
	if len(r.Coverage) > 0 {
		a.Coverage[name] = r.Coverage
	}
	slices.SortStableFunc(a.Findings, compareFindings)
	a.Verdict = a.verdict()
}

func (a *Analysis) verdict() Verdict {
	if slices.ContainsFunc(a.Findings, func(f Finding) bool { return f.Severity == Violation }) {
		return Fail
	}
	return Pass
}

// Reconsider updates the verdict after a change of severities.
func (a *Analysis) Reconsider() { a.Verdict = a.verdict() }

func compareFindings(a, b Finding) int {
	first := func(f Finding) uint64 {
		if len(f.Packets) == 0 {
			return ^uint64(0) // findings about the whole trace come last
		}
		return f.Packets[0]
	}
	return cmp.Or(cmp.Compare(first(a), first(b)), cmp.Compare(a.Rule, b.Rule), cmp.Compare(a.Connection, b.Connection))
}

// Only returns the part of a that one analyzer contributed: analysis/<name>.json of a run directory.
func (a *Analysis) Only(name string) *Analysis {
	part := &Analysis{
		Schema: a.Schema, PacketIDs: a.PacketIDs, Inferred: a.Inferred,
		Findings: []Finding{}, Metrics: []Metric{}, Coverage: map[string]map[string]int64{},
	}
	for _, f := range a.Findings {
		if f.Analyzer == name {
			part.Findings = append(part.Findings, f)
		}
	}
	for _, m := range a.Metrics {
		if m.Analyzer() == name {
			part.Metrics = append(part.Metrics, m)
		}
	}
	if c, ok := a.Coverage[name]; ok {
		part.Coverage[name] = c
	}
	part.Verdict = part.verdict()
	return part
}

// Write writes the document as indented JSON with a final newline.
func (a *Analysis) Write(w io.Writer) error {
	enc := json.NewEncoder(w)
	enc.SetIndent("", "  ")
	enc.SetEscapeHTML(false)
	return enc.Encode(a)
}
