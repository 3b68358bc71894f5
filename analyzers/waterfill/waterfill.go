// Package waterfill computes weighted hierarchical max-min fair shares: what a link with fair queueing would carry of
// the rates that arrive. It is the oracle of judges of fairness, and knows no switch.
//
// A node of a tree offers each child the same rate for each unit of weight. A child that needs less takes what it
// needs; what it leaves goes to its siblings first (Bertsekas and Gallager, Data Networks, 6.5.2; Zhang and Bennett,
// Hierarchical packet fair queueing, SIGCOMM 1996).
package waterfill

import (
	"cmp"
	"errors"
	"fmt"
	"math"
	"slices"
)

// Node is a node of a tree. A tree is a slice whose first node is the link itself, and in which parents come before
// their children.
type Node struct {
	Parent int     // index in the slice; of the first node −1
	Weight float64 // beside its siblings; 0: 1
	Demand float64 // rate that arrives, in any unit; of leaves only
}

// Share is what a node gets, in the unit of the demands.
type Share struct {
	Arrival float64 // the demands of its leaves
	Granted float64 // at most Arrival
	// Fair is the rate that an interior node offers each child for each unit of weight: where Arrival exceeds Granted, the
	// level of the water, else the largest demand of a child for each unit of weight; of a leaf 0.
	Fair float64
}

// Dropped returns which part of what arrives is not granted, from 0 to 1.
func (s Share) Dropped() float64 {
	if s.Arrival == 0 {
		return 0
	}
	return 1 - s.Granted/s.Arrival
}

// Fill returns what each node of a tree gets of a capacity. The error of a rate is at most 4·n·2^-53 of the capacity or
// of all demands, whichever is more, for n nodes. Sums and quotients must be finite. The order of siblings changes no
// more than that; a common power of two in all rates changes nothing.
func Fill(capacity float64, tree []Node) ([]Share, error) {
	children, err := check(capacity, tree)
	if err != nil {
		return nil, err
	}
	shares := make([]Share, len(tree))
	for i := len(tree) - 1; i >= 0; i-- {
		shares[i].Arrival += tree[i].Demand
		if i > 0 {
			shares[tree[i].Parent].Arrival += shares[i].Arrival
		}
	}
	shares[0].Granted = min(capacity, shares[0].Arrival)
	for i := range tree {
		if len(children[i]) > 0 {
			fill(tree, shares, i, children[i])
		}
	}
	return shares, nil
}

// Flat returns the shares of demands of equal weight in a capacity.
func Flat(capacity float64, demands []float64) ([]float64, error) {
	tree := []Node{{Parent: -1}}
	for _, d := range demands {
		tree = append(tree, Node{Demand: d})
	}
	shares, err := Fill(capacity, tree)
	if err != nil {
		return nil, err
	}
	var flat []float64
	for _, s := range shares[1:] {
		flat = append(flat, s.Granted)
	}
	return flat, nil
}

func (n *Node) weight() float64 {
	if n.Weight == 0 {
		return 1
	}
	return n.Weight
}

// fill shares what a node is granted among its children.
func fill(tree []Node, shares []Share, node int, children []int) {
	level := func(i int) float64 { return shares[i].Arrival / tree[i].weight() } // that meets its demand
	slices.SortFunc(children, func(a, b int) int { return cmp.Or(cmp.Compare(level(a), level(b)), a-b) })
	of := &shares[node]
	if of.Granted == of.Arrival {
		for _, i := range children {
			shares[i].Granted = shares[i].Arrival
		}
		of.Fair = level(children[len(children)-1])
		return
	}
	heavier := make([]float64, len(children)+1) // weights from a child on
	for k := len(children) - 1; k >= 0; k-- {
		heavier[k] = heavier[k+1] + tree[children[k]].weight()
	}
	rest := of.Granted
	for k, i := range children {
		of.Fair = max(0, rest) / heavier[k]
		if level(i) > of.Fair {
			for _, i := range children[k:] {
				shares[i].Granted = min(shares[i].Arrival, tree[i].weight()*of.Fair)
			}
			return
		}
		shares[i].Granted = shares[i].Arrival
		rest -= shares[i].Arrival
	}
}

// check returns the children of each node.
func check(capacity float64, tree []Node) ([][]int, error) {
	rate := func(x float64) bool { return x >= 0 && !math.IsInf(x, 1) }
	if !rate(capacity) {
		return nil, fmt.Errorf("capacity is %g: want a finite number, at least 0", capacity)
	}
	if len(tree) == 0 {
		return nil, errors.New("the tree has no nodes: want at least the link")
	}
	children := make([][]int, len(tree))
	sum := 0.0
	for i, n := range tree {
		switch {
		case i == 0 && n.Parent != -1:
			return nil, fmt.Errorf("node 0 has parent %d: want -1, as it is the link", n.Parent)
		case i > 0 && (n.Parent < 0 || n.Parent >= i):
			return nil, fmt.Errorf("node %d has parent %d: want a node before it, from 0 to %d", i, n.Parent, i-1)
		case !rate(n.Weight):
			return nil, fmt.Errorf("node %d has weight %g: want a finite number above 0, or 0 for 1", i, n.Weight)
		case !rate(n.Demand):
			return nil, fmt.Errorf("node %d has demand %g: want a finite number, at least 0", i, n.Demand)
		case !rate(n.Demand/n.weight()) || !rate(sum+n.Demand):
			return nil, fmt.Errorf("node %d has demand %g and weight %g: the quotient, or the sum of demands, is no finite "+
				"number", i, n.Demand, n.Weight)
		}
		sum += n.Demand
		if i > 0 {
			children[n.Parent] = append(children[n.Parent], i)
		}
	}
	for i, list := range children {
		if len(list) > 0 && tree[i].Demand > 0 {
			return nil, fmt.Errorf("node %d has demand %g and children: only leaves have demands", i, tree[i].Demand)
		}
	}
	return children, nil
}

// Jain returns Jain's index of fairness: 1 if all shares are equal, 1/n if one of n has everything (Jain, Chiu and
// Hawe, DEC-TR-301, 1984). Of no shares, or of zeros alone, it is not a number.
func Jain(shares []float64) float64 {
	sum, squares := 0.0, 0.0
	for _, x := range shares {
		sum += x
		squares += x * x
	}
	return sum * sum / (float64(len(shares)) * squares)
}
