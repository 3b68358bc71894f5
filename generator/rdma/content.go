package rdma

import "candela.dev/candela/packet"

// Content is what the imaginary memory of our endpoints holds. An endpoint with real memory that is to exchange data
// with one of them, and to be verified byte by byte, holds the same.
type Content struct{ memory memory }

// NewContent returns the content of every region.
func NewContent() Content { return Content{memory{pattern()}} }

// Fill writes what the region with a key holds from address va on.
func (c Content) Fill(dst []byte, rkey uint32, va uint64) {
	for len(dst) > 0 {
		n := copy(dst, c.memory.at(rkey, va, min(len(dst), maxMTU)))
		dst, va = dst[n:], va+uint64(n)
	}
}

// FillSend writes the message of a SEND whose first packet has a PSN, to a queue pair with a path MTU.
func (c Content) FillSend(dst []byte, dest packet.QPN, first packet.PSN, mtu int) {
	for i := 0; len(dst) > 0; i++ {
		n := copy(dst, c.memory.send(dest, first.Add(i), min(len(dst), mtu)))
		dst = dst[n:]
	}
}
