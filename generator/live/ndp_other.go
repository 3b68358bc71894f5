//go:build !linux

package live

import (
	"context"
	"time"

	"candela.dev/candela/generator/ndp"
)

// NDPHost is an NDP endpoint on a real interface; not here.
type NDPHost struct{}

// OpenNDP returns ErrUnsupported.
func OpenNDP(NDPConfig) (*NDPHost, error) { return nil, ErrUnsupported }

// Send returns ErrUnsupported.
func (*NDPHost) Send(ndp.Endpoint, uint64) (uint32, error) { return 0, ErrUnsupported }

// Wait returns ErrUnsupported.
func (*NDPHost) Wait(context.Context) error { return ErrUnsupported }

// Flows returns ErrUnsupported.
func (*NDPHost) Flows() ([]NDPFlow, error) { return nil, ErrUnsupported }

// Counters returns ErrUnsupported.
func (*NDPHost) Counters() (ndp.Counters, uint64, error) { return ndp.Counters{}, 0, ErrUnsupported }

// Quiet returns 0.
func (*NDPHost) Quiet() time.Duration { return 0 }

// Missed returns ErrUnsupported.
func (*NDPHost) Missed() (uint64, error) { return 0, ErrUnsupported }

// Close does nothing.
func (*NDPHost) Close() error { return nil }
