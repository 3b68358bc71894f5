// Package parquet writes flat tables of numbers and words as Apache Parquet files (format version 1): plain values,
// compressed with Snappy. It reads numbers of flat tables that others wrote. It covers what records and results of
// switch tests need: a complete library made every command of Candela start slower by a quarter.
package parquet

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"math"

	"github.com/klauspost/compress/s2"
)

// Column is a column of a table.
type Column struct {
	Name     string
	Text     bool // UTF-8; else 64-bit integers
	Real     bool // 64-bit floating point
	Unsigned bool // of integers
	Optional bool // rows may have no value
}

// groupRows is how many rows are kept in memory and written together.
const groupRows = 1 << 16

// Writer writes a file row by row: a value or nothing for each column, then EndRow.
type Writer struct {
	w       io.Writer
	columns []column
	groups  []group
	offset  int64
	rows    int64 // in all groups that were written
	pending int64 // in the group that is being filled
	err     error
}

type column struct {
	Column
	values  []byte
	present []bool // of optional columns, by row
	count   int64  // of rows that have been given the column
}

// group is what the footer says of a row group.
type group struct {
	rows   int64
	chunks []chunk // by column
}

type chunk struct{ offset, size, whole int64 }

const magic = "PAR1"

// NewWriter begins a file.
func NewWriter(w io.Writer, columns []Column) *Writer {
	p := &Writer{w: w}
	for _, c := range columns {
		p.columns = append(p.columns, column{Column: c})
	}
	p.write([]byte(magic))
	return p
}

func (p *Writer) write(b []byte) {
	if p.err == nil {
		_, p.err = p.w.Write(b)
		p.offset += int64(len(b))
	}
}

// Int sets a number in a column of the row; unsigned numbers have the same bits.
func (p *Writer) Int(at int, v int64) {
	c := p.given(at, true)
	c.values = binary.LittleEndian.AppendUint64(c.values, uint64(v))
}

// Real gives the row a floating-point number in a column.
func (p *Writer) Real(at int, v float64) { p.Int(at, int64(math.Float64bits(v))) }

// Text gives the row a word in a column.
func (p *Writer) Text(at int, s string) {
	c := p.given(at, true)
	c.values = append(binary.LittleEndian.AppendUint32(c.values, uint32(len(s))), s...)
}

// Null says that the row has no value in an optional column.
func (p *Writer) Null(at int) { p.given(at, false) }

func (p *Writer) given(at int, present bool) *column {
	c := &p.columns[at]
	c.count++
	if c.Optional {
		c.present = append(c.present, present)
	}
	return c
}

// EndRow ends a row, in which every column has been given once.
func (p *Writer) EndRow() error {
	p.pending++
	for i := range p.columns {
		if c := &p.columns[i]; c.count != p.pending {
			return fmt.Errorf("parquet: column %s has %d values in %d rows", c.Name, c.count, p.pending)
		}
	}
	if p.pending == groupRows {
		p.flush()
	}
	return p.err
}

// flush writes the rows that are kept as a row group: one page for each column.
func (p *Writer) flush() {
	g := group{rows: p.pending}
	for i := range p.columns {
		c := &p.columns[i]
		page := append(c.levels(), c.values...)
		packed := s2.EncodeSnappy(nil, page)
		var h thrift
		h.i32(1, 0) // a data page
		h.i32(2, len(page))
		h.i32(3, len(packed))
		h.begin(5)
		h.i32(1, int(p.pending))
		h.i32(2, encodingPlain)
		h.i32(3, encodingRLE)
		h.i32(4, encodingRLE)
		h.end()
		h.end()
		g.chunks = append(g.chunks, chunk{p.offset, int64(len(h.b) + len(packed)), int64(len(h.b) + len(page))})
		p.write(h.b)
		p.write(packed)
		c.values, c.present, c.count = c.values[:0], c.present[:0], 0
	}
	p.groups = append(p.groups, g)
	p.rows, p.pending = p.rows+p.pending, 0
}

// levels returns which rows have a value, as runs of equal levels.
func (c *column) levels() []byte {
	if !c.Optional {
		return nil
	}
	b := make([]byte, 4)
	for i := 0; i < len(c.present); {
		end := i
		for end < len(c.present) && c.present[end] == c.present[i] {
			end++
		}
		level := byte(0)
		if c.present[i] {
			level = 1
		}
		b = append(binary.AppendUvarint(b, uint64(end-i)<<1), level)
		i = end
	}
	binary.LittleEndian.PutUint32(b, uint32(len(b)-4))
	return b
}

// Close writes the rest and the footer. It does not close the underlying writer.
func (p *Writer) Close() error {
	if p.pending > 0 {
		p.flush()
	}
	f := p.footer()
	p.write(binary.LittleEndian.AppendUint32(f, uint32(len(f))))
	p.write([]byte(magic))
	err := p.err
	p.err = errors.Join(p.err, errors.New("parquet: the file is complete"))
	return err
}

// Numbers of the format.
const (
	typeInt64, typeReal        = 2, 5
	typeBytes                  = 6
	encodingPlain, encodingRLE = 0, 3
	convertedText, converted64 = 0, 14 // UTF8, UINT_64
	codecSnappy                = 1
)

func (c *column) physical() int {
	switch {
	case c.Text:
		return typeBytes
	case c.Real:
		return typeReal
	}
	return typeInt64
}

func (p *Writer) footer() []byte {
	var t thrift
	t.i32(1, 1) // version
	t.list(2, typeStruct, len(p.columns)+1)
	t.nested()
	t.text(4, "schema")
	t.i32(5, len(p.columns))
	t.end()
	for i := range p.columns {
		c := &p.columns[i]
		t.nested()
		t.i32(1, c.physical())
		repetition := 0
		if c.Optional {
			repetition = 1
		}
		t.i32(3, repetition)
		t.text(4, c.Name)
		switch {
		case c.Text:
			t.i32(6, convertedText)
		case c.Unsigned:
			t.i32(6, converted64)
		}
		t.end()
	}
	t.i64(3, p.rows)
	t.list(4, typeStruct, len(p.groups))
	for i := range p.groups {
		p.groups[i].describe(&t, p.columns)
	}
	t.text(6, "candela")
	t.end()
	return t.b
}

func (g *group) describe(t *thrift, columns []column) {
	t.nested()
	t.list(1, typeStruct, len(columns))
	size := int64(0)
	for i := range columns {
		c, k := &columns[i], &g.chunks[i]
		size += k.whole
		t.nested()
		t.i64(2, k.offset)
		t.begin(3)
		t.i32(1, c.physical())
		t.list(2, typeI32, 2)
		t.zigzag(encodingPlain)
		t.zigzag(encodingRLE)
		t.list(3, typeBinary, 1)
		t.bytes(c.Name)
		t.i32(4, codecSnappy)
		t.i64(5, g.rows)
		t.i64(6, k.whole)
		t.i64(7, k.size)
		t.i64(9, k.offset)
		t.end()
		t.end()
	}
	t.i64(2, size)
	t.i64(3, g.rows)
	t.end()
}
