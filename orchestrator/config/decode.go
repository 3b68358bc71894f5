package config

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"iter"
	"regexp"
	"strconv"
	"strings"
	"unicode/utf8"

	"candela.dev/candela/generator/parameter"
	"gopkg.in/yaml.v3"
)

// Limits on the work for one file, against hostile input. Hand-written tests are a hundred times smaller.
const (
	maxFileSize = 4 << 20 // bytes
	maxNodes    = 1 << 19 // YAML values visited, each use of an alias counted

	maxCollected = 1000 // problems; every check searches those found before
)

// decoder decodes one document by its schema. It collects problems instead of stopping at the first.
type decoder struct {
	positions
	options   Options
	problems  []Problem
	omitted   int             // problems beyond the limit, only counted
	wrong     map[string]bool // paths with a problem
	touched   map[string]bool // paths with a problem there or below
	visited   int
	defaults  map[string]*yaml.Node // parsed defaults, by their text
	underTest *parameter.Model      // of a switch test: changes may set its parameters
}

func posOf(n *yaml.Node) Pos { return Pos{max(1, n.Line), max(1, n.Column)} }

func itoa(n int) string { return strconv.Itoa(n) }

func (d *decoder) problem(n *yaml.Node, path, message, why string) {
	d.report(Problem{File: d.file, Pos: posOf(n), Path: path, Message: message, Why: why})
}

// problemAt reports a problem with the value at path, at its position in the file.
func (d *decoder) problemAt(path, message, why string) {
	d.report(Problem{File: d.file, Pos: d.of(path), Path: path, Message: message, Why: why})
}

func (d *decoder) report(p Problem) {
	d.wrong[p.Path], d.touched[""] = true, true
	for path := p.Path; path != ""; path = parentPath(path) {
		d.touched[path] = true
	}
	if len(d.problems) < maxCollected {
		d.problems = append(d.problems, p)
	} else {
		d.omitted++
	}
}

// err returns the problems found as an error, nil if there are none.
func (d *decoder) err() error { return newError(d.problems, d.omitted) }

// wrongType reports that n is not a value that a kind takes.
func (d *decoder) wrongType(n *yaml.Node, path, allowed string) {
	why := "it takes " + allowed
	switch {
	case n.Kind == yaml.ScalarNode && n.Tag == "!!str" && n.Style&(yaml.DoubleQuotedStyle|yaml.SingleQuotedStyle) != 0:
		why += "; quotes make text of it"
	case n.Kind == yaml.ScalarNode && n.Tag == "!!null":
		why += "; remove the key to get the default"
	}
	d.problem(n, path, "is "+show(n), why)
}

// show describes a value in a few words for an error.
func show(n *yaml.Node) string {
	switch n.Kind {
	case yaml.MappingNode:
		return "a mapping"
	case yaml.SequenceNode:
		return "a list"
	case yaml.ScalarNode:
		if n.Tag == "!!null" {
			return "empty"
		}
		if n.Tag == "!!str" {
			return strconv.Quote(printable(n.Value))
		}
		return printable(n.Value)
	}
	return "no value"
}

// printable shortens s and makes it safe for a terminal.
func printable(s string) string {
	const longest = 60
	if len(s) > longest {
		s = strings.ToValidUTF8(s[:longest], "") + "…"
	}
	quoted := strconv.Quote(s)
	return strings.ReplaceAll(quoted[1:len(quoted)-1], `\"`, `"`)
}

// enter records the position of path's value, follows an alias and counts the visit. Beyond maxNodes it returns nil,
// and reports a problem once.
func (d *decoder) enter(n *yaml.Node, path string) *yaml.Node {
	if d.visited++; d.visited > maxNodes {
		if d.visited == maxNodes+1 {
			d.problem(n, path, fmt.Sprintf("the file has more than %d values", maxNodes), "each use of an alias counts")
		}
		return nil
	}
	d.at[path] = posOf(n)
	if n.Kind != yaml.AliasNode {
		return n
	}
	if n.Alias == nil || n.Alias.Kind == yaml.AliasNode {
		d.problem(n, path, "is an alias without an anchor", "")
		return nil
	}
	// The copy has the position of the alias, so that a problem names the use and not the definition.
	use := *n.Alias
	use.Line, use.Column = n.Line, n.Column
	return &use
}

// pairs yields the keys and values of a mapping. It reports keys that are not plain text.
func (d *decoder) pairs(n *yaml.Node, path string) iter.Seq2[*yaml.Node, *yaml.Node] {
	return func(yield func(*yaml.Node, *yaml.Node) bool) {
		for i := 0; i+1 < len(n.Content); i += 2 {
			key, value := n.Content[i], n.Content[i+1]
			switch {
			case key.Tag == "!!merge":
				d.problem(key, path, "merge keys (<<) are not supported", "write the keys out, or use an alias for a whole value")
			case key.Kind != yaml.ScalarNode:
				d.problem(key, path, "has a key that is "+show(key), "keys are plain words")
			default:
				if !yield(key, value) {
					return
				}
			}
		}
	}
}

// defaultNode parses the YAML text of a default. Its position is that of the mapping that lacks the key.
func (d *decoder) defaultNode(parent *yaml.Node, text string) *yaml.Node {
	n := d.defaults[text]
	if n == nil {
		n = mustParse(text)
		d.defaults[text] = n
	}
	here := *n
	here.Line, here.Column = parent.Line, parent.Column
	return &here
}

// mustParse parses YAML that is part of this package.
func mustParse(text string) *yaml.Node {
	var doc yaml.Node
	if err := yaml.Unmarshal([]byte(text), &doc); err != nil {
		panic(fmt.Sprintf("config: a default of the schema is not valid YAML: %q: %v", text, err))
	}
	return doc.Content[0]
}

// parseDocument returns the only document of a file. It returns nil and reports a problem if there is not exactly one.
func (d *decoder) parseDocument(data []byte) *yaml.Node {
	start := &yaml.Node{Line: 1, Column: 1}
	if len(data) > maxFileSize {
		d.problem(start, "", fmt.Sprintf("the file has %d bytes; the limit is %d", len(data), maxFileSize), "")
		return nil
	}
	data = bytes.TrimPrefix(data, []byte("\ufeff"))
	if pos, ok := invalidText(data); !ok {
		d.problem(&yaml.Node{Line: pos.Line, Column: pos.Col}, "", "the file is not UTF-8 text", "")
		return nil
	}
	dec := yaml.NewDecoder(bytes.NewReader(data))
	var doc, second yaml.Node
	if err := dec.Decode(&doc); err != nil {
		d.syntaxError(data, err)
		return nil
	}
	switch err := dec.Decode(&second); {
	case err == nil:
		d.problem(&second, "", "the file has a second document",
			"a file contains one test; put the second one in a file of its own")
		return nil
	case !errors.Is(err, io.EOF):
		d.syntaxError(data, err)
		return nil
	}
	root := doc.Content[0]
	if root.Kind == yaml.ScalarNode && root.Tag == "!!null" {
		d.syntaxError(data, io.EOF)
		return nil
	}
	return root
}

// invalidText returns the position of the first byte that is not valid UTF-8.
func invalidText(data []byte) (Pos, bool) {
	pos := Pos{1, 1}
	for len(data) > 0 {
		r, size := utf8.DecodeRune(data)
		if r == utf8.RuneError && size <= 1 || r == 0 {
			return pos, false
		}
		if pos.Col++; r == '\n' {
			pos = Pos{pos.Line + 1, 1}
		}
		data = data[size:]
	}
	return pos, true
}

var yamlLine = regexp.MustCompile(`^(?:yaml: )?(?:line (\d+): )?`)

// syntaxError reports an error of the YAML parser, which gives at most the line.
func (d *decoder) syntaxError(data []byte, err error) {
	if errors.Is(err, io.EOF) {
		d.problem(&yaml.Node{}, "", "the file is empty", "a test needs at least name and traffic")
		return
	}
	text := err.Error()
	match := yamlLine.FindStringSubmatch(text)
	line, _ := strconv.Atoi(match[1])
	if line > 0 && strings.Contains(text, "did not find expected") {
		line++ // the parser, unlike the scanner, counts lines from 0
	}
	why := ""
	lines := strings.Split(string(data), "\n")
	for i := max(0, line-2); i <= min(line, len(lines)-1); i++ {
		if indent := lines[i][:len(lines[i])-len(strings.TrimLeft(lines[i], " \t"))]; strings.Contains(indent, "\t") {
			why, line = "YAML is indented with spaces, never with tabs", i+1
			break
		}
	}
	d.problem(&yaml.Node{Line: line}, "", "is not valid YAML: "+printable(text[len(match[0]):]), why)
}
