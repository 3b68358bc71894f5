package lock_test

import (
	"encoding/binary"
	"fmt"
	"maps"
	"math/rand/v2"
	"os/exec"
	"slices"
	"testing"
	"time"

	"candela.dev/candela/clock"
	"candela.dev/candela/link/linktest"
	"candela.dev/candela/packet/netlock"
	"candela.dev/candela/testbeds/switches/lock"
)

// The program in bmv2's simple_switch decides as the mechanism does, if that gets the packets and passes in the order
// in which bmv2 processed them. Listing grants requests twice there, as the chapter's races say; the chain lock never.
func TestTheP4ProgramOnBMv2DecidesAsTheMechanismDoes(t *testing.T) {
	for _, program := range []string{"p4c-bm2-ss", "simple_switch"} {
		if _, err := exec.LookPath(program); err != nil {
			t.Skipf("SKIP: %s is not on the PATH", program)
		}
	}
	for macro, processing := range map[string]lock.Processing{"LISTING": lock.Listing, "CHAINLOCK": lock.ChainLock} {
		t.Run(processing.String(), func(t *testing.T) {
			linktest.Namespace(t, func() {
				run := newBMv2Run(t, macro)
				rng := rand.New(rand.NewPCG(1, uint64(processing)))
				for i := 0; i < bmv2Rounds || i < bmv2Most && processing == lock.Listing && run.twice == 0; i++ {
					run.round(rng, i)
				}
				run.settle()
				run.compare(processing)
				if twice := run.twice > 0; twice != (processing == lock.Listing) {
					t.Errorf("%d requests were granted twice", run.twice)
				}
				t.Log(run.totals, "granted twice:", run.twice)
			})
		})
	}
}

// bmv2Run is clients around simple_switch.
type bmv2Run struct {
	t       *testing.T
	sw      *simpleSwitch
	sent    map[uint16][]bmv2Sent // by port
	left    map[uint16][]string   // what left the switch, by port
	holders []lock.Request
	granted map[uint32]bool // transactions
	waiting int
	next    uint32 // transaction
	twice   int
	totals  map[string]int
}

// bmv2Sent is a packet to the switch.
type bmv2Sent struct {
	op      netlock.Op
	request lock.Request
	other   []byte // not of the lock manager
}

const (
	bmv2Hosts   = 6
	bmv2Waiting = 12 // most requests that are not released
	bmv2Rounds  = 240
	bmv2Most    = 3 * bmv2Rounds // until the listing has granted twice, which is a matter of time
	// bmv2Age is how many rounds use the same two locks: what a server buffers does not come back, and releases of nobody
	// and the races of the listing lose requests.
	bmv2Age     = 12
	bmv2Locks   = 2 * bmv2Most / bmv2Age
	bmv2Foreign = bmv2Locks + 1 // is not installed
)

func newBMv2Run(t *testing.T, macro string) *bmv2Run {
	t.Helper()
	ports := []uint16{p4Server}
	for h := range uint16(bmv2Hosts) {
		ports = append(ports, h)
	}
	return &bmv2Run{t: t, sw: startSimpleSwitch(t, macro, bmv2Locks, ports), sent: make(map[uint16][]bmv2Sent),
		left: make(map[uint16][]string), granted: make(map[uint32]bool), totals: make(map[string]int)}
}

// round sends some packets at once, and takes what leaves.
func (b *bmv2Run) round(rng *rand.Rand, number int) {
	first := uint32(1 + 2*(number/bmv2Age)) // the first of the two locks
	if number%bmv2Age == 0 {
		b.waiting = 0
		b.lateHead(first)
	}
	for range 1 + rng.IntN(10) {
		switch n := rng.IntN(20); {
		case n == 0:
			host := uint32(rng.IntN(bmv2Hosts))
			b.sends(bmv2Sent{request: lock.Request{Client: lock.Client{Host: host}}, other: otherFrame(host, b.next)})
		case n == 1: // of nobody: removes the oldest entry
			b.sends(bmv2Sent{op: netlock.Release, request: lock.Request{Lock: first + 1}})
		case n < 10 && len(b.holders) > 0:
			i := rng.IntN(len(b.holders))
			r := b.holders[i]
			b.sends(bmv2Sent{op: netlock.Release, request: r})
			b.holders = slices.Delete(b.holders, i, i+1)
			b.waiting = max(0, b.waiting-1)
			if r.Mode == netlock.Exclusive && b.waiting+3 <= bmv2Waiting { // requests that come while a chain may run
				for range 3 {
					b.asks(rng, r.Lock, netlock.Shared)
				}
			}
		case b.waiting < bmv2Waiting:
			mode, number := netlock.Shared, first+rng.Uint32N(2)
			if rng.IntN(8) == 0 {
				number = bmv2Foreign
			}
			if rng.IntN(3) == 0 {
				mode = netlock.Exclusive
			}
			b.asks(rng, number, mode)
		}
	}
	b.take(2 * time.Millisecond)
}

// lateHead sends what makes a pass, if that comes last, find a head that was granted meanwhile: see
// TestTheP4ProgramGrantsALateHeadOnce. The lock is new.
func (b *bmv2Run) lateHead(number uint32) {
	exclusive := func() lock.Request {
		b.next++
		return lock.Request{Lock: number, Transaction: b.next, Mode: netlock.Exclusive,
			Client: lock.Client{Host: b.next % bmv2Hosts}}
	}
	holder := exclusive()
	b.sends(bmv2Sent{op: netlock.Acquire, request: holder})
	b.sends(bmv2Sent{op: netlock.Acquire, request: exclusive()})
	b.take(2 * time.Millisecond)
	at := slices.IndexFunc(b.holders, func(r lock.Request) bool { return r.Transaction == holder.Transaction })
	if at < 0 { // bmv2 is slow
		return
	}
	b.holders = slices.Delete(b.holders, at, at+1)
	b.sends(bmv2Sent{op: netlock.Release, request: holder})
	b.sends(bmv2Sent{op: netlock.Release, request: lock.Request{Lock: number}})
	b.waiting++
	b.sends(bmv2Sent{op: netlock.Acquire, request: exclusive()})
}

// asks sends a request of any host.
func (b *bmv2Run) asks(rng *rand.Rand, number uint32, mode netlock.Mode) {
	b.waiting++
	b.next++
	b.sends(bmv2Sent{op: netlock.Acquire, request: lock.Request{Lock: number, Transaction: b.next, Mode: mode,
		Client: lock.Client{Host: uint32(rng.IntN(bmv2Hosts)), Thread: uint8(rng.IntN(4))}}})
}

func (b *bmv2Run) sends(s bmv2Sent) {
	port, frame := uint16(s.request.Client.Host), s.other
	if frame == nil {
		frame = p4Frame(s.op, &s.request)
	}
	b.sw.send(b.t, port, frame)
	b.sent[port] = append(b.sent[port], s)
}

// take takes what leaves until nothing has for a time.
func (b *bmv2Run) take(quiet time.Duration) (some bool) {
	for port, frames := range b.sw.receive(b.t, quiet) {
		for _, f := range frames {
			some = true
			if binary.BigEndian.Uint16(f[36:]) == otherPort {
				b.left[port] = append(b.left[port], fmt.Sprintf("%x", f))
				continue
			}
			length, udp := binary.BigEndian.Uint16(f[16:]), binary.BigEndian.Uint16(f[38:])
			if headerSum(f[14:34]) != 0xffff || int(length) != len(f)-14 || int(udp) != len(f)-34 {
				b.t.Fatalf("the lengths %d and %d, or the checksum of IPv4, are not those of %x", length, udp, f)
			}
			b.left[port] = append(b.left[port], p4Left(port, f))
			if port == p4Server {
				b.waiting = max(0, b.waiting-1)
				continue
			}
			var h netlock.Header
			if err := h.Parse(f[42:]); err != nil {
				b.t.Fatal(err)
			}
			if b.granted[h.Transaction] {
				b.twice++ // clients ignore it
				continue
			}
			b.granted[h.Transaction] = true
			b.holders = append(b.holders, lock.Request{Lock: h.Lock, Mode: h.Mode, Transaction: h.Transaction,
				Client: lock.Client{Host: uint32(port), Thread: h.Client}})
		}
	}
	return some
}

// settle releases what is held until nothing is.
func (b *bmv2Run) settle() {
	for b.take(100*time.Millisecond) || len(b.holders) > 0 {
		for _, r := range b.holders {
			b.sends(bmv2Sent{op: netlock.Release, request: r})
		}
		b.holders = nil
	}
}

// compare has the mechanism process what the switch did, in its order, and compares what leaves at each port.
func (b *bmv2Run) compare(processing lock.Processing) {
	plane := lock.New(lock.Config{Processing: processing})
	for id := range uint32(bmv2Locks) {
		if err := plane.Install(id+1, 8); err != nil {
			b.t.Fatal(err)
		}
	}
	want := make(map[uint16][]string)
	passes, at := make(map[int]lock.Pass), make(map[uint16]int)
	started, about := make(map[int]int), make(map[int]uint32) // of packets: their latest pass, and their lock
	granted := make(map[uint32]int)                           // of locks: the latest request that was granted at once
	last := -1
	for i, of := range b.sw.processed(b.t)[b.sw.skip:] {
		var list []lock.Output
		now := clock.Time(i)
		if !of.first {
			p, ok := passes[of.packet]
			if !ok {
				b.t.Fatalf("packet %d passes again, which it has no reason for", of.packet)
			}
			delete(passes, of.packet)
			if started[of.packet] < granted[about[of.packet]] {
				b.totals["passes after a grant of a request that came meanwhile"]++
			}
			if last != of.packet {
				b.totals["passes after those of other packets"]++
			}
			list = plane.Resume(now, p)
		} else {
			if at[of.port] == len(b.sent[of.port]) {
				b.t.Fatalf("the switch got more than %d packets at port %d", at[of.port], of.port)
			}
			s := b.sent[of.port][at[of.port]]
			at[of.port]++
			about[of.packet] = s.request.Lock
			switch {
			case s.other != nil:
				want[of.port] = append(want[of.port], fmt.Sprintf("%x", s.other))
			case s.op == netlock.Acquire:
				list = plane.Acquire(now, s.request)
			default:
				list = plane.Release(now, s.request)
			}
		}
		last = of.packet
		var ports []uint16
		said := p4Outputs(list, func(o *lock.Output) {
			if o.Kind == lock.Grant && of.first {
				granted[o.Request.Lock] = i
			}
			b.totals[o.Kind.String()]++
			switch o.Kind {
			case lock.Recirculate:
				passes[of.packet], started[of.packet] = o.Pass, i
			case lock.Grant:
				ports = append(ports, uint16(o.Request.Client.Host))
			default:
				ports = append(ports, p4Server)
			}
		})
		for j, port := range ports {
			want[port] = append(want[port], said[j])
		}
	}
	for port, list := range b.sent {
		if at[port] != len(list) {
			b.t.Errorf("the switch processed %d of %d packets from port %d", at[port], len(list), port)
		}
	}
	for _, port := range slices.Sorted(maps.Keys(want)) {
		got, want := b.left[port], want[port]
		for i := range max(len(got), len(want)) {
			if i >= len(got) || i >= len(want) || got[i] != want[i] {
				b.t.Errorf("port %d, packet %d of %d: the program and the mechanism send\n%q\n%q", port, i, len(want),
					got[min(i, len(got)):min(i+3, len(got))], want[min(i, len(want)):min(i+3, len(want))])
				break
			}
		}
	}
	for _, kind := range []string{"grant", "forward-owned", "forward-buffer", "recirculate",
		"passes after those of other packets"} {
		if b.totals[kind] < 10 {
			b.t.Errorf("%d times %s: too few to compare", b.totals[kind], kind)
		}
	}
}

const otherPort = 9

// otherFrame is one of UDP that is not of the lock manager, from a host to itself.
func otherFrame(host, number uint32) []byte {
	f := p4Frame(netlock.Acquire, &lock.Request{Transaction: number, Client: lock.Client{Host: host}})
	copy(f[30:34], f[26:30])
	binary.BigEndian.PutUint16(f[36:], otherPort)
	return f
}

// headerSum is the ones' complement sum of a header of IPv4: 0xffff if its checksum is right.
func headerSum(b []byte) uint16 {
	sum := uint32(0)
	for i := 0; i < len(b); i += 2 {
		sum += uint32(binary.BigEndian.Uint16(b[i:]))
	}
	return uint16(sum + sum>>16)
}
