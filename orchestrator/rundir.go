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

// partialSuffix marks the directory of a run in progress or of an aborted run.
const partialSuffix = ".partial"

var runID = regexp.MustCompile(`^[a-z0-9-]{1,64}$`)

// RunDir is the directory of one run. It is written under a temporary name and renamed when the run is complete, so a
// directory with the final name is complete.
type RunDir struct {
	parent, id string
	root       *os.Root
}

// CreateRunDir creates parent if needed and an empty run directory in it. If a run with that id exists, the id gets the
// first free suffix -2, -3 …
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
		// Another run with this temporary name may have completed between the first check and Mkdir.
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

// Path returns the current path of the directory.
func (d *RunDir) Path() string { return d.root.Name() }

// Final returns the path of the directory once it is complete.
func (d *RunDir) Final() string { return filepath.Join(d.parent, d.id) }

// Join returns the path of a file in the directory, for external programs.
func (d *RunDir) Join(elem ...string) string {
	return filepath.Join(append([]string{d.root.Name()}, elem...)...)
}

// Mkdir makes a subdirectory.
func (d *RunDir) Mkdir(name string) error { return d.root.MkdirAll(name, 0o777) }

// Create creates the file name; the caller keeps it open and closes it.
func (d *RunDir) Create(name string) (io.WriteCloser, error) {
	f, err := d.root.Create(name)
	if err != nil {
		return nil, fmt.Errorf("write %s: %w", d.Join(name), err)
	}
	return f, nil
}

// Source returns the capture in the file name.
func (d *RunDir) Source(name string) trace.Source { return trace.FileSource(d.Join(name)) }

// WriteFile creates the file name; write fills it through a buffer.
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

// Complete renames the directory to its final name and returns its path. The RunDir must not be used afterwards.
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

// Abandon closes the directory, keeps its temporary name and contents, and returns its path.
func (d *RunDir) Abandon() string {
	partial := d.root.Name()
	// A failed close is ignored: the directory is abandoned.
	_ = d.root.Close()
	return partial
}
