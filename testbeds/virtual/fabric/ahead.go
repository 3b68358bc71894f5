package fabric

import "math/bits"

// lookAhead reads what the next events of the open day will read first, if the network is large. The reads don't depend on each
// other, so that a processor waits for memory once for all of them rather than once for each. It is done for so many at a time
// that what they read is still in the first cache when they are served.
func (e *engine) lookAhead() {
	if !e.large {
		e.ahead = len(e.today)
		return
	}
	e.ahead = min(e.position+batch, len(e.today))
	e.touched += e.touch(e.today[e.position:e.ahead])
}

// batch is how many events are looked ahead to.
const batch = 24

// touch reads what at most batch events begin with, then what that leads to, and so on: at each step, from all of them.
func (e *engine) touch(events []event) (sum uint64) {
	var packets [batch]*Packet // that arrive
	var ports [batch]*Port     // that send
	arriving, sending := packets[:0], ports[:0]
	for _, ev := range events {
		switch i := int(ev.what() >> kindBits); ev.what() & kindMask {
		case arrival:
			p := e.packets.at(i)
			arriving = append(arriving, p)
			sum += uint64(p.to)
		case freeWire:
			pt := &e.ports[i]
			sum += pt.touch()
			if pt.filled != 0 {
				sending = append(sending, pt)
			}
		case wakeUp, nothing:
		}
	}
	for _, p := range arriving {
		sum += e.ports[p.to].received
	}
	for _, pt := range sending {
		for filled := pt.filled; filled != 0; filled &= filled - 1 {
			q := &pt.queues[bits.TrailingZeros64(filled)]
			sum += uint64(q.bytes) + q.removed
		}
	}
	for _, p := range arriving {
		if pt := &e.ports[p.to]; pt.sw != nil {
			sum += pt.sw.touch(p)
		} else {
			sum += uint64(pt.host.id) + p.ID
		}
	}
	for _, pt := range sending {
		for filled := pt.filled; filled != 0; filled &= filled - 1 {
			sum += uint64(pt.queues[bits.TrailingZeros64(filled)].first.Size)
		}
	}
	return sum
}

// touch reads what queueing or sending a packet uses of the port.
func (pt *Port) touch() uint64 { return pt.filled + pt.sent }

// touch reads what p will use of the port that it leaves by, if there is no choice of ports.
func (sw *Switch) touch(p *Packet) uint64 {
	port, ok := sw.onlyWay(p.Dst)
	if !ok {
		return 0
	}
	out := &sw.ports[port]
	lowest, highest := &out.queues[0], &out.queues[len(out.queues)-1]
	return out.touch() + uint64(lowest.bytes) + uint64(highest.bytes)
}
