// Package echo has the frames with which a switch measures how long a host takes to notice a frame and to answer it.
// The switch sends a request through the same queue as the traffic; the host returns it after it has processed
// everything before it. So the time until the answer bounds how long any earlier frame was held on its way to the host
// or back.
//
// The frames have an Ethernet type for local experiments (IEEE 802, 9.2.3) and never leave the cable.
package echo

import (
	"bytes"
	"encoding/binary"

	"candela.dev/candela/packet"
)

// EtherType marks the frames.
const EtherType = 0x88b5

// Length is that of a frame: the shortest that Ethernet allows, without FCS.
const Length = 60

const (
	typeAt   = 12
	magicAt  = 14
	kindAt   = magicAt + 12
	numberAt = kindAt + 1
	end      = numberAt + 8

	request, answer = 1, 2
)

var magic = []byte("candela.echo")

// Source is the address from which a switch asks; it is locally administered.
var Source = packet.MAC{0x02, 'e', 'c', 'h', 'o', 0}

// Request returns the request with a number, for the other end of the cable.
func Request(number uint64) []byte {
	frame := make([]byte, Length)
	for i := range 6 {
		frame[i] = 0xff
	}
	copy(frame[6:], Source[:])
	binary.BigEndian.PutUint16(frame[typeAt:], EtherType)
	copy(frame[magicAt:], magic)
	frame[kindAt] = request
	binary.BigEndian.PutUint64(frame[numberAt:], number)
	return frame
}

// Is reports whether frame is a request or an answer, which are not part of the traffic.
func Is(frame []byte) bool {
	return len(frame) >= end && binary.BigEndian.Uint16(frame[typeAt:]) == EtherType &&
		bytes.Equal(frame[magicAt:kindAt], magic)
}

// Answer turns a request into its answer in place. It returns false and changes nothing if frame is not a request.
func Answer(frame []byte, own packet.MAC) bool {
	if !Is(frame) || frame[kindAt] != request {
		return false
	}
	copy(frame[:6], frame[6:12])
	copy(frame[6:12], own[:])
	frame[kindAt] = answer
	return true
}

// Number returns the number of the request that frame answers.
func Number(frame []byte) (number uint64, ok bool) {
	if !Is(frame) || frame[kindAt] != answer {
		return 0, false
	}
	return binary.BigEndian.Uint64(frame[numberAt:]), true
}
