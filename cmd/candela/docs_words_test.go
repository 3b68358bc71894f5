package main

import (
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"unicode"

	"github.com/spf13/cobra"
)

// Limits in words, as wc -w counts them, including tables and code: of handwritten pages, to which a later issue may
// add 1,200, and of decision records.
const (
	// Issue 17: judge, flows, traffic; 18: queue management; 19: scheduling by rank; 21: deflection; 24: history, and 500
	// for nightly plans; 23: devices and applications in a lab.
	maxWords   = 16000 + 4*1200 + 350 + 500 + 300
	maxRecords = 7000
)

// generated are pages that programs write. A test compares each with its source.
var generated = map[string]bool{
	"docs/reference/config.md": true, "docs/reference/rules.md": true, "docs/reference/bugs.md": true,
	"docs/reference/bug-views.md": true, "docs/reference/switch-reference.md": true,
	"docs/reference/oracle-choices.md": true,
}

func TestTheHandWrittenPagesStayShort(t *testing.T) {
	all, records, list := 0, 0, ""
	for page, text := range pages(t) {
		if strings.HasPrefix(page, "configs/") || generated[page] {
			continue
		}
		words := len(strings.Fields(text))
		if strings.HasPrefix(page, "docs/internals/adr/") {
			records += words
			continue
		}
		all += words
		list += fmt.Sprintf("\n%6d %s", words, page)
	}
	t.Logf("%d words, and %d in decision records%s", all, records, list)
	if all > maxWords || records > maxRecords {
		t.Errorf("the pages written by hand have %d words and decision records %d; the limits are %d and %d",
			all, records, maxWords, maxRecords)
	}
	if all < 8000 || records < 3000 {
		t.Errorf("counted %d and %d words: pages are missing", all, records)
	}
}

// banned are words that docs and --help must not contain, with replacements.
var banned = []struct {
	form    *regexp.Regexp
	instead string
}{
	{regexp.MustCompile(`(?i)\bsent again\b`), "retransmitted"},
	{regexp.MustCompile(`(?i)\bsound (nic|device|host|model|endpoint|implementation)s?\b|\b(is|are) sound\b`),
		"compliant, correct"},
	{regexp.MustCompile(`(?i)\bway there and back\b`), "RTT"},
	{regexp.MustCompile(`(?i)\bby lot\b`), "at random"},
	{regexp.MustCompile(`(?i)\b(of )?somebody else\b`), "third-party"},
	{regexp.MustCompile(`(?i)\bis no (key|yaml|multiple|address|number|test|trace|capture|violation|retry|json)\b`),
		"is not a …"},
	{regexp.MustCompile(`(?i)\bno YAML\b`), "not valid YAML"},
	{regexp.MustCompile(`(?i)\bstands? (in|at|under|beside|there|behind|between|where)\b`), "is in, is under"},
	{regexp.MustCompile(`(?i)\btelling (number|value|line)s?\b|\btells (more|nothing)\b`), "shows"},
	{regexp.MustCompile(`(?i)\bbelongs? into\b`), "belongs in"},
	{regexp.MustCompile(`(?i)\bnot everyone reads alike\b`), "ambiguous"},
}

func checkEnglish(t *testing.T, where, text string) {
	t.Helper()
	for _, b := range banned {
		for _, found := range b.form.FindAllString(text, -1) {
			t.Errorf("%s says %q; write: %s", where, found, b.instead)
		}
	}
}

func TestDocsAndHelpUseTheFieldsWords(t *testing.T) {
	for page, text := range pages(t) {
		checkEnglish(t, page, text)
	}
	var visit func(c *cobra.Command)
	visit = func(c *cobra.Command) {
		checkEnglish(t, c.CommandPath()+" --help", strings.Join(strings.Fields(c.Short+"\n"+c.Long+"\n"+c.Example+"\n"+
			c.LocalFlags().FlagUsages()), " "))
		for _, sub := range c.Commands() {
			visit(sub)
		}
	}
	visit(newRoot())
	for _, bad := range []string{"packet 5 is sent again", "a sound NIC", "x is no key of y", "it stands in the file"} {
		found := false
		for _, b := range banned {
			found = found || b.form.MatchString(bad)
		}
		if !found {
			t.Errorf("%q is not noticed", bad)
		}
	}
}

// anchors returns the link targets of a page, as GitHub derives them from headings.
func anchors(page string) map[string]bool {
	found, fenced := make(map[string]bool), false
	for line := range strings.Lines(page) {
		if strings.HasPrefix(line, "```") {
			fenced = !fenced
		}
		heading, ok := strings.CutPrefix(strings.TrimLeft(line, "#"), " ")
		if fenced || !ok || !strings.HasPrefix(line, "#") {
			continue
		}
		name := strings.Map(func(r rune) rune {
			switch {
			case unicode.IsLetter(r), unicode.IsDigit(r), r == '-', r == '_':
				return unicode.ToLower(r)
			case r == ' ':
				return '-'
			}
			return -1
		}, strings.TrimSpace(heading))
		found[name] = true
	}
	return found
}

func TestEveryAnchorOfThePagesExists(t *testing.T) {
	link := regexp.MustCompile(`\]\(([^)#:\s]*)#([^)\s]+)\)`)
	list, found := pages(t), 0
	for page, text := range list {
		for _, m := range link.FindAllStringSubmatch(text, -1) {
			target := page
			if m[1] != "" {
				target = filepath.Join(filepath.Dir(page), m[1])
			}
			if found++; !anchors(list[target])[m[2]] {
				t.Errorf("%s links to #%s of %s, which has no such heading", page, m[2], target)
			}
		}
	}
	if found < 2 {
		t.Errorf("found %d links with an anchor, want at least 2: the expression no longer finds them", found)
	}
}

// TestEveryPageThatTheSourcesNameExists checks paths of pages in errors, findings, --help, comments, scripts and the
// Makefile. A clause names a section after a comma: "docs/guide/captures.md, Payloads".
func TestEveryPageThatTheSourcesNameExists(t *testing.T) {
	named := regexp.MustCompile(`\bdocs/[a-z0-9][a-z0-9/.-]*[a-z0-9]`)
	section := regexp.MustCompile(`"(docs/[a-z0-9/.-]+\.md), ([A-Z][A-Za-z ]+)"`)
	list, found := pages(t), 0
	err := filepath.WalkDir("../..", func(path string, d fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case d.IsDir() && (d.Name() == ".git" || d.Name() == ".cache" || d.Name() == "runs" || d.Name() == "node_modules"):
			return filepath.SkipDir
		case d.IsDir():
			return nil
		}
		switch ext := filepath.Ext(path); {
		case ext == ".go" || ext == ".yml" || ext == ".p4" || ext == ".lua" || d.Name() == "Makefile" || d.Name() == "run":
		default:
			return nil
		}
		data, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		for _, name := range named.FindAllString(string(data), -1) {
			if found++; !exists(name) {
				t.Errorf("%s names %s, which does not exist", path, name)
			}
		}
		for _, m := range section.FindAllStringSubmatch(string(data), -1) {
			anchor := strings.ToLower(strings.ReplaceAll(m[2], " ", "-"))
			if !anchors(list[m[1]])[anchor] {
				t.Errorf("%s names section %q of %s, which has no such heading", path, m[2], m[1])
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	if found < 30 {
		t.Errorf("found %d pages named in sources, want at least 30: the expression no longer finds them", found)
	}
}

// exists reports whether a path, relative to the root of the repository, exists. A decision record may be named by its
// number: docs/…/adr/0005.
func exists(name string) bool {
	if _, err := os.Stat(filepath.Join("../..", name)); err == nil {
		return true
	}
	numbered, err := filepath.Glob(filepath.Join("../..", name) + "-*.md")
	return err == nil && len(numbered) == 1
}
