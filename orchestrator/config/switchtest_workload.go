package config

import (
	"fmt"

	"candela.dev/candela/clock"
	"candela.dev/candela/generator/parameter"
	"candela.dev/candela/generator/wire"
	"candela.dev/candela/generator/workload"
	"gopkg.in/yaml.v3"
)

// workloadSchema is an item with a key for each kind of workload.
func workloadSchema(o *Options) workloadItem {
	item := workloadItem{&object{title: "workload", doc: "One item of the workload: exactly one of its keys."}}
	for _, k := range workload.Kinds() {
		kind := &object{title: k.Name, doc: k.Doc,
			fields: tableFields(k.Parameters, func(p any) *parameter.Values { return &p.(*Workload).Values }, true)}
		kind.fields = append(kind.fields, offerFields(o)...)
		if !k.Sized && !k.Closed() {
			kind.fields = append(kind.fields, stopField())
		}
		item.fields = append(item.fields,
			field{key: k.Name, doc: k.Doc, kind: workloadKind{kind, k.Name, k.Parameters}, at: parent})
	}
	return item
}

// workloadItem is a mapping with exactly one key.
type workloadItem struct{ *object }

func (k workloadItem) inner() kind { return k.object }

func (k workloadItem) decode(d *decoder, n *yaml.Node, path string, dst any) {
	k.object.decode(d, n, path, dst)
	if kinds := len(n.Content) / 2; kinds != 1 && !d.touched[path] {
		d.problem(n, path, fmt.Sprintf("has %d kinds of workload", kinds), "each item is one of "+oneOf(workload.Names()))
	}
}

// workloadKind is the value of the key of a kind.
type workloadKind struct {
	*object
	name  string
	table parameter.Table
}

func (k workloadKind) inner() kind { return k.object }

func (k workloadKind) decode(d *decoder, n *yaml.Node, path string, dst any) {
	w := dst.(*Workload)
	*w = Workload{Kind: k.name, Values: k.table.Defaults()}
	k.object.decode(d, n, path, w)
}

func (k workloadKind) encode(src any) *yaml.Node {
	if src.(*Workload).Kind != k.name {
		return nil
	}
	return present(k.object.encode(src))
}

// Limits of what flows are to switches that know tenants.
const (
	maxTenant = 1 << 20
	maxWeight = 1 << 20
)

// offerFields declares the fields that all items have.
func offerFields(o *Options) []field {
	in := func(f func(*Offer) any) func(any) any {
		return func(parent any) any { return f(&parent.(*Workload).Offer) }
	}
	transports := enum[status]{}
	for _, t := range o.Transports {
		transports.values = append(transports.values, status(t.Name))
	}
	return []field{
		{key: "packets", doc: "Packets that each flow sends; neither packets nor bytes: until the end of the test, which " +
			"without duration-us is that of its pings and requests.",
			kind: optional[int64]{integer{min: 1, max: 1 << 32}}, at: in(func(l *Offer) any { return &l.Packets })},
		{key: "bytes", doc: "Bytes of payload that each flow sends.",
			kind: optional[int64]{integer{min: 1, max: 1 << 45, unit: "bytes"}},
			at:   in(func(l *Offer) any { return &l.Bytes })},
		{key: "packet-size", doc: "Bytes of a full packet, as hosts count them; by default that of hosts.",
			kind: optional[int]{integer{min: minFrameBytes, max: maxFrameBytes, unit: "bytes"}},
			at:   in(func(l *Offer) any { return &l.PacketSize })},
		{key: "rate-gbps", doc: "Each flow sends at this rate, without congestion control; raw transport only.",
			kind: optional[clock.BitRate]{gbps()},
			at:   in(func(l *Offer) any { return &l.Rate })},
		{key: "start-us", doc: "When the first flow starts.", kind: us(0, maxTestUS), def: "0",
			at: in(func(l *Offer) any { return &l.Start })},
		{key: "stagger-us", doc: "From the start of one flow of the item to that of the next.", kind: us(0, maxTestUS),
			def: "0",
			at:  in(func(l *Offer) any { return &l.Stagger })},
		{key: "dscp", doc: "DSCP of data packets.", kind: integer{min: 0, max: 63}, def: "0",
			at: in(func(l *Offer) any { return &l.DSCP })},
		{key: "tc", doc: "Traffic class of the packets; by default the switch maps DSCP to it.",
			kind: optional[int]{integer{min: 0, max: 7}},
			at:   in(func(l *Offer) any { return &l.Class })},
		{key: "rank", doc: rankDoc, kind: optional[wire.Ranking]{ranking{}},
			at: in(func(l *Offer) any { return &l.Rank })},
		{key: "deadline-us", doc: "When a flow is to be complete, after its start; for rank: deadline.",
			kind: optional[clock.Duration]{us(1, maxTestUS)}, at: in(func(l *Offer) any { return &l.Deadline })},
		{key: "ip", doc: "Version of IP.", kind: choice{values: []int{4, 6}}, def: "4",
			at: in(func(l *Offer) any { return &l.IP })},
		{key: "tenant", doc: "Whose flows these are; statistics are kept by tenant.",
			kind: optional[int]{integer{min: 1, max: maxTenant}},
			at:   in(func(l *Offer) any { return &l.Tenant })},
		{key: "weight", doc: "Share of each flow beside others, by which fairness is measured, and " +
			"by which switches share that know it (stfq-…, afq, hpifo, csfq, hcsfq): of what its sender sends; by default 1.",
			kind: optional[int64]{quantity{scale: WeightUnit, min: 0, max: maxWeight}},
			at:   in(func(l *Offer) any { return &l.Weight })},
		{key: "transport", doc: "Transport of these flows if not that of hosts, with its default parameters.",
			kind: optionalStatus{transports},
			at:   in(func(l *Offer) any { return (*status)(&l.Transport) })},
	}
}

// stopField declares when flows without an end leave.
func stopField() field {
	return field{key: "stop-us", doc: "How long after its start each flow leaves, if it has neither packets nor bytes; " +
		"not of the kernels of a lab. By default it sends until the test ends.",
		kind: optional[clock.Duration]{us(1, maxTestUS)},
		at:   func(parent any) any { return &parent.(*Workload).Offer.Stop }}
}

// optionalStatus is not written if empty.
type optionalStatus struct{ enum[status] }
