package rdma

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/google/go-cmp/cmp"

	"candela.dev/candela/clock"
	"candela.dev/candela/generator"
	"candela.dev/candela/packet"
)

// dropTimes drops the first n packets with one relative request PSN (or READ response PSN).
func dropTimes(w *wire, op func(packet.Opcode) bool, psn, n int) {
	ipsn := w.qps[0][0].IPSN()
	w.filter = func(s *seen) verdict {
		if op(s.p.BTH.Opcode) && s.p.BTH.PSN == ipsn.Add(psn-1) && n > 0 {
			n--
			return drop
		}
		return pass
	}
}

func TestTailLossTakesOneTimeoutPerLoss(t *testing.T) {
	outcome := map[int]generator.Status{0: generator.Success, 1: generator.Success, 7: generator.Success,
		8: generator.RetryExceeded}
	for losses, want := range outcome {
		w := newWire(t, setup{seed: 1, qps: 1, qp: QPConfig{RetryCount: 7, Timeout: 14}, record: true})
		dropTimes(w, packet.Opcode.IsData, 10, losses)
		w.start(load(1, 10240, 1, generator.Write))
		w.run(1000)
		m := w.workload.Report().Streams[0].Messages[0]
		if m.Status != want {
			t.Errorf("%d losses: %s, want %s", losses, m.Status, want)
		}
		c := w.nics[0].Counters()
		if c.LocalAckTimeout != uint64(losses) || c.PacketSeqErr != 0 {
			t.Errorf("%d losses: %d timeouts, %d sequence errors", losses, c.LocalAckTimeout, c.PacketSeqErr)
		}
		const timeout = 67_108_864 // ns, exponent 14
		got, least := m.Completed.Nanoseconds(), int64(losses)*timeout
		if losses > 0 && (got < least || got > least+100_000) {
			t.Errorf("%d losses: completed after %d ns", losses, got)
		}
	}
}

// A lost retransmission causes no NAK, because the responder sends one NAK per gap.
func TestLostRetransmissionIsRepairedByTimeout(t *testing.T) {
	w := newWire(t, setup{seed: 1, qps: 1, qp: reliable(), record: true})
	dropTimes(w, packet.Opcode.IsData, 5, 2)
	w.start(load(1, 10240, 1, generator.Write))
	w.run(100)
	w.checkAllDone()
	r, s := w.nics[0].Counters(), w.nics[1].Counters()
	if r.PacketSeqErr != 1 || r.LocalAckTimeout != 1 || s.OutOfSequence != 1 {
		t.Errorf("%d NAKs handled, %d timeouts, %d gaps; want one each", r.PacketSeqErr, r.LocalAckTimeout, s.OutOfSequence)
	}
}

func TestReadGapIsRepairedByOneImpliedNak(t *testing.T) {
	w := newWire(t, setup{seed: 1, qps: 1, qp: reliable(), record: true})
	dropTimes(w, packet.Opcode.IsReadResponse, 5, 1)
	w.start(load(2, 10240, 1, generator.Read))
	w.run(100)
	w.checkAllDone()
	r, s := w.nics[0].Counters(), w.nics[1].Counters()
	if r.ImpliedNakErr != 1 || r.LocalAckTimeout != 0 || s.DuplicateRequest != 1 {
		t.Errorf("%d implied NAKs, %d timeouts, %d duplicate requests; want 1, 0, 1",
			r.ImpliedNakErr, r.LocalAckTimeout, s.DuplicateRequest)
	}
}

// A repeated READ must not wait for the rest of the old responses.
func TestRepeatedReadInterruptsTheOldResponses(t *testing.T) {
	w := newWire(t, setup{seed: 1, qps: 1, qp: reliable(), record: true})
	dropTimes(w, packet.Opcode.IsReadResponse, 5, 1)
	w.start(load(1, 1<<20, 1, generator.Read))
	w.run(1100)
	w.checkAllDone()
}

func TestEverySingleLossOfAMixIsRepaired(t *testing.T) {
	mix := []generator.Verb{generator.Write, generator.Read, generator.SendImm, generator.FetchAdd, generator.Read,
		generator.WriteImm}
	qp := QPConfig{RetryCount: 1, RNRRetry: 7, Timeout: 8, FixIPSN: true, IPSN: 0xfffff8}
	for n := 1; n <= 120; n++ {
		w := newWire(t, setup{seed: 1, qps: 1, qp: qp, record: true})
		w.filter = func(*seen) verdict {
			if w.packets == n {
				return drop
			}
			return pass
		}
		w.start(bothWays(12, 3000, 4, mix...))
		w.run(1000)
		w.checkAllDone()
		if t.Failed() {
			t.Fatalf("loss of packet %d", n)
		}
	}
}

// A transmit pipeline sends its content before the retransmission.
func TestPipelineDepthDelaysTheJump(t *testing.T) {
	w := newWire(t, setup{seed: 1, qps: 1, qp: reliable(), record: true, nic: func(_ generator.Side, c *Config) {
		c.Profile.PipelineDepth = 3
	}})
	dropTimes(w, packet.Opcode.IsData, 5, 1)
	w.start(load(1, 100<<10, 1, generator.Write))
	w.run(300)
	w.checkAllDone()
	var nak clock.Time
	after := 0
	for _, s := range w.log {
		switch {
		case s.p.BTH.Opcode == packet.Acknowledge && nak == 0:
			nak = s.at.Add(w.delay)
		case nak != 0 && s.from == generator.Requester && s.at > nak:
			if s.p.BTH.PSN == w.qps[0][0].IPSN().Add(4) {
				if after < 2 || after > 3 {
					t.Errorf("%d packets of the old round after the NAK, want the pipeline's 3", after)
				}
				return
			}
			after++
		}
	}
	t.Errorf("no retransmission\n%s", w.tail())
}

// serialise returns all packets of a run as text.
func serialise(t *testing.T, seed uint64) []byte {
	w := newWire(t, setup{seed: seed, qps: 4, qp: reliable(), record: true})
	rng := rand.New(rand.NewPCG(seed, 99))
	w.filter = func(*seen) verdict {
		if rng.IntN(20) == 0 {
			return drop
		}
		return pass
	}
	w.start(bothWays(6, 5000, 2, generator.Write, generator.Read, generator.Send))
	w.run(5000)
	var b bytes.Buffer
	for _, s := range w.log {
		fmt.Fprintf(&b, "%d %s %x\n", s.at, s.from, s.p.AppendTo(nil))
	}
	return b.Bytes()
}

func TestSameSeedSameBytes(t *testing.T) {
	if !bytes.Equal(serialise(t, 5), serialise(t, 5)) {
		t.Error("two runs with one seed differ")
	}
	if bytes.Equal(serialise(t, 5), serialise(t, 6)) {
		t.Error("two seeds give the same run")
	}
}

// Packets must survive serialisation and parsing.
func TestPacketsParseBack(t *testing.T) {
	for _, ipv6 := range []bool{false, true} {
		w := newWire(t, setup{seed: 2, qps: 1, qp: reliable(), record: true, ipv6: ipv6,
			nic: func(_ generator.Side, c *Config) {
				c.Tagged, c.TCI, c.DSCP = true, 0x6001, 26
			}})
		w.start(load(4, 1501, 4, generator.Write, generator.Read, generator.SendImm, generator.CompareSwap))
		w.run(100)
		for _, s := range w.log {
			frame := s.p.AppendTo(nil)
			var got packet.Packet
			if err := got.Parse(frame); err != nil {
				t.Fatalf("%s: %v", s, err)
			}
			if packet.CheckICRC(frame, &got) != packet.ICRCValid {
				t.Errorf("%s: iCRC", s)
			}
			if diff := cmp.Diff(s.p.BTH, got.BTH); diff != "" {
				t.Errorf("%s: %s", s, diff)
			}
			if got.IP.DSCP() != 26 || got.IP.TTL != 64 || len(got.Payload) != len(s.p.Payload) {
				t.Errorf("%s: DSCP %d, TTL %d, %d bytes", s, got.IP.DSCP(), got.IP.TTL, len(got.Payload))
			}
			if ipv6 && got.UDP.Checksum == 0 {
				t.Errorf("%s: no UDP checksum over IPv6", s)
			}
		}
	}
}

func TestEveryPairOfLossesIsRepaired(t *testing.T) {
	for _, verbs := range [][]generator.Verb{{generator.Write}, {generator.Read},
		{generator.Write, generator.Read, generator.FetchAdd}} {
		packets := 40
		for first := 1; first <= packets; first++ {
			for second := first + 1; second <= packets+10; second++ {
				w := newWire(t, setup{seed: 1, qps: 1, qp: QPConfig{RetryCount: 2, Timeout: 8}})
				w.filter = func(*seen) verdict {
					if w.packets == first || w.packets == second {
						return drop
					}
					return pass
				}
				w.start(load(4, 5000, 2, verbs...))
				w.run(1000)
				w.checkAllDone()
				if t.Failed() {
					t.Fatalf("%v: losses of packets %d and %d", verbs, first, second)
				}
			}
		}
	}
}
