//go:build linux

package live_test

import (
	"context"
	"encoding/binary"
	"math/rand/v2"
	"net/netip"
	"testing"
	"time"

	"go.uber.org/goleak"

	"candela.dev/candela/clock"
	"candela.dev/candela/generator"
	"candela.dev/candela/generator/live"
	"candela.dev/candela/generator/rdma"
	"candela.dev/candela/link"
	"candela.dev/candela/link/linktest"
	"candela.dev/candela/packet"
)

const mtu = 1024

var addresses = [2]netip.Addr{netip.MustParseAddr("10.0.0.2"), netip.MustParseAddr("10.0.0.1")}

// config returns one side of a connection with traffic from the requester.
func config(name string, side generator.Side, ips [2]netip.Addr, t generator.Traffic) live.Config {
	c := live.Connection{QP: rdma.QPConfig{LocalIP: ips[side], MTU: mtu, RetryCount: 7, RNRRetry: 7, Timeout: 18}}
	if side == generator.Requester {
		c.Traffic = t
	} else {
		c.PeerTraffic = t
	}
	return live.Config{
		Interface: name, Side: side, Connections: []live.Connection{c},
		NIC: rdma.Config{Name: name, IPs: []netip.Addr{ips[side]}, Profile: rdma.Spec(), PortRate: 10 * clock.Gbps,
			Rand: rand.New(rand.NewPCG(1, uint64(side)))},
	}
}

// pair opens and connects two hosts on the ends of a veth pair in the current namespace.
func pair(t *testing.T, ips [2]netip.Addr, traffic generator.Traffic) (hosts [2]*live.Host) {
	t.Helper()
	linktest.Veth(t, "a", "b")
	for i, name := range []string{"a", "b"} {
		var err error
		if hosts[i], err = live.Open(config(name, generator.Side(i), ips, traffic)); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() {
			if err := hosts[i].Close(); err != nil {
				t.Error(err)
			}
		})
	}
	for i := range hosts {
		if err := hosts[i].Connect(hosts[1-i].Local()); err != nil {
			t.Fatal(err)
		}
	}
	return hosts
}

func run(t *testing.T, hosts [2]*live.Host) generator.Report {
	t.Helper()
	for _, h := range []*live.Host{hosts[1], hosts[0]} { // post receives first
		if err := h.Start(); err != nil {
			t.Fatal(err)
		}
	}
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	for _, h := range hosts {
		if err := h.Wait(ctx); err != nil {
			t.Fatal(err)
		}
	}
	r, err := hosts[0].Report()
	if err != nil {
		t.Fatal(err)
	}
	return r
}

func TestEveryVerbCompletesBetweenTwoHosts(t *testing.T) {
	defer goleak.VerifyNone(t)
	for _, verb := range []generator.Verb{generator.Write, generator.WriteImm, generator.Send, generator.SendImm,
		generator.Read,
		generator.CompareSwap, generator.FetchAdd} {
		for _, ips := range [][2]netip.Addr{addresses, {netip.MustParseAddr("fd00::2"), netip.MustParseAddr("fd00::1")}} {
			t.Run(verb.String()+" "+ips[0].String(), func(t *testing.T) {
				linktest.Namespace(t, func() {
					const messages = 100
					hosts := pair(t, ips, generator.Traffic{Verbs: []generator.Verb{verb}, Messages: messages, MessageSize: 10_000,
						MTU: mtu, TxDepth: 4})
					r := run(t, hosts)
					if len(r.Streams) != 1 || len(r.Streams[0].Statuses) != 1 || r.Streams[0].Completed != messages ||
						r.Streams[0].Statuses[0].Status != generator.Success {
						t.Errorf("report %+v", r.Streams)
					}
					for i, h := range hosts {
						if missed, err := h.Missed(); missed != 0 || err != nil {
							t.Errorf("host %d missed %d frames, %v", i, missed, err)
						}
					}
				})
			})
		}
	}
}

func TestTheEndpointAnswersForItsAddressAndTheKernelForNone(t *testing.T) {
	linktest.Namespace(t, func() {
		hosts := pair(t, addresses, generator.Traffic{Verbs: []generator.Verb{generator.Write}, Messages: 1, MTU: mtu,
			TxDepth: 1})
		_ = hosts
		r, err := link.OpenRing(link.RingConfig{Interface: "a", Promiscuous: true})
		if err != nil {
			t.Fatal(err)
		}
		defer r.Close()
		s, err := link.OpenSender("a")
		if err != nil {
			t.Fatal(err)
		}
		defer s.Close()
		asker := packet.MAC{2, 0, 0, 0, 0, 9}
		request := append([]byte{0xff, 0xff, 0xff, 0xff, 0xff, 0xff}, asker[:]...)
		request = append(request, 8, 6, 0, 1, 8, 0, 6, 4, 0, 1)
		request = append(request, asker[:]...)
		request = append(request, 10, 0, 0, 9, 0, 0, 0, 0, 0, 0, 10, 0, 0, 1)
		// A UDP packet to an unused port: a kernel with the address would answer with an ICMP error.
		p := &packet.Packet{Derived: true, HasUDP: true, IP: packet.IP{Version: 4, TTL: 64, Protocol: packet.ProtocolUDP,
			Src: netip.MustParseAddr("10.0.0.9"), Dst: addresses[1]}, UDP: packet.UDP{SrcPort: 5, DstPort: 7},
			Payload: make([]byte, 40)}
		p.Eth = packet.Ethernet{Dst: packet.MAC{0xff, 0xff, 0xff, 0xff, 0xff, 0xff}, Src: asker, Type: packet.EtherTypeIPv4}
		if err := s.Queue(request); err != nil {
			t.Fatal(err)
		}
		if err := s.Queue(p.AppendTo(nil)); err != nil {
			t.Fatal(err)
		}
		if err := s.Flush(); err != nil {
			t.Fatal(err)
		}
		var answers int
		// The answer may take long on a busy machine. Then wait a moment for frames that must not come.
		most, moment := time.Now().Add(20*time.Second), 300*time.Millisecond
		for deadline := time.Now().Add(moment); time.Now().Before(deadline) || answers == 0 && time.Now().Before(most); {
			b, err := r.Wait(50 * time.Millisecond)
			if err != nil {
				t.Fatal(err)
			}
			if b == nil {
				continue
			}
			for f := range b.Frames() {
				switch binary.BigEndian.Uint16(f.Data[12:]) {
				case 0x0806:
					answers++
					if got := netip.AddrFrom4([4]byte(f.Data[28:32])); f.Data[21] != 2 || got != addresses[1] {
						t.Errorf("answer % x", f.Data)
					}
				case packet.EtherTypeIPv4:
					t.Errorf("the kernel answered: % x", f.Data)
				}
			}
			b.Release()
		}
		if answers != 1 {
			t.Errorf("%d ARP answers, want 1", answers)
		}
	})
}

func TestAHostThatNeverGetsAnAnswerReportsIt(t *testing.T) {
	linktest.Namespace(t, func() {
		linktest.Veth(t, "a", "b")
		cfg := config("a", generator.Requester, addresses,
			generator.Traffic{Verbs: []generator.Verb{generator.Write}, Messages: 1,
				MessageSize: 100, MTU: mtu, TxDepth: 1})
		cfg.Connections[0].QP.RetryCount, cfg.Connections[0].QP.Timeout = 1, 8 // 2^8 × 4.096 us, about 1 ms
		h, err := live.Open(cfg)
		if err != nil {
			t.Fatal(err)
		}
		defer h.Close()
		if err := h.Connect([]live.End{{IP: addresses[1], QPN: 5, MAC: packet.MAC{2, 0, 0, 0, 0, 7}}}); err != nil {
			t.Fatal(err)
		}
		if err := h.Start(); err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		if err := h.Wait(ctx); err != nil {
			t.Fatal(err)
		}
		r, err := h.Report()
		if err != nil || r.Streams[0].Failure != generator.RetryExceeded {
			t.Errorf("failure %v, %v; want %v", r.Streams[0].Failure, err, generator.RetryExceeded)
		}
	})
}

func TestMetadataOfAnotherNumberOfConnectionsIsRefused(t *testing.T) {
	linktest.Namespace(t, func() {
		linktest.Veth(t, "a", "b")
		h, err := live.Open(config("a", generator.Requester, addresses,
			generator.Traffic{Verbs: []generator.Verb{generator.Write},
				Messages: 1, MTU: mtu, TxDepth: 1}))
		if err != nil {
			t.Fatal(err)
		}
		defer h.Close()
		if err := h.Connect(nil); err == nil {
			t.Error("no error")
		}
		if err := h.Start(); err == nil {
			t.Error("a host that is not connected starts")
		}
	})
}
