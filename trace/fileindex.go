package trace

import (
	"context"
	"errors"
	"io"
	"slices"
)

// fileIndex maps times to places of a capture file, so that a few records can be read without the rest. It divides the
// file into pieces of about equal length, which grow with the file.
type fileIndex struct {
	pieces []filePiece
	stride int64 // bytes of a piece
	limit  int   // pieces
}

func newFileIndex() *fileIndex { return &fileIndex{stride: shortestPiece, limit: maxPieces} }

// filePiece is some successive frames of a file, with the times of the records among them.
type filePiece struct {
	offset        int64
	number        uint64 // of its first frame
	lowNS, highNS int64
}

const (
	shortestPiece = 4 << 10
	maxPieces     = 1 << 14
)

// add observes a record that was made of a frame.
func (x *fileIndex) add(number uint64, offset, ns int64) {
	n := len(x.pieces)
	if n == 0 || offset-x.pieces[n-1].offset >= x.stride {
		x.begin(number, offset, ns)
		return
	}
	p := &x.pieces[n-1]
	p.lowNS, p.highNS = min(p.lowNS, ns), max(p.highNS, ns)
}

// begin starts a piece at a frame. If there are too many, neighbours are merged.
func (x *fileIndex) begin(number uint64, offset, ns int64) {
	if half := x.limit / 2; len(x.pieces) == 2*half {
		for i := range half {
			a, b := &x.pieces[2*i], &x.pieces[2*i+1]
			x.pieces[i] = filePiece{a.offset, a.number, min(a.lowNS, b.lowNS), max(a.highNS, b.highNS)}
		}
		x.pieces, x.stride = x.pieces[:half], 2*x.stride
	}
	x.pieces = append(x.pieces, filePiece{offset, number, ns, ns})
}

// fileRange is a part of a file that begins with frame number.
type fileRange struct {
	start, end int64 // end < 0: of the file
	number     uint64
}

// ranges returns the parts of the file that hold all records at the given, sorted times.
func (x *fileIndex) ranges(instants []int64) []fileRange {
	var list []fileRange
	for i := range x.pieces {
		p := &x.pieces[i]
		if at, _ := slices.BinarySearch(instants, p.lowNS); at == len(instants) || instants[at] > p.highNS {
			continue
		}
		end := int64(-1)
		if i+1 < len(x.pieces) {
			end = x.pieces[i+1].offset
		}
		if n := len(list); n > 0 && list[n-1].end == p.offset {
			list[n-1].end = end
		} else {
			list = append(list, fileRange{p.offset, end, p.number})
		}
	}
	return list
}

// forEachFrameIn calls fn for the frames in some parts of src. It returns false and does nothing if src can only be
// read from its start.
func (src Source) forEachFrameIn(ctx context.Context, parts []fileRange, fn func(*Frame) error) (ok bool, err error) {
	if len(src.more) > 0 || src.twins != nil {
		return false, nil
	}
	src.ahead = false // the file is read here and there
	file, err := src.OpenFrames()
	if err != nil {
		return false, err
	}
	defer func() { err = alsoClose(err, file) }()
	if file.pcap == nil || !file.pcap.seekable() {
		return false, nil
	}
	var f Frame
	for _, part := range parts {
		if err := file.pcap.seek(part); err != nil {
			return true, err
		}
		for part.end < 0 || file.pcap.offset() < part.end {
			if ctx.Err() != nil {
				return true, context.Cause(ctx)
			}
			if err := file.Next(&f); errors.Is(err, io.EOF) {
				break
			} else if err != nil {
				return true, err
			}
			if err := fn(&f); err != nil {
				return true, err
			}
		}
	}
	return true, nil
}

// seekable reports whether the reader can go on anywhere in its file.
func (r *PcapReader) seekable() bool {
	switch src := r.src.(type) {
	case inMemory:
		return true
	case *prefixedReader:
		_, ok := src.rest.(io.Seeker)
		return ok && len(src.prefix) == 0
	}
	return false
}

// seek makes the reader continue with the first frame of a part of its file, and read at most that part at a time.
func (r *PcapReader) seek(part fileRange) error {
	r.packets = part.number - 1
	if _, ok := r.src.(inMemory); ok {
		r.start = int(part.start)
		return nil
	}
	if _, err := r.src.(*prefixedReader).rest.(io.Seeker).Seek(part.start, io.SeekStart); err != nil {
		return r.fail(err)
	}
	r.base, r.start, r.end, r.srcErr = part.start, 0, 0, nil
	r.buf = r.buf[:cap(r.buf)]
	if part.end >= 0 {
		r.buf = r.buf[:min(int64(len(r.buf)), part.end-part.start)]
	}
	return nil
}
