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

// Station is not supported on this system.
type Station struct{}

// OpenStation returns ErrUnsupported.
func OpenStation(StationConfig) (*Station, error) { return nil, ErrUnsupported }

// Run returns ErrUnsupported.
func (*Station) Run(context.Context) error { return ErrUnsupported }

// Losses has none.
func (*Station) Losses(func(what string, n uint64)) {}

// Close does nothing.
func (*Station) Close() error { return nil }

// Close does nothing.
func (*Switch) Close() error { return nil }
