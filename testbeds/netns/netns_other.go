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

// starting is a node being started.
type starting struct{}

// Up returns ErrUnsupported.
func Up(context.Context, Config) (*Bed, error) { return nil, ErrUnsupported }

// Close does nothing.
func (*Bed) Close() error { return nil }

// Become returns ErrUnsupported.
func Become([]string) error { return ErrUnsupported }

// Load returns os.ErrNotExist.
func Load(string, string) (*State, error) { return nil, os.ErrNotExist }

// List returns nothing.
func List(string) ([]*State, error) { return nil, nil }

// Down does nothing.
func Down(string, string) error { return nil }

// Made returns false.
func Made(string, string) bool { return false }

// Dead returns nothing.
func (*State) Dead() []string { return nil }

// Alive returns false.
func (Process) Alive() bool { return false }

// Testbed returns ErrUnsupported.
func (*State) Testbed(testbeds.Spec) (*remote.Testbed, error) { return nil, ErrUnsupported }
