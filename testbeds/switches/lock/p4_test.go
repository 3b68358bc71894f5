package lock_test

import (
	"encoding/binary"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/fstest"

	"candela.dev/candela/clock"
	"candela.dev/candela/injector/datapathtest/tna"
	"candela.dev/candela/packet/netlock"
	"candela.dev/candela/testbeds/switches/lock"
)

const p4Program = "lock_v1model.p4"

// p4Switch is the P4 program in a model of the language and of bmv2, with two locks of 8 slots each, hosts at the ports
// of their numbers, and a server at port 100.
type p4Switch struct {
	*tna.BMv2
	sent []string
}

const p4Server = 100

func newP4Switch(t *testing.T, macro string) *p4Switch {
	t.Helper()
	sw, err := tna.NewProgram(fstest.MapFS{p4Program: {Data: []byte(p4WithEntries(t, 2))}}, p4Program, macro)
	if err != nil {
		t.Fatal(err)
	}
	if err := sw.SetCloneSession(1, []uint16{510}); err != nil {
		t.Fatal(err)
	}
	return &p4Switch{BMv2: sw}
}

// p4WithEntries returns the program with the entries of its tables: so many locks of 8 slots each.
func p4WithEntries(t *testing.T, locks int) string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join("p4", p4Program))
	if err != nil {
		t.Fatal(err)
	}
	var installed, routes strings.Builder
	for l := range locks {
		fmt.Fprintf(&installed, "%d: install(%d, %d, 7); ", l+1, l, 8*l)
	}
	for h := range 16 {
		fmt.Fprintf(&routes, "%d: forward(%d); ", p4Address(uint32(h)), h)
	}
	fmt.Fprintf(&routes, "%d: forward(%d); ", p4Address(p4Server), p4Server)
	return strings.NewReplacer(
		"NoAction();\n", "NoAction();\nconst entries = { "+installed.String()+"}\n",
		"default_action = discard();\n", "default_action = discard();\nconst entries = { "+routes.String()+"}\n").
		Replace(string(text))
}

func p4Address(host uint32) uint32 { return 10<<24 + host + 1 }

// leave notes what a frame is.
func (s *p4Switch) leave(port uint16, frame []byte) { s.sent = append(s.sent, p4Left(port, frame)) }

// p4Left says what a frame of the lock manager is that left at a port, by the offsets of Ethernet, IPv4 and UDP.
func p4Left(port uint16, frame []byte) string {
	const udp, header = 34, 42
	b := frame[header:]
	what, to := "forward", binary.BigEndian.Uint16(frame[udp+2:])
	switch {
	case to == netlock.ReplyPort:
		what = "grant"
	case len(b) > netlock.Size:
		what = map[byte]string{1: "forward-owned", 2: "forward-buffer"}[b[netlock.Size]]
	}
	client := uint32(port)
	if what != "grant" {
		client = binary.BigEndian.Uint32(frame[26:]) - p4Address(0)
	} else if binary.BigEndian.Uint32(frame[30:]) != p4Address(client) {
		what = "grant to another address than the port's"
	}
	return p4Text(what, client, b[3], binary.BigEndian.Uint32(b[4:]), binary.BigEndian.Uint32(b[8:]), b[2])
}

// p4Outputs says what the mechanism sends, as p4Left does, and calls each with what it makes.
func p4Outputs(list []lock.Output, each func(o *lock.Output)) (said []string) {
	for i := range list {
		switch o := &list[i]; o.Kind {
		case lock.Grant, lock.ForwardOwned, lock.ForwardBuffer:
			r := &o.Request
			said = append(said, p4Text(o.Kind.String(), r.Client.Host, r.Client.Thread, r.Transaction, r.Lock, byte(r.Mode)))
			each(o)
		case lock.Recirculate:
			each(o)
		default: // what the program has not, or sends nothing
		}
	}
	return said
}

func p4Text(what string, host uint32, thread uint8, transaction, lock uint32, mode byte) string {
	return fmt.Sprintf("%s of lock %d to host %d thread %d transaction %d mode %d", what, lock, host, thread, transaction,
		mode)
}

func (s *p4Switch) request(t *testing.T, op netlock.Op, r *lock.Request) []string {
	t.Helper()
	s.sent = nil
	if err := s.Process(uint16(r.Client.Host), p4Frame(op, r), s.leave); err != nil {
		t.Fatal(err)
	}
	return s.sent
}

// p4Frame returns a frame of a client. Its checksum of IPv4 is left out, which the program does not check.
func p4Frame(op netlock.Op, r *lock.Request) []byte {
	h := netlock.Header{Op: op, Mode: r.Mode, Client: r.Client.Thread, Transaction: r.Transaction, Lock: r.Lock}
	frame := make([]byte, 42)
	frame[12] = 8
	frame[14], frame[22], frame[23] = 0x45, 64, 17
	binary.BigEndian.PutUint16(frame[16:], 28+netlock.Size)
	binary.BigEndian.PutUint32(frame[26:], p4Address(r.Client.Host))
	binary.BigEndian.PutUint32(frame[30:], p4Address(p4Server))
	binary.BigEndian.PutUint16(frame[34:], 0xc000)
	binary.BigEndian.PutUint16(frame[36:], netlock.Port)
	binary.BigEndian.PutUint16(frame[38:], 8+netlock.Size)
	return h.AppendTo(frame)
}

// The P4 program grants and forwards what the mechanism of the testbeds does, packet by packet, with passes that other
// packets come between.
func TestTheP4ProgramDecidesAsTheMechanismDoes(t *testing.T) {
	for macro, processing := range map[string]lock.Processing{"LISTING": lock.Listing, "CHAINLOCK": lock.ChainLock} {
		t.Run(processing.String(), func(t *testing.T) {
			const runs, steps = 60, 250
			totals := map[string]int{}
			for run := range uint64(runs) {
				rng := rand.New(rand.NewPCG(run, 1))
				sw, plane := newP4Switch(t, macro), lock.New(lock.Config{Processing: processing})
				for id := range uint32(2) {
					if err := plane.Install(id+1, 8); err != nil {
						t.Fatal(err)
					}
				}
				var passes []lock.Pass
				var holders []lock.Request // granted, not released
				shared := rng.Float64()
				outstanding := 4 + int(run%8)
				waiting := 0
				var said []string // of the mechanism
				take := func(list []lock.Output) {
					said = p4Outputs(list, func(o *lock.Output) {
						totals[o.Kind.String()]++
						switch o.Kind {
						case lock.Grant:
							holders = append(holders, o.Request)
						case lock.Recirculate:
							passes = append(passes, o.Pass)
						default:
						}
					})
				}
				for step := range steps {
					now := clock.Time(step)
					var got []string
					var what string
					switch n := rng.IntN(3); {
					case n == 0 && len(passes) > 0:
						what = "a pass"
						p := passes[0]
						passes = passes[1:]
						take(plane.Resume(now, p))
						sw.sent = nil
						if more, err := sw.Recirculate(sw.leave); err != nil || !more {
							t.Fatalf("run %d, step %d: the program recirculates nothing, %v", run, step, err)
						}
						got = sw.sent
					case n == 1 && len(holders) > 0:
						i := rng.IntN(len(holders))
						r := holders[i]
						holders = slices.Delete(holders, i, i+1)
						waiting--
						what = fmt.Sprintf("a release of %v", r)
						take(plane.Release(now, r))
						got = sw.request(t, netlock.Release, &r)
					case rng.IntN(12) == 0: // a release of nobody, which removes the oldest entry
						r := lock.Request{Lock: uint32(1 + rng.IntN(2)), Client: lock.Client{Host: 15}}
						what = fmt.Sprintf("a release of nobody for lock %d", r.Lock)
						take(plane.Release(now, r))
						got = sw.request(t, netlock.Release, &r)
					case waiting < outstanding:
						waiting++
						r := lock.Request{Lock: uint32(1 + rng.IntN(3)), Transaction: uint32(step + 1),
							Client: lock.Client{Host: uint32(rng.IntN(16)), Thread: uint8(rng.IntN(4))}}
						if r.Lock == 3 && rng.IntN(4) > 0 { // which is not installed
							r.Lock = 1
						}
						if rng.Float64() >= shared {
							r.Mode = netlock.Exclusive
						}
						what = fmt.Sprintf("a request %v", r)
						take(plane.Acquire(now, r))
						got = sw.request(t, netlock.Acquire, &r)
					}
					if !slices.Equal(got, said) && what != "" {
						t.Fatalf("run %d, step %d, %s: the program sends %q, the mechanism %q", run, step, what, got, said)
					}
				}
			}
			for _, kind := range []string{"grant", "forward-owned", "forward-buffer", "recirculate"} {
				if totals[kind] < 10 {
					t.Errorf("%d times %s: too few to compare", totals[kind], kind)
				}
			}
			t.Log(totals)
		})
	}
}

// A pass that comes late finds a head that was granted meanwhile: when it was due, a release of nobody had emptied the
// queue, and the next request was granted at once. The chain lock does not grant it again; the listing looks where the
// head was, and grants what is there.
func TestTheP4ProgramGrantsALateHeadOnce(t *testing.T) {
	for macro, processing := range map[string]lock.Processing{"LISTING": lock.Listing, "CHAINLOCK": lock.ChainLock} {
		for _, first := range []netlock.Mode{netlock.Shared, netlock.Exclusive} {
			sw, plane := newP4Switch(t, macro), lock.New(lock.Config{Processing: processing})
			if err := plane.Install(1, 8); err != nil {
				t.Fatal(err)
			}
			var passes []lock.Pass
			take := func(list []lock.Output) []string {
				return p4Outputs(list, func(o *lock.Output) {
					if o.Kind == lock.Recirculate {
						passes = append(passes, o.Pass)
					}
				})
			}
			of := func(transaction uint32, mode netlock.Mode) lock.Request {
				return lock.Request{Lock: 1, Transaction: transaction, Mode: mode, Client: lock.Client{Host: transaction}}
			}
			holder, next, last := of(1, first), of(2, netlock.Exclusive), of(3, netlock.Exclusive)
			grant := func(r *lock.Request) []string {
				return []string{p4Text("grant", r.Client.Host, r.Client.Thread, r.Transaction, r.Lock, byte(r.Mode))}
			}
			for i, c := range []struct {
				op   netlock.Op
				of   lock.Request
				want []string
			}{
				{netlock.Acquire, holder, grant(&holder)},
				{netlock.Acquire, next, nil},
				{netlock.Release, holder, nil}, // a pass begins
				{netlock.Release, next, nil},   // which nobody has granted
				{netlock.Acquire, last, grant(&last)},
			} {
				said := plane.Acquire
				if c.op == netlock.Release {
					said = plane.Release
				}
				if got, said := sw.request(t, c.op, &c.of), take(said(clock.Time(i), c.of)); !slices.Equal(got, c.want) ||
					!slices.Equal(said, c.want) {
					t.Fatalf("%v, packet %d: the program sends %q, the mechanism %q, want %q", processing, i, got, said, c.want)
				}
			}
			if len(passes) != 1 {
				t.Fatalf("%v: %d passes are under way, want 1", processing, len(passes))
			}
			said := take(plane.Resume(9, passes[0]))
			sw.sent = nil
			if more, err := sw.Recirculate(sw.leave); err != nil || !more {
				t.Fatalf("the program recirculates nothing, %v", err)
			}
			if !slices.Equal(sw.sent, said) || processing == lock.ChainLock && len(said) > 0 {
				t.Errorf("%v, the pass: the program sends %q, the mechanism %q", processing, sw.sent, said)
			}
		}
	}
}

// The program compiles where p4c is.
func TestTheP4ProgramCompiles(t *testing.T) {
	compiler, err := exec.LookPath("p4c-bm2-ss")
	if err != nil {
		t.Skip("SKIP: p4c-bm2-ss is not on the PATH")
	}
	for _, macro := range []string{"LISTING", "CHAINLOCK"} {
		object := filepath.Join(t.TempDir(), "lock.json")
		out, err := exec.CommandContext(t.Context(), compiler, "-D"+macro, "-o", object,
			filepath.Join("p4", p4Program)).CombinedOutput()
		if err != nil {
			t.Errorf("%s: %v\n%s", macro, err, out)
		}
	}
}
