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

// Leaves says that a packet of whatever protocol is leaving a host's NIC, which takes that long for it. Said before
// Observe, it keeps a host from being blamed for a timer that ran while a packet waited behind others at the NIC.
func (a *Analyzer) Leaves(host uint32, now clock.Time, takes clock.Duration) {
	n := a.nic(host)
	if now.Sub(n.at) > max(n.took, takes)+a.cfg.Hold && n.silenced < n.at {
		n.since = now.Add(-takes)
	}
	n.at, n.took, n.longest = now, takes, max(n.longest, takes)
}

// Silenced says that flow control may have kept a host from sending from the packet on that left it last until now.
// Said before Leaves, it makes a packet that then goes one that has waited since before.
func (a *Analyzer) Silenced(host uint32, now clock.Time) { a.nic(host).silenced = now }

// decided returns when a host may have decided at the earliest to send what is seen to leave it now.
func (a *Analyzer) decided(host uint32) clock.Time {
	at := a.now
	if n := a.nics[host]; n != nil {
		at = min(n.since, at)
	}
	return at.Add(-a.cfg.Hold)
}

// waiting returns from when on a host's delay counts that began at an instant: flow control may have kept it from
// acting.
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

// served returns the latest instant of which everything has left that waited at a host's NIC: when the NIC was idle
// last or, as connections take turns, when all of them had one since.
func (a *Analyzer) served(host uint32) clock.Time {
	now, n := a.watched(host), a.nics[host]
	if n == nil || now.Sub(n.at) > n.took+a.cfg.Hold {
		return now
	}
	return max(n.since, now.Add(-transports*clock.Duration(n.connections+1)*n.longest))
}
