package aqm

import (
	"candela.dev/candela/aqm"
	"candela.dev/candela/clock"
	"candela.dev/candela/trace"
)

// flowKey is what a tap shows of a 5-tuple.
type flowKey struct {
	src, dst, flow uint32
	protocol       trace.Protocol
	v6             bool
}

// folded returns the key of a table whose keys are so many bits of FNV-1a over source, destination and flow (4 bytes
// each, lowest first), protocol and IP version (1 or 0 for IPv6).
func (k flowKey) folded(bits int) flowKey {
	if bits == 0 {
		return k
	}
	six := byte(0)
	if k.v6 {
		six = 1
	}
	sum := uint64(0xcbf29ce484222325)
	for _, b := range [...]byte{byte(k.src), byte(k.src >> 8), byte(k.src >> 16), byte(k.src >> 24), byte(k.dst),
		byte(k.dst >> 8), byte(k.dst >> 16), byte(k.dst >> 24), byte(k.flow), byte(k.flow >> 8), byte(k.flow >> 16),
		byte(k.flow >> 24), byte(k.protocol), six} {
		sum ^= uint64(b)
		sum *= 0x100000001b3
	}
	return flowKey{src: uint32(sum>>32) << (32 - bits) >> (32 - bits)}
}

// trap follows the elephant trap of an ingress port.
type trap struct {
	set   *aqm.Etrap
	flows map[flowKey]*trapped
	wait  clock.Time // the table remains full until then
	gone  []int64    // evictions of elephants that are no longer in the table
}

// trapped is a flow in the trap.
type trapped struct {
	total, window int64
	ends          clock.Time // of the window
	quiet         int64      // windows in a row that were below the threshold
	rate          float64
	elephant      bool
	evicted       int64 // so often
	promotions    int64
	// the latest windows with the same bytes but for a packet
	steady             int
	sent, fewest, most int64
	largest            int64 // packet
	peak               float64
}

// bytes returns those of a flow, 0 if it is not tracked.
func (f *trapped) bytes() int64 {
	if f == nil {
		return 0
	}
	return f.total
}

func newTrap(set *aqm.Etrap) *trap { return &trap{set: set, flows: make(map[flowKey]*trapped)} }

// observe takes a packet; nil: the flow is not tracked.
func (t *trap) observe(now clock.Time, key flowKey, size int64) *trapped {
	key = key.folded(t.set.HashBits)
	f := t.flows[key]
	if f == nil {
		if t.set.TableSize > 0 && len(t.flows) >= t.set.TableSize && !t.purge(now) {
			return nil
		}
		f = &trapped{ends: now.Add(t.set.AgePeriod)}
		t.flows[key] = f
	}
	t.age(f, now)
	f.window += size
	f.largest = max(f.largest, size)
	f.total += size
	if f.elephant || f.total < t.set.ByteCount || f.total == t.set.ByteCount && !t.set.Inclusive {
		return f
	}
	f.elephant = true
	f.promotions++
	if f.rate == 0 {
		since := t.set.AgePeriod - f.ends.Sub(now)
		f.rate = bitsPerSecond(f.window, max(since, clock.Microsecond))
		f.peak = max(f.peak, f.rate)
	}
	return f
}

func bitsPerSecond(bytes int64, d clock.Duration) float64 {
	return float64(bytes) * 8 * float64(clock.Second) / float64(d)
}

// age closes all windows that have ended by now.
func (t *trap) age(f *trapped, now clock.Time) {
	for f.ends <= now {
		if f.blank() {
			f.steady = 0
			periods := now.Sub(f.ends)/t.set.AgePeriod + 1
			f.ends = f.ends.Add(periods * t.set.AgePeriod)
			return
		}
		low := f.window < t.set.Threshold || f.window == t.set.Threshold && t.set.Inclusive
		if f.quiet++; !low {
			f.quiet = 0
		}
		f.compare()
		switch measured := bitsPerSecond(f.window, t.set.AgePeriod); {
		case low && clock.Duration(f.quiet)*t.set.AgePeriod >= t.set.EvictHold && (f.elephant || !t.set.MiceNeverAge):
			if f.elephant {
				f.evicted++
			}
			f.elephant, f.total, f.rate = false, 0, 0
		case f.rate == 0:
			f.rate = measured
		default:
			f.rate = (1-t.set.Weight)*f.rate + t.set.Weight*measured // the very formula: after many empty windows it is 0
		}
		f.peak = max(f.peak, f.rate)
		f.window = 0
		f.ends = f.ends.Add(t.set.AgePeriod)
	}
}

// compare compares a window that has ended with those before it.
func (f *trapped) compare() {
	f.fewest, f.most = min(f.fewest, f.window), max(f.most, f.window)
	if f.steady++; f.steady == 1 || f.most-f.fewest > 2*f.largest {
		f.steady, f.sent, f.fewest, f.most = 1, 0, f.window, f.window
	}
	f.sent += f.window
}

// blank reports whether nothing is known of a flow but when its windows begin.
func (f *trapped) blank() bool { return !f.elephant && f.total == 0 && f.window == 0 && f.rate == 0 }

// purge removes the flows of which nothing is known, and reports whether there were any.
func (t *trap) purge(now clock.Time) bool {
	if now < t.wait {
		return false
	}
	before := len(t.flows)
	t.wait = now.Add(t.set.AgePeriod)
	for key, f := range t.flows { // in any order: all of them go
		t.age(f, now)
		if f.blank() {
			f.steady = 0
			if f.promotions > 0 {
				t.gone = append(t.gone, f.evicted)
			}
			delete(t.flows, key)
		} else {
			t.wait = min(t.wait, f.ends)
		}
	}
	return len(t.flows) < before
}
