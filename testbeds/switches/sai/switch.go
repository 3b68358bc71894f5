package sai

import (
	"fmt"
	"net/netip"

	"candela.dev/candela/clock"
	"candela.dev/candela/generator/parameter"
	"candela.dev/candela/sai"
	"candela.dev/candela/testbeds/virtual/fabric"
)

// Drop reasons beyond the fabric's, in the order of the family's declaration.
const (
	ReasonTrimmed  = fabric.ReasonOwn + iota // an original, replaced by a trimmed copy
	ReasonLostCopy                           // a copy that the trim queue did not admit
)

// Mechanism is the switch's behaviour; it serves one switch.
type Mechanism struct {
	sw       *fabric.Switch
	values   parameter.Values
	settings sai.Settings
	seeded   bugs
	bug      bugs // those of seeded that apply to the current packet
	changed  bool // at least once
	lastCopy clock.Time
	admitted uint64 // packets so far

	places   [][]place // [port][queue]
	dscp     []uint8   // of a copy, by egress port
	queue    []uint8   // of a copy, by egress port
	queueOf  [64]uint8 // of a packet, by its DSCP
	exempt   []sai.Rule
	counters [][]counted // [port][queue]
	acl      []aclCount
	copies   uint64 // made so far

	shapers [][]shaper // [port][queue]
	waiting int        // bytes in all of them

	held []heldCopy // of some bugs
}

// place is the buffer profile bound to a queue.
type place struct {
	trim, lossless  bool
	reserved, limit int
	alpha           float64
}

// counted is the mechanism's own counters of a queue.
type counted struct {
	dropped, droppedBytes     uint64
	trim, txTrim, droppedTrim uint64
	copyBytes, copyExcess     uint64 // of copies sent from it: their bytes, and the bytes cut off
}

// fcs is the length of a frame's check sequence. Octet counters of a port include it (RFC 3635, ifInOctets and
// ifOutOctets), the fabric does not.
const fcs = 4

type aclCount struct{ packets, bytes uint64 }

// New returns the mechanism of one switch. The caller has validated bugNames (Model).
func New(sw *fabric.Switch, v parameter.Values, bugNames []string) (*Mechanism, error) {
	b, err := parseBugs(bugNames)
	if err != nil {
		return nil, err
	}
	m := &Mechanism{sw: sw, seeded: b, bug: b, values: v}
	m.counters, m.shapers = make([][]counted, sw.Ports()), make([][]shaper, sw.Ports())
	for i := range m.counters {
		m.counters[i], m.shapers[i] = make([]counted, lastQueue+1), make([]shaper, lastQueue+1)
	}
	if m.settings, err = Settings(v, sw.Ports()); err != nil {
		return nil, err
	}
	m.acl = make([]aclCount, len(m.settings.Rules))
	m.compile()
	return m, nil
}

// Change implements switches.Changer. Rules that stay keep their counters.
func (m *Mechanism) Change(set, _ parameter.Values) error {
	for _, name := range []string{"buffer-bytes", "scheduler", "weights"} {
		if set.Has(name) {
			return fmt.Errorf("%s can't be changed while traffic runs", name)
		}
	}
	v := m.values.Merge(set)
	s, err := Settings(v, m.sw.Ports())
	if err != nil {
		return err
	}
	m.changed = true
	if m.seeded.restarts {
		m.restart()
	}
	if m.values = v; m.seeded.forgetsToggle {
		return nil
	}
	m.keepACLCounters(s.Rules)
	m.settings = s
	m.compile()
	return nil
}

// keepACLCounters makes counters for rules; unchanged rules keep their counts.
func (m *Mechanism) keepACLCounters(rules []sai.Rule) {
	counters := make([]aclCount, len(rules))
	for i, r := range rules {
		for j, old := range m.settings.Rules {
			if old.Name == r.Name {
				counters[i] = m.acl[j]
			}
		}
	}
	m.acl = counters
}

// Settings returns the switch's settings; the caller must not change them.
func (m *Mechanism) Settings() sai.Settings { return m.settings }

// compile converts the settings to tables for the packet path.
func (m *Mechanism) compile() {
	ports := m.sw.Ports()
	for dscp := range m.queueOf {
		m.queueOf[dscp] = uint8(m.settings.QueueOf(dscp))
	}
	m.places = make([][]place, ports)
	m.dscp, m.queue = make([]uint8, ports), make([]uint8, ports)
	profiles := map[string]sai.Profile{}
	for _, p := range m.settings.Profiles {
		profiles[p.Name] = p
	}
	index := map[string]int{}
	for i := range ports {
		index[PortName(i)] = i
		m.places[i] = make([]place, lastQueue+1)
		dscp, _ := m.settings.CopyDSCP(PortName(i)) // a port without a map trims nothing: Validate
		m.dscp[i], m.queue[i] = uint8(dscp), uint8(m.settings.CopyQueue(dscp))
	}
	for _, b := range m.settings.Bindings {
		p := profiles[b.Profile]
		m.places[index[b.Port]][b.Queue] = place{
			trim: p.Action == sai.DropAndTrim, lossless: p.Lossless, reserved: p.Reserved, limit: p.Limit, alpha: p.Alpha,
		}
	}
	m.exempt = m.settings.Rules
	m.setRates()
}

// setRates sets the rates of shapers, also for packets already waiting.
func (m *Mechanism) setRates() {
	for i := range m.shapers {
		for q := range m.shapers[i] {
			m.shapers[i][q].rate = 0
		}
	}
	index := map[string]int{}
	for i := range m.shapers {
		index[PortName(i)] = i
	}
	for _, s := range m.settings.Shapers {
		if port, ok := index[s.Port]; ok {
			m.shapers[port][s.Queue].rate = clock.BitRate(s.BPS)
		}
	}
}

// isCopy reports whether p is a trimmed copy: Meta then holds the queue of its original plus one. The fabric clears
// Meta when a packet enters a switch.
func isCopy(p *fabric.Packet) bool { return p.Meta&metaQueue != 0 }

func originalQueue(p *fabric.Packet) int { return int(p.Meta&metaQueue) - 1 }

const metaQueue = 0xff

// admits reports whether the profile of a queue leaves room for size bytes more.
func (m *Mechanism) admits(port, queue, size int) bool {
	at := &m.places[port][queue]
	after := m.sw.Port(port).Queue(queue).Bytes() + m.shapers[port][queue].bytes + size
	used, pool := m.sw.BufferUsed()
	if used += m.waiting; used+size > pool {
		return false
	}
	if after <= at.reserved {
		return true
	}
	if at.limit > 0 && after > at.limit {
		return false
	}
	if at.alpha == 0 {
		return true
	}
	return float64(after) <= at.alpha*float64(pool-used)
}

// Ingress implements fabric.Mechanism.
func (m *Mechanism) Ingress(now clock.Time, _ *fabric.Switch, p *fabric.Packet, _ *fabric.Port,
	v fabric.Verdict) fabric.Verdict {
	if v.Action != fabric.Forward {
		return v
	}
	v.Queue = m.queueOf[p.DSCP&sai.MaxDSCP]
	p.Class = v.Queue
	m.arm(now, p, int(v.Port), int(v.Queue))
	if r := m.matching(p); r >= 0 {
		m.acl[r].packets++
		m.acl[r].bytes += uint64(p.Size)
	}
	if !m.admits(int(v.Port), int(v.Queue), int(p.Size)) || m.refusesWithRoom(p, v) {
		return m.refuse(now, p, v)
	}
	m.decide(now, p, v, decisionAdmitted)
	return m.enqueue(now, p, v)
}

// Overflow implements fabric.Mechanism: the shared pool is full.
func (m *Mechanism) Overflow(now clock.Time, _ *fabric.Switch, p *fabric.Packet, v fabric.Verdict) fabric.Verdict {
	return m.refuse(now, p, v)
}

// Dequeued implements fabric.Mechanism.
func (m *Mechanism) Dequeued(now clock.Time, _ *fabric.Switch, p *fabric.Packet, v fabric.Verdict) fabric.Verdict {
	if isCopy(p) {
		m.arm(now, p, int(v.Port), originalQueue(p))
		m.countSent(int(v.Port), p)
		m.noteSent(int(v.Port), int(v.Queue), p)
	}
	return v
}

// refuse decides on a packet that was not admitted to the queue that v names.
func (m *Mechanism) refuse(now clock.Time, p *fabric.Packet, v fabric.Verdict) fabric.Verdict {
	if isCopy(p) {
		return m.refuseCopy(now, p, v)
	}
	at := &m.places[v.Port][v.Queue]
	m.countDropped(v, p)
	if !m.trims(at, p) {
		m.decide(now, p, v, decisionRefused)
		return v.Drop(fabric.ReasonTail)
	}
	m.decide(now, p, v, decisionTrimmed)
	m.trim(now, p, v)
	if used, pool := m.sw.BufferUsed(); m.bug.deliversBoth && used+m.waiting+int(p.Size) <= pool {
		return m.enqueue(now, p, v)
	}
	return v.Drop(ReasonTrimmed)
}

func (m *Mechanism) trims(at *place, p *fabric.Packet) bool {
	eligible := at.trim && !at.lossless || m.bug.trimsLossless && at.lossless || m.bug.trimsAlways
	if m.bug.v4Only && p.IPv6 || m.bug.dropsShort && int(p.Size) <= m.settings.Trimming.Size {
		return false
	}
	return eligible && (m.matching(p) < 0 || m.bug.ignoresACL || m.bug.aclV4 && p.IPv6)
}

// trim makes the copy of p and sends it to the trim queue of v.Port.
func (m *Mechanism) trim(now clock.Time, p *fabric.Packet, v fabric.Verdict) {
	m.copies++
	m.lastCopy = now
	m.countTrim(int(v.Port), int(v.Queue))
	c := m.sw.Copy(p, m.size(p))
	c.Meta = uint32(v.Queue) + 1
	c.DSCP = m.copyDSCP(p, int(v.Port))
	c.Flags |= fabric.TrimmedMark
	if c.Size < c.Original {
		c.Flags |= fabric.Trimmed | fabric.ChecksumStale
	}
	m.damage(c)
	queue := m.copyQueue(v)
	if m.bug.holdsCopies() {
		m.hold(now, c, int(v.Port), queue)
		return
	}
	m.send(now, c, int(v.Port), queue)
}

func (m *Mechanism) send(now clock.Time, c *fabric.Packet, port, queue int) {
	if m.bug.wrongPort {
		port = (port + 1) % m.sw.Ports()
	}
	v := fabric.Verdict{}.To(m.sw.Port(port), queue)
	if m.bug.losesCounted && m.copies%8 == 0 {
		m.countLost(v, c)
		m.decide(now, c, v, decisionLost)
		m.sw.Discard(now, c, v.Drop(ReasonLostCopy))
		return
	}
	if m.bug.dropsHeaders && m.copies%8 == 0 {
		m.sw.Discard(now, c, v.Drop(ReasonLostCopy))
		return
	}
	if m.admits(port, queue, int(c.Size)) {
		m.decide(now, c, v, decisionCopied)
		v = m.enqueue(now, c, v)
	} else {
		v = m.refuseCopy(now, c, v)
	}
	m.sw.Place(now, c, v)
}

// refuseCopy decides on a copy that the trim queue does not admit: it is dropped, not trimmed further.
func (m *Mechanism) refuseCopy(now clock.Time, c *fabric.Packet, v fabric.Verdict) fabric.Verdict {
	if m.bug.trimsTwice && c.Size > sai.MinSize {
		c.Size = sai.MinSize
		m.countTrim(int(v.Port), originalQueue(c))
		return v.To(m.sw.Port(int(v.Port)), originalQueue(c))
	}
	m.countLost(v, c)
	m.decide(now, c, v, decisionLost)
	return v.Drop(ReasonLostCopy)
}

// matching returns the index of the first ACL rule that matches p, −1 if none does.
func (m *Mechanism) matching(p *fabric.Packet) int {
	for i := range m.exempt {
		if m.exempt[i].Matches(Address(p.Src, p.IPv6), Address(p.Dst, p.IPv6)) {
			return i
		}
	}
	return -1
}

// Address returns a host's address in the fabric's address plan.
func Address(h fabric.HostID, v6 bool) netip.Addr {
	if v6 {
		return h.IPv6()
	}
	return h.IPv4()
}

func hostPrefix(h fabric.HostID, v6 bool) netip.Prefix {
	a := Address(h, v6)
	return netip.PrefixFrom(a, a.BitLen())
}

// Snapshot returns every counter of the switch.
func (m *Mechanism) Snapshot() sai.Snapshot {
	s := sai.Snapshot{Schema: sai.Schema}
	for i := range m.counters {
		p := m.port(i)
		s.TxTrim += p.TxTrim
		s.DroppedTrim += p.DroppedTrim
		s.Ports = append(s.Ports, p)
	}
	for i, c := range m.acl {
		s.ACL = append(s.ACL, sai.ACL{Rule: m.settings.Rules[i].Name, Packets: sai.Count(c.packets),
			Bytes: sai.Count(c.bytes)})
	}
	m.miscountSnapshot(&s)
	return s
}

func (m *Mechanism) port(i int) sai.Port {
	port := m.sw.Port(i)
	c := port.Counters()
	p := sai.Port{ // pause frames are multicast: they count as octets, not as unicast packets
		Name: PortName(i), InPackets: sai.Count(c.Received - c.PausesReceived),
		InOctets:   sai.Count(c.ReceivedBytes + fcs*c.Received),
		OutPackets: sai.Count(c.Sent - c.PausesSent), OutOctets: sai.Count(c.SentBytes + fcs*c.Sent),
	}
	for j, q := range m.counters[i] {
		sent := port.Queue(j).Counters()
		p.Queues = append(p.Queues, sai.Queue{
			Packets: sai.Count(sent.Dequeued), Bytes: sai.Count(sent.DequeuedBytes),
			DroppedPackets: sai.Count(q.dropped), DroppedBytes: sai.Count(q.droppedBytes),
			Trim: sai.Count(q.trim), TxTrim: sai.Count(q.txTrim), DroppedTrim: sai.Count(q.droppedTrim),
		})
		p.OutDiscards += sai.Count(q.dropped)
		p.Trim += sai.Count(q.trim)
		p.TxTrim += sai.Count(q.txTrim)
		p.DroppedTrim += sai.Count(q.droppedTrim)
	}
	return p
}
