package packet_test

import (
	"bytes"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/gopacket/pcapgo"

	"candela.dev/candela/packet"
)

// rxeFiles lists the captures of a real stack, soft-RoCE in the Linux kernel.
func rxeFiles(t testing.TB) []string {
	t.Helper()
	files, err := filepath.Glob("testdata/rxe/*.pcap")
	if err != nil || len(files) == 0 {
		t.Fatalf("no captures found: %v", err)
	}
	return files
}

// readFrames returns the frames of a pcap file.
func readFrames(t testing.TB, file string) [][]byte {
	t.Helper()
	f, err := os.Open(file)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	r, err := pcapgo.NewReader(f)
	if err != nil {
		t.Fatalf("%s: %v", file, err)
	}
	var frames [][]byte
	for {
		frame, _, err := r.ReadPacketData()
		if errors.Is(err, io.EOF) {
			return frames
		}
		if err != nil {
			t.Fatalf("%s: frame %d: %v", file, len(frames)+1, err)
		}
		frames = append(frames, frame)
	}
}

func TestSoftRoCECapturesVerifyAndReserialise(t *testing.T) {
	for _, file := range rxeFiles(t) {
		t.Run(filepath.Base(file), func(t *testing.T) {
			var p packet.Packet
			roce, bad := 0, 0
			for n, frame := range readFrames(t, file) {
				if err := p.Parse(frame); err != nil {
					t.Fatalf("frame %d: %v", n+1, err)
				}
				if got := p.AppendTo(nil); !bytes.Equal(got, frame) {
					t.Fatalf("frame %d changed by decode and encode:\n got %x\nwant %x", n+1, got, frame)
				}
				if !p.IsRoCE() {
					continue
				}
				roce++
				if packet.CheckICRC(frame, &p) != packet.ICRCValid {
					bad++
				}
			}
			want := 0
			if strings.HasPrefix(filepath.Base(file), "write-corrupt5.out") {
				want = 1
			}
			if roce < 40 || bad != want {
				t.Errorf("%d RoCE frames, %d with a wrong iCRC; want %d wrong", roce, bad, want)
			}
		})
	}
}

// Our values equal the kernel's: its frames as derived packets serialise to the same bytes.
func TestDerivedPacketsSerialiseAsSoftRoCEDoes(t *testing.T) {
	for _, file := range rxeFiles(t) {
		var p packet.Packet
		for n, frame := range readFrames(t, file) {
			if err := p.Parse(frame); err != nil {
				t.Fatalf("%s: frame %d: %v", file, n+1, err)
			}
			if !p.IsRoCE() || packet.CheckICRC(frame, &p) != packet.ICRCValid {
				continue
			}
			p.Derived = true
			p.IP.Length, p.IP.Checksum, p.UDP.Length, p.ICRC = 0, 0, 0, 0
			if got := p.AppendTo(nil); !bytes.Equal(got, frame) {
				t.Fatalf("%s: frame %d:\n got %x\nwant %x", file, n+1, got, frame)
			}
		}
	}
}
