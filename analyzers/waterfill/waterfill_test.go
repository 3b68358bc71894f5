package waterfill_test

import (
	"math"
	"math/big"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"candela.dev/candela/analyzers/waterfill"
)

type node = waterfill.Node

func fill(t rapid.TB, capacity float64, tree []node) []waterfill.Share {
	t.Helper()
	shares, err := waterfill.Fill(capacity, tree)
	if err != nil {
		t.Fatal(err)
	}
	return shares
}

// The examples of HCSFQ's figures 3-2 and 3-4, and its experiments E1, E2, E5, E6.
func TestSharesAreThoseOfPublishedExamples(t *testing.T) {
	link, groups := node{Parent: -1}, []node{{Parent: -1}, {}, {}}
	of := func(parent int, weight float64, demands ...float64) (list []node) {
		for _, d := range demands {
			list = append(list, node{parent, weight, d})
		}
		return list
	}
	same := func(n int, x float64) []float64 { return slices.Repeat([]float64{x}, n) }
	for _, c := range []struct {
		name     string
		capacity float64
		tree     []node
		granted  []float64 // of the leaves
		fair     []float64 // of interior nodes
	}{
		{"flat", 10, slices.Concat([]node{link}, of(0, 1, 1, 4, 5, 5)), []float64{1, 3, 3, 3}, []float64{3}},
		{"two groups", 10, slices.Concat(groups, of(1, 1, 1, 4), of(2, 1, 5, 5)), []float64{1, 4, 2.5, 2.5},
			[]float64{5, 4, 2.5}},
		{"two groups, the first flow faster", 10, slices.Concat(groups, of(1, 1, 2, 4), of(2, 1, 5, 5)),
			[]float64{2, 3, 2.5, 2.5}, []float64{5, 3, 2.5}},
		{"E1", 40, slices.Concat([]node{link}, of(0, 1, same(24, 2)...), of(0, 1, same(8, 8)...)), same(32, 1.25),
			[]float64{1.25}},
		{"E2", 40, slices.Concat([]node{link}, of(0, 1, same(24, 2)...), of(0, 2, same(8, 8)...)),
			slices.Concat(same(24, 1), same(8, 2)), []float64{1}},
		{"E5", 40, slices.Concat(groups, of(1, 1, same(24, 8)...), of(2, 1, same(8, 8)...)),
			slices.Concat(same(24, 20./24), same(8, 2.5)), []float64{20, 20. / 24, 2.5}},
		{"E6", 40, slices.Concat(groups, of(1, 2, same(8, 8)...), of(1, 1, same(16, 8)...), of(2, 1, same(8, 8)...)),
			slices.Concat(same(8, 1.25), same(16, 0.625), same(8, 2.5)), []float64{20, 0.625, 2.5}},
		{"room for all", 100, slices.Concat(groups, of(1, 2, 6), of(2, 1, 4, 5)), []float64{6, 4, 5}, []float64{9, 3, 5}},
		{"nothing arrives", 1, []node{link, {}}, []float64{0}, []float64{0}},
		{"no capacity", 0, slices.Concat([]node{link}, of(0, 1, 1, 2)), []float64{0, 0}, []float64{0}},
	} {
		shares := fill(t, c.capacity, c.tree)
		inner := len(c.fair)
		for i, want := range c.granted {
			if s := shares[inner+i]; math.Abs(s.Granted-want) > 1e-12 || math.Abs(s.Granted-s.Arrival*(1-s.Dropped())) > 1e-12 {
				t.Errorf("%s: leaf %d gets %g of %g, %g of it is dropped; want %g", c.name, i, s.Granted, s.Arrival, s.Dropped(), want)
			}
		}
		for i, want := range c.fair {
			if got := shares[i].Fair; math.Abs(got-want) > 1e-12 {
				t.Errorf("%s: node %d offers %g, want %g", c.name, i, got, want)
			}
		}
	}
}

func TestWrongTreesAreRefused(t *testing.T) {
	inf, nan := math.Inf(1), math.NaN()
	link := node{Parent: -1}
	for _, c := range []struct {
		capacity float64
		tree     []node
		want     string
	}{
		{-1, []node{link}, "capacity is -1"}, {inf, []node{link}, "capacity"}, {nan, []node{link}, "capacity"},
		{1, nil, "no nodes"}, {1, []node{{}}, "node 0 has parent 0"}, {1, []node{link, {Parent: 1}}, "node 1 has parent 1"},
		{1, []node{link, link}, "node 1 has parent -1"}, {1, []node{link, {Weight: -1}}, "weight -1"},
		{1, []node{link, {Weight: nan}}, "weight NaN"}, {1, []node{link, {Demand: -2}}, "demand -2"},
		{1, []node{link, {Demand: 1e300, Weight: 1e-300}}, "no finite number"},
		{1, []node{link, {Demand: 1e308}, {Demand: 1e308}}, "no finite number"},
		{1, []node{link, {Demand: 1}, {Parent: 1}}, "only leaves"},
	} {
		if _, err := waterfill.Fill(c.capacity, c.tree); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%g, %v: %v, want %q", c.capacity, c.tree, err, c.want)
		}
	}
	if _, err := waterfill.Flat(-1, nil); err == nil {
		t.Error("a negative capacity is taken")
	}
}

// draw returns a tree of any shape. Rates are multiples of a quarter, weights small: sums of them are exact.
func draw(t *rapid.T) (capacity float64, tree []node) {
	rate := rapid.Custom(func(t *rapid.T) float64 { return float64(rapid.IntRange(0, 400).Draw(t, "quarters")) / 4 })
	tree = []node{{Parent: -1}}
	for i := range rapid.IntRange(0, 12).Draw(t, "nodes") {
		tree = append(tree, node{Parent: rapid.IntRange(0, i).Draw(t, "parent"),
			Weight: rapid.SampledFrom([]float64{0, 0.5, 1, 2, 3, 7}).Draw(t, "weight")})
	}
	leaf := slices.Repeat([]bool{true}, len(tree))
	for _, n := range tree[1:] {
		leaf[n.Parent] = false
	}
	for i := range tree {
		if leaf[i] {
			tree[i].Demand = rate.Draw(t, "demand")
		}
	}
	return rate.Draw(t, "capacity"), tree
}

// bound is the error that Fill states.
func bound(capacity float64, shares []waterfill.Share) float64 {
	return 4 * float64(len(shares)) * 0x1p-53 * max(capacity, shares[0].Arrival)
}

// brute grants by definition, in rational numbers: of all sets of children that get their demand, it looks for the one
// with which the level of the others lies between the demands of both for each unit of weight.
func brute(tree []node, node int, granted *big.Rat, result []*big.Rat) {
	result[node] = granted
	var children []int
	var need, weight []*big.Rat
	for i := node + 1; i < len(tree); i++ {
		if tree[i].Parent == node {
			children = append(children, i)
			need = append(need, demand(tree, i))
			w := tree[i].Weight
			if w == 0 {
				w = 1
			}
			weight = append(weight, new(big.Rat).SetFloat64(w))
		}
	}
	for set := range 1 << len(children) { // that get their demand
		rest, weights := new(big.Rat).Set(granted), new(big.Rat)
		for k := range children {
			if set>>k&1 == 1 {
				rest.Sub(rest, need[k])
			} else {
				weights.Add(weights, weight[k])
			}
		}
		grants := make([]*big.Rat, len(children))
		fits := weights.Sign() > 0 || rest.Sign() == 0
		level := new(big.Rat)
		if weights.Sign() > 0 {
			level.Quo(rest, weights)
		}
		for k := range children {
			offered := new(big.Rat).Mul(level, weight[k])
			if set>>k&1 == 1 {
				grants[k] = need[k]
				fits = fits && (weights.Sign() == 0 || need[k].Cmp(offered) <= 0)
			} else {
				grants[k] = offered
				fits = fits && level.Sign() >= 0 && need[k].Cmp(offered) >= 0
			}
		}
		if fits {
			for k, i := range children {
				brute(tree, i, grants[k], result)
			}
			return
		}
	}
}

// demand returns the sum of the demands of the leaves of a node.
func demand(tree []node, of int) *big.Rat {
	sum := new(big.Rat).SetFloat64(tree[of].Demand)
	for i := of + 1; i < len(tree); i++ {
		if tree[i].Parent == of {
			sum.Add(sum, demand(tree, i))
		}
	}
	return sum
}

func TestSharesAreThoseOfBruteForce(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		capacity, tree := draw(t)
		shares := fill(t, capacity, tree)
		want := make([]*big.Rat, len(tree))
		all := demand(tree, 0)
		if c := new(big.Rat).SetFloat64(capacity); c.Cmp(all) < 0 {
			all = c
		}
		brute(tree, 0, all, want)
		for i := range tree {
			got, arrival := shares[i].Granted, shares[i].Arrival
			if w, _ := want[i].Float64(); math.Abs(got-w) > bound(capacity, shares) || got > arrival {
				t.Errorf("node %d gets %g of %g, want %g: %g in %v", i, got, arrival, w, capacity, tree)
			}
		}
	})
}

func TestSharesKeepTheirInvariants(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		capacity, tree := draw(t)
		shares := fill(t, capacity, tree)
		allowed := 2 * bound(2*capacity, shares)

		// An interior node grants its children all that it is granted.
		given := make([]float64, len(tree))
		inner := make([]bool, len(tree))
		for i, n := range tree[1:] {
			given[n.Parent] += shares[i+1].Granted
			inner[n.Parent] = true
		}
		for i := range tree {
			if inner[i] && math.Abs(given[i]-shares[i].Granted) > allowed {
				t.Errorf("node %d grants %g of %g", i, given[i], shares[i].Granted)
			}
		}

		// Other units of rates and of weights change nothing.
		scaled := slices.Clone(tree)
		for i := range scaled {
			scaled[i].Demand *= 1 << 20
			if scaled[i].Weight == 0 {
				scaled[i].Weight = 1
			}
			scaled[i].Weight *= 4
		}
		for i, s := range fill(t, capacity*(1<<20), scaled) {
			if s.Granted != shares[i].Granted*(1<<20) || s.Fair != shares[i].Fair*(1<<18) {
				t.Errorf("node %d: scaled %+v, want %+v", i, s, shares[i])
			}
		}

		// Nor does the order of siblings.
		turned := turn(tree)
		for i, s := range fill(t, capacity, turned.tree) {
			if was := shares[turned.was[i]]; math.Abs(s.Granted-was.Granted) > allowed {
				t.Errorf("node %d: in another order %+v, want %+v", i, s, was)
			}
		}

		// With more capacity no node gets less.
		for i, s := range fill(t, capacity+rapid.Float64Range(0, 100).Draw(t, "more"), tree) {
			if s.Granted < shares[i].Granted-allowed {
				t.Errorf("node %d: %g with more capacity, %g with less", i, s.Granted, shares[i].Granted)
			}
		}

		// If a leaf demands more, it does not get less, and no other leaf gets more.
		leaf := rapid.IntRange(0, len(tree)-1).Draw(t, "leaf")
		if inner[leaf] {
			return
		}
		greedy := slices.Clone(tree)
		greedy[leaf].Demand += 50
		for i, s := range fill(t, capacity, greedy) {
			more := s.Granted - shares[i].Granted
			if allowed := allowed + 50*0x1p-40; !inner[i] && i != leaf && more > allowed || i == leaf && more < -allowed {
				t.Errorf("leaf %d: %g, and %g if leaf %d demands more", i, shares[i].Granted, s.Granted, leaf)
			}
		}
	})
}

// turned is a tree with siblings in another order, and where its nodes were.
type turned struct {
	tree []node
	was  []int
}

// turn reverses all siblings: nodes go by generations, each from the last to the first.
func turn(tree []node) turned {
	r := turned{[]node{tree[0]}, []int{0}}
	for at := 0; at < len(r.tree); at++ {
		for i := len(tree) - 1; i > 0; i-- {
			if tree[i].Parent == r.was[at] {
				n := tree[i]
				n.Parent = at
				r.tree, r.was = append(r.tree, n), append(r.was, i)
			}
		}
	}
	return r
}

// The sums are by hand.
func TestFlatSharesMeetSmallDemands(t *testing.T) {
	for _, c := range []struct {
		demands  []float64
		capacity float64
		want     []float64
	}{
		{[]float64{2, 4, 6, 8}, 9.868, []float64{2, 2.622667, 2.622667, 2.622667}},
		{[]float64{8, 1, 3}, 9, []float64{5, 1, 3}},
		{[]float64{1, 2}, 9, []float64{1, 2}},
		{[]float64{5, 5}, 4, []float64{2, 2}},
	} {
		shares, err := waterfill.Flat(c.capacity, c.demands)
		if err != nil || !slices.EqualFunc(shares, c.want, func(a, b float64) bool { return math.Abs(a-b) < 1e-5 }) {
			t.Errorf("%v of %g: %v, %v, want %v", c.demands, c.capacity, shares, err, c.want)
		}
	}
}

// Jain's index by hand: (1+3)^2/(2·(1+9)) = 0.8; one of n with everything has 1/n.
func TestJainsIndex(t *testing.T) {
	for _, c := range []struct {
		shares []float64
		want   float64
	}{{[]float64{2, 2, 2}, 1}, {[]float64{1, 3}, 0.8}, {[]float64{0, 0, 7, 0}, 0.25}, {[]float64{5}, 1}} {
		if got := waterfill.Jain(c.shares); math.Abs(got-c.want) > 1e-12 {
			t.Errorf("%v: %v, want %v", c.shares, got, c.want)
		}
	}
	if !math.IsNaN(waterfill.Jain(nil)) || !math.IsNaN(waterfill.Jain([]float64{0, 0})) {
		t.Error("nothing has an index")
	}
}
