package reproduce

import (
	"context"
	"strings"

	"candela.dev/candela/analyzers"
	"candela.dev/candela/analyzers/gbn"
	"candela.dev/candela/reproduce/comparison"
)

// goBackN measures L9: how many runs under aggressive drops the Go-back-N analyzer passes.
func goBackN(ctx context.Context, l *lab) error {
	results, err := l.runAll(ctx, "section-5-6-2.yml")
	if err != nil {
		return err
	}
	for _, n := range []nic{cx4, cx5, cx6, {"E810", "e810"}} {
		mine := of(results, n.profile)
		passed := 0
		for _, r := range mine {
			if r.passed && clean(r.analysis, gbn.Name) {
				passed++
			}
		}
		from := comparison.FromMechanism("the models are built to follow go-back-N")
		if n.profile == "e810" {
			from = comparison.Unjudged("not measured by the source")
		}
		l.row(from, comparison.NewRow("L9", n.name+" passes Go-back-N under aggressive drops", "%", 100, 100, 0,
			100*float64(passed)/float64(len(mine))))
	}
	return nil
}

func clean(a *analyzers.Analysis, analyzer string) bool {
	if a == nil {
		return false
	}
	for _, f := range a.Findings {
		if f.Severity == analyzers.Violation && strings.HasPrefix(f.Rule, analyzer+".") {
			return false
		}
	}
	return true
}
