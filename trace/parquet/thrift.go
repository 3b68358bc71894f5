package parquet

import "encoding/binary"

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
