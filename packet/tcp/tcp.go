// Package tcp is the wire format of the small TCP of switch tests (RFC 9293, RFC 2018, RFC 7323): a header of constant
// length, with at most one SACK block.
package tcp

import (
	"encoding/binary"
	"errors"
	"fmt"
)

// Block is a range of sequence numbers, End excluded; empty: none.
type Block struct{ Start, End uint32 }

// Flags are those of RFC 9293 that occur here, as on the wire.
type Flags uint8

// Flags.
const (
	FlagSYN Flags = 1 << 1
	FlagPSH Flags = 1 << 3
	FlagACK Flags = 1 << 4
	FlagECE Flags = 1 << 6 // RFC 3168
	FlagCWR Flags = 1 << 7
)

// WindowScale is the shift of Header.Window (RFC 7323) of hosts that scale it, the same at both ends.
const WindowScale = 10

// Options are the options of a SYN besides the MSS.
type Options uint8

// Options.
const (
	OptionSACK  Options = 1 << iota // SACK permitted (RFC 2018)
	OptionScale                     // windows are scaled by WindowScale (RFC 7323)
	optionDelay                     // of a packet without SYN and SACK block: see Header.Delay
	optionTimes                     // the same: see Header.Times
)

// Header is a TCP header without ports and checksum, which the caller adds.
type Header struct {
	Seq, Ack uint32
	SACK     Block  // option of ACKs; of a SYN see MSS
	Window   uint16 // in units of 1<<WindowScale bytes, or of bytes without scaling and in a SYN
	Flags    Flags
	Options  Options // of a SYN
}

// MSS returns the maximum segment size that a SYN announces. It takes the place of the SACK block, because a SYN has
// none and a simulated packet has no room to spare.
func (h *Header) MSS() uint16 { return uint16(h.SACK.Start) }

// SetMSS sets the MSS of a SYN.
func (h *Header) SetMSS(n int) { h.SACK = Block{Start: uint32(min(n, 0xffff))} }

// Delay returns for how many nanoseconds the sender of a packet has held the latest segment that it received, and
// whether the packet says so. It takes the place of the SACK block, which such a packet does not have.
func (h *Header) Delay() (nanoseconds uint32, ok bool) {
	return h.SACK.Start, h.Options&optionDelay != 0 && h.Flags&FlagSYN == 0
}

// SetDelay sets the delay of a packet without SYN and SACK block.
func (h *Header) SetDelay(nanoseconds uint32) {
	h.SACK, h.Options = Block{Start: nanoseconds}, optionDelay
}

// Times returns the time stamp of a packet and the one that it echoes (RFC 7323), and whether it has them. They take
// the place of the SACK block.
func (h *Header) Times() (value, echo uint32, ok bool) {
	return h.SACK.Start, h.SACK.End, h.Options&optionTimes != 0 && h.Flags&FlagSYN == 0
}

// SetTimes sets the time stamps of a packet without SYN and SACK block.
func (h *Header) SetTimes(value, echo uint32) {
	h.SACK, h.Options = Block{Start: value, End: echo}, optionTimes
}

// Block returns the SACK block; empty: there is none.
func (h *Header) Block() Block {
	if h.Options&(optionDelay|optionTimes) != 0 && h.Flags&FlagSYN == 0 {
		return Block{}
	}
	return h.SACK
}

// HeaderLen is the length of every header here: 20 bytes and 12 of options, which hold a SACK block or nothing. Linux's
// segments have the same length: their options hold time stamps.
const HeaderLen = 32

const (
	optionNOP       = 1
	optionMSS       = 2
	optionScale     = 3
	optionPermitted = 4
	optionSACK      = 5
	optionTimestamp = 8
	blockLen        = 10  // SACK option with one block, and time stamps
	optionShared    = 253 // experiments (RFC 4727), with an identifier (RFC 6994)
	sharedLen       = 8
	sharedID        = 0x5357 // not registered: Swift's own headers are not public
)

// ErrForeign says that bytes are not a header of this package.
var ErrForeign = errors.New("not a TCP header of this kind")

// AppendTo appends the header with the given ports and a checksum of zero.
func (h *Header) AppendTo(b []byte, src, dst uint16) []byte {
	b = binary.BigEndian.AppendUint16(b, src)
	b = binary.BigEndian.AppendUint16(b, dst)
	b = binary.BigEndian.AppendUint32(b, h.Seq)
	b = binary.BigEndian.AppendUint32(b, h.Ack)
	b = append(b, HeaderLen/4<<4, byte(h.Flags))
	b = binary.BigEndian.AppendUint16(b, h.Window)
	b = append(b, 0, 0, 0, 0)
	if h.Flags&FlagSYN != 0 {
		return h.appendOptions(b)
	}
	if delay, ok := h.Delay(); ok {
		b = binary.BigEndian.AppendUint16(append(b, optionNOP, optionNOP, optionNOP, optionNOP, optionShared, sharedLen),
			sharedID)
		return binary.BigEndian.AppendUint32(b, delay)
	}
	b = append(b, optionNOP, optionNOP)
	if value, echo, ok := h.Times(); ok {
		b = binary.BigEndian.AppendUint32(append(b, optionTimestamp, blockLen), value)
		return binary.BigEndian.AppendUint32(b, echo)
	}
	if h.SACK == (Block{}) {
		return append(b, optionNOP, optionNOP, optionNOP, optionNOP, optionNOP, optionNOP, optionNOP, optionNOP, optionNOP,
			optionNOP)
	}
	b = append(b, optionSACK, blockLen)
	b = binary.BigEndian.AppendUint32(b, h.SACK.Start)
	return binary.BigEndian.AppendUint32(b, h.SACK.End)
}

// appendOptions appends the options of a SYN, in 12 bytes.
func (h *Header) appendOptions(b []byte) []byte {
	b = binary.BigEndian.AppendUint16(append(b, optionMSS, 4), h.MSS())
	if h.Options&OptionSACK != 0 {
		b = append(b, optionPermitted, 2)
	} else {
		b = append(b, optionNOP, optionNOP)
	}
	if h.Options&OptionScale != 0 {
		b = append(b, optionScale, 3, WindowScale)
	} else {
		b = append(b, optionNOP, optionNOP, optionNOP)
	}
	return append(b, optionNOP, optionNOP, optionNOP)
}

// parseOptions decodes what appendOptions made, and reports whether it was that.
func (h *Header) parseOptions(b []byte) bool {
	if b[0] != optionMSS || b[1] != 4 {
		return false
	}
	h.SetMSS(int(binary.BigEndian.Uint16(b[2:])))
	switch {
	case b[4] == optionPermitted && b[5] == 2:
		h.Options |= OptionSACK
	case b[4] != optionNOP:
		return false
	}
	switch {
	case b[6] == optionScale && b[7] == 3 && b[8] == WindowScale:
		h.Options |= OptionScale
	case b[6] != optionNOP:
		return false
	}
	return true
}

// Parse decodes a header that AppendTo made. On error h is unchanged.
func (h *Header) Parse(b []byte) error {
	switch {
	case len(b) < HeaderLen:
		return fmt.Errorf("%w: %d bytes, want at least %d", ErrForeign, len(b), HeaderLen)
	case b[12] != HeaderLen/4<<4:
		return fmt.Errorf("%w: data offset %d, want %d words", ErrForeign, b[12]>>4, HeaderLen/4)
	case Flags(b[13])&^(FlagSYN|FlagPSH|FlagACK|FlagECE|FlagCWR) != 0:
		return fmt.Errorf("%w: flags 0x%02x", ErrForeign, b[13])
	}
	g := Header{
		Seq: binary.BigEndian.Uint32(b[4:]), Ack: binary.BigEndian.Uint32(b[8:]), Flags: Flags(b[13]),
		Window: binary.BigEndian.Uint16(b[14:]),
	}
	switch {
	case g.Flags&FlagSYN != 0:
		if !g.parseOptions(b[20:]) {
			return fmt.Errorf("%w: options % x of a SYN", ErrForeign, b[20:HeaderLen])
		}
	case b[22] == optionSACK && b[23] == blockLen:
		g.SACK = Block{binary.BigEndian.Uint32(b[24:]), binary.BigEndian.Uint32(b[28:])}
	case b[22] == optionTimestamp && b[23] == blockLen:
		g.SetTimes(binary.BigEndian.Uint32(b[24:]), binary.BigEndian.Uint32(b[28:]))
	case b[24] == optionShared && b[25] == sharedLen && binary.BigEndian.Uint16(b[26:]) == sharedID && b[22] == optionNOP:
		g.SetDelay(binary.BigEndian.Uint32(b[28:]))
	case b[22] != optionNOP:
		return fmt.Errorf("%w: option %d", ErrForeign, b[22])
	}
	*h = g
	return nil
}
