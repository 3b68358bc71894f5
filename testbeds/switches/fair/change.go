package fair

import (
	"fmt"
	"slices"
	"strings"

	"candela.dev/candela/generator/parameter"
)

// changeable are the parameters that can change while traffic runs. The others say how the state of ports and flows is
// laid out, or how they start.
var changeable = []string{"k-us", "k-alpha-us", "k-c-us", "k-f-us", "phi", "min-factor", "alpha-floor", "parent-alpha",
	"tail-drops", "bypass-bytes", "window-us", "window-sample", "average-shift", "drop-bits", "decrease-divisor",
	"increase-divisor", "uncongested", "recirculation-ns", "overflow-heuristic"}

// Change implements switches.Changer: estimates, fair rates and phases of nodes go on from what they are.
func (m *Mechanism) Change(set, all parameter.Values) error {
	for _, p := range set.Table() {
		if set.Has(p.Name) && !slices.Contains(changeable, p.Name) {
			return fmt.Errorf("%s can't be changed while traffic runs; these can: %s", p.Name, strings.Join(changeable, ", "))
		}
	}
	if problems := check(all, 0, nil); len(problems) > 0 {
		return fmt.Errorf("%s %s: %s", problems[0].Key, problems[0].What, problems[0].Why)
	}
	if m.faults.ignoresChange {
		return nil
	}
	m.set = settings(all)
	for i := range m.ports {
		m.ports[i].tune()
	}
	return nil
}
