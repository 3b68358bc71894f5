package traffic

import (
	"cmp"
	"encoding/binary"
	"fmt"
	"io"
	"math/rand/v2"
	"slices"

	"candela.dev/candela/packet"
	"candela.dev/candela/trace"
)

// A Recording holds every frame that passed each place between two hosts. Taps make captures of it.
type Recording struct {
	Connections []trace.Connection
	seen        [places][]sighting
	mirrored    []sighting
}

// Place is where a tap is.
type Place int

// Places.
const (
	AtSwitch    Place = iota // frames as they reach the switch
	BehindIt                 // frames as they leave the switch
	AtRequester              // at the host of the first connection's requester: what it sends and what arrives
	AtResponder

	places
)

// sees returns when a frame passes the place.
func (p Place) sees(f *Frame) (at int64, ok bool) {
	switch {
	case p == AtSwitch:
		return f.Switch, !f.Copy
	case p == BehindIt:
		return f.Passed, !f.Lost
	case (p == AtRequester) != f.Back:
		return f.Sent, !f.Copy
	default:
		return f.Arrived, !f.Lost
	}
}

// seesCopy returns when the copy that the switch made of a frame, if any, passes the place.
func (p Place) seesCopy(f *Frame) (at int64, ok bool) {
	switch {
	case f.Copied == 0 || p == AtSwitch || (p == AtRequester) != f.Back && p != BehindIt:
		return 0, false
	case p == BehindIt:
		return f.Copied, true
	default:
		return f.CopyArrived, true
	}
}

// sighting is a frame at a place.
type sighting struct {
	at    int64
	frame []byte
	event trace.EventType // in a mirror trace
}

// Add notes that a frame passed a place. The recording keeps the bytes.
func (r *Recording) Add(place Place, atNS int64, frame []byte) {
	r.seen[place] = append(r.seen[place], sighting{at: atNS, frame: frame})
}

// AddMirror records what an injector at the switch mirrors: the frame as it arrived, and its fate.
func (r *Recording) AddMirror(atNS int64, frame []byte, event trace.EventType) {
	r.mirrored = append(r.mirrored, sighting{atNS, frame, event})
}

// Frames returns how many frames reached the switch.
func (r *Recording) Frames() int { return len(r.seen[AtSwitch]) }

// A Tap is where frames are seen, and the faults of the recording.
type Tap struct {
	Place Place
	// OffsetNS and DriftPPM are those of its clock.
	OffsetNS int64
	DriftPPM float64
	Missing  float64 // share of frames that it misses
	// Doubled: every frame is recorded a second time soon after; if Routed, from a router's other port (TTL one less).
	Doubled, Routed bool

	Format FileFormat
	Snap   int  // bytes kept of each frame; 0: all
	Tagged bool // frames have an 802.1Q tag there
	// FromNS and ToNS bound the capture; 0: from the start, to the end.
	FromNS, ToNS int64
}

// epoch is when recordings take place, in ns since 1970.
const epoch = 1_700_000_000_000_000_000

// ttl is that of the frames of a session.
const ttl = 64

// Write writes the capture that a tap makes.
func (r *Recording) Write(w io.Writer, seed uint64, tap Tap) error {
	rng := rand.New(rand.NewPCG(seed, 0x746170))
	all := make([]sighting, 0, len(r.seen[tap.Place]))
	for _, s := range r.seen[tap.Place] {
		if rng.Float64() < tap.Missing || s.at < tap.FromNS || tap.ToNS > 0 && s.at >= tap.ToNS {
			continue
		}
		all = append(all, s)
		if tap.Doubled {
			copied := sighting{at: s.at + 100 + rng.Int64N(1500), frame: s.frame}
			if tap.Routed {
				copied.frame = routed(s.frame)
			}
			all = append(all, copied)
		}
	}
	slices.SortStableFunc(all, func(a, b sighting) int { return cmp.Compare(a.at, b.at) })
	out := tap.Format.create(w)
	for _, s := range all {
		frame := s.frame
		if tap.Tagged {
			frame = tagged(frame)
		}
		size := len(frame)
		if tap.Snap > 0 {
			frame = frame[:min(size, tap.Snap)]
		}
		clock := epoch + tap.OffsetNS + s.at + int64(float64(s.at)*tap.DriftPPM/1e6)
		if err := out.Write(clock, frame, size); err != nil {
			return err
		}
	}
	return out.Flush()
}

// SpanNS returns when the last frame reached the switch.
func (r *Recording) SpanNS() int64 {
	last := int64(0)
	for _, s := range r.seen[AtSwitch] {
		last = max(last, s.at)
	}
	return last
}

// routed returns a frame as a router passes it on.
func routed(frame []byte) []byte {
	b := slices.Clone(frame)
	ip := b[packet.EthernetLen:]
	if ip[0]>>4 == 6 {
		ip[7]--
		return b
	}
	ip[8]--
	binary.BigEndian.PutUint16(ip[10:], packet.HeaderChecksum(ip[:packet.IPv4Len]))
	return b
}

// WriteMirror writes the mirror trace of an injector at the switch.
func (r *Recording) WriteMirror(w io.Writer) error {
	out := trace.NewPcapWriter(w, "mirror", 0)
	for i, s := range r.mirrored {
		frame := slices.Clone(s.frame)
		m := trace.MirrorMeta{Seq: uint64(i + 1), TimeNS: 1_000_000 + s.at, UDPDstPort: packet.Port, Event: s.event}
		if err := trace.EncodeMirror(frame, m); err != nil {
			return err
		}
		if err := out.Write(epoch+s.at, frame, len(frame)); err != nil {
			return err
		}
	}
	return out.Flush()
}

// WriteConnections writes the connections document.
func (r *Recording) WriteConnections(w io.Writer) error {
	c, err := trace.NewConnections(r.Connections)
	if err != nil {
		return fmt.Errorf("recording: %w", err)
	}
	return c.Write(w)
}
