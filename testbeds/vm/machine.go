package vm

import (
	"context"
	"fmt"
	"net/netip"
	"strings"
	"time"

	"candela.dev/candela/generator"
	"candela.dev/candela/generator/verbs"
	"candela.dev/candela/testbeds"
)

// guestMTU fits the largest path MTU with all headers.
const guestMTU = 4500

// guestInterface is the guest's only interface.
const guestInterface = "eth0"

// machine is a guest as one side of a test.
type machine struct {
	*guest
	guests *Guests
	spec   *testbeds.Spec
	side   int

	ratio  float64 // of its clock to this machine's
	device verbs.Device
}

func (m *machine) open(ctx context.Context) (_ []verbs.End, err error) {
	if m.ratio, err = m.clockRatio(ctx); err != nil {
		return nil, err
	}
	if m.ratio < 0.5 || m.ratio > 2 {
		return nil, fmt.Errorf("guest %s: its clock goes %.2f times as fast as this machine's: its timers would mislead",
			m.name, m.ratio)
	}
	var configured verbs.ConfigureResponse
	if err := m.call(ctx, verbs.OpConfigure, m.configuration(), &configured); err != nil {
		return nil, err
	}
	var opened verbs.OpenResponse
	err = m.call(ctx, verbs.OpOpen, m.opening(configured.Device), &opened)
	m.device = opened.Device
	return opened.Ends, err
}

func (m *machine) connect(ctx context.Context, peers []verbs.End) error {
	return m.call(ctx, verbs.OpConnect, verbs.ConnectRequest{Peers: peers}, nil)
}

func (m *machine) start(ctx context.Context) error { return m.call(ctx, verbs.OpStart, nil, nil) }

func (m *machine) done(ctx context.Context) (bool, error) {
	var s verbs.StatusResponse
	err := m.call(ctx, verbs.OpStatus, nil, &s)
	return s.Done, err
}

func (m *machine) report(ctx context.Context) (*verbs.ReportResponse, error) {
	r := new(verbs.ReportResponse)
	return r, m.call(ctx, verbs.OpReport, nil, r)
}

func (m *machine) release(ctx context.Context) error { return m.call(ctx, verbs.OpClose, nil, nil) }

func (m *machine) counters(ctx context.Context) (testbeds.HostCounters, error) {
	list := testbeds.HostCounters{Host: m.spec.Hosts[m.side].Name, Vendor: verbs.SoftwareVendor, Lacks: m.device.Lacks}
	var r verbs.CountersResponse
	if err := m.call(ctx, verbs.OpCounters, nil, &r); err != nil {
		return list, err
	}
	for _, c := range r.Counters {
		list.Values = append(list.Values, testbeds.Counter{Name: c.Name, Value: c.Value})
	}
	return list, nil
}

func (m *machine) component() testbeds.Component {
	p := testbeds.NewProperty
	accelerator := acceleratorTCG
	if m.kvm {
		accelerator = acceleratorKVM
	}
	return testbeds.Component{Name: m.spec.Hosts[m.side].Name, Kind: "host", Properties: []testbeds.Property{
		p("model", "soft-RoCE (rdma_rxe)"), p("kernel", m.first.Kernel), p("image", m.guests.image.Name),
		p("package", m.guests.image.Package), p("rdma-core", m.guests.image.RDMACore), p("device", m.device.Name),
		p("firmware", m.device.Firmware), p("accelerator", accelerator), p("memory-mib", m.guests.cfg.Memory),
		p("clock-source", m.first.ClockSource), p("clock-ratio", fmt.Sprintf("%.3f", m.ratio)),
		p("lacks", strings.Join(m.device.Lacks, ", ")), p("from-snapshot", m.restored),
		p("boot", m.booted.Round(10*time.Millisecond)), p("interface-mtu", guestMTU),
	}}
}

// configuration returns the interface settings of the guest for the test.
func (m *machine) configuration() verbs.ConfigureRequest {
	own, peer := &m.spec.Hosts[m.side], &m.spec.Hosts[1-m.side]
	r := verbs.ConfigureRequest{MAC: *own.MAC, MTU: guestMTU}
	for _, ip := range own.IPs {
		bits := 24
		if ip.Is6() {
			bits = 64
		}
		r.Addresses = append(r.Addresses, netip.PrefixFrom(ip, bits))
	}
	for _, ip := range peer.IPs {
		r.Neighbours = append(r.Neighbours, verbs.Neighbour{IP: ip, MAC: *peer.MAC})
	}
	return r
}

// opening returns the description of the guest's queue pairs.
func (m *machine) opening(device string) verbs.OpenRequest {
	h := &m.spec.Hosts[m.side]
	r := verbs.OpenRequest{
		Device: device, Port: 1, Echo: guestInterface, Side: generator.Side(m.side), BarrierSync: m.spec.BarrierSync,
		ReceiveDepth: m.spec.RxDepth, RepostNS: m.spec.RxRepostDelay.Nanoseconds(),
		Seed: testbeds.ComponentSeed(m.spec.Seed, h.Name),
	}
	for i := range m.spec.Connections {
		c := &m.spec.Connections[i]
		r.Connections = append(r.Connections, verbs.Connection{
			IP: c.IPs[m.side], IPSN: c.InitialPSN[m.side], MTU: c.MTU, AckTimeout: c.AckTimeout, RetryCount: c.RetryCount,
			RNRRetry: c.RNRRetry, MinRNRTimer: c.MinRNRTimer, HopLimit: h.HopLimit, FlowLabel: c.FlowLabel,
			SourcePort: c.SourcePort, MaxRDAtomic: c.MaxRDAtomic, TrafficClass: h.DSCP<<2 | uint8(h.ECN),
			Traffic: c.Traffic[m.side], PeerTraffic: c.Traffic[1-m.side],
		})
	}
	return r
}
