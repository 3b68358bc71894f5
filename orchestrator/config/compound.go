package config

import (
	"fmt"
	"slices"
	"strconv"

	"gopkg.in/yaml.v3"
)

// optional is a value that may be absent, kept as a pointer.
type optional[T any] struct{ of kind }

func (k optional[T]) allowed() string { return k.of.allowed() }

func (k optional[T]) decode(d *decoder, n *yaml.Node, path string, dst any) {
	v := new(T)
	k.of.decode(d, n, path, v)
	*dst.(**T) = v
}

func (k optional[T]) encode(src any) *yaml.Node {
	if p := *src.(**T); p != nil {
		return present(k.of.encode(p))
	}
	return nil
}

// present returns n, or an empty mapping if n is nil.
func present(n *yaml.Node) *yaml.Node {
	if n == nil {
		return &yaml.Node{Kind: yaml.MappingNode, Tag: "!!map", Style: yaml.FlowStyle}
	}
	return n
}

func (k optional[T]) jsonSchema() map[string]any { return k.of.jsonSchema() }

// list is a sequence. A key without a value is an empty list, so that the last item can be commented out.
type list[T any] struct {
	of       kind
	min, max int
	omit     bool // write nothing for an empty list
	single   bool // a lone value is read as a list of one
}

func (k list[T]) allowed() string {
	if k.single {
		return k.of.allowed() + ", or a list of them"
	}
	return "a list; each item is " + k.of.allowed()
}

func (k list[T]) decode(d *decoder, n *yaml.Node, path string, dst any) {
	out := dst.(*[]T)
	*out = nil
	switch {
	case n.Kind == yaml.SequenceNode:
	case n.Kind == yaml.ScalarNode && n.Tag == "!!null" && k.min == 0:
		return
	case k.single:
		*out = make([]T, 1)
		k.of.decode(d, n, path, &(*out)[0])
		return
	default:
		d.wrongType(n, path, k.allowed())
		return
	}
	if len(n.Content) < k.min || len(n.Content) > k.max {
		d.problem(n, path, fmt.Sprintf("has %d items; it takes %d to %d", len(n.Content), k.min, k.max), "")
		return
	}
	for i, item := range n.Content {
		itemPath := path + "[" + strconv.Itoa(i) + "]"
		var v T
		if item = d.enter(item, itemPath); item != nil {
			k.of.decode(d, item, itemPath, &v)
		}
		*out = append(*out, v)
	}
}

func (k list[T]) encode(src any) *yaml.Node {
	items := *src.(*[]T)
	if len(items) == 0 && k.omit {
		return nil
	}
	n := &yaml.Node{Kind: yaml.SequenceNode, Tag: "!!seq"}
	for i := range items {
		item := present(k.of.encode(&items[i]))
		n.Content = append(n.Content, item)
		if item.Kind == yaml.MappingNode {
			item.Style = yaml.FlowStyle
		} else {
			n.Style = yaml.FlowStyle
		}
	}
	if len(items) == 0 {
		n.Style = yaml.FlowStyle
	}
	return n
}

func (k list[T]) jsonSchema() map[string]any {
	s := map[string]any{"type": "array", "items": k.of.jsonSchema(), "minItems": k.min, "maxItems": k.max}
	switch {
	case k.single:
		return map[string]any{"oneOf": []any{k.of.jsonSchema(), s}}
	case k.min == 0:
		s["type"] = []string{"array", "null"}
	}
	return s
}

// ordinal is a number from 1, or the word any, kept as 0.
type ordinal struct{ of integer }

func (k ordinal) allowed() string { return k.of.allowed() + " or any" }

func (k ordinal) decode(d *decoder, n *yaml.Node, path string, dst any) {
	switch {
	case n.Kind == yaml.ScalarNode && n.Value == "any":
		setInt(dst, 0)
	case n.Kind == yaml.ScalarNode && n.Tag == "!!int":
		k.of.decode(d, n, path, dst)
	default:
		d.wrongType(n, path, k.allowed())
	}
}

func (k ordinal) encode(src any) *yaml.Node {
	if getInt(src) == 0 {
		return stringNode("any")
	}
	return k.of.encode(src)
}

func (k ordinal) jsonSchema() map[string]any {
	return map[string]any{"oneOf": []any{k.of.jsonSchema(), map[string]any{"const": "any"}}}
}

// orScalar is an object with a short form: a lone value.
type orScalar struct {
	object
	scalar kind
	// fromScalar stores the lone value, which scalar decodes, in the object.
	fromScalar func(d *decoder, n *yaml.Node, path string, dst any)
	// toScalar returns the lone value that is equivalent to the object, or nil.
	toScalar func(src any) *yaml.Node
}

func (k *orScalar) allowed() string { return k.scalar.allowed() + ", or " + k.object.allowed() }

func (k *orScalar) decode(d *decoder, n *yaml.Node, path string, dst any) {
	switch n.Kind {
	case yaml.MappingNode:
		k.object.decode(d, n, path, dst)
	case yaml.ScalarNode:
		if n.Tag == "!!null" {
			d.wrongType(n, path, k.allowed())
			return
		}
		k.fromScalar(d, n, path, dst)
	default:
		d.wrongType(n, path, k.allowed())
	}
}

func (k *orScalar) encode(src any) *yaml.Node {
	if n := k.toScalar(src); n != nil {
		return n
	}
	return k.object.encode(src)
}

func (k *orScalar) jsonSchema() map[string]any {
	return map[string]any{"oneOf": []any{k.scalar.jsonSchema(), k.object.jsonSchema()}}
}

// keyed is a mapping whose keys are data, kept as a list of T in the order of the file.
type keyed[T any] struct {
	key     text
	parse   func(key string, v *T)
	format  func(v *T) string
	of      kind
	compare func(a, b T) int
}

func (k keyed[T]) allowed() string { return "a mapping whose keys are " + k.key.what }

func (k keyed[T]) decode(d *decoder, n *yaml.Node, path string, dst any) {
	if n.Kind != yaml.MappingNode {
		d.wrongType(n, path, k.allowed())
		return
	}
	seen := make(map[string]bool)
	out := dst.(*[]T)
	for key, value := range d.pairs(n, path) {
		var v T
		keyPath := join(path, printable(key.Value))
		if !k.key.form.MatchString(key.Value) {
			d.problem(key, keyPath, "is not a key of "+path, "its keys are "+k.key.what)
			continue
		}
		k.parse(key.Value, &v)
		name := k.format(&v)
		if seen[name] {
			d.problem(key, keyPath, "is given twice", "")
			continue
		}
		seen[name] = true
		if value = d.enter(value, keyPath); value != nil {
			k.of.decode(d, value, keyPath, &v)
			*out = append(*out, v)
		}
	}
	slices.SortStableFunc(*out, k.compare)
}

func (k keyed[T]) encode(src any) *yaml.Node {
	items := *src.(*[]T)
	if len(items) == 0 {
		return nil
	}
	n := &yaml.Node{Kind: yaml.MappingNode, Tag: "!!map"}
	for i := range items {
		n.Content = append(n.Content, stringNode(k.format(&items[i])), present(k.of.encode(&items[i])))
	}
	return n
}

func (k keyed[T]) jsonSchema() map[string]any {
	return map[string]any{
		"type": "object", "additionalProperties": false,
		"patternProperties": map[string]any{k.key.form.String(): k.of.jsonSchema()},
	}
}

// orAuto is a whole number, or the word auto, kept as nil.
type orAuto struct{ of integer }

const autoWord = "auto"

func (k orAuto) allowed() string { return autoWord + ", or " + k.of.allowed() }

func (k orAuto) decode(d *decoder, n *yaml.Node, path string, dst any) {
	if n.Kind == yaml.ScalarNode && n.Value == autoWord {
		*dst.(**int) = nil
		return
	}
	if n.Kind == yaml.ScalarNode && n.Tag == "!!str" {
		d.wrongType(n, path, k.allowed())
		return
	}
	optional[int]{k.of}.decode(d, n, path, dst)
}

func (k orAuto) encode(src any) *yaml.Node {
	if p := *src.(**int); p != nil {
		return k.of.encode(p)
	}
	return stringNode(autoWord)
}

func (k orAuto) jsonSchema() map[string]any {
	return map[string]any{"anyOf": []any{map[string]any{"const": autoWord}, k.of.jsonSchema()}}
}
