package fabric

import (
	"math"
	"math/bits"

	"candela.dev/candela/clock"
)

// Occupancy says how much a queue held over time, in bounded memory. A packet that leaves in the instant of its arrival
// does not count.
type Occupancy struct {
	most             int              // points
	span             clock.Time       // of the measurement
	area, packetArea float64          // bytes and packets, times picoseconds
	classes          []clock.Duration // how long the queue held so much
	points           []Stretch
	width            clock.Duration // of a point
	end              clock.Time     // of the last point
	dropped          [Reasons]uint64
}

// meter is what a queue held of late, in two cache lines: a large network has more queues than the caches hold. What it
// holds goes to the queue's Occupancy when it is full.
type meter struct {
	base       clock.Time
	packetArea float64 // up to the last entry
	all        *Occupancy
	packets    int32 // since the last entry
	used       int32
	entries    [12]entry
}

// entry says that a queue holds so many bytes from an instant on, up to that of the next entry.
type entry struct {
	at    uint32 // picoseconds after base
	bytes uint32
}

// Stretch is one point of a series: what a queue held in a stretch of time.
type Stretch struct {
	Mean float64 // bytes; until the meter is closed, times picoseconds
	Max  int     // bytes
}

// Points of a series: a network with many ports has fewer of each queue.
const (
	mostPoints  = 256
	leastPoints = 32
	allPoints   = 1 << 19 // over ports
	firstWidth  = clock.Microsecond
)

// Meter measures the occupancy of every queue from now on, until [Network.Unmeter]: exactly, which in a large network
// costs a quarter of its speed and more, or by [Network.Sample], which costs little.
func (n *Network) Meter(exactly bool) {
	n.points = mostPoints
	for n.points > leastPoints && n.points*len(n.ports) > allPoints {
		n.points /= 2
	}
	queues := 0
	for i := range n.ports {
		pt := &n.ports[i]
		pt.metered, pt.meters = exactly && len(pt.queues) > 0, int32(queues)
		queues += len(pt.queues)
	}
	n.meters = make([]meter, queues)
}

// Sample books what every queue holds: it counts until the next sample.
func (n *Network) Sample(now clock.Time) {
	for i := range n.ports {
		pt := &n.ports[i]
		if pt.filled == 0 && pt.held == 0 {
			continue
		}
		for j := range pt.queues {
			if pt.filled&(1<<j) != 0 || pt.held&heldBit(j) != 0 {
				pt.changed(n, now, j)
			}
		}
	}
}

// Metered reports whether queues are measured.
func (n *Network) Metered() bool { return n.meters != nil }

// Unmeter ends the measurement, if there is one.
func (n *Network) Unmeter(now clock.Time) {
	if !n.Metered() {
		return
	}
	width := firstWidth
	for clock.Time(0).Add(width*clock.Duration(n.points)) < now {
		width *= 2
	}
	for i := range n.ports {
		pt := &n.ports[i]
		for j := range pt.queues {
			m := &n.meters[int(pt.meters)+j]
			m.flush(n, now)
			if m.all != nil {
				m.all.close(now, width)
				m.all.packetArea = m.packetArea
			}
		}
		pt.metered, pt.held = false, 0
	}
}

// Occupancy returns what a queue held while it was measured; nil: nothing was seen to wait or be dropped there.
func (pt *Port) Occupancy(queue int) *Occupancy {
	if pt.net == nil || pt.net.meters == nil || queue >= len(pt.queues) {
		return nil
	}
	return pt.net.meters[int(pt.meters)+queue].all
}

// heldBit returns the bit of Port.held for a queue. Those from 7 on share one, which stays set.
func heldBit(queue int) uint8 { return 1 << min(queue, 7) }

// changed books that a queue of a port, which is metered, holds something else from now on.
func (pt *Port) changed(n *Network, now clock.Time, queue int) {
	m, q := &n.meters[int(pt.meters)+queue], &pt.queues[queue]
	if now.Sub(m.base) > math.MaxUint32 || m.used == int32(len(m.entries)) || m.used == 0 {
		m.flush(n, now)
	}
	at, last := uint32(now.Sub(m.base)), &m.entries[m.used-1]
	if last.at < at {
		m.packetArea += float64(m.packets) * float64(at-last.at)
		last = &m.entries[m.used]
		last.at = at
		m.used++
	}
	last.bytes, m.packets = uint32(q.bytes), q.packets
	if bit := heldBit(queue); q.bytes > 0 {
		pt.held |= bit
	} else if queue < 7 {
		pt.held &^= bit
	}
}

// flush books the entries.
func (m *meter) flush(n *Network, now clock.Time) {
	entries := m.entries[:m.used]
	held := entry{}
	for i := range entries {
		held = entries[i]
		from, until := m.base.Add(clock.Duration(held.at)), now
		if i+1 < len(entries) {
			until = m.base.Add(clock.Duration(entries[i+1].at))
		} else {
			m.packetArea += float64(m.packets) * float64(until.Sub(from))
		}
		if held.bytes > 0 && from < until {
			m.occupancy(n).hold(from, until, int(held.bytes))
		}
	}
	m.base, m.used, m.entries[0] = now, 1, entry{0, held.bytes}
}

func (m *meter) occupancy(n *Network) *Occupancy {
	if m.all == nil {
		m.all = &Occupancy{most: n.points, width: firstWidth}
	}
	return m.all
}

// lost counts a packet that was dropped at a queue of a port, which is metered.
func (pt *Port) lost(n *Network, queue int, why Reason) {
	n.meters[int(pt.meters)+queue].occupancy(n).dropped[why]++
}

// hold books what the queue held.
func (o *Occupancy) hold(since, now clock.Time, bytes int) {
	span := now.Sub(since)
	o.area += float64(bytes) * float64(span)
	class := classOf(bytes)
	for class >= len(o.classes) {
		o.classes = append(o.classes, 0)
	}
	o.classes[class] += span
	for from := since; from < now; {
		if from >= o.end {
			o.reach(from)
		}
		until := min(now, o.end)
		p := &o.points[len(o.points)-1]
		p.Mean += float64(bytes) * float64(until.Sub(from))
		p.Max = max(p.Max, bytes)
		from = until
	}
}

// reach adds points until they cover an instant. If they become too many, every two become one.
func (o *Occupancy) reach(at clock.Time) {
	for at.Sub(0) >= o.width*clock.Duration(o.most) {
		o.halve()
	}
	points := int(at.Sub(0)/o.width) + 1
	for len(o.points) < points {
		o.points = append(o.points, Stretch{})
	}
	o.end = clock.Time(0).Add(o.width * clock.Duration(points))
}

// halve joins every two points.
func (o *Occupancy) halve() {
	for i := range o.points {
		if p := &o.points[i/2]; i%2 == 1 {
			p.Mean, p.Max = p.Mean+o.points[i].Mean, max(p.Max, o.points[i].Max)
		} else {
			*p = o.points[i]
		}
	}
	o.points = o.points[:(len(o.points)+1)/2]
	o.width *= 2
	o.end = clock.Time(0).Add(o.width * clock.Duration(len(o.points)))
}

// close ends the measurement: points become as wide as those of all queues.
func (o *Occupancy) close(now clock.Time, width clock.Duration) {
	for o.width < width {
		o.halve()
	}
	if now > 0 {
		o.reach(now - 1)
	}
	for i := range o.points {
		start := o.width * clock.Duration(i)
		o.points[i].Mean /= float64(min(o.width, now.Sub(0)-start))
	}
	o.span = now
}

// Mean returns the time averages over the whole measurement, in bytes and packets.
func (o *Occupancy) Mean() (bytes, packets float64) {
	if o.span == 0 {
		return 0, 0
	}
	return o.area / float64(o.span), o.packetArea / float64(o.span)
}

// Waited returns how long something waited in the queue.
func (o *Occupancy) Waited() (sum clock.Duration) {
	for _, d := range o.classes {
		sum += d
	}
	return sum
}

// Quantile returns bytes that the queue did not exceed for the share q of the time: at most 64 bytes or one part in 32
// more than the smallest such number.
func (o *Occupancy) Quantile(q float64) int {
	above := clock.Duration((1 - q) * float64(o.span.Sub(0))) // that long the queue may hold more
	for class := len(o.classes) - 1; class >= 0; class-- {
		if above -= o.classes[class]; above < 0 {
			return greatestOf(class)
		}
	}
	return 0
}

// Series returns the points, and how long a stretch of time each of them stands for.
func (o *Occupancy) Series() (points []Stretch, width clock.Duration) { return o.points, o.width }

// Dropped returns how many packets were dropped at the queue for a reason.
func (o *Occupancy) Dropped(why Reason) uint64 { return o.dropped[why] }

// Classes of occupancy: 64 bytes each up to 64 of them, then 32 for each doubling.
const (
	classUnit = 6 // log2 of bytes
	classBits = 5 // log2 of classes for each doubling
)

func classOf(bytes int) int {
	v := (bytes + 1<<classUnit - 1) >> classUnit
	e := max(bits.Len(uint(v))-classBits-1, 0)
	return e<<classBits + v>>e
}

// greatestOf returns the most bytes of a class.
func greatestOf(class int) int {
	e := max(class>>classBits-1, 0)
	return ((class-e<<classBits+1)<<e - 1) << classUnit
}
