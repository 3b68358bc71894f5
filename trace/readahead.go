package trace

import (
	"context"
	"errors"
	"io"
)

// A reading goroutine copies frames into blocks, so that one processor reads while another decodes.
const (
	blockFrames = 1024
	blockBytes  = 128 << 10 // grows to hold one frame if it must
	blocksAhead = 4
)

// frameBlock is some frames of a capture, with their bytes.
type frameBlock struct {
	frames []Frame
	bytes  []byte
	err    error // that ended the capture behind these frames
}

// add copies a frame, or reports that the block is full.
func (b *frameBlock) add(f *Frame) bool {
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
		free <- &frameBlock{frames: make([]Frame, 0, blockFrames), bytes: make([]byte, 0, blockBytes)}
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
		for b.err == nil {
			if held {
				held = false
			} else if b.err = file.Next(&f); b.err != nil {
				break
			}
			if !b.add(&f) {
				held = true
				break
			}
		}
		last := b.err != nil
		full <- b // as many fit as there are
		if last {
			return
		}
	}
}
