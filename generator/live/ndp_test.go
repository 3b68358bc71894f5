//go:build linux

package live_test

import (
	"context"
	"fmt"
	"net/netip"
	"testing"
	"time"

	"github.com/vishvananda/netlink"
	"go.uber.org/goleak"

	"candela.dev/candela/clock"
	"candela.dev/candela/generator/live"
	"candela.dev/candela/generator/ndp"
	"candela.dev/candela/link/linktest"
	"candela.dev/candela/packet"
)

const (
	ndpPayload = 1000
	pullGap    = 2 * time.Millisecond
)

// incast opens a receiver, endpoint 0, and n senders, each on a veth pair of its own that ends in a bridge.
func incast(t *testing.T, n int, six bool) (hosts []*live.NDPHost) {
	t.Helper()
	attributes := netlink.NewLinkAttrs()
	attributes.Name, attributes.MTU = "br", 9000
	bridge := &netlink.Bridge{LinkAttrs: attributes}
	if err := netlink.LinkAdd(bridge); err != nil {
		t.Skipf("no bridge: %v", err)
	}
	if err := netlink.LinkSetUp(bridge); err != nil {
		t.Fatal(err)
	}
	var peers []live.NDPPeer
	for i := range n + 1 {
		linktest.Veth(t, fmt.Sprintf("n%d", i), fmt.Sprintf("b%d", i))
		port, err := netlink.LinkByName(fmt.Sprintf("b%d", i))
		if err == nil {
			err = netlink.LinkSetMaster(port, bridge)
		}
		if err != nil {
			t.Fatal(err)
		}
		ip := netip.AddrFrom4([4]byte{10, 0, 0, byte(i + 1)})
		if six {
			ip = netip.MustParseAddr(fmt.Sprintf("fd00::%d", i+1))
		}
		peers = append(peers, live.NDPPeer{Endpoint: ndp.Endpoint(i), IP: ip, MAC: packet.MAC{2, 0, 0, 0, 7, byte(i)}})
	}
	for i := range peers {
		h, err := live.OpenNDP(live.NDPConfig{
			Interface: fmt.Sprintf("n%d", i), PortRate: 10 * clock.Gbps, Peers: peers, DataDSCP: 8, ControlDSCP: 48,
			Transport: ndp.Config{Address: ndp.Endpoint(i), InitialWindow: 4, Payload: ndpPayload, PullGap: clock.FromStd(pullGap),
				RTO: clock.FromStd(time.Second), Paths: 8, FirstConnection: 100, Seed: 1},
		})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() {
			if err := h.Close(); err != nil {
				t.Error(err)
			}
		})
		hosts = append(hosts, h)
	}
	return hosts
}

func TestAnIncastCompletesAtThePaceOfThePulls(t *testing.T) {
	defer goleak.VerifyNone(t)
	for _, six := range []bool{false, true} {
		t.Run(fmt.Sprintf("IPv6=%v", six), func(t *testing.T) {
			linktest.Namespace(t, func() {
				const senders, bytes, window = 3, 40*ndpPayload + 123, 4
				hosts := incast(t, senders, six)
				start := time.Now()
				for _, h := range hosts[1:] {
					if _, err := h.Send(0, bytes); err != nil {
						t.Fatal(err)
					}
				}
				ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
				defer cancel()
				var data uint64
				for _, h := range hosts[1:] {
					if err := h.Wait(ctx); err != nil {
						t.Fatal(err)
					}
					flows, err := h.Flows()
					if err != nil || len(flows) != 1 || !flows[0].Done || flows[0].Connection != 100 || flows[0].Finished <= flows[0].Started {
						t.Errorf("flows %+v, %v", flows, err)
					}
					c, damaged, err := h.Counters()
					if err != nil || damaged != 0 || c.Unclaimed != 0 {
						t.Errorf("counters %+v, damaged %d, %v", c, damaged, err)
					}
					data += c.DataSent - c.Retransmitted
				}
				took := time.Since(start)
				c, damaged, err := hosts[0].Counters()
				if err != nil || damaged != 0 || c.BytesReceived != senders*bytes || c.TrimmedReceived != 0 || c.Unclaimed != 0 {
					t.Errorf("received %+v, damaged %d, %v; want %d bytes", c, damaged, err, senders*bytes)
				}
				if want := uint64(senders * 41); data != want {
					t.Errorf("%d new data packets, want %d", data, want)
				}
				// All but the first windows waits for PULLs, which never come faster than the gap, but for one turn caught up with.
				least := time.Duration(senders*(41-window)-2) * pullGap
				if took < least {
					t.Errorf("took %v, PULLs %v apart need %v", took, pullGap, least)
				}
				t.Logf("%d PULLs of %v: %v, %.2f of the configured rate", c.PullsSent, pullGap, took, float64(least)/float64(took))
			})
		})
	}
}

func TestAnNDPHostRefusesWhatCannotBeMeant(t *testing.T) {
	good := func() live.NDPConfig {
		return live.NDPConfig{Interface: "lo", PortRate: clock.Gbps, Transport: ndp.Config{Address: 1, InitialWindow: 1, Payload: 1, PullGap: 1,
			Paths: 1}, Peers: []live.NDPPeer{{Endpoint: 1, IP: netip.MustParseAddr("10.0.0.1")}}}
	}
	for name, change := range map[string]func(*live.NDPConfig){
		"no rate":          func(c *live.NDPConfig) { c.PortRate = 0 },
		"a DSCP of 7 bits": func(c *live.NDPConfig) { c.DataDSCP = 64 },
		"no own endpoint":  func(c *live.NDPConfig) { c.Transport.Address = 2 },
		"an endpoint twice": func(c *live.NDPConfig) {
			c.Peers = append(c.Peers, live.NDPPeer{Endpoint: 1, IP: netip.MustParseAddr("10.0.0.2")})
		},
		"an address twice": func(c *live.NDPConfig) { c.Peers = append(c.Peers, live.NDPPeer{Endpoint: 2, IP: c.Peers[0].IP}) },
		"mixed IP versions": func(c *live.NDPConfig) {
			c.Peers = append(c.Peers, live.NDPPeer{Endpoint: 2, IP: netip.MustParseAddr("::2")})
		},
		"no address":        func(c *live.NDPConfig) { c.Peers = append(c.Peers, live.NDPPeer{Endpoint: 2}) },
		"no initial window": func(c *live.NDPConfig) { c.Transport.InitialWindow = 0 },
		"no such interface": func(c *live.NDPConfig) { c.Interface = "nowhere0" },
		"no gap":            func(c *live.NDPConfig) { c.Transport.PullGap = 0 },
	} {
		cfg := good()
		change(&cfg)
		if h, err := live.OpenNDP(cfg); err == nil {
			_ = h.Close()
			t.Errorf("%s: no error", name)
		}
	}
}
