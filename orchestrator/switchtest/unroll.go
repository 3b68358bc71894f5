package switchtest

import (
	"candela.dev/candela/clock"
	"candela.dev/candela/generator/workload"
	"candela.dev/candela/orchestrator/config"
)

// Unrolled returns the test with a workload item of its own for each flow: the same flows under the same numbers, one
// of which can be left out.
func (p *Plan) Unrolled() *config.SwitchTest {
	t := *p.Test
	t.Workload = nil
	for i := range p.Flows {
		f := &p.Flows[i]
		item := p.Test.Workload[f.Item]
		item.Offer.Start, item.Offer.Stagger = clock.Duration(f.Start), 0
		if k := workload.Find(item.Kind); k.Single != nil {
			item.Kind, item.Values = k.Single(item.Values, &f.Flow)
		} else {
			if f.Bytes > 0 {
				bytes := f.Bytes
				item.Offer.Bytes = &bytes
			}
			item.Kind, item.Values = workload.Between(f.Flow.Src, f.Flow.Dst)
		}
		t.Workload = append(t.Workload, item)
	}
	return &t
}
