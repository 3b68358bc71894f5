package config

import (
	"slices"

	"gopkg.in/yaml.v3"
)

// A kind is a type of value in the configuration language. It decodes a YAML node into a Go value, encodes it, and
// describes itself to people and editors. Kinds are stateless.
type kind interface {
	// decode sets *dst from n, which is not an alias, or reports problems to d.
	decode(d *decoder, n *yaml.Node, path string, dst any)
	// encode returns the node for *src, or nil if there is nothing to write.
	encode(src any) *yaml.Node
	// jsonSchema describes the values that decode takes, as far as a JSON Schema can express them.
	jsonSchema() map[string]any
	// allowed describes them in a few words.
	allowed() string
}

// A field is a key of an object and the location of its value in the Go struct.
type field struct {
	key      string
	doc      string
	kind     kind
	def      string // YAML text of the default; "" with required unset: the key may be absent
	defDoc   string // what the reference prints instead of def
	required bool
	at       func(parent any) any // pointer to the value in the pointed-to parent
	preset   func(d *decoder, parent any)
}

// at returns an accessor for a field of T.
func at[T, F any](f func(*T) *F) func(any) any {
	return func(parent any) any { return f(parent.(*T)) }
}

// An object is a mapping with known keys.
type object struct {
	title   string // heading in the reference
	doc     string
	fields  []field
	refused map[string]string // keys that people try, each with the reason for the refusal
	alias   map[string]string // wrong names that people try, each with the correct key
}

func (o *object) keys() []string {
	keys := make([]string, len(o.fields))
	for i, f := range o.fields {
		keys[i] = f.key
	}
	return keys
}

func (o *object) field(key string) *field {
	if i := slices.IndexFunc(o.fields, func(f field) bool { return f.key == key }); i >= 0 {
		return &o.fields[i]
	}
	return nil
}

// Messages list the keys of a mapping only up to this number, unless the list is the point of the message.
const fewKeys = 10

func (o *object) allowed() string {
	if keys := o.keys(); len(keys) <= fewKeys {
		return "a mapping with " + oneOf(keys)
	}
	return "a mapping"
}

func (o *object) decode(d *decoder, n *yaml.Node, path string, dst any) {
	if n.Kind != yaml.MappingNode {
		d.wrongType(n, path, o.allowed())
		return
	}
	values, guessed := o.collect(d, n, path)
	for i := range o.fields {
		f := &o.fields[i]
		if f.required && values[f.key] == nil && guessed[f.key] {
			continue // the unknown key is already reported
		}
		o.decodeField(d, n, f, values[f.key], path, dst)
	}
}

// collect returns the values of n's known keys and reports unknown, refused and repeated keys. guessed are the known
// keys that unknown ones may be misspellings of.
func (o *object) collect(d *decoder, n *yaml.Node, path string) (values map[string]*yaml.Node,
	guessed map[string]bool) {
	values, guessed = make(map[string]*yaml.Node, len(o.fields)), make(map[string]bool)
	seen := make(map[string]*yaml.Node)
	for key, value := range d.pairs(n, path) {
		if first := seen[key.Value]; first != nil {
			d.problem(key, join(path, printable(key.Value)), "is given twice", "the first is in line "+itoa(first.Line))
			continue
		}
		seen[key.Value] = key
		if o.field(key.Value) == nil {
			if guess := o.unknown(d, key, path); guess != "" {
				guessed[guess] = true
			}
			continue
		}
		d.at[join(path, key.Value)] = posOf(key)
		values[key.Value] = value
	}
	return values, guessed
}

// unknown reports a key that o does not have. It returns the key that was probably meant, or "".
func (o *object) unknown(d *decoder, key *yaml.Node, path string) (guess string) {
	if why, ok := o.refused[key.Value]; ok {
		d.problem(key, join(path, key.Value), "is not supported here", why)
		return ""
	}
	if len(d.problems) == maxCollected {
		d.omitted++ // skip the guess, which is expensive
		return ""
	}
	at, place := join(path, printable(key.Value)), path
	if place == "" {
		place = "the top level"
	}
	if guess = o.alias[normalise(key.Value)]; guess == "" {
		if homes := o.homesOf(key.Value); len(homes) > 0 {
			for i, home := range homes {
				homes[i] = join(path, home)
			}
			d.problem(key, at, "unknown key: it belongs in "+oneOf(homes), "")
			return ""
		}
		guess = closest(key.Value, o.keys())
	}
	why := place + " takes " + oneOf(o.keys())
	if guess != "" && len(o.fields) > fewKeys {
		why = ""
	}
	d.problem(key, at, "unknown key"+asked(guess), why)
	return guess
}

// maxHomes bounds the number of mappings that an error suggests for a misplaced key.
const maxHomes = 12

// homesOf returns the keys of mappings in o, or in the items of its lists, that have key; nil if there are too many.
func (o *object) homesOf(key string) (homes []string) {
	for i := range o.fields {
		child := mapping(o.fields[i].kind)
		model, _ := o.fields[i].kind.(*modelled)
		if child != nil && child.field(normalise(key)) != nil || model != nil && model.takes(normalise(key)) {
			homes = append(homes, o.fields[i].key)
		}
	}
	if len(homes) > maxHomes {
		return nil
	}
	return homes
}

func (o *object) decodeField(d *decoder, parent *yaml.Node, f *field, value *yaml.Node, path string, dst any) {
	if f.preset != nil {
		f.preset(d, dst)
	}
	at, fieldPath := f.at(dst), join(path, f.key)
	if value != nil {
		if value = d.enter(value, fieldPath); value != nil {
			f.kind.decode(d, value, fieldPath, at)
		}
		return
	}
	switch {
	case f.required:
		d.problem(parent, fieldPath, "is missing", "it takes "+f.kind.allowed())
	case f.def != "":
		f.kind.decode(d, d.defaultNode(parent, f.def), fieldPath, at)
	}
}

func (o *object) encode(src any) *yaml.Node {
	n := &yaml.Node{Kind: yaml.MappingNode, Tag: "!!map"}
	for i := range o.fields {
		f := &o.fields[i]
		if value := f.kind.encode(f.at(src)); value != nil {
			n.Content = append(n.Content, stringNode(f.key), value)
		}
	}
	if len(n.Content) == 0 {
		return nil
	}
	return n
}

func (o *object) jsonSchema() map[string]any {
	properties, required := make(map[string]any, len(o.fields)), []string{}
	for i := range o.fields {
		f := &o.fields[i]
		s := f.kind.jsonSchema()
		s["description"] = f.doc
		if f.def != "" {
			s["default"] = jsonDefault(f.def)
		}
		properties[f.key] = s
		if f.required {
			required = append(required, f.key)
		}
	}
	s := map[string]any{"type": "object", "additionalProperties": false, "properties": properties}
	if len(required) > 0 {
		s["required"] = required
	}
	return s
}

func join(path, key string) string {
	if path == "" {
		return key
	}
	return path + "." + key
}
