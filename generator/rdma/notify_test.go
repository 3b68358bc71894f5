package rdma

import (
	"fmt"
	"testing"

	"candela.dev/candela/clock"
	"candela.dev/candela/generator"
	"candela.dev/candela/packet"
)

func TestNotificationPoint(t *testing.T) {
	np := NotificationPoint{Enable: true, Mode: CNPPerPort, Interval: 20 * clock.Microsecond}
	slow := np
	slow.SlowRestart = true
	always := NotificationPoint{Enable: true, Mode: CNPPerConnection}
	for _, c := range []struct {
		name   string
		np     NotificationPoint
		script string
	}{
		{"marked data yields a CNP, then none within the interval", np, `
			recv WRITE_ONLY 0 len=4 dma=4 ce
				CNP
			recv WRITE_ONLY 1 len=4 dma=4 ce
			recv WRITE_ONLY 2 len=4 dma=4
			wait 10us
			recv WRITE_ONLY 3 len=4 dma=4 ce
				CNP`},
		{"interval zero: a CNP for every marked packet, out of order or duplicate", always, `
			recv WRITE_ONLY 0 len=4 dma=4 ce
				CNP
			recv WRITE_ONLY 0 len=4 dma=4 ce
				CNP
				ack 0 msn=1
			recv WRITE_ONLY 2 len=4 dma=4 ce
				CNP
				nak 1 msn=1`},
		{"marked READ responses trigger, marked READ requests and ACKs do not", always, `
			recv READ_REQUEST 0 dma=4 ce
				READ_RESPONSE_ONLY 0 msn=1 len=4
			post read 4
				READ_REQUEST 0 va=0 dma=4 ackreq
			recv READ_RESPONSE_ONLY 0 len=4 ce
				done read 0 IBV_WC_SUCCESS
				CNP
			recv ack 0 ce`},
		{"with slow restart a NAK comes with a CNP", slow, `
			recv WRITE_ONLY 1 len=4 dma=4
				nak 0 msn=0
				CNP`},
		{"without it, it does not", np, `
			recv WRITE_ONLY 1 len=4 dma=4
				nak 0 msn=0`},
		{"switched off, marks are only counted", NotificationPoint{}, `
			recv WRITE_ONLY 0 len=4 dma=4 ce`},
	} {
		t.Run(c.name, func(t *testing.T) { newScript(t, reliable(), Bugs{}, c.np).run(c.script) })
	}
}

// Three queue pairs between two addresses, with each packet marked: the number of CNPs depends only on the scope.
func TestCNPScopes(t *testing.T) {
	for mode, want := range map[CNPMode]uint64{CNPPerPort: 1, CNPPerDestIP: 1, CNPPerIPPair: 1, CNPPerConnection: 3} {
		t.Run(mode.String(), func(t *testing.T) {
			w := newWire(t, setup{seed: 1, qps: 3, qp: reliable(), nic: func(_ generator.Side, c *Config) {
				c.NP = NotificationPoint{Enable: true, Mode: mode, Interval: clock.Millisecond}
			}})
			w.filter = func(s *seen) verdict {
				if s.p.BTH.Opcode == packet.WriteOnly {
					return mark
				}
				return pass
			}
			w.start(load(4, 64, 1, generator.Write))
			w.run(1000)
			w.checkAllDone()
			c := w.nics[generator.Responder].Counters()
			if c.CNPSent != want || c.ECNMarked != 12 {
				t.Errorf("%d CNPs for %d marks, want %d for 12", c.CNPSent, c.ECNMarked, want)
			}
			if got := w.nics[generator.Requester].Counters().CNPIgnored; got != want {
				t.Errorf("%d CNPs ignored by the disabled reaction point, want %d", got, want)
			}
		})
	}
}

func TestCNPFormat(t *testing.T) {
	s := newScript(t, reliable(), Bugs{}, NotificationPoint{Enable: true, Mode: CNPPerPort, DSCP: 46})
	marked := s.packet([]string{"WRITE_ONLY", "0", "len=4", "dma=4", "ce"})
	s.nic.HandlePacket(0, &marked)
	var p packet.Packet
	if !s.nic.Poll(clock.Time(clock.Microsecond), &p) {
		t.Fatal("no CNP")
	}
	got := fmt.Sprintf("%s becn=%t psn=%d qp=%s dscp=%d payload=%x dst=%s", p.BTH.Opcode, p.BTH.BECN, p.BTH.PSN,
		p.BTH.DestQP,
		p.IP.DSCP(), p.Payload, p.IP.Dst)
	want := "CNP becn=true psn=0 qp=0x001234 dscp=46 payload=00000000000000000000000000000000 dst=10.0.0.1"
	if got != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
	if p.AETH != (packet.AETH{}) || p.Headers != packet.HasBTH {
		t.Errorf("headers %b beside the BTH", p.Headers)
	}
}
