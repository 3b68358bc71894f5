package oracle

import "candela.dev/candela/packet"

// contents maps each PSN to the request that first occupied it, as the tap saw the requester send it. PSNs of requests
// that the tap did not see are absent.
type contents struct {
	base int // PSN of index 0
	of   []int16
	all  []Packet
}

const unknown = -1

// newContents reads the requests of a trace in the order of their transmission.
func newContents(all []Packet) contents {
	low, high := 1<<30, -(1 << 30)
	for i := range all {
		p := &all[i]
		low, high = min(low, p.PSN), max(high, p.PSN+p.packets())
	}
	c := contents{base: low - 1, all: all}
	if low > high {
		return c
	}
	c.of = make([]int16, min(high-low+2, maxSpan))
	for i := range c.of {
		c.of[i] = unknown
	}
	for i := range all {
		p := &all[i]
		if p.Back || !p.request() {
			continue
		}
		for psn := p.PSN; psn < p.PSN+p.packets(); psn++ {
			if k := psn - c.base; k < len(c.of) && c.of[k] == unknown {
				c.of[k] = int16(i)
			}
		}
	}
	return c
}

// maxSpan bounds the PSNs of a trace. A small trace with a larger READ is cut there; the rest is unknown.
const maxSpan = 4096

// at returns the request that occupies psn, or nil if the tap saw none.
func (c *contents) at(psn int) *Packet {
	k := psn - c.base
	if k < 0 || k >= len(c.of) || c.of[k] == unknown {
		return nil
	}
	return &c.all[c.of[k]]
}

// explicit reports whether psn requires a READ response or an atomic ACK. The second result is false if that is
// unknown.
func (c *contents) explicit(psn int) (yes, known bool) {
	p := c.at(psn)
	if p == nil {
		return false, false
	}
	return answersItself(p.Op), true
}

func answersItself(op packet.Opcode) bool {
	return op == packet.ReadRequest || op.Verb() == packet.VerbAtomic
}
