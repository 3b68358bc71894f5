//go:build linux

package live_test

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"net/netip"
	"os/exec"
	"strings"
	"testing"
	"time"

	"candela.dev/candela/dumper"
	"candela.dev/candela/dumper/live"
	"candela.dev/candela/link"
	"candela.dev/candela/link/linktest"
	"candela.dev/candela/packet"
	"candela.dev/candela/trace"
)

type file struct{ *bytes.Buffer }

func (file) Close() error { return nil }

func mirrorCopy(tb testing.TB, seq uint64) []byte {
	tb.Helper()
	p := packet.Packet{
		Derived: true, HasUDP: true, Headers: packet.HasBTH,
		Eth: packet.Ethernet{Type: packet.EtherTypeIPv4},
		IP: packet.IP{Version: 4, TTL: 64, Protocol: packet.ProtocolUDP,
			Src: netip.MustParseAddr("10.0.0.1"), Dst: netip.MustParseAddr("10.0.0.2")},
		UDP:     packet.UDP{SrcPort: 49152, DstPort: packet.Port},
		BTH:     packet.BTH{Opcode: packet.WriteMiddle, PKey: 0xffff, DestQP: 17, PSN: packet.PSN(seq & 0xffffff)},
		Payload: make([]byte, 256),
	}
	frame := p.AppendTo(nil)
	meta := trace.MirrorMeta{Seq: seq, TimeNS: int64(seq) * 1000, UDPDstPort: uint16(seq*2654435761>>7) | 1}
	if err := trace.EncodeMirror(frame, meta); err != nil {
		tb.Fatal(err)
	}
	return frame
}

func send(t *testing.T, name string, frames ...[]byte) {
	s, err := link.OpenSender(name)
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	for _, f := range frames {
		if err := s.Queue(f); err != nil {
			t.Fatal(err)
		}
	}
	if err := s.Flush(); err != nil {
		t.Fatal(err)
	}
}

func TestEveryCopyIsInTheShardsOfItsCores(t *testing.T) {
	for _, cores := range []int{1, 3} {
		t.Run(fmt.Sprint(cores, " cores"), func(t *testing.T) {
			linktest.Namespace(t, func() {
				linktest.Veth(t, "a", "b")
				r, err := live.Open(live.Config{Name: "d1", Interface: "b", Cores: cores, Snap: 128, EpochNS: 5e9, FanoutGroup: 7,
					Bytes: 8 << 20})
				if err != nil {
					t.Fatal(err)
				}
				defer r.Close()
				const n = 5000
				var frames [][]byte
				for i := range n {
					frames = append(frames, mirrorCopy(t, uint64(i+1)))
				}
				send(t, "a", append(frames, make([]byte, 60))...)
				shards := map[string]*bytes.Buffer{}
				report, err := r.Finish(func(name string) (io.WriteCloser, error) {
					shards[name] = new(bytes.Buffer)
					return file{shards[name]}, nil
				})
				if err != nil {
					t.Fatal(err)
				}
				if report.Received != n+1 || report.Written != n || report.Other != 1 || report.Dropped != 0 ||
					len(report.Shards) != cores {
					t.Errorf("%+v", report)
				}
				var sources []trace.Source
				for _, s := range report.Shards {
					if s.Bytes != int64(shards[s.Name].Len()) || s.Packets == 0 {
						t.Errorf("%+v: %d bytes", s, shards[s.Name].Len())
					}
					sources = append(sources, source(s.Name, shards[s.Name]))
				}
				var out bytes.Buffer
				if _, err := dumper.Reconstruct(t.Context(), sources, &out, "trace.pcap"); err != nil {
					t.Fatal(err)
				}
				_, integrity, err := trace.Check(t.Context(), source("trace.pcap", &out), trace.Options{Format: trace.FormatMirror,
					Counters: trace.Counters{Mirrored: []trace.Counter{{Name: "session 1", Value: n}}}})
				if err != nil || !integrity.Valid {
					t.Errorf("%v", err)
				}
			})
		})
	}
}

// TestFramesForTheNeighbourAreNobodysCopies: a switch speaks LLDP to its dumpers, too.
func TestFramesForTheNeighbourAreNobodysCopies(t *testing.T) {
	frame := func(to string, kind uint16) []byte {
		return append([]byte(to+"\x02\x00\x00\x00\x00\x07"+string([]byte{byte(kind >> 8), byte(kind)})), make([]byte, 46)...)
	}
	// A copy whose stamp looks like such an address remains one.
	stamped := mirrorCopy(t, 1)
	copy(stamped, "\x01\x80\xc2\x00\x00\x0e")
	for name, tt := range map[string]struct {
		frame                   []byte
		written, foreign, other uint64
	}{
		"LLDP":                     {frame("\x01\x80\xc2\x00\x00\x0e", 0x88cc), 0, 1, 0},
		"LLDP to customer bridges": {frame("\x01\x80\xc2\x00\x00\x00", 0x88cc), 0, 1, 0},
		"LLDP to a station":        {frame("\x02\x00\x00\x00\x00\x01", 0x88cc), 0, 1, 0},
		"spanning tree":            {frame("\x01\x80\xc2\x00\x00\x00", 39), 0, 1, 0},
		"LACP":                     {frame("\x01\x80\xc2\x00\x00\x02", 0x8809), 0, 1, 0},
		"beyond the reserved":      {frame("\x01\x80\xc2\x00\x00\x10", 0x0806), 0, 0, 1},
		"ARP":                      {frame("\xff\xff\xff\xff\xff\xff", 0x0806), 0, 0, 1},
		"a copy":                   {stamped, 1, 0, 0},
	} {
		t.Run(name, func(t *testing.T) {
			linktest.Namespace(t, func() {
				linktest.Veth(t, "a", "b")
				r, err := live.Open(live.Config{Name: "d1", Interface: "b", Bytes: 1 << 20})
				if err != nil {
					t.Fatal(err)
				}
				defer r.Close()
				send(t, "a", tt.frame)
				report, err := r.Finish(func(string) (io.WriteCloser, error) { return file{new(bytes.Buffer)}, nil })
				if err != nil || report.Received != 1 || report.Written != tt.written || report.Foreign != tt.foreign ||
					report.Other != tt.other {
					t.Errorf("%v, %+v", err, report)
				}
			})
		})
	}
}

// TestTheKernelAnswersNoCopyWhateverItsStamp: the stamp replaces the destination address and looks like a group address
// in every other window of 2^40 ns. The kernel would answer a copy of what was sent to the dumper's own IP address if
// it came to the interface's own MAC address.
func TestTheKernelAnswersNoCopyWhateverItsStamp(t *testing.T) {
	linktest.Namespace(t, func() {
		linktest.Veth(t, "a", "b")
		for _, command := range []string{"ip address add 10.0.0.2/24 dev b",
			"ip neighbour add 10.0.0.1 lladdr 02:00:00:00:00:09 dev b"} {
			words := strings.Fields(command)
			if out, err := exec.Command(words[0], words[1:]...).CombinedOutput(); err != nil {
				t.Skipf("SKIP-tool: %s: %v: %s", command, err, out)
			}
		}
		answers, err := link.OpenRing(link.RingConfig{Interface: "a", Promiscuous: true})
		if err != nil {
			t.Fatal(err)
		}
		defer answers.Close()
		r, err := live.Open(live.Config{Name: "d1", Interface: "b", Bytes: 1 << 20})
		if err != nil {
			t.Fatal(err)
		}
		defer r.Close()
		for i, stamp := range []string{"\x00\x12\x34\x56\x78\x9a", "\x01\x12\x34\x56\x78\x9a", "\x01\x00\x5e\x00\x00\x01",
			"\x33\x33\x00\x00\x00\x01"} {
			frame := mirrorCopy(t, uint64(i+1))
			copy(frame, stamp)
			send(t, "a", frame)
		}
		device, err := net.InterfaceByName("b")
		if err != nil {
			t.Fatal(err)
		}
		own := mirrorCopy(t, 9)
		copy(own, device.HardwareAddr)
		send(t, "a", own) // the kernel answers this one, after what it says to the others
		var seen []string
		for deadline := time.Now().Add(20 * time.Second); len(seen) == 0 && time.Now().Before(deadline); {
			block, err := answers.Wait(time.Second)
			if err != nil {
				t.Fatal(err)
			}
			if block == nil {
				continue
			}
			for f := range block.Frames() {
				if kind := binary.BigEndian.Uint16(f.Data[12:]); kind == packet.EtherTypeIPv4 || kind == 0x0806 {
					seen = append(seen, fmt.Sprintf("% x", f.Data))
				}
			}
			block.Release()
		}
		if len(seen) != 1 {
			t.Errorf("%d answers, want the one to the copy with the interface's own address: %q", len(seen), seen)
		}
	})
}

func TestCopiesThatCameOutOfOrderStandInTheShardByNumber(t *testing.T) {
	const wrap = 1 << 48
	for name, numbers := range map[string][]uint64{
		"neighbours change places":   {1, 2, 4, 3, 5, 7, 6},
		"the first is not the least": {3, 1, 2, 4},
		"numbers wrap":               {wrap - 1, wrap - 2, 1, 0, 2},
	} {
		t.Run(name, func(t *testing.T) {
			linktest.Namespace(t, func() {
				linktest.Veth(t, "a", "b")
				r, err := live.Open(live.Config{Name: "d1", Interface: "b", Snap: 128, Bytes: 1 << 20})
				if err != nil {
					t.Fatal(err)
				}
				defer r.Close()
				for _, n := range numbers {
					send(t, "a", mirrorCopy(t, n%wrap))
				}
				var shard bytes.Buffer
				if _, err := r.Finish(func(string) (io.WriteCloser, error) { return file{&shard}, nil }); err != nil {
					t.Fatal(err)
				}
				_, _, err = trace.Check(t.Context(), source("d1-0.pcap", &shard), trace.Options{Format: trace.FormatMirror,
					Counters: trace.Counters{Mirrored: []trace.Counter{{Name: "session 1", Value: int64(len(numbers))}}}})
				if err != nil {
					t.Error(err)
				}
			})
		})
	}
}

func source(name string, b *bytes.Buffer) trace.Source {
	return trace.Source{Name: name,
		Open: func() (io.ReadCloser, error) { return io.NopCloser(bytes.NewReader(b.Bytes())), nil }}
}

func TestCopiesBeyondTheArenaAreCounted(t *testing.T) {
	linktest.Namespace(t, func() {
		linktest.Veth(t, "a", "b")
		r, err := live.Open(live.Config{Name: "d1", Interface: "b", Snap: 128, Bytes: 1 << 16})
		if err != nil {
			t.Fatal(err)
		}
		defer r.Close()
		var frames [][]byte
		for i := range 1000 {
			frames = append(frames, mirrorCopy(t, uint64(i+1)))
		}
		send(t, "a", frames...)
		report, err := r.Finish(func(string) (io.WriteCloser, error) { return file{new(bytes.Buffer)}, nil })
		const room = (1 << 16) / (128 + 8)
		if err != nil || report.Received != 1000 || report.Written != room || report.Exceeded != 1000-room {
			t.Errorf("%+v, %v", report, err)
		}
	})
}

func TestAFullDiskIsAnErrorThatNamesTheShard(t *testing.T) {
	linktest.Namespace(t, func() {
		linktest.Veth(t, "a", "b")
		r, err := live.Open(live.Config{Name: "d1", Interface: "b"})
		if err != nil {
			t.Fatal(err)
		}
		defer r.Close()
		send(t, "a", mirrorCopy(t, 1))
		full := errors.New("no space left on device")
		_, err = r.Finish(func(string) (io.WriteCloser, error) { return fullFile{full}, nil })
		if !errors.Is(err, full) || !strings.Contains(err.Error(), "d1-0.pcap") {
			t.Errorf("%v", err)
		}
	})
}

type fullFile struct{ err error }

func (f fullFile) Write([]byte) (int, error) { return 0, f.err }
func (fullFile) Close() error                { return nil }

func TestImpossibleCapturesAreRefused(t *testing.T) {
	for want, cfg := range map[string]live.Config{
		"500 cores":   {Name: "d", Interface: "lo", Cores: 500},
		"1000 bytes":  {Name: "d", Interface: "lo", Bytes: 1000},
		"is negative": {Name: "d", Interface: "lo", Snap: -1},
	} {
		if _, err := live.Open(cfg); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("error %v, want %q", err, want)
		}
	}
}
