// Package experiments is what reproductions on models of switches share: the list of results, and a lab that runs the
// tests of configs on the virtual testbed and reads their run directories.
package experiments

import (
	"context"
	"fmt"
	"io/fs"
	"slices"
	"strings"
	"time"

	"candela.dev/candela/orchestrator/switchtest"
	"candela.dev/candela/reproduce/comparison"
)

// Config says how to run.
type Config struct {
	Out     string    // parent of the run directories
	Keep    bool      // keep the run directories
	Quick   bool      // fewer seeds, points of sweeps or simulated time
	Loads   []float64 // of sweeps over the load: those to measure; none: all, or those of a quick reproduction
	Workers int       // runs at a time
	Version string    // of the tool, for run.json
	Wall    func() time.Time
	// Set changes parameters of switch models, each MODEL.PARAMETER=VALUE.
	Set []string
	// Progress is called before each experiment; it may be nil.
	Progress func(name string)
}

// Reproduction is a publication whose results can be measured.
type Reproduction interface {
	// IDs lists the results in the order of the report.
	IDs() []string
	// Check refuses unknown results, and settings of unknown models or parameters.
	Check(cfg *Config, ids []string) error
	// Run measures all results, or those that ids name.
	Run(ctx context.Context, cfg Config, ids ...string) (*comparison.Results, error)
}

// Experiment measures one result in a lab of type L.
type Experiment[L any] struct {
	ID   string
	Do   func(ctx context.Context, lab L) error
	Slow bool // minutes
}

// Publication is a Reproduction.
type Publication[L any] struct {
	Title string
	Files fs.ReadFileFS  // tests
	Lab   func(l *Lab) L // adds to a lab what the experiments need
	List  []Experiment[L]
	Loads []float64 // of its sweeps over the load, if it has any
}

// IDs implements Reproduction.
func (p *Publication[L]) IDs() []string {
	var ids []string
	for i := range p.List {
		ids = append(ids, p.List[i].ID)
	}
	return ids
}

// Check implements Reproduction.
func (p *Publication[L]) Check(cfg *Config, ids []string) error {
	known := p.IDs()
	for _, id := range ids {
		if !slices.Contains(known, id) {
			return fmt.Errorf("result %q: there are %s", id, strings.Join(known, ", "))
		}
	}
	for _, load := range cfg.Loads {
		if !slices.Contains(p.Loads, load) {
			return fmt.Errorf("--loads %v: there are %s", load, strings.Trim(fmt.Sprint(p.Loads), "[]"))
		}
	}
	for _, s := range cfg.Set {
		if err := switchtest.CheckSetting(s); err != nil {
			return fmt.Errorf("--set %s: %w", s, err)
		}
	}
	return nil
}

// Open returns a lab without results. The caller closes the Lab in it.
func (p *Publication[L]) Open(cfg Config) (L, *Lab, error) {
	base, err := open(cfg, p.Title, p.Files)
	if err != nil {
		var none L
		return none, nil, err
	}
	return p.Lab(base), base, nil
}

// Run implements Reproduction.
func (p *Publication[L]) Run(ctx context.Context, cfg Config, ids ...string) (*comparison.Results, error) {
	if err := p.Check(&cfg, ids); err != nil {
		return nil, err
	}
	lab, base, err := p.Open(cfg)
	if err != nil {
		return nil, err
	}
	defer base.Close()
	for i := range p.List {
		e := &p.List[i]
		if len(ids) > 0 && !slices.Contains(ids, e.ID) {
			continue
		}
		if cfg.Progress != nil {
			cfg.Progress(e.ID)
		}
		if err := base.Results.Timed(cfg.Wall, func() error { return e.Do(ctx, lab) }); err != nil {
			return nil, fmt.Errorf("%s: %w", e.ID, err)
		}
	}
	return &base.Results, nil
}
