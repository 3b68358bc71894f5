package rank

import (
	"cmp"
	"fmt"
	"math"
	"math/rand/v2"
	"testing"

	"candela.dev/candela/analyzers"
	"candela.dev/candela/analyzers/waterfill"
	"candela.dev/candela/testbeds/virtual/fabric"
)

// served offers each host's flows at a rate, in packets for each packet that the link sends, to a tree of at most room
// packets, and returns the bytes of each flow that leave of the second half of so many departures, and all of these.
func served(set analyzers.Tree, flows []offered, room, departures int) (carried []float64, all float64) {
	m := newHPIFO(set, nil)
	t := m.port(0)
	carried, due := make([]float64, len(flows)), make([]float64, len(flows))
	for n := range departures {
		for i, f := range flows {
			due[i] += f.rate
			for due[i] >= 1 {
				due[i]--
				p := new(fabric.Packet)
				p.Src, p.Flow, p.Size, p.ID = fabric.HostID(f.host), uint32(i), 1500, uint64(i)
				if t.push(m.leaf(p), p, f.millionths()); t.count > room {
					t.drop()
				}
			}
		}
		p := t.pop()
		if p != nil && n >= departures/2 {
			carried[p.ID]++
			all++
		}
	}
	return carried, all
}

type offered struct {
	host   int
	rate   float64
	weight float64 // 0: 1
}

func (o offered) millionths() int64 {
	return int64(math.Round(cmp.Or(o.weight, 1) * fabric.WeightUnit))
}

// fewPackets is a choice: at each of up to three nodes on its path a flow may be ahead or behind by a packet.
const fewPackets = 3

// Every flow gets its weighted hierarchical max-min share, within a few packets.
func TestHPIFOSharesAreHierarchicalMaxMinFair(t *testing.T) {
	root := analyzers.TreeNode{Parent: -1, Weight: 1}
	rest := analyzers.TreeNode{Weight: 1}
	leaf := func(parent, weight int, hosts ...int) analyzers.TreeNode {
		return analyzers.TreeNode{Parent: parent, Weight: weight, Hosts: hosts}
	}
	many := func(host, n int, rate float64) (list []offered) {
		for range n {
			list = append(list, offered{host: host, rate: rate})
		}
		return list
	}
	for i, c := range []struct {
		set   analyzers.Tree
		flows []offered
	}{
		// figures 3-2 (b) and 3-4 of the source: (1, 4, 2.5, 2.5) and (2, 3, 2.5, 2.5) of 10
		{analyzers.Tree{root, leaf(0, 1, 0), leaf(0, 1, 1), rest},
			[]offered{{0, 0.1, 0}, {0, 0.4, 0}, {1, 0.5, 0}, {1, 0.5, 0}}},
		{analyzers.Tree{root, leaf(0, 1, 0), leaf(0, 1, 1), rest},
			[]offered{{0, 0.2, 0}, {0, 0.4, 0}, {1, 0.5, 0}, {1, 0.5, 0}}},
		// flat: (1, 3, 3, 3)
		{analyzers.Tree{root, rest}, []offered{{0, 0.1, 0}, {1, 0.4, 0}, {2, 0.5, 0}, {3, 0.5, 0}}},
		// flows with weights, also of one sender: (1, 2, 3) of 6 and, of a leaf that has half, (1, 3, 0.5) of 9
		{analyzers.Tree{root, rest}, []offered{{0, 0.9, 1}, {0, 0.9, 2}, {1, 0.9, 3}}},
		{analyzers.Tree{root, leaf(0, 1, 0), rest}, []offered{{0, 0.9, 1}, {0, 0.9, 3}, {0, 0.9, 0.5}, {1, 0.9, 7}}},
		// E5: 24 flows against 8
		{analyzers.Tree{root, leaf(0, 1, 1, 2, 3), rest}, append(many(1, 24, 0.125), many(4, 8, 0.125)...)},
		// E6: of the first tenant, 8 flows of weight 2 and 16 of weight 1
		{analyzers.Tree{root, leaf(0, 1), leaf(1, 1, 1), leaf(1, 1, 2, 3), rest},
			append(append(many(1, 8, 0.2), many(2, 16, 0.2)...), many(4, 8, 0.2)...)},
		// three levels, weights, and a leaf that needs little
		{analyzers.Tree{root, leaf(0, 3), leaf(1, 2), leaf(2, 5, 0), leaf(2, 1, 1), leaf(1, 1, 2), leaf(0, 1, 3), rest},
			[]offered{{0, 0.9, 0}, {0, 0.05, 0}, {1, 0.9, 0}, {2, 0.9, 0}, {3, 0.9, 0}, {3, 0.9, 0}, {9, 0.01, 0}}},
	} {
		m := newHPIFO(c.set, nil)
		var oracle []waterfill.Node
		for _, n := range c.set {
			oracle = append(oracle, waterfill.Node{Parent: n.Parent, Weight: float64(n.Weight)})
		}
		for _, f := range c.flows {
			p := new(fabric.Packet)
			p.Src = fabric.HostID(f.host)
			oracle = append(oracle, waterfill.Node{Parent: m.leaf(p), Demand: f.rate, Weight: cmp.Or(f.weight, 1)})
		}
		shares, err := waterfill.Fill(1, oracle)
		if err != nil {
			t.Fatal(err)
		}
		carried, all := served(c.set, c.flows, 320, 40000)
		worst := 0.0
		for j := range c.flows {
			want := shares[len(c.set)+j].Granted * all
			worst = max(worst, math.Abs(carried[j]-want))
			if math.Abs(carried[j]-want) > fewPackets {
				t.Errorf("case %d, flow %d: %.0f of %.0f packets, want %.1f", i, j, carried[j], all, want)
			}
		}
		t.Logf("case %d: at most %.1f of %.0f packets off", i, worst, all)
	}
}

func TestHPIFOAllocatesNothingWhenWarm(t *testing.T) {
	set := analyzers.Tree{{Parent: -1, Weight: 1}, {Weight: 2}, {Parent: 1, Weight: 3, Hosts: []int{1}}, {Weight: 1}}
	m := newHPIFO(set, nil)
	tree, packets := m.port(0), make([]fabric.Packet, 400)
	next := 0
	step := func() {
		for range 1000 {
			p := &packets[next%len(packets)]
			p.Src, p.Flow, p.Size = fabric.HostID(next%3), uint32(next%40), int32(64+next*37%1437)
			next++
			if tree.push(m.leaf(p), p, fabric.WeightUnit); tree.count > 320 {
				tree.drop()
				tree.drop()
			}
			if next%3 == 0 {
				tree.pop()
			}
		}
	}
	step()
	step()
	if n := testing.AllocsPerRun(20, step); n != 0 {
		t.Errorf("%v allocations for 1000 packets", n)
	}
}

// What is pushed and dropped leaves no trace: the tree is as if it had not come.
func TestHPIFOUndoesDropsExactly(t *testing.T) {
	set := analyzers.Tree{{Parent: -1, Weight: 1}, {Weight: 7}, {Parent: 1, Weight: 3, Hosts: []int{1}},
		{Parent: 1, Weight: 2, Hosts: []int{2}}, {Weight: 1}}
	random := rand.New(rand.NewPCG(1, 2))
	m := newHPIFO(set, nil)
	ends := func(t *tree) string {
		s := ""
		for i := range t.nodes {
			n := &t.nodes[i]
			live := make(map[flow]uint64)
			for k, end := range n.flows {
				if end > n.virtual {
					live[k] = end
				}
			}
			s += fmt.Sprint(n.virtual, max(n.end, t.nodes[max(n.parent, 0)].virtual), live, n.items[n.head:])
		}
		return s
	}
	tree := m.port(0)
	undone := 0
	for range 20000 {
		p := new(fabric.Packet)
		p.Src, p.Flow, p.Size = fabric.HostID(random.IntN(4)), uint32(random.IntN(3)), int32(64+random.IntN(1437))
		before := ends(tree)
		tree.push(m.leaf(p), p, fabric.WeightUnit)
		if q := tree.drop(); q == p {
			if after := ends(tree); after != before {
				t.Fatalf("before\n%s\nafter\n%s", before, after)
			}
			undone++
		}
		if tree.push(m.leaf(p), p, fabric.WeightUnit); tree.count > 30 || random.IntN(3) == 0 {
			tree.pop()
		}
	}
	if undone < 1000 {
		t.Errorf("%d packets were the last", undone)
	}
}
