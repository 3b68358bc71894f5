package pfabric

import "candela.dev/candela/clock"

type key struct{ src, dst, connection uint32 }

// state is that of a packet that was sent.
type state uint8

const (
	flying state = iota
	lost
	acknowledged
)

// flow is a flow as its sender must see it, and what has arrived at its receiver.
type flow struct {
	key
	number int // for findings
	host   *host

	total     uint32 // packets; 0: without end
	endless   bool   // it had no end at first: ranks follow that of its first packet
	base      uint32 // lower ones are acknowledged
	packets   []state
	flight    int
	missing   int // lost, and not retransmitted since
	window    float64
	threshold float64
	timeouts  int // in a row
	expires   clock.Time
	probing   bool
	probed    bool       // a probe is in flight
	able      clock.Time // since when it may send; Never: it may not
	origin    uint64     // rank of packet 0
	fixed     bool       // of all packets
	arrivals
}

// arrivals is what has arrived at the receiver.
type arrivals struct {
	below uint32 // lower packets have arrived
	after map[uint32]bool
	owed  map[uint32]int // ACKs, by packet
	queue []arrival      // the oldest first
}

type arrival struct {
	at     clock.Time
	number uint32
}

func (f *flow) next() uint32 { return f.base + uint32(len(f.packets)) }

// choose returns the packet that must be sent next, and whether one may be sent.
func (f *flow) choose() (number uint32, may bool) {
	switch {
	case f.probing:
		return f.base, !f.probed
	case f.flight >= f.room():
		return 0, false
	case f.missing > 0:
		for i, s := range f.packets {
			if s == lost {
				return f.base + uint32(i), true
			}
		}
	}
	return f.next(), f.total == 0 || f.next() < f.total
}

// room returns the window in packets. Sums of fractions may differ from the sender's in the last digit.
func (f *flow) room() int { return int(f.window + 1e-9) }

// settle follows every change at now.
func (f *flow) settle(now clock.Time) {
	switch _, may := f.choose(); {
	case !may:
		f.able = clock.Never
	case f.able == clock.Never:
		f.able = now
	}
}

// expire lets the timer run out if it does before now, or at now if that is included.
func (f *flow) expire(cfg *Config, now clock.Time, included bool) {
	at := f.expires
	if at == clock.Never || at > now || at == now && !included {
		return
	}
	const least = 2 // of the threshold
	f.expires = clock.Never
	f.timeouts++
	f.threshold, f.window = max(least, f.window/2), 1
	for i, s := range f.packets {
		if s == flying {
			f.packets[i] = lost
			f.missing++
		}
	}
	f.flight, f.probed = 0, false
	f.probing = cfg.ProbeAfter > 0 && f.timeouts >= cfg.ProbeAfter
	f.settle(at)
}

// hear takes an ACK for a packet, or for a probe, and for all packets below total.
func (f *flow) hear(cfg *Config, now clock.Time, number, total uint32) {
	probe := number == noNumber
	if !probe && number >= f.next() || total > f.next() {
		return
	}
	fresh := 0
	if !probe {
		fresh = f.mark(number)
	}
	for f.base < total {
		fresh += f.mark(f.base)
	}
	if f.probing {
		f.probing, f.probed, f.window, f.timeouts, f.expires = false, false, 1, 0, clock.Never
	}
	for range fresh {
		if f.window < f.threshold {
			f.window++
		} else {
			f.window += 1 / f.window
		}
	}
	if fresh > 0 {
		if f.timeouts, f.expires = 0, clock.Never; f.flight > 0 {
			f.expires = now.Add(cfg.RTO)
		}
	}
	f.settle(now)
}

// mark marks a packet as acknowledged and returns 1 if that is news.
func (f *flow) mark(number uint32) int {
	if number < f.base || f.packets[number-f.base] == acknowledged {
		return 0
	}
	if at := number - f.base; f.packets[at] == flying {
		f.flight--
	} else {
		f.missing--
	}
	f.packets[number-f.base] = acknowledged
	for len(f.packets) > 0 && f.packets[0] == acknowledged {
		f.packets = f.packets[1:]
		f.base++
	}
	return 1
}

// complete reports whether all of the flow is acknowledged.
func (f *flow) complete() bool { return f.total > 0 && f.base >= f.total }

// take records what has arrived; it is owed an ACK.
func (r *arrivals) take(now clock.Time, number uint32, probe bool) {
	if r.owed == nil {
		r.owed, r.after = make(map[uint32]int), make(map[uint32]bool)
	}
	named := number
	if probe {
		named = noNumber
	}
	r.owed[named]++
	r.queue = append(r.queue, arrival{now, named})
	if probe || number < r.below {
		return
	}
	r.after[number] = true
	for r.after[r.below] {
		delete(r.after, r.below)
		r.below++
	}
}

// has reports whether a packet has arrived.
func (r *arrivals) has(number uint32) bool { return number < r.below || r.after[number] }
