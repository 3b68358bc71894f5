package rdma

import (
	"strings"
	"testing"

	"candela.dev/candela/generator"
	"candela.dev/candela/packet"
)

// Each fault must have the described effect on the wire. The responder and requester tests show the correct behaviour.
func TestSeededFaults(t *testing.T) {
	for name, script := range map[string]string{
		"nack-psn-plus-one": `
			recv WRITE_ONLY 1 len=4 dma=4
				nak 1 msn=0`,
		"no-nack": `
			recv WRITE_ONLY 1 len=4 dma=4
			recv WRITE_ONLY 0 len=4 dma=4 ackreq
				ack 0 msn=1`,
		"double-nack": `
			recv WRITE_ONLY 1 len=4 dma=4
				nak 0 msn=0
				nak 0 msn=0
			recv WRITE_ONLY 2 len=4 dma=4`,
		"ack-beyond": `
			recv WRITE_ONLY 1 len=4 dma=4
				ack 1 msn=0`,
		"retransmit-skips-first": `
			post write 3072
				WRITE_FIRST 0 len=1024 va=0 dma=3072
				WRITE_MIDDLE 1 len=1024
				WRITE_LAST 2 len=1024 ackreq
			recv nak 1
				WRITE_LAST 2 len=1024 ackreq
			wait 1060us
				WRITE_MIDDLE 1 len=1024
				WRITE_LAST 2 len=1024 ackreq`,
		"nack-duplicates": `
			recv WRITE_ONLY 0 len=4 dma=4 ackreq
				ack 0 msn=1
			recv WRITE_ONLY 0 len=4 dma=4 ackreq
				nak 1 msn=1`,
		"cnp-unprovoked": strings.Repeat(`
			recv WRITE_ONLY -1 len=4 dma=4
				ack -1 msn=0`, 15) + `
			recv WRITE_ONLY 0 len=4 dma=4
				CNP`,
		"early-timeout": `
			post write 4
				WRITE_ONLY 0 len=4 va=0 dma=4 ackreq
			wait 245us
			wait 5us
				WRITE_ONLY 0 len=4 va=0 dma=4 ackreq`,
		"msn-stuck": `
			recv WRITE_ONLY 0 len=4 dma=4 ackreq
				ack 0 msn=0
			recv READ_REQUEST 1 dma=4
				READ_RESPONSE_ONLY 1 msn=0 len=4`,
		"read-replay-from-start": `
			recv READ_REQUEST 0 dma=2048
				READ_RESPONSE_FIRST 0 msn=1 len=1024
				READ_RESPONSE_LAST 1 msn=1 len=1024
			recv READ_REQUEST 1 va=1024 dma=1024
				READ_RESPONSE_FIRST 0 msn=1 len=1024
				READ_RESPONSE_LAST 1 msn=1 len=1024`,
	} {
		t.Run(name, func(t *testing.T) {
			bugs, err := ParseBugs([]string{name})
			if err != nil {
				t.Fatal(err)
			}
			newScript(t, reliable(), bugs, NotificationPoint{}).run(script)
		})
	}
}

func TestStuckCounterFault(t *testing.T) {
	s := newScript(t, reliable(), NewBugs(BugStuckPacketSeqErr), NotificationPoint{})
	s.run(`
			post write 4
				WRITE_ONLY 0 len=4 va=0 dma=4 ackreq
			recv nak 0
				WRITE_ONLY 0 len=4 va=0 dma=4 ackreq`)
	if c := s.nic.Counters(); c.PacketSeqErr != 0 {
		t.Errorf("packet_seq_err counts %d", c.PacketSeqErr)
	}
}

func TestAcceptBadICRCFault(t *testing.T) {
	for _, c := range []struct {
		bugs     Bugs
		accepted uint32
		errors   uint64
	}{{Bugs{}, 0, 1}, {NewBugs(BugAcceptBadICRC), 1, 0}} {
		s := newScript(t, reliable(), c.bugs, NotificationPoint{})
		p := s.packet([]string{"WRITE_ONLY", "0", "len=4", "dma=4"})
		p.Corrupt()
		s.nic.HandlePacket(0, &p)
		if got := s.nic.Counters().ICRCErrors; got != c.errors || s.qp.resp.msn != c.accepted {
			t.Errorf("faults %v: %d iCRC errors, %d messages accepted", c.bugs.Names(), got, s.qp.resp.msn)
		}
	}
}

func TestUnknownFaultListsTheKnown(t *testing.T) {
	_, err := ParseBugs([]string{"no-nack", "nak-wrong"})
	if err == nil || !strings.Contains(err.Error(), `"nak-wrong"`) || !strings.Contains(err.Error(), "double-nack") {
		t.Errorf("error %v", err)
	}
	set, err := ParseBugs(bugNames())
	if err != nil || len(set.Names()) != len(Catalogue()) {
		t.Errorf("all faults: %v, %v", set.Names(), err)
	}
}

// The NICs must detect wrong data; all other tests rely on it.
func TestWrongDataIsNoticed(t *testing.T) {
	w := newWire(t, setup{seed: 1, qps: 1, qp: reliable()})
	w.filter = func(*seen) verdict {
		if len(w.next.Payload) > 0 {
			w.next.Payload = append([]byte(nil), w.next.Payload...)
			w.next.Payload[0] ^= 1
		}
		return pass
	}
	w.start(load(3, 2048, 1, generator.Write, generator.Read, generator.Send))
	w.run(100)
	if a, b := w.nics[0].Counters().DataErrors, w.nics[1].Counters().DataErrors; a != 2 || b != 4 {
		t.Errorf("%d and %d data errors, want 2 (READ) and 4 (WRITE, SEND)", a, b)
	}
}

func TestForeignPacketsAreDroppedSilently(t *testing.T) {
	for name, spoil := range map[string]func(p *packet.Packet){
		"unknown queue pair": func(p *packet.Packet) { p.BTH.DestQP++ },
		"wrong source":       func(p *packet.Packet) { p.IP.Src = p.IP.Src.Next() },
		"wrong version":      func(p *packet.Packet) { p.BTH.Version = 1 },
		"wrong P_Key":        func(p *packet.Packet) { p.BTH.PKey = 0x1234 },
		"another service":    func(p *packet.Packet) { p.BTH.Opcode = 0x64 },
	} {
		t.Run(name, func(t *testing.T) {
			s := newScript(t, reliable(), Bugs{}, NotificationPoint{})
			p := s.packet([]string{"WRITE_ONLY", "1", "len=4", "dma=4", "ackreq"})
			spoil(&p)
			s.nic.HandlePacket(0, &p)
			if c := s.nic.Counters(); c.Invalid != 1 || c.OutOfSequence != 0 || c.RxPackets != 1 {
				t.Errorf("counters %+v", c)
			}
		})
	}
	s := newScript(t, reliable(), Bugs{}, NotificationPoint{})
	p := s.packet([]string{"WRITE_ONLY", "0", "len=4", "dma=4"})
	p.Eth.Dst[5]++
	s.nic.HandlePacket(0, &p)
	if c := s.nic.Counters(); c != (Counters{}) {
		t.Errorf("a frame for another host counts: %+v", c)
	}
}
