package trace

import (
	"bytes"
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"candela.dev/candela/packet"
)

// copyOf is a mirror copy as a test describes it.
type copyOf struct {
	seq   uint64
	ns    int64
	event EventType
	p     *packet.Packet
}

// mirrorFile writes copies as a mirror trace.
func mirrorFile(tb testing.TB, copies []copyOf) []byte {
	tb.Helper()
	var b bytes.Buffer
	w := NewPcapWriter(&b, "mirror.pcap", 0)
	for _, c := range copies {
		p := c.p
		if p == nil {
			p = testPacket(packet.WriteMiddle, 17, packet.PSN(c.seq&maxUint24), 64)
		}
		frame := p.AppendTo(nil)
		if err := EncodeMirror(frame, MirrorMeta{Event: c.event, Seq: c.seq, TimeNS: c.ns,
			UDPDstPort: packet.Port}); err != nil {
			tb.Fatal(err)
		}
		if err := w.Write(1e18+c.ns&stampMask, frame, len(frame)); err != nil {
			tb.Fatal(err)
		}
	}
	if err := w.Flush(); err != nil {
		tb.Fatal(err)
	}
	return b.Bytes()
}

// counted returns n copies from the given start, 100 ns apart.
func counted(n int, seq uint64, ns int64) []copyOf {
	out := make([]copyOf, n)
	for i := range out {
		out[i] = copyOf{seq: (seq + uint64(i)) & stampMask, ns: ns + 100*int64(i)}
	}
	return out
}

func checkMirror(tb testing.TB, copies []copyOf, counters Counters) (*Checked, *IntegrityReport, error) {
	tb.Helper()
	return Check(context.Background(), memorySource("mirror.pcap", mirrorFile(tb, copies)),
		Options{Format: FormatMirror, Counters: counters})
}

func TestIntegrityConditions(t *testing.T) {
	without := func(in []copyOf, from, to int) []copyOf { return append(append([]copyOf{}, in[:from]...), in[to:]...) }
	count := func(n int64) []Counter { return []Counter{{"port 1", n - 3}, {"port 2", 3}} }
	swapped := counted(100, 1, 0)
	swapped[50], swapped[51] = swapped[51], swapped[50]
	back := counted(100, 1, 0)
	back[40].ns -= 250
	for _, tc := range []struct {
		name     string
		copies   []copyOf
		counters Counters
		violated string   // names of violated conditions
		says     []string // in the error
	}{
		{"consecutive from any start", counted(100, 777, 0), Counters{}, "", nil},
		{"sequence and stamp wrap", counted(100, stampMask-50, stampMask-2500), Counters{}, "", nil},
		{"counters agree", counted(100, 1, 0), Counters{count(100), count(100)}, "", nil},
		{"one of ten thousand is missing", without(counted(10_000, 1, 0), 6_000, 6_001), Counters{}, "sequence",
			[]string{"1 mirror copies are missing: #6001"}},
		{"several ranges are missing", without(without(counted(100, 1, 0), 60, 65), 10, 11), Counters{}, "sequence",
			[]string{"6 mirror copies are missing: #11, #61-#65"}},
		{"a copy arrives twice", append(counted(10, 1, 0), counted(1, 10, 900)...), Counters{}, "sequence",
			[]string{"1 duplicates, the first is #10 in frame 11"}},
		{"two copies are exchanged", swapped, Counters{}, "sequence,time",
			[]string{"1 copies out of order, the first is #51 after #52 in frame 52"}},
		{"time goes back", back, Counters{}, "time",
			[]string{"time goes back 1 times, first by 150 ns at #41 (frame 41), from 3900 to 3750 ns"}},
		{"the last copy is missing", counted(99, 1, 0), Counters{count(100), count(100)}, "mirrored,roce-rx",
			[]string{"the trace has 99 packets, 1 fewer than the 100 mirrored by the switch (port 1: 97, port 2: 3)"}},
		{"the switch mirrored less than it received", counted(100, 1, 0), Counters{count(100), count(101)}, "roce-rx",
			[]string{"1 fewer than the 101 received"}},
		{"the trace has more than was mirrored", counted(100, 1, 0), Counters{count(98), nil}, "mirrored",
			[]string{"2 more than the 98 mirrored"}},
		{"nothing", nil, Counters{}, "sequence", []string{"the trace holds no RoCE packet"}},
		{"a TTL that is not an event", []copyOf{{seq: 1}, {seq: 2, event: 77}, {seq: 3}}, Counters{}, "sequence,decodable",
			[]string{fmt.Sprintf("frame 2: mirror 2: TTL 77 is not an event type (0 to %d)", MaxEventType)}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			checked, report, err := checkMirror(t, tc.copies, tc.counters)
			var violated []string
			for _, c := range report.Conditions {
				if c.Status == StatusViolated {
					violated = append(violated, c.Name)
				}
			}
			if got := strings.Join(violated, ","); got != tc.violated {
				t.Errorf("violated %q, want %q\n%v", got, tc.violated, err)
			}
			if tc.violated == "" {
				if err != nil || checked == nil || !report.Valid {
					t.Errorf("not valid: %v", err)
				}
				return
			}
			var ie *IntegrityError
			if !errors.As(err, &ie) || checked != nil || report.Valid {
				t.Fatalf("error %v, checked %v, valid %t", err, checked, report.Valid)
			}
			for _, s := range tc.says {
				if !strings.Contains(err.Error(), s) {
					t.Errorf("error lacks %q: %v", s, err)
				}
			}
		})
	}
}

func TestStampsOfSeveralQueuesMayDisagreeWithinABound(t *testing.T) {
	of := func(qpn packet.QPN, seq uint64, ns int64) copyOf {
		p := testPacket(packet.WriteMiddle, qpn, packet.PSN(seq), 64)
		return copyOf{seq: seq, ns: ns, p: p}
	}
	from := func(port uint16, c copyOf) copyOf {
		c.p.UDP.SrcPort = port
		return c
	}
	known, err := NewConnections([]Connection{
		{Index: 1, MTU: 256, Requester: Side{hostA, 11, 1}, Responder: Side{hostB, 1, 1}},
		{Index: 2, MTU: 256, Requester: Side{hostA, 12, 1}, Responder: Side{hostB, 2, 1}},
	})
	if err != nil {
		t.Fatal(err)
	}
	for _, tc := range []struct {
		name     string
		copies   []copyOf
		bound    int64
		violated bool
		disorder int64 // measured
	}{
		{"in order", []copyOf{of(1, 1, 100), of(2, 2, 200), of(1, 3, 300)}, 500, false, 0},
		{"another flow is earlier by less than the bound", []copyOf{of(1, 1, 1000), of(2, 2, 600), of(1, 3, 1100)}, 500, false,
			400},
		{"another flow is earlier by more", []copyOf{of(1, 1, 1000), of(2, 2, 499), of(1, 3, 1100)}, 500, true, 501},
		{"flows known by their headers are distinguished", []copyOf{of(1, 1, 100), of(2, 2, 200), of(1, 3, 1000), of(2, 4, 600)},
			500, false, 400},
		{"a flow's time goes back", []copyOf{of(1, 1, 1000), of(2, 2, 1100), of(1, 3, 999)}, 500, true, 101},
		{"a flow with two source ports is in two queues",
			[]copyOf{from(50000, of(1, 1, 1000)), from(50001, of(1, 2, 600)), from(50000, of(1, 3, 1001)),
				from(50001, of(1, 4, 601))}, 500, false, 400},
		{"the time of one of its source ports goes back",
			[]copyOf{from(50000, of(1, 1, 1000)), from(50001, of(1, 2, 900)), from(50001, of(1, 3, 899))}, 500, true, 101},
		{"one queue allows nothing", []copyOf{of(1, 1, 1000), of(2, 2, 999)}, 0, true, -1},
	} {
		t.Run(tc.name, func(t *testing.T) {
			source := memorySource("mirror.pcap", mirrorFile(t, tc.copies))
			for _, given := range []*Connections{nil, known} { // a run of an injector knows its connections
				_, report, err := Check(context.Background(), source,
					Options{Format: FormatMirror, Connections: given, TimeDisorderNS: tc.bound})
				c := report.Condition(ConditionTime)
				if (err != nil) != tc.violated || (c.Status == StatusViolated) != tc.violated {
					t.Errorf("connections given: %v: %v: %s", given != nil, err, c.Message)
				}
				got := int64(-1)
				if c.DisorderNS != nil {
					got = *c.DisorderNS
				}
				if got != tc.disorder {
					t.Errorf("connections given: %v: time-disorder-ns %d, want %d", given != nil, got, tc.disorder)
				}
			}
		})
	}
}

func TestAnyLossIsNamedExactly(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		n := rapid.IntRange(2, 200).Draw(t, "n")
		start := rapid.SampledFrom([]uint64{1, 0, stampMask - 60, 1 << 40}).Draw(t, "start")
		lost := make(map[uint64]bool)
		var c sequenceCheck
		frame := uint64(0)
		for i := range n {
			seq := (start + uint64(i)) & stampMask
			if i > 0 && i < n-1 && rapid.IntRange(0, 9).Draw(t, "lose") == 0 {
				lost[seq] = true
				continue
			}
			frame++
			c.add(seq, frame)
		}
		if c.missing != int64(len(lost)) || c.dups != 0 || c.disorder != 0 {
			t.Fatalf("%d missing, %d duplicates, %d out of order; want %d missing", c.missing, c.dups, c.disorder, len(lost))
		}
		named := make(map[uint64]bool)
		for _, h := range c.holes {
			for s := h.First; ; s = (s + 1) & stampMask {
				named[s] = true
				if s == h.Last {
					break
				}
			}
		}
		if diff := cmp.Diff(lost, named); diff != "" {
			t.Error(diff)
		}
	})
}

func TestShuffledCopiesAreOutOfOrderAndNotMissing(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		order := rapid.Permutation([]uint64{1, 2, 3, 4, 5, 6, 7, 8}).Draw(t, "order")
		var c sequenceCheck
		for i, seq := range order {
			c.add(seq, uint64(i+1))
		}
		if c.missing != 0 || c.dups != 0 || len(c.holes) != 0 {
			t.Errorf("order %v: %d missing, %d duplicates, holes %v", order, c.missing, c.dups, c.holes)
		}
	})
}

func TestSequenceCheckAgreesWithASet(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		start := rapid.SampledFrom([]uint64{100, stampMask - 10}).Draw(t, "start")
		c, seen, high := sequenceCheck{}, map[int]bool{}, 0
		dups := int64(0)
		low := 0
		for i, at := range rapid.SliceOfN(rapid.IntRange(-5, 40), 1, 60).Draw(t, "offsets") {
			if i == 0 {
				at = 0
			}
			c.add((start+uint64(at))&stampMask, uint64(i+1))
			if seen[at] && at >= 0 {
				dups++
			}
			seen[at] = true
			high, low = max(high, at), min(low, at)
		}
		missing := int64(0)
		for at := range high {
			if !seen[at] {
				missing++
			}
		}
		if c.missing != missing || c.dups != dups {
			t.Errorf("%d missing, %d duplicates; want %d, %d", c.missing, c.dups, missing, dups)
		}
	})
}

func TestTraceInCompleteDisorderKeepsMemoryBounded(t *testing.T) {
	var c sequenceCheck
	const n = 1 << 14
	for i := range uint64(n) { // all odd numbers, then all even ones
		c.add((2*i+2*i/n)%n+1, i+1)
	}
	if c.condition().Status != StatusViolated || !c.overflow || len(c.holes) > holeLimit {
		t.Errorf("overflow %t, %d holes, %+v", c.overflow, len(c.holes), c.condition())
	}
}

func TestIntegrityReportIsStable(t *testing.T) {
	copies := append(counted(3, 1, 0), counted(2, 6, 600)...)
	_, report, _ := checkMirror(t, copies, Counters{Mirrored: []Counter{{"session 1", 7}}})
	var b bytes.Buffer
	if err := report.Write(&b); err != nil {
		t.Fatal(err)
	}
	golden(t, "integrity.json", b.Bytes())
}

var update = flag.Bool("update", false, "rewrite golden files in testdata")

// golden compares got with a file in testdata; -update writes it.
func golden(t *testing.T, name string, got []byte) {
	t.Helper()
	path := "testdata/" + name
	if *update {
		if err := os.WriteFile(path, got, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(string(want), string(got)); diff != "" {
		t.Errorf("%s (-update rewrites it): %s", path, diff)
	}
}

func TestFormatsAreDetected(t *testing.T) {
	plain := func(ttl uint8, n int, hosts bool) []byte {
		var b bytes.Buffer
		w := NewPcapWriter(&b, "plain", 0)
		for i := range n {
			p := testPacket(packet.WriteMiddle, 17, packet.PSN(i), 64)
			p.IP.TTL = ttl
			if hosts && i%2 == 1 { // a ping-pong between neighbouring addresses, as in a virtual machine
				p.Eth.Src, p.Eth.Dst = p.Eth.Dst, p.Eth.Src
			}
			frame := p.AppendTo(nil)
			if err := w.Write(int64(i), frame, len(frame)); err != nil {
				t.Fatal(err)
			}
		}
		if err := w.Flush(); err != nil {
			t.Fatal(err)
		}
		return b.Bytes()
	}
	shuffled := counted(64, 1, 0)
	for i := range shuffled {
		j := (i * 37) % 64
		shuffled[i], shuffled[j] = shuffled[j], shuffled[i]
	}
	stamped := counted(64, 1, 0)
	for i := range stamped {
		stamped[i].ns = int64(stamped[i].seq)
	}
	every100th := counted(6400, 1, 0)
	for i := range 64 {
		every100th[i] = every100th[100*i]
	}
	for _, tc := range []struct {
		name string
		file []byte
		want Format
	}{
		{"a mirror trace", mirrorFile(t, counted(100, 1, 5_000_000)), FormatMirror},
		{"a mirror trace of one packet", mirrorFile(t, counted(1, 12345, 0)), FormatMirror},
		{"a mirror trace of two packets", mirrorFile(t, counted(2, 1, 0)), FormatMirror},
		{"a mirror trace across the wrap", mirrorFile(t, counted(100, stampMask-5, 0)), FormatMirror},
		{"a mirror trace in disorder", mirrorFile(t, shuffled), FormatMirror},
		{"a mirror trace whose stamps are its sequence numbers", mirrorFile(t, stamped), FormatMirror},
		{"the same, three packets", mirrorFile(t, stamped[:3]), FormatMirror},
		{"a shard of a hundred", mirrorFile(t, every100th[:64]), FormatMirror},
		{"one direction with TTL 64", plain(64, 100, false), FormatPlain},
		{"one direction with TTL 1, as Lumina's generator sends", plain(1, 100, false), FormatPlain},
		{"both directions with TTL 1 between neighbouring addresses", plain(1, 100, true), FormatPlain},
		{"two packets of that kind", plain(1, 2, true), FormatPlain},
		{"one packet with TTL 1", plain(1, 1, false), FormatPlain},
		{"no RoCE at all", plain(1, 0, false), FormatPlain},
	} {
		d, err := Detect(context.Background(), memorySource(tc.name, tc.file))
		if err != nil || d.Format != tc.want {
			t.Errorf("%s: %+v, %v", tc.name, d, err)
		}
	}
}

func TestTruncatedFiles(t *testing.T) {
	ctx := context.Background()
	mirror := mirrorFile(t, counted(10, 1, 0))
	checked, report, err := Check(ctx, memorySource("m.pcap", mirror[:len(mirror)-3]), Options{Format: FormatMirror})
	if !errors.Is(err, ErrTruncatedFile) || checked != nil || report.Packets != 9 || report.Valid {
		t.Errorf("mirror: %v, report %+v", err, report)
	}
	capture, err := os.ReadFile("../packet/testdata/rxe/clean-ib_write_bw.in.pcap")
	if err != nil {
		t.Fatal(err)
	}
	cut := memorySource("p.pcap", capture[:40_000])
	if _, _, err := Check(ctx, cut, Options{}); !errors.Is(err, ErrTruncatedFile) {
		t.Errorf("plain: %v", err)
	}
	checked, _, err = Check(ctx, cut, Options{KeepTruncated: true})
	if err != nil {
		t.Fatal(err)
	}
	n := int64(0)
	if err := checked.ForEach(ctx, func(*Record) error { n++; return nil }); err != nil || n == 0 ||
		n != checked.Meta().Packets {
		t.Errorf("%d records of %d, %v", n, checked.Meta().Packets, err)
	}
	if notes := fmt.Sprint(checked.Meta().Notes); !strings.Contains(notes, "file ends inside a record") {
		t.Errorf("notes %v", notes)
	}
}

func TestForEachStopsWithItsContextAndItsCaller(t *testing.T) {
	checked, _, err := checkMirror(t, counted(10_000, 1, 0), Counters{})
	if err != nil {
		t.Fatal(err)
	}
	stop := errors.New("enough")
	if err := checked.ForEach(context.Background(), func(*Record) error { return stop }); !errors.Is(err, stop) {
		t.Errorf("error %v", err)
	}
	ctx, cancel := context.WithCancelCause(context.Background())
	err = checked.ForEach(ctx, func(*Record) error { cancel(stop); return nil })
	if !errors.Is(err, stop) {
		t.Errorf("cancelled: %v", err)
	}
}

func TestICRCsThatNobodyComputedAreIgnored(t *testing.T) {
	connections := []*Connections{nil}
	c, err := NewConnections([]Connection{{Index: 1, MTU: 256, Requester: Side{hostA, 1, 1},
		Responder: Side{hostB, 17, 1}}})
	if err != nil {
		t.Fatal(err)
	}
	for _, given := range append(connections, c) {
		for _, good := range []int{-1, 7} {
			var frames []written
			for i := range 400 {
				frame := data(i).AppendTo(nil)
				if i != good {
					frame[len(frame)-1] ^= 0xff
				}
				frames = append(frames, written{int64(i), frame, len(frame)})
			}
			checked, _, err := Check(t.Context(), memorySource("x.pcap", pcapOf(t, frames)), Options{Connections: given})
			if err != nil {
				t.Fatal(err)
			}
			bad := 0
			err = checked.ForEach(t.Context(), func(r *Record) error {
				if r.ICRC == packet.ICRCInvalid {
					bad++
				}
				return nil
			})
			notes, want := strings.Join(checked.Meta().Notes, "\n"), 399
			if good < 0 {
				want = 0
			}
			if err != nil || bad != want || strings.Contains(notes, "iCRCs are ignored") != (good < 0) ||
				checked.Meta().ICRCCheckable != (good >= 0) {
				t.Errorf("good %d: %d bad, want %d; notes %s", good, bad, want, notes)
			}
		}
	}
}

func TestFilesWithNothingToAnalyse(t *testing.T) {
	arp := written{1, append(make([]byte, 12), 0x08, 0x06, 0, 1), 60}
	short := written{1, testPacket(packet.WriteOnly, 1, 1, 8).AppendTo(nil)[:46], 90}
	for _, tc := range []struct {
		name string
		file []byte
		o    Options
		want string
	}{
		{"no frames", pcapOf(t, nil), Options{}, "none of its 0 frames is RoCEv2"},
		{"no RoCE", pcapOf(t, []written{arp, arp}), Options{}, "none of its 2 frames is RoCEv2 (UDP port 4791)"},
		{"nothing decodable", pcapOf(t, []written{short}), Options{},
			"no frame to UDP port 4791 can be decoded, first frame 1: BTH at byte 42"},
	} {
		checked, _, err := Check(t.Context(), memorySource("x.pcap", tc.file), tc.o)
		if checked != nil || !errors.Is(err, ErrNothingToAnalyse) ||
			!strings.Contains(err.Error(), "x.pcap: nothing to analyse: "+tc.want) {
			t.Errorf("%s: %v", tc.name, err)
		}
	}
}

func TestUnreadableFile(t *testing.T) {
	_, _, err := Check(context.Background(), FileSource("testdata/does-not-exist.pcap"), Options{})
	if !errors.Is(err, os.ErrNotExist) || !strings.Contains(err.Error(), "does-not-exist.pcap") {
		t.Errorf("error %v", err)
	}
	broken := Source{Name: "broken.pcap", Open: func() (io.ReadCloser, error) {
		return io.NopCloser(io.MultiReader(bytes.NewReader(mirrorFile(t, counted(1, 1, 0))), brokenReader{})), nil
	}}
	if _, _, err := Check(context.Background(), broken, Options{Format: FormatMirror}); !errors.Is(err, errBroken) ||
		!strings.Contains(err.Error(), "broken.pcap: packet 2") {
		t.Errorf("error %v", err)
	}
}

var errBroken = errors.New("input/output error")

type brokenReader struct{}

func (brokenReader) Read([]byte) (int, error) { return 0, errBroken }
