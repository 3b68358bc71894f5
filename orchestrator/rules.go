package orchestrator

import (
	"bufio"
	"fmt"
	"io"
	"slices"
	"strings"

	"candela.dev/candela/analyzers"
	"candela.dev/candela/analyzers/cnp"
	"candela.dev/candela/analyzers/counters"
	"candela.dev/candela/analyzers/fields"
	"candela.dev/candela/analyzers/forwarding"
	"candela.dev/candela/analyzers/gbn"
	"candela.dev/candela/analyzers/ndp"
	"candela.dev/candela/analyzers/retrans"
	"candela.dev/candela/analyzers/rp"
	"candela.dev/candela/analyzers/sai"
	"candela.dev/candela/analyzers/tcp"
	"candela.dev/candela/analyzers/trim"
)

// Rules lists every rule that an analyzer of NIC tests checks, by analyzer in the order of reports, each with a sorted
// list. Those of switch tests are the business of package switchtest.
func Rules() []analyzers.Rule {
	return sorted(gbn.Rules(), retrans.Rules(), cnp.Rules(), rp.Rules(), trim.Rules(), fields.Rules(), counters.Rules())
}

// sorted joins lists of rules, each sorted by id.
func sorted(lists ...[]analyzers.Rule) []analyzers.Rule {
	var all []analyzers.Rule
	for _, rules := range lists {
		slices.SortStableFunc(rules, func(a, b analyzers.Rule) int { return strings.Compare(a.ID, b.ID) })
		all = append(all, rules...)
	}
	return all
}

// WriteRules writes docs/reference/rules.md.
func WriteRules(w io.Writer) error {
	b := bufio.NewWriter(w)
	fmt.Fprint(b, `# Rules

What the analyzers check, made from their own tables (`+"`go test ./orchestrator -run Rules -update`"+` rewrites
this page). An id keeps its meaning for ever; new rules are added, none is reused.

The severity is that of a finding which the packets prove. Where they only suggest it (a capture that may have missed
packets, connections that were inferred), the same rule is reported more mildly, and the finding says why. Only
violations fail a run; `+"`--strict`"+` adds warnings. Clauses are those of the InfiniBand Architecture
Specification, volume 1, unless they name another document; where only the section is sure, the section is given.
`)
	analyzer := ""
	for _, r := range append(Rules(), sorted(forwarding.Rules(), ndp.Rules(), sai.Rules(), tcp.Rules())...) {
		name, _, _ := strings.Cut(r.ID, ".")
		if name != analyzer {
			analyzer = name
			fmt.Fprintf(b, "\n## %s\n\n| rule | severity | clause | a conforming implementation |\n|---|---|---|---|\n",
				analyzer)
		}
		fmt.Fprintf(b, "| `%s` | %s | %s | %s |\n", r.ID, r.Severity, cell(r.Clause), cell(r.Statement))
	}
	return b.Flush()
}

// cell makes text fit into one cell of a Markdown table.
func cell(text string) string {
	return strings.NewReplacer("|", "\\|", "\n", " ").Replace(text)
}
