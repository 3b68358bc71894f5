package report

import (
	"bytes"
	"errors"
	"strings"
	"testing"
	"unicode/utf8"
)

func html(t *testing.T, r *Report) string {
	t.Helper()
	var b bytes.Buffer
	if err := HTML(&b, r); err != nil {
		t.Fatal(err)
	}
	return b.String()
}

func TestHTMLMatchesGoldenFiles(t *testing.T) {
	for name, r := range fixtures() {
		t.Run(name, func(t *testing.T) {
			golden(t, name+".html", []byte(html(t, r)))
		})
	}
}

func TestHTMLNeedsNothingElse(t *testing.T) {
	for name, r := range fixtures() {
		page := strings.ReplaceAll(html(t, r), `href="#`, "") // an anchor on the same page
		for _, forbidden := range []string{"<script", "http://", "https://", "src=", "href=", "url(", "@import", "ZgotmplZ"} {
			if strings.Contains(page, forbidden) {
				t.Errorf("%s: the page contains %q", name, forbidden)
			}
		}
	}
}

func TestHTMLKeepsHostileTextHarmless(t *testing.T) {
	page := html(t, hostile())
	if !utf8.ValidString(page) {
		t.Error("invalid UTF-8")
	}
	for line := range strings.SplitSeq(page, "\n") {
		if strings.ContainsFunc(line, suspect) {
			t.Errorf("control characters in %q", line)
		}
	}
	if n := strings.Count(page, "alert(1)"); n == 0 {
		t.Error("the fixture's text is missing: this test proves nothing")
	}
}

func TestHTMLReportsAWriteError(t *testing.T) {
	if err := HTML(brokenWriter{}, failing()); !errors.Is(err, errFull) {
		t.Error(err)
	}
}
