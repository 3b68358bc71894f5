package traffic

import (
	"encoding/binary"
	"io"

	"candela.dev/candela/packet"
	"candela.dev/candela/trace"
)

// FileFormat is how a capture is written.
type FileFormat int

// Formats.
const (
	Nanoseconds  FileFormat = iota // classic pcap
	Microseconds                   // classic pcap, tcpdump's default
	PcapNG                         // with interface statistics that count no drop
)

// A captureFile is what a tap writes frames to.
type captureFile interface {
	Write(timeNS int64, data []byte, origLen int) error
	Flush() error
}

func (f FileFormat) create(w io.Writer) captureFile {
	switch f {
	case Microseconds:
		return &microFile{w: w}
	case PcapNG:
		return &ngFile{w: w}
	case Nanoseconds:
	}
	return trace.NewPcapWriter(w, "capture", 0)
}

// words returns numbers as a file holds them.
func words(values ...uint32) []byte {
	var b []byte
	for _, v := range values {
		b = binary.LittleEndian.AppendUint32(b, v)
	}
	return b
}

// microFile is a classic pcap file with microseconds.
type microFile struct {
	w       io.Writer
	started bool
}

func (f *microFile) header() error {
	if f.started {
		return nil
	}
	f.started = true
	_, err := f.w.Write(words(0xa1b2c3d4, 4<<16|2, 0, 0, 262144, 1))
	return err
}

func (f *microFile) Write(timeNS int64, data []byte, origLen int) error {
	if err := f.header(); err != nil {
		return err
	}
	head := words(uint32(timeNS/1e9), uint32(timeNS%1e9/1000), uint32(len(data)), uint32(origLen))
	_, err := f.w.Write(append(head, data...))
	return err
}

func (f *microFile) Flush() error { return f.header() }

// ngFile is a pcapng file of one interface.
type ngFile struct {
	w       io.Writer
	started bool
	frames  uint32
}

func (f *ngFile) block(kind uint32, body []byte) error {
	for len(body)%4 != 0 {
		body = append(body, 0)
	}
	size := uint32(len(body) + 12)
	_, err := f.w.Write(append(append(words(kind, size), body...), words(size)...))
	return err
}

func (f *ngFile) header() error {
	if f.started {
		return nil
	}
	f.started = true
	if err := f.block(0x0a0d0d0a, words(0x1a2b3c4d, 1, 0xffffffff, 0xffffffff)); err != nil {
		return err
	}
	return f.block(1, words(1, 262144, 1<<16|9, 9, 0)) // Ethernet; if_tsresol 9: nanoseconds
}

func (f *ngFile) Write(timeNS int64, data []byte, origLen int) error {
	if err := f.header(); err != nil {
		return err
	}
	f.frames++
	head := words(0, uint32(timeNS>>32), uint32(timeNS), uint32(len(data)), uint32(origLen))
	return f.block(6, append(head, data...))
}

// Flush ends the file with statistics: isb_ifrecv and isb_ifdrop.
func (f *ngFile) Flush() error {
	if err := f.header(); err != nil {
		return err
	}
	return f.block(5, words(0, 0, 0, 8<<16|4, f.frames, 0, 8<<16|5, 0, 0, 0))
}

// tagged returns a frame with an 802.1Q tag.
func tagged(frame []byte) []byte {
	const macs = 12
	b := append([]byte{}, frame[:macs]...)
	b = binary.BigEndian.AppendUint16(b, packet.EtherTypeVLAN)
	b = binary.BigEndian.AppendUint16(b, 7)
	return append(b, frame[macs:]...)
}
