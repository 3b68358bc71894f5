package orchestrator

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"regexp"

	"candela.dev/candela/trace"
)

// partialSuffix marks a run directory that is being written, or was when its run was aborted.
const partialSuffix = ".partial"

var runID = regexp.MustCompile(`^[a-z0-9-]{1,64}$`)

// RunDir is the directory of one run. It is written under a temporary name and gets its own when the run is complete,
// so that whoever finds it under that name finds all of it.
type RunDir struct {
	parent, id string
	root       *os.Root
}

// CreateRunDir makes parent if needed and an empty directory for a run in it. If a run of that id exists, the id gets
// the first free suffix -2, -3 …
func CreateRunDir(parent, id string) (*RunDir, error) {
	if !runID.MatchString(id) {
		return nil, fmt.Errorf("run id %q: want 1 to 64 of a-z, 0-9 and -", id)
	}
	if err := os.MkdirAll(parent, 0o777); err != nil {
		return nil, fmt.Errorf("create run directory: %w", err)
	}
	const attempts = 10_000
	for n := 1; n <= attempts; n++ {
		name := id
		if n > 1 {
			name = fmt.Sprintf("%s-%d", id, n)
		}
		if exists(filepath.Join(parent, name)) {
			continue
		}
		partial := filepath.Join(parent, name+partialSuffix)
		if err := os.Mkdir(partial, 0o777); errors.Is(err, os.ErrExist) {
			continue
		} else if err != nil {
			return nil, fmt.Errorf("create run directory: %w", err)
		}
		// Another run may have held the temporary name at the first look and have completed before it was taken here.
		if exists(filepath.Join(parent, name)) {
			if err := os.Remove(partial); err != nil {
				return nil, fmt.Errorf("create run directory: %w", err)
			}
			continue
		}
		root, err := os.OpenRoot(partial)
		if err != nil {
			return nil, fmt.Errorf("create run directory: %w", err)
		}
		return &RunDir{parent: parent, id: name, root: root}, nil
	}
	return nil, fmt.Errorf("create run directory: %s and %d numbered ones after it exist in %s", id, attempts-1, parent)
}

func exists(path string) bool {
	_, err := os.Lstat(path)
	return err == nil
}

// ID returns the run's id: the directory's final name.
func (d *RunDir) ID() string { return d.id }

// Path returns where the directory is now.
func (d *RunDir) Path() string { return d.root.Name() }

// Final returns where the directory will be once it is complete.
func (d *RunDir) Final() string { return filepath.Join(d.parent, d.id) }

// Join returns the path of a file inside, for programs that need one.
func (d *RunDir) Join(elem ...string) string {
	return filepath.Join(append([]string{d.root.Name()}, elem...)...)
}

// Mkdir makes a directory inside.
func (d *RunDir) Mkdir(name string) error { return d.root.MkdirAll(name, 0o777) }

// Create makes the file name for a writer that keeps it open.
func (d *RunDir) Create(name string) (io.WriteCloser, error) {
	f, err := d.root.Create(name)
	if err != nil {
		return nil, fmt.Errorf("write %s: %w", d.Join(name), err)
	}
	return f, nil
}

// Source is the capture in the file name.
func (d *RunDir) Source(name string) trace.Source { return trace.FileSource(d.Join(name)) }

// WriteFile creates the file name and lets write fill it through a buffer.
func (d *RunDir) WriteFile(name string, write func(io.Writer) error) (err error) {
	f, err := d.root.Create(name)
	if err != nil {
		return fmt.Errorf("write %s: %w", d.Join(name), err)
	}
	defer func() {
		if e := f.Close(); e != nil && err == nil {
			err = fmt.Errorf("write %s: %w", d.Join(name), e)
		}
	}()
	b := bufio.NewWriter(f)
	if err := write(b); err != nil {
		return fmt.Errorf("write %s: %w", d.Join(name), err)
	}
	if err := b.Flush(); err != nil {
		return fmt.Errorf("write %s: %w", d.Join(name), err)
	}
	return nil
}

// WriteJSON writes v as indented JSON with a final newline.
func (d *RunDir) WriteJSON(name string, v any) error {
	return d.WriteFile(name, func(w io.Writer) error { return writeJSON(w, v) })
}

func writeJSON(w io.Writer, v any) error {
	enc := json.NewEncoder(w)
	enc.SetIndent("", "  ")
	enc.SetEscapeHTML(false)
	return enc.Encode(v)
}

// Complete gives the directory its final name and returns its path. The RunDir must not be used afterwards.
func (d *RunDir) Complete() (string, error) {
	partial := d.root.Name()
	if err := d.root.Close(); err != nil {
		return partial, fmt.Errorf("complete run directory: %w", err)
	}
	final := d.Final()
	if err := os.Rename(partial, final); err != nil {
		return partial, fmt.Errorf("complete run directory: %w", err)
	}
	return final, nil
}

// Abandon leaves the directory under its temporary name with what it holds and returns its path.
func (d *RunDir) Abandon() string {
	partial := d.root.Name()
	// Nothing can be done about a failing close of a directory that is given up.
	_ = d.root.Close()
	return partial
}
