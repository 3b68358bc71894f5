package lock

import (
	"candela.dev/candela/packet/netlock"
	"candela.dev/candela/trace"
)

// queries is what databases have been asked and have not answered yet, by request.
type queries map[key]query

type query struct {
	times uint32
	mode  netlock.Mode
	id    uint64 // of the latest
}

// database follows a packet to or from a database: it answers what it was asked, as often as it was asked (section
// 5.3). How long it takes, and whether it gets all, is not known.
func (j *Judge) database(d *device, p *Packet) {
	h := &p.Header
	if len(j.switches) > 1 || j.gaps > 0 || j.overrun {
		return // it may have been asked unseen
	}
	switch {
	case p.Stage == trace.Left && j.toDatabase(p) && h.Op != netlock.Release:
		k := j.keyOf(d, h, p.Src)
		if len(j.queries) >= mostRequests {
			j.giveUp("there are too many requests that no database answers")
			return
		}
		j.queries[k] = query{j.queries[k].times + 1, h.Mode, p.ID}
	case p.Stage == trace.Entered && p.DstPort == netlock.ReplyPort:
		k := j.keyOf(d, h, p.Dst)
		q, asked := j.queries[k]
		switch {
		case !asked:
			j.tell(nil, databaseUnasked(p), p.Time, p.ID)
			return
		case q.mode != h.Mode:
			j.tell(nil, databaseOtherwise(p, q.id), p.Time, p.ID, q.id)
		}
		if q.times--; q.times == 0 {
			delete(j.queries, k)
		} else {
			j.queries[k] = q
		}
	}
}
