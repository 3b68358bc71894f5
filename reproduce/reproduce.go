// Package reproduce repeats the measurements of a published evaluation and compares each with the paper. Every value
// comes from a run: from its trace, after the integrity check and the analyzers, or from the generator's report. No
// value is read from a NIC model.
package reproduce

import (
	"context"
	"fmt"
	"time"

	"candela.dev/candela/orchestrator"
	"candela.dev/candela/orchestrator/config"
	"candela.dev/candela/reproduce/comparison"
)

// Config says how to run.
type Config struct {
	Build   orchestrator.Builder
	Options config.Options // available profiles, bugs and rules; testbeds are read from the experiments' own files
	Out     string         // parent of the run directories
	Keep    bool           // keep the run directories
	Quick   bool           // fewer points and rounds: seconds, for tests
	Workers int            // runs at a time
	Version string         // of the tool, for run.json
	Wall    func() time.Time
	// Progress is called before each experiment; it may be nil.
	Progress func(name string)
}

// experiment measures one figure, table or section.
type experiment struct {
	name string
	do   func(ctx context.Context, l *lab) error
}

// Experiments is the number of Lumina's experiments.
const Experiments = 8

// Lumina measures L1 to L9, the results of section 5.6 of Yu's thesis (Johns Hopkins 2023).
func Lumina(ctx context.Context, cfg Config) (*comparison.Results, error) {
	l, err := newLab(cfg, "Lumina: Yu, thesis, Johns Hopkins 2023, section 5.6; Yu et al., SIGCOMM 2023")
	if err != nil {
		return nil, err
	}
	defer l.close()
	for _, e := range []experiment{
		{"fig 5-7a", overhead}, {"fig 5-7b", loadBalancing}, {"fig 5-8 and 5-9", fastRetransmission}, {"fig 5-10", pipeline},
		{"fig 5-12", timeouts}, {"table 5-II", retryLimits}, {"tables 5-III and 5-IV", notification},
		{"section 5.6.2", goBackN},
	} {
		if cfg.Progress != nil {
			cfg.Progress(e.name)
		}
		if err := l.results.Timed(cfg.Wall, func() error { return e.do(ctx, l) }); err != nil {
			return nil, fmt.Errorf("%s: %w", e.name, err)
		}
	}
	return &l.results, nil
}
