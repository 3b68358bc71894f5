package plan

import (
	"fmt"

	"candela.dev/candela/generator"
	"candela.dev/candela/orchestrator/config"
	"candela.dev/candela/packet"
)

// target is the data packet of an event.
type target struct {
	generator.Message
	psn    int64
	place  int // 1-based place in the message
	mtu    int
	sender config.Side // sender of the data packet
}

// target returns the data packet with a PSN among the requests of side s. ok is false after the end of the traffic.
func (p *Plan) target(connection int, s config.Side, psn int64) (t target, ok bool) {
	g := p.traffic(connection, s)
	m, ok := g.Locate(psn)
	t = target{Message: m, psn: psn, place: int(psn-m.FirstPSN) + 1, mtu: g.MTU, sender: s}
	if m.Verb == generator.Read {
		t.sender = s.Peer()
	}
	return t, ok
}

func (t target) last() bool { return t.place == t.PSNs }

// payload returns the payload length, in bytes.
func (t target) payload() int {
	switch {
	case t.Verb.IsAtomic():
		return 0
	case t.last():
		return t.Length - (t.PSNs-1)*t.mtu
	}
	return t.mtu
}

// ipLength returns the length of the packet from the start of its IP header, in bytes.
func (t target) ipLength(ipHeader int) int {
	payload := t.payload()
	return ipHeader + packet.UDPLen + packet.BTHLen + t.extensions() + (payload+3)/4*4 + packet.ICRCLen
}

// extensions returns the length of the extended transport headers, in bytes (IBTA volume 1, table 38).
func (t target) extensions() int {
	first := t.place == 1
	n := 0
	switch {
	case t.Verb.IsAtomic():
		return packet.AtomicETHLen
	case t.Verb == generator.Read && (first || t.last()):
		return packet.AETHLen
	case t.Verb.Wire() == packet.VerbWrite && first:
		n = packet.RETHLen
	}
	if t.last() && (t.Verb == generator.WriteImm || t.Verb == generator.SendImm) {
		n += packet.ImmDtLen
	}
	if t.last() && t.Verb == generator.SendInvalidate {
		n += packet.IETHLen
	}
	return n
}

// name returns the packet's role in its message, as in the opcode's name.
func (t target) name() string {
	base := map[packet.Verb]string{
		packet.VerbWrite: "RDMA WRITE", packet.VerbSend: "SEND", packet.VerbRead: "RDMA READ RESPONSE",
	}[t.Verb.Wire()]
	imm := ""
	if t.Verb == generator.WriteImm || t.Verb == generator.SendImm {
		imm = " with immediate"
	}
	if t.Verb == generator.SendInvalidate {
		imm = " with invalidate"
	}
	switch {
	case t.Verb == generator.CompareSwap:
		return "COMPARE SWAP"
	case t.Verb == generator.FetchAdd:
		return "FETCH ADD"
	case t.PSNs == 1:
		return base + " ONLY" + imm
	case t.place == 1:
		return base + " FIRST"
	case t.last():
		return base + " LAST" + imm
	}
	return base + " MIDDLE"
}

// where describes the packet's position for messages.
func (t target) where() string {
	return fmt.Sprintf("packet %d of %d of message %d (%v)", t.place, t.PSNs, t.Index+1, t.Verb)
}
