package dumper

import (
	"errors"
	"io"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"candela.dev/candela/clock"
	"candela.dev/candela/packet"
	"candela.dev/candela/trace"
)

// mirrorCopy returns a mirror copy of a WRITE with payload bytes.
func mirrorCopy(tb testing.TB, seq uint64, ns int64, port uint16, payload int) []byte {
	tb.Helper()
	frame := writeFrame(tb, packet.PSN(seq&0xffffff), payload)
	if err := trace.EncodeMirror(frame, trace.MirrorMeta{Seq: seq, TimeNS: ns, UDPDstPort: port}); err != nil {
		tb.Fatal(err)
	}
	return frame
}

func frames(tb testing.TB, src trace.Source) []trace.Frame {
	tb.Helper()
	var out []trace.Frame
	err := src.ForEachFrame(tb.Context(), func(f *trace.Frame) error {
		g := *f
		g.Data = slices.Clone(f.Data)
		out = append(out, g)
		return nil
	})
	if err != nil {
		tb.Fatal(err)
	}
	return out
}

func TestCopiesAreRestoredCutAndStamped(t *testing.T) {
	d := disk{}
	h, err := NewHost(Config{Name: "d1", Snap: 128, EpochNS: 1000e9, Create: d.create})
	if err != nil {
		t.Fatal(err)
	}
	for i, stamp := range []int64{1<<48 - 10, 5} { // wraps
		if err := h.Capture(clock.Time(i), mirrorCopy(t, uint64(i), stamp, 33333, 1024)); err != nil {
			t.Fatal(err)
		}
	}
	if err := h.Capture(2, []byte("not a mirror copy")); err != nil {
		t.Fatal(err)
	}
	if err := h.Close(); err != nil {
		t.Fatal(err)
	}
	want := Report{Name: "d1", Received: 3, Written: 2, Other: 1,
		Shards: []ShardReport{{"d1-0.pcap", 2, int64(d["d1-0.pcap"].Len())}}}
	if diff := cmp.Diff(want, h.Report()); diff != "" {
		t.Error(diff)
	}
	for i, f := range frames(t, d.source("d1-0.pcap")) {
		m, err := trace.DecodeMirror(f.Data)
		if err != nil || m.UDPDstPort != packet.Port {
			t.Errorf("frame %d: %+v, %v", i, m, err)
		}
		at := 1000e9 + []int64{1<<48 - 10, 1<<48 + 5}[i]
		if f.TimeNS != at || len(f.Data) != 128 || f.OrigLen != 14+20+8+12+1024+4 {
			t.Errorf("frame %d at %d (want %d), %d of %d bytes", i, f.TimeNS, at, len(f.Data), f.OrigLen)
		}
	}
}

func TestRandomPortsSpreadEvenlyOverCores(t *testing.T) {
	const cores = 8
	var load [cores]int
	for port := range 1 << 16 {
		load[spread(uint16(port), cores)]++
	}
	for core, n := range load {
		if n < 6000 || n > 10_400 {
			t.Errorf("core %d gets %d of 65536 ports", core, n)
		}
	}
}

func TestCapacity(t *testing.T) {
	const us = clock.Time(clock.Microsecond)
	for _, tc := range []struct {
		name     string
		capacity Capacity
		arrivals []clock.Time // of frames of 1000 bytes
		lost     []int
	}{
		{"no limit", Capacity{}, []clock.Time{0, 0, 0, 0}, nil},
		{"a burst that fits the buffer", Capacity{Rate: clock.Gbps, BufferBytes: 3000}, []clock.Time{0, 0, 0}, nil},
		{"a burst beyond the buffer", Capacity{Rate: clock.Gbps, BufferBytes: 3000}, []clock.Time{0, 0, 0, 0}, []int{3}},
		{"room again when the first was served after 8 us", Capacity{Rate: clock.Gbps, BufferBytes: 2000},
			[]clock.Time{0, 0, 8*us - 1, 8 * us}, []int{2}},
		{"packets per second bind small frames", Capacity{PacketsPerSecond: 100_000, Rate: clock.Gbps, BufferBytes: 2000},
			[]clock.Time{0, 0, 8 * us, 10 * us}, []int{2}},
		{"a frame larger than the buffer", Capacity{Rate: clock.Gbps, BufferBytes: 999}, []clock.Time{0, 100 * us},
			[]int{0, 1}},
	} {
		q := queue{capacity: tc.capacity}
		var lost []int
		for i, at := range tc.arrivals {
			if !q.admit(at, 1000) {
				lost = append(lost, i)
			}
		}
		if diff := cmp.Diff(tc.lost, lost); diff != "" {
			t.Errorf("%s: %s", tc.name, diff)
		}
	}
}

func TestQueueAgreesWithAList(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		c := Capacity{Rate: clock.Gbps, PacketsPerSecond: rapid.Int64Range(0, 2_000_000).Draw(t, "pps"),
			BufferBytes: rapid.Int64Range(1, 20_000).Draw(t, "buffer")}
		q := queue{capacity: c}
		var waiting []queued
		now, free := clock.Time(0), clock.Time(0)
		for range rapid.IntRange(1, 100).Draw(t, "n") {
			now += clock.Time(rapid.Int64Range(0, 5_000_000).Draw(t, "gap"))
			n := rapid.IntRange(60, 1500).Draw(t, "bytes")
			waiting = slices.DeleteFunc(waiting, func(w queued) bool { return w.done <= now })
			used := int64(0)
			for _, w := range waiting {
				used += w.bytes
			}
			want := used+int64(n) <= c.BufferBytes
			if want {
				free = max(free, now).Add(c.service(n))
				waiting = append(waiting, queued{free, int64(n)})
			}
			if got := q.admit(now, n); got != want {
				t.Fatalf("at %v: %d bytes admitted: %t, want %t", now, n, got, want)
			}
		}
	})
}

func TestLossOfASlowDumperIsCountedAndMakesTheTraceInvalid(t *testing.T) {
	d := disk{}
	h, err := NewHost(Config{Name: "slow", Create: d.create,
		Capacity: Capacity{PacketsPerSecond: 1_000_000, BufferBytes: 1000}})
	if err != nil {
		t.Fatal(err)
	}
	run(t, []*Host{h}, 1000, 1, 0, nil) // 10 M packets/s
	r := h.Report()
	if r.Lost == 0 || r.Written+r.Lost != 1000 {
		t.Fatalf("%+v", r)
	}
	_, report, err := trace.Check(t.Context(), d.source("slow-0.pcap"),
		trace.Options{Format: trace.FormatMirror, Counters: trace.Counters{
			Mirrored: []trace.Counter{{Name: "session 1", Value: 1000}}}})
	var ie *trace.IntegrityError
	if !errors.As(err, &ie) || report.Condition(trace.ConditionMirrored).Status != trace.StatusViolated {
		t.Errorf("%v", err)
	}
}

func TestImpossibleHostsAreRefused(t *testing.T) {
	boom := errors.New("permission denied")
	for _, tc := range []struct {
		cfg  Config
		want string
	}{
		{Config{Name: "d", Cores: 2000}, "dumper d: 2000 cores (1 to 1024)"},
		{Config{Name: "d", Capacity: Capacity{Rate: 1}}, "dumper d: capacity is limited but the buffer has 0 bytes"},
		{Config{Name: "d", Capacity: Capacity{Rate: -1}}, "negative"},
		{Config{Name: "d", Create: func(string) (io.WriteCloser, error) { return nil, boom }},
			"dumper d: create shard: permission denied"},
	} {
		if _, err := NewHost(tc.cfg); err == nil || !strings.Contains(err.Error(), tc.want) {
			t.Errorf("error %v, want %q", err, tc.want)
		}
	}
}

// fullDisk refuses everything after room bytes.
type fullDisk struct {
	room   int
	closed bool
}

var errFull = errors.New("no space left on device")

func (f *fullDisk) Write(b []byte) (int, error) {
	n := min(len(b), f.room)
	f.room -= n
	if n < len(b) {
		return n, errFull
	}
	return n, nil
}

func (f *fullDisk) Close() error { f.closed = true; return nil }

func TestFullDiskNamesHostAndShard(t *testing.T) {
	full := &fullDisk{room: 1 << 20}
	h, err := NewHost(Config{Name: "d2", Create: func(string) (io.WriteCloser, error) { return full, nil }})
	if err != nil {
		t.Fatal(err)
	}
	frame := mirrorCopy(t, 1, 1, 1, 1024)
	for range 10_000 {
		if err = h.Capture(0, frame); err != nil {
			break
		}
	}
	if !errors.Is(err, errFull) || !strings.Contains(err.Error(), "dumper d2: d2-0.pcap: packet ") ||
		!strings.Contains(err.Error(), "the file keeps 1048576 bytes") {
		t.Errorf("error %v", err)
	}
	if err := h.Close(); !errors.Is(err, errFull) || !full.closed {
		t.Errorf("close: %v, closed %t", err, full.closed)
	}
}
