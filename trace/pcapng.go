package trace

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"math"
	"math/bits"
)

// pcapng blocks and options that matter here (draft-ietf-opsawg-pcapng). All other blocks are skipped.
const (
	ngSection       = magicPcapng
	ngInterface     = 1
	ngPacket        = 2 // obsolete
	ngSimplePacket  = 3
	ngEnhanced      = 6
	ngByteOrder     = 0x1a2b3c4d
	ngOptResolution = 9
	ngOptOffset     = 14

	ngBlockHead = 8  // type and length
	ngBlockMin  = 12 // and the length again
	// ngMaxBlock bounds the blocks that are looked into.
	ngMaxBlock = 2 * maxCapturedLen
)

// newFrameReader reads the start of src and returns a reader for the format that it finds there, pcap or pcapng.
func newFrameReader(src io.Reader, name string) (frameReader, error) {
	var magic [4]byte
	n, err := io.ReadFull(src, magic[:])
	if err != nil && !errors.Is(err, io.EOF) && !errors.Is(err, io.ErrUnexpectedEOF) {
		return nil, &FileError{Name: name, Err: err}
	}
	var whole io.Reader = &prefixedReader{prefix: magic[:n], rest: src}
	if _, ok := src.(inMemory); ok {
		whole = src
	}
	if n == len(magic) && be32(magic[:]) == magicPcapng {
		return newPcapngReader(whole, name)
	}
	return NewPcapReader(whole, name)
}

// frameReader yields the frames of a capture file in order.
type frameReader interface {
	// Next reads the next frame into f, whose Data is valid until the call after. io.EOF ends the file.
	Next(f *Frame) error
}

// prefixedReader gives back bytes that were read to look at them.
type prefixedReader struct {
	prefix []byte
	rest   io.Reader
}

// Len implements what bytes.Reader has.
func (r *prefixedReader) Len() int {
	rest := remaining(r.rest)
	return rest + min(len(r.prefix), math.MaxInt-rest)
}

func (r *prefixedReader) Read(b []byte) (int, error) {
	if len(r.prefix) > 0 {
		n := copy(b, r.prefix)
		r.prefix = r.prefix[n:]
		return n, nil
	}
	return r.rest.Read(b)
}

// pcapngReader reads pcapng files, which Wireshark writes by default. gopacket's reader would do for friendly files only: it
// allocates whatever length a block claims.
type pcapngReader struct {
	fileBuffer
	name       string
	order      binary.ByteOrder
	interfaces []ngIface
	packets    uint64
}

// ngIface is one interface description block.
type ngIface struct {
	link   uint16
	snap   uint32
	units  uint64 // per second
	offset int64  // seconds
}

func newPcapngReader(src io.Reader, name string) (*pcapngReader, error) {
	r := &pcapngReader{fileBuffer: newFileBuffer(src), name: name, order: binary.LittleEndian}
	if r.fill(ngBlockMin) < ngBlockMin {
		return nil, &FileError{Name: name, Err: fmt.Errorf("pcapng: %w", r.shortage())}
	}
	return r, nil
}

func (r *pcapngReader) shortage() error {
	if r.srcErr != nil && !errors.Is(r.srcErr, io.EOF) {
		return r.srcErr
	}
	return fmt.Errorf("%w; the %d packets before it are whole", ErrTruncatedFile, r.packets)
}

func (r *pcapngReader) fail(err error) error {
	return &FileError{Name: r.name, Packet: r.packets + 1, Offset: r.offset(), Err: fmt.Errorf("pcapng: %w", err)}
}

// Next implements frameReader.
func (r *pcapngReader) Next(f *Frame) error {
	for {
		have := r.fill(ngBlockHead)
		if have == 0 && errors.Is(r.srcErr, io.EOF) {
			return io.EOF
		}
		if have < ngBlockHead {
			return r.fail(r.shortage())
		}
		found, err := r.block(f)
		if err != nil {
			return r.fail(err)
		}
		if found {
			return nil
		}
	}
}

// block reads one block. found says that it was a packet, which then is in f.
func (r *pcapngReader) block(f *Frame) (found bool, err error) {
	head := r.buf[r.start : r.start+ngBlockHead]
	kind := r.order.Uint32(head)
	if kind == ngSection || be32(head) == ngSection {
		if err := r.section(); err != nil {
			return false, err
		}
		kind = ngSection
		head = r.buf[r.start : r.start+ngBlockHead]
	}
	length := int64(r.order.Uint32(head[4:]))
	if length < ngBlockMin || length%4 != 0 {
		return false, fmt.Errorf("block of type %d has an impossible length of %d bytes: the file is damaged here", kind, length)
	}
	switch kind {
	case ngInterface, ngPacket, ngSimplePacket, ngEnhanced:
	default:
		if !r.discard(length) {
			return false, r.shortage()
		}
		return false, nil
	}
	if length > ngMaxBlock {
		return false, fmt.Errorf("block of type %d has %d bytes, beyond the limit of %d: the file is damaged here", kind, length, ngMaxBlock)
	}
	if r.fill(int(length)) < int(length) {
		return false, r.shortage()
	}
	block := r.buf[r.start : r.start+int(length)]
	if again := int64(r.order.Uint32(block[length-4:])); again != length {
		return false, fmt.Errorf("block of type %d gives its length as %d and as %d: the file is damaged here", kind, length, again)
	}
	body := block[ngBlockHead : length-4]
	if kind == ngInterface {
		err = r.describe(body)
	} else {
		err = r.packet(kind, body, f)
		found = true
	}
	if err == nil {
		r.start += int(length)
	}
	return found && err == nil, err
}

// section starts a section, which has a byte order and interfaces of its own.
func (r *pcapngReader) section() error {
	if r.fill(ngBlockMin) < ngBlockMin {
		return r.shortage()
	}
	magic := r.buf[r.start+ngBlockHead : r.start+ngBlockMin]
	switch uint32(ngByteOrder) {
	case binary.LittleEndian.Uint32(magic):
		r.order = binary.LittleEndian
	case binary.BigEndian.Uint32(magic):
		r.order = binary.BigEndian
	default:
		return fmt.Errorf("section header has the byte-order magic % x: the file is damaged here", magic)
	}
	r.interfaces = r.interfaces[:0]
	return nil
}

func (r *pcapngReader) describe(body []byte) error {
	const maxInterfaces = 1 << 12
	if len(body) < 8 || len(r.interfaces) == maxInterfaces {
		return fmt.Errorf("interface description %d of %d bytes can't be right", len(r.interfaces)+1, len(body))
	}
	i := ngIface{link: r.order.Uint16(body), snap: r.order.Uint32(body[4:]), units: 1_000_000}
	for options := body[8:]; len(options) >= 4; {
		code, n := r.order.Uint16(options), int(r.order.Uint16(options[2:]))
		if code == 0 || 4+n > len(options) {
			break
		}
		value := options[4 : 4+n]
		switch {
		case code == ngOptResolution && n == 1:
			units, err := resolution(value[0])
			if err != nil {
				return err
			}
			i.units = units
		case code == ngOptOffset && n == 8:
			i.offset = int64(r.order.Uint64(value))
		}
		options = options[min(4+(n+3)&^3, len(options)):]
	}
	r.interfaces = append(r.interfaces, i)
	return nil
}

// resolution returns the units per second that an if_tsresol option stands for: a negative power of ten, or of two if the
// top bit is set.
func resolution(v byte) (uint64, error) {
	exponent := int(v & 0x7f)
	if v&0x80 != 0 && exponent < 64 {
		return 1 << exponent, nil
	}
	const maxDecimal = 19
	if v&0x80 != 0 || exponent > maxDecimal {
		return 0, fmt.Errorf("timestamp resolution 0x%02x is too fine", v)
	}
	units := uint64(1)
	for range exponent {
		units *= 10
	}
	return units, nil
}

// packet decodes the body of a packet block into f.
func (r *pcapngReader) packet(kind uint32, body []byte, f *Frame) error {
	head := 20
	if kind == ngSimplePacket {
		head = 4
	}
	if len(body) < head {
		return fmt.Errorf("packet block has %d bytes, its header %d: the file is damaged here", len(body), head)
	}
	index, stamp := 0, uint64(0)
	caplen, origlen := uint32(len(body)-head), r.order.Uint32(body)
	if kind != ngSimplePacket {
		index = int(r.order.Uint32(body))
		if kind == ngPacket {
			index = int(r.order.Uint16(body))
		}
		stamp = uint64(r.order.Uint32(body[4:]))<<32 | uint64(r.order.Uint32(body[8:]))
		caplen, origlen = r.order.Uint32(body[12:]), r.order.Uint32(body[16:])
	}
	if index >= len(r.interfaces) {
		return fmt.Errorf("packet of interface %d, but %d are described: the file is damaged here", index, len(r.interfaces))
	}
	i := &r.interfaces[index]
	if kind == ngSimplePacket {
		caplen = min(caplen, origlen)
		if i.snap != 0 {
			caplen = min(caplen, i.snap)
		}
	}
	switch {
	case i.link != linkEthernet:
		return fmt.Errorf("interface %d has link type %d; only Ethernet (%d) carries RoCEv2 here", index, i.link, linkEthernet)
	case int64(caplen) > int64(len(body)-head):
		return fmt.Errorf("captured length %d is beyond its block of %d bytes: the file is damaged here", caplen, len(body)-head)
	}
	at, ok := i.nanoseconds(stamp)
	if !ok {
		return fmt.Errorf("timestamp %d in units of 1/%d s is out of range: the file is damaged here", stamp, i.units)
	}
	r.packets++
	data := body[head : head+int(caplen) : head+int(caplen)]
	*f = Frame{Number: r.packets, Offset: r.offset(), TimeNS: at, Data: data, OrigLen: int(origlen)}
	return nil
}

// nanoseconds converts a stamp, if it lies within the range of int64 ns.
func (i *ngIface) nanoseconds(stamp uint64) (int64, bool) {
	sec, rest := stamp/i.units, stamp%i.units
	hi, lo := bits.Mul64(rest, 1e9)
	frac, _ := bits.Div64(hi, lo, i.units) // rest < units, so the quotient is below 10⁹
	const maxSec = math.MaxInt64/1_000_000_000 - 1
	if sec > maxSec || i.offset > maxSec || i.offset < -maxSec {
		return 0, false
	}
	sum := int64(sec) + i.offset
	if sum > maxSec || sum < -maxSec {
		return 0, false
	}
	return sum*1e9 + int64(frac), true
}
