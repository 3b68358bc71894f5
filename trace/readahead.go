package trace

import (
	"io"
	"slices"
)

// readAhead is a goroutine that reads, and decompresses, a file into blocks while another one decodes.
type readAhead struct {
	full, free  chan *fileBlock
	quit, ended chan struct{}
	last        *fileBlock // that its user looks at; nil: none yet
}

const (
	blockBytes  = 128 << 10
	blocksAhead = 4
	// headroom is before a block, for the partial record at the end of the previous one.
	headroom = 16 << 10
)

// fileBlock is a part of a file.
type fileBlock struct {
	buf []byte // from headroom on
	n   int    // bytes after headroom
	err error  // that ended the file after them
}

// startReadAhead starts to read src, which the caller must not use until stop has returned.
func startReadAhead(src io.Reader) *readAhead {
	a := &readAhead{
		full: make(chan *fileBlock, blocksAhead), free: make(chan *fileBlock, blocksAhead),
		quit: make(chan struct{}), ended: make(chan struct{}),
	}
	for range blocksAhead {
		a.free <- &fileBlock{}
	}
	go func() {
		defer close(a.ended)
		defer close(a.full)
		a.read(src)
	}()
	return a
}

// read fills blocks until the file ends, or its user stops.
func (a *readAhead) read(src io.Reader) {
	for {
		var b *fileBlock
		select {
		case b = <-a.free:
		case <-a.quit:
			return
		}
		if b.buf == nil {
			b.buf = make([]byte, headroom+blockBytes)
		}
		b.fill(src)
		last := b.err != nil
		a.full <- b // as many fit as there are
		if last {
			return
		}
	}
}

// fill reads until the block is full or the file ends.
func (b *fileBlock) fill(src io.Reader) {
	b.n, b.err = 0, nil
	for b.n < blockBytes && b.err == nil {
		var n int
		n, b.err = src.Read(b.buf[headroom+b.n:])
		b.n += n
	}
}

// next returns a buffer in which the next block follows rest, the unread part of the previous one, and where it starts.
func (a *readAhead) next(rest []byte) (buf []byte, start int, err error) {
	b, ok := <-a.full
	if !ok {
		return slices.Clone(rest), 0, io.EOF
	}
	if buf, start = b.buf[:headroom+b.n], headroom-len(rest); start >= 0 {
		copy(buf[start:], rest)
	} else {
		buf, start = slices.Concat(rest, buf[headroom:]), 0
	}
	if a.last != nil {
		a.free <- a.last // as many fit as there are
	}
	a.last = b
	return buf, start, b.err
}

// stop ends the goroutine.
func (a *readAhead) stop() {
	close(a.quit)
	<-a.ended
}
