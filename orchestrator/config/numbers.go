package config

import (
	"fmt"
	"regexp"
	"strconv"
	"strings"

	"gopkg.in/yaml.v3"
)

// Number is a number of a pattern: N or, with FromLast, the last number minus N.
type Number struct {
	N        int64
	FromLast bool
}

// of returns the value of n, given the last number.
func (n Number) of(last int64) int64 {
	if n.FromLast {
		return last - n.N
	}
	return n.N
}

// String returns n in the words of the configuration: "5", "last", "last-2".
func (n Number) String() string {
	switch {
	case n.FromLast && n.N == 0:
		return "last"
	case n.FromLast:
		return fmt.Sprintf("last-%d", n.N)
	}
	return strconv.FormatInt(n.N, 10)
}

// Span is the numbers from First to Last, both included.
type Span struct{ First, Last Number }

// String returns s in the words of the configuration: "5", "5..9", "5..last".
func (s Span) String() string {
	if s.First == s.Last {
		return s.First.String()
	}
	return s.First.String() + ".." + s.Last.String()
}

// Numbers is the set of numbers of one value, in the order of the file.
type Numbers []Span

// String returns n in the words of the configuration.
func (n Numbers) String() string {
	words := make([]string, len(n))
	for i, s := range n {
		words[i] = s.String()
	}
	if len(words) == 1 {
		return words[0]
	}
	return "[" + strings.Join(words, ", ") + "]"
}

// maxSpans bounds a list of numbers, as each needs an entry in the injector.
const maxSpans = maxEvents

// numberForm matches a number or a range; both may be relative to last.
var numberForm = regexp.MustCompile(
	`^(last(?:-[1-9][0-9]{0,8})?|[0-9]{1,18})(?:\.\.(last(?:-[1-9][0-9]{0,8})?|[0-9]{1,18}))?$`)

// numbers is the kind of a set of numbers: 5, 5..9, last, last-2, or a list of these. It is stored as [Numbers].
type numbers struct {
	of   integer
	last bool // the word last is allowed
}

func (k numbers) allowed() string {
	s := "a range such as 5..9"
	if k.last {
		s += ", last"
	}
	return s + ", or a list of them"
}

func (k numbers) decode(d *decoder, n *yaml.Node, path string, dst any) {
	out := dst.(*Numbers)
	if n.Kind == yaml.ScalarNode {
		k.span(d, n, path, out)
		return
	}
	if n.Kind != yaml.SequenceNode {
		d.wrongType(n, path, k.of.allowed()+", "+k.allowed())
		return
	}
	if len(n.Content) == 0 || len(n.Content) > maxSpans {
		d.problem(n, path, fmt.Sprintf("has %d items; it takes 1 to %d", len(n.Content), maxSpans), "")
		return
	}
	for i, item := range n.Content {
		itemPath := path + "[" + itoa(i) + "]"
		if item = d.enter(item, itemPath); item != nil {
			k.span(d, item, itemPath, out)
		}
	}
}

// span decodes one number or range.
func (k numbers) span(d *decoder, n *yaml.Node, path string, out *Numbers) {
	match := numberForm.FindStringSubmatch(n.Value)
	if n.Kind != yaml.ScalarNode || match == nil || !k.last && strings.Contains(n.Value, "last") {
		d.wrongType(n, path, k.of.allowed()+", "+k.allowed())
		return
	}
	s := Span{First: numberOf(match[1])}
	s.Last = s.First
	if match[2] != "" {
		s.Last = numberOf(match[2])
	}
	for _, end := range []Number{s.First, s.Last} {
		if !end.FromLast && (end.N < k.of.min || end.N > k.of.max) {
			d.problem(n, path, printable(n.Value)+" is out of range", because("it takes numbers "+k.of.bounds(), k.of.why))
			return
		}
	}
	if s.First.FromLast == s.Last.FromLast && s.First.of(0) > s.Last.of(0) {
		d.problem(n, path, printable(n.Value)+" is empty", "write a range from the smaller to the larger number")
		return
	}
	*out = append(*out, s)
}

// numberOf parses text that matches numberForm.
func numberOf(text string) Number {
	if rest, ok := strings.CutPrefix(text, "last"); ok {
		n, _ := strconv.ParseInt(strings.TrimPrefix(rest, "-"), 10, 64) // 0 for an empty string
		return Number{n, true}
	}
	n, _ := strconv.ParseInt(text, 10, 64) // at most 18 digits
	return Number{N: n}
}

func (numbers) encode(src any) *yaml.Node {
	list := *src.(*Numbers)
	if len(list) == 0 {
		return nil
	}
	node := func(s Span) *yaml.Node {
		if s.First == s.Last && !s.First.FromLast {
			return scalarNode("!!int", s.String())
		}
		return stringNode(s.String())
	}
	n := &yaml.Node{Kind: yaml.SequenceNode, Tag: "!!seq", Style: yaml.FlowStyle}
	for _, s := range list {
		n.Content = append(n.Content, node(s))
	}
	return n
}

func (k numbers) jsonSchema() map[string]any {
	one := []any{k.of.jsonSchema(), map[string]any{"type": "string", "pattern": numberForm.String()}}
	items := map[string]any{"type": "array", "minItems": 1, "maxItems": maxSpans, "items": map[string]any{"oneOf": one}}
	return map[string]any{"oneOf": append(one, items)}
}

// patterned is a value of kind one, or a set of such values. Its accessor returns the enclosing mapping, which stores
// the two forms separately.
type patterned struct {
	one      kind // integer, ordinal or an optional integer
	set      numbers
	plain    func(parent any) any
	pattern  func(parent any) *Numbers
	optional bool // 0 in plain is an absent key
}

func (k patterned) allowed() string { return k.one.allowed() + ", " + k.set.allowed() }

func (k patterned) decode(d *decoder, n *yaml.Node, path string, dst any) {
	word := n.Kind == yaml.ScalarNode && n.Tag == "!!str" && numberForm.MatchString(n.Value) &&
		!plainInteger.MatchString(n.Value)
	if n.Kind == yaml.SequenceNode || word {
		k.set.decode(d, n, path, k.pattern(dst))
		return
	}
	_, any := k.one.(ordinal)
	if number := n.Tag == "!!int" || n.Tag == "!!float"; n.Kind != yaml.ScalarNode || !number &&
		!(any && n.Value == "any") {
		d.wrongType(n, path, k.allowed())
		return
	}
	k.one.decode(d, n, path, k.plain(dst))
}

func (k patterned) encode(src any) *yaml.Node {
	if list := k.pattern(src); len(*list) > 0 {
		return k.set.encode(list)
	}
	n := k.one.encode(k.plain(src))
	if k.optional && n != nil && n.Value == "0" {
		return nil
	}
	return n
}

func (k patterned) jsonSchema() map[string]any {
	forms := k.set.jsonSchema()
	if _, ok := k.one.(ordinal); ok {
		forms["oneOf"] = append(forms["oneOf"].([]any), map[string]any{"const": "any"})
	}
	return forms
}

// positive is a number from 1, or 0 if absent.
type positive struct{ integer }

func (k positive) encode(src any) *yaml.Node {
	if getInt(src) == 0 {
		return nil
	}
	return k.integer.encode(src)
}
