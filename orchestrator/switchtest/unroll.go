package switchtest

import (
	"candela.dev/candela/clock"
	"candela.dev/candela/orchestrator/config"
)

// Unrolled returns the test with a workload item of its own for each flow: the same flows under the same numbers, one of which can
// be left out.
func (p *Plan) Unrolled() *config.SwitchTest {
	t := *p.Test
	t.Workload = nil
	for i := range p.Flows {
		f := &p.Flows[i]
		t.Workload = append(t.Workload, single(f, &p.Test.Workload[f.Item]))
	}
	return &t
}

// single returns the item for one flow of an item.
func single(f *Flow, from *config.Workload) config.Workload {
	offer := *from.Offer()
	offer.Start, offer.Stagger = clock.Duration(f.Start), 0
	src, dst := int(f.Src), int(f.Dst)
	switch {
	case from.Ping != nil:
		c := *from.Ping
		c.Offer = offer
		return config.Workload{Ping: &c}
	case from.Requests != nil:
		c := *from.Requests
		c.Clients, c.Offer = config.Numbers{{First: config.Number{N: int64(src)}, Last: config.Number{N: int64(src)}}}, offer
		return config.Workload{Requests: &c}
	case src == dst: // only an incast lets a host send to itself
		return config.Workload{Incast: &config.Incast{
			Senders: 1, Receivers: 1, FirstSender: &src, FirstReceiver: dst, Mapping: config.Modulo, Hairpin: true, Offer: offer,
		}}
	}
	return config.Workload{Flow: &config.Flow{Src: src, Dst: dst, Count: 1, Offer: offer}}
}
