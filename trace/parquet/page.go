package parquet

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io"

	"github.com/klauspost/compress/gzip"
	"github.com/klauspost/compress/s2"
	"github.com/klauspost/compress/zstd"
)

// page is a page of values that is read.
type page struct {
	left     int64 // values that have not been read, with those that rows lack
	optional bool
	levels   hybrid
	coded    bool // values are indices of the dictionary
	indices  hybrid
	values   []byte
}

// Kinds of pages, encodings and compressions, as the format numbers them.
const (
	pageData, pageDictionary, pageDataV2 = 0, 2, 3
	encodingPlainDictionary              = 2
	encodingDictionary                   = 8
	codecNone, codecGzip, codecZstd      = 0, 2, 6
)

var (
	encodingNames = map[int]string{encodingRLE: "RLE", 4: "BIT_PACKED", 5: "DELTA_BINARY_PACKED",
		6: "DELTA_LENGTH_BYTE_ARRAY", 7: "DELTA_BYTE_ARRAY", 9: "BYTE_STREAM_SPLIT"}
	codecNames = map[int]string{3: "LZO", 4: "Brotli", 5: "LZ4", 7: "LZ4_RAW"}
)

// header is the header of a page.
type header struct {
	kind, whole, size int // whole: bytes after decompression
	values, encoding  int
	levels, repeats   int  // bytes, of version 2
	stored            bool // values are not compressed, of version 2
}

func (d *decoder) header() (h header) {
	details := func(id, kind int) {
		switch id {
		case 1:
			h.values = d.int()
		case 2:
			h.encoding = d.int()
		default:
			d.skip(kind, 0)
		}
	}
	d.fields(func(id, kind int) {
		switch id {
		case 1:
			h.kind = d.int()
		case 2:
			h.whole = d.int()
		case 3:
			h.size = d.int()
		case 5, 7: // of data, of a dictionary
			d.fields(details)
		case 8:
			d.fields(func(id, kind int) {
				switch id {
				case 1:
					h.values = d.int()
				case 4:
					h.encoding = d.int()
				case 5:
					h.levels = d.int()
				case 6:
					h.repeats = d.int()
				case 7:
					h.stored = kind == typeFalse
				default:
					d.skip(kind, 0)
				}
			})
		default:
			d.skip(kind, 0)
		}
	})
	return h
}

// turn reads the next page of data, and the dictionary before it.
func (c *source) turn() error {
	for {
		d := decoder{in: c.in}
		h := d.header()
		switch {
		case d.err != nil:
			return fmt.Errorf("header of a page: %w", unexpected(d.err))
		case h.size < 0 || h.whole < 0 || h.values < 0:
			return errors.New("the page has a negative length")
		case h.size > maxPage || h.whole > maxPage:
			return fmt.Errorf("a page of %d bytes: at most %d are read", max(h.size, h.whole), maxPage)
		}
		body := make([]byte, h.size)
		if _, err := io.ReadFull(c.in, body); err != nil {
			return fmt.Errorf("a page: %w", unexpected(err))
		}
		switch h.kind {
		case pageDictionary:
			if err := c.define(&h, body); err != nil {
				return err
			}
		case pageData, pageDataV2:
			c.left -= int64(h.values)
			if c.left < 0 {
				return errors.New("pages have more values than the row group")
			}
			return c.open(&h, body)
		}
	}
}

// unexpected returns err, of an end that no row group has.
func unexpected(err error) error {
	if errors.Is(err, io.EOF) {
		return io.ErrUnexpectedEOF
	}
	return err
}

// define reads the dictionary.
func (c *source) define(h *header, body []byte) error {
	b, err := c.unpack(body, h.whole)
	if err != nil {
		return err
	}
	if h.encoding != encodingPlain && h.encoding != encodingPlainDictionary {
		return fmt.Errorf("the dictionary is encoded as %s", named(encodingNames, h.encoding))
	}
	c.dictionary = b
	return nil
}

// open begins a page of data.
func (c *source) open(h *header, body []byte) (err error) {
	p := page{left: int64(h.values), optional: c.optional}
	var levels []byte
	if h.kind == pageDataV2 {
		if h.levels < 0 || h.repeats < 0 || h.levels > len(body) || h.repeats > len(body)-h.levels {
			return errors.New("the page is shorter than its levels")
		}
		levels, body = body[h.repeats:h.repeats+h.levels], body[h.repeats+h.levels:]
		h.whole -= h.repeats + h.levels
	}
	if !h.stored {
		if body, err = c.unpack(body, h.whole); err != nil {
			return err
		}
	}
	if h.kind == pageData && c.optional {
		if len(body) < 4 || uint64(binary.LittleEndian.Uint32(body)) > uint64(len(body)-4) {
			return errors.New("the page is shorter than its levels")
		}
		end := 4 + int(binary.LittleEndian.Uint32(body))
		levels, body = body[4:end], body[end:]
	}
	p.levels = hybrid{b: levels, width: 1}
	switch h.encoding {
	case encodingPlain:
		p.values = body
	case encodingPlainDictionary, encodingDictionary:
		p.coded = true
		if len(body) > 0 {
			if body[0] > 32 {
				return errors.New("indices of the dictionary have more than 32 bits")
			}
			p.indices = hybrid{b: body[1:], width: int(body[0])}
		}
	default:
		return fmt.Errorf("values are encoded as %s: only plain and dictionary values are read",
			named(encodingNames, h.encoding))
	}
	c.page = p
	return nil
}

func named(names map[int]string, n int) string {
	if s := names[n]; s != "" {
		return s
	}
	return fmt.Sprint(n)
}

// unpack decompresses a page to whole bytes.
func (c *source) unpack(body []byte, whole int) ([]byte, error) {
	var out []byte
	var err error
	switch c.codec {
	case codecNone:
		out = body
	case codecSnappy:
		var n int
		if n, err = s2.DecodedLen(body); err == nil && n == whole {
			out, err = s2.Decode(nil, body)
		}
	case codecGzip:
		var z *gzip.Reader
		if z, err = gzip.NewReader(bytes.NewReader(body)); err == nil {
			out, err = io.ReadAll(io.LimitReader(z, int64(whole)+1))
		}
	case codecZstd:
		var z *zstd.Decoder
		z, err = zstd.NewReader(nil, zstd.WithDecoderConcurrency(1), zstd.WithDecoderMaxMemory(maxPage))
		if err == nil {
			out, err = z.DecodeAll(body, nil)
			z.Close()
		}
	default:
		return nil, fmt.Errorf("pages are compressed with %s: Snappy, gzip, Zstandard and none are read",
			named(codecNames, c.codec))
	}
	if err != nil {
		return nil, fmt.Errorf("decompressing a page: %w", err)
	}
	if len(out) != whole {
		return nil, fmt.Errorf("a page has %d bytes decompressed, its header says %d", len(out), whole)
	}
	return out, nil
}

// hybrid reads numbers of width bits in runs of equal numbers and of packed ones (Encodings.md, RLE).
type hybrid struct {
	b     []byte
	width int
	left  int    // of the run
	equal bool   // all of the run are value
	value uint32 //
	bit   int    // of b, of a packed run
}

func (h *hybrid) next() (uint32, bool) {
	for h.left == 0 {
		if !h.run() {
			return 0, false
		}
	}
	h.left--
	if h.equal {
		return h.value, true
	}
	var v uint64
	first := h.bit / 8
	for i := range 5 {
		if at := first + i; at < len(h.b) {
			v |= uint64(h.b[at]) << (8 * i)
		}
	}
	v = v >> (h.bit % 8) & (1<<h.width - 1)
	if h.bit += h.width; h.left == 0 {
		h.b, h.bit = h.b[min(len(h.b), (h.bit+7)/8):], 0
	}
	return uint32(v), true
}

// run reads the header of a run.
func (h *hybrid) run() bool {
	n, size := binary.Uvarint(h.b)
	if size <= 0 || n>>1 == 0 || n>>1 > maxPage {
		return false
	}
	h.b = h.b[size:]
	bytes := (h.width + 7) / 8
	if h.equal = n&1 == 0; h.equal {
		if len(h.b) < bytes {
			return false
		}
		h.value, h.left = 0, int(n>>1)
		for i := range bytes {
			h.value |= uint32(h.b[i]) << (8 * i)
		}
		h.b = h.b[bytes:]
		return true
	}
	h.left = int(n>>1) * 8
	// The last run may lack the padding: only whole groups that are here count.
	if h.width > 0 {
		h.left = min(h.left, len(h.b)*8/h.width)
	}
	return h.left > 0
}
