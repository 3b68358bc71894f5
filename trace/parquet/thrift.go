package parquet

import (
	"bufio"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
)

// Types of Thrift's compact protocol.
const (
	typeI32    = 5
	typeI64    = 6
	typeBinary = 8
	typeList   = 9
	typeStruct = 12
)

// thrift appends a struct in Thrift's compact protocol, fields in the order of their ids.
type thrift struct {
	b    []byte
	last []int // field of each struct around the current one
	id   int   // last field of the current one
}

func (t *thrift) field(id, kind int) {
	t.b = append(t.b, byte((id-t.id)<<4|kind)) // ids of this format differ by less than 16
	t.id = id
}

func (t *thrift) zigzag(v int64)      { t.b = binary.AppendUvarint(t.b, uint64(v<<1^v>>63)) }
func (t *thrift) i32(id, v int)       { t.field(id, typeI32); t.zigzag(int64(v)) }
func (t *thrift) i64(id int, v int64) { t.field(id, typeI64); t.zigzag(v) }

func (t *thrift) bytes(s string) { t.b = append(binary.AppendUvarint(t.b, uint64(len(s))), s...) }

func (t *thrift) text(id int, s string) {
	t.field(id, typeBinary)
	t.bytes(s)
}

// list begins a list; its items follow.
func (t *thrift) list(id, of, n int) {
	t.field(id, typeList)
	if n < 15 {
		t.b = append(t.b, byte(n<<4|of))
		return
	}
	t.b = binary.AppendUvarint(append(t.b, byte(0xf0|of)), uint64(n))
}

// begin begins a struct in a field, nested one in a list; end ends either.
func (t *thrift) begin(id int) {
	t.field(id, typeStruct)
	t.nested()
}

func (t *thrift) nested() { t.last, t.id = append(t.last, t.id), 0 }

func (t *thrift) end() {
	t.b = append(t.b, 0)
	if n := len(t.last); n > 0 {
		t.id, t.last = t.last[n-1], t.last[:n-1]
	}
}

// More types of the protocol, which other writers use.
const (
	typeTrue, typeFalse = 1, 2
	typeByte            = 3
	typeI16             = 4
	typeDouble          = 7
	typeSet, typeMap    = 10, 11
)

// decoder reads the compact protocol; after the first mistake it reads nothing.
type decoder struct {
	in  *bufio.Reader
	err error
}

func (d *decoder) byte() byte {
	if d.err != nil {
		return 0
	}
	b, err := d.in.ReadByte()
	d.err = err
	return b
}

func (d *decoder) uvarint() uint64 {
	if d.err != nil {
		return 0
	}
	v, err := binary.ReadUvarint(d.in)
	d.err = err
	return v
}

func (d *decoder) zigzag() int64 {
	v := d.uvarint()
	return int64(v>>1) ^ -int64(v&1)
}

// int reads a number of 32 bits.
func (d *decoder) int() int { return int(int32(d.zigzag())) }

// maxName bounds words that are read rather than skipped.
const maxName = 1 << 10

func (d *decoder) text() string {
	n := d.uvarint()
	if d.err == nil && n > maxName {
		d.err = fmt.Errorf("a name of %d bytes", n)
	}
	if d.err != nil {
		return ""
	}
	b := make([]byte, n)
	_, d.err = io.ReadFull(d.in, b)
	return string(b)
}

// fields calls f with id and type of each field of a struct; f reads or skips it. Types typeTrue and typeFalse are
// values already.
func (d *decoder) fields(f func(id, kind int)) {
	id := 0
	for d.err == nil {
		b := int(d.byte())
		if d.err != nil || b == 0 {
			return
		}
		if step := b >> 4; step > 0 {
			id += step
		} else {
			id = d.int()
		}
		f(id, b&15)
	}
}

// items calls f for each struct of a list.
func (d *decoder) items(f func()) {
	n, of := d.size()
	if d.err == nil && of != typeStruct {
		d.err = fmt.Errorf("a list of type %d, want structs", of)
	}
	for ; n > 0 && d.err == nil; n-- {
		f()
	}
}

func (d *decoder) size() (n uint64, of int) {
	b := d.byte()
	if n = uint64(b >> 4); n == 15 {
		n = d.uvarint()
	}
	return n, int(b & 15)
}

// maxNesting bounds what skip skips.
const maxNesting = 16

func (d *decoder) skip(kind, depth int) {
	if d.err == nil && depth > maxNesting {
		d.err = errors.New("structs are nested too deeply")
	}
	if d.err != nil {
		return
	}
	switch kind {
	case typeTrue, typeFalse:
	case typeByte:
		d.byte()
	case typeI16, typeI32, typeI64:
		d.uvarint()
	case typeDouble:
		_, d.err = d.in.Discard(8)
	case typeBinary:
		if n := d.uvarint(); d.err == nil {
			_, d.err = d.in.Discard(int(min(n, maxFooter)))
		}
	case typeList, typeSet:
		n, of := d.size()
		for ; n > 0 && d.err == nil; n-- {
			d.member(of, depth)
		}
	case typeMap:
		if n := d.uvarint(); n > 0 {
			kinds := int(d.byte())
			for ; n > 0 && d.err == nil; n-- {
				d.member(kinds>>4, depth)
				d.member(kinds&15, depth)
			}
		}
	case typeStruct:
		d.fields(func(_, kind int) { d.skip(kind, depth+1) })
	default:
		d.err = fmt.Errorf("unknown type %d", kind)
	}
}

// member skips an item of a list or map, where a truth value is a byte.
func (d *decoder) member(of, depth int) {
	if of == typeTrue || of == typeFalse {
		of = typeByte
	}
	d.skip(of, depth+1)
}
