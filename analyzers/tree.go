package analyzers

// Tree shares a link among classes of senders: each node shares what it gets among its children by weight. Node 0 is
// the link; parents come before their children. Leaves have hosts, whose flows share evenly; the last node is a leaf of
// the senders that no other has.
type Tree []TreeNode

// TreeNode is a node of a Tree.
type TreeNode struct {
	Parent int   // number of a node; of the link -1
	Weight int   // beside its siblings
	Hosts  []int // that send, of a leaf
}

// Leaves returns the leaf of each host that a leaf names; the others belong to the last node.
func (t Tree) Leaves() map[uint32]int {
	leaves := make(map[uint32]int)
	for i, n := range t {
		for _, h := range n.Hosts {
			leaves[uint32(h)] = i
		}
	}
	return leaves
}
