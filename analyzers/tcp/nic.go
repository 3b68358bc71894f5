package tcp

import "candela.dev/candela/clock"

// nic is what was seen of a host's sending.
type nic struct {
	at          clock.Time     // when the latest packet was seen to leave
	took        clock.Duration // to send it
	longest     clock.Duration // the same of the longest packet
	connections int            // of the host
	since       clock.Time     // from when on it has been sending without a pause
	silenced    clock.Time     // until when flow control may have kept it from sending
}

// never is before every observation.
const never = clock.Time(-clock.Second)

// nic returns what was seen of a host's sending.
func (a *Analyzer) nic(host uint32) *nic {
	n := a.nics[host]
	if n == nil {
		n = &nic{at: never, since: clock.Never, silenced: never - 1}
		a.nics[host] = n
	}
	return n
}

// Leaves says that a packet of any protocol is leaving a host's NIC and for how long. Called before Observe, it shows
// that a timer ran while a packet waited for others at the NIC.
func (a *Analyzer) Leaves(host uint32, now clock.Time, takes clock.Duration) {
	n := a.nic(host)
	n.starts(now.Sub(n.at) > max(n.took, takes)+a.cfg.Hold, now.Add(-takes))
	n.at, n.took, n.longest = now, takes, max(n.longest, takes)
}

// starts notes that a NIC sends from now on without a pause if it was idle before. The first packet of one that flow
// control silenced may have waited from the start.
func (n *nic) starts(idle bool, at clock.Time) {
	switch {
	case n.since == clock.Never && n.silenced >= n.at:
		n.since = never
	case idle && n.silenced < n.at:
		n.since = at
	}
}

// Offers says that a host hands a packet to a NIC with queues of its own, and how long it takes on the wire. Called
// before Observe, it shows that a host whose NIC had sent everything need not have waited.
func (a *Analyzer) Offers(host uint32, now clock.Time, takes clock.Duration) {
	n := a.nic(host)
	end := n.at.Add(n.took)
	n.starts(now > end.Add(a.cfg.Hold), now)
	n.at, n.took, n.longest = now, max(end, now).Add(takes).Sub(now), max(n.longest, takes)
}

// Departs says that the wire takes a packet from a NIC with queues of its own, perhaps later than Offers lets expect.
func (a *Analyzer) Departs(host uint32, now clock.Time, takes clock.Duration) {
	n := a.nic(host)
	end := n.at.Add(n.took)
	n.starts(now > end.Add(a.cfg.Hold), now)
	n.at, n.took = now, max(end.Sub(now), takes)
}

// Silenced says that flow control may have paused a host since its last packet. Called before Leaves, it shows that a
// packet that leaves now has waited.
func (a *Analyzer) Silenced(host uint32, now clock.Time) { a.nic(host).silenced = now }

// decided returns the earliest time at which a host may have decided to send what leaves it now.
func (a *Analyzer) decided(host uint32) clock.Time {
	at := a.now
	if n := a.nics[host]; n != nil {
		at = min(n.since, at)
	}
	return at.Add(-a.cfg.Hold)
}

// lines reports whether Config.Hold leaves room for a line of packets before a host's NIC.
func (a *Analyzer) lines(n *nic) bool { return n != nil && a.cfg.Hold > 0 && a.cfg.Hold >= n.longest }

// known returns up to when a host certainly knew what had reached it when it decided to send what leaves it now. What a
// packet says is decided when the NIC takes it or, if it may wait in a line, while the NIC was busy with others.
func (a *Analyzer) known(host uint32) clock.Time {
	if a.lines(a.nics[host]) {
		return a.decided(host)
	}
	return a.now.Add(-a.cfg.Hold)
}

// waiting returns when a host's delay starts to count: flow control may have kept it from acting.
func (a *Analyzer) waiting(host uint32, from clock.Time) clock.Time {
	if n := a.nics[host]; n != nil {
		return max(from, n.silenced)
	}
	return from
}

// watched returns the latest instant up to which everything that left a host was seen.
func (a *Analyzer) watched(host uint32) clock.Time {
	if a.cfg.Until == nil {
		return a.now
	}
	return min(a.now, a.cfg.Until(host))
}

// transports is how many protocols may take turns at a NIC.
const transports = 4

// served returns the latest time of which all packets that waited at a host's NIC have left: when the NIC was last idle
// or, as connections are served in turn, when all of them were served since. In a line a connection may have several
// packets.
func (a *Analyzer) served(host uint32) clock.Time {
	now, n := a.watched(host), a.nics[host]
	if n == nil || now.Sub(n.at) > n.took+a.cfg.Hold {
		return now
	}
	if a.lines(n) {
		return n.since
	}
	return max(n.since, now.Add(-transports*clock.Duration(n.connections+1)*n.longest))
}

// unserved returns for how long packets that a host has decided on since an instant may have waited at its NIC.
func (a *Analyzer) unserved(s *stream, since clock.Time) clock.Duration {
	return max(0, a.now.Sub(max(a.served(s.key.src).Add(-a.cfg.Hold), since)))
}
