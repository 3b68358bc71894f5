//go:build !linux

package bmv2

import (
	"context"
	"errors"
	"net"

	"google.golang.org/grpc"
)

// ErrUnsupported reports that this operating system lacks interfaces for the switch.
var ErrUnsupported = errors.New("bmv2 as an injector needs Linux")

// Switch is a running simple_switch_grpc.
type Switch struct{}

// Open returns ErrUnsupported.
func Open(context.Context, Config) (*Switch, error) { return nil, ErrUnsupported }

// Serve returns ErrUnsupported.
func (s *Switch) Serve(context.Context, net.Listener, ...grpc.ServerOption) error {
	return ErrUnsupported
}

// Close does nothing.
func (s *Switch) Close() error { return nil }
