package rdma

import (
	"bytes"
	"math/rand/v2"
	"sync"

	"candela.dev/candela/packet"
)

// Our endpoints have no real memory. Every byte of a region is a pure function of its address and of the region's key,
// read from one shared buffer. A WRITE must carry the content that its target already has, and a READ response the
// content that the reader expects. Each side can thus check every byte without storing any.
const (
	patternPeriod = 65521 // prime, so that no packet size maps neighbouring packets to equal bytes
	maxMTU        = 4096
)

// pattern returns the shared read-only buffer of one period plus one maximum packet.
var pattern = sync.OnceValue(func() []byte {
	rng := rand.New(rand.NewPCG(0xca9de1a, 0x9a77e59))
	b := make([]byte, patternPeriod+maxMTU)
	for i := range patternPeriod {
		b[i] = byte(rng.Uint32())
	}
	copy(b[patternPeriod:], b)
	return b
})

// memory is the content of every region.
type memory struct{ buf []byte }

// at returns n ≤ 4096 bytes at va in the region with a key. The slice is shared and must not be written to.
func (m memory) at(rkey uint32, va uint64, n int) []byte {
	off := (va + uint64(rkey)*0x9e3779b1) % patternPeriod
	return m.buf[off : off+uint64(n) : off+uint64(n)]
}

// send returns the payload of the SEND packet with this PSN to a queue pair. A SEND has no address, so its content
// depends on its PSN.
func (m memory) send(dest packet.QPN, psn packet.PSN, n int) []byte {
	return m.at(uint32(dest), uint64(psn)*4099, n)
}

// same reports whether got equals want. Payloads that passed the virtual testbed unmodified are slices of the shared
// buffer and need no comparison.
func same(got, want []byte) bool {
	if len(got) != len(want) {
		return false
	}
	return len(got) == 0 || &got[0] == &want[0] || bytes.Equal(got, want)
}
