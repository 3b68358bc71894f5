// Package reproduce measures the results of a published evaluation again and holds each against what the paper says. Every
// value is taken from a run: traffic, injector, mirror, dumpers, reconstruction, integrity check and analyzers, or from the
// generator's report. None is read from a NIC model.
package reproduce

import (
	"context"
	"fmt"
	"math"
	"time"

	"candela.dev/candela/orchestrator"
	"candela.dev/candela/orchestrator/config"
)

// Config says how to run.
type Config struct {
	Build   orchestrator.Builder
	Options config.Options // which profiles, bugs and rules exist; testbeds are read from the experiments' own files
	Out     string         // parent of the run directories
	Keep    bool           // keep the run directories
	Quick   bool           // fewer points and rounds: seconds, for tests
	Workers int            // runs at a time
	Version string         // of the tool, for run.json
	Wall    func() time.Time
	// Progress is told before each experiment; nil: nobody listens.
	Progress func(name string)
}

// Row compares one number with the paper's.
type Row struct {
	ID   string `json:"id"`   // L1 to L9 (spec/lumina.md §6)
	What string `json:"what"` // "CX5, NACK generation, 20 KB"
	Unit string `json:"unit"` // µs, ms, s, KB, %, or empty for counts
	// Low and High are what the paper says: one number twice, or a range.
	Low       float64 `json:"paper_low"`
	High      float64 `json:"paper_high"`
	Measured  float64 `json:"measured"`
	Tolerance float64 `json:"tolerance"` // relative, beyond the range
	Deviation float64 `json:"deviation"` // relative, from the nearer end of the range; 0 inside
	Pass      bool    `json:"pass"`
	// Informative rows are shown but not judged: the source gives no tolerance, or the model claims nothing.
	Informative bool   `json:"informative,omitempty"`
	Note        string `json:"note,omitempty"`
}

// newRow judges a measured value.
func newRow(id, what, unit string, low, high, tolerance, measured float64) Row {
	r := Row{ID: id, What: what, Unit: unit, Low: low, High: high, Measured: measured, Tolerance: tolerance}
	switch {
	case math.IsNaN(measured):
		r.Measured, r.Deviation, r.Note = 0, 1, "nothing was measured"
		return r
	case measured < low:
		r.Deviation = relative(measured, low)
	case measured > high:
		r.Deviation = relative(measured, high)
	}
	const rounding = 1e-9
	r.Pass = math.Abs(r.Deviation) <= tolerance+rounding
	return r
}

// relative returns how far v is from want, as a share of want, or v itself if want is zero.
func relative(v, want float64) float64 {
	if want == 0 {
		return v
	}
	return v/want - 1
}

func (r Row) noted(note string) Row { r.Note = note; return r }

func (r Row) informative() Row { r.Informative = true; return r }

// Plot is a figure of the paper as measured.
type Plot struct {
	Name   string   `json:"name"` // of its file, without suffix
	Title  string   `json:"title"`
	X      string   `json:"x"`
	Y      string   `json:"y"`
	Series []Series `json:"series"`
}

// Series is one line of a Plot.
type Series struct {
	Name string    `json:"name"`
	X    []float64 `json:"x"`
	Y    []float64 `json:"y"`
}

// ResultsSchema names the format of results.json.
const ResultsSchema = "candela.reproduction/v1"

// Results are all rows and plots of a reproduction.
type Results struct {
	Schema string `json:"schema"`
	Paper  string `json:"paper"`
	Runs   int    `json:"runs"`
	Rows   []Row  `json:"rows"`
	Plots  []Plot `json:"plots"`
}

// Failed counts the rows outside their tolerance.
func (r *Results) Failed() int {
	n := 0
	for i := range r.Rows {
		if !r.Rows[i].Pass && !r.Rows[i].Informative {
			n++
		}
	}
	return n
}

// experiment measures one figure, table or section.
type experiment struct {
	name string
	do   func(ctx context.Context, l *lab) error
}

// Lumina measures L1 to L9 of spec/lumina.md §6.
func Lumina(ctx context.Context, cfg Config) (*Results, error) {
	l, err := newLab(cfg, "Yu et al., Lumina (thesis chapter; SIGCOMM 2023)")
	if err != nil {
		return nil, err
	}
	defer l.close()
	for _, e := range []experiment{
		{"fig 5-7a", overhead}, {"fig 5-7b", loadBalancing}, {"fig 5-8 and 5-9", fastRetransmission}, {"fig 5-10", pipeline},
		{"fig 5-12", timeouts}, {"table 5-II", retryLimits}, {"tables 5-III and 5-IV", notification}, {"section 5.6.2", goBackN},
	} {
		if cfg.Progress != nil {
			cfg.Progress(e.name)
		}
		if err := e.do(ctx, l); err != nil {
			return nil, fmt.Errorf("%s: %w", e.name, err)
		}
	}
	return &l.results, nil
}
