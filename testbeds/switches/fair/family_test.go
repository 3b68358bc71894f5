package fair

import (
	"fmt"
	"testing"

	"candela.dev/candela/clock"
	"candela.dev/candela/fair"
	"candela.dev/candela/generator/parameter"
)

func TestTablesOfTheModels(t *testing.T) {
	f := Family()
	for _, m := range f.Models {
		if err := m.Parameters.Check(); err != nil {
			t.Error(err)
		}
		names := make(map[string]bool)
		for _, b := range m.Bugs {
			if names[b.Name] || b.Rule == "" {
				t.Errorf("%s: bug %s is declared twice or has no rule", m.Name, b.Name)
			}
			names[b.Name] = true
		}
	}
	if kinds := f.Decisions; kinds[fair.Queued].Name != "queued" || kinds[fair.Excess].Name != "excess" ||
		kinds[fair.Tail].Name != "tail" || kinds[fair.State].Name != "state" {
		t.Error("kinds of decisions are in another order than in package fair")
	}
}

// row is an item of a list: ranges by name, and integers.
type row map[string]any

func list(table parameter.Table, name string, rows ...row) []parameter.Values {
	items := make([]parameter.Values, len(rows))
	for i, r := range rows {
		items[i] = table[table.Find(name)].Items.Defaults()
		for key, value := range r {
			if spans, ok := value.([][2]int64); ok {
				items[i].SetRanges(key, spans)
			} else if err := items[i].Set(key, fmt.Sprint(value)); err != nil {
				panic(err)
			}
		}
	}
	return items
}

func spans(first, last int64) [][2]int64 { return [][2]int64{{first, last}} }

// configured returns the settings of HCSFQ with a tree of two nodes below the link, the first with hosts 0 to 2, and
// flows.
func configured(flows ...row) parameter.Values {
	f := Family()
	m, _ := f.Model("hcsfq")
	v := m.Parameters.Defaults()
	v.SetList("tree", list(m.Parameters, "tree", row{"hosts": spans(0, 2)}, row{"hosts": spans(3, 3), "weight": 2}))
	v.SetList("flows", list(m.Parameters, "flows", flows...))
	return v
}

// The tree says where the flows of a host belong, the list of flows what they weigh, or where they belong instead.
func TestFlowsAreClassified(t *testing.T) {
	m := &Mechanism{set: settings(configured(row{"numbers": spans(7, 7), "node": 2, "weight": 3},
		row{"hosts": spans(0, 0), "weight": 2}, row{"hosts": spans(2, 4), "numbers": spans(100, 200), "weight": 5}))}
	for _, test := range []struct{ src, flow, parent, weight int }{
		{0, 1, 1, 2}, {1, 1, 1, 1}, {2, 1, 1, 1}, {3, 1, 2, 1}, {4, 1, 3, 1}, // by hosts; the last node has all others
		{0, 7, 2, 3}, {9, 7, 2, 3}, // by numbers
		{2, 150, 1, 5}, {3, 150, 2, 5}, {4, 150, 3, 5}, {1, 150, 1, 1}, {5, 150, 3, 1},
	} {
		parent, weight := m.classify(flowKey{src: uint32(test.src), flow: uint32(test.flow)})
		if parent != test.parent || weight != test.weight {
			t.Errorf("flow %d of host %d: node %d, weight %d; want %d and %d", test.flow, test.src, parent, weight, test.parent,
				test.weight)
		}
	}
	if len(m.set.Nodes) != 4 || m.set.Nodes[2] != (fair.Node{Parent: 0, Weight: 2}) || m.set.Scheme != fair.HCSFQ {
		t.Errorf("%+v", m.set)
	}
}

// Without a tree flows are children of the link.
func TestWithoutATreeThereIsTheLinkAlone(t *testing.T) {
	f := Family()
	for _, name := range []string{"csfq", "hcsfq"} {
		m, _ := f.Model(name)
		s := settings(m.Parameters.Defaults())
		if len(s.Nodes) != 1 || len(s.Members) != 1 || s.Members[0].Node != 0 || s.Members[0].Weight != 1 {
			t.Errorf("%s: %+v", name, s)
		}
		if at := s.At(40 * clock.Gbps); at.K != 100*us || at.KAlpha != 100*us || at.KC != 200*us {
			t.Errorf("%s: times at 40 Gb/s are %+v", name, at)
		}
		if at := s.At(clock.Gbps); at.K != 480*us || at.KC != 960*us { // 40 packets of 12 us
			t.Errorf("%s: times at 1 Gb/s are %+v", name, at)
		}
		if s.Mode = fair.Dataplane; s.At(40*clock.Gbps).KC != 100*us {
			t.Errorf("%s: K_c is %v in mode dataplane", name, s.At(40*clock.Gbps).KC)
		}
	}
}

func TestFlowsOfNodesThatCannotHaveThemAreRefused(t *testing.T) {
	for _, test := range []struct {
		flows row
		want  string
	}{
		{row{"numbers": spans(1, 2), "node": 2}, ""},
		{row{"numbers": spans(1, 2), "node": 3}, "flows[0].node"},
		{row{"numbers": spans(1, 2), "node": 0}, "flows[0].node"},
	} {
		problems := check(configured(test.flows), 4, nil)
		if test.want == "" && len(problems) > 0 || test.want != "" && (len(problems) != 1 || problems[0].Key != test.want) {
			t.Errorf("%v: %v", test.flows, problems)
		}
	}
	// a node that flows name needs no hosts
	v := configured(row{"numbers": spans(1, 2), "node": 2})
	table := v.Table()
	v.SetList("tree", list(table, "tree", row{"hosts": spans(0, 2)}, row{}))
	if problems := check(v, 4, nil); len(problems) > 0 {
		t.Error(problems)
	}
	v.SetList("flows", nil)
	if problems := check(v, 4, nil); len(problems) != 1 || problems[0].Key != "tree[1]" {
		t.Error(problems)
	}
}
