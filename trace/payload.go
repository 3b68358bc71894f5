package trace

import (
	"encoding/binary"
	"fmt"
	"math/bits"

	"candela.dev/candela/packet"
)

// PayloadHash identifies payloads: a retransmission has the same hash as the original. The high byte says how much of
// the payload was captured, so that different parts are not compared. The zero value is unknown.
type PayloadHash uint32

const (
	payloadShift = 24
	wholePayload = 0xff // the capture holds all of it; less is the number of captured eight-byte words
	payloadWord  = 8
)

// hashPayload returns the hash of a payload, or of its captured start unless whole. A start is cut to full words and to
// what a byte can count.
func hashPayload(b []byte, whole bool) PayloadHash {
	known := uint32(wholePayload)
	if !whole {
		words := min(len(b)/payloadWord, wholePayload-1)
		b, known = b[:words*payloadWord], uint32(words)
	}
	if len(b) == 0 {
		return 0
	}
	h := fold(b)
	return PayloadHash(known<<payloadShift | uint32(h>>payloadShift^h)&maxUint24)
}

// payloadOf returns the hash of the payload of r, which was decoded from frame.
func payloadOf(frame []byte, s *span, r *Record) PayloadHash {
	at := s.l4 + packet.UDPLen + packet.BTHLen + int(bthShapes[r.Opcode].extLen)
	end := at + int(r.PayloadLen)
	if whole := end <= s.end; whole {
		return hashPayload(frame[at:end], true)
	}
	return hashPayload(frame[at:s.end], false)
}

// Odd constants without structure.
const (
	foldA = 0x9e3779b97f4a7c15
	foldB = 0xd1b54a32d192ed03
	foldC = 0x8cb92ba72f3d8dd7
	foldD = 0xaef17502108ef2d9
)

// fold mixes 16 bytes at a time by a 128-bit multiplication, in two independent lanes.
func fold(b []byte) uint64 {
	x, y := uint64(len(b))^foldC, uint64(foldD)
	for len(b) >= 4*payloadWord {
		w := b[: 4*payloadWord : 4*payloadWord]
		hi, lo := bits.Mul64(binary.LittleEndian.Uint64(w)^foldA, binary.LittleEndian.Uint64(w[payloadWord:])^x)
		x = hi ^ lo
		hi, lo = bits.Mul64(binary.LittleEndian.Uint64(w[2*payloadWord:])^foldB,
			binary.LittleEndian.Uint64(w[3*payloadWord:])^y)
		y = hi ^ lo
		b = b[4*payloadWord:]
	}
	for len(b) >= payloadWord {
		hi, lo := bits.Mul64(binary.LittleEndian.Uint64(b)^foldA, x^foldB)
		x = hi ^ lo
		b = b[payloadWord:]
	}
	if len(b) > 0 {
		var last [payloadWord]byte
		copy(last[:], b)
		hi, lo := bits.Mul64(binary.LittleEndian.Uint64(last[:])^foldB, x^foldA)
		x = hi ^ lo
	}
	hi, lo := bits.Mul64(x^foldB, y^foldA)
	return hi ^ lo
}

// Differs reports whether the two payloads certainly differ: equally much of both is known, and it is different.
func (h PayloadHash) Differs(other PayloadHash) bool {
	return h != other && h != 0 && h>>payloadShift == other>>payloadShift
}

// Whole reports whether the capture holds all of the payload.
func (h PayloadHash) Whole() bool { return h>>payloadShift == wholePayload }

// String returns the hash with how much of the payload it covers.
func (h PayloadHash) String() string {
	switch {
	case h == 0:
		return "not captured"
	case h.Whole():
		return fmt.Sprintf("%06x", uint32(h)&maxUint24)
	}
	return fmt.Sprintf("%06x of the first %d bytes", uint32(h)&maxUint24, uint32(h)>>payloadShift*payloadWord)
}
