package config

import (
	"candela.dev/candela/clock"
)

func workloadSchema(o *Options) *object {
	return &object{
		title: "workload", doc: "One item of the workload: exactly one of its keys.",
		fields: []field{
			{key: "incast", doc: "Many senders to few receivers.", kind: optional[Incast]{incastSchema(o)}, at: at(func(w *Workload) **Incast { return &w.Incast })},
			{key: "permutation", doc: "Every host sends to one host and receives from one.", kind: optional[Permutation]{permutationSchema(o)},
				at: at(func(w *Workload) **Permutation { return &w.Permutation })},
			{key: "flow", doc: "One host to another.", kind: optional[Flow]{flowSchema(o)}, at: at(func(w *Workload) **Flow { return &w.Flow })},
			{key: "ping", doc: "Round trips of single packets.", kind: optional[Ping]{pingSchema(o)}, at: at(func(w *Workload) **Ping { return &w.Ping })},
			{key: "requests", doc: "A closed loop of requests and responses.", kind: optional[Requests]{requestsSchema(o)},
				at: at(func(w *Workload) **Requests { return &w.Requests })},
		},
	}
}

func hostNumber() integer { return integer{min: 0, max: maxHosts - 1} }

// offerFields declares what all items have in common.
func offerFields(o *Options, of func(parent any) *Offer) []field {
	in := func(f func(*Offer) any) func(any) any { return func(parent any) any { return f(of(parent)) } }
	transports := enum[status]{}
	for _, t := range o.Transports {
		transports.values = append(transports.values, status(t.Name))
	}
	return []field{
		{key: "packets", doc: "Packets that each flow sends; neither packets nor bytes: until the end of the test, which without duration-us is that of its pings and requests.",
			kind: optional[int64]{integer{min: 1, max: 1 << 32}}, at: in(func(l *Offer) any { return &l.Packets })},
		{key: "bytes", doc: "Bytes of payload that each flow sends.", kind: optional[int64]{integer{min: 1, max: 1 << 45}}, at: in(func(l *Offer) any { return &l.Bytes })},
		{key: "packet-size", doc: "Bytes of a full packet as hosts count it; by default that of hosts.", kind: optional[int]{integer{min: minFrameBytes, max: maxFrameBytes, unit: "bytes"}},
			at: in(func(l *Offer) any { return &l.PacketSize })},
		{key: "rate-gbps", doc: "Open loop: each flow sends at this rate whatever comes back; raw transport only.", kind: optional[clock.BitRate]{gbps()},
			at: in(func(l *Offer) any { return &l.Rate })},
		{key: "start-us", doc: "When the first flow starts.", kind: us(0, maxTestUS), def: "0", at: in(func(l *Offer) any { return &l.Start })},
		{key: "stagger-us", doc: "From the start of one flow of the item to that of the next.", kind: us(0, maxTestUS), def: "0",
			at: in(func(l *Offer) any { return &l.Stagger })},
		{key: "dscp", doc: "DSCP of data packets.", kind: integer{min: 0, max: 63}, def: "0", at: in(func(l *Offer) any { return &l.DSCP })},
		{key: "tc", doc: "Traffic class of the packets; by default the switch maps DSCP to it.", kind: optional[int]{integer{min: 0, max: 7}},
			at: in(func(l *Offer) any { return &l.Class })},
		{key: "ip", doc: "Version of IP.", kind: choice{values: []int{4, 6}}, def: "4", at: in(func(l *Offer) any { return &l.IP })},
		{key: "transport", doc: "Transport of these flows if not that of hosts, with its default parameters.", kind: optionalStatus{transports},
			at: in(func(l *Offer) any { return (*status)(&l.Transport) })},
	}
}

// optionalStatus writes nothing for an empty word.
type optionalStatus struct{ enum[status] }

func incastSchema(o *Options) *object {
	return &object{
		title: "incast", doc: "Many senders to few receivers, one flow for each sender.",
		fields: append([]field{
			{key: "senders", doc: "Hosts that send.", kind: integer{min: 1, max: maxHosts}, required: true, at: at(func(i *Incast) *int { return &i.Senders })},
			{key: "receivers", doc: "Hosts that receive.", kind: integer{min: 1, max: maxHosts}, def: "1", at: at(func(i *Incast) *int { return &i.Receivers })},
			{key: "first-sender", doc: "First host that sends, the others follow; by default those after the receivers.", kind: optional[int]{hostNumber()},
				at: at(func(i *Incast) **int { return &i.FirstSender })},
			{key: "first-receiver", doc: "First host that receives, the others follow.", kind: hostNumber(), def: "0", at: at(func(i *Incast) *int { return &i.FirstReceiver })},
			{key: "map", doc: "modulo: sender i to receiver i modulo receivers; block: neighbours to one receiver.",
				kind: enum[Mapping]{values: []Mapping{Modulo, Block}}, def: "modulo", at: at(func(i *Incast) *Mapping { return &i.Mapping })},
			{key: "hairpin", doc: "Hosts may be sender and receiver, and send to themselves through the switch.", kind: boolean{}, def: "false",
				at: at(func(i *Incast) *bool { return &i.Hairpin })},
		}, offerFields(o, func(p any) *Offer { return &p.(*Incast).Offer })...),
	}
}

func permutationSchema(o *Options) *object {
	return &object{
		title: "permutation", doc: "Every host sends to one other host and receives from one other.",
		fields: append([]field{
			{key: "hosts", doc: "The first so many hosts; by default all.", kind: optional[int]{integer{min: 2, max: maxHosts}}, at: at(func(p *Permutation) **int { return &p.Hosts })},
			{key: "shift", doc: "Host i sends to host i + shift, modulo hosts; by default the seed draws who sends to whom.",
				kind: optional[int]{integer{min: 1, max: maxHosts - 1}}, at: at(func(p *Permutation) **int { return &p.Shift })},
		}, offerFields(o, func(p any) *Offer { return &p.(*Permutation).Offer })...),
	}
}

func flowSchema(o *Options) *object {
	return &object{
		title: "flow", doc: "One host to another.",
		fields: append([]field{
			{key: "src", doc: "Host that sends.", kind: hostNumber(), required: true, at: at(func(f *Flow) *int { return &f.Src })},
			{key: "dst", doc: "Host that receives.", kind: hostNumber(), required: true, at: at(func(f *Flow) *int { return &f.Dst })},
			{key: "count", doc: "Parallel flows.", kind: integer{min: 1, max: maxFlows}, def: "1", at: at(func(f *Flow) *int { return &f.Count })},
		}, offerFields(o, func(p any) *Offer { return &p.(*Flow).Offer })...),
	}
}

func pingSchema(o *Options) *object {
	return &object{
		title: "ping", doc: "Round trips of single packets, which the other host sends back. The size is packet-size.",
		fields: append([]field{
			{key: "src", doc: "Host that asks.", kind: hostNumber(), required: true, at: at(func(p *Ping) *int { return &p.Src })},
			{key: "dst", doc: "Host that answers.", kind: hostNumber(), required: true, at: at(func(p *Ping) *int { return &p.Dst })},
			{key: "count", doc: "Round trips.", kind: integer{min: 1, max: 1_000_000}, def: "10", at: at(func(p *Ping) *int { return &p.Count })},
			{key: "interval-us", doc: "From one request to the next.", kind: us(0, 1_000_000), def: "100", at: at(func(p *Ping) *clock.Duration { return &p.Interval })},
		}, offerFields(o, func(p any) *Offer { return &p.(*Ping).Offer })...),
	}
}

func requestsSchema(o *Options) *object {
	return &object{
		title: "requests", doc: "A closed loop: each client sends a request, waits for the response, and sends the next.",
		fields: append([]field{
			{key: "clients", doc: "Hosts that ask.", kind: numbers{of: hostNumber()}, required: true, at: at(func(r *Requests) *Numbers { return &r.Clients })},
			{key: "server", doc: "Host that answers.", kind: hostNumber(), required: true, at: at(func(r *Requests) *int { return &r.Server })},
			{key: "count", doc: "Requests of each client.", kind: integer{min: 1, max: 1_000_000}, def: "1000", at: at(func(r *Requests) *int { return &r.Count })},
			{key: "request-bytes", doc: "Bytes of a request.", kind: integer{min: 1, max: 1 << 30, unit: "bytes"}, def: "100", at: at(func(r *Requests) *int { return &r.RequestSize })},
			{key: "response-bytes", doc: "Bytes of a response.", kind: integer{min: 1, max: 1 << 30, unit: "bytes"}, def: "1000", at: at(func(r *Requests) *int { return &r.Response })},
			{key: "service-us", doc: "How long the server takes from a request to its response.", kind: us(0, maxTestUS), def: "0", at: at(func(r *Requests) *clock.Duration { return &r.Service })},
		}, offerFields(o, func(p any) *Offer { return &p.(*Requests).Offer })...),
	}
}
