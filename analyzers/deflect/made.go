package deflect

import (
	"slices"

	"candela.dev/candela/deflect"
	"candela.dev/candela/trace"
)

// Packets that a switch makes itself, SRC of Bolt, come in nowhere: only records show when they are queued. What their
// taps show is compared with that later. That a packet is answered rightly, Bolt's own judge says.

// makes notes a packet that the switch has made.
func (d *device) makes(r *trace.Decision) {
	a := &arrival{at: r.Time, id: r.Packet, made: true, rank: r.Rank, size: int64(r.Size),
		flags: trace.Made | trace.Ranked,
		key: flowKey{src: uint32(r.Values[deflect.MadeFrom]), dst: uint32(r.Values[deflect.MadeTo]), flow: r.Flow,
			protocol: trace.ProtocolBolt},
		in: int(r.Values[deflect.MadeIngress]), port: -1, egress: r.Port, line: -1}
	if a.in < 0 || a.in >= len(d.ports) || r.Port < 0 || r.Port >= len(d.ports) {
		d.tellRecord(r, misordered(place{d.who, r.Port, a.id}))
		return
	}
	a.priority = priorityOf(d.set, a)
	d.judge.coverage.made++
	d.inside.put(a.id, a)
	d.pending = a
	if d.set.Scheme == deflect.Vertigo {
		return
	}
	d.log.Add(event{at: a.at, a: a})
	if d.log.Full() && !d.presume() {
		d.giveUp(a.at, "a packet has waited for so long that the log is full")
	}
}

// shows compares what a tap shows of a packet that the switch has made with what the record said.
func (d *device) shows(a *arrival, t *trace.SwitchTap) {
	at := place{d.who, t.Port, a.id}
	d.expect(a, at, "its sender", int64(a.key.src), int64(t.Src))
	d.expect(a, at, "its receiver", int64(a.key.dst), int64(t.Dst))
	d.expect(a, at, "its size", a.size, int64(t.Size))
	d.expect(a, at, "its rank", int64(a.rank), int64(t.Rank))
	a.connection, a.entropy, a.flags, a.ttl = t.Connection, t.Entropy, t.Flags, t.TTL
	a.key.v6, a.key.protocol = t.IPv6, t.Protocol
}

// queuesMade judges where a packet was queued that the switch has made, and lets it join its queue.
func (d *device) queuesMade(a *arrival) {
	c := d.claimOf(a)
	f := c.fate
	joins := a.fate == left || a.fate == inside || a.fate == withdrawn
	if a.port < 0 || a.port >= len(d.ports) {
		return
	}
	at := d.placeOf(a)
	if len(a.records) != 1 || f == nil || f.Kind != deflect.Queued && f.Kind != deflect.Tail {
		d.tell(a, misordered(at))
	} else {
		d.judgeMade(a, f)
		if f.Port != a.port || joins != (f.Kind == deflect.Queued) && a.fate != failed {
			d.tell(a, otherFate(at, f.Kind, a.fate, a.port))
		}
	}
	q := d.ports[a.port]
	switch full := q.bytes+a.size >= int64(d.set.Queue); {
	case joins && full:
		d.tell(a, overfull(at, q.bytes, d.set.Queue))
	case a.fate == refused && !full && !d.broken(a.at):
		d.tell(a, hadRoom(at, q.bytes))
	}
	if joins {
		d.join(a, a.port)
	}
}

// judgeMade judges the record of what became of a packet that the switch has made.
func (d *device) judgeMade(a *arrival, f *trace.Decision) {
	at := place{d.who, f.Port, a.id}
	if f.Port != a.egress || f.Values[deflect.FateEgress] != int64(a.egress) {
		d.tell(a, claimed(at, "destination port", f.Values[deflect.FateEgress], int64(a.egress)))
	}
	if to := d.candidates(a); to != nil && !d.broken(a.at) && !slices.Contains(to, a.egress) {
		d.tell(a, offRoute(at, a.egress))
	}
	if f.Port >= 0 && f.Port < len(d.ports) {
		d.expect(a, at, "occupancy", f.Occupancy, d.ports[f.Port].bytes)
	}
	d.expect(a, at, "priority value", f.Values[deflect.FatePriority], int64(a.priority))
	d.expect(a, at, "deflections of it", f.Values[deflect.FateDeflections], 0)
	d.expect(a, at, "the port that it came by", f.Values[deflect.FateIngress], int64(a.in))
}

// saysMade repeats a record about a packet that a switch with Vertigo has made. It moves nothing else.
func (d *device) saysMade(a *arrival, r *trace.Decision) {
	at := place{d.who, r.Port, a.id}
	if _, said := d.latest[a.id]; said || r.Kind != deflect.Queued && r.Kind != deflect.Tail {
		d.tell(a, misordered(at))
		return
	}
	d.latest[a.id] = r.Kind
	d.judgeMade(a, r)
	if r.Kind == deflect.Queued {
		d.insert(a, r.Port)
	} else if q := d.ports[r.Port]; q.bytes+a.size < int64(d.set.Queue) && !d.broken(a.at) {
		d.tell(a, hadRoom(at, q.bytes))
	}
}
