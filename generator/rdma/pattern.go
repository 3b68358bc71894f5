package rdma

import (
	"bytes"
	"math/rand/v2"
	"sync"

	"candela.dev/candela/packet"
)

// Memory of our endpoints is imaginary: every byte of a region is a pure function of its address and of the region's
// key, read from one shared buffer. A WRITE must therefore carry exactly what its target already "holds", a READ
// response what the reader expects, and each side can check every byte that it is sent without storing any.
const (
	patternPeriod = 65521 // prime, so that no packet size maps neighbouring packets to equal bytes
	maxMTU        = 4096
)

// pattern returns the shared read-only buffer, one period and a packet long.
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

// at returns the n ≤ 4096 bytes that the region with this key holds at va. The slice is shared and must not be written
// to.
func (m memory) at(rkey uint32, va uint64, n int) []byte {
	off := (va + uint64(rkey)*0x9e3779b1) % patternPeriod
	return m.buf[off : off+uint64(n) : off+uint64(n)]
}

// send returns the payload of the SEND packet with this PSN to a queue pair: a SEND has no address, so its content
// follows from where it stands in the stream.
func (m memory) send(dest packet.QPN, psn packet.PSN, n int) []byte {
	return m.at(uint32(dest), uint64(psn)*4099, n)
}

// same reports whether got is want. Payloads that came through the virtual testbed untouched are the same bytes of the
// shared buffer and need no comparison.
func same(got, want []byte) bool {
	if len(got) != len(want) {
		return false
	}
	return len(got) == 0 || &got[0] == &want[0] || bytes.Equal(got, want)
}
