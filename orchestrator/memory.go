package orchestrator

import (
	"bytes"
	"io"
	"slices"

	"candela.dev/candela/trace"
)

// A Directory takes what a run writes: a [RunDir] on disk, or a [memory] for runs of which only the outcome is wanted.
type Directory interface {
	// WriteFile writes a document.
	WriteFile(name string, write func(io.Writer) error) error
	WriteJSON(name string, v any) error
	Mkdir(name string) error
	// Create makes a file that grows during the run; Source reads a capture that was written so.
	Create(name string) (io.WriteCloser, error)
	Source(name string) trace.Source

	Path() string
	Final() string
	Complete() (string, error)
	Abandon() string
}

// memory is a run directory that holds what later steps of the run read, its captures, and nothing else: documents are
// not even made. Its buffers serve one run after the other.
type memory struct {
	files map[string]*capture
}

// capture is one file of a memory. Closing it changes nothing.
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
		f = &capture{} // what was never created reads as an empty file: the codecs say what is wrong with that
	}
	return trace.Source{Name: name,
		Open: func() (io.ReadCloser, error) { return contents{bytes.NewReader(f.Bytes()), f}, nil }}
}

// part takes a capture out of the memory, which makes another in its place: whoever reads it may go on.
func (m *memory) part(name string) {
	next := &capture{}
	next.Grow(m.files[name].Len())
	m.files[name] = next
}

// contents reads a capture of a memory.
type contents struct {
	*bytes.Reader
	f *capture
}

func (contents) Close() error { return nil }

// Contents spares readers in package trace a copy.
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
