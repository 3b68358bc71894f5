package switchtest

import (
	"bytes"
	"fmt"
	"slices"
	"strings"

	"candela.dev/candela/orchestrator/config"
)

// Reference returns the reference of switch tests in Markdown: every key, model, parameter and rule.
func Reference() []byte {
	var b bytes.Buffer
	b.Write(config.SwitchReference(Options()))
	referDecisions(&b)
	b.WriteString("\n## Rules\n\nWhat the analyzers of switch tests check. An id keeps its meaning for ever. The " +
		"severity is that of a finding which the packets prove.\n")
	analyzer := ""
	for _, r := range Rules() {
		if name, _, _ := strings.Cut(r.ID, "."); name != analyzer {
			analyzer = name
			fmt.Fprintf(&b, "\n### %s\n\n| rule | severity | clause | what must hold |\n|---|---|---|---|\n", name)
		}
		fmt.Fprintf(&b, "| `%s` | %s | %s | %s |\n", r.ID, r.Severity, cell(r.Clause), cell(r.Statement))
	}
	return b.Bytes()
}

// referDecisions describes what decision records hold.
func referDecisions(b *bytes.Buffer) {
	b.WriteString("\n## Decision records\n\nWhat `taps: {decisions: …}` writes: a record for each decision, in the " +
		"order in which they are made. Columns of all models are `t_ps`, `switch`, `port`, `queue`, `kind`, `cause`, " +
		"`packet`, `flow`, `rank`, `size` and `occupancy` (bytes in the queue before the decision); those of a kind of " +
		"decision are empty in records of others.\n")
	for _, f := range families() {
		if len(f.Decisions) == 0 {
			continue
		}
		var models []string
		for i := range f.Models {
			models = append(models, f.Models[i].Name)
		}
		fmt.Fprintf(b, "\n### Decisions of %s\n\n| kind | causes | column | meaning |\n|---|---|---|---|\n",
			strings.Join(models, ", "))
		for i := range f.Decisions {
			k := &f.Decisions[i]
			causes := slices.DeleteFunc(slices.Clone(k.Causes), func(s string) bool { return s == "" })
			fmt.Fprintf(b, "| `%s` | %s | | %s |\n", k.Name, cell(strings.Join(causes, ", ")), cell(k.Doc))
			for j := range k.Values {
				fmt.Fprintf(b, "| | | `%s` | %s |\n", k.Values[j].Column(), cell(k.Values[j].Doc))
			}
		}
	}
}

// cell escapes text for a cell of a Markdown table.
func cell(text string) string { return strings.NewReplacer("|", "\\|", "\n", " ").Replace(text) }
