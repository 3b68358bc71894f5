package lock

import (
	"maps"
	"slices"

	"candela.dev/candela/clock"
	"candela.dev/candela/packet/netlock"
	"candela.dev/candela/testbeds/virtual/fabric"
)

// Two switches of the topology standby are a pair (section 9). What one has for the other leaves by the link between
// them: requests and releases of locks that the other one has, as clients sent them; PUSH_REQ and PUSH_EMPTY with mark
// FAILOVER, by which a lock returns; and what a server answers the backup, which comes on the path to a client, and
// that path leads through the original again.
//
// A backup that takes over, and an original that has returned, take each lock when it is asked for. The backup grants
// nothing before the leases of the original's holders have ended; the original nothing of a lock before the backup has
// said that its queue is empty.
type pair struct {
	port   int // that leads to the other switch; −1: there is none
	backup bool
	source Source // of absent locks
}

// from reports whether a packet has come from the other switch.
func (of *pair) from(in *fabric.Port) bool { return of.port >= 0 && in != nil && in.Index() == of.port }

// passes reports whether a packet that comes from a server is for the other switch, which asked for it: the lock has
// not been taken from there.
func (of *pair) passes(plane *DataPlane, h *netlock.Header, answer bool, in *fabric.Port) bool {
	return of.source == FromBackup && answer && (h.Op == netlock.PushBack || h.Op == netlock.PushEmpty) && !of.from(in) &&
		plane.elsewhere(h.Lock)
}

// granted reports whether a packet is a grant of the other switch, of a request that a server had returned to it: what
// servers return has an index.
func (of *pair) granted(h *netlock.Header, answer bool, in *fabric.Port) bool {
	return answer && h.Op == netlock.PushBack && h.Index == 0 && of.from(in)
}

// elsewhere reports whether the backup has a lock, or nobody.
func (d *DataPlane) elsewhere(lock uint32) bool {
	l := d.locks[lock]
	return l == nil || l.phase == taking && l.from == FromBackup
}

// TakeOver implements switches.Standby: the original has failed, and from now on packets come here. What a backup has
// from an earlier failure does not count any more.
func (m *Mechanism) TakeOver(now clock.Time, sw *fabric.Switch) {
	m.plane.forget(now)
	m.absent, m.until = maps.Clone(m.set.installed), m.after(now)
	m.pair.source = FromServer
	m.arm(sw)
}

// Return implements switches.Standby: the original has started without registers, and the backup has its locks.
func (m *Mechanism) Return(now clock.Time) {
	m.pair.source, m.until = FromBackup, now
}

// forget removes all locks.
func (d *DataPlane) forget(now clock.Time) {
	for _, id := range slices.Sorted(maps.Keys(d.locks)) {
		d.remove(now, d.locks[id])
	}
}

// tell sends a packet to the other switch of the pair. Requests and releases keep the addresses that they came with.
func (m *Mechanism) tell(now clock.Time, sw *fabric.Switch, flags fabric.Flags, h *netlock.Header) {
	at := m.peers.of(h.Lock)
	src, dst := at.client, at.server
	if flags&fabric.Returned != 0 {
		src, dst = dst, src
	}
	p := packetOf(now, sw, at, src, dst, flags, h)
	p.Egress = uint16(m.pair.port)
	sw.Place(now, p, fabric.Verdict{Action: fabric.Forward, Port: uint16(m.pair.port), Queue: p.Class})
}
