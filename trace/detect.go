package trace

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"candela.dev/candela/packet"
)

// detectFrames is how many RoCE frames decide about the format of a file.
const detectFrames = 64

// nearConsecutive is how far apart the sequence numbers of neighbouring mirror copies may be: a shard of one of many
// cores sees every hundredth or so.
const nearConsecutive = 1024

// Detection says which format a capture has, and why.
type Detection struct {
	Format Format
	Frames int    // RoCE frames looked at
	Reason string // for messages
}

// Detect looks at the first 64 RoCE frames of src. Lumina's port decides for its prototype; TTLs that are event types
// together with source MACs that count decide for the mirror encoding; everything else is plain. TTL 1 alone is not
// evidence: Lumina's generator sends with it.
func Detect(ctx context.Context, src Source) (Detection, error) {
	var e evidence
	err := src.ForEachFrame(ctx, func(f *Frame) error {
		if e.observe(f.Data); e.frames == detectFrames {
			return errStop
		}
		return nil
	})
	if err != nil && !errors.Is(err, errStop) && !(errors.Is(err, ErrTruncatedFile) && e.frames > 0) {
		return Detection{}, err
	}
	return e.verdict(), nil
}

// evidence is what the first frames say about their format.
type evidence struct {
	frames, lumina, codes int
	src                   []uint64 // source MACs
	dst                   []uint64 // destination MACs
}

func (e *evidence) observe(frame []byte) {
	s, ok, err := locateRoCE(frame, packet.Port)
	if !ok {
		if s, ok, err = locateRoCE(frame, LuminaPort); ok && err == nil {
			e.lumina++
		}
	}
	if !ok || err != nil {
		return
	}
	e.frames++
	ttl := frame[s.l3+7]
	if frame[s.l3]>>4 == 4 {
		ttl = frame[s.l3+8]
	}
	if EventType(ttl) <= MaxEventType {
		e.codes++
	}
	e.src = append(e.src, uint48(frame[6:12]))
	e.dst = append(e.dst, uint48(frame[0:6]))
}

func (e *evidence) verdict() Detection {
	d := Detection{Format: FormatPlain, Frames: e.frames}
	switch {
	case e.frames == 0:
		d.Reason = "no RoCE frame"
	case 2*e.lumina > e.frames:
		d.Format, d.Reason = FormatLumina, fmt.Sprintf("%d of %d frames to UDP port %d", e.lumina, e.frames, LuminaPort)
	case e.codes < e.frames:
		d.Reason = fmt.Sprintf("%d of %d frames have a TTL above %d", e.frames-e.codes, e.frames, MaxEventType)
	case !e.counting():
		d.Reason = "source MACs do not count"
	default:
		d.Format, d.Reason = FormatMirror, "TTLs are event types and source MACs count"
	}
	return d
}

// counting reports whether the source MACs are sequence numbers: nearly all different and, sorted around the 48-bit
// circle, close to one another. In a capture of real hosts addresses recur, and senders are also receivers.
func (e *evidence) counting() bool {
	n := len(e.src)
	if n == 1 {
		const oui = 24 // a device address has a vendor prefix, which sequence numbers of a short run do not reach
		return e.src[0]>>oui < 1<<8
	}
	const few = 8 // more packets than this have more different sources than a test has hosts
	if n < few && e.conversing() {
		return false
	}
	sorted := slices.Clone(e.src)
	slices.Sort(sorted)
	near, same := 0, 0
	for i := range sorted {
		next := sorted[(i+1)%n]
		switch step := (next - sorted[i]) & stampMask; {
		case step == 0:
			same++
		case step <= nearConsecutive:
			near++
		}
	}
	// One gap of the circle is always wide; a quarter of the others may be duplicates or holes.
	return same <= n/4 && 4*near >= 3*(n-1)
}

// conversing reports whether most senders are also receivers, as hosts are. A frame with equal addresses does not
// count: its stamp happens to be its sequence number.
func (e *evidence) conversing() bool {
	known := 0
	for i, m := range e.src {
		if m == e.dst[i] {
			return false
		}
		if slices.Contains(e.dst, m) {
			known++
		}
	}
	return 2*known > len(e.src)
}
