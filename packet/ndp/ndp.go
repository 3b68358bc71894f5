// Package ndp is the wire format of Candela's NDP, the receiver-driven transport that packet trimming was made for.
//
// NDP (Handley et al., SIGCOMM 2017) is described there by behaviour, not by bytes; this format is ours. A header is
// the first Size bytes of a UDP payload to (or, in a returned header, from) Port, in network byte order:
//
//	byte  0     2 3 4         8     12        16     18       20         22
//	      magic k f connection seq   counter   path   length   checksum   payload (length bytes)
//
// k holds the version in its high and the Kind in its low four bits, f the Flags. Over IPv4 an Ethernet frame cut to 64
// bytes (without FCS) holds exactly Ethernet, IPv4, UDP and NDP headers; over IPv6 it takes 84 bytes.
//
// The checksum (RFC 1071) covers only the header, with FlagTrimmed and FlagReturned as zero: a switch sets these
// without changing it, and the receiver of a trimmed header can check that it is the one that was sent. The UDP
// checksum covers the payload; it is wrong after a cut, so the trimmed mark is checked first (Header.Trimmed).
package ndp

import (
	"encoding/binary"
	"errors"
	"fmt"
	"strings"
)

const (
	// Port is the UDP port. It is not registered: it is in the dynamic range (RFC 6335) above the ports that Linux
	// assigns.
	Port = 61791
	// Size is the length of a header in bytes.
	Size = 22

	magic   = 0xd05e
	version = 1
)

// Kind is what a packet is for; 0 is unset.
type Kind uint8

// Kinds.
const (
	Data Kind = 1 + iota
	Ack       // one data packet arrived whole
	Nack      // one data packet arrived trimmed
	Pull      // credit for as many data packets as Counter grew by
)

var kindNames = [...]string{"unset", "data", "ack", "nack", "pull"}

// String returns the kind in lower case.
func (k Kind) String() string {
	if int(k) < len(kindNames) {
		return kindNames[k]
	}
	return fmt.Sprintf("kind(%d)", uint8(k))
}

// Flags mark a packet.
type Flags uint8

// Flags. The switch sets FlagTrimmed when it cuts the payload, and FlagReturned as well when it swaps the addresses to
// send the header back. The sender sets the others.
const (
	// in the first window: Seq is the offset from the connection's start, at which the receiver creates its state
	FlagSYN      Flags = 1 << iota
	FlagLast           // the connection's last data packet
	FlagTrimmed        // payload cut on the way
	FlagReturned       // on the way back to its sender
	flagsKnown   = FlagSYN | FlagLast | FlagTrimmed | FlagReturned
)

var flagNames = [...]string{"syn", "last", "trimmed", "returned"}

// String lists the flags, joined by "|"; none are "".
func (f Flags) String() string {
	var names []string
	for i, name := range flagNames {
		if f&(1<<i) != 0 {
			names = append(names, name)
		}
	}
	if unknown := f &^ flagsKnown; unknown != 0 {
		names = append(names, fmt.Sprintf("0x%02x", uint8(unknown)))
	}
	return strings.Join(names, "|")
}

// Header is an NDP header.
type Header struct {
	Kind       Kind
	Flags      Flags
	Connection uint32 // drawn by the sender of data, unique for it and its peer
	// Seq is the packet number, from 0: the packet's own in data, the one answered in ACK and NACK, 0 in a PULL.
	Seq uint32
	// Counter is cumulative, so that the next packet makes up for a lost one. PULL: PULLs sent on the connection, this one
	// included. ACK: every packet below it has arrived whole. Data: transmissions on the connection before this one. NACK:
	// as ACK.
	Counter uint32
	Path    uint16 // the path tag of a data packet; ACK and NACK echo it
	// Length is the payload's length in bytes before any trimming; 0 in all but data.
	Length uint16
}

// Set copies from into h field by field. An assignment copies 16 bytes at once, for which a processor that has just
// written the fields waits until they have left its store buffer.
func (h *Header) Set(from *Header) {
	h.Kind, h.Flags, h.Connection, h.Seq = from.Kind, from.Flags, from.Connection, from.Seq
	h.Counter, h.Path, h.Length = from.Counter, from.Path, from.Length
}

// Errors that Parse wraps.
var (
	ErrForeign  = errors.New("not an NDP header of this version")
	ErrChecksum = errors.New("NDP header checksum is wrong")
)

// Parse decodes a header from the front of b, a UDP payload. On error h is unchanged.
func (h *Header) Parse(b []byte) error {
	if len(b) < Size {
		return fmt.Errorf("%w: %d bytes, want at least %d", ErrForeign, len(b), Size)
	}
	if got := binary.BigEndian.Uint16(b); got != magic {
		return fmt.Errorf("%w: magic 0x%04x, want 0x%04x", ErrForeign, got, magic)
	}
	kind, flags := Kind(b[2]&0xf), Flags(b[3])
	switch {
	case b[2]>>4 != version:
		return fmt.Errorf("%w: version %d, want %d", ErrForeign, b[2]>>4, version)
	case kind < Data || kind > Pull:
		return fmt.Errorf("%w: %v is not a kind of packet", ErrForeign, kind)
	case flags&^flagsKnown != 0:
		return fmt.Errorf("%w: reserved flags 0x%02x are set", ErrForeign, uint8(flags&^flagsKnown))
	}
	if want, got := checksum(b), binary.BigEndian.Uint16(b[20:]); got != want {
		return fmt.Errorf("%w: 0x%04x, want 0x%04x", ErrChecksum, got, want)
	}
	*h = Header{
		Kind: kind, Flags: flags,
		Connection: binary.BigEndian.Uint32(b[4:]), Seq: binary.BigEndian.Uint32(b[8:]),
		Counter: binary.BigEndian.Uint32(b[12:]),
		Path:    binary.BigEndian.Uint16(b[16:]), Length: binary.BigEndian.Uint16(b[18:]),
	}
	return nil
}

// AppendTo appends the header, checksum included, to b. The payload follows, by the caller.
func (h *Header) AppendTo(b []byte) []byte {
	start := len(b)
	b = binary.BigEndian.AppendUint16(b, magic)
	b = append(b, version<<4|byte(h.Kind), byte(h.Flags))
	b = binary.BigEndian.AppendUint32(b, h.Connection)
	b = binary.BigEndian.AppendUint32(b, h.Seq)
	b = binary.BigEndian.AppendUint32(b, h.Counter)
	b = binary.BigEndian.AppendUint16(b, h.Path)
	b = binary.BigEndian.AppendUint16(b, h.Length)
	return binary.BigEndian.AppendUint16(b, checksum(b[start:]))
}

// Trimmed reports whether a data packet of which arrived bytes of UDP payload, header included, has lost payload: by
// the mark or, after a switch that only cuts, by its length.
func (h *Header) Trimmed(arrived int) bool {
	return h.Kind == Data && (h.Flags&FlagTrimmed != 0 || arrived < Size+int(h.Length))
}

// SameAs reports whether g equals h except for the marks, which a switch may change.
func (h *Header) SameAs(g *Header) bool {
	const marks = FlagTrimmed | FlagReturned
	return h.Kind == g.Kind && (h.Flags^g.Flags)&^marks == 0 && h.Connection == g.Connection && h.Seq == g.Seq &&
		h.Counter == g.Counter && h.Path == g.Path && h.Length == g.Length
}

// String prints the header on one line.
func (h *Header) String() string {
	s := fmt.Sprintf("%v connection %d seq %d counter %d path %d", h.Kind, h.Connection, h.Seq, h.Counter, h.Path)
	if h.Kind == Data {
		s += fmt.Sprintf(" length %d", h.Length)
	}
	if h.Flags != 0 {
		s += " " + h.Flags.String()
	}
	return s
}

// checksum computes the checksum of the header at the front of b, whatever its checksum field holds.
func checksum(b []byte) uint16 {
	sum := uint32(binary.BigEndian.Uint16(b)) + uint32(b[2])<<8 + uint32(Flags(b[3])&^(FlagTrimmed|FlagReturned))
	for i := 4; i < 20; i += 2 {
		sum += uint32(binary.BigEndian.Uint16(b[i:]))
	}
	for sum > 0xffff {
		sum = sum>>16 + sum&0xffff
	}
	return ^uint16(sum)
}
