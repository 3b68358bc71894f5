package lock

import (
	"maps"
	"net/netip"

	"candela.dev/candela/clock"
)

// outage forgets what a switch had in its registers.
func (j *Judge) outage(d *device) {
	for i := range j.requests {
		if r := &j.requests[i]; r.asks > 0 && int(r.sw) == d.number && r.phase == waiting {
			r.phase, r.back, r.sent = gone, unknown, r.asks-min(r.asks, r.answers)
		}
	}
	for i := range j.locks {
		if l := &j.locks[i]; l.used && int(l.sw) == d.number {
			l.tainted = true
			j.moves(l)
			l.cleared = unknown
			l.home = home{moved: unknown, taken: unknown, left: unknown, given: l.home.given, gave: unknown}
			l.classes(func(c *class) {
				c.restarted, c.remain, c.sent, c.base, c.handed = true, false, 0, 0, handover{at: unknown}
				c.requested, c.began, c.settled, c.asked = unknown, unknown, unknown, unknown
			})
		}
	}
}

// Stopping says that a switch goes out of service: its registers are lost.
func (j *Judge) Stopping(now clock.Time, sw int) {
	j.now = max(j.now, now)
	d := j.switches[sw]
	if !d.out && !j.overrun {
		j.quiet(d, false)
	}
	d.out = true
	if !d.Standby {
		j.failed, j.failedAt = true, now
		for _, other := range j.switches {
			if other.Standby && other.takeover == clock.Never {
				j.takesOver(other, now)
			}
		}
	}
	j.takesOver(d, now)
	j.outage(d)
	maps.DeleteFunc(j.departing, func(k key, _ departure) bool { return int(k.sw) == sw })
}

// Started says that it returns.
func (j *Judge) Started(now clock.Time, sw int) {
	j.now = max(j.now, now)
	d := j.switches[sw]
	d.out, d.restarted, d.started = false, true, now
}

// TakesOver says when a switch began to own the locks of another; otherwise that is when the other first stopped. A
// backup that takes over again has nothing of what it had before.
func (j *Judge) TakesOver(now clock.Time, sw int) {
	d := j.switches[sw]
	j.takesOver(d, now)
	if d.Standby {
		j.outage(d)
		d.started = now
	}
}

func (j *Judge) takesOver(d *device, now clock.Time) {
	d.takeover = now
	for i := range j.locks {
		if l := &j.locks[i]; int(l.sw) == d.number {
			l.ownedSince = unknown
		}
	}
}

// ServerStopped says that a lock server no longer answers: another one will own its locks.
func (j *Judge) ServerStopped(now clock.Time, server netip.Addr) {
	j.servers[server], j.replaced = now, true
}
