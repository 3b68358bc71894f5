package config

import (
	"slices"

	"candela.dev/candela/generator/parameter"
	"gopkg.in/yaml.v3"
)

// modelled is a mapping in which one key names a model. The model's parameter table declares the other keys.
type modelled struct {
	selector string // the key that names the model
	doc      string // of the selector
	title    string
	what     string // "model of a switch"
	def      string // the default model; empty: the selector is required
	models   []parameter.Model
	of       func(parent any) *Modelled
	more     []field           // keys that every model has
	refused  map[string]string // known models that are refused, each with the reason
	bugs     bool
}

func (k *modelled) names() []string {
	names := make([]string, len(k.models))
	for i := range k.models {
		names[i] = k.models[i].Name
	}
	return names
}

func (k *modelled) model(name string) *parameter.Model {
	if i := slices.Index(k.names(), name); i >= 0 {
		return &k.models[i]
	}
	return nil
}

// takes reports whether key is the selector, a common key, or a parameter of a model.
func (k *modelled) takes(key string) bool {
	return key == k.selector || slices.ContainsFunc(k.more, func(f field) bool { return f.key == key }) ||
		slices.ContainsFunc(k.models, func(m parameter.Model) bool { return m.Parameters.Find(key) >= 0 })
}

func (k *modelled) allowed() string {
	return "a mapping with " + k.selector + " (" + oneOf(k.names()) + ") and the parameters of the " + k.what
}

func (k *modelled) decode(d *decoder, n *yaml.Node, path string, dst any) {
	if n.Kind != yaml.MappingNode {
		d.wrongType(n, path, k.allowed())
		return
	}
	m := k.choose(d, n, path)
	if m == nil {
		return
	}
	into := k.of(dst)
	into.Model, into.Values = m.Name, m.Parameters.Defaults()
	if k.bugs {
		d.underTest = m
	}
	k.object(m).decode(d, n, path, dst)
}

// choose returns the model that the mapping names. If there is none, it reports a problem and returns nil.
func (k *modelled) choose(d *decoder, n *yaml.Node, path string) *parameter.Model {
	_, value := lookup(n, k.selector)
	if value == nil {
		if k.def == "" {
			d.problem(n, join(path, k.selector), "is missing", "it takes "+oneOf(k.names()))
		}
		return k.model(k.def)
	}
	at := join(path, k.selector)
	if value = d.enter(value, at); value == nil {
		return nil
	}
	if value.Kind != yaml.ScalarNode || value.Tag == "!!null" {
		d.wrongType(value, at, oneOf(k.names()))
		return nil
	}
	m := k.model(value.Value)
	if why := k.refused[value.Value]; why != "" {
		d.problem(value, at, "is "+show(value)+", which is not possible here: "+why, "it takes "+oneOf(k.names()))
		return nil
	}
	if m == nil {
		d.problem(value, at, "is "+show(value)+didYouMean(value.Value, k.names()), "it takes "+oneOf(k.names()))
	}
	return m
}

func (k *modelled) object(m *parameter.Model) *object {
	values := func(parent any) *parameter.Values { return &k.of(parent).Values }
	fields := []field{{key: k.selector, doc: k.doc, kind: enum[status]{values: []status{status(m.Name)}},
		required: k.def == "",
		def:      k.def, at: func(parent any) any { return (*status)(&k.of(parent).Model) }}}
	if m.Name != k.def {
		fields[0].def, fields[0].required = "", true
	}
	fields = append(fields, k.more...)
	fields = append(fields, tableFields(m.Parameters, values, true)...)
	if k.bugs || len(m.Bugs) > 0 {
		bug := enum[status]{}
		for _, b := range m.Bugs {
			bug.values = append(bug.values, status(b.Name))
		}
		fields = append(fields, field{key: "bugs",
			doc:  "Seeded bugs of the model, for tests of the harness itself.",
			kind: bugList{list[status]{of: bug, max: 64, omit: true}}, def: "[]",
			at: func(parent any) any { return &k.of(parent).Bugs }})
	}
	return &object{title: k.title + " " + m.Name, doc: m.Doc, fields: fields}
}

// bugList stores words as strings.
type bugList struct{ list[status] }

func (k bugList) decode(d *decoder, n *yaml.Node, path string, dst any) {
	var words []status
	k.list.decode(d, n, path, &words)
	for _, w := range words {
		*dst.(*[]string) = append(*dst.(*[]string), string(w))
	}
}

func (k bugList) encode(src any) *yaml.Node {
	var words []status
	for _, w := range *src.(*[]string) {
		words = append(words, status(w))
	}
	return k.list.encode(&words)
}

func (k *modelled) encode(src any) *yaml.Node {
	m := k.model(k.of(src).Model)
	if m == nil { // the caller knows more models than k
		m = &parameter.Model{Name: k.of(src).Model, Parameters: k.of(src).Values.Table()}
		for _, b := range k.of(src).Bugs {
			m.Bugs = append(m.Bugs, parameter.Bug{Name: b})
		}
	}
	return k.object(m).encode(src)
}

func (k *modelled) jsonSchema() map[string]any {
	var all []any
	for i := range k.models {
		s := k.object(&k.models[i]).jsonSchema()
		s["title"] = k.models[i].Name
		all = append(all, s)
	}
	if len(all) == 0 {
		return map[string]any{"type": "object"}
	}
	return map[string]any{"oneOf": all}
}

// tableFields declares the parameters of a table as keys.
func tableFields(t parameter.Table, values func(parent any) *parameter.Values, defaults bool) []field {
	fields := make([]field, len(t))
	for i := range t {
		p := &t[i]
		f := field{key: p.Name, doc: p.Doc, kind: parameterKind{p}, at: func(parent any) any { return values(parent) }}
		switch {
		case !defaults, p.Optional:
		case p.Required:
			f.required = true
		case p.Kind == parameter.List || p.Kind == parameter.Integers:
			f.def = "[]"
		default:
			f.def = p.Default
		}
		fields[i] = f
	}
	return fields
}

// parameterKind is one parameter of a model; it is kept in [parameter.Values].
type parameterKind struct{ p *parameter.Parameter }

// scalar returns the kind of a single value; nil for lists.
func (k parameterKind) scalar() kind {
	p := k.p
	switch p.Kind {
	case parameter.Boolean:
		return boolean{}
	case parameter.Word:
		return enum[status]{values: wordsOf(p.Words)}
	case parameter.Number, parameter.Duration, parameter.Rate:
		return quantity{unit: p.Unit, scale: p.Scale(), min: p.Min, max: p.Upper()}
	case parameter.Integer, parameter.Integers:
		return integer{min: p.Min, max: p.Upper(), unit: p.Unit}
	case parameter.Ranges:
		return numbers{of: integer{min: p.Min, max: p.Upper(), unit: p.Unit}}
	case parameter.File:
		if len(p.Words) == 0 {
			return text{fileForm.form, "the name of a file"}
		}
		return text{fileForm.form, "the name of a file, " + oneOf(p.Words)}
	case parameter.Unset, parameter.List:
	}
	return nil
}

func (k parameterKind) integers() list[int64] {
	return list[int64]{of: k.scalar(), max: maxParameterItems}
}

func (k parameterKind) items() list[parameter.Values] {
	return list[parameter.Values]{of: parameterItem{k.p.Items}, max: maxParameterItems}
}

const maxParameterItems = 4096

func (k parameterKind) allowed() string {
	switch k.p.Kind {
	case parameter.List:
		return k.items().allowed()
	case parameter.Integers:
		return k.integers().allowed()
	case parameter.Unset, parameter.Integer, parameter.Number, parameter.Boolean, parameter.Word, parameter.Duration,
		parameter.Rate, parameter.Ranges, parameter.File:
	}
	return k.scalar().allowed()
}

func (k parameterKind) decode(d *decoder, n *yaml.Node, path string, dst any) {
	v, p := dst.(*parameter.Values), k.p
	before := len(d.problems) + d.omitted
	sound := func() bool { return len(d.problems)+d.omitted == before }
	switch p.Kind {
	case parameter.List:
		var items []parameter.Values
		if k.items().decode(d, n, path, &items); sound() {
			v.SetList(p.Name, items)
		}
	case parameter.Integers:
		var items []int64
		if k.integers().decode(d, n, path, &items); sound() {
			v.SetIntegers(p.Name, items)
		}
	case parameter.Ranges:
		var set Numbers
		if k.scalar().decode(d, n, path, &set); sound() {
			v.SetRanges(p.Name, set.pairs())
		}
	case parameter.Boolean:
		var b bool
		if k.scalar().decode(d, n, path, &b); sound() {
			v.SetStep(p.Name, int64(btoi(b)))
		}
	case parameter.File:
		var name string
		if k.scalar().decode(d, n, path, &name); sound() {
			v.SetFile(p.Name, name)
		}
	case parameter.Word:
		var w status
		if k.scalar().decode(d, n, path, &w); sound() {
			v.SetStep(p.Name, int64(slices.Index(p.Words, string(w))))
		}
	case parameter.Unset, parameter.Integer, parameter.Number, parameter.Duration, parameter.Rate:
		var step int64
		if k.scalar().decode(d, n, path, &step); sound() {
			v.SetStep(p.Name, step)
		}
	}
}

func btoi(b bool) int {
	if b {
		return 1
	}
	return 0
}

func (k parameterKind) encode(src any) *yaml.Node {
	v, p := src.(*parameter.Values), k.p
	if !v.Has(p.Name) {
		return nil
	}
	switch p.Kind {
	case parameter.List:
		items := v.List(p.Name)
		return k.items().encode(&items)
	case parameter.Integers:
		items := v.Integers(p.Name)
		return k.integers().encode(&items)
	case parameter.Ranges:
		set := numbersOf(v.Spans(p.Name))
		return k.scalar().encode(&set)
	case parameter.Boolean:
		b := v.Bool(p.Name)
		return k.scalar().encode(&b)
	case parameter.File:
		name := v.File(p.Name)
		return k.scalar().encode(&name)
	case parameter.Word:
		w := status(v.Word(p.Name))
		return k.scalar().encode(&w)
	case parameter.Unset, parameter.Integer, parameter.Number, parameter.Duration, parameter.Rate:
	}
	step := v.Step(p.Name)
	return k.scalar().encode(&step)
}

func (k parameterKind) jsonSchema() map[string]any {
	switch k.p.Kind {
	case parameter.List:
		return k.items().jsonSchema()
	case parameter.Integers:
		return k.integers().jsonSchema()
	case parameter.Unset, parameter.Integer, parameter.Number, parameter.Boolean, parameter.Word, parameter.Duration,
		parameter.Rate, parameter.Ranges, parameter.File:
	}
	return k.scalar().jsonSchema()
}

type parameterItem struct{ table parameter.Table }

func (k parameterItem) object() *object {
	return &object{title: "item", doc: "One item.",
		fields: tableFields(k.table, func(parent any) *parameter.Values { return parent.(*parameter.Values) }, true)}
}

func (k parameterItem) allowed() string { return k.object().allowed() }

func (k parameterItem) decode(d *decoder, n *yaml.Node, path string, dst any) {
	v := dst.(*parameter.Values)
	*v = k.table.Defaults()
	k.object().decode(d, n, path, v)
}

func (k parameterItem) encode(src any) *yaml.Node { return k.object().encode(src) }

func (k parameterItem) jsonSchema() map[string]any { return k.object().jsonSchema() }

// settings are the parameters of the switch under test that a change sets; there are no defaults.
type settings struct{}

func (settings) allowed() string { return "a mapping of parameters of the switch under test" }

func (k settings) object(t parameter.Table) *object {
	return &object{title: "set", doc: "Parameters of the switch under test.",
		fields: tableFields(t, func(parent any) *parameter.Values { return parent.(*parameter.Values) }, false)}
}

func (k settings) decode(d *decoder, n *yaml.Node, path string, dst any) {
	if n.Kind != yaml.MappingNode || len(n.Content) == 0 {
		d.wrongType(n, path, k.allowed())
		return
	}
	if d.underTest == nil {
		return // the problem of its model is already reported
	}
	v := dst.(*parameter.Values)
	*v = d.underTest.Parameters.Nothing()
	k.object(d.underTest.Parameters).decode(d, n, path, v)
}

func (k settings) encode(src any) *yaml.Node {
	v := src.(*parameter.Values)
	if v.IsZero() {
		return nil
	}
	return k.object(v.Table()).encode(v)
}

func (settings) jsonSchema() map[string]any {
	return map[string]any{"type": "object", "minProperties": 1, "additionalProperties": map[string]any{}}
}
