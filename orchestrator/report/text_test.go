package report

import (
	"bytes"
	"errors"
	"strings"
	"testing"
	"unicode/utf8"
)

func render(t *testing.T, r *Report, o TextOptions) string {
	t.Helper()
	var b bytes.Buffer
	if err := Text(&b, r, o); err != nil {
		t.Fatal(err)
	}
	return b.String()
}

func TestTextMatchesGoldenFiles(t *testing.T) {
	for name, r := range fixtures() {
		t.Run(name, func(t *testing.T) {
			golden(t, name+".txt", []byte(render(t, r, TextOptions{})))
		})
	}
	t.Run("verbose", func(t *testing.T) {
		golden(t, "verbose.txt", []byte(render(t, failing(), TextOptions{Verbose: true})))
	})
	t.Run("narrow", func(t *testing.T) {
		golden(t, "narrow.txt", []byte(render(t, failing(), TextOptions{Width: 80})))
	})
	t.Run("colour", func(t *testing.T) {
		golden(t, "colour.txt", []byte(render(t, failing(), TextOptions{Color: true})))
	})
}

func TestTextWithoutColourHasNoControlCharacters(t *testing.T) {
	for name, r := range fixtures() {
		for line := range strings.SplitSeq(render(t, r, TextOptions{Verbose: true, Width: 60}), "\n") {
			if strings.ContainsFunc(line, suspect) || !utf8.ValidString(line) {
				t.Errorf("%s: %q", name, line)
			}
			if strings.HasSuffix(line, " ") {
				t.Errorf("%s: spaces at the end of %q", name, line)
			}
		}
	}
}

func TestTextKeepsForeignEscapesOutOfColouredOutput(t *testing.T) {
	got := render(t, hostile(), TextOptions{Color: true})
	if strings.Contains(got, "\x1b[2J") {
		t.Error("an escape sequence of the report's input reached the terminal")
	}
}

func TestTextWithColourSaysTheSame(t *testing.T) {
	for name, r := range fixtures() {
		coloured := render(t, r, TextOptions{Color: true})
		for _, s := range []style{bold, dim, red, green, yellow, boldRed, boldGreen, boldYellow, "0"} {
			coloured = strings.ReplaceAll(coloured, "\x1b["+string(s)+"m", "")
		}
		if plain := render(t, r, TextOptions{}); plain != coloured {
			t.Errorf("%s: colour changes the text", name)
		}
	}
}

type brokenWriter struct{}

var errFull = errors.New("no space left on device")

func (brokenWriter) Write([]byte) (int, error) { return 0, errFull }

func TestEveryFormReportsAWriteError(t *testing.T) {
	r := failing()
	if err := Text(brokenWriter{}, r, TextOptions{}); !errors.Is(err, errFull) {
		t.Errorf("Text: %v", err)
	}
}

func TestWrapBreaksAtSpaces(t *testing.T) {
	for name, c := range map[string]struct {
		in    string
		width int
		want  []string
	}{
		"a short text stays":              {"one two", 7, []string{"one two"}},
		"a text breaks where it must":     {"one two three", 7, []string{"one two", "three"}},
		"a long word stands alone":        {"a /very/long/path b", 5, []string{"a", "/very/long/path", "b"}},
		"an empty text is one empty line": {"", 5, []string{""}},
	} {
		t.Run(name, func(t *testing.T) {
			got := wrap(c.in, c.width)
			if strings.Join(got, "\n") != strings.Join(c.want, "\n") {
				t.Errorf("got %q, want %q", got, c.want)
			}
		})
	}
}

func FuzzCleanIsSafeAndStable(f *testing.F) {
	f.Add("plain")
	f.Add("\x1b[31m\x00\u202e\xff\U000e0001")
	f.Fuzz(func(t *testing.T, s string) {
		got := clean(s)
		if strings.ContainsFunc(got, suspect) || !utf8.ValidString(got) {
			t.Errorf("clean(%q) = %q", s, got)
		}
		if second := clean(got); second != got {
			t.Errorf("clean(%q) = %q, again %q", s, got, second)
		}
	})
}
