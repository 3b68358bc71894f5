package live

import (
	"bytes"
	"cmp"
	"encoding/binary"
	"slices"

	"candela.dev/candela/packet"
	"candela.dev/candela/trace"
)

// recordHeader precedes each frame of an arena: captured length, length on the wire.
const recordHeader = 8

// minArena holds a few frames of any length.
const minArena = 1 << 16

// arena is memory that records are appended to. It never grows.
type arena struct {
	memory []byte
	used   int
}

// add copies a frame and reports whether there was room.
func (a *arena) add(data []byte, length int) bool {
	need := recordHeader + len(data)
	if len(a.memory)-a.used < need {
		return false
	}
	at := a.memory[a.used : a.used+need]
	binary.NativeEndian.PutUint32(at, uint32(len(data)))
	binary.NativeEndian.PutUint32(at[4:], uint32(length))
	copy(at[recordHeader:], data)
	a.used += need
	return true
}

// copyAt is a mirror copy in an arena: its place, and its sequence number relative to the first copy's.
type copyAt struct {
	ahead int64
	at    int
}

// frame returns the frame at a place, and its length on the wire.
func (a *arena) frame(at int) (data []byte, length int) {
	n := int(binary.NativeEndian.Uint32(a.memory[at:]))
	return a.memory[at+recordHeader : at+recordHeader+n], int(binary.NativeEndian.Uint32(a.memory[at+4:]))
}

// others counts frames that are not mirror copies.
type others struct {
	foreign uint64 // of the cable's other end for its neighbour
	unknown uint64
}

func (o *others) count(frame []byte) {
	if linkLocal(frame) {
		o.foreign++
	} else {
		o.unknown++
	}
}

// linkLocal reports whether bridges do not forward a frame: it has a reserved address (IEEE Std 802.1Q, table 8-1) or a
// slow protocol such as LACP or LLDP. The other end of a dumper's cable may send such frames at any time; they do not
// concern the mirror.
func linkLocal(frame []byte) bool {
	const slow, lldp = 0x8809, 0x88cc
	if len(frame) < packet.EthernetLen {
		return false
	}
	kind := binary.BigEndian.Uint16(frame[packet.EthernetLen-2:])
	return kind == slow || kind == lldp || bytes.HasPrefix(frame, []byte{0x01, 0x80, 0xc2, 0, 0}) && frame[5] <= 0x0f
}

// copies lists the mirror copies in the order of their numbers, equal ones in order of arrival, and counts other
// frames. A switch that mirrors on several CPUs or queues delivers them in nearly that order.
func (a *arena) copies() (list []copyAt, rest others) {
	const seqBits = 48
	first := uint64(0)
	for at := 0; at < a.used; {
		frame, _ := a.frame(at)
		meta, err := trace.DecodeMirror(frame)
		switch {
		case err != nil:
			rest.count(frame)
		case len(list) == 0:
			first = meta.Seq
			list = append(list, copyAt{0, at})
		default:
			list = append(list, copyAt{int64((meta.Seq-first)<<(64-seqBits)) >> (64 - seqBits), at})
		}
		at += recordHeader + len(frame)
	}
	byNumber := func(x, y copyAt) int { return cmp.Compare(x.ahead, y.ahead) }
	if !slices.IsSortedFunc(list, byNumber) {
		slices.SortStableFunc(list, byNumber)
	}
	return list, rest
}

// write writes every mirror copy to w. Frames are changed in place.
func (a *arena) write(w *trace.PcapWriter, epochNS int64) (written uint64, rest others, err error) {
	var stamps trace.TimeUnwrapper
	list, rest := a.copies()
	for _, c := range list {
		frame, length := a.frame(c.at)
		meta, err := trace.DecodeMirror(frame)
		if err != nil {
			return written, rest, err
		}
		trace.RestorePort(frame)
		if err := w.Write(epochNS+stamps.Unwrap(uint64(meta.TimeNS)), frame, max(length, trace.WireLen(frame))); err != nil {
			return written, rest, err
		}
		written++
	}
	return written, rest, nil
}
