package main

import (
	"bytes"
	"testing"
	"unicode/utf8"

	"github.com/spf13/cobra"
)

// Help must fit into 80 columns. Command lines of examples are exempt, as users copy them.
func TestHelpFitsATerminalOf80Columns(t *testing.T) {
	var visit func(*cobra.Command)
	visit = func(c *cobra.Command) {
		var b bytes.Buffer
		c.SetOut(&b)
		if err := c.Help(); err != nil {
			t.Fatal(err)
		}
		examples := false
		for line := range bytes.Lines(b.Bytes()) {
			line = bytes.TrimRight(line, "\n")
			if len(line) > 0 && line[0] != ' ' {
				examples = bytes.HasPrefix(line, []byte("Examples:"))
			}
			if n := utf8.RuneCount(line); n > 80 && !examples {
				t.Errorf("%s --help: %d columns: %s", c.CommandPath(), n, line)
			}
		}
		for _, sub := range c.Commands() {
			visit(sub)
		}
	}
	visit(newRoot())
}
