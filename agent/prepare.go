package agent

import (
	"bytes"
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"math"
	"net/netip"
	"regexp"
	"strings"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/reflect/protoreflect"

	"candela.dev/candela/clock"
	"candela.dev/candela/generator"
	"candela.dev/candela/generator/live"
	"candela.dev/candela/generator/rdma"
	"candela.dev/candela/packet"
	agentpb "candela.dev/candela/proto/agent/v1"
	"candela.dev/candela/testbeds"
)

// Host is what a host is prepared with.
type Host struct {
	Interface string
	Side      generator.Side
	NIC       testbeds.Host
	Spec      *testbeds.Spec
	RDMA      *RDMA // nil: a NIC model
}

// prepareRequest encodes h; [hostOf] is its inverse. A test compares the two field by field, so that no field of a test
// is lost.
func prepareRequest(run string, h Host) *agentpb.PrepareRequest {
	q := &agentpb.PrepareRequest{
		Run: run, Interface: h.Interface, Side: uint32(h.Side), BarrierSync: h.Spec.BarrierSync,
		ReceiveDepth:  uint32(h.Spec.RxDepth),
		RepostDelayPs: int64(h.Spec.RxRepostDelay), Nic: nicToProto(&h.NIC, h.Spec.Seed), Snap: uint32(h.Spec.Switch.Snap),
	}
	if d := h.RDMA; d != nil {
		q.Rdma = &agentpb.Rdma{Device: d.Device, Port: uint32(d.Port), Software: d.Software, OwnSettings: d.OwnSettings}
		if d.GIDIndex != nil {
			index := uint32(*d.GIDIndex)
			q.Rdma.GidIndex = &index
		}
		if d.Watch != nil {
			q.Rdma.Watch = &agentpb.Watch{Pause: d.Watch.Pause}
		}
	}
	for _, c := range h.Spec.Connections {
		m := &agentpb.Connection{
			LocalIp: c.IPs[h.Side].AsSlice(), Mtu: uint32(c.MTU), AckTimeout: uint32(c.AckTimeout),
			RetryCount: uint32(c.RetryCount),
			RnrRetry:   uint32(c.RNRRetry), MinRnrTimer: uint32(c.MinRNRTimer),
			FlowLabel: c.FlowLabel, SourcePort: uint32(c.SourcePort), MaxRdAtomic: uint32(c.MaxRDAtomic),
			Traffic: trafficToProto(c.Traffic[h.Side]), PeerTraffic: trafficToProto(c.Traffic[h.Side.Peer()]),
		}
		if psn := c.InitialPSN[h.Side]; psn != nil {
			v := uint32(*psn)
			m.InitialPsn = &v
		}
		q.Connections = append(q.Connections, m)
	}
	return q
}

func nicToProto(n *testbeds.Host, seed uint64) *agentpb.Nic {
	m := &agentpb.Nic{
		Name: n.Name, Profile: n.Profile, Bugs: n.Bugs, DcqcnRp: n.DCQCNRP, DcqcnNp: n.DCQCNNP,
		MinTimeBetweenCnpsPs: int64(n.MinTimeBetweenCNPs), CnpPacing: n.CNPPacing, SlowRestart: n.SlowRestart,
		AdaptiveRetrans: n.AdaptiveRetrans, TrimReaction: n.TrimReaction, TrimDscp: uint32(n.TrimDSCP), Ecn: uint32(n.ECN),
		Dscp: uint32(n.DSCP), HopLimit: uint32(n.HopLimit), RateBps: int64(n.Rate), Seed: seed,
		DcqcnPriority: uint32(n.DCQCNPriority),
	}
	for _, s := range n.Settings {
		m.Settings = append(m.Settings, &agentpb.NicSetting{Name: s.Name, Value: s.Value})
	}
	if n.MAC != nil {
		m.Mac = n.MAC[:]
	}
	for _, ip := range n.IPs {
		m.Ips = append(m.Ips, ip.AsSlice())
	}
	if p, err := rdma.ProfileByName(n.Profile); err == nil { // of an unknown profile the agent complains
		m.ProfileSha256 = digestOf(&p)
	}
	return m
}

// hostOf decodes what prepareRequest encodes. It checks that every value fits; the model checks its meaning.
func hostOf(q *agentpb.PrepareRequest, limits Limits) (Host, error) {
	if name := unknownIn(q.ProtoReflect()); name != "" {
		return Host{}, refuse("%s has a field that this agent doesn't know: install the orchestrator's version of candela",
			name)
	}
	if q.GetSide() > uint32(generator.Responder) || q.GetReceiveDepth() > math.MaxInt32 || q.GetSnap() > math.MaxInt32 {
		return Host{}, refuse("side %d, receive depth %d, snap %d", q.GetSide(), q.GetReceiveDepth(), q.GetSnap())
	}
	h := Host{Interface: q.GetInterface(), Side: generator.Side(q.GetSide()), Spec: &testbeds.Spec{
		Seed: q.GetNic().GetSeed(), BarrierSync: q.GetBarrierSync(), RxDepth: int(q.GetReceiveDepth()),
		RxRepostDelay: clock.Duration(q.GetRepostDelayPs()), Switch: testbeds.Switch{Snap: int(q.GetSnap())},
	}}
	var err error
	if h.NIC, err = nicFromProto(q.GetNic()); err != nil {
		return Host{}, refuse("nic: %v", err)
	}
	if h.RDMA, err = rdmaFromProto(q.GetRdma()); err != nil {
		return Host{}, refuse("rdma: %v", err)
	}
	if h.RDMA == nil && len(h.NIC.Settings) > 0 {
		return Host{}, refuse("setting %s: a NIC model has none", h.NIC.Settings[0].Name)
	}
	h.Spec.Connections, err = connectionsOf(q, h.Side, limits)
	return h, err
}

// deviceForm is what an RDMA device may be called.
var deviceForm = regexp.MustCompile(`^[A-Za-z0-9._-]{1,63}$`)

func rdmaFromProto(m *agentpb.Rdma) (*RDMA, error) {
	const maxPort = 255
	switch {
	case m == nil:
		return nil, nil
	case !deviceForm.MatchString(m.GetDevice()) || strings.Trim(m.GetDevice(), ".") == "":
		return nil, fmt.Errorf("%q is not the name of a device", m.GetDevice())
	case m.GetPort() < 1 || m.GetPort() > maxPort:
		return nil, fmt.Errorf("port %d: want 1 to %d", m.GetPort(), maxPort)
	case m.GetGidIndex() > math.MaxUint16:
		return nil, fmt.Errorf("GID index %d: no device has so many", m.GetGidIndex())
	}
	d := &RDMA{Device: m.GetDevice(), Port: int(m.GetPort()), Software: m.GetSoftware(), OwnSettings: m.GetOwnSettings()}
	if m.GidIndex != nil {
		index := int(m.GetGidIndex())
		d.GIDIndex = &index
	}
	if w := m.GetWatch(); w != nil {
		d.Watch = &Watch{Pause: w.GetPause()}
	}
	return d, nil
}

// unknownIn names the first message within m with fields that this version does not know; "" if none.
func unknownIn(m protoreflect.Message) (name string) {
	if len(m.GetUnknown()) > 0 {
		return string(m.Descriptor().Name())
	}
	m.Range(func(field protoreflect.FieldDescriptor, v protoreflect.Value) bool {
		switch {
		case field.Message() == nil:
		case field.IsList():
			for i := range v.List().Len() {
				if name == "" {
					name = unknownIn(v.List().Get(i).Message())
				}
			}
		default:
			name = unknownIn(v.Message())
		}
		return name == ""
	})
	return name
}

func nicFromProto(n *agentpb.Nic) (testbeds.Host, error) {
	h := testbeds.Host{
		Name: n.GetName(), Profile: n.GetProfile(), Bugs: n.GetBugs(), DCQCNRP: n.GetDcqcnRp(), DCQCNNP: n.GetDcqcnNp(),
		MinTimeBetweenCNPs: clock.Duration(n.GetMinTimeBetweenCnpsPs()), CNPPacing: n.GetCnpPacing(),
		SlowRestart:     n.GetSlowRestart(),
		AdaptiveRetrans: n.GetAdaptiveRetrans(), TrimReaction: n.GetTrimReaction(), TrimDSCP: uint8(n.GetTrimDscp()),
		ECN: packet.ECN(n.GetEcn()), DSCP: uint8(n.GetDscp()), HopLimit: uint8(n.GetHopLimit()),
		Rate: clock.BitRate(n.GetRateBps()), DCQCNPriority: uint8(n.GetDcqcnPriority()),
	}
	for _, s := range n.GetSettings() {
		h.Settings = append(h.Settings, testbeds.Setting{Name: s.GetName(), Value: s.GetValue()})
	}
	for _, v := range []uint32{n.GetTrimDscp(), n.GetEcn(), n.GetDscp(), n.GetHopLimit(), n.GetDcqcnPriority()} {
		if v > math.MaxUint8 {
			return h, fmt.Errorf("%d doesn't fit into a byte", v)
		}
	}
	if m := n.GetMac(); len(m) > 0 {
		if len(m) != len(packet.MAC{}) {
			return h, fmt.Errorf("MAC of %d bytes", len(m))
		}
		mac := packet.MAC(m)
		h.MAC = &mac
	}
	for _, b := range n.GetIps() {
		ip, ok := netip.AddrFromSlice(b)
		if !ok {
			return h, fmt.Errorf("IP address of %d bytes", len(b))
		}
		h.IPs = append(h.IPs, ip)
	}
	return h, sameProfile(n)
}

// digestOf identifies a profile: profiles with equal digests are the same model.
func digestOf(p *rdma.Profile) []byte {
	text, err := json.Marshal(p)
	if err != nil {
		panic(fmt.Sprintf("profile %s cannot be written: %v", p.Name, err)) // of numbers, words and lists of them
	}
	sum := sha256.Sum256(text)
	return sum[:]
}

// sameProfile refuses a profile that differs from the caller's. Profiles are sent by name; another version may have
// changed one.
func sameProfile(n *agentpb.Nic) error {
	p, err := rdma.ProfileByName(n.GetProfile())
	if err != nil {
		return err
	}
	if !bytes.Equal(digestOf(&p), n.GetProfileSha256()) {
		return fmt.Errorf(
			"profile %s is not the one that the orchestrator has: install the orchestrator's version of candela", p.Name)
	}
	return nil
}

func connectionsOf(q *agentpb.PrepareRequest, side generator.Side, limits Limits) ([]testbeds.Connection, error) {
	if n := len(q.GetConnections()); n == 0 || n > limits.Connections {
		return nil, status.Errorf(codes.ResourceExhausted, "%d connections, this agent has 1 to %d", n, limits.Connections)
	}
	var list []testbeds.Connection
	messages := 0
	for i, m := range q.GetConnections() {
		c, err := connectionOf(m, side)
		if err != nil {
			return nil, refuse("connection %d: %v", i+1, err)
		}
		if messages += c.Traffic[0].Messages + c.Traffic[1].Messages; messages > limits.Messages {
			return nil, status.Errorf(codes.ResourceExhausted, "more than %d messages", limits.Messages)
		}
		list = append(list, c)
	}
	return list, nil
}

func connectionOf(m *agentpb.Connection, side generator.Side) (c testbeds.Connection, err error) {
	ip, ok := netip.AddrFromSlice(m.GetLocalIp())
	if !ok {
		return c, fmt.Errorf("IP address of %d bytes", len(m.GetLocalIp()))
	}
	for _, v := range []uint32{m.GetAckTimeout(), m.GetRetryCount(), m.GetRnrRetry(), m.GetMinRnrTimer(),
		m.GetMaxRdAtomic()} {
		if v > math.MaxUint8 {
			return c, fmt.Errorf("%d doesn't fit into a byte", v)
		}
	}
	if m.GetFlowLabel() > packet.MaxFlowLabel || m.GetSourcePort() > math.MaxUint16 {
		return c, fmt.Errorf("flow label %#x, UDP source port %d", m.GetFlowLabel(), m.GetSourcePort())
	}
	c = testbeds.Connection{
		FlowLabel: m.GetFlowLabel(), SourcePort: uint16(m.GetSourcePort()), MaxRDAtomic: int(m.GetMaxRdAtomic()),
		MTU: int(m.GetMtu()), AckTimeout: uint8(m.GetAckTimeout()), RetryCount: uint8(m.GetRetryCount()),
		RNRRetry: uint8(m.GetRnrRetry()), MinRNRTimer: uint8(m.GetMinRnrTimer()),
	}
	c.IPs[side] = ip
	if m.InitialPsn != nil {
		psn := packet.PSN(m.GetInitialPsn())
		c.InitialPSN[side] = &psn
	}
	if c.Traffic[side], err = trafficFromProto(m.GetTraffic()); err == nil {
		c.Traffic[side.Peer()], err = trafficFromProto(m.GetPeerTraffic())
	}
	return c, err
}

// liveConfig is the configuration of the host. The zero MAC is the interface's.
func liveConfig(h *Host) (live.Config, error) {
	if h.NIC.MAC == nil {
		h.NIC.MAC = new(packet.MAC)
	}
	nic, err := h.NIC.NICConfig(rdma.ProfileByName, h.Spec.Seed)
	if err != nil {
		return live.Config{}, refuse("nic: %v", err)
	}
	cfg := live.Config{
		Interface: h.Interface, NIC: nic, Side: h.Side, BarrierSync: h.Spec.BarrierSync, ReceiveDepth: h.Spec.RxDepth,
		RepostDelay: h.Spec.RxRepostDelay, Log: true, Snap: h.Spec.Switch.Snap,
	}
	for i := range h.Spec.Connections {
		c := &h.Spec.Connections[i]
		cfg.Connections = append(cfg.Connections, live.Connection{
			QP: c.QPConfig(i, int(h.Side)), Traffic: c.Traffic[h.Side], PeerTraffic: c.Traffic[h.Side.Peer()],
		})
	}
	return cfg, nil
}
