package sai

import (
	"candela.dev/candela/clock"
	"candela.dev/candela/packet"
	"candela.dev/candela/sai"
	"candela.dev/candela/testbeds/virtual/fabric"
)

// meeting is a packet that a bug may affect.
type meeting struct {
	now         clock.Time
	p           *fabric.Packet
	port, queue int // destination
}

// condition limits bugs to some packets: a switch that is mostly correct is harder to catch.
type condition func(*Mechanism, meeting) bool

// conditions returns the conditions by their names, which follow an @ in a bug's name.
func conditions() map[string]condition {
	return map[string]condition{
		"ipv4":     func(_ *Mechanism, at meeting) bool { return !at.p.IPv6 },
		"ipv6":     func(_ *Mechanism, at meeting) bool { return at.p.IPv6 },
		"short":    func(m *Mechanism, at meeting) bool { return int(at.p.Original) <= m.settings.Trimming.Size },
		"long":     func(m *Mechanism, at meeting) bool { return int(at.p.Original) > m.settings.Trimming.Size },
		"ect":      func(_ *Mechanism, at meeting) bool { return at.p.ECN != packet.NotECT },
		"not-ect":  func(_ *Mechanism, at meeting) bool { return at.p.ECN == packet.NotECT },
		"from-tc":  func(m *Mechanism, _ meeting) bool { return m.settings.Trimming.DSCPMode == sai.FromTC },
		"dynamic":  func(m *Mechanism, _ meeting) bool { return m.settings.Trimming.QueueMode == sai.Dynamic },
		"changed":  func(m *Mechanism, _ meeting) bool { return m.changed },
		"idle":     func(m *Mechanism, at meeting) bool { return at.now.Sub(m.lastCopy) > 10*clock.Microsecond },
		"port-0":   func(_ *Mechanism, at meeting) bool { return at.port == 0 },
		"port-1":   func(_ *Mechanism, at meeting) bool { return at.port == 1 },
		"queue-1":  func(_ *Mechanism, at meeting) bool { return at.queue == 1 },
		"queue-2":  func(_ *Mechanism, at meeting) bool { return at.queue == 2 },
		"uplink":   func(m *Mechanism, at meeting) bool { _, host := m.sw.Port(at.port).HostAt(); return !host },
		"downlink": func(m *Mechanism, at meeting) bool { _, host := m.sw.Port(at.port).HostAt(); return host },
		// a multiple of 8 once counted, so that bugs of one copy in eight apply, too
		"1-in-100": func(m *Mechanism, _ meeting) bool { return m.copies%104 == 103 },
		"1-in-1000": func(m *Mechanism, _ meeting) bool {
			return m.copies%1000 == 999
		},
	}
}

// arm selects the bugs that affect a packet.
func (m *Mechanism) arm(now clock.Time, p *fabric.Packet, port, queue int) {
	if m.seeded.when == nil {
		return
	}
	m.bug = bugs{}
	if m.seeded.when(m, meeting{now, p, port, queue}) {
		m.bug = m.seeded
	}
}

// refusesWithRoom reports whether a bug trims a packet that would be admitted.
func (m *Mechanism) refusesWithRoom(p *fabric.Packet, v fabric.Verdict) bool {
	m.admitted++
	return m.bug.trimsWithRoom && m.admitted%16 == 0 && m.trims(&m.places[v.Port][v.Queue], p)
}
