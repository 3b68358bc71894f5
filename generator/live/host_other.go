//go:build !linux

package live

import (
	"context"
	"time"

	"candela.dev/candela/generator"
	"candela.dev/candela/generator/rdma"
)

// Host is not supported on this operating system.
type Host struct{}

// Open returns ErrUnsupported.
func Open(Config) (*Host, error) { return nil, ErrUnsupported }

// Local returns nil.
func (*Host) Local() []End { return nil }

// Connect returns ErrUnsupported.
func (*Host) Connect([]End) error { return ErrUnsupported }

// Start returns ErrUnsupported.
func (*Host) Start() error { return ErrUnsupported }

// Wait returns ErrUnsupported.
func (*Host) Wait(context.Context) error { return ErrUnsupported }

// Quiet returns 0.
func (*Host) Quiet() time.Duration { return 0 }

// Report returns ErrUnsupported.
func (*Host) Report() (generator.Report, error) { return generator.Report{}, ErrUnsupported }

// Counters returns ErrUnsupported.
func (*Host) Counters() ([]rdma.Counter, error) { return nil, ErrUnsupported }

// Frames returns ErrUnsupported.
func (*Host) Frames() (Frames, error) { return Frames{}, ErrUnsupported }

// Missed returns ErrUnsupported.
func (*Host) Missed() (uint64, error) { return 0, ErrUnsupported }

// Close does nothing.
func (*Host) Close() error { return nil }
