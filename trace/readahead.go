package trace

import (
	"context"
	"errors"
	"io"
)

// A reading goroutine puts frames into blocks, so that one processor reads while another decodes. A classic pcap file is read into the memory
// of the block itself; frames of other files, and those that were taken out of tunnels, are copied.
const (
	blockFrames = 1024
	blockBytes  = 128 << 10 // grows to hold one frame if it must
	blocksAhead = 4
)

// frameBlock is some frames of a capture, with their bytes.
type frameBlock struct {
	frames []Frame
	read   []byte // that a file was read into
	bytes  []byte // of frames that were copied
	err    error  // that ended the capture behind these frames
}

// lend makes the reader of a file, if it has one that allows for it, read into the memory of the block, and returns that reader.
func (b *frameBlock) lend(file *FrameFile) *PcapReader {
	r := file.pcap
	if r == nil {
		return nil
	}
	if _, ok := r.src.(inMemory); ok {
		return r
	}
	rest := r.buf[r.start:r.end]
	if len(b.read) < max(blockBytes, len(rest)) {
		b.read = make([]byte, max(blockBytes, len(rest)))
	}
	r.base += int64(r.start)
	r.end = copy(b.read, rest)
	r.buf, r.start = b.read, 0
	return r
}

// holds reports whether the next record is in the buffer as a whole.
func (r *PcapReader) holds() bool {
	if r.end-r.start < pcapRecordLen {
		return false
	}
	length := r.buf[r.start+8 : r.start+12]
	n := le32(length)
	if r.swapped {
		n = be32(length)
	}
	return uint64(r.end-r.start) >= pcapRecordLen+uint64(n)
}

// add takes a frame, or reports that the block is full. The bytes of a lent frame are in the block.
func (b *frameBlock) add(f *Frame, lent bool) bool {
	if lent {
		b.frames = append(b.frames, *f)
		return true
	}
	if cap(b.bytes) == 0 {
		b.bytes = make([]byte, 0, max(blockBytes, len(f.Data)))
	}
	if len(b.frames) == blockFrames || len(b.frames) > 0 && cap(b.bytes)-len(b.bytes) < len(f.Data) {
		return false
	}
	if cap(b.bytes) < len(f.Data) {
		b.bytes = make([]byte, 0, len(f.Data))
	}
	start := len(b.bytes)
	b.bytes = append(b.bytes, f.Data...)
	b.frames = append(b.frames, *f)
	b.frames[len(b.frames)-1].Data = b.bytes[start:len(b.bytes):len(b.bytes)]
	return true
}

// readAhead is the loop of forEachFrame, with a goroutine of its own to read.
func readAhead(ctx context.Context, file *FrameFile, fn func(*Frame) error) error {
	full, free, quit, ended := make(chan *frameBlock, blocksAhead), make(chan *frameBlock, blocksAhead), make(chan struct{}), make(chan struct{})
	for range blocksAhead {
		free <- &frameBlock{frames: make([]Frame, 0, blockFrames)}
	}
	go func() {
		defer close(ended)
		defer close(full)
		readBlocks(file, full, free, quit)
	}()
	defer func() { <-ended }() // the caller closes the file
	defer close(quit)
	for b := range full {
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		for i := range b.frames {
			if err := fn(&b.frames[i]); err != nil {
				return err
			}
		}
		if b.err != nil {
			if errors.Is(b.err, io.EOF) {
				return nil
			}
			return b.err
		}
		free <- b // as many fit as there are
	}
	return nil
}

// readBlocks fills blocks until the capture ends, or its user quits.
func readBlocks(file *FrameFile, full chan<- *frameBlock, free <-chan *frameBlock, quit <-chan struct{}) {
	var f Frame
	held := false // f does not fit into the block before
	for {
		var b *frameBlock
		select {
		case b = <-free:
		case <-quit:
			return
		}
		b.frames, b.bytes = b.frames[:0], b.bytes[:0]
		held = b.fill(file, &f, held)
		last := b.err != nil
		full <- b // as many fit as there are
		if last {
			return
		}
	}
}

// fill reads frames into the block until it is full or the capture ends. held says that f is the first one, and is returned if f holds one that
// does not fit.
func (b *frameBlock) fill(file *FrameFile, f *Frame, held bool) bool {
	if held {
		b.add(f, false)
	}
	r := b.lend(file)
	for {
		if len(b.frames) == blockFrames || r != nil && file.pcap == r && len(b.frames) > 0 && !r.holds() {
			return false
		}
		if b.err = file.Next(f); b.err != nil {
			return false
		}
		if len(b.frames) == 0 && file.pcap == r && r != nil && len(r.buf) > len(b.read) {
			b.read = r.buf // it had to grow
		}
		if !b.add(f, r != nil && file.pcap == r && file.inPlace) {
			return true
		}
	}
}
