package trace

import (
	"io"
	"math"
)

// fileBuffer is the part of a file that a reader works on: large reads, records decoded in place, memory bounded by the
// longest record that the reader requests.
type fileBuffer struct {
	src    io.Reader
	buf    []byte
	start  int   // of the unread bytes in buf
	end    int   // of the unread bytes in buf
	base   int64 // file offset of buf[0]
	srcErr error // that ended reading; nil while there may be more
	ahead  *readAhead
}

// inMemory is a source that is wholly in memory: it is read in place and never written to.
type inMemory interface{ Contents() []byte }

// newFileBuffer returns a buffer of the usual length, or of that of a source that knows how short it is.
func newFileBuffer(src io.Reader) fileBuffer {
	if s, ok := src.(inMemory); ok {
		all := s.Contents()
		return fileBuffer{src: src, buf: all, end: len(all), srcErr: io.EOF}
	}
	return fileBuffer{src: src, buf: make([]byte, min(readBufferLen, remaining(src)))}
}

// remaining returns how many bytes src has at most.
func remaining(src io.Reader) int {
	if s, ok := src.(interface{ Len() int }); ok {
		return s.Len()
	}
	return math.MaxInt
}

// offset returns the file offset of the next unread byte.
func (b *fileBuffer) offset() int64 { return b.base + int64(b.start) }

// fill reads until at least need bytes are unread in the buffer or the source ends, and returns how many are.
func (b *fileBuffer) fill(need int) int {
	if b.ahead != nil {
		return b.fillAhead(need)
	}
	if b.srcErr == nil && (b.start+need > len(b.buf) || b.start == b.end) {
		dst := b.buf
		if need > len(dst) {
			dst = make([]byte, need)
		}
		b.base += int64(b.start)
		b.end = copy(dst, b.buf[b.start:b.end])
		b.buf, b.start = dst, 0
	}
	for b.end-b.start < need && b.srcErr == nil {
		n, err := b.src.Read(b.buf[b.end:])
		b.end += n
		b.srcErr = err
	}
	return b.end - b.start
}

// readAhead reads the file in a goroutine from here on, until the returned function is called. A file in memory needs
// none.
func (b *fileBuffer) readAhead() (stop func()) {
	if b.srcErr != nil {
		return func() {}
	}
	b.ahead = startReadAhead(b.src)
	return b.ahead.stop
}

// fillAhead is fill with another goroutine that reads: its blocks become the buffer, after the unread rest of the
// previous one.
func (b *fileBuffer) fillAhead(need int) int {
	for b.end-b.start < need && b.srcErr == nil {
		offset := b.offset()
		b.buf, b.start, b.srcErr = b.ahead.next(b.buf[b.start:b.end])
		b.base, b.end = offset-int64(b.start), len(b.buf)
	}
	return b.end - b.start
}

// discard drops n bytes, possibly more than the buffer holds, and reports whether the file had them.
func (b *fileBuffer) discard(n int64) bool {
	for n > int64(b.end-b.start) {
		n -= int64(b.end - b.start)
		b.start = b.end
		if b.fill(1) == 0 {
			return false
		}
	}
	b.start += int(n)
	return true
}
