package agent

import (
	"fmt"
	"math"
	"net/netip"

	"candela.dev/candela/generator"
	"candela.dev/candela/generator/live"
	"candela.dev/candela/generator/verbs"
	"candela.dev/candela/packet"
	agentpb "candela.dev/candela/proto/agent/v1"
)

func trafficToProto(t generator.Traffic) *agentpb.Traffic {
	m := &agentpb.Traffic{Messages: uint32(t.Messages), MessageSize: uint32(t.MessageSize), Mtu: uint32(t.MTU),
		TxDepth:   uint32(t.TxDepth),
		StaleRkey: t.StaleRKey}
	for _, v := range t.Verbs {
		m.Verbs = append(m.Verbs, v.String())
	}
	return m
}

func trafficFromProto(m *agentpb.Traffic) (generator.Traffic, error) {
	t := generator.Traffic{
		Messages: int(m.GetMessages()), MessageSize: int(m.GetMessageSize()), MTU: int(m.GetMtu()),
		TxDepth:   int(m.GetTxDepth()),
		StaleRKey: m.GetStaleRkey(),
	}
	for _, v := range []uint32{m.GetMessages(), m.GetMessageSize(), m.GetMtu(), m.GetTxDepth()} {
		if v > math.MaxInt32 {
			return t, fmt.Errorf("traffic: %d is too large", v)
		}
	}
	for _, name := range m.GetVerbs() {
		v, ok := generator.ParseVerb(name)
		if !ok {
			return t, fmt.Errorf("traffic: verb %q is unknown", name)
		}
		t.Verbs = append(t.Verbs, v)
	}
	if t.Messages > 0 && (t.MTU == 0 || len(t.Verbs) == 0) {
		return t, fmt.Errorf("traffic: %d messages without MTU or verb", t.Messages)
	}
	return t, nil
}

func endToProto(e live.End) *agentpb.End {
	return &agentpb.End{Ip: e.IP.AsSlice(), Qpn: uint32(e.QPN), Ipsn: uint32(e.IPSN), Mac: e.MAC[:],
		RegionBase: e.Region.Base, RegionLength: e.Region.Length, Rkey: e.Region.RKey}
}

func endFromProto(m *agentpb.End) (live.End, error) {
	ip, ok := netip.AddrFromSlice(m.GetIp())
	const bits24 = 1<<24 - 1
	switch {
	case !ok:
		return live.End{}, fmt.Errorf("IP address of %d bytes", len(m.GetIp()))
	case len(m.GetMac()) != len(packet.MAC{}):
		return live.End{}, fmt.Errorf("MAC of %d bytes", len(m.GetMac()))
	case m.GetQpn() > bits24 || m.GetIpsn() > bits24:
		return live.End{}, fmt.Errorf("QPN %d or PSN %d has more than 24 bits", m.GetQpn(), m.GetIpsn())
	}
	return live.End{
		IP: ip, QPN: packet.QPN(m.GetQpn()), IPSN: packet.PSN(m.GetIpsn()), MAC: packet.MAC(m.GetMac()),
		Region: generator.Region{Base: m.GetRegionBase(), Length: m.GetRegionLength(), RKey: m.GetRkey()},
	}, nil
}

func dataToProto(d *verbs.Data) *agentpb.DataCheck {
	return &agentpb.DataCheck{Checked: uint32(d.Checked), Wrong: uint32(d.Wrong), First: d.First, Written: d.Written,
		Word: d.Word, Imaginary: d.Imaginary}
}

func dataFromProto(m *agentpb.DataCheck) verbs.Data {
	return verbs.Data{Checked: int(m.GetChecked()), Wrong: int(m.GetWrong()), First: m.GetFirst(), Written: m.GetWritten(),
		Word: m.GetWord(), Imaginary: m.GetImaginary()}
}
