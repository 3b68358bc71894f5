//go:build !linux

package live

import (
	"context"

	"candela.dev/candela/clock"
)

// Switch is not supported on this system.
type Switch struct{}

// Open returns ErrUnsupported.
func Open(Config) (*Switch, error) { return nil, ErrUnsupported }

// Advance returns ErrUnsupported.
func (*Switch) Advance(context.Context, clock.Time) (clock.Time, bool, error) {
	return 0, false, ErrUnsupported
}

// Finish returns ErrUnsupported.
func (*Switch) Finish() (*Report, error) { return nil, ErrUnsupported }

// Close does nothing.
func (*Switch) Close() error { return nil }
