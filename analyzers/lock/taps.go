package lock

import (
	"candela.dev/candela/analyzers"
	"candela.dev/candela/clock"
	"candela.dev/candela/lock"
	"candela.dev/candela/packet/netlock"
	"candela.dev/candela/trace"
)

// Reasons of drops with which a switch consumes packets: nothing is lost.
const (
	ReasonTaken   = "taken"
	ReasonIgnored = "ignored"
)

// Taps turns what the taps of a run show into packets, and shows those to a judge. Beside them a judge of lock switches
// needs little of analyzers.SwitchJudge.
type Taps struct {
	view   analyzers.SwitchView
	many   bool          // switches in the network
	show   func(*Packet) // which is valid until it returns
	packet Packet
}

// NewTaps returns the taps of the switches of a view. They show what enters or leaves a switch, or is lost in it.
func NewTaps(v analyzers.SwitchView, show func(*Packet)) Taps {
	return Taps{view: v, many: analyzers.OneOfMany(v), show: show}
}

// Decide implements analyzers.SwitchJudge: lock switches record no decisions.
func (s *Taps) Decide(*trace.Decision) {}

// Changed implements analyzers.SwitchJudge: nothing changes while the switch runs.
func (s *Taps) Changed(clock.Time, int) {}

// ObserveLock observes a packet of the lock manager.
func (s *Taps) ObserveLock(t *trace.SwitchTap, h *netlock.Header) {
	p := s.take(t)
	if p == nil {
		return
	}
	p.Lock, p.Header = true, *h
	p.Src, p.Dst = s.view.Address(t.Src, t.IPv6), s.view.Address(t.Dst, t.IPv6)
	if p.DstPort = netlock.Port; t.Flags&trace.Returned != 0 {
		p.DstPort = netlock.ReplyPort
	}
	s.show(p)
}

// Observe implements analyzers.SwitchJudge, for packets of others.
func (s *Taps) Observe(t *trace.SwitchTap) {
	p := s.take(t)
	if p == nil {
		return
	}
	if s.many { // packets of a flow may take several ways
		s.show(p)
		return
	}
	p.Flow = uint64(t.Class)<<48 ^ uint64(t.Src)<<40 ^ uint64(t.Dst)<<20 ^ uint64(t.Flow)<<8 ^ uint64(t.Protocol) | 1<<63
	p.Digest = t.Number*0x9e3779b97f4a7c15 ^ uint64(t.Original)<<32 ^ uint64(t.Size) | 1<<63
	s.show(p)
}

// take begins the packet of a tap.
func (s *Taps) take(t *trace.SwitchTap) *Packet {
	if t.Internal && t.Stage != trace.Dropped || t.Flags&trace.Notification != 0 {
		return nil
	}
	s.packet = Packet{Time: t.Time, ID: t.ID, Switch: t.Switch, Port: t.Port, Stage: t.Stage, Size: t.Size}
	if t.Stage == trace.Dropped {
		why := s.view.Reason(t.Switch, t.Reason)
		s.packet.Outage = why.Outage
		if why.Name == ReasonTaken || why.Name == ReasonIgnored {
			return nil
		}
	}
	return &s.packet
}

// Ports returns the ports of a switch, of which peer, unless it is negative, leads to the other one of its pair.
func Ports(v analyzers.SwitchView, sw, peer int) (list []lock.Port) {
	for port := range v.Ports(sw) {
		of := lock.Port{}
		of.Rate, of.Framing = v.Link(sw, port)
		_, host := v.HostAt(sw, port)
		of.Trunk, of.Peer = !host && peer < 0 || port == peer, port == peer
		list = append(list, of)
	}
	return list
}
