package bundle

import (
	"archive/tar"
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"io"
)

// Read reads and checks a bundle. A stored trace is written to trace, which may be io.Discard. Errors match
// [ErrInvalid] unless reading or writing itself failed.
func Read(r io.Reader, trace io.Writer) (*Bundle, error) {
	archive := tar.NewReader(r)
	b := &Bundle{files: make(map[string][]byte)}
	h, err := next(archive)
	if err != nil {
		return nil, err
	}
	if h == nil || h.Name != manifestName {
		return nil, invalid("the first member must be %s", manifestName)
	}
	if err := b.readManifest(archive, h.Size); err != nil {
		return nil, err
	}
	for _, f := range b.Manifest.Files {
		if !f.Stored {
			continue
		}
		if err := b.readMember(archive, f, trace); err != nil {
			return nil, err
		}
	}
	if h, err := next(archive); err != nil {
		return nil, err
	} else if h != nil {
		return nil, invalid("%q is not in the manifest", h.Name)
	}
	return b, nil
}

// next returns the header of the next member, which must be a regular file; nil at the end.
func next(archive *tar.Reader) (*tar.Header, error) {
	h, err := archive.Next()
	switch {
	case errors.Is(err, io.EOF):
		return nil, nil
	case err != nil:
		return nil, damaged(err)
	case h.Typeflag != tar.TypeReg:
		return nil, invalid("%q is no regular file (type %q)", h.Name, h.Typeflag)
	}
	return h, nil
}

// damaged turns format errors of the tar reader into [ErrInvalid].
func damaged(err error) error {
	if errors.Is(err, tar.ErrHeader) || errors.Is(err, io.ErrUnexpectedEOF) || errors.Is(err, tar.ErrInsecurePath) {
		return invalid("%v", err)
	}
	return err
}

func (b *Bundle) readManifest(r io.Reader, size int64) error {
	if size > manifestLimit {
		return invalid("%s has %d bytes, want at most %d", manifestName, size, manifestLimit)
	}
	data, err := io.ReadAll(r)
	if err != nil {
		return damaged(err)
	}
	dec := json.NewDecoder(bytes.NewReader(data))
	dec.DisallowUnknownFields()
	if err := dec.Decode(&b.Manifest); err != nil {
		return invalid("%s: %v", manifestName, err)
	}
	return b.Manifest.check()
}

// readMember reads the next member, which must be f. It allocates no more than the manifest announces within the limits
// and the archive really holds.
func (b *Bundle) readMember(archive *tar.Reader, f File, trace io.Writer) error {
	h, err := next(archive)
	switch {
	case err != nil:
		return err
	case h == nil:
		return invalid("%s is missing", f.Name)
	case h.Name != f.Name:
		return invalid("%q stands where the manifest has %s", h.Name, f.Name)
	case h.Size != f.Size:
		return invalid("%s has %d bytes, the manifest says %d", f.Name, h.Size, f.Size)
	}
	sum := sha256.New()
	var data bytes.Buffer
	var to io.Writer = &data
	if f.Name == traceName {
		to = trace
	}
	if _, err := io.Copy(io.MultiWriter(to, sum), archive); err != nil {
		return damaged(err)
	}
	if got := hex.EncodeToString(sum.Sum(nil)); got != f.SHA256 {
		return invalid("%s has SHA-256 %s, the manifest says %s", f.Name, got, f.SHA256)
	}
	if f.Name != traceName {
		b.files[f.Name] = data.Bytes()
	}
	return nil
}
