package lock

import (
	"candela.dev/candela/trace"
)

// foreign follows packets of others through the switches (N15).
type foreign struct {
	flows map[flowKey]*flow
	full  bool
}

// flowKey is a flow at a switch.
type flowKey struct {
	flow uint64
	sw   int32
}

// flow has the packets of a flow that are inside, in the order in which they came.
type flow struct {
	inside []passing
}

type passing struct {
	digest, id uint64
	skipped    uint64 // the packet that came later and left before; 0: none
}

const (
	mostFlows   = 1 << 16
	mostPassing = 1 << 10 // of a flow: more than any port keeps waiting in the tests that we know; then the oldest is lost
)

func newForeign() foreign { return foreign{flows: make(map[flowKey]*flow)} }

func (f *foreign) forget() { clear(f.flows) }

func (j *Judge) others(d *device, p *Packet) {
	if p.Flow == 0 || p.Digest == 0 || d.out {
		return
	}
	j.measures.others++
	k := flowKey{p.Flow, int32(d.number)}
	f := j.foreign.flows[k]
	switch {
	case p.Stage == trace.Entered:
		if f == nil {
			if len(j.foreign.flows) >= mostFlows {
				if !j.foreign.full {
					j.foreign.full = true
					j.note("packets of others", "there are too many flows")
				}
				return
			}
			f = &flow{}
			j.foreign.flows[k] = f
		}
		if len(f.inside) >= mostPassing {
			f.inside = f.inside[:copy(f.inside, f.inside[1:])]
		}
		f.inside = append(f.inside, passing{digest: p.Digest, id: p.ID})
	case f == nil:
		if !j.foreign.full && j.gaps == 0 && p.Stage == trace.Left {
			j.tell(nil, changed(d.who, p.ID), p.Time, p.ID)
		}
	default:
		f.leaves(j, d, p)
	}
}

func (f *flow) leaves(j *Judge, d *device, p *Packet) {
	for i := range f.inside {
		e := &f.inside[i]
		if e.digest != p.Digest {
			continue
		}
		if e.skipped != 0 && p.Stage == trace.Left {
			j.tell(nil, reordered(d.who, p.ID, e.skipped-1), p.Time, p.ID, e.skipped-1)
		}
		if p.Stage == trace.Left {
			for k := range i {
				if f.inside[k].skipped == 0 {
					f.inside[k].skipped = p.ID + 1
				}
			}
		}
		f.inside = append(f.inside[:i], f.inside[i+1:]...)
		return
	}
	if p.Stage == trace.Left && j.gaps == 0 && len(f.inside) < mostPassing {
		j.tell(nil, changed(d.who, p.ID), p.Time, p.ID)
	}
}
