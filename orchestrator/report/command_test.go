package report

import (
	"os/exec"
	"strings"
	"testing"
	"unicode/utf8"

	"pgregory.net/rapid"
)

func TestFileNamesAreQuotedForTheShell(t *testing.T) {
	for name, want := range map[string]string{
		"runs/a-1.pcap": "runs/a-1.pcap", "": "''", "my file.pcap": "'my file.pcap'", "a;b": "'a;b'", "$(x)": "'$(x)'",
		"it's": `'it'\''s'`, "ä": "'ä'",
	} {
		if got := ShellWord(name); got != want {
			t.Errorf("%q: %s, want %s", name, got, want)
		}
	}
}

func TestACommandOfSeveralLinesIsOneCommandToAShell(t *testing.T) {
	sh, err := exec.LookPath("sh")
	if err != nil {
		t.Skip("SKIP: there is no sh")
	}
	words := []string{"printf", `%s\n`, "a long directory/with spaces", "it's", "--around", "12", strings.Repeat("x", 90), "last"}
	quoted := make([]string, len(words))
	for i, w := range words {
		quoted[i] = ShellWord(w)
	}
	for _, width := range []int{60, 80, 400} {
		text := written(strings.Join(quoted, " "), width)
		got, err := exec.CommandContext(t.Context(), sh, "-c", text).CombinedOutput()
		if err != nil || string(got) != strings.Join(words[2:], "\n")+"\n" {
			t.Errorf("width %d: %v, %q from\n%s", width, err, got, text)
		}
	}
}

// written returns a command as printed in a report of that width, without its label.
func written(command string, width int) string {
	var b strings.Builder
	p := newPrinter(&b, TextOptions{Width: width})
	p.command(cell{"next", dim}, command)
	// A strings.Builder never fails.
	_ = p.Flush()
	return strings.TrimPrefix(b.String(), "next")
}

func TestCommandsFitTheLineUnlessOneWordDoesNot(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		width := rapid.IntRange(60, 140).Draw(t, "width")
		words := rapid.SliceOfN(rapid.StringMatching(`[a-z/' ]{1,48}`), 1, 12).Draw(t, "words")
		for i, w := range words {
			words[i] = ShellWord(strings.ReplaceAll(w, "'", ""))
		}
		command := strings.Join(words, " ")
		text := written(command, width)
		for line := range strings.Lines(text) {
			if n := utf8.RuneCountInString(strings.TrimSuffix(line, "\n")); n > width {
				t.Fatalf("%d characters in a line of %d: %q", n, width, line)
			}
		}
	})
}
