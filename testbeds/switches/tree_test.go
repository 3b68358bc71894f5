package switches_test

import (
	"slices"
	"testing"

	"candela.dev/candela/generator/parameter"
	"candela.dev/candela/testbeds/switches"
)

// node is an item of a tree: parent, and hosts.
type node struct {
	parent string
	hosts  [][2]int64
}

func TestTreesThatNoTestMayDescribeAreRefusedWithTheirPlace(t *testing.T) {
	table := parameter.Table{switches.TreeParameter()}
	hosts := func(from, to int64) [][2]int64 { return [][2]int64{{from, to}} }
	for _, c := range []struct {
		name string
		tree []node
		want []string
	}{
		{"none", nil, nil},
		{"two tenants", []node{{"0", hosts(1, 3)}, {"0", hosts(4, 4)}}, nil},
		{"two levels", []node{{"0", nil}, {"1", hosts(1, 3)}, {"1", hosts(4, 4)}}, nil},
		{"its own parent", []node{{"1", hosts(1, 3)}}, []string{"tree[0].parent"}},
		{"a later parent", []node{{"2", hosts(1, 3)}, {"0", hosts(4, 4)}}, []string{"tree[0].parent"}},
		{"a leaf as parent", []node{{"0", hosts(1, 3)}, {"1", hosts(4, 4)}}, []string{"tree[1].parent"}},
		{"a host twice", []node{{"0", hosts(1, 3)}, {"0", hosts(3, 4)}}, []string{"tree[1].hosts"}},
		{"nothing below", []node{{"0", hosts(1, 3)}, {"0", nil}}, []string{"tree[1]"}},
	} {
		var items []parameter.Values
		for _, n := range c.tree {
			item := table[0].Items.Defaults()
			if err := item.Set("parent", n.parent); err != nil {
				t.Fatal(err)
			}
			item.SetRanges("hosts", n.hosts)
			items = append(items, item)
		}
		v := table.Defaults()
		v.SetList("tree", items)
		var got []string
		for _, p := range switches.CheckTree(v) {
			got = append(got, p.Key)
		}
		if !slices.Equal(got, c.want) {
			t.Errorf("%s: %v, want %v", c.name, got, c.want)
		}
	}
}
