package nic

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"slices"
	"strings"
)

// files reads and writes small text files under a root.
type files struct{ root *os.Root }

// maxFile bounds what is read: a file of /sys is a page at most.
const maxFile = 64 << 10

// read returns a file without surrounding space.
func (f files) read(name string) (string, error) {
	file, err := f.root.Open(name)
	if err != nil {
		return "", absolute(err)
	}
	defer file.Close()
	b := make([]byte, maxFile)
	n := 0
	for n < len(b) {
		k, err := file.Read(b[n:])
		n += k
		if err != nil || k == 0 {
			if err != nil && n == 0 && !errors.Is(err, io.EOF) {
				return "", absolute(err)
			}
			break
		}
	}
	return strings.TrimSpace(string(b[:n])), nil
}

// write writes a value into an existing file in one call, as files of /sys require.
func (f files) write(name, value string) error {
	file, err := f.root.OpenFile(name, os.O_WRONLY|os.O_TRUNC, 0)
	if err != nil {
		return fmt.Errorf("write %q: %w", value, absolute(err))
	}
	_, err = file.WriteString(value + "\n")
	if err := errors.Join(err, file.Close()); err != nil {
		return fmt.Errorf("write %q: %w", value, absolute(err))
	}
	return nil
}

// list returns the names in a directory, sorted; none if there is no directory.
func (f files) list(name string) ([]string, error) {
	entries, err := fs.ReadDir(f.root.FS(), name)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, absolute(err)
	}
	var names []string
	for _, e := range entries {
		names = append(names, e.Name())
	}
	slices.Sort(names)
	return names, nil
}

// absolute names the file as on the host: paths below a root have no leading slash.
func absolute(err error) error {
	if p, ok := errors.AsType[*fs.PathError](err); ok {
		return fmt.Errorf("/%s: %w", strings.TrimPrefix(p.Path, "/"), p.Err)
	}
	return err
}

func isMissing(err error) bool { return errors.Is(err, fs.ErrNotExist) }
