package fabric

import (
	"io"

	"candela.dev/candela/clock"
	"candela.dev/candela/trace"
)

// Capture writes the packets of a tap to a pcap file, as real frames.
type Capture struct {
	w    *trace.PcapWriter
	want func(Point, *Packet) bool
	net  *Network
	buf  []byte
	err  error
}

// NewCapture returns a capture of n to dst, of the points and packets that want accepts; nil: all except drops. name
// names the file in errors. Pass See to Network.SetTap, and call Close at the end.
func NewCapture(n *Network, dst io.Writer, name string, want func(Point, *Packet) bool) *Capture {
	if want == nil {
		want = func(at Point, _ *Packet) bool { return at.Stage != Dropped }
	}
	const snap = 65535
	return &Capture{w: trace.NewPcapWriter(dst, name, snap), want: want, net: n}
}

// See is a Tap.
func (c *Capture) See(at Point, now clock.Time, p *Packet) {
	if c.err != nil || !c.want(at, p) {
		return
	}
	c.buf = c.net.AppendFrame(c.buf[:0], p)
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
