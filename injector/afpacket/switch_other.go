//go:build !linux

package afpacket

import (
	"context"

	"candela.dev/candela/injector/delay"
	"candela.dev/candela/injector/pipeline"
)

// A Switch forwards between its ports as the pipeline says; not here.
type Switch struct{ pipeline *pipeline.Pipeline }

// Open returns ErrUnsupported.
func Open(Config) (*Switch, error) { return nil, ErrUnsupported }

// Run returns ErrUnsupported.
func (*Switch) Run(context.Context, func(func())) error { return ErrUnsupported }

// Stats returns ErrUnsupported.
func (*Switch) Stats() ([]PortStats, error) { return nil, ErrUnsupported }

// Waits returns nothing.
func (*Switch) Waits() (c delay.Counts) { return c }

// Close does nothing.
func (*Switch) Close() error { return nil }
