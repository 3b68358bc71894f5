package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

func TestEveryCommandHasAManualPageWithItsFlags(t *testing.T) {
	dir := t.TempDir()
	if status, _, stderr := candela(t, "man", dir); status != 0 {
		t.Fatal(stderr)
	}
	var check func(c *cobra.Command)
	pages := 0
	check = func(c *cobra.Command) {
		page, err := os.ReadFile(filepath.Join(dir, manualName(c)+".1"))
		if err != nil {
			t.Error(err)
			return
		}
		pages++
		c.LocalFlags().VisitAll(func(f *pflag.Flag) {
			if !strings.Contains(string(page), `\fB\-\-`+roff(f.Name)+`\fR`) {
				t.Errorf("%s: --%s is not on the page", manualName(c), f.Name)
			}
		})
		for _, sub := range documented(c) {
			check(sub)
		}
	}
	check(newRoot())
	if entries, _ := os.ReadDir(dir); len(entries) < pages || pages < 25 {
		t.Errorf("%d files for %d commands", len(entries), pages)
	}
}

func TestRoffHasNothingToSayAboutTheManualPages(t *testing.T) {
	groff, err := exec.LookPath("groff")
	if err != nil {
		t.Skip("SKIP-groff: groff is not installed (tools/setup)")
	}
	dir := t.TempDir()
	if err := writeManuals(newRoot(), dir); err != nil {
		t.Fatal(err)
	}
	files, err := filepath.Glob(filepath.Join(dir, "*.1"))
	if err != nil {
		t.Fatal(err)
	}
	out, err := exec.CommandContext(t.Context(), groff, append([]string{"-man", "-ww", "-z", "-Tascii"}, files...)...).
		CombinedOutput()
	if text := string(out); err != nil || strings.Contains(text, "warning") || strings.Contains(text, "error") {
		t.Errorf("%v: %s", err, out)
	}
}

func TestRoffTextCannotBecomeARequest(t *testing.T) {
	for text, want := range map[string]string{
		".SH x":               "\\&.SH x\n",
		"'br":                 "\\(aqbr\n",
		`a\b-c`:               "a\\eb\\-c\n",
		"one\n\ntwo":          "one\n.PP\ntwo\n",
		"see:\n\n  a  b\n\nx": "see:\n.PP\n.nf\n  a  b\n\n.fi\n.PP\nx\n",
	} {
		if got := roffText(text); got != want {
			t.Errorf("%q: got %q, want %q", text, got, want)
		}
	}
}
