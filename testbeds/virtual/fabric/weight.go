package fabric

// WeightUnit is the weight of a flow that the test gives none.
const WeightUnit = 1_000_000

// SetWeights gives flows weights, as an operator would configure them on every switch: share returns the number, in
// weights, of that of a packet that a host sends. Number 0 is WeightUnit, and that of what switches make. Hosts that
// are simulated in parallel call share at once.
func (n *Network) SetWeights(weights []int64, share func(*Header) uint16) {
	n.weights, n.share = weights, share
}

// Weight returns the weight of a packet's flow, in millionths.
func (sw *Switch) Weight(p *Packet) int64 { return sw.net.weights[p.share] }
