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

func TestSoftRoCECapturesVerifyAndReserialise(t *testing.T) {
	files, err := filepath.Glob("testdata/rxe/*.pcap")
	if err != nil || len(files) == 0 {
		t.Fatalf("no captures found: %v", err)
	}
	for _, file := range files {
		t.Run(filepath.Base(file), func(t *testing.T) {
			f, err := os.Open(file)
			if err != nil {
				t.Fatal(err)
			}
			defer f.Close()
			r, err := pcapgo.NewReader(f)
			if err != nil {
				t.Fatal(err)
			}
			var p packet.Packet
			roce, bad := 0, 0
			for n := 1; ; n++ {
				frame, _, err := r.ReadPacketData()
				if errors.Is(err, io.EOF) {
					break
				}
				if err != nil {
					t.Fatal(err)
				}
				if err := p.Parse(frame); err != nil {
					t.Fatalf("frame %d: %v", n, err)
				}
				if got := p.AppendTo(nil); !bytes.Equal(got, frame) {
					t.Fatalf("frame %d changed by decode and encode:\n got %x\nwant %x", n, got, frame)
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
