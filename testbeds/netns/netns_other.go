//go:build !linux

package netns

import (
	"context"
	"os"

	"candela.dev/candela/testbeds"
	"candela.dev/candela/testbeds/remote"
)

// Bed exists on Linux only.
type Bed struct{ State State }

// starting is a node on its way up.
type starting struct{}

// Up returns ErrUnsupported.
func Up(context.Context, Config) (*Bed, error) { return nil, ErrUnsupported }

// Close does nothing.
func (*Bed) Close() error { return nil }

// Become returns ErrUnsupported.
func Become([]string) error { return ErrUnsupported }

// Load finds nothing.
func Load(string, string) (*State, error) { return nil, os.ErrNotExist }

// List finds nothing.
func List(string) ([]*State, error) { return nil, nil }

// Down has nothing to do.
func Down(string, string) error { return nil }

// Made is false.
func Made(string, string) bool { return false }

// Dead names nothing.
func (*State) Dead() []string { return nil }

// Alive is false.
func (Process) Alive() bool { return false }

// Testbed returns ErrUnsupported.
func (*State) Testbed(testbeds.Spec) (*remote.Testbed, error) { return nil, ErrUnsupported }
