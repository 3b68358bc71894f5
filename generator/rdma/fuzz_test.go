package rdma

import (
	"math/rand/v2"
	"testing"

	"candela.dev/candela/clock"
	"candela.dev/candela/generator"
	"candela.dev/candela/packet"
)

// FuzzQP reads its input as operations on one queue pair: post a request, post a receive, receive a packet of any kind
// near the current PSNs, let time pass. For every input the requester's invariants hold, nothing panics and no request
// completes twice. When the peer falls silent, all requests complete and no timer remains.
func FuzzQP(f *testing.F) {
	f.Add([]byte{0, 3, 1, 0x11, 0, 31, 2, 200})
	f.Add([]byte{0, 5, 0, 1, 1, 0x0d, 0, 31, 1, 0x0f, 2, 31, 3, 9})
	f.Add([]byte{4, 0, 1, 0x04, 0, 0, 1, 0x06, 1, 0, 1, 0x0c, 0xff, 0, 1, 0x13, 2, 0})
	f.Fuzz(func(t *testing.T, ops []byte) {
		x := newFuzzed(t)
		for len(ops) > 0 {
			ops = x.op(ops)
			x.check()
		}
		x.rest()
	})
}

type fuzzed struct {
	t        *testing.T
	nic      *NIC
	qp       *QP
	now      clock.Time
	posted   uint64
	finished map[uint64]bool
}

func newFuzzed(t *testing.T) *fuzzed {
	nic, err := NewNIC(Config{Name: "dut", IPs: addresses[:1], Profile: Spec(), PortRate: 100 * clock.Gbps,
		Rand: rand.New(rand.NewPCG(1, 1)), NP: NotificationPoint{Enable: true, Mode: CNPPerPort},
		RP: ReactionPoint{Enable: true}})
	if err != nil {
		t.Fatal(err)
	}
	qp := reliable()
	qp.RNRRetry, qp.MTU, qp.MaxReads = 3, 256, 3
	qp.LocalIP, qp.IPSN, qp.FixIPSN = addresses[0], 0xfffffd, true
	q, err := nic.CreateQP(qp)
	if err != nil {
		t.Fatal(err)
	}
	if err := q.Connect(Remote{IP: addresses[1], QPN: peerQPN, IPSN: 0xfffffe}); err != nil {
		t.Fatal(err)
	}
	return &fuzzed{t: t, nic: nic, qp: q, finished: map[uint64]bool{}}
}

// op executes the first operation of ops and returns the rest.
func (x *fuzzed) op(ops []byte) []byte {
	arg := func(i int) byte {
		if i < len(ops) {
			return ops[i]
		}
		return 0
	}
	used := 1
	switch ops[0] % 5 {
	case 0:
		used = 3
		verb := generator.Verb(arg(1)%7 + 1)
		wr := generator.WorkRequest{ID: x.posted, Verb: verb, Length: int(arg(2)) * 9, RemoteAddr: 64}
		if err := x.qp.PostSend(x.now, wr); err != nil {
			x.t.Fatal(err)
		}
		x.posted++
	case 1, 2:
		used = 4
		p := x.packet(packet.Opcode(arg(1)), int(int8(arg(2))), arg(3))
		x.nic.HandlePacket(x.now, &p)
	case 3:
		used = 2
		x.pass(clock.Duration(arg(1)) * clock.Duration(arg(1)) * 100 * clock.Nanosecond)
	case 4:
		if err := x.qp.PostRecv(x.now, generator.ReceiveRequest{Length: 600}); err != nil {
			x.t.Fatal(err)
		}
	}
	return ops[min(used, len(ops)):]
}

// packet returns a packet with plausible numbers: a PSN within ±128 of the expected one. Variant determines the other
// fields.
func (x *fuzzed) packet(op packet.Opcode, psn int, variant byte) packet.Packet {
	base := x.qp.resp.expected
	if op.IsResponse() {
		base = x.qp.req.una
	}
	p := packet.Packet{HasUDP: true, Derived: true, Headers: packet.HasBTH | op.Headers()}
	p.IP = packet.IP{Version: 4, Src: addresses[1], Dst: addresses[0], TOS: variant >> 6}
	p.BTH = packet.BTH{Opcode: op, PKey: 0xffff, DestQP: x.qp.qpn, AckReq: variant&1 != 0}
	p.BTH.PSN = packet.NewPSN(base + int64(psn))
	p.AETH.Syndrome = packet.Syndrome(variant)
	p.RETH = packet.RETH{VA: x.qp.region.Base + uint64(variant), RKey: x.qp.region.RKey, Length: uint32(variant) * 7}
	p.AtomicETH = packet.AtomicETH{VA: x.qp.region.Base + uint64(variant&^3), RKey: x.qp.region.RKey}
	if n := int(variant&0x3f) * 8; variant&0x20 != 0 {
		p.Payload = pattern()[:min(n, 256)]
	}
	return p
}

// pass advances the time by d and lets the NIC send.
func (x *fuzzed) pass(d clock.Duration) {
	end := x.now.Add(d)
	var p packet.Packet
	for steps := 0; x.nic.NextTimer() <= end; steps++ {
		if steps > 100000 {
			x.t.Fatal("the NIC never stops sending")
		}
		x.now = max(x.now, x.nic.NextTimer())
		x.nic.HandleTimer(x.now)
		if !x.nic.Poll(x.now, &p) && x.nic.NextTimer() <= x.now {
			x.t.Fatal("the NIC asks to be polled and has nothing to send")
		}
		x.check()
	}
	x.now = end
}

func (x *fuzzed) check() {
	x.t.Helper()
	r := &x.qp.req
	ordered := r.una <= r.nxt && r.nxt <= r.high && r.high <= r.end && r.ackDue <= r.high
	if !ordered || r.reads < 0 || r.reads > x.qp.cfg.MaxReads {
		x.t.Fatalf("una %d nxt %d high %d end %d ackDue %d reads %d", r.una, r.nxt, r.high, r.end, r.ackDue, r.reads)
	}
	if (r.nxt < r.end) != (r.cursor < r.out.len()) {
		x.t.Fatalf("nxt %d of %d, but cursor %d of %d", r.nxt, r.end, r.cursor, r.out.len())
	}
	if r.cursor < r.out.len() {
		if w := r.out.at(r.cursor); r.nxt < w.first || r.nxt > w.last {
			x.t.Fatalf("nxt %d outside request %d to %d", r.nxt, w.first, w.last)
		}
	}
	var c generator.Completion
	for x.nic.PollCompletion(&c) {
		if c.Receive {
			continue
		}
		if c.ID >= x.posted || x.finished[c.ID] {
			x.t.Fatalf("request %d completed again or never posted", c.ID)
		}
		x.finished[c.ID] = true
	}
}

// rest waits until timers have completed all outstanding requests.
func (x *fuzzed) rest() {
	x.pass(2 * clock.Second) // the longest RNR timer is 655 ms
	if at := x.nic.NextTimer(); at != clock.Never {
		x.t.Errorf("still waiting for %s at %s", at, x.now)
	}
	if uint64(len(x.finished)) != x.posted {
		x.t.Errorf("%d of %d requests completed", len(x.finished), x.posted)
	}
}
