package parquet

import (
	"bufio"
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"math"
)

// Reader reads the numbers of a flat table row by row, whoever wrote the file: plain and dictionary values, pages of
// both versions, uncompressed or compressed with Snappy, gzip or Zstandard (parquet.thrift of parquet-format 2.10).
// It keeps a page of each column, at most maxPage bytes, and the footer.
type Reader struct {
	from    io.ReaderAt
	columns []source
	groups  []readGroup
	row     int64 // rows handed out
	left    int64 // of the group that is read
	next    int   // group after it
}

// Stored says what a column of a file holds.
type Stored struct {
	Name   string
	Type   string // as the format calls it
	Number bool   // Value reads it
}

// Value is what a row has in a column.
type Value struct {
	Null   bool
	IsReal bool
	Int    int64
	Real   float64
}

// Limits of what is kept in memory, in bytes.
const (
	maxFooter = 16 << 20
	maxPage   = 16 << 20
)

// source is a column that is read.
type source struct {
	Stored
	physical int
	optional bool
	unsigned bool
	divisor  float64 // of decimals; 0: none

	left       int64 // values of the chunk that follow the page
	in         *bufio.Reader
	codec      int
	dictionary []byte // plain values
	page       page
}

type readGroup struct {
	rows   int64
	chunks []readChunk
}

type readChunk struct {
	codec                  int
	values                 int64
	data, dictionary, size int64 // offsets, compressed size
}

// NewReader reads the footer of a file of size bytes.
func NewReader(from io.ReaderAt, size int64) (*Reader, error) {
	tail := make([]byte, 8)
	if size < 12 {
		return nil, errors.New("parquet: the file is too short")
	}
	if _, err := from.ReadAt(tail, size-8); err != nil {
		return nil, fmt.Errorf("parquet: reading the end of the file: %w", err)
	}
	length := int64(binary.LittleEndian.Uint32(tail))
	switch {
	case string(tail[4:]) == "PARE":
		return nil, errors.New("parquet: the file is encrypted")
	case string(tail[4:]) != magic:
		return nil, errors.New("parquet: the file does not end with PAR1: it is incomplete")
	case length > size-12 || length > maxFooter:
		return nil, fmt.Errorf("parquet: a footer of %d bytes in a file of %d: at most %d are read", length, size, maxFooter)
	}
	footer := make([]byte, length)
	if _, err := from.ReadAt(footer, size-8-length); err != nil {
		return nil, fmt.Errorf("parquet: reading the footer: %w", err)
	}
	r := &Reader{from: from}
	if err := r.describe(footer); err != nil {
		return nil, fmt.Errorf("parquet: footer: %w", err)
	}
	for i := range r.groups {
		g := &r.groups[i]
		if len(g.chunks) != len(r.columns) {
			return nil, fmt.Errorf("parquet: row group %d has %d columns, the schema %d", i, len(g.chunks), len(r.columns))
		}
		for j := range g.chunks {
			k := &g.chunks[j]
			if begin := k.begin(); begin < 4 || k.size < 0 || begin > size-k.size || k.values != g.rows || g.rows < 0 {
				return nil, fmt.Errorf("parquet: column %s of row group %d has an impossible place or length",
					r.columns[j].Name, i)
			}
		}
	}
	return r, nil
}

func (k *readChunk) begin() int64 {
	if k.dictionary > 0 && k.dictionary < k.data {
		return k.dictionary
	}
	return k.data
}

// Columns lists the columns of the file.
func (r *Reader) Columns() []Stored {
	list := make([]Stored, len(r.columns))
	for i := range r.columns {
		list[i] = r.columns[i].Stored
	}
	return list
}

// Row is the number of the row that Next read last, from 1.
func (r *Reader) Row() int64 { return r.row }

// Next reads a row into row, a value for each column; it leaves those of columns that are not numbers. io.EOF: there
// is none.
func (r *Reader) Next(row []Value) error {
	for r.left == 0 {
		if r.next == len(r.groups) {
			return io.EOF
		}
		g := &r.groups[r.next]
		r.next, r.left = r.next+1, g.rows
		for i := range r.columns {
			k := &g.chunks[i]
			c := &r.columns[i]
			c.in, c.codec, c.left = nil, k.codec, k.values
			c.dictionary, c.page = nil, page{}
			if c.Number {
				c.in = bufio.NewReader(io.NewSectionReader(r.from, k.begin(), k.size))
			}
		}
	}
	r.left--
	r.row++
	for i := range r.columns {
		c := &r.columns[i]
		if !c.Number {
			continue
		}
		v, err := c.value()
		if err != nil {
			return fmt.Errorf("parquet: row %d, column %s: %w", r.row, c.Name, err)
		}
		row[i] = v
	}
	return nil
}

// value returns the next value of the column.
func (c *source) value() (Value, error) {
	for c.page.left == 0 {
		if c.left == 0 {
			return Value{}, errors.New("the column ends before its row group")
		}
		if err := c.turn(); err != nil {
			return Value{}, err
		}
	}
	c.page.left--
	if c.page.optional {
		present, ok := c.page.levels.next()
		switch {
		case !ok:
			return Value{}, errors.New("the page has too few definition levels")
		case present == 0:
			return Value{Null: true}, nil
		}
	}
	if c.page.coded {
		at, ok := c.page.indices.next()
		begin := int(at) * c.width()
		if !ok || begin > len(c.dictionary) {
			return Value{}, errors.New("the page has too few values")
		}
		v, _, ok := c.plain(c.dictionary[begin:])
		if !ok {
			return Value{}, errors.New("the value is not in the dictionary")
		}
		return v, nil
	}
	v, rest, ok := c.plain(c.page.values)
	if !ok {
		return Value{}, errors.New("the page is shorter than its values")
	}
	c.page.values = rest
	return v, nil
}

// width is how many bytes a plain value has.
func (c *source) width() int {
	if c.physical == typeInt32 || c.physical == typeFloat {
		return 4
	}
	return 8
}

// plain takes a plain value from b.
func (c *source) plain(b []byte) (v Value, rest []byte, ok bool) {
	width := c.width()
	if len(b) < width {
		return v, b, false
	}
	rest = b[width:]
	var bits uint64
	if width == 4 {
		bits = uint64(binary.LittleEndian.Uint32(b))
	} else {
		bits = binary.LittleEndian.Uint64(b)
	}
	switch {
	case c.physical == typeFloat:
		return Value{IsReal: true, Real: float64(math.Float32frombits(uint32(bits)))}, rest, true
	case c.physical == typeReal:
		return Value{IsReal: true, Real: math.Float64frombits(bits)}, rest, true
	case width == 4 && !c.unsigned:
		bits = uint64(int64(int32(bits)))
	case c.unsigned && bits > math.MaxInt64:
		return Value{IsReal: true, Real: float64(bits)}, rest, true
	}
	if c.divisor > 0 {
		return Value{IsReal: true, Real: float64(int64(bits)) / c.divisor}, rest, true
	}
	return Value{Int: int64(bits)}, rest, true
}

// describe reads the footer.
func (r *Reader) describe(footer []byte) error {
	d := decoder{in: bufio.NewReader(bytes.NewReader(footer))}
	var elements []element
	d.fields(func(id, kind int) {
		switch id {
		case 2:
			d.items(func() { elements = append(elements, d.element()) })
		case 4:
			d.items(func() { r.groups = append(r.groups, d.group()) })
		case 8:
			d.err = errors.New("columns are encrypted")
		default:
			d.skip(kind, 0)
		}
	})
	if d.err != nil {
		return d.err
	}
	if len(elements) == 0 {
		return errors.New("no schema")
	}
	for _, e := range elements[1:] {
		c, err := e.column()
		if err != nil {
			return err
		}
		r.columns = append(r.columns, c)
	}
	return nil
}

// element is a column, or a group of columns, of the schema.
type element struct {
	name                 string
	physical, repetition int
	converted, logical   int // -1: none
	children             int
	scale                int
}

func (d *decoder) element() (e element) {
	e.physical, e.converted, e.logical = -1, -1, -1
	d.fields(func(id, kind int) {
		switch id {
		case 1:
			e.physical = d.int()
		case 3:
			e.repetition = d.int()
		case 4:
			e.name = d.text()
		case 5:
			e.children = d.int()
		case 6:
			e.converted = d.int()
		case 7:
			e.scale = d.int()
		case 10:
			d.fields(func(of, kind int) { e.logical = of; d.skip(kind, 0) })
		default:
			d.skip(kind, 0)
		}
	})
	return e
}

// Types, as the format names them by number.
var physicalNames = []string{"BOOLEAN", "INT32", "INT64", "INT96", "FLOAT", "DOUBLE", "BYTE_ARRAY",
	"FIXED_LEN_BYTE_ARRAY"}

const (
	typeInt32, typeFloat                         = 1, 4
	repeated                                     = 2
	convertedDecimal                             = 5
	convertedUint8, convertedUint64, lastInteger = 11, 14, 18
	logicalDecimal, logicalInteger               = 5, 10
)

func (e *element) column() (c source, err error) {
	switch {
	case e.children > 0 || e.repetition == repeated:
		return c, fmt.Errorf("column %.40q is nested: only flat tables are read", e.name)
	case e.physical < 0 || e.physical >= len(physicalNames):
		return c, fmt.Errorf("column %.40q has the unknown type %d", e.name, e.physical)
	}
	c = source{Stored: Stored{Name: e.name, Type: physicalNames[e.physical]}, physical: e.physical,
		optional: e.repetition == 1}
	whole := e.physical == typeInt32 || e.physical == typeInt64
	switch {
	case e.physical == typeFloat || e.physical == typeReal:
		c.Number = e.logical < 0
	case !whole:
	case e.converted == convertedDecimal || e.logical == logicalDecimal:
		c.Number, c.divisor = e.scale >= 0 && e.scale <= 18, math.Pow10(e.scale)
	case e.logical >= 0 && e.logical != logicalInteger:
	case e.converted < 0 || e.converted >= convertedUint8 && e.converted <= lastInteger:
		c.Number = true
		c.unsigned = e.converted >= convertedUint8 && e.converted <= convertedUint64
	}
	if !c.Number && whole {
		c.Type += " of another meaning (a time, a date)"
	}
	return c, nil
}

func (d *decoder) group() (g readGroup) {
	d.fields(func(id, kind int) {
		switch id {
		case 1:
			d.items(func() { g.chunks = append(g.chunks, d.chunk()) })
		case 3:
			g.rows = d.zigzag()
		default:
			d.skip(kind, 0)
		}
	})
	return g
}

func (d *decoder) chunk() (k readChunk) {
	d.fields(func(id, kind int) {
		if id != 3 {
			d.skip(kind, 0)
			return
		}
		d.fields(func(id, kind int) {
			switch id {
			case 4:
				k.codec = d.int()
			case 5:
				k.values = d.zigzag()
			case 7:
				k.size = d.zigzag()
			case 9:
				k.data = d.zigzag()
			case 11:
				k.dictionary = d.zigzag()
			default:
				d.skip(kind, 0)
			}
		})
	})
	return k
}
