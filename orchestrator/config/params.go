package config

import (
	"fmt"
	"iter"
	"strings"

	"gopkg.in/yaml.v3"

	"candela.dev/candela/clock"
	"candela.dev/candela/packet"
	"candela.dev/candela/trace"
)

// forParams calls fn for the parameters of all actions that have keys.
func forParams(fn func(*trace.Action, *trace.ActionParam)) {
	for i := range trace.Actions {
		for n := range trace.Actions[i].Params {
			if p := &trace.Actions[i].Params[n]; p.Key != "" {
				fn(&trace.Actions[i], p)
			}
		}
	}
}

// eventTypes returns the events of data packets or of control packets, and their description.
func eventTypes(data bool) (list []trace.EventType, doc string) {
	var hardware, software []string
	for e := trace.EventDrop; e <= trace.MaxEventType; e++ {
		a := e.Action()
		switch {
		case a.DataOnly && !data:
			continue
		case a.Software && a.Doc != "":
			software = append(software, fmt.Sprintf("%s (%s)", a.Word, a.Doc))
		case a.Software:
			software = append(software, a.Word)
		case a.Doc != "":
			hardware = append(hardware, a.Word+": "+a.Doc)
		default:
			hardware = append(hardware, a.Word)
		}
		list = append(list, e)
	}
	last := len(software) - 1
	return list, fmt.Sprintf("%s. On software targets also %s and %s.", strings.Join(hardware, "; "),
		strings.Join(software[:last], ", "), software[last])
}

// paramFields declares the parameters of actions.
func paramFields(data bool, params func(event any) *Params) (list []field) {
	forParams(func(a *trace.Action, p *trace.ActionParam) {
		if a.DataOnly && !data {
			return
		}
		f := field{key: p.Key, doc: p.Doc, defDoc: p.DefDoc, kind: newParamKind(p), at: func(e any) any { return params(e) }}
		if f.defDoc == "" && p.Required == "" {
			f.defDoc = fmt.Sprint(p.Default)
		}
		list = append(list, f)
	})
	return list
}

// paramKind is the kind of a parameter: a number that is written as its values are printed.
type paramKind struct {
	kind
	param *trace.ActionParam
}

func newParamKind(p *trace.ActionParam) paramKind {
	least, most := p.Bounds()
	switch p.Print {
	case trace.AsDuration:
		return paramKind{quantity{unit: "us", scale: int64(clock.Microsecond), max: most / 1000}, p}
	case trace.AsField:
		return paramKind{rewriteFields(), p}
	default:
		return paramKind{integer{min: least, max: most}, p}
	}
}

func rewriteFields() enum[packet.RewriteField] {
	return enum[packet.RewriteField]{values: packet.RewriteFields()}
}

func (k paramKind) decode(d *decoder, n *yaml.Node, path string, dst any) {
	params, problems := dst.(*Params), len(d.problems)
	var v int64
	switch k.param.Print {
	case trace.AsDuration:
		var t clock.Duration
		k.kind.decode(d, n, path, &t)
		if v = t.Nanoseconds(); len(d.problems) == problems && (t < clock.Nanosecond || t%clock.Nanosecond != 0) {
			d.problem(n, path, "is not a whole number of nanoseconds", "the smallest step of a delay is 0.001 us")
		}
	case trace.AsField:
		var f packet.RewriteField
		k.kind.decode(d, n, path, &f)
		v = int64(f)
	default:
		k.kind.decode(d, n, path, &v)
	}
	*params = params.With(k.param.Key, v)
}

func (k paramKind) encode(src any) *yaml.Node {
	v, ok := src.(*Params).Get(k.param.Key)
	if !ok {
		return nil
	}
	switch k.param.Print {
	case trace.AsDuration:
		t := clock.Duration(v) * clock.Nanosecond
		return k.kind.encode(&t)
	case trace.AsField:
		f := packet.RewriteField(v)
		return k.kind.encode(&f)
	default:
		return k.kind.encode(&v)
	}
}

// Durations yields the times among the parameters.
func (p Params) Durations() iter.Seq2[string, clock.Duration] {
	return func(yield func(string, clock.Duration) bool) {
		for i := range trace.Actions {
			for n := range trace.Actions[i].Params {
				d := &trace.Actions[i].Params[n]
				v, ok := p.Get(d.Key)
				if ok && d.Print == trace.AsDuration && !yield(d.Key, clock.Duration(v)*clock.Nanosecond) {
					return
				}
			}
		}
	}
}

// scaled returns the parameters with times multiplied by 1<<shift.
func (p Params) scaled(shift int) Params {
	for key, v := range p.Durations() {
		p = p.With(key, v.Nanoseconds()<<shift)
	}
	return p
}

// validateParams checks the parameters of an event against its type and makes defaults explicit.
func (d *decoder) validateParams(path string, t trace.EventType, params *Params) {
	given := map[*trace.Action]bool{} // actions of type t with a parameter
	forParams(func(a *trace.Action, p *trace.ActionParam) {
		if _, ok := params.Get(p.Key); !ok {
			return
		}
		given[a] = a.Event == t
		if a.Event != t {
			d.problemAt(path+"."+p.Key,
				"is not a parameter of "+t.String(), fmt.Sprintf("only type: %v takes %s", a.Event, p.Key))
		}
	})
	forParams(func(a *trace.Action, p *trace.ActionParam) {
		if a != t.Action() && !given[a] {
			return
		}
		switch _, ok := params.Get(p.Key); {
		case ok:
		case p.Print == trace.AsField:
			d.problemAt(path+"."+p.Key, "is missing", p.Required+rewriteFields().allowed())
		case p.Required != "":
			d.problemAt(path+"."+p.Key, "is missing", p.Required)
		default:
			*params = params.With(p.Key, int64(p.Default))
		}
	})
	if t == trace.EventRewrite {
		d.validateRewrite(path, *params)
	}
}

func (d *decoder) validateRewrite(path string, params Params) {
	f, hasField := params.Get("field")
	v, hasValue := params.Get("value")
	if !hasField || !hasValue {
		return
	}
	field := packet.RewriteField(f)
	low, high := int64(0), int64(1)<<field.Bits()-1
	if field == packet.RewritePSN {
		low, high = 1, 1<<24
	}
	if v < low || v > high {
		d.problemAt(path+".value", fmt.Sprintf("%d is out of range", v), fmt.Sprintf("%v takes %d to %d", field, low, high))
	}
}
