package packet

// MaxFlowLabel is the largest IPv6 flow label: it has 20 bits.
const MaxFlowLabel = 1<<20 - 1

// firstPort is the first of the UDP source ports of RoCEv2 (RoCEv2 A17.3.1.1: the dynamic ones).
const firstPort = 0xc000

// FlowLabelPort returns the UDP source port that RoCEv2 derives from a flow label other than 0, as Linux does
// (rdma_flow_label_to_udp_sport of rdma/ib_verbs.h).
func FlowLabelPort(label uint32) uint16 {
	const bits = 14
	return firstPort | uint16(label&(1<<bits-1)^label>>bits&0x3f)
}

// PortFlowLabel returns a flow label from which a UDP source port is derived; false: none gives that port.
func PortFlowLabel(port uint16) (label uint32, ok bool) {
	switch {
	case port < firstPort:
		return 0, false
	case port == firstPort:
		return 1<<14 | 1, true // a label of 0 means that there is none
	}
	return uint32(port &^ firstPort), true
}
