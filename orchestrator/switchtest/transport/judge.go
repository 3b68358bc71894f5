package transport

import (
	"cmp"
	"fmt"
	"slices"

	"candela.dev/candela/analyzers"
	"candela.dev/candela/clock"
	"candela.dev/candela/testbeds/virtual/fabric"
	"candela.dev/candela/trace"
)

// Judge is the analyzer of a transport's hosts. It is called as the transport is.
type Judge struct {
	Rules     []analyzers.Rule
	OfNetwork func(rule string) bool // a rule about the network between the hosts; nil: there are none
	// New returns the observer of a run.
	New func(t *Trial) Observer
	// Recorded returns one of the captures that a run left; why says why they are not enough.
	Recorded func(t *Trial) (r Recorder, why string)
	Note     string // what else a reader has to know of a judgement from captures
}

// Observer sees every packet at every tap of a run.
type Observer interface {
	Observe(at fabric.Point, now clock.Time, p *fabric.Packet)
	Finish(end clock.Time, drained bool) analyzers.Result
}

// Recorder sees the frames of captures: first all that came to the switches, then all that left them.
type Recorder interface {
	Frame(f *Frame) error
	Finish(end clock.Time, drained bool) analyzers.Result
}

// Frame is a frame of a capture, at a port that a host is at.
type Frame struct {
	*trace.Frame
	Behind bool          // it has left the switches; else it has come to them
	Host   fabric.HostID // at that port
	Known  bool          // Host is it; of a single switch the frame itself tells
}

// maxSightings bounds the memory of judging a recording: each takes some 80 bytes.
const maxSightings = 20_000_000

// Sightings are what captures show of the packets of a transport, as they were to be seen at the NICs of the hosts.
type Sightings[T any] struct {
	NICTimes
	list []sighting[T]
}

type sighting[T any] struct {
	at      clock.Time
	arrived bool
	seen    T
}

// NewSightings returns none, of a recorded run.
func NewSightings[T any](t *Trial) Sightings[T] { return Sightings[T]{NICTimes: newNICTimes(t)} }

// Add appends what was seen at a NIC.
func (s *Sightings[T]) Add(f *Frame, at clock.Time, seen T) error {
	if len(s.list) == maxSightings {
		return fmt.Errorf("packet %d: packets are more than %d", f.Number, maxSightings)
	}
	s.list = append(s.list, sighting[T]{at, f.Behind, seen})
	return nil
}

// Each hands on what was seen in order of time. What reaches a host in the instant in which it sends something has
// come first if it was added first. drained is false if the observation ended before everything had arrived.
func (s *Sightings[T]) Each(drained bool, f func(*T)) {
	slices.SortStableFunc(s.list, func(a, b sighting[T]) int { return cmp.Compare(a.at, b.at) })
	for i := range s.list {
		if late := s.list[i].arrived && s.list[i].at > s.end; drained || !late {
			f(&s.list[i].seen)
		}
	}
}
