package dumper

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net/netip"
	"testing"

	"github.com/google/go-cmp/cmp"

	"candela.dev/candela/clock"
	"candela.dev/candela/packet"
	"candela.dev/candela/trace"
)

// disk is a directory in memory.
type disk map[string]*bytes.Buffer

type diskFile struct{ *bytes.Buffer }

func (diskFile) Close() error { return nil }

func (d disk) create(name string) (io.WriteCloser, error) {
	d[name] = new(bytes.Buffer)
	return diskFile{d[name]}, nil
}

func (d disk) source(name string) trace.Source {
	return trace.Source{Name: name, Open: func() (io.ReadCloser, error) {
		b, ok := d[name]
		if !ok {
			return nil, fmt.Errorf("open %s: no such file", name)
		}
		return io.NopCloser(bytes.NewReader(b.Bytes())), nil
	}}
}

// writeFrame returns a WRITE packet of connection 1 with the given place.
func writeFrame(tb testing.TB, psn packet.PSN, payload int) []byte {
	tb.Helper()
	p := packet.Packet{
		Derived: true, HasUDP: true, Headers: packet.HasBTH,
		Eth: packet.Ethernet{Type: packet.EtherTypeIPv4},
		IP: packet.IP{Version: 4, TTL: 64, Protocol: packet.ProtocolUDP,
			Src: netip.MustParseAddr("10.0.0.1"), Dst: netip.MustParseAddr("10.0.0.2")},
		UDP:     packet.UDP{SrcPort: 49152, DstPort: packet.Port},
		BTH:     packet.BTH{Opcode: packet.WriteMiddle, PKey: 0xffff, DestQP: 17, PSN: psn},
		Payload: make([]byte, payload),
	}
	return p.AppendTo(nil)
}

// run captures n mirror copies on hosts in turn and returns the hosts, closed.
func run(tb testing.TB, hosts []*Host, n int, firstSeq uint64, firstNS int64, lose func(i int) bool) {
	tb.Helper()
	rng := rand.New(rand.NewPCG(1, 2))
	for i := range n {
		frame := writeFrame(tb, packet.PSN(i), 64)
		at := firstNS + int64(i)*100
		meta := trace.MirrorMeta{Seq: firstSeq + uint64(i), TimeNS: at, UDPDstPort: uint16(rng.Uint32())}
		if err := trace.EncodeMirror(frame, meta); err != nil {
			tb.Fatal(err)
		}
		if lose != nil && lose(i) {
			continue
		}
		if err := hosts[i%len(hosts)].Capture(clock.Time(at)*1000, frame); err != nil {
			tb.Fatal(err)
		}
	}
	for _, h := range hosts {
		if err := h.Close(); err != nil {
			tb.Fatal(err)
		}
	}
}

func newHosts(tb testing.TB, d disk, hosts, cores int) ([]*Host, []trace.Source) {
	tb.Helper()
	var hs []*Host
	var shards []trace.Source
	for i := range hosts {
		h, err := NewHost(Config{Name: fmt.Sprintf("d%d", i+1), Cores: cores, EpochNS: 1_700_000_000e9, Create: d.create})
		if err != nil {
			tb.Fatal(err)
		}
		hs = append(hs, h)
		for c := range cores {
			shards = append(shards, d.source(fmt.Sprintf("d%d-%d.pcap", i+1, c)))
		}
	}
	return hs, shards
}

func TestShardsOfTwoHostsMergeIntoACheckedTrace(t *testing.T) {
	for _, tc := range []struct {
		name     string
		firstSeq uint64
		firstNS  int64
	}{
		{"from 1", 1, 0},
		{"across the wrap of sequence and stamp", 1<<48 - 5000, 1<<48 - 333_333},
	} {
		t.Run(tc.name, func(t *testing.T) {
			d := disk{}
			hosts, shards := newHosts(t, d, 2, 4)
			run(t, hosts, 10_000, tc.firstSeq, tc.firstNS, nil)
			rand.New(rand.NewPCG(3, 4)).Shuffle(len(shards), func(i, j int) { shards[i], shards[j] = shards[j], shards[i] })
			out, err := d.create("trace.pcap")
			if err != nil {
				t.Fatal(err)
			}
			rec, err := Reconstruct(context.Background(), shards, out, "trace.pcap")
			if err != nil {
				t.Fatal(err)
			}
			if rec.Packets != 10_000 || rec.Duplicates != 0 || rec.Regressions != 0 {
				t.Errorf("reconstruction %+v", rec)
			}
			counters := trace.Counters{
				Mirrored: []trace.Counter{{Name: "session 1", Value: 5000}, {Name: "session 2", Value: 5000}},
				RoCERx:   []trace.Counter{{Name: "port 1", Value: 10_000}},
			}
			checked, report, err := trace.Check(context.Background(), d.source("trace.pcap"), trace.Options{Counters: counters})
			if err != nil {
				t.Fatalf("%v", err)
			}
			if checked.Meta().Kind != trace.KindMirror || !report.Valid {
				t.Errorf("kind %v, report %+v", checked.Meta().Kind, report)
			}
			next, at := tc.firstSeq, tc.firstNS
			err = checked.ForEach(context.Background(), func(r *trace.Record) error {
				if r.ID != next&(1<<48-1) || r.TimeNS != at || r.ICRC != packet.ICRCValid {
					return fmt.Errorf("record %+v, want id %d at %d", r, next, at)
				}
				next, at = next+1, at+100
				return nil
			})
			if err != nil {
				t.Error(err)
			}
		})
	}
}

func TestOneCopyLostAmongTenThousandIsNamed(t *testing.T) {
	d := disk{}
	hosts, shards := newHosts(t, d, 2, 4)
	run(t, hosts, 10_000, 1, 0, func(i int) bool { return i == 6183 })
	var out bytes.Buffer
	if _, err := Reconstruct(t.Context(), shards, &out, "trace.pcap"); err != nil {
		t.Fatal(err)
	}
	d["trace.pcap"] = &out
	_, report, err := trace.Check(t.Context(), d.source("trace.pcap"), trace.Options{Format: trace.FormatMirror})
	var ie *trace.IntegrityError
	if !errors.As(err, &ie) {
		t.Fatalf("error %v", err)
	}
	c := report.Condition(trace.ConditionSequence)
	if diff := cmp.Diff([]trace.SeqRange{{First: 6184, Last: 6184}}, c.Missing); diff != "" || c.MissingCount != 1 {
		t.Errorf("%d missing; %s", c.MissingCount, diff)
	}
}
