package orchestrator

import (
	"context"

	"candela.dev/candela/analyzers"
	"candela.dev/candela/trace"
)

// softenUnseen makes warnings of the violations that frames which a tap missed may explain: those that are gone when the trace is
// read as one that may lack frames. Where nothing vouches for the taps, only what every reading contains is a violation.
func softenUnseen(ctx context.Context, checked *trace.Checked, a *analyzers.Analysis) error {
	if a.Verdict != analyzers.Fail {
		return nil
	}
	lossy, ok := checked.WithUnseenFrames()
	if !ok {
		return nil
	}
	other, err := analyzers.Run(ctx, lossy, analyzersOf(lossy.Meta(), nil, nil, nil)...)
	if err != nil {
		return err
	}
	type place struct {
		rule       string
		connection int
		packet     uint64
	}
	at := func(f *analyzers.Finding) place {
		p := place{rule: f.Rule, connection: f.Connection}
		if len(f.Packets) > 0 {
			p.packet = f.Packets[0]
		}
		return p
	}
	certain := make(map[place]bool)
	for i := range other.Findings {
		if f := &other.Findings[i]; f.Severity == analyzers.Violation {
			certain[at(f)] = true
		}
	}
	for i := range a.Findings {
		if f := &a.Findings[i]; f.Severity == analyzers.Violation && !certain[at(f)] {
			f.Severity = analyzers.Warning
			f.Message += " Or the capture missed it: frames that a tap did not record explain this, too (--complete rules that out)."
		}
	}
	a.Add("", analyzers.Result{}) // brings the verdict up to date
	return nil
}
