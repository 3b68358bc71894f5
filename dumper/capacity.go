package dumper

import (
	"fmt"

	"candela.dev/candela/clock"
)

// Capacity is how much a host can take. The zero value never loses a packet.
//
// The model is one queue with one server: a frame occupies the server for its bits at Rate or for 1/PacketsPerSecond,
// whichever is longer, and BufferBytes until it is served. A frame that does not fit into the buffer is lost. The model
// depends only on arrival times and lengths.
type Capacity struct {
	PacketsPerSecond int64         // 0: no limit
	Rate             clock.BitRate // bits per second of captured frames; 0: no limit
	BufferBytes      int64         // needed with either limit
}

func (c Capacity) limited() bool { return c.PacketsPerSecond > 0 || c.Rate > 0 }

func (c Capacity) validate() error {
	switch {
	case c.PacketsPerSecond < 0 || c.Rate < 0 || c.BufferBytes < 0:
		return fmt.Errorf("capacity %d packets/s, %d b/s, %d bytes: negative", c.PacketsPerSecond, c.Rate, c.BufferBytes)
	case c.limited() && c.BufferBytes == 0:
		return fmt.Errorf("capacity is limited but the buffer has 0 bytes: every packet would be lost")
	}
	return nil
}

// service returns how long a frame of n bytes occupies the server.
func (c Capacity) service(n int) clock.Duration {
	d := clock.Duration(0)
	if c.Rate > 0 {
		d = c.Rate.Serialise(n)
	}
	if c.PacketsPerSecond > 0 {
		d = max(d, clock.Second/clock.Duration(c.PacketsPerSecond))
	}
	return d
}

// queue is the state of a host's buffer.
type queue struct {
	capacity Capacity
	waiting  []queued // ring of frames not yet served, oldest at head
	head, n  int
	bytes    int64
	free     clock.Time // when the server has nothing left to do
}

type queued struct {
	done  clock.Time
	bytes int64
}

// admit decides about a frame of n bytes that arrives at now.
func (q *queue) admit(now clock.Time, n int) bool {
	if !q.capacity.limited() {
		return true
	}
	for q.n > 0 && q.waiting[q.head].done <= now {
		q.bytes -= q.waiting[q.head].bytes
		q.head = (q.head + 1) & (len(q.waiting) - 1)
		q.n--
	}
	if q.bytes+int64(n) > q.capacity.BufferBytes {
		return false
	}
	q.free = max(q.free, now).Add(q.capacity.service(n))
	q.push(queued{q.free, int64(n)})
	return true
}

// push appends to the ring, whose length is a power of two, bounded by the frames that fit into the buffer.
func (q *queue) push(f queued) {
	if q.n == len(q.waiting) {
		grown := make([]queued, max(16, 2*len(q.waiting)))
		for i := range q.n {
			grown[i] = q.waiting[(q.head+i)&(len(q.waiting)-1)]
		}
		q.waiting, q.head = grown, 0
	}
	q.waiting[(q.head+q.n)&(len(q.waiting)-1)] = f
	q.n++
	q.bytes += f.bytes
}
