package sai

import (
	"fmt"
	"strings"

	"candela.dev/candela/clock"
	"candela.dev/candela/generator/parameter"
	"candela.dev/candela/packet"
	"candela.dev/candela/sai"
	"candela.dev/candela/testbeds/virtual/fabric"
)

// bugs are the seeded bugs of the model.
type bugs struct {
	wrongSize, wrongDSCP, wrongPortMap, wrongQueue   bool
	checksumStale, lengthStale, swapsPorts, returns  bool
	trimsLossless, trimsAlways, ignoresACL           bool
	v4Only, trimsRunts, trimsTwice, forgetsToggle    bool
	dropsHeaders, behindData, reorders, duplicates   bool
	missesTrims, missesDrops, missesLost, missesSent bool
	countsOnTrimQueue, portOff, switchOff, aclOff    bool
	octetsOriginal, octetsQueue, octetsFCS, octetsIP bool
	clearsECN, wrongTTL, wrongPort, deliversBoth     bool
	trimsWithRoom, dropsShort, losesCounted          bool
	swapsQueues, restarts, aclV4                     bool

	when condition // nil: always
}

// list maps the bugs' names to their switches.
func (b *bugs) list() []struct {
	parameter.Bug
	on *bool
} {
	return []struct {
		parameter.Bug
		on *bool
	}{
		{parameter.Bug{Name: "wrong-size", Doc: "Keeps 14 bytes more than the trim size: counts from the IP header on.",
			Rule: "sai.trim-size"}, &b.wrongSize},
		{parameter.Bug{Name: "wrong-dscp", Doc: "Leaves the original's DSCP in the copy.", Rule: "sai.dscp"}, &b.wrongDSCP},
		{parameter.Bug{Name: "wrong-port-map", Doc: "Takes the copy's DSCP from the map of the port that the packet came " +
			"in by.", Rule: "sai.dscp"}, &b.wrongPortMap},
		{parameter.Bug{Name: "wrong-queue", Doc: "Sends copies by the original's queue.", Rule: "sai.queue"}, &b.wrongQueue},
		{parameter.Bug{Name: "checksum-stale", Doc: "Does not update the copy's IPv4 header checksum.",
			Rule: "sai.ip-checksum"}, &b.checksumStale},
		{parameter.Bug{Name: "length-stale", Doc: "Does not update the copy's IP length.", Rule: "sai.ip-length"},
			&b.lengthStale},
		{parameter.Bug{Name: "swaps-ports", Doc: "Swaps the copy's transport ports.", Rule: "sai.headers"}, &b.swapsPorts},
		{parameter.Bug{Name: "returns-to-sender", Doc: "Reverses the copy's addresses.", Rule: "sai.forward-only"},
			&b.returns},
		{parameter.Bug{Name: "trims-lossless", Doc: "Trims what a lossless queue does not admit.", Rule: "sai.lossless"},
			&b.trimsLossless},
		{parameter.Bug{Name: "trims-always", Doc: "Trims whatever the buffer profile's action says.", Rule: "sai.action"},
			&b.trimsAlways},
		{parameter.Bug{Name: "ignores-acl", Doc: "Trims packets that an ACL entry exempts.", Rule: "sai.acl"}, &b.ignoresACL},
		{parameter.Bug{Name: "v4-only", Doc: "Drops IPv6 packets instead of trimming them.", Rule: "sai.untrimmed"},
			&b.v4Only},
		{parameter.Bug{Name: "trims-runts", Doc: "Cuts packets that are shorter than the trim size.", Rule: "sai.runt"},
			&b.trimsRunts},
		{parameter.Bug{Name: "trims-twice", Doc: "Cuts a copy that the trim queue refuses once more and sends it by the " +
			"original's queue.", Rule: "sai.trim-size"}, &b.trimsTwice},
		{parameter.Bug{Name: "forgets-toggle", Doc: "Ignores changes of settings while traffic runs.", Rule: "sai.action"},
			&b.forgetsToggle},
		{parameter.Bug{Name: "drops-headers", Doc: "Loses one copy in eight and counts it nowhere.", Rule: "sai.silent-loss"},
			&b.dropsHeaders},
		{parameter.Bug{Name: "headers-behind-data", Doc: "Holds each copy back for 20 us.", Rule: "sai.overtake"},
			&b.behindData},
		{parameter.Bug{Name: "reorders-headers", Doc: "Sends copies in pairs, the later first.", Rule: "sai.order"},
			&b.reorders},
		{parameter.Bug{Name: "duplicates-headers", Doc: "Sends one copy in eight twice.", Rule: "sai.once"}, &b.duplicates},
		{parameter.Bug{Name: "count-misses-trims", Doc: "Counts seven of eight trimmed packets.", Rule: "sai.conservation"},
			&b.missesTrims},
		{parameter.Bug{Name: "count-misses-drops", Doc: "Does not count originals as dropped once they are trimmed.",
			Rule: "sai.counter-dropped"}, &b.missesDrops},
		{parameter.Bug{Name: "count-misses-lost-copies", Doc: "Does not count copies that are lost on the trim queue.",
			Rule: "sai.silent-loss"}, &b.missesLost},
		{parameter.Bug{Name: "count-misses-sent-copies", Doc: "Counts seven of eight copies that are sent.",
			Rule: "sai.counter-sent"}, &b.missesSent},
		{parameter.Bug{Name: "count-on-trim-queue", Doc: "Counts on the trim queue what belongs to the original's queue.",
			Rule: "sai.counter-queue"}, &b.countsOnTrimQueue},
		{parameter.Bug{Name: "count-port-off", Doc: "A port's trim counters are one queue short.", Rule: "sai.port-sum"},
			&b.portOff},
		{parameter.Bug{Name: "count-switch-off", Doc: "The switch's trim counters are one port short.",
			Rule: "sai.switch-sum"}, &b.switchOff},
		{parameter.Bug{Name: "count-acl-off", Doc: "ACL entries count nothing.", Rule: "sai.acl-counter"}, &b.aclOff},
		{parameter.Bug{Name: "octets-of-originals",
			Doc: "A port counts the octets of a copy's original instead of the copy's.", Rule: "sai.octets"}, &b.octetsOriginal},
		{parameter.Bug{Name: "octets-miss-copies", Doc: "A queue's octets leave out copies.", Rule: "sai.octets"},
			&b.octetsQueue},
		{parameter.Bug{Name: "octets-fcs-one-way", Doc: "Octets received count the FCS, octets sent don't.",
			Rule: "sai.octets"}, &b.octetsFCS},
		{parameter.Bug{Name: "octets-acl-ip", Doc: "An ACL entry counts the bytes of IP packets instead of frames.",
			Rule: "sai.octets"}, &b.octetsIP},
		{parameter.Bug{Name: "clears-ecn", Doc: "Writes the trim DSCP over the copy's ECN bits, too.", Rule: "sai.headers"},
			&b.clearsECN},
		{parameter.Bug{Name: "wrong-ttl", Doc: "Counts two hops in the copy's TTL.", Rule: "sai.headers"}, &b.wrongTTL},
		{parameter.Bug{Name: "wrong-port", Doc: "Sends copies by the port next to the packet's.", Rule: "sai.forward-only"},
			&b.wrongPort},
		{parameter.Bug{Name: "delivers-both", Doc: "Forwards a packet whole although a copy of it was sent.",
			Rule: "sai.once"}, &b.deliversBoth},
		{parameter.Bug{Name: "trims-with-room", Doc: "Trims one packet in 16 although its queue has room.", Rule: "sai.room"},
			&b.trimsWithRoom},
		{parameter.Bug{Name: "drops-short", Doc: "Drops packets that are too short to be cut instead of sending them by " +
			"the trim queue.", Rule: "sai.untrimmed"}, &b.dropsShort},
		{parameter.Bug{Name: "acl-v4-only", Doc: "Trims IPv6 packets that an ACL entry exempts.", Rule: "sai.acl"}, &b.aclV4},
		{parameter.Bug{Name: "loses-counted",
			Doc: "Loses one copy in eight although the trim queue has room, and counts it as lost."}, &b.losesCounted},
		{parameter.Bug{Name: "count-swaps-queues", Doc: "Swaps the trim counters of queues 1 and 2.",
			Rule: "sai.counter-queue"}, &b.swapsQueues},
		{parameter.Bug{Name: "count-restarts", Doc: "Trim counters start again when a setting changes.",
			Rule: "sai.counter-trim"}, &b.restarts},
	}
}

func bugTable() []parameter.Bug {
	var b bugs
	var table []parameter.Bug
	for _, entry := range b.list() {
		table = append(table, entry.Bug)
	}
	return table
}

func parseBugs(names []string) (bugs, error) {
	var b bugs
	for _, name := range names {
		known := false
		name, limit, limited := strings.Cut(name, "@")
		if limited {
			if b.when = conditions()[limit]; b.when == nil {
				return bugs{}, fmt.Errorf("the sai model has no condition %q of bugs", limit)
			}
		}
		for _, entry := range b.list() {
			if entry.Name == name {
				*entry.on, known = true, true
			}
		}
		if !known {
			return bugs{}, fmt.Errorf("the sai model has no bug %q", name)
		}
	}
	return b, nil
}

// size returns the number of bytes of p that a copy keeps.
func (m *Mechanism) size(p *fabric.Packet) int {
	size := m.settings.Trimming.Size
	if m.bug.wrongSize {
		size += 14
	}
	if m.bug.trimsRunts && int(p.Size) <= size {
		return sai.MinSize
	}
	return size
}

func (m *Mechanism) copyDSCP(p *fabric.Packet, port int) uint8 {
	switch {
	case m.bug.wrongDSCP:
		return p.DSCP
	case m.bug.wrongPortMap:
		return m.dscp[p.Ingress]
	}
	return m.dscp[port]
}

func (m *Mechanism) copyQueue(v fabric.Verdict) int {
	if m.bug.wrongQueue {
		return int(v.Queue)
	}
	return int(m.queue[v.Port])
}

func (m *Mechanism) damage(c *fabric.Packet) {
	if m.bug.checksumStale {
		c.Flags |= fabric.HeaderSumStale
	}
	if m.bug.lengthStale {
		c.Flags |= fabric.LengthStale
	}
	if m.bug.swapsPorts {
		c.Flags ^= fabric.PortsSwapped
	}
	if m.bug.returns {
		c.Return()
	}
	if m.bug.clearsECN {
		c.ECN = packet.NotECT
	}
	if m.bug.wrongTTL {
		c.TTL -= 2
	}
}

// heldCopy is a copy that a bug delays.
type heldCopy struct {
	packet      *fabric.Packet
	port, queue int
}

func (b *bugs) holdsCopies() bool { return b.behindData || b.reorders || b.duplicates }

// hold delays a copy, or duplicates it.
func (m *Mechanism) hold(now clock.Time, c *fabric.Packet, port, queue int) {
	if m.bug.duplicates {
		if m.copies%8 == 0 {
			twin := m.sw.Copy(c, 0)
			twin.Meta = c.Meta
			m.send(now, twin, port, queue)
		}
		m.send(now, c, port, queue)
		return
	}
	m.held = append(m.held, heldCopy{c, port, queue})
	if m.bug.behindData {
		m.sw.Wake(now.Add(20*clock.Microsecond), 0)
		return
	}
	if len(m.held) == 2 {
		m.release(now)
		return
	}
	m.sw.Wake(now.Add(5*clock.Microsecond), 0)
}

// HandleTimer implements fabric.Timed: it sends delayed packets.
func (m *Mechanism) HandleTimer(now clock.Time, _ *fabric.Switch, token uint64) {
	if token > 0 {
		m.pass(now, token)
		return
	}
	if m.seeded.reorders {
		m.release(now)
		return
	}
	if len(m.held) > 0 {
		h := m.held[0]
		m.held = m.held[1:]
		m.send(now, h.packet, h.port, h.queue)
	}
}

// release sends all held copies, the last first.
func (m *Mechanism) release(now clock.Time) {
	held := m.held
	m.held = nil
	for i := range held {
		h := held[len(held)-1-i]
		m.send(now, h.packet, h.port, h.queue)
	}
}

// counter returns the counters of the queue that a trimmed packet counts for.
func (m *Mechanism) counter(port, queue int) *counted {
	if m.bug.countsOnTrimQueue {
		queue = int(m.queue[port])
	}
	return &m.counters[port][queue]
}

func (m *Mechanism) countTrim(port, queue int) {
	if m.bug.missesTrims && m.copies%8 == 0 {
		return
	}
	m.counter(port, queue).trim++
}

func (m *Mechanism) countSent(port int, c *fabric.Packet) {
	q := m.counter(port, originalQueue(c))
	if m.bug.missesSent && c.ID%8 == 0 {
		return
	}
	q.txTrim++
}

// countDropped counts an original that was refused, trimmed or not.
func (m *Mechanism) countDropped(v fabric.Verdict, p *fabric.Packet) {
	if m.bug.missesDrops && m.trims(&m.places[v.Port][v.Queue], p) {
		return
	}
	q := &m.counters[v.Port][v.Queue]
	q.dropped++
	q.droppedBytes += uint64(p.Size)
}

// countLost counts a copy that the trim queue refused: as a drop of that queue, and as a lost copy of the original's
// queue.
func (m *Mechanism) countLost(v fabric.Verdict, c *fabric.Packet) {
	q := &m.counters[v.Port][v.Queue]
	q.dropped++
	q.droppedBytes += uint64(c.Size)
	if !m.bug.missesLost {
		m.counter(int(v.Port), originalQueue(c)).droppedTrim++
	}
}

// noteSent records data of sent copies for bugs that count them wrongly.
func (m *Mechanism) noteSent(port, queue int, c *fabric.Packet) {
	at := &m.counters[port][queue]
	at.copyBytes += uint64(c.Size)
	at.copyExcess += uint64(max(0, c.Original-c.Size))
}

func (m *Mechanism) restart() {
	for i := range m.counters {
		for q := range m.counters[i] {
			at := &m.counters[i][q]
			at.trim, at.txTrim, at.droppedTrim = 0, 0, 0
		}
	}
}

// miscountOctets makes octets inconsistent with packets.
func (m *Mechanism) miscountOctets(s *sai.Snapshot) {
	for i := range s.Ports {
		p := &s.Ports[i]
		if m.bug.octetsFCS {
			p.OutOctets -= fcs * sai.Count(m.sw.Port(i).Counters().Sent)
		}
		for q := range p.Queues {
			at := &m.counters[i][q]
			if m.bug.octetsOriginal {
				p.OutOctets += sai.Count(at.copyExcess)
			}
			if m.bug.octetsQueue {
				p.Queues[q].Bytes -= sai.Count(at.copyBytes)
			}
		}
	}
	for i := range s.ACL {
		if m.bug.octetsIP {
			s.ACL[i].Bytes -= sai.EthernetHeader * s.ACL[i].Packets
		}
	}
}

func (m *Mechanism) swapQueues(s *sai.Snapshot) {
	for i := range s.Ports {
		if q := s.Ports[i].Queues; m.bug.swapsQueues {
			q[1].Trim, q[2].Trim = q[2].Trim, q[1].Trim
			q[1].TxTrim, q[2].TxTrim = q[2].TxTrim, q[1].TxTrim
			q[1].DroppedTrim, q[2].DroppedTrim = q[2].DroppedTrim, q[1].DroppedTrim
		}
	}
}

// miscountSnapshot makes sums inconsistent.
func (m *Mechanism) miscountSnapshot(s *sai.Snapshot) {
	m.bug = m.seeded
	m.miscountOctets(s)
	m.swapQueues(s)
	if m.bug.aclOff {
		for i := range s.ACL {
			s.ACL[i].Packets, s.ACL[i].Bytes = 0, 0
		}
	}
	for i := range s.Ports {
		p := &s.Ports[i]
		if p.Trim == 0 {
			continue
		}
		if m.bug.switchOff {
			s.TxTrim -= p.TxTrim
			s.DroppedTrim -= p.DroppedTrim
			return
		}
		for _, q := range p.Queues {
			if m.bug.portOff && q.Trim > 0 {
				p.Trim -= q.Trim
				p.TxTrim -= q.TxTrim
				return
			}
		}
	}
}
