package orchestrator

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"slices"

	"candela.dev/candela/analyzers"
	"candela.dev/candela/orchestrator/config"
	"candela.dev/candela/orchestrator/report"
)

const sweepFile = "sweep.json"

// SweepSchema names the format of sweep.json.
const SweepSchema = "candela.sweep/v1"

// Sweep is the result of a sweep: sweep.json.
type Sweep struct {
	Schema      string       `json:"schema"`
	Name        string       `json:"name"`
	File        string       `json:"file,omitempty"`
	ToolVersion string       `json:"tool_version"`
	Seed        uint64       `json:"seed"` // base of the points' seeds
	Points      int          `json:"points"`
	Runs        []SweepPoint `json:"runs"` // in the order of the points
	// NotRun lists the points that the command did not reach, once for each repetition.
	NotRun []int `json:"not_run,omitempty"`

	dir   string
	names []string
	rows  []report.SweepRow
}

// SweepPoint is one run of a sweep.
type SweepPoint struct {
	Point  int          `json:"point"` // from 1
	Repeat int          `json:"repeat,omitempty"`
	Seed   uint64       `json:"seed"`
	Dir    string       `json:"dir"` // relative to the sweep's directory
	Values []SweepValue `json:"values"`
	Verdict
	Rules   []string     `json:"rules"` // violated rules, expected ones included
	Metrics SweepMetrics `json:"metrics"`
	// Numbers are the key numbers of a switch test, by name with unit.
	Numbers map[string]float64 `json:"numbers,omitempty"`
}

// SweepValue is the value that a sweep sets at a path of the test. Numbers are JSON numbers.
type SweepValue struct {
	Path  string `json:"path"`
	Value any    `json:"value"`
}

// SweepMetrics are the key numbers of a run. Distributions are over all connections.
type SweepMetrics struct {
	NackGeneration *Distribution `json:"nack_generation,omitempty"`
	NackReaction   *Distribution `json:"nack_reaction,omitempty"`
	Retransmission *Distribution `json:"retransmission,omitempty"`
	Timeout        *Distribution `json:"timeout,omitempty"`
	Completion     *Distribution `json:"message_completion_time,omitempty"`
	CNPs           int64         `json:"cnps"`
	Packets        int64         `json:"packets"`
}

// Distribution summarises measured times in nanoseconds.
type Distribution struct {
	Count int64 `json:"count"`
	Min   int64 `json:"min_ns"`
	Mean  int64 `json:"mean_ns"`
	P50   int64 `json:"p50_ns"`
	P99   int64 `json:"p99_ns"`
	Max   int64 `json:"max_ns"`
}

// NewSweep starts the record of the sweep that p is a point of, and makes its directory in parent. If the name is
// taken, the directory gets the first free suffix -2, -3 …
func NewSweep(parent, file, version, name string, p *config.Point) (*Sweep, error) {
	dir, err := freeDir(parent, name)
	if err != nil {
		return nil, fmt.Errorf("create sweep directory: %w", err)
	}
	return &Sweep{
		Schema: SweepSchema, Name: name, File: file, ToolVersion: version, Seed: p.BaseSeed, Points: p.Of,
		Runs: []SweepPoint{}, dir: dir, names: p.Names(),
	}, nil
}

func freeDir(parent, name string) (string, error) {
	if err := os.MkdirAll(parent, 0o777); err != nil {
		return "", err
	}
	const attempts = 10_000
	for n := 1; n <= attempts; n++ {
		dir := filepath.Join(parent, name)
		if n > 1 {
			dir = fmt.Sprintf("%s-%d", dir, n)
		}
		if err := os.Mkdir(dir, 0o777); !errors.Is(err, os.ErrExist) {
			return dir, err
		}
	}
	return "", fmt.Errorf("%s and %d numbered ones after it exist in %s", name, attempts-1, parent)
}

// Dir returns the directory of the sweep, the parent of its run directories.
func (s *Sweep) Dir() string { return s.dir }

// RunID returns the id of a point's run. Ids sort in point order.
func (s *Sweep) RunID(p *config.Point) string {
	return fmt.Sprintf("p%0*d", len(fmt.Sprint(p.Of)), p.Index)
}

// Add records the run of point p.
func (s *Sweep) Add(p *config.Point, o *Outcome) {
	run := SweepPoint{
		Point: p.Index, Repeat: o.Report.Repeat, Seed: o.Report.Seed, Dir: filepath.Base(o.Dir), Verdict: o.Verdict,
		Rules: violatedRules(o.Analysis), Metrics: sweepMetrics(o),
	}
	row := report.SweepRow{Point: p.Index, Report: o.Report, CNPs: run.Metrics.CNPs}
	for _, n := range o.Report.Numbers {
		if run.Numbers == nil {
			run.Numbers = make(map[string]float64)
		}
		run.Numbers[n.Name] = n.Value
	}
	for _, v := range p.Values {
		run.Values = append(run.Values, SweepValue{v.Path, typed(v.Value)})
		row.Values = append(row.Values, v.Value)
	}
	row.NackGenerationNS, row.NackReactionNS = median(run.Metrics.NackGeneration), median(run.Metrics.NackReaction)
	row.RetransmissionNS, row.CompletionNS = median(run.Metrics.Retransmission), -1
	for i := range o.Report.Connections {
		row.Timeouts += o.Report.Connections[i].Timeouts
	}
	if c := run.Metrics.Completion; c != nil {
		row.CompletionNS = c.Mean
	}
	s.Runs, s.rows = append(s.Runs, run), append(s.rows, row)
}

// AddUnrun records a point p without a run. rep gives the reason.
func (s *Sweep) AddUnrun(p *config.Point, rep *report.Report) {
	row := report.SweepRow{Point: p.Index, Report: rep, NackGenerationNS: -1, NackReactionNS: -1, RetransmissionNS: -1,
		CompletionNS: -1}
	for _, v := range p.Values {
		row.Values = append(row.Values, v.Value)
	}
	s.NotRun, s.rows = append(s.NotRun, p.Index), append(s.rows, row)
}

func median(d *Distribution) int64 {
	if d == nil {
		return -1
	}
	return d.P50
}

var plainNumber = regexp.MustCompile(`^-?(0|[1-9][0-9]*)(\.[0-9]+)?$`)

// typed returns a value of a sweep as a JSON number, boolean or string.
func typed(text string) any {
	switch {
	case plainNumber.MatchString(text):
		return json.Number(text)
	case text == "true", text == "false":
		return text == "true"
	}
	return text
}

func violatedRules(a *analyzers.Analysis) []string {
	rules := []string{}
	if a == nil {
		return rules
	}
	for _, f := range a.Findings {
		if f.Severity == analyzers.Violation {
			rules = append(rules, f.Rule)
		}
	}
	slices.Sort(rules)
	return slices.Compact(rules)
}

func sweepMetrics(o *Outcome) SweepMetrics {
	m := SweepMetrics{Packets: o.Report.Packets}
	for i := range o.Report.Connections {
		m.CNPs += o.Report.Connections[i].CNPs
	}
	if t := o.Generator.Times; t.Count > 0 {
		m.Completion = &Distribution{Count: int64(t.Count), Min: t.Min, Mean: t.Mean, P50: t.P50, P99: t.P99, Max: t.Max}
	}
	if o.Analysis == nil {
		return m
	}
	m.NackGeneration = distribution(o.Analysis, "retrans.nack-generation")
	m.NackReaction = distribution(o.Analysis, "retrans.nack-reaction")
	m.Retransmission = distribution(o.Analysis, "retrans.retransmission")
	m.Timeout = distribution(o.Analysis, "retrans.timeout")
	return m
}

// distribution summarises a metric over all connections; nil if nothing was measured.
func distribution(a *analyzers.Analysis, name string) *Distribution {
	m := findMetric(a, name, 0)
	if m.Count == 0 {
		return nil
	}
	return &Distribution{Count: m.Count, Min: m.Min, Mean: m.Sum / m.Count, P50: m.P50, P99: m.P99, Max: m.Max}
}

// Write writes the document as indented JSON.
func (s *Sweep) Write(w io.Writer) error { return writeJSON(w, s) }

// Save writes sweep.json into the directory of the sweep. An unfinished sweep has no such file.
func (s *Sweep) Save() (err error) {
	file, err := os.Create(filepath.Join(s.dir, sweepFile))
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, file.Close()) }()
	return s.Write(file)
}

// Report returns the sweep ready to print.
func (s *Sweep) Report() *report.Sweep {
	return &report.Sweep{Name: s.Name, Columns: s.names, Rows: s.rows, Dir: s.dir}
}
