package live

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"strings"
	"testing"
	"time"

	"candela.dev/candela/clock"
	"candela.dev/candela/generator/tcp"
	"candela.dev/candela/orchestrator/switchtest/stack"
	"candela.dev/candela/packet"
	"candela.dev/candela/packet/ndp"
	"candela.dev/candela/testbeds/virtual/fabric"
)

// brokenSender flips a bit of the nth frame.
type brokenSender struct {
	sender
	at, nth int
}

func (b *brokenSender) Queue(frame []byte) error {
	if b.nth--; b.nth == 0 {
		frame[b.at] ^= 1
	}
	return b.sender.Queue(frame)
}

// sendPackets sends raw packets from host 0 to host 1 of a live switch after change, and returns the report.
func sendPackets(t *testing.T, change func(*Switch)) *Report {
	t.Helper()
	if os.Geteuid() != 0 {
		t.Skip("SKIP: network namespaces need root")
	}
	link := fabric.LinkSpec{Rate: clock.Gbps / 10, Delay: clock.Microsecond}
	net, err := fabric.New(&fabric.Spec{Topology: fabric.TopologySpec{Hosts: 2, Link: link}}, nil)
	if err != nil {
		t.Fatal(err)
	}
	net.SetCodecs(codecs)
	raw := stack.NewRaw()
	raw.Send(stack.Flow{ID: 1, To: 1, Packets: 20, Size: 1000})
	s, err := Open(Config{Net: net, Stacks: []fabric.Stack{raw, stack.NewRaw()}, Links: []fabric.LinkSpec{link, link},
		Slowdown: 1, MaxFrame: 1500})
	if errors.Is(err, ErrUnsupported) {
		t.Skipf("SKIP: %v", err)
	}
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	change(s)
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	if _, _, err := s.Advance(ctx, clock.Time(0).Add(10*clock.Second)); err != nil {
		t.Fatal(err)
	}
	r, err := s.Finish()
	if err != nil {
		t.Fatal(err)
	}
	if r.Losses() != "" {
		t.Skipf("SKIP-busy: %s", r.Losses())
	}
	return r
}

func TestBytesThatAreNotWhatTheTapsShowAreTold(t *testing.T) {
	const payload = 500
	for name, tt := range map[string]struct {
		change func(*Switch)
		want   string
	}{
		"a correct run": {func(*Switch) {}, ""},
		"a port that writes other bytes": {func(s *Switch) {
			s.ports[1].sender = &brokenSender{s.ports[1].sender, payload, 3}
		}, "host 1: a frame came out of its ring that is not the one that was written"},
		"a host whose bytes change on the link": {func(s *Switch) {
			s.hosts[0].sender = &brokenSender{s.hosts[0].sender, payload, 3}
		}, "port 0: a frame came out of its ring that is not the one that its host sent"},
		"a number that changes after the tap": {func(s *Switch) {
			at := packet.EthernetLen + packet.IPv4Len + packet.UDPLen + 7
			s.net.SetTap(func(p fabric.Point, _ clock.Time, x *fabric.Packet) {
				if p.Stage == fabric.Egress && !p.Host && x.Number == 5 {
					s.net.Frame(x)[at] ^= 1
				}
			})
		}, "port 1, out: a written frame has packet 4 of flow 1, the tap shows 5 of 1"},
		"a frame that no tap sees leave": {func(s *Switch) {
			s.net.SetTap(func(p fabric.Point, _ clock.Time, x *fabric.Packet) {
				if p.Stage == fabric.Egress && !p.Host && x.Number == 5 {
					s.watch.leaving[1] = nil
				}
			})
		}, "port 1"}, // no seen packet is left, or, if others left, it is another packet
		"packets that the tap sees in another order": {func(s *Switch) {
			s.net.SetTap(func(p fabric.Point, _ clock.Time, x *fabric.Packet) {
				if p.Stage == fabric.Ingress && !p.Host && x.Number == 5 {
					s.watch.taken[0].push(7)
					s.watch.taken[0].list[0], s.watch.taken[0].list[len(s.watch.taken[0].list)-1] = 7,
						s.watch.taken[0].list[0]
				}
			})
		}, "port 0: a packet comes in at the tap that is none of the frames of the ring"},
	} {
		t.Run(name, func(t *testing.T) {
			r := sendPackets(t, tt.change)
			if text := r.Differences(); tt.want == "" && text != "" || !strings.Contains(text, tt.want) {
				t.Errorf("%q, want %q", text, tt.want)
			}
		})
	}
}

// Every header field of a tap is read from the bytes.
func TestADifferenceIsSeenInEveryField(t *testing.T) {
	for _, v6 := range []bool{false, true} {
		for _, protocol := range []fabric.Protocol{fabric.Raw, fabric.NDP, fabric.TCP} {
			var p fabric.Packet
			p.Src, p.Dst, p.Protocol, p.IPv6, p.DSCP, p.ECN, p.TTL = 1, 2, protocol, v6, 8, packet.ECT0, 64
			p.Size, p.Original, p.Flow, p.Number = 300, 300, 7, 9
			p.NDP = ndp.Header{Kind: ndp.Data, Connection: 4, Seq: 7, Length: 9}
			p.TCP = tcp.Header{Seq: 1000, Ack: 2000, Flags: tcp.FlagACK}
			frame := codecs.AppendTagged(nil, &p.Header)
			if wrong := difference(codecs, frame, &p.Header); wrong != "" {
				t.Fatalf("%v, IPv6 %v: %s", protocol, v6, wrong)
			}
			for name, change := range map[string]func(*fabric.Header){
				"source": func(h *fabric.Header) { h.Src++ }, "destination": func(h *fabric.Header) { h.Dst++ },
				"DSCP": func(h *fabric.Header) { h.DSCP++ }, "ECN": func(h *fabric.Header) { h.ECN = packet.CE },
				"TTL": func(h *fabric.Header) { h.TTL-- }, "size": func(h *fabric.Header) { h.Size-- },
				"length": func(h *fabric.Header) { h.Flags |= fabric.LengthStale; h.Original++ },
				"number": func(h *fabric.Header) { h.Number++; h.NDP.Seq++; h.TCP.Seq++ },
			} {
				h := p.Header
				if change(&h); difference(codecs, frame, &h) == "" {
					t.Errorf("%v, IPv6 %v: another %s is not seen", protocol, v6, name)
				}
			}
		}
	}
}

// A kernel sends a frame after its port was read for the last time: it is on its way, not lost. One that never comes
// is.
func TestAFrameThatAKernelSendsLateIsNotLost(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("SKIP: network namespaces need root")
	}
	link := fabric.LinkSpec{Rate: clock.Gbps / 10, Delay: clock.Microsecond}
	n, err := fabric.New(&fabric.Spec{Topology: fabric.TopologySpec{Hosts: 2, Link: link}}, nil)
	if err != nil {
		t.Fatal(err)
	}
	n.SetCodecs(codecs)
	s, err := Open(Config{Net: n, Stacks: []fabric.Stack{nil, nil}, Links: []fabric.LinkSpec{link, link}, Slowdown: 1,
		MaxFrame: 1500})
	if errors.Is(err, ErrUnsupported) {
		t.Skipf("SKIP: %v", err)
	}
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	err = s.hosts[0].inside.do(func() error {
		c, err := net.Dial("udp4", fabric.HostID(1).IPv4().String()+":9")
		if err != nil {
			return err
		}
		_, err = c.Write(make([]byte, 100))
		return errors.Join(err, c.Close())
	})
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"", "1 of 1 frames of host 0 did not come out of its port's ring"} {
		lost := ""
		err := s.hosts[0].kernelLosses(s.ports[0], func(format string, args ...any) { lost += fmt.Sprintf(format, args...) })
		if err != nil || lost != want {
			t.Errorf("lost: %q, want %q (%v)", lost, want, err)
		}
		s.ports[0].came--
	}
}
