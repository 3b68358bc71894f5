package bundle

import (
	"archive/tar"
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"

	"github.com/klauspost/compress/gzip"
	"github.com/klauspost/compress/zstd"
)

// Limits on unpacking an archive.
const (
	// UnpackLimit bounds the bytes unpacked from one archive.
	UnpackLimit = 8 << 30
	memberLimit = 10_000
	// longestWindow is the window of zstd --long=27.
	longestWindow = 128 << 20
)

var (
	magicGzip = []byte{0x1f, 0x8b}
	magicZstd = []byte{0x28, 0xb5, 0x2f, 0xfd}
)

// Every tar archive since POSIX.1-1988 has magicTar at offset magicTarAt.
const (
	magicTar   = "ustar"
	magicTarAt = 257
)

// Archive is an open tar archive, plain or compressed by gzip or zstd.
type Archive struct {
	io.Reader
	close []func() error
}

// Close closes the archive.
func (a *Archive) Close() error {
	var err error
	for _, c := range slices.Backward(a.close) {
		err = errors.Join(err, c())
	}
	return err
}

// OpenArchive opens the tar archive at path. It returns nil if the file is not a tar archive.
func OpenArchive(path string) (*Archive, error) {
	file, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	a := &Archive{close: []func() error{file.Close}}
	tarred, err := a.inflate(file)
	if tarred && err == nil {
		return a, nil
	}
	_ = a.Close() // read only
	return nil, err
}

// inflate makes a read the decompressed file, and reports whether that is a tar archive.
func (a *Archive) inflate(file io.Reader) (bool, error) {
	b := bufio.NewReader(file)
	// The error is ignored: a file with fewer bytes is not zstd.
	start, _ := b.Peek(len(magicZstd))
	compressed := true
	switch {
	case bytes.HasPrefix(start, magicGzip):
		z, err := gzip.NewReader(b)
		if err != nil {
			return false, nil // the reader of captures reports the error
		}
		a.close, b = append(a.close, func() error { _ = z.Close(); return nil }), bufio.NewReader(&inflated{z, "gzip"})
	case bytes.HasPrefix(start, magicZstd):
		z, err := zstd.NewReader(b, zstd.WithDecoderConcurrency(1), zstd.WithDecoderLowmem(true),
			zstd.WithDecoderMaxWindow(longestWindow))
		if err != nil {
			return false, fmt.Errorf("zstd: %w", err)
		}
		a.close, b = append(a.close, func() error { z.Close(); return nil }), bufio.NewReader(&inflated{z, "zstd"})
	default:
		compressed = false
	}
	head, err := b.Peek(magicTarAt + len(magicTar))
	if err != nil && !errors.Is(err, io.EOF) && !compressed {
		return false, err
	}
	a.Reader = b
	return len(head) == magicTarAt+len(magicTar) && string(head[magicTarAt:]) == magicTar, nil
}

// inflated turns errors of a decompressor into [ErrInvalid].
type inflated struct {
	from io.Reader
	name string
}

func (r *inflated) Read(p []byte) (int, error) {
	n, err := r.from.Read(p)
	if err != nil && !errors.Is(err, io.EOF) {
		err = invalid("%s: %v", r.name, err)
	}
	return n, err
}

// Unpacked describes the content of an archive.
type Unpacked struct {
	// Bundle is the bundle; nil if the archive holds a run directory.
	Bundle *Bundle
	// Inner is the run's directory in the archive; "." for the top level.
	Inner string
}

// Unpack writes the documents and the trace of a bundle, or all files of an archived run directory, into the empty
// directory dir. Archives are untrusted: it writes only regular files, only inside dir, and at most [UnpackLimit]
// bytes. Errors in the archive match [ErrInvalid].
func Unpack(r io.Reader, dir string) (*Unpacked, error) {
	root, err := os.OpenRoot(dir)
	if err != nil {
		return nil, err
	}
	u, err := unpack(r, root)
	return u, errors.Join(damaged(err), root.Close())
}

func unpack(r io.Reader, root *os.Root) (*Unpacked, error) {
	b := bufio.NewReader(r)
	head, err := b.Peek(len(manifestName) + 1)
	if err != nil {
		return nil, damaged(err)
	}
	if string(head) == manifestName+"\x00" {
		bundle, err := unpackBundle(b, root)
		return &Unpacked{Bundle: bundle, Inner: "."}, err
	}
	inner, err := unpackRun(b, root)
	return &Unpacked{Inner: inner}, err
}

// unpackBundle reads a bundle and requires its trace.
func unpackBundle(r io.Reader, root *os.Root) (b *Bundle, err error) {
	file, err := root.Create(traceName)
	if err != nil {
		return nil, err
	}
	b, err = Read(r, &limited{file, UnpackLimit})
	if err = errors.Join(err, file.Close()); err != nil {
		return nil, err
	}
	for name, data := range b.files {
		if err := writeMember(root, name, bytes.NewReader(data)); err != nil {
			return nil, err
		}
	}
	manifest, err := b.Manifest.encode()
	if err != nil {
		return nil, err
	}
	return b, writeMember(root, manifestName, bytes.NewReader(manifest))
}

// unjudgeable is the reason that a valid bundle cannot be judged.
type unjudgeable string

func (u unjudgeable) Error() string { return string(u) }

// Is matches [ErrInvalid].
func (unjudgeable) Is(target error) bool { return target == ErrInvalid }

// Judgeable returns an error if the bundle lacks what a verdict needs.
func (b *Bundle) Judgeable() error {
	if b.Manifest.names(flowsName) {
		return unjudgeable("the bundle has no captures, by which a test of a switch is judged: " +
			"run it again with candela replay")
	}
	for _, f := range b.Manifest.Files {
		if f.Name == traceName && f.Stored {
			return nil
		}
	}
	return unjudgeable("the bundle has no trace to judge: " +
		"run it again with candela replay, or make it with candela bundle --with-trace")
}

// unpackRun unpacks the directory of a run and returns its path in the archive.
func unpackRun(r io.Reader, root *os.Root) (inner string, err error) {
	archive, rest := tar.NewReader(r), int64(UnpackLimit)
	for n := 0; ; n++ {
		h, err := archive.Next()
		switch {
		case errors.Is(err, io.EOF) && inner == "":
			return "", invalid("neither %s of a bundle nor run.json of a run directory is in it", manifestName)
		case errors.Is(err, io.EOF):
			const padding = 1 << 20 // at the end of an archive, followed by the checksum of a compressed one
			_, err := io.CopyN(io.Discard, r, padding)
			if errors.Is(err, io.EOF) {
				err = nil
			}
			return inner, err
		case err != nil:
			return "", damaged(err)
		case n == memberLimit:
			return "", invalid("it has more than %d members, a run directory has fewer", memberLimit)
		}
		name := path.Clean(h.Name)
		switch {
		case h.Typeflag == tar.TypeDir || h.Typeflag == tar.TypeXGlobalHeader:
			continue
		case h.Typeflag != tar.TypeReg:
			return "", invalid("%q is not a regular file (type %q): a run directory has no links and no devices", h.Name,
				h.Typeflag)
		case !filepath.IsLocal(name) || strings.Contains(name, `\`):
			return "", invalid("%q points out of the archive", h.Name)
		case h.Size > rest:
			return "", invalid("it unpacks to more than %d bytes: unpack it with tar and analyse the directory",
				int64(UnpackLimit))
		}
		if path.Base(name) == "run.json" {
			if inner != "" {
				return "", invalid("it holds several runs, %s and %s: unpack it with tar and analyse the one that is meant", inner,
					path.Dir(name))
			}
			inner = path.Dir(name)
		}
		rest -= h.Size
		if err := writeMember(root, name, archive); err != nil {
			return "", damaged(err)
		}
	}
}

// writeMember writes a file and its parent directories. An existing file is an error: the archive holds the name twice.
func writeMember(root *os.Root, name string, r io.Reader) error {
	if err := root.MkdirAll(path.Dir(name), 0o700); err != nil {
		return fmt.Errorf("%w: %q: %w", ErrInvalid, name, err)
	}
	file, err := root.OpenFile(name, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o600)
	if err != nil {
		return fmt.Errorf("%w: %q: %w", ErrInvalid, name, err)
	}
	_, err = io.Copy(file, r)
	return errors.Join(err, file.Close())
}

// limited is a writer with a byte limit.
type limited struct {
	to   io.Writer
	rest int64
}

func (l *limited) Write(p []byte) (int, error) {
	if l.rest -= int64(len(p)); l.rest < 0 {
		return 0, invalid("it unpacks to more than %d bytes: unpack it with tar and analyse the directory",
			int64(UnpackLimit))
	}
	return l.to.Write(p)
}
