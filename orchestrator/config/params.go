package config

import (
	"fmt"

	"candela.dev/candela/clock"
	"candela.dev/candela/packet"
	"candela.dev/candela/trace"
)

// Bounds of the software actions' parameters: the contract's widths, and for delays what a test would wait for.
const (
	maxDelayUS = 10_000_000 // ten seconds
	maxCopies  = 1<<8 - 1
	maxBy      = 1<<16 - 1
	maxOffset  = 1<<16 - 1
	maxRewrite = 1<<32 - 1 // the widest field
)

// softwareActions are the actions that only software targets have.
var softwareActions = []trace.EventType{trace.EventDelay, trace.EventDuplicate, trace.EventReorder, trace.EventRewrite}

const softwareDoc = "On software targets also delay, duplicate, reorder (later packets of the same direction overtake it) and rewrite (set a header " +
	"field; checksums and iCRC follow)."

// paramFields declares the parameters of software actions.
func paramFields(params func(event any) *Params) []field {
	in := func(f func(*Params) any) func(any) any { return func(e any) any { return f(params(e)) } }
	return []field{
		{key: "delay-us", doc: "Of a delay: how long the packet is held while others pass; required.",
			kind: optional[clock.Duration]{quantity{unit: "µs", scale: int64(clock.Microsecond), max: maxDelayUS}},
			at:   in(func(p *Params) any { return &p.Delay })},
		{key: "copies", doc: "Of a duplicate: additional copies, sent right behind.", defDoc: "1", kind: optional[int]{integer{min: 1, max: maxCopies}},
			at: in(func(p *Params) any { return &p.Copies })},
		{key: "by", doc: "Of a reorder: so many later packets of its direction overtake it; if they don't come it waits for 1 ms.", defDoc: "1",
			kind: optional[int]{integer{min: 1, max: maxBy}}, at: in(func(p *Params) any { return &p.By })},
		{key: "field", doc: "Of a rewrite: the header field; required.", kind: optional[packet.RewriteField]{enum[packet.RewriteField]{values: packet.RewriteFields()}},
			at: in(func(p *Params) any { return &p.Field })},
		{key: "value", doc: "Of a rewrite: the new value; required. A psn counts from 1 like those of events.",
			kind: optional[int64]{integer{min: 0, max: maxRewrite}}, at: in(func(p *Params) any { return &p.Value })},
	}
}

// payloadFields declares the parameters of a corrupt that damages the payload.
func payloadFields(params func(event any) *Params) []field {
	return []field{
		{key: "offset", doc: "Of a corrupt: damage this byte of the payload, from 0, instead of the headers. Software targets only.", defDoc: "0 if xor is given",
			kind: optional[int]{integer{min: 0, max: maxOffset}}, at: func(e any) any { return &params(e).Offset }},
		{key: "xor", doc: "Of a corrupt: the bits that are flipped in the payload byte.", defDoc: "255 if offset is given",
			kind: optional[int]{integer{min: 1, max: 255}}, at: func(e any) any { return &params(e).Xor }},
	}
}

// validateParams checks the parameters of an event against its type and makes defaults explicit.
func (d *decoder) validateParams(path string, t trace.EventType, p *Params) {
	d.strayParams(path, t, p)
	switch t {
	case trace.EventDelay:
		if p.Delay == nil {
			d.problemAt(path+".delay-us", "is missing", "a delay has to say how long it is")
		} else if *p.Delay < clock.Nanosecond || *p.Delay%clock.Nanosecond != 0 {
			d.problemAt(path+".delay-us", "is no whole number of nanoseconds", "injectors count nanoseconds; the smallest delay is 0.001")
		}
	case trace.EventDuplicate:
		orDefault(&p.Copies, 1)
	case trace.EventReorder:
		orDefault(&p.By, 1)
	case trace.EventRewrite:
		d.validateRewrite(path, p)
	case trace.EventCorrupt:
		if p.Offset != nil || p.Xor != nil {
			orDefault(&p.Offset, 0)
			orDefault(&p.Xor, 255)
		}
	case trace.EventNone, trace.EventDrop, trace.EventECN, trace.EventTrim:
	}
}

func orDefault(p **int, v int) {
	if *p == nil {
		*p = &v
	}
}

// strayParams reports parameters of other actions than t.
func (d *decoder) strayParams(path string, t trace.EventType, p *Params) {
	for _, param := range []struct {
		key   string
		given bool
		of    trace.EventType
	}{
		{"delay-us", p.Delay != nil, trace.EventDelay}, {"copies", p.Copies != nil, trace.EventDuplicate}, {"by", p.By != nil, trace.EventReorder},
		{"field", p.Field != nil, trace.EventRewrite}, {"value", p.Value != nil, trace.EventRewrite},
		{"offset", p.Offset != nil, trace.EventCorrupt}, {"xor", p.Xor != nil, trace.EventCorrupt},
	} {
		if param.given && param.of != t {
			d.problemAt(path+"."+param.key, "the event is a "+t.String(), fmt.Sprintf("only type: %v takes %s", param.of, param.key))
		}
	}
}

func (d *decoder) validateRewrite(path string, p *Params) {
	if p.Field == nil {
		d.problemAt(path+".field", "is missing", "it takes "+enum[packet.RewriteField]{values: packet.RewriteFields()}.allowed())
	}
	if p.Value == nil {
		d.problemAt(path+".value", "is missing", "a rewrite has to say what the field is set to")
	}
	if p.Field == nil || p.Value == nil {
		return
	}
	low, high := int64(0), int64(1)<<p.Field.Bits()-1
	if *p.Field == packet.RewritePSN {
		low, high = 1, 1<<24
	}
	if *p.Value < low || *p.Value > high {
		d.problemAt(path+".value", fmt.Sprintf("%d is out of range", *p.Value), fmt.Sprintf("%v takes %d to %d", *p.Field, low, high))
	}
}
