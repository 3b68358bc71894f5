//go:build !linux

package live

// Recorder captures on Linux only.
type Recorder struct{}

// Open returns ErrUnsupported.
func Open(Config) (*Recorder, error) { return nil, ErrUnsupported }

// Offloads returns nothing.
func (*Recorder) Offloads() []string { return nil }

// Finish returns ErrUnsupported.
func (*Recorder) Finish(Create) (Report, error) { return Report{}, ErrUnsupported }

// Close does nothing.
func (*Recorder) Close() error { return nil }
