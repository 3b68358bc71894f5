package switches

import (
	"fmt"

	"candela.dev/candela/analyzers"
	"candela.dev/candela/generator/parameter"
)

// mostNodes bounds the nodes of a tree that a test names.
const mostNodes = 1 << 10

// TreeParameter is the parameter of models that share a link by a tree.
func TreeParameter() parameter.Parameter {
	return parameter.Parameter{Name: "tree", Kind: parameter.List,
		Doc: "Nodes below the link, which are numbered from 1 in this order; parents come before their children. A node " +
			"with hosts is a leaf: the flows that they send share what it gets. All other senders form one more leaf of " +
			"weight 1 at the link.",
		Items: parameter.Table{
			{Name: "parent", Kind: parameter.Integer, Default: "0", Max: mostNodes, Doc: "Number of the parent; 0: the link."},
			{Name: "weight", Kind: parameter.Integer, Default: "1", Min: 1, Max: 1 << 16,
				Doc: "What it gets beside its siblings."},
			{Name: "hosts", Kind: parameter.Ranges, Max: 1 << 16, Doc: "Senders of a leaf."},
		}}
}

// TreeOf returns the tree that a test describes.
func TreeOf(v parameter.Values) analyzers.Tree {
	tree := analyzers.Tree{{Parent: -1, Weight: 1}}
	for _, n := range v.List("tree") {
		tree = append(tree, analyzers.TreeNode{Parent: n.Int("parent"), Weight: n.Int("weight"), Hosts: n.Ranges("hosts")})
	}
	return append(tree, analyzers.TreeNode{Weight: 1})
}

// CheckTree returns what is wrong with the tree that a test describes.
func CheckTree(v parameter.Values) (problems []Problem) {
	tree := TreeOf(v)
	named := tree[1 : len(tree)-1]
	if len(named) > mostNodes {
		return []Problem{{Key: "tree", What: fmt.Sprintf("has %d nodes", len(named)),
			Why: fmt.Sprintf("at most %d are allowed", mostNodes)}}
	}
	children, leaf := make(map[int]bool), make(map[int]int)
	for i, n := range named {
		children[n.Parent] = true
		key := fmt.Sprintf("tree[%d]", i)
		if n.Parent > i {
			problems = append(problems, Problem{Key: key + ".parent",
				What: fmt.Sprintf("is %d, which is no node before it", n.Parent),
				Why:  fmt.Sprintf("this node is number %d: name a smaller one, 0 being the link", i+1)})
		} else if n.Parent > 0 && len(named[n.Parent-1].Hosts) > 0 {
			problems = append(problems, Problem{Key: key + ".parent", What: fmt.Sprintf("is %d, which has hosts", n.Parent),
				Why: "a node has either hosts or children"})
		}
		for _, h := range n.Hosts {
			if other, taken := leaf[h]; taken {
				problems = append(problems, Problem{Key: key + ".hosts", What: fmt.Sprintf("has host %d, as node %d has", h, other),
					Why: "a sender belongs to one leaf"})
				break
			}
			leaf[h] = i + 1
		}
	}
	for i, n := range named {
		if len(n.Hosts) == 0 && !children[i+1] {
			problems = append(problems, Problem{Key: fmt.Sprintf("tree[%d]", i), What: "has neither hosts nor children",
				Why: "give it hosts, or name it as the parent of another"})
		}
	}
	return problems
}
