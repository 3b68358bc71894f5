package rdma

import "candela.dev/candela/packet"

// Content is the content of our endpoints' imaginary memory. Endpoints with real memory use it, too, so that our
// endpoints can verify their data byte by byte.
type Content struct{ memory memory }

// NewContent returns the content of every region.
func NewContent() Content { return Content{memory{pattern()}} }

// Fill writes the content of a region from address va on.
func (c Content) Fill(dst []byte, rkey uint32, va uint64) {
	for len(dst) > 0 {
		n := copy(dst, c.memory.at(rkey, va, min(len(dst), maxMTU)))
		dst, va = dst[n:], va+uint64(n)
	}
}

// FillSend writes the content of a SEND to a queue pair, given its first PSN and the path MTU.
func (c Content) FillSend(dst []byte, dest packet.QPN, first packet.PSN, mtu int) {
	for i := 0; len(dst) > 0; i++ {
		n := copy(dst, c.memory.send(dest, first.Add(i), min(len(dst), mtu)))
		dst = dst[n:]
	}
}
