package ndp

import (
	"candela.dev/candela/clock"
	"candela.dev/candela/packet/ndp"
)

// flight is a transmission of a data packet that has reached no host yet.
type flight struct {
	at     clock.Time
	number uint64
	header ndp.Header
	flying bool // otherwise its place in the ring is free
	outage bool // a switch that was out of service lost it
}

// flights are the transmissions of a connection in flight, by Header.Counter. A correct sender numbers its
// transmissions one by one: they are in a ring, those from low to high. Transmissions numbered otherwise are in a map.
type flights struct {
	ring      []flight
	low, high uint32
	others    map[uint32]*flight // nil: there have been none
}

func (f *flights) place(counter uint32) *flight { return &f.ring[counter&uint32(len(f.ring)-1)] }

// start enters a transmission. It replaces the one with the same counter.
func (f *flights) start(at clock.Time, number uint64, header *ndp.Header) {
	v := f.enter(header.Counter)
	v.at, v.number, v.flying, v.outage = at, number, true, false
	v.header.Set(header)
}

// enter returns the place of a transmission.
func (f *flights) enter(counter uint32) *flight {
	if f.low == f.high {
		f.low, f.high = counter, counter
	}
	switch {
	case counter == f.high:
		if int(f.high-f.low) == len(f.ring) {
			f.grow()
		}
		f.high++
	case counter-f.low >= f.high-f.low:
		if f.others == nil {
			f.others = make(map[uint32]*flight)
		}
		v := &flight{}
		f.others[counter] = v
		return v
	}
	if f.others != nil {
		delete(f.others, counter)
	}
	return f.place(counter)
}

func (f *flights) grow() {
	old := *f
	f.ring = make([]flight, max(16, 2*len(old.ring)))
	for counter := old.low; counter != old.high; counter++ {
		*f.place(counter) = *old.place(counter)
	}
}

// find returns a transmission in flight; nil: there is none. It is valid until the next start.
func (f *flights) find(counter uint32) *flight {
	if counter-f.low < f.high-f.low {
		if v := f.place(counter); v.flying {
			return v
		}
	}
	return f.others[counter]
}

// end removes a transmission in flight.
func (f *flights) end(v *flight) {
	counter := v.header.Counter
	v.flying = false
	if f.others != nil {
		delete(f.others, counter)
	}
	for f.low != f.high && !f.place(f.low).flying {
		f.low++
	}
}
