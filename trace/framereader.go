package trace

import (
	"errors"
	"fmt"
	"io"
	"slices"

	"github.com/klauspost/compress/gzip"
	"github.com/klauspost/compress/zstd"
)

// frameReader yields the frames of a capture file in order.
type frameReader interface {
	// Next reads the next frame into f, whose Data is valid until the call after. io.EOF ends the file.
	Next(f *Frame) error
}

// Magic numbers of files that are compressed, in the order of their bytes.
var (
	magicGzip = []byte{0x1f, 0x8b}
	magicZstd = []byte{0x28, 0xb5, 0x2f, 0xfd}
)

// unreadFormats are common formats that are not read, with what helps.
var unreadFormats = []struct {
	magic  string
	what   string
	advice string
}{
	{"\xfd7zX", "an xz archive", "xz -dc FILE | candela analyze -"},
	{"BZh", "a bzip2 archive", "bzip2 -dc FILE | candela analyze -"},
	{"\x04\x22\x4d\x18", "an lz4 archive", "lz4 -dc FILE | candela analyze -"},
	{"PK\x03\x04", "a zip archive", "unzip -p FILE | candela analyze -"},
	{"snoo", "a snoop capture", "editcap -F nsecpcap FILE OUT"},
	{"GMBU", "a Network Monitor capture", "editcap -F nsecpcap FILE OUT"},
	{"RTSS", "a Network Monitor capture", "editcap -F nsecpcap FILE OUT"},
	{"\x34\xcd\xb2\xa1", "a pcap of a modified libpcap", "editcap -F nsecpcap FILE OUT"},
	{"\xa1\xb2\xcd\x34", "a pcap of a modified libpcap", "editcap -F nsecpcap FILE OUT"},
	{"XCP\x00", "a Sniffer capture", "editcap -F nsecpcap FILE OUT"},
	{"\x7fELF", "a program", "give a capture file"},
}

// newFrameReader reads the start of src and returns a reader for the format that it finds there, pcap or pcapng, either
// of them plain or compressed by gzip or zstd. release frees what a decompressor holds.
func newFrameReader(src io.Reader, name string) (r frameReader, release func(), err error) {
	return frameReaderOf(src, name, true)
}

func frameReaderOf(src io.Reader, name string, mayInflate bool) (r frameReader, release func(), err error) {
	release = func() {}
	var magic [4]byte
	n, err := io.ReadFull(src, magic[:])
	if err != nil && !errors.Is(err, io.EOF) && !errors.Is(err, io.ErrUnexpectedEOF) {
		return nil, release, &FileError{Name: name, Err: err}
	}
	var whole io.Reader = &prefixedReader{prefix: magic[:n], rest: src}
	if _, ok := src.(inMemory); ok {
		whole = src
	}
	if mayInflate {
		inflated, free, err := inflate(magic[:n], whole)
		if err != nil {
			return nil, release, &FileError{Name: name, Err: err}
		}
		if inflated != nil {
			r, _, err := frameReaderOf(inflated, name, false)
			if err != nil {
				free()
			}
			return r, free, err
		}
	}
	if n == len(magic) && be32(magic[:]) == magicPcapng {
		r, err := newPcapngReader(whole, name)
		return r, release, err
	}
	for _, u := range unreadFormats {
		if len(u.magic) <= n && string(magic[:len(u.magic)]) == u.magic {
			return nil, release, &FileError{Name: name, Err: fmt.Errorf("%s is not read (read are pcap and pcapng, plain or "+
				"compressed by gzip or zstd): %s", u.what, u.advice)}
		}
	}
	pcap, err := NewPcapReader(whole, name)
	if err != nil {
		return nil, release, err
	}
	return pcap, release, nil
}

// inflate returns a reader of the decompressed contents of src, or nil if it is not compressed. A source in memory was
// read past the magic number, which is put back.
func inflate(magic []byte, src io.Reader) (r io.Reader, free func(), err error) {
	starts := func(m []byte) bool { return len(magic) >= len(m) && slices.Equal(magic[:len(m)], m) }
	if !starts(magicGzip) && !starts(magicZstd) {
		return nil, nil, nil
	}
	if _, ok := src.(inMemory); ok {
		src = &prefixedReader{prefix: slices.Clone(magic), rest: src}
	}
	if starts(magicGzip) {
		z, err := gzip.NewReader(src)
		if err != nil {
			return nil, nil, fmt.Errorf("gzip: %w", err)
		}
		return &inflated{z, "gzip"}, func() { _ = z.Close() }, nil
	}
	const longestWindow = 128 << 20 // of zstd --long=27
	z, err := zstd.NewReader(src, zstd.WithDecoderConcurrency(1), zstd.WithDecoderLowmem(true),
		zstd.WithDecoderMaxWindow(longestWindow))
	if err != nil {
		return nil, nil, fmt.Errorf("zstd: %w", err)
	}
	return &inflated{z, "zstd"}, z.Close, nil
}

// inflated reports a truncated compressed file as a truncated capture.
type inflated struct {
	src  io.Reader
	name string
}

func (r *inflated) Read(b []byte) (int, error) {
	n, err := r.src.Read(b)
	switch {
	case err == nil, errors.Is(err, io.EOF) && !errors.Is(err, io.ErrUnexpectedEOF):
		return n, err
	case errors.Is(err, io.ErrUnexpectedEOF):
		return n, fmt.Errorf("%w: the %s stream ends early", ErrTruncatedFile, r.name)
	}
	return n, fmt.Errorf("%s: %w: the file is damaged here", r.name, err)
}
