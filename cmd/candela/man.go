package main

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// newMan writes manual pages, for packages. It is hidden: --help shows the same text.
func newMan() *cobra.Command {
	return &cobra.Command{
		Use: "man DIR", Short: "Write a manual page of each command", Hidden: true, Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := os.MkdirAll(args[0], 0o777); err != nil {
				return err
			}
			return writeManuals(cmd.Root(), args[0])
		},
	}
}

// writeManuals writes the pages of a command and of those below it, without a date, so that builds are reproducible.
func writeManuals(c *cobra.Command, dir string) error {
	if err := os.WriteFile(filepath.Join(dir, manualName(c)+".1"), manual(c), 0o666); err != nil {
		return err
	}
	for _, sub := range documented(c) {
		if err := writeManuals(sub, dir); err != nil {
			return err
		}
	}
	return nil
}

func manualName(c *cobra.Command) string { return strings.ReplaceAll(c.CommandPath(), " ", "-") }

// documented lists the commands below c that people call.
func documented(c *cobra.Command) []*cobra.Command {
	var list []*cobra.Command
	for _, sub := range c.Commands() {
		if sub.IsAvailableCommand() && sub.Name() != "help" {
			list = append(list, sub)
		}
	}
	return list
}

// manual returns the page of one command in the man macros of roff.
func manual(c *cobra.Command) []byte {
	var b bytes.Buffer
	fmt.Fprintf(&b, ".TH %s 1 \"\" \"candela\" \"Candela\"\n", roff(strings.ToUpper(manualName(c))))
	fmt.Fprintf(&b, ".SH NAME\n%s \\- %s\n", roff(manualName(c)), roff(c.Short))
	fmt.Fprintf(&b, ".SH SYNOPSIS\n.B %s\n", roff(c.UseLine()))
	long := c.Long
	if long == "" {
		long = c.Short + "."
	}
	fmt.Fprintf(&b, ".SH DESCRIPTION\n%s", roffText(long))
	if subs := documented(c); len(subs) > 0 {
		b.WriteString(".SH COMMANDS\n")
		for _, sub := range subs {
			fmt.Fprintf(&b, ".TP\n.B %s\n%s\n", roff(sub.Name()), roff(sub.Short))
		}
	}
	if c.HasAvailableLocalFlags() {
		b.WriteString(".SH OPTIONS\n")
		c.LocalFlags().VisitAll(func(f *pflag.Flag) { roffFlag(&b, f) })
	}
	if c.HasAvailableInheritedFlags() {
		b.WriteString(".SH GLOBAL OPTIONS\n")
		c.InheritedFlags().VisitAll(func(f *pflag.Flag) { roffFlag(&b, f) })
	}
	if c.Example != "" {
		fmt.Fprintf(&b, ".SH EXAMPLES\n%s", roffText(c.Example))
	}
	b.WriteString(".SH EXIT STATUS\n0 pass, 1 fail, 2 bad usage or configuration, 3 invalid, " +
		"4 Candela, the machine or the lab failed.\n.SH SEE ALSO\n")
	b.WriteString(seeAlso(c))
	return b.Bytes()
}

// seeAlso names the pages above and below c.
func seeAlso(c *cobra.Command) string {
	var names []string
	if c.HasParent() {
		names = append(names, manualName(c.Parent()))
	}
	for _, sub := range documented(c) {
		names = append(names, manualName(sub))
	}
	if len(names) == 0 {
		return "/usr/share/doc/candela\n"
	}
	var b strings.Builder
	for i, n := range names {
		comma := ","
		if i == len(names)-1 {
			comma = ""
		}
		fmt.Fprintf(&b, ".BR %s (1)%s\n", roff(n), comma)
	}
	return b.String()
}

func roffFlag(b *bytes.Buffer, f *pflag.Flag) {
	if f.Hidden {
		return
	}
	kind, usage := pflag.UnquoteUsage(f)
	name := `\fB\-\-` + roff(f.Name) + `\fR`
	if f.Shorthand != "" {
		name = `\fB\-` + roff(f.Shorthand) + `\fR, ` + name
	}
	if kind != "" {
		name += ` \fI` + roff(kind) + `\fR`
	}
	fmt.Fprintf(b, ".TP\n%s\n%s", name, roff(usage))
	if f.DefValue != "" && f.DefValue != "[]" && f.DefValue != "0" && f.DefValue != "false" {
		fmt.Fprintf(b, " (default %s)", roff(f.DefValue))
	}
	b.WriteString("\n")
}

// roffText returns paragraphs. Indented lines, tables and examples, keep their form.
func roffText(text string) string {
	var b strings.Builder
	verbatim := false
	set := func(on bool) {
		if on != verbatim {
			b.WriteString(map[bool]string{true: ".PP\n.nf\n", false: ".fi\n.PP\n"}[on])
		}
		verbatim = on
	}
	for line := range strings.Lines(strings.Trim(text, "\n")) {
		line = strings.TrimRight(line, "\n")
		switch {
		case line == "" && !verbatim:
			b.WriteString(".PP\n")
			continue
		case line != "":
			set(strings.HasPrefix(line, "  "))
		}
		b.WriteString(roff(line) + "\n")
	}
	set(false)
	return strings.ReplaceAll(b.String(), ".PP\n.PP\n", ".PP\n")
}

var roffEscapes = strings.NewReplacer(`\`, `\e`, "-", `\-`, "…", "...",
	"'", `\(aq`, "`", `\(ga`, "^", `\(ha`, "~", `\(ti`,
	"µ", "u", "–", `\(en`, "×", `\(mu`, "·", `\(pc`, "→", `\(->`, "α", `\(*a`)

// roff escapes text. A line that would begin with a control character gets a zero-width one before it.
func roff(text string) string {
	text = roffEscapes.Replace(text)
	if strings.HasPrefix(text, ".") {
		return `\&` + text
	}
	return text
}
