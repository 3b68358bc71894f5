package trace

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"

	"candela.dev/candela/packet/encapsulation"
)

// Sizes and magic numbers of the pcap format (draft-ietf-opsawg-pcap).
const (
	pcapHeaderLen  = 24
	pcapRecordLen  = 16
	magicMicro     = 0xa1b2c3d4
	magicNano      = 0xa1b23c4d
	magicPcapng    = 0x0a0d0d0a
	linkEthernet   = 1
	maxCapturedLen = 262144    // libpcap's MAXIMUM_SNAPLEN: longer records are garbage
	readBufferLen  = 128 << 10 // grows to hold one record if it must
)

// ErrTruncatedFile matches errors about a file that ends inside a record. The records before it were delivered.
var ErrTruncatedFile = errors.New("file ends inside a record")

// A FileError says where a capture file can't be read or written.
type FileError struct {
	Name   string // path as the caller gave it
	Packet uint64 // 1-based number of the record concerned; 0: the file header
	Offset int64  // byte offset of that record
	Err    error
}

// Error reads as a path from the file to the cause.
func (e *FileError) Error() string {
	if e.Packet == 0 {
		return fmt.Sprintf("%s: file header: %v", e.Name, e.Err)
	}
	return fmt.Sprintf("%s: packet %d at byte %d: %v", e.Name, e.Packet, e.Offset, e.Err)
}

// Unwrap returns the cause.
func (e *FileError) Unwrap() error { return e.Err }

// Frame is one captured frame.
type Frame struct {
	Number  uint64 // 1-based place in the file
	Offset  int64  // byte offset of its record in the file; 0 if the format does not have it
	TimeNS  int64  // file time, ns since 1970
	Data    []byte // captured bytes, of a FrameFile from the Ethernet header on, valid until the next frame is read
	OrigLen int    // length on the wire, without FCS
	Link    encapsulation.Link
}

// PcapReader reads a classic pcap file, with micro- or nanoseconds and either byte order. It has one buffer whatever
// the length of the file and allocates nothing per packet. It is not safe for concurrent use.
type PcapReader struct {
	fileBuffer
	name string

	order    binary.ByteOrder
	swapped  bool // big-endian file
	fraction int64
	limit    uint32 // largest captured length that makes sense
	snap     uint32
	link     encapsulation.Link
	packets  uint64
	lastNS   int64 // time of the latest frame that was skimmed
}

// NewPcapReader reads the file header of src. name is in errors, which are all *FileError.
func NewPcapReader(src io.Reader, name string) (*PcapReader, error) {
	r := &PcapReader{fileBuffer: newFileBuffer(src), name: name}
	if have := r.fill(pcapHeaderLen); have < pcapHeaderLen {
		return nil, r.headerError(r.shortHeader(have))
	}
	h := r.buf[:pcapHeaderLen]
	if err := r.parseMagic(h); err != nil {
		return nil, r.headerError(err)
	}
	if major := r.order.Uint16(h[4:]); major != 2 {
		return nil, r.headerError(fmt.Errorf("pcap version %d.%d (2.4 is read)", major, r.order.Uint16(h[6:])))
	}
	const linkMask = 0xffff // the rest says whether there is an FCS
	r.link = encapsulation.Link(r.order.Uint32(h[20:]) & linkMask)
	if err := r.link.Check(); err != nil {
		return nil, r.headerError(err)
	}
	r.snap = r.order.Uint32(h[16:])
	r.limit = min(max(r.snap, 65535), maxCapturedLen)
	r.start = pcapHeaderLen
	return r, nil
}

func (r *PcapReader) parseMagic(h []byte) error {
	le, be := binary.LittleEndian.Uint32(h), binary.BigEndian.Uint32(h)
	r.order = binary.LittleEndian
	magic := le
	if be == magicMicro || be == magicNano {
		r.order, r.swapped, magic = binary.BigEndian, true, be
	}
	switch magic {
	case magicMicro:
		r.fraction = 1000
	case magicNano:
		r.fraction = 1
	case magicPcapng:
		return errors.New("this is a pcapng file")
	default:
		return fmt.Errorf("not a capture file: it starts with % x (pcap: d4 c3 b2 a1, 4d 3c b2 a1 or these reversed; "+
			"pcapng: 0a 0d 0d 0a)", h[:4])
	}
	return nil
}

func (r *PcapReader) shortHeader(have int) error {
	if r.srcErr != nil && !errors.Is(r.srcErr, io.EOF) {
		return r.srcErr
	}
	if have == 0 {
		return fmt.Errorf("%w: the file is empty", ErrTruncatedFile)
	}
	return fmt.Errorf("%w: %d bytes, a pcap header has %d", ErrTruncatedFile, have, pcapHeaderLen)
}

func (r *PcapReader) headerError(err error) error { return &FileError{Name: r.name, Err: err} }

// SnapLen returns the snap length of the file header.
func (r *PcapReader) SnapLen() int { return int(r.snap) }

// Next reads the next frame into f. It returns io.EOF at the end of the file, and an error that matches
// ErrTruncatedFile if the file ends inside a record.
func (r *PcapReader) Next(f *Frame) error {
	if r.end-r.start < pcapRecordLen {
		if err := r.needHeader(); err != nil {
			return err
		}
	}
	h := r.buf[r.start : r.start+pcapRecordLen : r.start+pcapRecordLen]
	sec, frac := binary.LittleEndian.Uint32(h), binary.LittleEndian.Uint32(h[4:])
	caplen, origlen := binary.LittleEndian.Uint32(h[8:]), binary.LittleEndian.Uint32(h[12:])
	if r.swapped {
		sec, frac = binary.BigEndian.Uint32(h), binary.BigEndian.Uint32(h[4:])
		caplen, origlen = binary.BigEndian.Uint32(h[8:]), binary.BigEndian.Uint32(h[12:])
	}
	if caplen > r.limit || int64(frac)*r.fraction >= 1e9 {
		return r.garbage(caplen, frac)
	}
	total := pcapRecordLen + int(caplen)
	if r.end-r.start < total {
		if have := r.fill(total); have < total {
			return r.partial(have, total)
		}
	}
	r.packets++
	f.Number = r.packets
	f.Offset = r.base + int64(r.start)
	f.TimeNS = int64(sec)*1e9 + int64(frac)*r.fraction
	f.Data = r.buf[r.start+pcapRecordLen : r.start+total : r.start+total]
	f.OrigLen, f.Link = int(origlen), r.link
	r.start += total
	return nil
}

// skim calls take with the frames in the buffer of a little-endian file, numbered after those of earlier files, until
// it refuses one.
func (r *PcapReader) skim(numbers uint64, take func(data []byte, number uint64, offset int64) bool) (refused bool) {
	buf, at := r.buf[:r.end], r.start
	for len(buf)-at >= pcapRecordLen {
		h := buf[at : at+pcapRecordLen : at+pcapRecordLen]
		frac, caplen := int64(binary.LittleEndian.Uint32(h[4:]))*r.fraction, binary.LittleEndian.Uint32(h[8:])
		start, end := at+pcapRecordLen, at+pcapRecordLen+int(caplen)
		if caplen > r.limit || frac >= 1e9 || end > len(buf) {
			break // Next knows what to do
		}
		if refused = !take(buf[start:end:end], numbers+r.packets+1, r.base+int64(at)); refused {
			break
		}
		r.packets++
		r.lastNS = int64(binary.LittleEndian.Uint32(h))*1e9 + frac
		at = end
	}
	r.start = at
	return refused
}

// needHeader brings a record header into the buffer, or says why there is none.
func (r *PcapReader) needHeader() error {
	have := r.fill(pcapRecordLen)
	switch {
	case have >= pcapRecordLen:
		return nil
	case have == 0 && errors.Is(r.srcErr, io.EOF):
		return io.EOF
	}
	return r.partial(have, pcapRecordLen)
}

func (r *PcapReader) partial(have, want int) error {
	err := r.srcErr
	if errors.Is(err, io.EOF) {
		err = fmt.Errorf("%w: %d of its %d bytes are there; the %d packets before it are whole", ErrTruncatedFile, have, want,
			r.packets)
	}
	return r.fail(err)
}

func (r *PcapReader) garbage(caplen, frac uint32) error {
	if caplen > r.limit {
		return r.fail(fmt.Errorf("captured length %d is beyond the limit of %d (snap length %d): the file is damaged here",
			caplen, r.limit, r.snap))
	}
	return r.fail(fmt.Errorf("fraction of a second %d × %d ns is a second or more: the file is damaged here", frac,
		r.fraction))
}

func (r *PcapReader) fail(err error) error {
	return &FileError{Name: r.name, Packet: r.packets + 1, Offset: r.base + int64(r.start), Err: err}
}
