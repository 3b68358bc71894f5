package fabric

// Holder is a Mechanism that keeps packets outside the queues, or a Shim that keeps some; Held returns how many.
type Holder interface {
	Held() int
}

// Tally is what came into a switch and what became of it, in packets. What came in or was made there was sent or
// dropped, or is still inside.
type Tally struct {
	Received, Made, Sent, Dropped uint64
	Inside                        int // in queues, recirculating, or held by the mechanism
}

// Missing returns how many packets are nowhere; negative: so many more were sent than had come.
func (b *Tally) Missing() int64 {
	return int64(b.Received+b.Made) - int64(b.Sent+b.Dropped) - int64(b.Inside)
}

// Tally returns the tally of a switch. That of a NIC is of what its host sends.
func (sw *Switch) Tally() Tally {
	b := Tally{Made: sw.ids.last % perNode, Dropped: sw.lost}
	for _, n := range sw.dropped {
		b.Dropped += n
	}
	for i := range sw.ports {
		pt := &sw.ports[i]
		b.Inside += pt.inside()
		if pt.kind == RecirculationPort {
			b.Inside += int(pt.sent - pt.received)
			continue
		}
		b.Sent += pt.sent
		b.Received += pt.received - pt.counters.PausesReceived // these end here
	}
	if sw.nic {
		b.Received = sw.host.ids.last % perNode
	}
	if h, ok := sw.mechanism.(Holder); ok {
		b.Inside += h.Held()
	}
	return b
}

// inside returns how many packets wait at a port.
func (pt *Port) inside() (packets int) {
	for i := range pt.queues {
		packets += int(pt.queues[i].packets)
	}
	for p := pt.control.first; p != nil; p = p.next {
		packets++
	}
	return packets
}

// Placed returns how many packets are in queues, with mechanisms and shims, and on links: all that exist.
func (n *Network) Placed() (packets int) {
	for i := range n.ports {
		pt := &n.ports[i]
		packets += pt.inside() + int(pt.sent-n.ports[pt.peer].received-n.ports[pt.peer].cutOff)
	}
	for _, sw := range n.switches {
		if h, ok := sw.mechanism.(Holder); ok {
			packets += h.Held()
		}
	}
	for _, h := range n.hosts {
		if h.held != nil {
			packets++
		}
		if h.egress == nil {
			continue
		}
		if m, ok := h.egress.nic.mechanism.(Holder); ok {
			packets += m.Held()
		}
		if s, ok := h.egress.shim.(Holder); ok {
			packets += s.Held()
		}
	}
	return packets
}
