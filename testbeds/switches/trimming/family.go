package trimming

import (
	"fmt"

	"candela.dev/candela/analyzers"
	"candela.dev/candela/generator/parameter"
	"candela.dev/candela/testbeds/switches"
	"candela.dev/candela/testbeds/virtual/fabric"
)

// Family declares the family.
func Family() switches.Family {
	f := switches.Family{
		Name: "trimming",
		Reasons: []analyzers.DropReason{{Name: "lost-header",
			Doc: "A header or a deflected packet that found no room anywhere."}},
		Counters: count,
	}
	for _, m := range Models() {
		f.Models = append(f.Models, switches.Model{
			Model:     m.Model,
			NoNIC:     m.NoNIC,
			Check:     m.Check,
			Distort:   m.Distort,
			Configure: func(v parameter.Values, s *fabric.SwitchSpec) error { m.Configure(v, s); return nil },
			New: func(_ *fabric.Switch, v parameter.Values, bugs []string) (fabric.Mechanism, error) {
				return m.New(v, bugs), nil
			},
		})
	}
	return f
}

// count adds the numbers of trimmed packets, per port and in total; the tail-drop baseline has none.
func count(sw *fabric.Switch, add func(string, int64)) error {
	m, ok := sw.Mechanism().(interface{ Trims(port int) Trims })
	if !ok {
		return nil
	}
	total := map[string]int64{}
	for i := range sw.Ports() {
		t := m.Trims(i)
		for word, n := range map[string]uint64{
			"trims-ingress": t.Ingress, "trims-overflow": t.Overflow, "trims-deflected": t.Deflected,
			"trims-returned": t.Returned, "trims-lost": t.Lost,
		} {
			add(fmt.Sprintf("port-%d.%s", i, word), int64(n))
			total[word] += int64(n)
		}
	}
	for word, n := range total {
		add(word, n)
	}
	return nil
}
