//go:build !linux

package xdp

import "candela.dev/candela/injector/p4"

// A Datapath is the injector on a set of interfaces; not here.
type Datapath struct{}

// Open returns ErrUnsupported.
func Open(Config) (*Datapath, error) { return nil, ErrUnsupported }

// Check returns ErrUnsupported.
func (*Datapath) Check() error { return ErrUnsupported }

// Close does nothing.
func (*Datapath) Close() error { return nil }

// Fault returns ErrUnsupported.
func (*Datapath) Fault() error { return ErrUnsupported }

// Losses returns ErrUnsupported.
func (*Datapath) Losses() ([]uint64, error) { return nil, ErrUnsupported }

// Mode says any.
func (*Datapath) Mode() Mode { return ModeAny }

// Reset does nothing.
func (*Datapath) Reset() {}

// Set returns ErrUnsupported.
func (*Datapath) Set(uint32, p4.Key, p4.Action) error { return ErrUnsupported }

// Unset does nothing.
func (*Datapath) Unset(uint32, p4.Key) {}

// SetDefault returns ErrUnsupported.
func (*Datapath) SetDefault(uint32, p4.Action) error { return ErrUnsupported }

// SetCloneSession returns ErrUnsupported.
func (*Datapath) SetCloneSession(uint32, []uint16) error { return ErrUnsupported }

// SetMulticastGroup returns ErrUnsupported.
func (*Datapath) SetMulticastGroup(uint32, []uint16) error { return ErrUnsupported }

// Hits returns 0.
func (*Datapath) Hits(uint32, p4.Key) uint64 { return 0 }

// SetHits does nothing.
func (*Datapath) SetHits(uint32, p4.Key, uint64) {}

// Counter returns zeros.
func (*Datapath) Counter(uint32, int) (packets, bytes uint64) { return 0, 0 }

// SetCounter does nothing.
func (*Datapath) SetCounter(uint32, int, uint64, uint64) {}
