package aqm

import (
	"candela.dev/candela/aqm"
	"candela.dev/candela/clock"
)

// DPP is dynamic packet prioritization of one ingress port: the first packets of a flow are mice.
type DPP struct {
	set     aqm.DPP
	entries map[Key]*counted
	faults  dppFaults
}

// dppFaults are seeded bugs.
type dppFaults struct{ oneMore, neverExpires, expiresEarly bool }

type counted struct {
	last clock.Time
	n    int
}

// NewDPP returns an empty table.
func NewDPP(set aqm.DPP) *DPP { return &DPP{set: set, entries: make(map[Key]*counted)} }

// Classify takes a packet of size bytes that arrives at now. It returns whether the packet is a mouse, and its number
// in the flow since the flow was idle for longer than the age period.
func (d *DPP) Classify(now clock.Time, key Key, size int) (mouse bool, index int) {
	key = key.fold(d.set.HashBits)
	age := d.set.AgePeriod
	if d.faults.expiresEarly {
		age /= 2
	}
	e := d.entries[key]
	if e == nil {
		e = &counted{last: now}
		d.entries[key] = e
	}
	if now.Sub(e.last) > age && !d.faults.neverExpires {
		e.n = 0
	}
	e.last = now
	if !d.set.DataOnly || size >= aqm.SmallBytes {
		e.n++
	}
	most := d.set.MaxPackets
	if d.set.Exclusive {
		most--
	}
	if d.faults.oneMore {
		most++
	}
	return e.n <= most, e.n
}
