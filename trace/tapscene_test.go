package trace

import (
	"bytes"
	"cmp"
	"fmt"
	"math/rand/v2"
	"net/netip"
	"slices"
	"strings"
	"testing"

	"candela.dev/candela/packet"
)

// A scene is a conversation of two hosts whose frames are known at both ends of the path, so that what two captures
// show can be compared with the truth. Requests go from 10.0.0.1 to 10.0.0.2; every second one asks for an ACK.
type scene struct {
	frames []sceneFrame
}

type sceneFrame struct {
	data     []byte // as sent
	arrived  []byte // as received; nil: lost on the way
	sentNS   int64  // true time at its sender's end
	passedNS int64  // at its receiver's
	request  bool   // or what 10.0.0.1 sends, if both send requests
	what     string
}

// A path is what happens between the two ends.
type path struct {
	hops      int // that a TTL loses
	mark      func(i int) bool
	lose      func(i int) bool // of the requests, by number; the sender repeats them
	loseACKs  func(i int) bool
	requests  int
	firstPSN  int
	noID      bool // all frames have the IPv4 identification 0
	oneWayNS  int64
	gapNS     int64 // between requests
	rng       *rand.Rand
	quietACKs bool // no ACKs at all
	reversed  bool // requests go from 10.0.0.2 to 10.0.0.1
}

func (p path) play() *scene {
	s := &scene{}
	id := uint16(100)
	send := func(at int64, request bool, pkt *packet.Packet, lost, marked bool) {
		if p.reversed {
			request, pkt.IP.Src, pkt.IP.Dst, pkt.BTH.DestQP = !request, pkt.IP.Dst, pkt.IP.Src, 44-pkt.BTH.DestQP // 17 and 27
		}
		if id++; !p.noID {
			pkt.IP.ID = id
		}
		f := sceneFrame{data: pkt.AppendTo(nil), sentNS: at, request: request, passedNS: at + p.oneWayNS + p.rng.Int64N(2000)}
		if n := len(s.frames); n > 0 { // both directions are FIFO
			for _, before := range s.frames {
				if before.request == request {
					f.passedNS = max(f.passedNS, before.passedNS+10)
				}
			}
		}
		f.what = fmt.Sprintf("%v %d", pkt.BTH.Opcode, pkt.BTH.PSN)
		if !lost {
			f.arrived = bytes.Clone(f.data)
			if marked {
				setCE(f.arrived[packet.EthernetLen:])
			}
			setTTL(f.arrived[packet.EthernetLen:], 64-uint8(p.hops))
		}
		s.frames = append(s.frames, f)
	}
	at := int64(1_700_000_000e9)
	for i := range p.requests {
		at += p.gapNS + p.rng.Int64N(5000)
		for try := 0; ; try++ {
			pkt := testPacket(packet.WriteOnly, 17, packet.PSN(p.firstPSN+i), 64)
			pkt.BTH.AckReq = i%2 == 1
			pkt.IP.TOS = uint8(packet.ECT0)
			lost := try == 0 && p.lose != nil && p.lose(i)
			send(at, true, pkt, lost, p.mark != nil && p.mark(i))
			if !lost {
				break
			}
			at += 300_000
		}
		if i%2 == 1 && !p.quietACKs {
			ack := testPacket(packet.Acknowledge, 27, packet.PSN(p.firstPSN+i), 0)
			ack.IP.Src, ack.IP.Dst = ack.IP.Dst, ack.IP.Src
			ack.AETH.MSN = uint32(i)
			send(s.frames[len(s.frames)-1].passedNS+3000, false, ack, p.loseACKs != nil && p.loseACKs(i), false)
			at = s.frames[len(s.frames)-1].passedNS + 1000
		}
	}
	return s
}

// end is a place at which a capture is taken: on the sender's or the receiver's side, for requests and for answers.
type end struct {
	requestsSent, answersSent bool // it sees them at their sender's end
	clock                     func(t int64) int64
	misses                    func(i int) bool
}

// capture writes what is seen there, by its clock. numbers are the frames of the scene.
func (s *scene) capture(t testing.TB, name string, e end) (src Source, numbers []int) {
	type seen struct {
		at   int64
		data []byte
		i    int
	}
	var list []seen
	for i, f := range s.frames {
		x := seen{f.sentNS, f.data, i}
		if f.request != e.requestsSent && f.request || !f.request && !e.answersSent {
			x.at, x.data = f.passedNS, f.arrived
		}
		if x.data == nil || e.misses != nil && e.misses(i) {
			continue
		}
		list = append(list, x)
	}
	slices.SortStableFunc(list, func(a, b seen) int { return cmp.Compare(a.at, b.at) })
	var frames []written
	for _, x := range list {
		at := x.at
		if e.clock != nil {
			at = e.clock(at)
		}
		frames = append(frames, written{at, x.data, len(x.data)})
		numbers = append(numbers, x.i)
	}
	return memorySource(name, pcapOf(t, frames)), numbers
}

// Where two captures may be taken.
var (
	atA = end{requestsSent: true}
	atB = end{answersSent: true}
	// upside and after see each direction at its sender's and at its receiver's end, like the mirror of a switch.
	upside = end{requestsSent: true, answersSent: true}
	after  = end{}
)

func drifting(offset int64, ppm float64) func(int64) int64 {
	return func(t int64) int64 { return t + offset + int64(float64(t-1_700_000_000e9)*ppm*1e-6) }
}

// TestTwoCapturesAreHeldAgainstTheTruth takes captures at every pair of places, with every kind of evidence of the
// order, and clocks that differ.
func TestTwoCapturesAreHeldAgainstTheTruth(t *testing.T) {
	every := func(n int) func(int) bool { return func(i int) bool { return i%n == 1 } }
	paths := []struct {
		name   string
		path   path
		reason string // of the direction of requests
	}{
		{"a router", path{hops: 2}, "the TTL decreases"},
		{"a router that marks", path{hops: 1, mark: every(7)}, "the TTL decreases"},
		{"marks", path{mark: every(7)}, "CE marks appear"},
		{"losses, repaired", path{lose: every(9)}, "lost packets were retransmitted"},
	}
	places := []struct {
		name          string
		first, second end
		upstream      [2]bool // the first capture, of requests and of answers
	}{
		{"before and after", upside, after, [2]bool{true, true}},
		{"after and before", after, upside, [2]bool{false, false}},
		{"at the hosts", atA, atB, [2]bool{true, false}},
		{"at the hosts, the responder's first", atB, atA, [2]bool{false, true}},
	}
	clocks := []struct {
		offset int64
		ppm    float64
	}{{0, 0}, {1e9, 80}, {-1e9, -80}, {-100_000, 0}}
	for _, p := range paths {
		for _, pl := range places {
			for n, c := range clocks {
				t.Run(fmt.Sprintf("%s, %s, clock %d", p.name, pl.name, n), func(t *testing.T) {
					path := p.path
					path.requests, path.oneWayNS, path.gapNS, path.rng = 120, 5000, 20_000_000, rand.New(rand.NewPCG(uint64(n), 7))
					s := path.play()
					second := pl.second
					second.clock = drifting(c.offset, c.ppm)
					src1, numbers := s.capture(t, "first.pcap", pl.first)
					src2, _ := s.capture(t, "second.pcap", second)
					checked, report, err := CheckPair(t.Context(), src1, src2, Options{})
					if err != nil {
						t.Fatal(err)
					}
					s.judge(t, report, numbers, pl.upstream, p.reason)
					s.judgeClock(t, checked, report, pl.upstream, second.clock, c.ppm)
				})
			}
		}
	}
}

// judge compares what a report says of places and frames.
func (s *scene) judge(t *testing.T, report *PairReport, numbers []int, upstream [2]bool, reason string) {
	t.Helper()
	if len(report.Ways) != 2 {
		t.Fatalf("ways %+v", report.Ways)
	}
	for _, w := range report.Ways {
		request := w.Source == netip.MustParseAddr("10.0.0.1")
		want := upstream[bit(!request)]
		if w.FirstUpstream != want || request && w.Reason != reason {
			t.Errorf("%v: want first upstream %t because %s", w.String(), want, reason)
		}
	}
	sent, lost, marked, passed := 0, 0, 0, 0
	numberOf := map[int]uint64{}
	for frame, i := range numbers {
		numberOf[i] = uint64(frame + 1)
	}
	events := map[string]int{}
	for _, e := range report.Events {
		events[fmt.Sprintf("%d %s", e.Frame, e.Event)]++
	}
	for i, f := range s.frames {
		sent++
		event := ""
		switch {
		case f.arrived == nil:
			lost++
			event = "drop"
		case f.arrived[packet.EthernetLen+1]&3 == uint8(packet.CE):
			marked++
			passed++
			event = "ecn"
		default:
			passed++
		}
		if id := numberOf[i]; event != "" && id != 0 && events[fmt.Sprintf("%d %s", id, event)] != 1 {
			t.Errorf("frame %d (%s): no event %s among %v", id, f.what, event, events)
		}
	}
	if report.Sent != int64(sent) || report.Passed != int64(passed) || report.Dropped != int64(lost) ||
		report.Marked != int64(marked) ||
		report.Missed+report.Corrupted+report.Trimmed+report.Reordered != 0 || len(report.Events) != lost+marked {
		t.Errorf("want %d sent, %d passed, %d lost, %d marked: %+v", sent, passed, lost, marked, report)
	}
}

// judgeClock compares records with the true times. The first capture's clock is true.
func (s *scene) judgeClock(t *testing.T, checked *Checked, report *PairReport, upstream [2]bool,
	clock func(int64) int64, ppm float64) {
	t.Helper()
	c := report.Clock
	if c.UncertaintyNS < 0 || c.UncertaintyNS > 60_000 || c.Discarded != 0 || c.Matched < 100 || c.SameClock {
		t.Errorf("clock %+v", c)
	}
	if meta := checked.Meta(); !slices.Contains(meta.Notes, c.String()) ||
		(upstream[0] == upstream[1]) != (meta.ClockUncertaintyNS == c.UncertaintyNS && c.UncertaintyNS > 0) {
		t.Errorf("meta %+v", meta)
	}
	for _, f := range []sceneFrame{s.frames[0], s.frames[len(s.frames)/2], s.frames[len(s.frames)-1]} {
		stamped := clock(f.sentNS)
		correction := c.OffsetNS + int64(float64(c.DriftPPB)*float64(stamped-c.ReferenceNS)/1e9)
		if off := stamped + correction - f.sentNS; off > c.UncertaintyNS+5000 || -off > c.UncertaintyNS+5000 {
			t.Errorf("a frame of %d is taken to be of %d: off by %d, uncertainty %d", f.sentNS, stamped+correction, off,
				c.UncertaintyNS)
		}
	}
	if s.frames[len(s.frames)-1].sentNS-s.frames[0].sentNS < 1e9 {
		return
	}
	if drift := float64(c.DriftPPB) / 1000; ppm == 0 && drift != 0 || ppm != 0 && (drift+ppm > 16 || drift+ppm < -16) {
		t.Errorf("drift %f ppm, want %f", drift, -ppm)
	}
}

// TestTapsThatMissFramesAreDistinguishedFromLosses has each tap of a router miss some.
func TestTapsThatMissFramesAreDistinguishedFromLosses(t *testing.T) {
	for _, tc := range []struct {
		name          string
		first, second func(i int) bool
		missed        bool // packets that only the downstream capture has
		complete      bool
	}{
		{"neither", nil, nil, false, true},
		{"upstream", func(i int) bool { return i%11 == 5 }, nil, true, false},
		{"downstream", nil, func(i int) bool { return i%11 == 5 }, false, false},
		{"both", func(i int) bool { return i%11 == 5 }, func(i int) bool { return i%13 == 5 }, true, false},
	} {
		t.Run(tc.name, func(t *testing.T) {
			s := path{hops: 1, requests: 150, oneWayNS: 5000, gapNS: 20_000, rng: rand.New(rand.NewPCG(3, 3))}.play()
			first, second := upside, after
			first.misses, second.misses = tc.first, tc.second
			src1, seen1 := s.capture(t, "first.pcap", first)
			src2, seen2 := s.capture(t, "second.pcap", second)
			checked, report, err := CheckPair(t.Context(), src1, src2, Options{})
			if err != nil {
				t.Fatal(err)
			}
			only1, only2 := 0, 0
			for i := range s.frames {
				a, b := slices.Contains(seen1, i), slices.Contains(seen2, i)
				if a && !b {
					only1++
				}
				if b && !a {
					only2++
				}
			}
			if report.Missed != int64(only2) || report.Dropped != int64(only1) || (report.Missed > 0) != tc.missed {
				t.Errorf("want %d missed and %d dropped: %+v", only2, only1, report)
			}
			if got := checked.Meta().Complete; got != tc.complete {
				t.Errorf("complete %t", got)
			}
			if note := strings.Join(checked.Meta().Notes, "\n"); strings.Contains(note,
				"only in the downstream capture") != tc.missed {
				t.Errorf("notes %s", note)
			}
			last, sent := int64(0), map[uint64]bool{}
			err = checked.ForEach(t.Context(), func(r *Record) error {
				if r.TimeNS < last {
					t.Errorf("record %d goes back in time", r.ID)
				}
				last = r.TimeNS
				if r.Has(Sent) {
					sent[r.ID] = true
				} else if !sent[r.ID] {
					t.Errorf("record %d passed and was not sent", r.ID)
				}
				return nil
			})
			if err != nil {
				t.Fatal(err)
			}
			for _, o := range []Options{{Complete: true}, {SameClock: true, Placement: PlacementBracket}} {
				checked, report, err := CheckPair(t.Context(), src1, src2, o)
				if err != nil || checked.Meta().Complete != (o.Complete || tc.complete) || report.Clock.SameClock != o.SameClock {
					t.Errorf("%+v: %v", o, err)
				}
			}
		})
	}
}

// TestPlacesThatNothingShowsAndPlacesThatAreGiven has a path that changes nothing.
func TestPlacesThatNothingShowsAndPlacesThatAreGiven(t *testing.T) {
	s := path{requests: 100, oneWayNS: 5000, gapNS: 20_000, rng: rand.New(rand.NewPCG(4, 4))}.play()
	take := func(a, b end) (Source, Source) {
		first, _ := s.capture(t, "first.pcap", a)
		second, _ := s.capture(t, "second.pcap", b)
		return first, second
	}
	const granted = "taken for granted: nothing in the packets shows it"
	const own = "packets of each host are seen earlier at a capture of its own"
	shifted := atB
	shifted.clock = drifting(3e8, 20)
	for _, tc := range []struct {
		name     string
		a, b     end
		o        Options
		upstream [2]bool
		reason   string
	}{
		{"before and after", upside, after, Options{}, [2]bool{true, true}, granted},
		{"the same place", upside, upside, Options{}, [2]bool{true, true}, granted},
		{"at the hosts", atA, atB, Options{}, [2]bool{true, false}, own},
		{"at the hosts, with a shifted clock", atA, shifted, Options{}, [2]bool{true, false}, own},
		{"at the hosts, the responder's first", atB, atA, Options{}, [2]bool{false, true}, own},
		{"given as before and after", upside, after, Options{Placement: PlacementBracket}, [2]bool{true, true}, "as given"},
		{"given as at the hosts", atA, atB, Options{Placement: PlacementHosts}, [2]bool{true, false}, "as given"},
		{"in order", upside, after, Options{Ordered: true}, [2]bool{true, true}, granted},
		{"in order, at the hosts", atA, atB, Options{Ordered: true}, [2]bool{true, false}, own},
	} {
		first, second := take(tc.a, tc.b)
		_, report, err := CheckPair(t.Context(), first, second, tc.o)
		if err != nil {
			t.Errorf("%s: %v", tc.name, err)
			continue
		}
		for _, w := range report.Ways {
			if want := tc.upstream[bit(w.Source != netip.MustParseAddr("10.0.0.1"))]; w.FirstUpstream != want ||
				w.Reason != tc.reason {
				t.Errorf("%s: %v, want first upstream %t because %s", tc.name, w.String(), want, tc.reason)
			}
		}
	}
	routed := path{hops: 1, requests: 100, oneWayNS: 5000, gapNS: 20_000, rng: rand.New(rand.NewPCG(4, 4))}.play()
	first, _ := routed.capture(t, "first.pcap", after)
	second, _ := routed.capture(t, "second.pcap", upside)
	_, _, err := CheckPair(t.Context(), first, second, Options{Ordered: true})
	const want = "second.pcap was taken upstream of first.pcap: the TTL decreases"
	if err == nil || !strings.Contains(err.Error(), want) ||
		!strings.Contains(err.Error(), "name them the other way round") {
		t.Errorf("captures in the wrong order: %v, want %q", err, want)
	}
	other := path{requests: 100, firstPSN: 77_000, oneWayNS: 5000, gapNS: 20_000, rng: rand.New(rand.NewPCG(5, 4))}.play()
	strange, _ := other.capture(t, "second.pcap", after)
	if _, _, err := CheckPair(t.Context(), first, strange, Options{}); err == nil ||
		!strings.Contains(err.Error(), "packets are in both captures") {
		t.Errorf("captures of other traffic: %v", err)
	}
	for _, empty := range []Source{memorySource("empty.pcap", pcapOf(t, nil))} {
		if _, _, err := CheckPair(t.Context(), first, empty, Options{}); err == nil ||
			!strings.Contains(err.Error(), "empty.pcap") {
			t.Errorf("empty capture: %v", err)
		}
	}
	back := atB
	back.clock = func(t int64) int64 { return 3_400_000_000e9 - t } // answers before what they answer, in any order
	reversed, _ := s.capture(t, "second.pcap", back)
	if _, _, err := CheckPair(t.Context(), first, reversed, Options{}); err == nil {
		t.Error("a clock that runs backwards is believed")
	}
}

// TestNamedHostsMayBeExchangedIfBothSendRequests names the captures of two hosts as the requester's and the
// responder's.
func TestNamedHostsMayBeExchangedIfBothSendRequests(t *testing.T) {
	there := path{requests: 60, oneWayNS: 5000, gapNS: 20_000, rng: rand.New(rand.NewPCG(6, 4))}
	back := path{requests: 60, firstPSN: 77_000, oneWayNS: 5000, gapNS: 20_000, rng: rand.New(rand.NewPCG(7, 4)),
		reversed: true}
	oneWay, both := there.play(), there.play()
	for _, f := range back.play().frames {
		f.sentNS, f.passedNS = f.sentNS+9000, f.passedNS+9000 // the first request is that of 10.0.0.1 at either host
		both.frames = append(both.frames, f)
	}
	for _, tc := range []struct {
		name          string
		scene         *scene
		first, second end // named as the requester's and the responder's
		want          string
	}{
		{"one host requests, named rightly", oneWay, atA, atB, ""},
		{"one host requests, named the other way round", oneWay, atB, atA,
			"no clock offset explains the order of the frames"},
		{"both request", both, atA, atB, ""},
		{"both request, the other way round", both, atB, atA, ""},
	} {
		t.Run(tc.name, func(t *testing.T) {
			tc.second.clock = drifting(3e8, 20)
			first, _ := tc.scene.capture(t, "first.pcap", tc.first)
			second, _ := tc.scene.capture(t, "second.pcap", tc.second)
			_, report, err := CheckPair(t.Context(), first, second, Options{Placement: PlacementHosts})
			if tc.want != "" {
				if err == nil || !strings.Contains(err.Error(), tc.want) {
					t.Fatalf("%v, want %q", err, tc.want)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			for _, w := range report.Ways {
				if want := (w.Source == netip.MustParseAddr("10.0.0.1")) == tc.first.requestsSent; w.FirstUpstream != want {
					t.Errorf("%v, want first upstream %t", w.String(), want)
				}
			}
		})
	}
}
