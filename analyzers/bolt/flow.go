package bolt

import (
	"math"

	"candela.dev/candela/clock"
)

type key struct{ src, dst, connection uint32 }

// state is that of a packet that was sent.
type state uint8

const (
	flying state = iota
	lost
	acknowledged
)

// packet is one that was sent, with the place of its latest transmission among those of the flow.
type packet struct {
	state state
	order uint64
}

type transmission struct {
	number uint32
	order  uint64
}

// flow is a flow as its sender must see it, and what has arrived at its receiver.
type flow struct {
	key
	number int // for findings
	host   *host

	total         uint32 // packets; 0: without end
	base          uint32 // lower ones are acknowledged
	packets       []packet
	transmissions []transmission // that may still be found lost, the oldest first
	flight        int
	missing       int // lost, and not retransmitted since
	sent          uint64

	window  float64
	rtt     clock.Duration // 0: none yet
	notice  clock.Duration // that the latest SRC took
	lowered clock.Time
	bySRC   bool   // the window was lowered last by an SRC
	growAt  uint32 // the packet whose ACK ends the round trip
	last    clock.Time
	expires clock.Time
	able    clock.Time // since when it may send; Never: it may not
	arrivals
}

// arrivals is what has arrived at the receiver.
type arrivals struct {
	below uint32 // lower packets have arrived
	after map[uint32]bool
	owed  map[uint32][]content // ACKs, by packet
	queue []arrival            // the oldest first
}

// content is what an ACK repeats.
type content struct {
	flags  Flags
	sentNS uint32
}

type arrival struct {
	at     clock.Time
	number uint32
}

func (f *flow) next() uint32 { return f.base + uint32(len(f.packets)) }

// bound says whether a window that sums of fractions have brought next to a whole number counts as that number: they
// may differ from the sender's in the last digits.
type bound bool

const (
	may  bound = true  // for what a sender may do
	must bound = false // for what it must do
)

// room returns the whole packets of the window.
func (f *flow) room(b bound) int {
	const grain = 1e-9
	whole := math.Round(f.window)
	switch {
	case f.window == whole || math.Abs(f.window-whole) > grain:
		return int(f.window)
	case b == may:
		return int(whole)
	}
	return int(whole) - 1
}

// opens returns when the window allows a packet; Never: not without news.
func (f *flow) opens(b bound) clock.Time {
	switch room := f.room(b); {
	case f.flight < room:
		return 0
	case room >= 1 || f.flight > 0:
		return clock.Never
	}
	trip := f.rtt
	if trip == 0 {
		trip = f.notice
	}
	return f.last.Add(clock.Duration(float64(trip) / f.window))
}

// choose returns the packet that must be sent next, and from when on; Never: none may.
func (f *flow) choose(b bound) (number uint32, from clock.Time) {
	from = f.opens(b)
	if f.missing > 0 {
		for i := range f.packets {
			if f.packets[i].state == lost {
				return f.base + uint32(i), from
			}
		}
	}
	if f.total > 0 && f.next() >= f.total {
		return f.next(), clock.Never
	}
	return f.next(), from
}

// settle follows every change at now.
func (f *flow) settle(now clock.Time) {
	switch _, from := f.choose(must); {
	case from == clock.Never:
		f.able = clock.Never
	case f.able == clock.Never || from > now:
		f.able = max(from, now)
	default:
		f.able = min(f.able, now)
	}
}

// expire lets the timer run out if it does before now, or at now if that is included.
func (f *flow) expire(cfg *Config, now clock.Time, included bool) {
	at := f.expires
	if at == clock.Never || at > now || at == now && !included {
		return
	}
	f.expires = clock.Never
	f.cut(cfg, at)
	for i := range f.packets {
		if f.packets[i].state == flying {
			f.lose(&f.packets[i])
		}
	}
	f.transmissions = nil
	f.settle(at)
}

func (f *flow) lose(p *packet) {
	p.state = lost
	f.flight--
	f.missing++
}

// cut halves the window for a loss, at most once an RTT.
func (f *flow) cut(cfg *Config, now clock.Time) {
	if now.Sub(f.lowered) >= f.rtt {
		f.lowered, f.bySRC = now, false
		f.window = cfg.clamp(f.window / 2)
	}
}

// stamped returns how long ago a stamp was made: a whole number of ns, at least 1 ps.
func stamped(now clock.Time, sentNS uint32) clock.Duration {
	return max(clock.Duration(uint32(now.Nanoseconds())-sentNS)*clock.Nanosecond, 1)
}

// slow takes an SRC packet (section 3.1): reaction_factor is the rate of the flow in that of the link, target_q its
// share of the queue. One packet drains from the window in each rtt_src / target_q.
func (f *flow) slow(cfg *Config, now clock.Time, o *Observation) {
	f.notice = stamped(now, o.SentNS)
	if f.window <= 1 {
		f.window /= 2
	} else {
		rate := float64(cfg.RateOf(f.src))
		if f.rtt > 0 {
			rate = f.window * float64(cfg.Frame) * 8 / (float64(f.rtt) / float64(clock.Second))
		}
		target := float64(o.Queue) / float64(cfg.Frame) * (rate / (float64(o.RateMbps) * 1e6))
		if target*float64(now.Sub(f.lowered)) < float64(f.notice) {
			f.settle(now)
			return
		}
		f.lowered = now
		f.window--
	}
	f.window, f.bySRC = cfg.clamp(f.window), true
	f.settle(now)
}

// hear takes an ACK.
func (f *flow) hear(cfg *Config, now clock.Time, o *Observation) {
	if o.Total > f.next() {
		return
	}
	f.rtt = stamped(now, o.SentNS)
	order := uint64(0)
	if o.Number >= f.base {
		order = f.packets[o.Number-f.base].order
	}
	fresh := f.mark(o.Number)
	for f.base < o.Total {
		fresh = f.mark(f.base) || fresh
	}
	if o.Number >= f.growAt {
		f.growAt = f.next()
		f.window += cfg.Increase
	}
	if o.Flags&(Inc|Dec) == Inc {
		f.window++
	}
	f.window = cfg.clamp(f.window)
	f.reordered(cfg, now, order)
	if fresh {
		if f.expires = clock.Never; f.flight > 0 {
			f.expires = now.Add(cfg.RTO)
		}
	}
	f.settle(now)
}

// reordered finds lost what was sent so many transmissions before one that is acknowledged.
func (f *flow) reordered(cfg *Config, now clock.Time, order uint64) {
	if cfg.Reorder == 0 {
		return
	}
	for len(f.transmissions) > 0 && f.transmissions[0].order+uint64(cfg.Reorder) <= order {
		t := f.transmissions[0]
		f.transmissions = f.transmissions[1:]
		if t.number < f.base {
			continue
		}
		if p := &f.packets[t.number-f.base]; p.state == flying && p.order == t.order {
			f.lose(p)
			f.cut(cfg, now)
		}
	}
}

// mark marks a packet as acknowledged and reports whether that is news.
func (f *flow) mark(number uint32) bool {
	if number < f.base || f.packets[number-f.base].state == acknowledged {
		return false
	}
	p := &f.packets[number-f.base]
	if p.state == flying {
		f.flight--
	} else {
		f.missing--
	}
	p.state = acknowledged
	for len(f.packets) > 0 && f.packets[0].state == acknowledged {
		f.packets = f.packets[1:]
		f.base++
	}
	return true
}

// flags returns those of a new packet, and which of them depend on a digit that sums of fractions may lack.
func (f *flow) flags(number uint32) (want, open Flags) {
	left := math.Inf(1)
	if f.total > 0 {
		left = float64(f.total) - float64(number) - f.window
	}
	switch {
	case f.rtt == 0:
		want = First
	case left > 0:
		want = Inc
	}
	if left <= 0 {
		want |= Last
	}
	if math.Abs(left) < 1e-6 {
		open = Inc | Last
	}
	return want, open
}

// complete reports whether all of the flow is acknowledged.
func (f *flow) complete() bool { return f.total > 0 && f.base >= f.total }

// take records what has arrived; it is owed an ACK.
func (r *arrivals) take(now clock.Time, o *Observation) {
	if r.owed == nil {
		r.owed, r.after = make(map[uint32][]content), make(map[uint32]bool)
	}
	r.owed[o.Number] = append(r.owed[o.Number], content{o.Flags, o.SentNS})
	r.queue = append(r.queue, arrival{now, o.Number})
	if o.Number < r.below {
		return
	}
	r.after[o.Number] = true
	for r.after[r.below] {
		delete(r.after, r.below)
		r.below++
	}
}

// has reports whether a packet has arrived.
func (r *arrivals) has(number uint32) bool { return number < r.below || r.after[number] }
