//go:build !linux

package qemu

import (
	"context"

	"candela.dev/candela/clock"
	"candela.dev/candela/injector/pipeline"
)

// A Switch needs Linux.
type Switch struct{ pipeline *pipeline.Pipeline }

// Open fails.
func Open(Config) (*Switch, error) { return nil, ErrUnsupported }

// Close does nothing.
func (s *Switch) Close() error { return ErrUnsupported }

// Run fails.
func (s *Switch) Run(context.Context, func(func())) error { return ErrUnsupported }

// Stats returns nothing.
func (s *Switch) Stats() []PortStats { return nil }

// Quiet returns nothing.
func (s *Switch) Quiet() (now, lastRoCE clock.Time) { return 0, 0 }

// Delays returns nothing.
func (s *Switch) Delays() (d Delays) { return d }

// Queued returns nothing.
func (s *Switch) Queued() int { return 0 }

// Holds returns nothing.
func (s *Switch) Holds() []Holds { return nil }
