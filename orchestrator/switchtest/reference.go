package switchtest

import (
	"bytes"
	"fmt"
	"strings"

	"candela.dev/candela/orchestrator/config"
)

// Reference returns the reference of switch tests in Markdown: every key, model, parameter and rule.
func Reference() []byte {
	var b bytes.Buffer
	b.Write(config.SwitchReference(Options()))
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

// cell escapes text for a cell of a Markdown table.
func cell(text string) string { return strings.NewReplacer("|", "\\|", "\n", " ").Replace(text) }
