package aqm

import (
	"candela.dev/candela/aqm"
	"candela.dev/candela/clock"
)

// firsts follows the table of DPP of an ingress port.
type firsts struct {
	set   *aqm.DPP
	flows map[flowKey]*first
}

// first is a flow in the table.
type first struct {
	last       clock.Time
	index      int
	generation int // how often it has started again
	// what the index would be without the latest restart, and since the latest pause of a tenth of the age period: for
	// naming what went wrong
	unbroken, sincePause int
}

func newFirsts(set *aqm.DPP) *firsts { return &firsts{set: set, flows: make(map[flowKey]*first)} }

// classify takes a packet and reports whether it is a mouse.
func (d *firsts) classify(now clock.Time, key flowKey, size int64) (f *first, mouse bool) {
	key = key.folded(d.set.HashBits)
	if f = d.flows[key]; f == nil {
		f = &first{last: now}
		d.flows[key] = f
	}
	if pause := now.Sub(f.last); pause > d.set.AgePeriod {
		f.unbroken, f.index, f.sincePause = f.index, 0, 0
		f.generation++
	} else if pause > d.set.AgePeriod/10 {
		f.sincePause = 0
	}
	f.last = now
	if !d.set.DataOnly || size >= aqm.SmallBytes {
		f.index++
		f.unbroken++
		f.sincePause++
	}
	return f, d.mouse(f.index)
}

func (d *firsts) mouse(index int) bool {
	return index < d.set.MaxPackets || index == d.set.MaxPackets && !d.set.Exclusive
}
