package config

import (
	"fmt"
	"slices"

	"candela.dev/candela/trace"
	"gopkg.in/yaml.v3"
)

// defaultTrimDSCP is the DSCP of trimmed headers if the profile gives none: that of the examples in SONiC's
// documentation.
const defaultTrimDSCP = 48

// trimFields declares the short form of a trim: its parameters next to the type. The written form of a test uses the
// mapping trim instead.
func trimFields() []field {
	var list []field
	for _, f := range trimSchema().fields {
		switch f.key {
		case "size", "dscp":
			f.key = "trim-" + f.key
		case "update-ip-length":
			f.key = "update-ip-len"
		case "update-udp-length":
			f.key = "update-udp-len"
		}
		defDoc := f.defDoc
		if f.def != "" {
			defDoc = f.def
		}
		list = append(list, field{key: f.key, doc: "Of a trim: short for the same key of trim. " + f.doc, defDoc: defDoc,
			kind: shortTrim{f.kind, f.at}, at: at(func(e *DataEvent) **Trim { return &e.Trim })})
	}
	return list
}

// shortTrim is the kind of a trim parameter next to the type.
type shortTrim struct {
	kind
	of func(trim any) any
}

func (k shortTrim) decode(d *decoder, n *yaml.Node, path string, dst any) {
	trim := dst.(**Trim)
	if _, both := d.at[join(parentPath(path), "trim")]; both {
		d.problem(n, path, "is given twice", "the event has a trim mapping; put this parameter there")
		return
	}
	if *trim == nil {
		*trim = defaultTrim(d)
	}
	k.kind.decode(d, n, path, k.of(*trim))
}

// encode writes nothing: the written form uses the mapping trim.
func (k shortTrim) encode(any) *yaml.Node { return nil }

// defaultTrim returns a trim with every default.
func defaultTrim(d *decoder) *Trim {
	t := new(Trim)
	trimSchema().decode(d, mustParse("{}"), "", t)
	return t
}

// validateTrim sets the defaults of an event's trim parameters and checks them.
func (d *decoder) validateTrim(path string, e *DataEvent) {
	switch {
	case e.Type == trace.EventTrim && e.Trim == nil:
		e.Trim = new(Trim)
		trimSchema().decode(d, mustParse("{}"), path+".trim", e.Trim)
	case e.Type != trace.EventTrim && e.Trim != nil:
		d.problemAt(path+".trim", "is not a parameter of "+e.Type.String(), "only type: trim has trim parameters")
	}
}

// validateTrimReaction checks that a NIC can distinguish trimmed packets from whole ones.
func (d *decoder) validateTrimReaction(t *Test) {
	for _, s := range []Side{Requester, Responder} {
		path := s.String() + ".roce-parameters.trim-dscp"
		if r := &t.Host(s).RoCE; r.TrimReaction && r.TrimDSCP == t.Traffic.DSCP && d.fine(path, "traffic.dscp") {
			d.problemAt(path, fmt.Sprintf("%d is also the DSCP of untrimmed packets (traffic.dscp)", r.TrimDSCP),
				"the DSCP must distinguish trimmed packets from them")
		}
	}
}

// Compare describes the paired run that a test is compared with.
type Compare struct {
	// TrimAs replaces trims in the paired run; EventNone: there is no paired run.
	TrimAs trace.EventType
}

func compareSchema() *object {
	return &object{
		title: "compare",
		doc: "A paired run with the same seed. Its traffic is the same up to the first changed event; its verdict does not " +
			"count, and its run " +
			"directory is paired in that of the run.",
		fields: []field{
			{key: "trim-as", doc: "What happens to trimmed packets in the paired run: drop loses them whole, corrupt leaves " +
				"them with a wrong iCRC. Reports " +
				"show for each packet how much sooner it was repaired than that.",
				kind:   optionalEvent{enum[trace.EventType]{values: []trace.EventType{trace.EventDrop, trace.EventCorrupt}}},
				defDoc: "no paired run", at: at(func(c *Compare) *trace.EventType { return &c.TrimAs })},
		},
	}
}

// optionalEvent is an event type; EventNone is not written.
type optionalEvent struct{ enum[trace.EventType] }

func (k optionalEvent) encode(src any) *yaml.Node {
	if *src.(*trace.EventType) == trace.EventNone {
		return nil
	}
	return k.enum.encode(src)
}

// WithTrimsAs returns the test of the paired run. It replaces every trim by another event and has no expectations.
func (t *Test) WithTrimsAs(as trace.EventType) *Test {
	other := *t
	other.Compare, other.Expect = Compare{}, Expect{}
	other.Traffic.DataEvents = slices.Clone(t.Traffic.DataEvents)
	for i := range other.Traffic.DataEvents {
		if e := &other.Traffic.DataEvents[i]; e.Type == trace.EventTrim {
			e.Type, e.Trim = as, nil
		}
	}
	return &other
}

// validateCompare checks that the test has trims to compare.
func (d *decoder) validateCompare(t *Test) {
	trims := slices.ContainsFunc(t.Traffic.DataEvents, func(e DataEvent) bool { return e.Type == trace.EventTrim })
	if t.Compare.TrimAs != trace.EventNone && !trims && d.fine("compare.trim-as", "traffic.data-pkt-events") {
		d.problemAt("compare.trim-as", "no packet is trimmed", "data-pkt-events has no event of type trim")
	}
	if t.Expect.Trim.Gain != nil && t.Compare.TrimAs == trace.EventNone && d.fine("expect.trim.gain-us", "compare") {
		d.problemAt("expect.trim.gain-us", "needs compare.trim-as", "the gain is measured against a run with trim-as")
	}
}

func trimBounds() []field {
	bound := optional[Bound]{boundSchema()}
	return []field{
		{key: "nack-us", doc: "From the trimmed header to the NAK, or for a READ response to the repeated READ request.",
			kind: bound,
			at:   at(func(t *TrimExpect) **Bound { return &t.Nack })},
		{key: "reaction-us", doc: "From that to the retransmission.", kind: bound,
			at: at(func(t *TrimExpect) **Bound { return &t.Reaction })},
		{key: "recovery-us", doc: "From the trimmed header to the delivery of the whole packet.", kind: bound,
			at: at(func(t *TrimExpect) **Bound { return &t.Recovery })},
		{key: "gain-us", doc: "How much sooner a trimmed packet is delivered than in the paired run of compare.", kind: bound,
			at: at(func(t *TrimExpect) **Bound { return &t.Gain })},
	}
}
