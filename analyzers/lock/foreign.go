package lock

import (
	"candela.dev/candela/trace"
)

// Others follows packets of others through switches (N15).
type Others struct {
	flows map[flowKey]*flow
	full  bool
}

// Meddling is what a switch did to a packet of others that leaves it.
type Meddling uint8

// Meddlings.
const (
	Untouched  Meddling = iota
	Changed             // it has not come in so
	Reordered           // after another that came later in the same flow
	Unfollowed          // nothing is known of it from now on: there are too many flows
)

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

// NewOthers returns one that has seen no packets.
func NewOthers() Others { return Others{flows: make(map[flowKey]*flow)} }

func (o *Others) forget() { clear(o.flows) }

// Packet follows a packet, and returns what the switch did to it, and the packet that it was reordered with.
func (o *Others) Packet(p *Packet) (what Meddling, with uint64) {
	k := flowKey{p.Flow, int32(p.Switch)}
	f := o.flows[k]
	switch {
	case p.Stage == trace.Entered:
		if f == nil {
			if len(o.flows) >= mostFlows {
				what = Untouched
				if !o.full {
					what = Unfollowed
				}
				o.full = true
				return what, 0
			}
			f = &flow{}
			o.flows[k] = f
		}
		if len(f.inside) >= mostPassing {
			f.inside = f.inside[:copy(f.inside, f.inside[1:])]
		}
		f.inside = append(f.inside, passing{digest: p.Digest, id: p.ID})
	case f == nil:
		if !o.full && p.Stage == trace.Left {
			return Changed, 0
		}
	default:
		return f.leaves(p)
	}
	return Untouched, 0
}

func (f *flow) leaves(p *Packet) (what Meddling, with uint64) {
	left := p.Stage == trace.Left
	for i := range f.inside {
		e := &f.inside[i]
		if e.digest != p.Digest {
			continue
		}
		if e.skipped != 0 && left {
			what, with = Reordered, e.skipped-1
		}
		if left {
			for k := range i {
				if f.inside[k].skipped == 0 {
					f.inside[k].skipped = p.ID + 1
				}
			}
		}
		f.inside = append(f.inside[:i], f.inside[i+1:]...)
		return what, with
	}
	if left && len(f.inside) < mostPassing {
		return Changed, 0
	}
	return Untouched, 0
}

// others judges what a switch does to packets of others.
func (j *Judge) others(d *device, p *Packet) {
	if p.Flow == 0 || p.Digest == 0 || d.out {
		return
	}
	j.measures.others++
	switch what, with := j.foreign.Packet(p); what {
	case Changed:
		if j.gaps == 0 {
			j.tell(nil, changed(d.who, p.ID), p.Time, p.ID)
		}
	case Reordered:
		j.tell(nil, reordered(d.who, p.ID, with), p.Time, p.ID, with)
	case Unfollowed:
		j.note("packets of others", "there are too many flows")
	case Untouched:
	}
}
