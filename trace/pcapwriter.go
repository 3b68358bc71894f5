package trace

import (
	"encoding/binary"
	"fmt"
	"io"
)

// A full buffer is large enough that a system call costs little per packet, and small enough for dozens of shards. It
// starts small and doubles, since most captures are short.
const (
	firstBufferLen = 16 << 10
	writeBufferLen = 256 << 10
)

// PcapWriter writes a nanosecond pcap file, little-endian, link type Ethernet. It copies each frame once, into its
// buffer, and allocates nothing per packet. It is not safe for concurrent use.
type PcapWriter struct {
	dst  io.Writer
	name string

	buf     []byte // not yet written
	lent    bool   // buf is room of the destination
	snap    int
	packets uint64
	offset  int64 // of the next record in the file
	err     error // sticks
	kept    uint64
}

// NewPcapWriter starts a file on dst; name is in errors. Frames are cut to snap bytes; 0 keeps them whole. Data may
// stay in the buffer until Flush.
func NewPcapWriter(dst io.Writer, name string, snap int) *PcapWriter {
	w := &PcapWriter{dst: dst, name: name, buf: make([]byte, 0, pcapHeaderLen), snap: snap}
	if snap <= 0 || snap > maxCapturedLen {
		w.snap = maxCapturedLen
	}
	h := w.buf[:pcapHeaderLen]
	binary.LittleEndian.PutUint32(h, magicNano)
	binary.LittleEndian.PutUint16(h[4:], 2)
	binary.LittleEndian.PutUint16(h[6:], 4)
	binary.LittleEndian.PutUint64(h[8:], 0) // time zone and accuracy: always zero
	binary.LittleEndian.PutUint32(h[16:], uint32(w.snap))
	binary.LittleEndian.PutUint32(h[20:], linkEthernet)
	w.buf, w.offset = h, pcapHeaderLen
	return w
}

// Write appends a frame of origLen bytes of which data was captured. Times are ns since 1970 and must be before 2106.
// After an error every further Write and Flush returns it.
func (w *PcapWriter) Write(timeNS int64, data []byte, origLen int) error {
	b, err := w.Reserve(timeNS, min(len(data), w.snap), origLen)
	if err != nil {
		return err
	}
	copy(b, data)
	return nil
}

// Reserve appends a record of capLen bytes and returns its bytes for the caller to fill before the next call, which
// saves a copy. capLen is not cut to the snap length.
func (w *PcapWriter) Reserve(timeNS int64, capLen, origLen int) ([]byte, error) {
	if w.err != nil {
		return nil, w.err
	}
	sec := timeNS / 1e9
	if timeNS < 0 || sec > 1<<32-1 || capLen > maxCapturedLen {
		return nil, w.fail(fmt.Errorf("time %d ns, %d bytes: not representable in pcap", timeNS, capLen))
	}
	total := pcapRecordLen + capLen
	if len(w.buf)+total > cap(w.buf) {
		if err := w.makeRoom(total); err != nil {
			return nil, err
		}
	}
	start := len(w.buf)
	w.buf = w.buf[:start+total]
	h := w.buf[start : start+pcapRecordLen : start+pcapRecordLen]
	binary.LittleEndian.PutUint32(h, uint32(sec))
	binary.LittleEndian.PutUint32(h[4:], uint32(timeNS-sec*1e9))
	binary.LittleEndian.PutUint32(h[8:], uint32(capLen))
	binary.LittleEndian.PutUint32(h[12:], uint32(origLen))
	w.packets++
	w.offset += int64(total)
	return w.buf[start+pcapRecordLen:], nil
}

// makeRoom empties the buffer, and enlarges it unless it has its full length, so that a record of total bytes fits.
func (w *PcapWriter) makeRoom(total int) error {
	if cap(w.buf) == pcapHeaderLen { // the first record
		w.buf = append(w.room(max(firstBufferLen, pcapHeaderLen+total)), w.buf...)
		return nil
	}
	want := max(min(2*cap(w.buf), writeBufferLen), firstBufferLen, total)
	if err := w.Flush(); err != nil {
		return err
	}
	if want > cap(w.buf) {
		w.buf = w.room(want)
	}
	return nil
}

// room returns an empty buffer for n bytes, the destination's own if it lends one as bytes.Buffer does.
func (w *PcapWriter) room(n int) []byte {
	if dst, ok := w.dst.(interface{ AvailableBuffer() []byte }); ok {
		if b := dst.AvailableBuffer(); cap(b) >= n {
			w.lent = true
			return b
		}
	}
	w.lent = false
	return make([]byte, 0, n)
}

// Flush hands everything buffered to the destination.
func (w *PcapWriter) Flush() error {
	if w.err != nil {
		return w.err
	}
	if n, err := w.dst.Write(w.buf); err != nil {
		written := w.offset - int64(len(w.buf)) + int64(n)
		return w.fail(fmt.Errorf("%w (the file keeps %d bytes, of which the first %d packets are certainly whole)", err,
			written, w.kept))
	}
	w.buf, w.kept = w.buf[:0], w.packets
	if w.lent {
		w.buf = nil // it is part of the file now
	}
	return nil
}

// Packets returns how many frames were appended.
func (w *PcapWriter) Packets() uint64 { return w.packets }

// Bytes returns the length of the file once everything is flushed.
func (w *PcapWriter) Bytes() int64 { return w.offset }

func (w *PcapWriter) fail(err error) error {
	w.err = &FileError{Name: w.name, Packet: w.packets + 1, Offset: w.offset, Err: err}
	return w.err
}
