package fabric

import (
	"io"

	"candela.dev/candela/clock"
	"candela.dev/candela/trace"
)

// Capture writes what a tap sees to a pcap file, as real frames.
type Capture struct {
	w    *trace.PcapWriter
	want func(Point, *Packet) bool
	// Frame appends a packet as a frame; Packet.AppendFrame unless a network keeps frames.
	Frame func(b []byte, p *Packet) []byte
	buf   []byte
	err   error
}

// NewCapture returns a capture to dst of the points and packets that want accepts; nil: all but drops. name names the
// file in errors. Pass its See to Network.SetTap, and Close it at the end.
func NewCapture(dst io.Writer, name string, want func(Point, *Packet) bool) *Capture {
	if want == nil {
		want = func(at Point, _ *Packet) bool { return at.Stage != Dropped }
	}
	const snap = 65535
	frame := func(b []byte, p *Packet) []byte { return p.AppendFrame(b) }
	return &Capture{w: trace.NewPcapWriter(dst, name, snap), want: want, Frame: frame}
}

// See is a Tap.
func (c *Capture) See(at Point, now clock.Time, p *Packet) {
	if c.err != nil || !c.want(at, p) {
		return
	}
	c.buf = c.Frame(c.buf[:0], p)
	c.err = c.w.Write(now.Nanoseconds(), c.buf, len(c.buf))
}

// Packets returns the number of frames written.
func (c *Capture) Packets() uint64 { return c.w.Packets() }

// Close flushes and returns the first error of the capture. The caller closes dst.
func (c *Capture) Close() error {
	if c.err != nil {
		return c.err
	}
	return c.w.Flush()
}
