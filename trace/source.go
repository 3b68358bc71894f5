package trace

import (
	"context"
	"errors"
	"io"
	"os"
)

// A Source is a capture that can be opened any number of times. Every pass over a trace opens it anew, which is how memory
// stays independent of its length.
type Source struct {
	Name string // for messages: a path
	Open func() (io.ReadCloser, error)
}

// FileSource is the capture in the file at path. It is the one place where this package meets the file system: the codecs
// take readers and writers, but a trace that is streamed several times must be reopened by whoever streams it.
func FileSource(path string) Source {
	return Source{Name: path, Open: func() (io.ReadCloser, error) { return os.Open(path) }}
}

// FrameFile is an open capture. It is not safe for concurrent use.
type FrameFile struct {
	frameReader
	file io.Closer
}

// OpenFrames opens src and reads the start of it, pcap or pcapng. An error is a *FileError or what Open returned.
func (src Source) OpenFrames() (*FrameFile, error) {
	file, err := src.Open()
	if err != nil {
		return nil, err
	}
	r, err := newFrameReader(file, src.Name)
	if err != nil {
		return nil, errors.Join(err, file.Close())
	}
	return &FrameFile{frameReader: r, file: file}, nil
}

// Close closes the file.
func (f *FrameFile) Close() error { return f.file.Close() }

// ForEachFrame calls fn for every frame of src in file order, until fn fails or ctx ends. The frame is valid during the call
// only. An error about the file is a *FileError or what Open returned; fn has then seen all frames before the damage.
func (src Source) ForEachFrame(ctx context.Context, fn func(*Frame) error) (err error) {
	file, err := src.OpenFrames()
	if err != nil {
		return err
	}
	defer func() { err = alsoClose(err, file) }()
	var f Frame
	for i := 0; ; i++ {
		if i%cancelEvery == 0 && ctx.Err() != nil {
			return context.Cause(ctx)
		}
		if err := file.Next(&f); err != nil {
			if errors.Is(err, io.EOF) {
				return nil
			}
			return err
		}
		if err := fn(&f); err != nil {
			return err
		}
	}
}

// alsoClose closes c and adds what goes wrong to err, which otherwise stays the value that it is.
func alsoClose(err error, c io.Closer) error {
	if cerr := c.Close(); cerr != nil {
		return errors.Join(err, cerr)
	}
	return err
}

// errStop ends a pass early without being an error.
var errStop = errors.New("stop")
