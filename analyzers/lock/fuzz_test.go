package lock

import (
	"encoding/binary"
	"net/netip"
	"testing"

	"candela.dev/candela/analyzers/cause/causetest"
	"candela.dev/candela/clock"
	"candela.dev/candela/lock"
	"candela.dev/candela/packet/netlock"
	"candela.dev/candela/runtimetest"
	"candela.dev/candela/trace"
)

// step is how many bytes of fuzzed input make one packet or event.
const step = 12

// fuzzed turns bytes into what a judge is told. Few different names make that packets meet.
func fuzzed(t testing.TB, in []byte) {
	if len(in) < 4 {
		return
	}
	f := lock.Switch{Pipeline: 100 * ns, Recirculation: clock.Duration(in[0]&3) * 100 * ns, Dedup: in[0]&4 != 0,
		TIDCheck: in[0]&8 != 0, OneRTT: in[0]&16 != 0, Placed: in[0]&32 != 0, Moves: in[0]&64 != 0,
		Processing: lock.Processing(in[1] & 3), Priorities: int(in[1] >> 2 & 3), Slots: 4,
		Locks: map[uint32]int{0: 1, 1: 2}, Lease: clock.Duration(in[1]>>4&3) * us, Poll: 100 * ns,
		PushRetry: clock.Duration(in[1]>>6) * us}
	if in[2]&1 != 0 {
		f.Period, f.Quota = us, map[uint16]int64{0: 2, 1: 1}
	}
	for i := range 4 {
		f.Ports = append(f.Ports, lock.Port{Rate: clock.BitRate(in[2]>>1&1) * clock.Gbps, Trunk: i == 3 && in[2]&4 != 0})
	}
	network := lock.Network{Switches: []lock.Switch{f, f}, Complete: in[2]&8 != 0, Joined: in[2]&16 != 0,
		Uncertainty: clock.Duration(in[2]>>5&1) * 10 * ns, Servers: []netip.Addr{serverAddress},
		Databases: []netip.Addr{address(9)}}
	network.Switches[1].Standby = in[2]&64 != 0
	j, err := New(network)
	if err != nil {
		t.Fatal(err)
	}
	now := clock.Time(0)
	for in = in[4:]; len(in) >= step; in = in[step:] {
		now += clock.Time(in[0]) * clock.Time(10*ns)
		sw := int(in[1] & 1)
		switch in[1] >> 4 {
		case 0:
			j.Gap(now, sw)
			continue
		case 1:
			j.Stopping(now, sw)
			continue
		case 2:
			j.Started(now, sw)
			continue
		case 3:
			j.Placed(now, sw, uint32(in[2]&3), int(in[3]&3))
			continue
		case 4:
			j.TakesOver(now, sw)
			j.ServerStopped(now, serverAddress)
			continue
		}
		p := Packet{Time: now, ID: uint64(in[2]), Switch: sw, Port: int(in[3]&7) - 1, Stage: trace.SwitchStage(in[4] & 3),
			Size: int32(in[5]), Lock: in[4]&4 == 0, Flow: uint64(in[6] & 1), Digest: uint64(in[7] & 3),
			Src: address(int(in[6] & 3)), Dst: address(int(in[7] & 3)), DstPort: netlock.Port + uint16(in[4]>>3&1)}
		if in[4]&16 != 0 {
			p.Src = serverAddress
		}
		if in[4]&32 != 0 {
			p.Dst = address(9)
		}
		h := &p.Header
		h.Op, h.Mode, h.Mark = netlock.Op(in[8]%7), netlock.Mode(in[8]>>3&1), netlock.Mark(in[8]>>4&3)
		h.Lock, h.Transaction = uint32(in[9]&3), uint32(in[9]>>2&3)
		h.Priority, h.Tenant, h.Last = in[10]&3, uint16(in[10]>>2&1), in[10]&8 != 0
		h.Index, h.Received, h.Sent = uint64(in[11]&7), uint64(in[11]>>3&7), uint64(in[11]>>6)
		if in[10]&16 != 0 {
			h.Address = address(int(in[10] >> 5))
		}
		j.Packet(&p)
	}
	r := j.Finish(now)
	causetest.Declared(t, Causes(), r.Findings)
	sound(t, j)
}

// sound checks that the tables of a judge agree with each other.
func sound(t testing.TB, j *Judge) {
	live, held, parked := make([]int32, len(j.locks)), make([]int32, len(j.locks)), make([]int32, len(j.locks))
	for k, i := range j.byKey {
		r := &j.requests[i]
		if r.key != k || r.self != i || !j.locks[r.lock].used || j.locks[r.lock].id != k.lock {
			t.Fatalf("request %+v is at %d: %+v", k, i, r)
		}
		live[r.lock]++
		parked[r.lock] += int32(r.parks)
		if r.linked {
			held[r.lock]++
		}
	}
	if len(j.byKey)+len(j.freeReqs) != len(j.requests) || len(j.byLock)+len(j.freeLocks) != len(j.locks) {
		t.Fatalf("%d requests and %d free of %d, %d locks and %d free of %d", len(j.byKey), len(j.freeReqs),
			len(j.requests), len(j.byLock), len(j.freeLocks), len(j.locks))
	}
	for i := range j.locks {
		l := &j.locks[i]
		if !l.used {
			continue
		}
		n := int32(0)
		for h := l.holders; h != none; h = j.requests[h].next {
			if n++; !j.requests[h].linked || n > held[i] {
				t.Fatalf("lock %d: holders are not linked", l.id)
			}
		}
		if l.live != live[i] || l.held != held[i] || n != held[i] || l.parked != parked[i] || l.copies < 0 {
			t.Fatalf("lock %d has %d requests (%d), %d holders (%d, %d), %d parked (%d), %d copies", l.id, l.live, live[i],
				l.held, held[i], n, l.parked, parked[i], l.copies)
		}
		l.classes(func(c *class) {
			for q := c.parks[0]; q != none; q = j.requests[q].next {
				if !j.requests[q].queued || l.class(&j.requests[q]) != c {
					t.Fatalf("lock %d: parked requests are not linked", l.id)
				}
			}
		})
	}
}

func FuzzJudge(f *testing.F) {
	f.Add([]byte("\x2d\x00\x0a\x00"))
	in := []byte{0x2d, 0x10, 0x0a, 0}
	for i := range byte(64) {
		in = append(in, i, 0x50, i, i&3, 1+i&1, 62, i&3, 0, i%7, i&7, 0x10*i, i)
	}
	f.Add(in)
	f.Fuzz(func(t *testing.T, in []byte) { fuzzed(t, in) })
}

// Any packets, drawn at random, leave tables that agree.
func TestAnyPackets(t *testing.T) {
	for seed := range uint64(wide(300)) {
		in := make([]byte, 4+step*400)
		x := seed*2654435761 + 1
		for i := 0; i+8 <= len(in); i += 8 {
			x ^= x << 13
			x ^= x >> 7
			x ^= x << 17
			binary.LittleEndian.PutUint64(in[i:], x)
		}
		if in[2] |= 8; seed%2 == 0 {
			for i := 5; i < len(in); i += step {
				in[i] |= 0x50 // packets only
			}
		}
		fuzzed(t, in)
	}
}

func FuzzDecode(f *testing.F) {
	p := Packet{Lock: true, Src: address(1), Dst: serverAddress, DstPort: netlock.Port, Header: netlock.Header{Lock: 7}}
	f.Add(frameOf(&p))
	f.Add([]byte{})
	f.Fuzz(func(t *testing.T, b []byte) {
		var d Decoder
		var p Packet
		d.Decode(&trace.Frame{Data: b, OrigLen: len(b)}, 0, &p)
		if p.Lock == (p.Flow != 0) || p.Lock && (!p.Src.IsValid() || !p.Dst.IsValid()) {
			t.Fatalf("%x is %+v", b, p)
		}
	})
}

// memory of a judge of many locks and clients grows with what is outstanding, not with what was.
func TestMemoryIsThatOfWhatIsOutstanding(t *testing.T) {
	f := lock.Switch{Pipeline: 200 * ns, Recirculation: 100 * ns, Dedup: true, TIDCheck: true, Placed: true,
		Ports: make([]lock.Port, 4), Lease: ms, Poll: 100 * us}
	j, err := New(lock.Network{Switches: []lock.Switch{f}, Complete: true, Servers: []netip.Addr{serverAddress}})
	if err != nil {
		t.Fatal(err)
	}
	now := clock.Time(0)
	for n := range wide(100_000) {
		cycle(j, &now, uint32(n), uint32(n), n%16)
	}
	if len(j.requests) > 64 || len(j.locks) > 64 || len(j.leases.ring) > 1<<13 {
		t.Errorf("%d requests, %d locks, %d leases", len(j.requests), len(j.locks), len(j.leases.ring))
	}
}

// cycle shows a request that the server grants, and its release.
func cycle(j *Judge, now *clock.Time, id, tid uint32, client int) {
	p := Packet{Stage: trace.Entered, Size: 62, Lock: true, Src: address(client), Dst: serverAddress,
		DstPort: netlock.Port,
		Header:  netlock.Header{Op: netlock.Acquire, Mode: netlock.Exclusive, Lock: id, Transaction: tid}}
	show := func(stage trace.SwitchStage, op netlock.Op, mark netlock.Mark, answer bool) {
		*now += clock.Time(200 * ns)
		p.Time, p.Stage, p.Header.Op, p.Header.Mark = *now, stage, op, mark
		p.Src, p.Dst, p.DstPort = address(client), serverAddress, netlock.Port
		if answer {
			p.Src, p.Dst, p.DstPort = serverAddress, address(client), netlock.ReplyPort
		}
		p.ID++
		j.Packet(&p)
	}
	show(trace.Entered, netlock.Acquire, netlock.Unmarked, false)
	slots := j.facts.Switches[0].Locks[id]
	if slots > 0 {
		show(trace.Left, netlock.Acquire, netlock.Unmarked, true)
	} else {
		show(trace.Left, netlock.Acquire, netlock.Owned, false)
		show(trace.Entered, netlock.GrantFromServer, netlock.Unmarked, true)
		show(trace.Left, netlock.GrantFromServer, netlock.Unmarked, true)
	}
	show(trace.Entered, netlock.Release, netlock.Unmarked, false)
	if slots == 0 {
		show(trace.Left, netlock.Release, netlock.Unmarked, false)
	}
}

func busyJudge(t testing.TB) *Judge {
	locks := map[uint32]int{}
	for i := range uint32(1000) {
		locks[i] = 8
	}
	f := lock.Switch{Pipeline: 200 * ns, Recirculation: 100 * ns, Dedup: true, TIDCheck: true, Placed: true, Locks: locks,
		Slots: 8000, Ports: make([]lock.Port, 4), Lease: ms, Poll: 100 * us}
	for i := range f.Ports {
		f.Ports[i].Rate = 40 * clock.Gbps
	}
	j, err := New(lock.Network{Switches: []lock.Switch{f}, Complete: true, Servers: []netip.Addr{serverAddress}})
	if err != nil {
		t.Fatal(err)
	}
	return j
}

func TestNothingIsAllocatedPerPacket(t *testing.T) {
	j := busyJudge(t)
	now, n := clock.Time(0), 0
	runtimetest.SkipRace(t)
	round := func() {
		for range 1000 {
			n++
			cycle(j, &now, uint32(n%2000), uint32(n), n%16)
		}
	}
	for range 100 { // tables and the first values of distributions
		round()
	}
	if allocs := runtimetest.FewestAllocs(0, round); allocs > 0 {
		t.Errorf("%v allocations in 1000 requests", allocs)
	}
	if r := j.Finish(now); len(violated(&r)) > 0 {
		t.Error(describe(&r))
	}
}

// BenchmarkPacket is one packet of locks of which half are the server's; a request takes three or five.
func BenchmarkPacket(b *testing.B) {
	j := busyJudge(b)
	now, n := clock.Time(0), 0
	b.ReportAllocs()
	for b.Loop() {
		n++
		cycle(j, &now, uint32(n%2000), uint32(n), n%16)
	}
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(j.measures.packets), "ns/packet")
}

// BenchmarkContended is the judge over a recorded run with shared runs, overflow and a server.
func BenchmarkContended(b *testing.B) {
	var tape []Packet
	s := base(1)
	s.lasts, s.locks = 2*ms, 8
	s.facts.Locks = map[uint32]int{0: 4, 1: 8, 2: 16, 3: 16, 4: 16, 5: 16}
	s.gap = func(_ *Judge, _ int, p *Packet) bool {
		tape = append(tape, *p)
		return true
	}
	_, m := s.run()
	packets := 0
	for b.Loop() {
		b.StopTimer()
		j, err := New(m.judge.facts)
		if err != nil {
			b.Fatal(err)
		}
		b.StartTimer()
		for i := range tape {
			j.Packet(&tape[i])
		}
		packets += len(tape)
	}
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(packets), "ns/packet")
}
