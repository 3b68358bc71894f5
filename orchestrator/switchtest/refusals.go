package switchtest

import (
	"cmp"
	"errors"
	"fmt"

	"candela.dev/candela/generator/parameter"
	"candela.dev/candela/generator/wire"
	"candela.dev/candela/generator/workload"
	"candela.dev/candela/orchestrator/config"
	"candela.dev/candela/testbeds/switches"
	"candela.dev/candela/testbeds/virtual/fabric"
)

// checkModel refuses settings with which a model cannot do its task. place is its key in the test.
func (p *Plan) checkModel(place string, m switches.Model, v parameter.Values, ports int) error {
	var errs []error
	least := cmp.Or(m.WeighsFrom, switches.LeastWeight)
	for i := range p.Test.Workload {
		if w := p.Test.Workload[i].Offer.Weight; m.Weighs && w != nil && *w < least {
			errs = append(errs, fmt.Errorf("%s: is %g\n  the model %s shares by weights of at least %g: multiply all by the "+
				"same number", p.Test.Where(fmt.Sprintf("workload[%d].%s.weight", i, p.Test.Workload[i].Kind)),
				float64(*w)/config.WeightUnit, m.Name, float64(least)/config.WeightUnit))
		}
	}
	for i := range p.Test.Workload {
		w := &p.Test.Workload[i]
		if r := w.Offer.Ranking(); m.ByBytes && r.Kind != wire.Unranked && r.Kind != wire.RankByBytes {
			errs = append(errs, fmt.Errorf("%s: is %v\n  hosts mark packets for the model %s by what is left of their flows: "+
				"the rank remaining alone is allowed", p.Test.Where(fmt.Sprintf("workload[%d].%s.rank", i, w.Kind)), r, m.Name))
		}
	}
	if m.Check == nil {
		return errors.Join(errs...)
	}
	for _, problem := range m.Check(v, ports, p.offered()) {
		errs = append(errs, fmt.Errorf("%s: %s\n  %s", p.Test.Where(place+"."+problem.Key), problem.What, problem.Why))
	}
	return errors.Join(errs...)
}

// offered returns the data packets of the workload. Items whose sizes are drawn are left
// out: they may have no packet of full size.
func (p *Plan) offered() []switches.Frames {
	var list []switches.Frames
	for i := range p.Test.Workload {
		w := &p.Test.Workload[i]
		k := workload.Find(w.Kind)
		size := p.Test.PacketSizeOf(&w.Offer)
		if k == nil || k.Sized || k.Closed() || w.Offer.Bytes != nil && *w.Offer.Bytes < int64(size) {
			continue
		}
		t, err := findTransport(p.Test.TransportOf(&w.Offer))
		if err != nil {
			continue
		}
		list = append(list, switches.Frames{Item: i, What: w.Kind, Size: size, DSCP: w.Offer.DSCP, Reliable: t.Reliable})
	}
	return list
}

// largestSwitch returns the largest number of ports of a switch that lead outside.
func (p *Plan) largestSwitch() int {
	spec := p.Test.Topology.Spec()
	return spec.MostPorts()
}

// keys names the parameter of each field of a switch in the fabric.
var keys = map[string]string{
	"switch.pfc.headroom": "pfc-headroom-bytes", "switch.pfc.xoff": "pfc-xoff-bytes", "switch.pfc.xon": "pfc-xon-bytes",
}

// located adds to an error of the network the place in the test that it is about.
func (p *Plan) located(err error) error {
	var setting *settingError
	if errors.As(err, &setting) {
		return fmt.Errorf("%s: %s", p.Test.Where("switch-under-test."+setting.key), setting.what)
	}
	var field *fabric.FieldError
	if errors.As(err, &field) {
		if key := keys[field.Field]; key != "" {
			return fmt.Errorf("%s: %v: %s", p.Test.Where("switch-under-test."+key), field.Value, field.Reason)
		}
	}
	return fmt.Errorf("%s: %w", p.Test.Where("switch-under-test"), err)
}
