package rdma

import "candela.dev/candela/clock"

// etsClass is a traffic class with a fixed share of the port, as in enhanced transmission selection (IEEE 802.1Qaz) at
// full load, but without use of the other classes' idle bandwidth.
type etsClass struct {
	rate float64    // bit/s
	next clock.Time // earliest transmission of the next packet
}

// newClasses returns the classes of a port; shares are percentages.
func newClasses(shares []float64, port clock.BitRate) []etsClass {
	classes := make([]etsClass, len(shares))
	for i, share := range shares {
		classes[i].rate = float64(port) * share / 100
	}
	return classes
}

// gate returns when the class may send next. A nil class may always send.
func (c *etsClass) gate() clock.Time {
	if c == nil {
		return 0
	}
	return c.next
}

// sent charges a frame to the class.
func (c *etsClass) sent(now clock.Time, frame int) {
	if c == nil {
		return
	}
	const overhead = 24 // frame check sequence, preamble and gap
	bits := float64((frame + overhead) * 8)
	c.next = max(c.next, now).Add(clock.Duration(bits * float64(clock.Second) / c.rate))
}

// slowPath is the queue of the processor that handles packets with MigReq = 0.
type slowPath struct {
	free clock.Time // completion time of all admitted packets
}

// admit reports whether a packet that arrives at now fits the queue, and queues it.
func (s *slowPath) admit(now clock.Time, p *Profile) bool {
	if s.free > now && s.free.Sub(now) >= clock.Duration(p.SlowPathQueue)*p.SlowPathService {
		return false
	}
	s.free = max(s.free, now).Add(p.SlowPathService)
	return true
}
