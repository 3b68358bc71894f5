package dumper

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"candela.dev/candela/packet"
	"candela.dev/candela/trace"
)

// shardOf writes copies with the given sequence numbers to a file; stamps are 100 times the sequence number.
func shardOf(tb testing.TB, d disk, name string, seqs ...uint64) trace.Source {
	tb.Helper()
	var b bytes.Buffer
	w := trace.NewPcapWriter(&b, name, 0)
	for _, s := range seqs {
		if err := w.Write(1e18+int64(s)*100, mirrorCopy(tb, s, int64(s)*100, packet.Port, 8), 100); err != nil {
			tb.Fatal(err)
		}
	}
	if err := w.Flush(); err != nil {
		tb.Fatal(err)
	}
	d[name] = &b
	return d.source(name)
}

func merged(tb testing.TB, shards []trace.Source) ([]uint64, Reconstruction, error) {
	tb.Helper()
	var out bytes.Buffer
	rec, err := Reconstruct(context.Background(), shards, &out, "trace.pcap")
	d := disk{"trace.pcap": &out}
	var seqs []uint64
	if out.Len() > 0 {
		for _, f := range frames(tb, d.source("trace.pcap")) {
			m, derr := trace.DecodeMirror(f.Data)
			if derr != nil {
				tb.Fatal(derr)
			}
			seqs = append(seqs, m.Seq)
		}
	}
	return seqs, rec, err
}

func TestMergeFindsDuplicatesAndRegressions(t *testing.T) {
	for _, tc := range []struct {
		name    string
		shards  [][]uint64
		want    []uint64
		dups    int64
		back    int64
		problem string
	}{
		{"one shard", [][]uint64{{1, 2, 3}}, []uint64{1, 2, 3}, 0, 0, ""},
		{"an empty shard among others", [][]uint64{{2}, {}, {1, 3}}, []uint64{1, 2, 3}, 0, 0, ""},
		{"the wrap", [][]uint64{{1<<48 - 2, 1}, {1<<48 - 1, 0, 2}}, []uint64{1<<48 - 2, 1<<48 - 1, 0, 1, 2}, 0, 0, ""},
		{"holes do not matter to the merge", [][]uint64{{1, 9}, {4}}, []uint64{1, 4, 9}, 0, 0, ""},
		{"the same copy in two shards", [][]uint64{{1, 2}, {2, 3}}, []uint64{1, 2, 2, 3}, 1, 0,
			"duplicate of #2 at s1 frame 1"},
		{"a shard that goes back", [][]uint64{{1, 4, 3, 5}, {2}}, []uint64{1, 2, 4, 3, 5}, 0, 1,
			"regression of #3 at s0 frame 3"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			d := disk{}
			var shards []trace.Source
			for i, s := range tc.shards {
				shards = append(shards, shardOf(t, d, fmt.Sprintf("s%d", i), s...))
			}
			got, rec, err := merged(t, shards)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Error(diff)
			}
			if rec.Duplicates != tc.dups || rec.Regressions != tc.back || rec.FirstProblem != tc.problem ||
				rec.Packets != int64(len(tc.want)) {
				t.Errorf("%+v", rec)
			}
		})
	}
}

func TestMergeOfAnySplitIsTheWhole(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		start := rapid.SampledFrom([]uint64{0, 1, 1<<48 - 20, 1 << 30}).Draw(rt, "start")
		split := make([][]uint64, rapid.IntRange(1, 9).Draw(rt, "shards"))
		var want []uint64
		for i := range rapid.IntRange(1, 60).Draw(rt, "n") {
			seq := (start + uint64(i)) & (1<<48 - 1)
			want = append(want, seq)
			s := rapid.IntRange(0, len(split)-1).Draw(rt, "shard")
			split[s] = append(split[s], seq)
		}
		d := disk{}
		var shards []trace.Source
		for i, s := range split {
			shards = append(shards, shardOf(t, d, fmt.Sprintf("s%d", i), s...))
		}
		got, rec, err := merged(t, shards)
		if err != nil || rec.Duplicates != 0 || rec.Regressions != 0 || !slices.Equal(want, got) {
			rt.Errorf("%v %+v: got %v", err, rec, got)
		}
	})
}

func TestMissingAndDamagedShards(t *testing.T) {
	d := disk{}
	good, cut := shardOf(t, d, "good", 1, 3, 5), shardOf(t, d, "cut", 2, 4, 6)
	d["cut"].Truncate(d["cut"].Len() - 1)
	got, rec, err := merged(t, []trace.Source{good, d.source("gone"), d.source("lost")})
	if err == nil || !strings.Contains(err.Error(), "open gone: no such file") ||
		!strings.Contains(err.Error(), "open lost") || got != nil || rec.Packets != 0 {
		t.Errorf("missing: %v, wrote %v", err, got)
	}
	got, _, err = merged(t, []trace.Source{good, cut})
	if !errors.Is(err, trace.ErrTruncatedFile) ||
		!strings.Contains(err.Error(), "reconstruct: shard: cut: packet 3 at byte") {
		t.Errorf("damaged: %v", err)
	}
	if diff := cmp.Diff([]uint64{1, 2, 3, 4, 5}, got); diff != "" {
		t.Errorf("what is whole must be merged: %s", diff)
	}
	if _, _, err := merged(t, nil); err == nil {
		t.Error("no shards: no error")
	}
	if _, err := Reconstruct(context.Background(),
		[]trace.Source{trace.FileSource(filepath.Join(t.TempDir(), "none.pcap"))}, &bytes.Buffer{}, "x"); !errors.Is(err,
		os.ErrNotExist) {
		t.Errorf("error %v", err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	if _, err := Reconstruct(ctx, []trace.Source{good}, &bytes.Buffer{}, "x"); !errors.Is(err, context.Canceled) {
		t.Errorf("cancelled: %v", err)
	}
	if _, err := Reconstruct(context.Background(), []trace.Source{good}, &fullDisk{room: 10},
		"trace.pcap"); !errors.Is(err, errFull) || !strings.Contains(err.Error(), "trace.pcap") {
		t.Errorf("full disk: %v", err)
	}
}

func TestTimesFollowTheStampsAcrossAWrapThatAHostDidNotSee(t *testing.T) {
	d := disk{}
	hosts, shards := newHosts(t, d, 2, 1)
	// The second host's first copy comes after the wrap.
	for i, x := range []struct {
		host  int
		stamp int64
	}{{0, 1<<48 - 100}, {0, 1<<48 - 50}, {1, 10}, {0, 20}} {
		if err := hosts[x.host].Capture(0, mirrorCopy(t, uint64(i+1), x.stamp, 7, 8)); err != nil {
			t.Fatal(err)
		}
	}
	for _, h := range hosts {
		if err := h.Close(); err != nil {
			t.Fatal(err)
		}
	}
	var out bytes.Buffer
	if _, err := Reconstruct(context.Background(), shards, &out, "trace.pcap"); err != nil {
		t.Fatal(err)
	}
	base := int64(1_700_000_000e9 + 1<<48)
	for i, f := range frames(t, disk{"t": &out}.source("t")) {
		if want := base + []int64{-100, -50, 10, 20}[i]; f.TimeNS != want {
			t.Errorf("frame %d at %d, want %d", i+1, f.TimeNS, want)
		}
	}
}

func TestShardsOfLuminasPrototypeComeOutInOurEncoding(t *testing.T) {
	d := disk{}
	const turn = 1<<31 - 1
	var shards []trace.Source
	for s := range 2 {
		name := fmt.Sprintf("lumina%d", s)
		var b bytes.Buffer
		w := trace.NewPcapWriter(&b, name, 128)
		for i := s; i < 40; i += 2 {
			frame := mirrorCopy(t, uint64((turn-20+i-1)%turn+1), int64(i)*100, trace.LuminaPort, 8)
			copy(frame[40:42], frame[34:36]) // the source port is kept in the checksum field
			binary.BigEndian.PutUint16(frame[34:], uint16(i*7919))
			if err := w.Write(1e18, frame, len(frame)); err != nil {
				t.Fatal(err)
			}
		}
		if err := w.Flush(); err != nil {
			t.Fatal(err)
		}
		d[name] = &b
		shards = append(shards, d.source(name))
	}
	var out bytes.Buffer
	rec, err := Reconstruct(context.Background(), shards, &out, "trace.pcap")
	if err != nil || rec.Packets != 40 || rec.Duplicates+rec.Regressions != 0 {
		t.Fatalf("%+v, %v", rec, err)
	}
	d["t"] = &out
	checked, _, err := trace.Check(context.Background(), d.source("t"), trace.Options{Format: trace.FormatMirror})
	if err != nil {
		t.Fatal(err)
	}
	err = checked.ForEach(context.Background(), func(r *trace.Record) error {
		if r.ICRC != packet.ICRCValid {
			t.Errorf("record %d: iCRC %v", r.ID, r.ICRC)
		}
		return nil
	})
	if err != nil {
		t.Error(err)
	}
}

func FuzzReconstruct(f *testing.F) {
	d := disk{}
	shardOf(f, d, "a", 1, 2, 5)
	shardOf(f, d, "b", 3, 4)
	f.Add(d["a"].Bytes(), d["b"].Bytes())
	f.Fuzz(func(t *testing.T, a, b []byte) {
		d := disk{"a": bytes.NewBuffer(a), "b": bytes.NewBuffer(b)}
		var out bytes.Buffer
		rec, err := Reconstruct(context.Background(), []trace.Source{d.source("a"), d.source("b")}, &out, "out")
		if err != nil && rec.Packets == 0 {
			return
		}
		d["out"] = &out
		if got := len(frames(t, d.source("out"))); int64(got) != rec.Packets {
			t.Errorf("%d frames written, report says %d", got, rec.Packets)
		}
	})
}

// shardFiles writes n packets of 128 bytes to files of k shards.
func shardFiles(tb testing.TB, n, k int) []string {
	tb.Helper()
	dir := tb.TempDir()
	writers, paths := make([]*trace.PcapWriter, k), make([]string, k)
	for i := range k {
		paths[i] = filepath.Join(dir, fmt.Sprintf("d-%d.pcap", i))
		file, err := os.Create(paths[i])
		if err != nil {
			tb.Fatal(err)
		}
		defer file.Close()
		writers[i] = trace.NewPcapWriter(file, paths[i], 128)
	}
	frame := writeFrame(tb, 1, 1024)
	for i := range n {
		if err := trace.EncodeMirror(frame,
			trace.MirrorMeta{Seq: uint64(i + 1), TimeNS: int64(i) * 80, UDPDstPort: packet.Port}); err != nil {
			tb.Fatal(err)
		}
		w := writers[spread(uint16(i*40503), k)]
		if err := w.Write(1.7e18+int64(i)*80, frame, len(frame)); err != nil {
			tb.Fatal(err)
		}
	}
	for _, w := range writers {
		if err := w.Flush(); err != nil {
			tb.Fatal(err)
		}
	}
	return paths
}

func BenchmarkReconstruct8Shards(b *testing.B) {
	const n = 1_000_000
	paths := shardFiles(b, n, 8)
	target := filepath.Join(b.TempDir(), "trace.pcap")
	b.ReportAllocs()
	for b.Loop() {
		reconstructFiles(b, paths, target)
	}
	b.ReportMetric(float64(n)*float64(b.N)/b.Elapsed().Seconds()/1e6, "Mpackets/s")
	if mergecap, err := exec.LookPath("mergecap"); err == nil {
		ours := b.Elapsed().Seconds() / float64(b.N)
		start := time.Now()
		if msg, err := exec.Command(mergecap,
			append([]string{"-F", "nsecpcap", "-w", target}, paths...)...).CombinedOutput(); err != nil {
			b.Fatalf("mergecap: %v\n%s", err, msg)
		}
		b.ReportMetric(time.Since(start).Seconds()/ours, "×mergecap")
	}
}

func reconstructFiles(b *testing.B, paths []string, target string) {
	b.Helper()
	out, err := os.Create(target)
	if err != nil {
		b.Fatal(err)
	}
	defer out.Close()
	var shards []trace.Source
	for _, p := range paths {
		shards = append(shards, trace.FileSource(p))
	}
	if _, err := Reconstruct(context.Background(), shards, out, target); err != nil {
		b.Fatal(err)
	}
}

// discard is a file that keeps nothing.
type discard struct{}

func (discard) Write(b []byte) (int, error) { return len(b), nil }
func (discard) Close() error                { return nil }

func BenchmarkCapture(b *testing.B) {
	h, err := NewHost(Config{Name: "d1", Cores: 4, Create: func(string) (io.WriteCloser, error) { return discard{}, nil }})
	if err != nil {
		b.Fatal(err)
	}
	frame := mirrorCopy(b, 1, 1, 1, 1024)
	b.SetBytes(int64(len(frame)))
	b.ReportAllocs()
	for b.Loop() {
		if err := h.Capture(0, frame); err != nil {
			b.Fatal(err)
		}
	}
}
