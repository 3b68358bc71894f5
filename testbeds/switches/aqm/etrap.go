package aqm

import (
	"candela.dev/candela/aqm"
	"candela.dev/candela/clock"
	"candela.dev/candela/trace"
)

// Key identifies a flow: what a simulated packet has of a 5-tuple. Either direction is a flow of its own.
type Key struct {
	Src, Dst uint32 // hosts
	Flow     uint32 // in place of both ports
	Protocol trace.Protocol
	IPv6     bool
}

// hash folds the key into 64 bits (FNV-1a over its fields, lowest byte first).
func (k Key) hash() uint64 {
	h := uint64(14695981039346656037)
	add := func(v uint32, bytes int) {
		for range bytes {
			h = (h ^ uint64(v&0xff)) * 1099511628211
			v >>= 8
		}
	}
	add(k.Src, 4)
	add(k.Dst, 4)
	add(k.Flow, 4)
	six := uint32(0)
	if k.IPv6 {
		six = 1
	}
	add(uint32(k.Protocol)|six<<8, 2)
	return h
}

// fold returns the key of a table whose keys are so many bits of a hash; 0: whole keys.
func (k Key) fold(bits int) Key {
	if bits == 0 {
		return k
	}
	return Key{Src: uint32(k.hash() >> 32 & (1<<bits - 1))}
}

// Sighting is what the trap knows of a flow after a packet.
type Sighting struct {
	Elephant bool
	Bytes    int64   // since the flow is tracked
	Rate     float64 // bit/s; 0: unknown
	Tracked  bool
}

// Entry is a flow in the trap (3.2: state machine per flow).
type entry struct {
	bytes, window int64
	start         clock.Time // of the window
	low           clock.Time // start of the first of the latest windows that were all below the threshold
	isLow         bool
	rate          float64
	elephant      bool
}

// idle reports whether the entry remembers nothing but the phase of its windows.
func (e *entry) idle() bool { return !e.elephant && e.bytes == 0 && e.window == 0 && e.rate == 0 }

// Etrap is the elephant trap of one ingress port: it finds flows that have sent more than a number of bytes, and
// measures their rates in windows of one age period, which begin with the first packet of each flow.
type Etrap struct {
	set       aqm.Etrap
	entries   map[Key]*entry
	faults    etrapFaults
	evictions uint64
	full      clock.Time // no entry becomes idle before
}

// etrapFaults are seeded bugs.
type etrapFaults struct{ late, keepsIdle, staleRate, evictsMore, keepsBytes bool }

// NewEtrap returns an empty trap.
func NewEtrap(set aqm.Etrap) *Etrap { return &Etrap{set: set, entries: make(map[Key]*entry)} }

// Evictions returns how many elephants have become mice again, as far as their next packets have shown.
func (t *Etrap) Evictions() uint64 { return t.evictions }

// Observe takes a packet of size bytes that arrives at now.
func (t *Etrap) Observe(now clock.Time, key Key, size int) Sighting {
	key = key.fold(t.set.HashBits)
	e := t.entries[key]
	if e == nil {
		if t.set.TableSize > 0 && len(t.entries) >= t.set.TableSize && !t.makeRoom(now) {
			return Sighting{}
		}
		e = &entry{start: now}
		t.entries[key] = e
	}
	t.close(now, e)
	e.window += int64(size)
	e.bytes += int64(size)
	limit := t.set.ByteCount
	if t.set.Inclusive {
		limit--
	}
	if t.faults.late {
		limit += int64(size)
	}
	if !e.elephant && e.bytes > limit {
		e.elephant = true
		if e.rate == 0 {
			e.rate = rateOf(e.window, max(now.Sub(e.start), clock.Microsecond))
		}
	}
	return Sighting{Elephant: e.elephant, Bytes: e.bytes, Rate: e.rate, Tracked: true}
}

func rateOf(bytes int64, d clock.Duration) float64 {
	return float64(8*bytes) / (float64(d) / float64(clock.Second))
}

// close closes the windows that have ended.
func (t *Etrap) close(now clock.Time, e *entry) {
	for end := e.start.Add(t.set.AgePeriod); now >= end; end = e.start.Add(t.set.AgePeriod) {
		if e.idle() { // nothing changes in an empty window
			e.start = e.start.Add(now.Sub(e.start) / t.set.AgePeriod * t.set.AgePeriod)
			return
		}
		if t.ends(e, end) {
			if e.elephant {
				t.evictions++
			}
			e.elephant, e.rate = false, 0
			if !t.faults.keepsBytes {
				e.bytes = 0
			}
		} else if r := rateOf(e.window, t.set.AgePeriod); e.rate == 0 {
			e.rate = r
		} else if !t.faults.staleRate {
			e.rate = (1-t.set.Weight)*e.rate + t.set.Weight*r
		}
		e.window, e.start = 0, end
	}
}

// ends reports whether a window ends an entry: it had too few bytes, as all windows of the last EvictHold.
func (t *Etrap) ends(e *entry, end clock.Time) bool {
	threshold := t.set.Threshold
	if t.set.Inclusive || t.faults.evictsMore {
		threshold++
	}
	if e.window >= threshold {
		e.isLow = false
		return false
	}
	if !e.isLow {
		e.isLow, e.low = true, e.start
	}
	return end.Sub(e.low) >= t.set.EvictHold && !t.faults.keepsIdle && (e.elephant || !t.set.MiceNeverAge)
}

// makeRoom removes entries that remember nothing and reports whether there were any.
func (t *Etrap) makeRoom(now clock.Time) bool {
	if now < t.full {
		return false
	}
	t.full = now.Add(t.set.AgePeriod)
	found := false
	for key, e := range t.entries { // the order does not matter: all idle entries go
		if t.close(now, e); e.idle() {
			delete(t.entries, key)
			found = true
			continue
		}
		t.full = min(t.full, e.start.Add(t.set.AgePeriod))
	}
	return found
}
