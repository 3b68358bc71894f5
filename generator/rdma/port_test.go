package rdma

import (
	"math/rand/v2"
	"net/netip"
	"testing"

	"candela.dev/candela/clock"
	"candela.dev/candela/packet"
)

// TestThePortAndTheLabelThatAQueuePairSends: the port is that of the queue pair, else that of its label, else of the
// QPNs; bugs ignore them.
func TestThePortAndTheLabelThatAQueuePairSends(t *testing.T) {
	const label, port = 0x54321, 5000
	ip := func(text string) netip.Addr { return netip.MustParseAddr(text) }
	for name, tt := range map[string]struct {
		cfg   QPConfig
		bugs  []string
		four  bool
		port  uint16 // 0: of the QPNs
		label uint32
	}{
		"neither":                {},
		"a port":                 {cfg: QPConfig{SourcePort: port}, port: port},
		"a label":                {cfg: QPConfig{FlowLabel: label}, port: packet.FlowLabelPort(label), label: label},
		"both":                   {cfg: QPConfig{FlowLabel: label, SourcePort: port}, port: port, label: label},
		"IPv4 has no label":      {cfg: QPConfig{FlowLabel: label}, four: true, port: packet.FlowLabelPort(label)},
		"a port that is ignored": {cfg: QPConfig{SourcePort: port}, bugs: []string{"source-port-ignored"}},
		"a label that is ignored": {cfg: QPConfig{FlowLabel: label}, bugs: []string{"flow-label-ignored"},
			port: packet.FlowLabelPort(label)},
	} {
		local, remote := ip("fd00::2"), ip("fd00::1")
		if tt.four {
			local, remote = ip("10.0.0.2"), ip("10.0.0.1")
		}
		bugs, err := ParseBugs(tt.bugs)
		if err != nil {
			t.Fatal(err)
		}
		nic, err := NewNIC(Config{Name: "a", IPs: []netip.Addr{local}, Profile: Spec(), PortRate: 100 * clock.Gbps,
			HopLimit: 64, Bugs: bugs, Rand: rand.New(rand.NewPCG(1, 1))})
		if err != nil {
			t.Fatal(err)
		}
		tt.cfg.LocalIP = local
		q, err := nic.CreateQP(tt.cfg)
		if err != nil {
			t.Fatal(err)
		}
		if err := q.Connect(Remote{IP: remote, QPN: 17, MAC: packet.MAC{2}}); err != nil {
			t.Fatal(err)
		}
		if tt.port == 0 {
			tt.port = sourcePort(q.QPN(), 17)
		}
		if q.frame.UDP.SrcPort != tt.port || q.frame.IP.FlowLabel != tt.label {
			t.Errorf("%s: port %d, label %#x; want %d and %#x", name, q.frame.UDP.SrcPort, q.frame.IP.FlowLabel, tt.port,
				tt.label)
		}
	}
}
