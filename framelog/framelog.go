// Package framelog records the RoCE frames that a host has sent and received, in order and in 16 bytes each, and
// compares them with the switch's trace. Differences are frames lost, duplicated, damaged or reordered on a cable or at
// a port, which no device under test has caused.
package framelog

import (
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"net/netip"

	"candela.dev/candela/packet"
	"candela.dev/candela/trace"
)

// Entry describes one frame. The checksums exclude the fields that a switch may change: the type of service and the
// IPv4 header checksum.
type Entry struct {
	// Head is a checksum over the part of the frame that a mirror copy keeps.
	Head uint32
	// Whole is a checksum over the frame, including its Ethernet addresses.
	Whole uint32
	// Flow is a checksum over IP addresses and destination queue pair.
	Flow uint32
	// TOS is the IPv4 type of service or the IPv6 traffic class.
	TOS uint8
	// HeaderBad is set if the IPv4 header checksum is wrong.
	HeaderBad bool
}

// EntryLen is the length of an encoded entry.
const EntryLen = 16

func (e *Entry) encode(to []byte) []byte {
	to = binary.LittleEndian.AppendUint32(to, e.Head)
	to = binary.LittleEndian.AppendUint32(to, e.Whole)
	to = binary.LittleEndian.AppendUint32(to, e.Flow)
	bad := uint8(0)
	if e.HeaderBad {
		bad = 1
	}
	return append(to, e.TOS, bad, 0, 0)
}

func decode(b []byte) Entry {
	return Entry{
		Head: binary.LittleEndian.Uint32(b), Whole: binary.LittleEndian.Uint32(b[4:]),
		Flow: binary.LittleEndian.Uint32(b[8:]),
		TOS:  b[12], HeaderBad: b[13] != 0,
	}
}

// layout has the offsets of the IP and UDP headers.
type layout struct{ l3, l4 int }

// locate finds the headers of a frame to the RoCE port. The frame must be complete up to the BTH.
func locate(frame []byte) (at layout, ok bool) {
	l3, l4, err := trace.LocateUDP(frame)
	if err != nil || len(frame) < l4+packet.UDPLen+packet.BTHLen || binary.BigEndian.Uint16(frame[l4+2:]) != packet.Port {
		return at, false
	}
	return layout{l3, l4}, true
}

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// describe returns the entry of a frame whose mirror copies keep snap bytes; 0: all.
func describe(frame []byte, snap int) (e Entry, ok bool) {
	at, ok := locate(frame)
	if !ok {
		return e, false
	}
	head := frame
	if snap > 0 && snap < len(head) {
		head = head[:snap]
	}
	e.Head, e.TOS = at.head(head), at.tos(frame)
	if frame[at.l3]>>4 == 4 {
		header := frame[at.l3:at.l4]
		e.HeaderBad = packet.HeaderChecksum(header) != binary.BigEndian.Uint16(header[10:])
		e.Flow = crc32.Checksum(frame[at.l3+12:at.l3+20], castagnoli)
		e.Whole = sum(frame[:at.l3+1], frame[at.l3+2:at.l3+10], frame[at.l3+12:])
	} else {
		e.Flow = crc32.Checksum(frame[at.l3+8:at.l3+40], castagnoli)
		e.Whole = sum(frame[:at.l3], []byte{0x60, frame[at.l3+1] & 0xf}, frame[at.l3+2:])
	}
	bth := frame[at.l4+packet.UDPLen:]
	e.Flow = crc32.Update(e.Flow, castagnoli, bth[5:8])
	return e, true
}

// head returns the checksum of a mirror copy without the fields that carry the switch's metadata: MAC addresses, hop
// limit and UDP destination port.
func (at layout) head(b []byte) uint32 {
	var ports, rest = b[at.l4 : at.l4+2], b[at.l4+4:]
	if b[at.l3]>>4 == 4 {
		return sum(b[12:at.l3+1], b[at.l3+2:at.l3+8], b[at.l3+9:at.l3+10], b[at.l3+12:at.l4], ports, rest)
	}
	return sum(b[12:at.l3], []byte{0x60, b[at.l3+1] & 0xf}, b[at.l3+2:at.l3+7], b[at.l3+8:at.l4], ports, rest)
}

func (at layout) tos(b []byte) uint8 {
	if b[at.l3]>>4 == 4 {
		return b[at.l3+1]
	}
	return uint8(binary.BigEndian.Uint16(b[at.l3:]) >> 4)
}

func sum(parts ...[]byte) (crc uint32) {
	for _, p := range parts {
		crc = crc32.Update(crc, castagnoli, p)
	}
	return crc
}

// Limit is the maximum number of frames in a Log: 32 MiB of entries.
const Limit = 2 << 20

// Log records the frames that a host sends, or receives. It is not safe for concurrent use.
type Log struct {
	snap    int
	entries []byte
	frames  uint64
}

// NewLog returns an empty log for a switch whose mirror copies keep snap bytes of a frame; 0: all.
func NewLog(snap int) *Log { return &Log{snap: snap} }

// Add records a frame if it is RoCE.
func (l *Log) Add(frame []byte) {
	e, ok := describe(frame, l.snap)
	if !ok {
		return
	}
	if l.frames++; l.frames <= Limit {
		l.entries = e.encode(l.entries)
	}
}

// Frames returns the number of recorded frames, including those beyond the limit.
func (l *Log) Frames() uint64 { return l.frames }

// Bytes returns the encoded entries: Frames of them, at most Limit. Later frames do not change them.
func (l *Log) Bytes() []byte { return l.entries[:len(l.entries):len(l.entries)] }

// Snapshot returns a copy of the log that may be read while the log grows.
func (l *Log) Snapshot() *Log {
	return &Log{snap: l.snap, entries: l.Bytes(), frames: l.frames}
}

// ErrDamaged is the error for unreadable entries.
var ErrDamaged = errors.New("damaged frame log")

// Parse reads the entries of a log.
func Parse(b []byte) ([]Entry, error) {
	if len(b)%EntryLen != 0 {
		return nil, fmt.Errorf("%w: %d bytes are not a multiple of %d", ErrDamaged, len(b), EntryLen)
	}
	list := make([]Entry, 0, len(b)/EntryLen)
	for ; len(b) > 0; b = b[EntryLen:] {
		list = append(list, decode(b))
	}
	return list, nil
}

// Destination returns the destination IP address of a RoCE frame.
func Destination(frame []byte) (to netip.Addr, ok bool) {
	at, ok := locate(frame)
	if !ok {
		return to, false
	}
	_, to = at.addresses(frame)
	return to, true
}
