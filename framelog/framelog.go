// Package framelog records in a few bytes which RoCE frames a host has sent and received, in order, and compares that
// with the trace that the switch made of them: what differs was lost, duplicated, damaged or reordered on a cable or at
// a port, and no device answers for it.
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

// Entry is what is kept of a frame. Neither checksum covers what a switch may change: the type of service, and the IPv4
// header checksum that follows it.
type Entry struct {
	// Head is a checksum over what a mirror copy shows of the frame, of as many bytes as the copy keeps.
	Head uint32
	// Whole is a checksum over the whole frame, Ethernet addresses included.
	Whole uint32
	// Flow is a checksum over IP addresses and destination queue pair.
	Flow uint32
	// TOS is the IPv4 type of service or the IPv6 traffic class.
	TOS uint8
	// HeaderBad says that the IPv4 header checksum is wrong.
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

// layout says where the headers of a RoCE frame are.
type layout struct{ l3, l4 int }

// locate finds the headers of a frame to the RoCE port, which must be whole up to the BTH.
func locate(frame []byte) (at layout, ok bool) {
	l3, l4, err := trace.LocateUDP(frame)
	if err != nil || len(frame) < l4+packet.UDPLen+packet.BTHLen || binary.BigEndian.Uint16(frame[l4+2:]) != packet.Port {
		return at, false
	}
	return layout{l3, l4}, true
}

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// describe returns the entry of a frame of which copies show snap bytes; 0: all.
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

// head sums what a mirror copy keeps of a frame: not the addresses, the hop limit and the UDP destination port, which
// carry what the switch has to say.
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

// Limit is how many frames a Log keeps at most: 32 MiB of entries.
const Limit = 2 << 20

// Log is what a host has sent, or received. It serves one goroutine.
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

// Frames returns how many frames were recorded, those beyond the limit included.
func (l *Log) Frames() uint64 { return l.frames }

// Bytes returns the encoded entries: Frames of them, at most Limit. They stay as they are.
func (l *Log) Bytes() []byte { return l.entries[:len(l.entries):len(l.entries)] }

// Snapshot returns the log as it is now, which may be read while this one goes on.
func (l *Log) Snapshot() *Log {
	return &Log{snap: l.snap, entries: l.Bytes(), frames: l.frames}
}

// ErrDamaged is what the error of entries that cannot be read answers to.
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

// Destination returns the IP address that a RoCE frame goes to.
func Destination(frame []byte) (to netip.Addr, ok bool) {
	at, ok := locate(frame)
	if !ok {
		return to, false
	}
	_, to = at.addresses(frame)
	return to, true
}
