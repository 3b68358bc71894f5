package aqm

import "fmt"

// Queuing returns the counters in the form of `show queuing interface`: port p of the switch in a slot, from 1, is
// Ethernet SLOT/p+1, and queue q is QoS group q. mice is the queue of mice; −1: there is none. Nothing is multicast.
func (c Counters) Queuing(slot, mice int) *Queuing {
	q := &Queuing{Schema: QueuingSchema}
	for port, groups := range c.Ports {
		f := Interface{Name: InterfaceName(slot, port)}
		for i := len(groups) - 1; i >= 0; i-- {
			s := QueueShape{i, "-", "-", "-", "-", "-", "-"}
			if i == mice {
				s.Priority = "1"
			}
			f.Queues = append(f.Queues, s)
		}
		for i := range groups {
			g := &groups[i]
			shown := ShownGroup{Name: fmt.Sprintf("QOS GROUP %d", i), Number: i, Columns: []string{"Unicast", "Multicast"}}
			for _, r := range []struct {
				name string
				n    uint64
			}{
				{RowTxPackets, g.TxPackets}, {RowTxBytes, g.TxBytes}, {RowEarlyPackets, g.EarlyPackets},
				{RowEarlyBytes, g.EarlyBytes}, {RowDepth, uint64(g.DepthBytes)}, {RowDropped, g.DroppedPackets},
			} {
				shown.Rows = append(shown.Rows, CounterRow{Name: r.name, Values: []uint64{r.n, 0}})
			}
			f.Groups = append(f.Groups, shown)
		}
		q.Interfaces = append(q.Interfaces, f)
	}
	return q
}

// InterfaceName returns the name of a port, from 0, of the switch in a slot, from 1.
func InterfaceName(slot, port int) string { return fmt.Sprintf("Ethernet%d/%d", slot, port+1) }

// Compare compares the counters of a group with what taps saw of its queue, exactly; drained: nothing waits. Counters
// that the text does not have are not compared.
func (g *ShownGroup) Compare(name string, seen Group, drained bool) (list []Broken) {
	for _, c := range []struct {
		row  string
		want uint64
		skip bool
	}{
		{RowTxPackets, seen.TxPackets, false}, {RowTxBytes, seen.TxBytes, false}, {RowEarlyPackets, seen.EarlyPackets, false},
		{RowEarlyBytes, seen.EarlyBytes, false}, {RowDropped, seen.DroppedPackets, false}, {RowDepth, 0, !drained},
	} {
		if n, ok := g.Sum(c.row); ok && !c.skip && n != c.want {
			list = append(list, Broken{name, g.Name, g.Row(c.row).Line, fmt.Sprintf("%s are %d, the taps saw %d", c.row, n,
				c.want)})
		}
	}
	return list
}
