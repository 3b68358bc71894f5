package packet_test

import (
	"bytes"
	"flag"
	"os"
	"testing"
	"time"

	"github.com/google/gopacket"
	"github.com/google/gopacket/layers"
	"github.com/google/gopacket/pcapgo"
)

var update = flag.Bool("update", false, "rewrite golden files in testdata")

// syntheticFile has a frame for every header that we know: the layers package and tshark read it.
const syntheticFile = "testdata/synthetic.pcap"

// writeCapture returns frames as a nanosecond pcap, one microsecond apart.
func writeCapture(t testing.TB, frames [][]byte) []byte {
	t.Helper()
	var out bytes.Buffer
	w := pcapgo.NewWriterNanos(&out)
	if err := w.WriteFileHeader(65536, layers.LinkTypeEthernet); err != nil {
		t.Fatal(err)
	}
	for n, frame := range frames {
		ci := gopacket.CaptureInfo{Timestamp: time.Unix(0, int64(n)*1000), CaptureLength: len(frame), Length: len(frame)}
		if err := w.WritePacket(ci, frame); err != nil {
			t.Fatal(err)
		}
	}
	return out.Bytes()
}

// syntheticFrames returns the samples with payloads of up to 257 bytes, serialised.
func syntheticFrames() [][]byte {
	var frames [][]byte
	for _, s := range samples() {
		if len(s.p.Payload) <= 257 {
			frames = append(frames, s.p.AppendTo(nil))
		}
	}
	return frames
}

func TestSyntheticCaptureIsUpToDate(t *testing.T) {
	want := writeCapture(t, syntheticFrames())
	if *update {
		if err := os.WriteFile(syntheticFile, want, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	got, err := os.ReadFile(syntheticFile)
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(got, want) {
		t.Errorf("%s is not what the samples serialise to; if that is meant: go test ./packet -run Synthetic -update",
			syntheticFile)
	}
}
