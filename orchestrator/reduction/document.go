package reduction

import (
	"fmt"
	"strings"

	"candela.dev/candela/orchestrator/config"
	"candela.dev/candela/orchestrator/report"
)

// Document is the smallest test as files.
type Document struct {
	Test    []byte
	Testbed []byte // nil: the test runs on the embedded description
}

// Written returns the result in the form for sharing, without settings that have their defaults. from is where the
// failure was found, file and testbed the names of the files, command how to run Candela.
func (r *Result) Written(options config.Options, from, file, testbed, command string) Document {
	var doc Document
	t := r.Test.WithTestbedFile(config.VirtualTestbed)
	if string(t.Testbed.YAML()) != string(config.DefaultTestbed().YAML()) {
		doc.Testbed, t = t.Testbed.YAML(), t.WithTestbedFile(testbed)
	}
	doc.Test = append(r.comment(from, file, command), terse(t, options)...)
	return doc
}

func (r *Smallest[T]) comment(from, file, command string) []byte {
	var b strings.Builder
	line := func(format string, args ...any) {
		for text := range strings.Lines(fmt.Sprintf(format, args...)) {
			fmt.Fprintf(&b, "# %s\n", strings.TrimRight(strings.Map(commentRune, text), " "))
		}
	}
	size := "Smallest test found that shows"
	if !r.Complete {
		size = "Smaller test (runs or time gave out) that shows"
	}
	line("%s %s, from %s in %d runs.", size, r.Target, from, r.Runs)
	b.WriteString("#\n")
	if f := r.Finding; f != nil {
		line("%s", f.Summary())
		if f.Headline != "" {
			line("Rule: %s: %s", f.Rule, f.Message)
		}
		line("Expected: %s", f.Expected)
		line("Actual: %s", f.Actual)
		line("Clause: %s", f.Clause)
	} else {
		line("%s", r.Reason)
	}
	fmt.Fprintf(&b, "#\n# Reproduce: %s run %s\n", command, report.ShellWord(file))
	return []byte(b.String())
}

// commentRune keeps a comment on its line.
func commentRune(r rune) rune {
	if r < ' ' || r == 0x7f || r == 0x85 || r == 0x2028 || r == 0x2029 {
		return ' '
	}
	return r
}

// Terse writes a test as [Result.Written] does, without comment and for the testbed that it names.
func Terse(t *config.Test, options config.Options) []byte { return terse(t, options) }

// terse writes t without the settings that a test with the same NICs and nothing else has, too. If that reads
// differently, because a default depends on another setting, everything is written.
func terse(t *config.Test, options config.Options) []byte {
	full := t.YAML()
	nic := func(h *config.Host) string { return "{nic: {profile: " + h.NIC.Profile + "}}" }
	plain := "name: plain\ntraffic: {}\n"
	same := plain + fmt.Sprintf("requester: %s\nresponder: %s\n", nic(&t.Requester), nic(&t.Responder))
	usual, err := defaults(plain, options)
	if err != nil {
		return full
	}
	omit, err := defaults(same, options)
	if err != nil {
		return full
	}
	short := without(paths(full), func(l pathLine) bool {
		return omit[l] && (usual[l] || !strings.HasPrefix(strings.TrimSpace(l.text), "profile:"))
	})
	options.ReadFile = func(string) ([]byte, error) { return t.Testbed.YAML(), nil }
	if reparsed, err := config.Parse("terse", short, options); err != nil || reparsed.Hash() != t.Hash() {
		return full
	}
	return short
}

// defaults returns the lines of a test in which everything that text omits has its default.
func defaults(text string, options config.Options) (map[pathLine]bool, error) {
	t, err := config.Parse("plain", []byte(text), options)
	if err != nil {
		return nil, err
	}
	lines := make(map[pathLine]bool)
	for _, l := range paths(t.YAML()) {
		lines[l] = true
	}
	return lines, nil
}

// A pathLine is a line of a canonical document, which has one setting a line.
type pathLine struct {
	text   string
	indent int
	path   string // of the keys above it
	leaf   bool   // it has a value; others are the heads of mappings and lists
}

func paths(document []byte) []pathLine {
	var lines, above []pathLine
	for text := range strings.Lines(string(document)) {
		text = strings.TrimRight(text, "\n")
		l := pathLine{text: text, indent: len(text) - len(strings.TrimLeft(text, " ")), leaf: !strings.HasSuffix(text, ":")}
		for len(above) > 0 && above[len(above)-1].indent >= l.indent {
			above = above[:len(above)-1]
		}
		for _, a := range above {
			l.path += a.text + "\n"
		}
		if !l.leaf {
			above = append(above, l)
		}
		lines = append(lines, l)
	}
	return lines
}

// without removes the leaves that are defaults and then empty mappings. Tests without traffic keep one.
func without(lines []pathLine, omit func(pathLine) bool) []byte {
	var b strings.Builder
	var heads []pathLine
	traffic := false
	for _, l := range lines {
		for len(heads) > 0 && heads[len(heads)-1].indent >= l.indent {
			heads = heads[:len(heads)-1]
		}
		if !l.leaf {
			heads = append(heads, l)
			continue
		}
		if omit(l) {
			continue
		}
		for _, h := range heads {
			traffic = traffic || h.text == "traffic:"
			b.WriteString(h.text + "\n")
		}
		for i := range heads {
			heads[i].text = "" // written
		}
		heads = heads[:0]
		b.WriteString(l.text + "\n")
	}
	if !traffic {
		b.WriteString("traffic: {}\n")
	}
	return []byte(b.String())
}
