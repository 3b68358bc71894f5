package orchestrator

import (
	"bytes"
	"io"
	"slices"

	"candela.dev/candela/trace"
)

// A Directory takes the files of a run: a [RunDir] on disk, or a [memory] or [nowhere] if only the outcome is needed.
type Directory interface {
	// WriteFile writes a document.
	WriteFile(name string, write func(io.Writer) error) error
	WriteJSON(name string, v any) error
	Mkdir(name string) error
	// Create makes a file that grows during the run; Source reads a capture written this way.
	Create(name string) (io.WriteCloser, error)
	Source(name string) trace.Source

	Path() string
	Final() string
	Complete() (string, error)
	Abandon() string
}

// memory is a run directory that keeps only captures, which later steps read; documents are not written. Its buffers
// are reused by the next run.
type memory struct {
	files map[string]*capture
}

// capture is one file of a memory. Close has no effect.
type capture struct{ bytes.Buffer }

func (*capture) Close() error { return nil }

func (m *memory) WriteFile(string, func(io.Writer) error) error { return nil }
func (m *memory) WriteJSON(string, any) error                   { return nil }
func (m *memory) Mkdir(string) error                            { return nil }

func (m *memory) Create(name string) (io.WriteCloser, error) {
	if m.files == nil {
		m.files = make(map[string]*capture)
	}
	f := m.files[name]
	if f == nil {
		f = &capture{}
		m.files[name] = f
	}
	f.Reset()
	return f, nil
}

// Source reads a capture once it is complete.
func (m *memory) Source(name string) trace.Source {
	f := m.files[name]
	if f == nil {
		f = &capture{} // a missing file reads as an empty one; the codecs report the error
	}
	return trace.Source{Name: name,
		Open: func() (io.ReadCloser, error) { return contents{bytes.NewReader(f.Bytes()), f}, nil }}
}

// part hands a capture over to its readers; the memory continues with a new buffer.
func (m *memory) part(name string) {
	next := &capture{}
	next.Grow(m.files[name].Len())
	m.files[name] = next
}

type contents struct {
	*bytes.Reader
	f *capture
}

func (contents) Close() error { return nil }

// Contents lets readers in package trace avoid a copy.
func (c contents) Contents() []byte { return c.f.Bytes() }

func (m *memory) Path() string              { return "memory" }
func (m *memory) Final() string             { return "memory" }
func (m *memory) Complete() (string, error) { return "", nil }
func (m *memory) Abandon() string           { return "" }

// capture returns a copy of what was written to a file.
func (m *memory) capture(name string) []byte {
	if f := m.files[name]; f != nil {
		return slices.Clone(f.Bytes())
	}
	return nil
}

// nowhere is a run directory that keeps nothing.
type nowhere struct{ memory }

func (nowhere) Create(string) (io.WriteCloser, error) { return discarded{io.Discard}, nil }

type discarded struct{ io.Writer }

func (discarded) Close() error { return nil }
