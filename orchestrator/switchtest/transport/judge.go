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

// Judge is the analyzer of a transport's hosts.
type Judge struct {
	Rules     []analyzers.Rule
	OfNetwork func(rule string) bool // whether a rule is about the network between the hosts; nil: no rule is
	// New returns the observer of a run.
	New func(t *Trial) Observer
	// Recorded returns a recorder for the captures of a run; why explains why they do not suffice.
	Recorded func(t *Trial) (r Recorder, why string)
	Note     string // further information for readers of a judgement from captures
	// AtOnce says what the observer reads of a network while it runs, so that one worker must simulate it; empty, or nil:
	// it sees packets alone.
	AtOnce func(s *fabric.Spec) string
}

// Observer sees every packet at every tap of a run.
type Observer interface {
	Observe(at fabric.Point, now clock.Time, p *fabric.Packet)
	Finish(end clock.Time, drained bool) analyzers.Result
}

// Recorder judges captures: first all frames that entered the switches, then all that left them.
type Recorder interface {
	Frame(f *Frame) error
	Finish(end clock.Time, drained bool) analyzers.Result
}

// Frame is a frame of a capture, at a port that connects a host.
type Frame struct {
	*trace.Frame
	Behind bool          // it has left the switches; otherwise it enters them
	Host   fabric.HostID // at that port, if Known
	Known  bool          // Host is set; for a single switch the frame's addresses identify the host
}

// maxSightings bounds the memory for judging a recording: about 80 bytes each.
const maxSightings = 20_000_000

// Sightings are the captured packets of a transport, with their times at the NICs of the hosts.
type Sightings[T any] struct {
	NICTimes
	list []sighting[T]
}

type sighting[T any] struct {
	at      clock.Time
	arrived bool
	seen    T
}

// NewSightings returns empty Sightings of a recorded run.
func NewSightings[T any](t *Trial) Sightings[T] { return Sightings[T]{NICTimes: newNICTimes(t)} }

// Add appends a packet seen at a NIC. It fails beyond maxSightings.
func (s *Sightings[T]) Add(f *Frame, at clock.Time, seen T) error {
	if len(s.list) == maxSightings {
		return fmt.Errorf("packet %d: packets are more than %d", f.Number, maxSightings)
	}
	s.list = append(s.list, sighting[T]{at, f.Behind, seen})
	return nil
}

// Each calls f for all packets in order of time. Packets of the same instant keep the order in which they were added.
// If drained is false, arrivals after the end of the observation are left out.
func (s *Sightings[T]) Each(drained bool, f func(*T)) {
	slices.SortStableFunc(s.list, func(a, b sighting[T]) int { return cmp.Compare(a.at, b.at) })
	for i := range s.list {
		if late := s.list[i].arrived && s.list[i].at > s.end; drained || !late {
			f(&s.list[i].seen)
		}
	}
}
