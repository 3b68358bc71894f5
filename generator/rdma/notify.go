package rdma

import (
	"errors"
	"fmt"
	"net/netip"

	"candela.dev/candela/clock"
	"candela.dev/candela/packet"
)

// CNPMode is the scope of CNP pacing at the notification point.
type CNPMode uint8

// Scopes of CNP pacing.
const (
	CNPModeUnset     CNPMode = iota
	CNPPerPort               // one CNP per interval for the whole port
	CNPPerDestIP             // per destination of the CNP, the data sender
	CNPPerIPPair             // per pair of addresses
	CNPPerConnection         // per queue pair
)

var cnpModes = [...]string{"unset", "port", "destination-ip", "ip-pair", "qp"}

// String returns the name in the configuration.
func (m CNPMode) String() string {
	if int(m) < len(cnpModes) {
		return cnpModes[m]
	}
	return fmt.Sprintf("cnp-mode(%d)", uint8(m))
}

// ParseCNPMode returns the mode with a name in the configuration.
func ParseCNPMode(name string) (CNPMode, bool) {
	for i, n := range cnpModes {
		if n == name && i != 0 {
			return CNPMode(i), true
		}
	}
	return CNPModeUnset, false
}

// NotificationPoint configures the receiver's part of DCQCN.
type NotificationPoint struct {
	Enable      bool
	Mode        CNPMode        // unset: the profile's
	Interval    clock.Duration // minimum time between CNPs of one scope; 0: a CNP for every trigger
	SlowRestart bool           // a sequence NAK triggers a CNP, too, if the profile supports it
	DSCP        uint8          // of CNPs; 0: 48, the default of NVIDIA's driver
}

const defaultCNPDSCP = 48

func (c *NotificationPoint) setDefaults(p *Profile) {
	if c.Mode == CNPModeUnset {
		c.Mode = p.CNPMode
	}
	if c.DSCP == 0 {
		c.DSCP = defaultCNPDSCP
	}
	c.SlowRestart = c.SlowRestart && p.CNPWithNack
}

func (c *NotificationPoint) validate() error {
	switch {
	case c.Interval < 0:
		return fmt.Errorf("minimum time between CNPs %s is negative", c.Interval)
	case c.DSCP > 63:
		return fmt.Errorf("CNP DSCP %d is above 63", c.DSCP)
	case c.Enable && c.Mode == CNPModeUnset:
		return errors.New("neither configuration nor profile sets a scope of CNP pacing")
	}
	return nil
}

// cnpPacer paces the CNPs of one scope.
type cnpPacer struct {
	sent bool
	last clock.Time // trigger of the latest CNP
}

// allow reports whether a trigger at now causes a CNP: the first one, and each that comes more than interval after the
// trigger of the latest CNP.
func (c *cnpPacer) allow(now clock.Time, interval clock.Duration) bool {
	if c.sent && interval > 0 && now.Sub(c.last) <= interval {
		return false
	}
	c.sent, c.last = true, now
	return true
}

type addressPair struct{ local, remote netip.Addr }

type pendingCNP struct {
	q     *QP
	ready clock.Time
}

// notifier is a port's notification point.
type notifier struct {
	cfg    NotificationPoint
	port   cnpPacer
	groups map[addressPair]*cnpPacer
	queue  ring[pendingCNP] // in order of ready, because the latency is constant
	data   uint64           // data packets received, for BugCNPUnprovoked
}

func (n *notifier) init(cfg NotificationPoint) {
	n.cfg = cfg
	n.groups = make(map[addressPair]*cnpPacer)
}

// pacerOf returns the pacer of q's scope.
func (n *notifier) pacerOf(q *QP) *cnpPacer {
	key := addressPair{remote: q.remote.IP}
	switch n.cfg.Mode {
	case CNPPerConnection:
		return new(cnpPacer)
	case CNPPerIPPair:
		key.local = q.cfg.LocalIP
	case CNPPerDestIP:
	case CNPPerPort, CNPModeUnset:
		return &n.port
	}
	if n.groups[key] == nil {
		n.groups[key] = new(cnpPacer)
	}
	return n.groups[key]
}

// received checks a data packet with a valid iCRC for a congestion mark.
func (n *notifier) received(now clock.Time, q *QP, p *packet.Packet) {
	marked := p.IP.ECN() == packet.CE
	if marked {
		q.nic.counters.ECNMarked++
	}
	if q.nic.bugs.Has(BugCNPUnprovoked) {
		n.data++
		if n.data%16 == 0 {
			n.send(now, q)
		}
	}
	if marked && n.cfg.Enable {
		n.trigger(now, q)
	}
}

// nacked is called for every sequence NAK that is sent.
func (n *notifier) nacked(now clock.Time, q *QP) {
	if n.cfg.Enable && n.cfg.SlowRestart {
		n.trigger(now, q)
	}
}

func (n *notifier) trigger(now clock.Time, q *QP) {
	if q.pacer.allow(now, n.cfg.Interval) {
		n.send(now, q)
	}
}

func (n *notifier) send(now clock.Time, q *QP) {
	n.queue.push(pendingCNP{q, now.Add(q.nic.profile.CNPLatency)})
}

// next returns when the oldest CNP may be sent.
func (n *notifier) next() clock.Time {
	if n.queue.len() == 0 {
		return clock.Never
	}
	return n.queue.at(0).ready
}

var cnpPayload [packet.CNPPayloadLen]byte

// poll fills p with the oldest CNP if it is eligible (IBTA A17.9.3).
func (n *notifier) poll(now clock.Time, nic *NIC, p *packet.Packet) bool {
	if n.next() > now {
		return false
	}
	q := n.queue.pop().q
	*p = q.frame
	p.IP.TOS = n.cfg.DSCP << 2
	p.BTH.Opcode, p.BTH.BECN = packet.CNP, true
	p.Payload = cnpPayload[:]
	nic.counters.CNPSent++
	return true
}

// handleCNP reacts to a CNP for the queue pair's data.
func (q *QP) handleCNP(now clock.Time) {
	if !q.req.rate.enabled() || q.state != stateReady {
		q.nic.counters.CNPIgnored++
		return
	}
	q.nic.counters.CNPHandled++
	q.req.rate.cut(now)
}
