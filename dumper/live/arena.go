package live

import (
	"encoding/binary"

	"candela.dev/candela/trace"
)

// recordHeader stands before each frame of an arena: captured length, length on the wire.
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

// write writes every mirror copy to w. Frames are changed in place.
func (a *arena) write(w *trace.PcapWriter, epochNS int64) (written, other uint64, err error) {
	var stamps trace.TimeUnwrapper
	for at := 0; at < a.used; {
		n := int(binary.NativeEndian.Uint32(a.memory[at:]))
		length := int(binary.NativeEndian.Uint32(a.memory[at+4:]))
		frame := a.memory[at+recordHeader : at+recordHeader+n]
		at += recordHeader + n
		meta, err := trace.DecodeMirror(frame)
		if err != nil {
			other++
			continue
		}
		trace.RestorePort(frame)
		if err := w.Write(epochNS+stamps.Unwrap(uint64(meta.TimeNS)), frame, max(length, trace.WireLen(frame))); err != nil {
			return written, other, err
		}
		written++
	}
	return written, other, nil
}
