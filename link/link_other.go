//go:build !linux

package link

import (
	"io"
	"iter"
	"time"
)

// A Ring receives the frames of one interface; not here.
type Ring struct{}

// OpenRing returns ErrUnsupported.
func OpenRing(RingConfig) (*Ring, error) { return nil, ErrUnsupported }

// Wait returns ErrUnsupported.
func (*Ring) Wait(time.Duration) (*Block, error) { return nil, ErrUnsupported }

// Stats returns ErrUnsupported.
func (*Ring) Stats() (Stats, error) { return Stats{}, ErrUnsupported }

// Pause returns ErrUnsupported.
func (*Ring) Pause(time.Duration) error { return ErrUnsupported }

// Stop does nothing.
func (*Ring) Stop() {}

// Close does nothing.
func (*Ring) Close() error { return nil }

// Block is a run of frames; there are none here.
type Block struct{}

// Len returns 0.
func (*Block) Len() int { return 0 }

// Frames visits nothing.
func (*Block) Frames() iter.Seq[Frame] { return func(func(Frame) bool) {} }

// Release does nothing.
func (*Block) Release() {}

// A Sender transmits frames on one interface; not here.
type Sender struct{}

// OpenSender returns ErrUnsupported.
func OpenSender(string) (*Sender, error) { return nil, ErrUnsupported }

// Queue returns ErrUnsupported.
func (*Sender) Queue([]byte) error { return ErrUnsupported }

// Flush returns ErrUnsupported.
func (*Sender) Flush() error { return ErrUnsupported }

// Pending returns 0.
func (*Sender) Pending() int { return 0 }

// Sent returns 0.
func (*Sender) Sent() uint64 { return 0 }

// Close does nothing.
func (*Sender) Close() error { return nil }

// Offloads are the offloads of an interface; none here.
type Offloads struct{ Remaining []string }

// DisableOffloads returns ErrUnsupported.
func DisableOffloads(string) (*Offloads, error) { return nil, ErrUnsupported }

// ActiveOffloads returns ErrUnsupported.
func ActiveOffloads(string) ([]string, error) { return nil, ErrUnsupported }

// Disabled returns nothing.
func (*Offloads) Disabled() []string { return nil }

// Restore does nothing.
func (*Offloads) Restore() error { return nil }

// A Tap receives the frames of one interface one by one; not here.
type Tap struct{}

// OpenTap returns ErrUnsupported.
func OpenTap(TapConfig) (*Tap, error) { return nil, ErrUnsupported }

// Next has nothing.
func (*Tap) Next() (Frame, bool) { return Frame{}, false }

// Release does nothing.
func (*Tap) Release() {}

// Close does nothing.
func (*Tap) Close() error { return nil }

// Absorb returns ErrUnsupported.
func Absorb(string) (io.Closer, error) { return nil, ErrUnsupported }

// AnswerEchoes returns ErrUnsupported.
func AnswerEchoes(string) (io.Closer, error) { return nil, ErrUnsupported }
