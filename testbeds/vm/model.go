package vm

import (
	"context"
	"errors"
	"fmt"

	"candela.dev/candela/generator"
	"candela.dev/candela/generator/live"
	"candela.dev/candela/generator/rdma"
	"candela.dev/candela/generator/verbs"
	"candela.dev/candela/injector/softswitch"
	"candela.dev/candela/testbeds"
)

// model is a NIC model as one side of a test, in this process, at a socket like a guest's.
type model struct {
	guests *Guests
	spec   *testbeds.Spec
	side   int

	host    *live.Host
	profile rdma.Profile
	before  uint64 // data errors
}

func (m *model) open(context.Context) (_ []verbs.End, err error) {
	if err := m.shut(); err != nil {
		return nil, err
	}
	h := &m.spec.Hosts[m.side]
	path := m.guests.modelPath(m.side)
	cfg := live.Config{
		Socket: &live.Socket{Local: path + softswitch.PeerSocket, Remote: path + softswitch.SwitchSocket},
		Side:   generator.Side(m.side), BarrierSync: m.spec.BarrierSync, ReceiveDepth: m.spec.RxDepth,
		RepostDelay: m.spec.RxRepostDelay,
	}
	if cfg.NIC, err = h.NICConfig(rdma.ProfileByName, m.spec.Seed); err != nil {
		return nil, err
	}
	m.profile = cfg.NIC.Profile
	for i := range m.spec.Connections {
		c := &m.spec.Connections[i]
		cfg.Connections = append(cfg.Connections, live.Connection{
			QP: c.QPConfig(i, m.side), Traffic: c.Traffic[m.side], PeerTraffic: c.Traffic[1-m.side],
		})
	}
	if m.host, err = live.Open(cfg); err != nil {
		return nil, fmt.Errorf("model %s: %w", h.Name, err)
	}
	var ends []verbs.End
	for _, e := range m.host.Local() {
		ends = append(ends, verbs.End{IP: e.IP, QPN: e.QPN, IPSN: e.IPSN, Region: e.Region})
	}
	m.before, err = m.wrong()
	return ends, err
}

func (m *model) connect(_ context.Context, peers []verbs.End) error {
	var list []live.End
	for _, p := range peers {
		list = append(list, live.End{IP: p.IP, QPN: p.QPN, IPSN: p.IPSN, MAC: *m.spec.Hosts[1-m.side].MAC, Region: p.Region})
	}
	return m.host.Connect(list)
}

func (m *model) start(context.Context) error { return m.host.Start() }

func (m *model) done(context.Context) (bool, error) {
	ended, cancel := context.WithCancel(context.Background())
	cancel() // poll without waiting
	err := m.host.Wait(ended)
	if errors.Is(err, context.Canceled) {
		return false, nil
	}
	return err == nil, err
}

// wrong returns the number of incorrect payloads.
func (m *model) wrong() (uint64, error) {
	list, err := m.host.Counters()
	for _, c := range list {
		if c.Name == rdma.DataErrors {
			return c.Value, err
		}
	}
	return 0, err
}

// report returns the model's comparison of every payload on arrival; it is not per connection.
func (m *model) report(context.Context) (*verbs.ReportResponse, error) {
	report, err := m.host.Report()
	if err != nil {
		return nil, err
	}
	now, err := m.wrong()
	if err != nil {
		return nil, err
	}
	return &verbs.ReportResponse{Report: report, Data: verbs.ModelData(&report, generator.Side(m.side),
		len(m.spec.Connections), now-m.before)}, nil
}

func (m *model) counters(context.Context) (testbeds.HostCounters, error) {
	list := testbeds.HostCounters{Host: m.spec.Hosts[m.side].Name, Vendor: m.profile.Vendor}
	values, err := m.host.Counters()
	for _, c := range values {
		list.Values = append(list.Values, testbeds.Counter{Name: c.Name, Value: c.Value})
	}
	return list, err
}

func (m *model) component() testbeds.Component {
	h := &m.spec.Hosts[m.side]
	return testbeds.Component{Name: h.Name, Kind: "host", Properties: h.Properties(guestMTU, m.profile)}
}

func (m *model) release(context.Context) error { return m.shut() }

func (m *model) shut() error {
	if m.host == nil {
		return nil
	}
	host := m.host
	m.host = nil
	return host.Close()
}
