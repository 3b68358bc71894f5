package trace

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"math"
	"math/bits"
	"strings"

	"candela.dev/candela/packet/encapsulation"
)

// pcapng blocks and options that matter here (draft-ietf-opsawg-pcapng). All other blocks are skipped.
const (
	ngSection       = magicPcapng
	ngInterface     = 1
	ngPacket        = 2 // obsolete
	ngSimplePacket  = 3
	ngStatistics    = 5
	ngEnhanced      = 6
	ngByteOrder     = 0x1a2b3c4d
	ngOptName       = 2
	ngOptResolution = 9
	ngOptOffset     = 14
	ngOptDropCount  = 4 // of an enhanced packet
	ngOptReceived   = 4 // of an interface statistics block, like those below
	ngOptDropped    = 5
	ngOptOSDropped  = 7

	ngBlockHead = 8  // type and length
	ngBlockMin  = 12 // including the trailing length
	// ngMaxBlock bounds the blocks that are looked into.
	ngMaxBlock = 2 * maxCapturedLen
)

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

// pcapngReader reads pcapng files, Wireshark's default. gopacket's reader is only safe for trusted files: it allocates
// whatever length a block claims.
type pcapngReader struct {
	fileBuffer
	name       string
	order      binary.ByteOrder
	interfaces []ngIface
	packets    uint64
	all        []Interface // of all sections; ngIface.index points into it
}

// ngIface is one interface description block.
type ngIface struct {
	link   encapsulation.Link
	unread error // why packets of that link type are not read
	snap   uint32
	units  uint64 // per second
	offset int64  // seconds
	index  int
}

// Interface is what a capture file says about one of its interfaces. Counts are of the whole capture and are at the end
// of the file.
type Interface struct {
	File string             `json:"file"`
	Name string             `json:"name,omitempty"`
	Link encapsulation.Link `json:"link"`
	// Counted says that the file has statistics of the interface. Only then 0 dropped packets mean that none is missing.
	Counted  bool   `json:"counted"`
	Received uint64 `json:"received"` // by the interface
	Dropped  uint64 `json:"dropped"`  // by the interface and by the operating system
}

// maxInterfaces bounds the interfaces of a section, and of a file.
const maxInterfaces = 1 << 12

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
		return false, fmt.Errorf("block of type %d has an impossible length of %d bytes: the file is damaged here", kind,
			length)
	}
	switch kind {
	case ngInterface, ngPacket, ngSimplePacket, ngEnhanced, ngStatistics:
	default:
		if !r.discard(length) {
			return false, r.shortage()
		}
		return false, nil
	}
	if length > ngMaxBlock {
		return false, fmt.Errorf("block of type %d has %d bytes, beyond the limit of %d: the file is damaged here", kind,
			length, ngMaxBlock)
	}
	if r.fill(int(length)) < int(length) {
		return false, r.shortage()
	}
	block := r.buf[r.start : r.start+int(length)]
	if trailer := int64(r.order.Uint32(block[length-4:])); trailer != length {
		return false, fmt.Errorf("block of type %d gives its length as %d and as %d: the file is damaged here", kind, length,
			trailer)
	}
	body := block[ngBlockHead : length-4]
	switch kind {
	case ngInterface:
		err = r.describe(body)
	case ngStatistics:
		r.statistics(body)
	default:
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
	if len(body) < 8 || len(r.interfaces) == maxInterfaces {
		return fmt.Errorf("interface description %d of %d bytes can't be right", len(r.interfaces)+1, len(body))
	}
	i := ngIface{link: encapsulation.Link(r.order.Uint16(body)), snap: r.order.Uint32(body[4:]), units: 1_000_000,
		index: len(r.all)}
	i.unread = i.link.Check()
	described := Interface{File: r.name, Link: i.link}
	err := r.options(body[8:], func(code uint16, value []byte) (err error) {
		switch {
		case code == ngOptName:
			const longest = 64
			described.Name = strings.ToValidUTF8(string(value[:min(len(value), longest)]), "?")
		case code == ngOptResolution && len(value) == 1:
			i.units, err = resolution(value[0])
		case code == ngOptOffset && len(value) == 8:
			i.offset = int64(r.order.Uint64(value))
		}
		return err
	})
	if err != nil {
		return err
	}
	r.interfaces = append(r.interfaces, i)
	if len(r.all) < maxInterfaces {
		r.all = append(r.all, described)
	}
	return nil
}

// options calls fn for each option of a block.
func (r *pcapngReader) options(options []byte, fn func(code uint16, value []byte) error) error {
	for len(options) >= 4 {
		code, n := r.order.Uint16(options), int(r.order.Uint16(options[2:]))
		if code == 0 || 4+n > len(options) {
			break
		}
		if err := fn(code, options[4:4+n]); err != nil {
			return err
		}
		options = options[min(4+(n+3)&^3, len(options)):]
	}
	return nil
}

// statistics reads the counts of an interface. The last block of an interface counts.
func (r *pcapngReader) statistics(body []byte) {
	const headerLen = 12
	if len(body) < headerLen {
		return
	}
	index := int(r.order.Uint32(body))
	if index >= len(r.interfaces) || r.interfaces[index].index >= len(r.all) {
		return
	}
	i := &r.all[r.interfaces[index].index]
	var received, dropped uint64
	counted := false
	// Unknown options are not an error.
	_ = r.options(body[headerLen:], func(code uint16, value []byte) error {
		if len(value) != 8 {
			return nil
		}
		switch n := r.order.Uint64(value); code {
		case ngOptReceived:
			received = n
		case ngOptDropped, ngOptOSDropped:
			counted, dropped = true, dropped+n
		}
		return nil
	})
	i.Received = received
	if counted {
		i.Counted, i.Dropped = true, max(i.Dropped, dropped)
	}
}

// drops adds the drops in the options of an enhanced packet block.
func (r *pcapngReader) drops(i *ngIface, options []byte) {
	_ = r.options(options, func(code uint16, value []byte) error {
		if code == ngOptDropCount && len(value) == 8 && i.index < len(r.all) {
			r.all[i.index].Dropped += r.order.Uint64(value)
		}
		return nil
	})
}

// resolution returns the units per second of an if_tsresol option: a negative power of ten, or of two if the top bit is
// set.
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
	case i.unread != nil:
		return fmt.Errorf("interface %d: %w", index, i.unread)
	case int64(caplen) > int64(len(body)-head):
		return fmt.Errorf("captured length %d is beyond its block of %d bytes: the file is damaged here", caplen,
			len(body)-head)
	}
	at, ok := i.nanoseconds(stamp)
	if !ok {
		return fmt.Errorf("timestamp %d in units of 1/%d s is out of range: the file is damaged here", stamp, i.units)
	}
	r.packets++
	data := body[head : head+int(caplen) : head+int(caplen)]
	if end := head + int(caplen+3)&^3; kind == ngEnhanced && len(body) > end {
		r.drops(i, body[end:])
	}
	*f = Frame{Number: r.packets, Offset: r.offset(), TimeNS: at, Data: data, OrigLen: int(origlen), Link: i.link}
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
