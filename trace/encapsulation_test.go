package trace

import (
	"bytes"
	"compress/gzip"
	"context"
	"encoding/binary"
	"errors"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/klauspost/compress/zstd"

	"candela.dev/candela/packet"
	"candela.dev/candela/packet/encapsulation"
)

// records decodes a capture. Numbers and times are left out on request.
func recordsOf(t testing.TB, src Source, bare bool) []Record {
	t.Helper()
	d := NewDecoder(FormatPlain, nil, true)
	var list []Record
	err := src.ForEachFrame(context.Background(), func(f *Frame) error {
		var r Record
		err := d.Decode(f, &r)
		if errors.Is(err, ErrNotRoCE) {
			return nil
		}
		if bare {
			r.ID, r.TimeNS = 0, 0
		}
		list = append(list, r)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return list
}

// Captures of the same packets that other programs wrote below other headers decode to the same records, iCRC included.
func TestCapturesOfAllLinkTypesAndTunnelsDecodeAlike(t *testing.T) {
	want := recordsOf(t, FileSource("testdata/encapsulation/plain.pcap.gz"), true)
	if len(want) != 40 {
		t.Fatalf("%d packets, want 40", len(want))
	}
	for _, r := range want {
		if r.ICRC != packet.ICRCValid {
			t.Fatal("a packet of the plain capture has no valid iCRC")
		}
	}
	files, err := filepath.Glob("testdata/encapsulation/*.pcap.gz")
	if err != nil || len(files) < 20 {
		t.Fatalf("%d files, %v", len(files), err)
	}
	for _, file := range files {
		t.Run(strings.TrimSuffix(filepath.Base(file), ".pcap.gz"), func(t *testing.T) {
			got := recordsOf(t, FileSource(file), true)
			want := slices.Clone(want)
			for i := range want {
				if strings.Contains(file, "rocev1") {
					want[i].SrcPort = 0 // there is no UDP header
				}
			}
			if diff := cmp.Diff(want, got); diff != "" {
				t.Errorf("(-plain +%s)\n%.2000s", file, diff)
			}
			checked, _, err := Check(t.Context(), FileSource(file), Options{})
			if err != nil {
				t.Fatal(err)
			}
			c := checked.Meta().Connections.All()
			if checked.Meta().Kind != KindPlain || len(c) != 1 || c[0].Requester.IP.String() != "10.0.0.1" {
				t.Errorf("kind %v, connections %v", checked.Meta().Kind, c)
			}
		})
	}
}

// The time in an ERSPAN III header is the switch's, here the file's to 100 ns, across a wrap of its 32 bits.
func TestERSPANTimesReplaceThoseOfTheFile(t *testing.T) {
	file, err := readGzip("testdata/encapsulation/erspan3.pcap.gz")
	if err != nil {
		t.Fatal(err)
	}
	plain := recordsOf(t, FileSource("testdata/encapsulation/plain.pcap.gz"), false)
	for i, at := 0, pcapHeaderLen; at < len(file); i++ { // hold back each frame on its way to the capture by another time
		ns := int64(binary.LittleEndian.Uint32(file[at:]))*1e9 + int64(binary.LittleEndian.Uint32(file[at+4:]))
		if i > 1 {
			ns += int64(i*7919%1000) * 1000
		}
		binary.LittleEndian.PutUint32(file[at:], uint32(ns/1e9))
		binary.LittleEndian.PutUint32(file[at+4:], uint32(ns%1e9))
		at += pcapRecordLen + int(binary.LittleEndian.Uint32(file[at+8:]))
	}
	got := recordsOf(t, memorySource("erspan3.pcap", file), false)
	for i := range got {
		if d := got[i].TimeNS - plain[i].TimeNS; d < -100 || d > 100 {
			t.Errorf("packet %d: %d ns from the time of the switch", i, d)
		}
	}
	checked, _, err := Check(t.Context(), memorySource("erspan3.pcap", file), Options{})
	if err != nil || !strings.Contains(strings.Join(checked.Meta().Notes, "\n"),
		"40 frames are those of their ERSPAN III headers") {
		t.Errorf("%v: notes %q", err, checked.Meta().Notes)
	}
}

// A switch whose ERSPAN clock does not advance does not make all packets simultaneous.
func TestAnERSPANClockThatStandsStillIsIgnored(t *testing.T) {
	var s stamps
	for i := range int64(10) {
		at := 1_000_000_000 * (i + 1)
		got := s.time(encapsulation.Stamp{Valid: true, Ticks: 7, UnitNS: 100}, at)
		if got != at {
			t.Errorf("frame %d: %d, want %d", i, got, at)
		}
	}
	if n := s.notes(); len(n) != 2 || !strings.Contains(n[1], "1 of 1 switches") {
		t.Errorf("notes %q", n)
	}
}

func readGzip(path string) ([]byte, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	z, err := gzip.NewReader(f)
	if err != nil {
		return nil, err
	}
	return io.ReadAll(z)
}

func TestCompressedCaptures(t *testing.T) {
	plain, err := readGzip("testdata/encapsulation/plain.pcap.gz")
	if err != nil {
		t.Fatal(err)
	}
	enc, err := zstd.NewWriter(nil)
	if err != nil {
		t.Fatal(err)
	}
	packed := enc.EncodeAll(plain, nil)
	want := recordsOf(t, memorySource("plain", plain), false)
	if diff := cmp.Diff(want, recordsOf(t, memorySource("plain.zst", packed), false)); diff != "" {
		t.Error(diff)
	}
	var two bytes.Buffer
	z := gzip.NewWriter(&two)
	_, _ = z.Write(plain)
	_ = z.Close()
	for name, file := range map[string][]byte{"gzip": two.Bytes(), "zstd": packed} {
		for _, cut := range []int{5, 100, len(file) - 9, len(file) - 1} {
			n := 0
			err := memorySource("cut", file[:cut]).ForEachFrame(t.Context(), func(*Frame) error { n++; return nil })
			var fe *FileError
			if !errors.As(err, &fe) {
				t.Errorf("%s cut at %d of %d bytes: %d frames, error %v", name, cut, len(file), n, err)
			}
			if cut > len(file)-10 && !errors.Is(err, ErrTruncatedFile) {
				t.Errorf("%s cut at %d of %d bytes: error %v is not that of a truncated file", name, cut, len(file), err)
			}
		}
	}
}

func TestFilesThatAreNotReadAreNamedWithAWayToConvertThem(t *testing.T) {
	linkType := func(n uint32) string {
		b := pcapFile(binary.LittleEndian, magicNano, 1, n, nil)
		return string(b)
	}
	for _, tc := range []struct{ file, want, advice string }{
		{"\xfd7zXZ\x00 something", "an xz archive", "xz -dc"},
		{"BZh9 something", "a bzip2 archive", "bzip2 -dc"},
		{"\x04\x22\x4d\x18 something", "an lz4 archive", "lz4 -dc"},
		{"PK\x03\x04 something", "a zip archive", "unzip -p"},
		{"snoop\x00\x00\x00\x00\x00\x00\x02\x00\x00\x00\x04", "a snoop capture", "editcap"},
		{"GMBU something or other", "a Network Monitor capture", "editcap"},
		{linkType(105), "IEEE 802.11 (105)", "Ethernet interface"},
		{linkType(247), "InfiniBand (247)", "native InfiniBand"},
		{linkType(999), "link type 999", "Ethernet interface"},
	} {
		_, err := memorySource("x", []byte(tc.file)).OpenFrames()
		if err == nil || !strings.Contains(err.Error(), tc.want) || !strings.Contains(err.Error(), tc.advice) {
			t.Errorf("%q: %v", tc.want, err)
		}
	}
}

// partsOf cuts a capture into files of n frames, as tcpdump -C does.
func partsOf(t *testing.T, file []byte, n int) (parts [][]byte) {
	t.Helper()
	header := file[:pcapHeaderLen]
	part, frames := bytes.Clone(header), 0
	for at := pcapHeaderLen; at < len(file); {
		end := at + pcapRecordLen + int(binary.LittleEndian.Uint32(file[at+8:]))
		part, at = append(part, file[at:end]...), end
		if frames++; frames%n == 0 || at == len(file) {
			parts, part = append(parts, part), bytes.Clone(header)
		}
	}
	return parts
}

func TestSeveralFilesOfARingBufferAreOneCapture(t *testing.T) {
	file, err := readGzip("testdata/encapsulation/plain.pcap.gz")
	if err != nil {
		t.Fatal(err)
	}
	want := recordsOf(t, memorySource("whole", file), false)
	var sources []Source
	for i, p := range partsOf(t, file, 9) {
		sources = append(sources, memorySource(string(rune('a'+i)), p))
	}
	sources = append(sources, memorySource("empty", file[:pcapHeaderLen]))
	sources[0], sources[3] = sources[3], sources[0] // a shell lists a ring in no particular order
	joined, err := Join(sources...)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(want, recordsOf(t, joined, false)); diff != "" {
		t.Error(diff)
	}
	if joined.Name != "a, b, c, d, e, empty" {
		t.Errorf("name %q", joined.Name)
	}
	twice, err := Join(memorySource("a", file), memorySource("b", file))
	if err != nil {
		t.Fatal(err)
	}
	err = twice.ForEachFrame(t.Context(), func(*Frame) error { return nil })
	if err == nil || !strings.Contains(err.Error(), "starts") || !strings.Contains(err.Error(), "--after") {
		t.Errorf("files that overlap: %v", err)
	}
}

// Interface statistics of a pcapng file say how many frames the capture missed.
func TestDropCountsOfPcapng(t *testing.T) {
	for _, order := range []binary.AppendByteOrder{binary.LittleEndian, binary.BigEndian} {
		option := func(b []byte, code uint16, value []byte) []byte {
			b = append(order.AppendUint16(order.AppendUint16(b, code), uint16(len(value))), value...)
			return append(b, make([]byte, -len(value)&3)...)
		}
		block := func(b []byte, kind uint32, body []byte) []byte {
			n := uint32(len(body) + ngBlockMin)
			b = order.AppendUint32(order.AppendUint32(b, kind), n)
			return order.AppendUint32(append(b, body...), n)
		}
		number := func(n uint64) []byte { return order.AppendUint64(nil, n) }
		b := block(nil, ngSection, append(order.AppendUint32(nil, ngByteOrder), make([]byte, 12)...))
		for _, name := range []string{"eth0", "eth1", "eth2"} {
			iface := order.AppendUint32(order.AppendUint16(order.AppendUint16(nil, 1), 0), 0)
			b = block(b, ngInterface, option(iface, ngOptName, []byte(name)))
		}
		enhanced := order.AppendUint32(order.AppendUint32(make([]byte, 12), 5), 5)
		b = block(b, ngEnhanced, option(append(enhanced, "hello\x00\x00\x00"...), ngOptDropCount, number(3)))
		statistics := func(index uint32, dropped, os uint64) {
			body := append(order.AppendUint32(nil, index), make([]byte, 8)...)
			body = option(option(option(body, 4, number(100)), 5, number(dropped)), 7, number(os))
			b = block(b, ngStatistics, body)
		}
		statistics(0, 2, 5)
		statistics(1, 0, 0)
		statistics(7, 9, 9) // of no interface
		file, err := memorySource("x.pcapng", b).OpenFrames()
		if err != nil {
			t.Fatal(err)
		}
		var f Frame
		for err == nil {
			err = file.Next(&f)
		}
		if !errors.Is(err, io.EOF) {
			t.Fatal(err)
		}
		want := []Interface{
			{File: "x.pcapng", Name: "eth0", Link: 1, Counted: true, Received: 100, Dropped: 7},
			{File: "x.pcapng", Name: "eth1", Link: 1, Counted: true, Received: 100},
			{File: "x.pcapng", Name: "eth2", Link: 1},
		}
		if diff := cmp.Diff(want, file.Interfaces()); diff != "" {
			t.Error(diff)
		}
		if n := file.notes(); len(n) != 1 || !strings.Contains(n[0], "eth0: the capture missed 7 frames") {
			t.Errorf("notes %q", n)
		}
	}
}

// Files are parts of one capture, or captures of two places, whose clocks may be far apart.
func TestFilesOfOneCaptureAreDistinguishedFromCapturesOfTwoPlaces(t *testing.T) {
	file, err := readGzip("testdata/encapsulation/plain.pcap.gz")
	if err != nil {
		t.Fatal(err)
	}
	var parts []Source
	for i, p := range partsOf(t, file, 9) {
		parts = append(parts, memorySource(string(rune('a'+i)), p))
	}
	slices.Reverse(parts)
	later := bytes.Clone(file)
	for at := pcapHeaderLen; at < len(later); at += pcapRecordLen + int(binary.LittleEndian.Uint32(later[at+8:])) {
		binary.LittleEndian.PutUint32(later[at:], binary.LittleEndian.Uint32(later[at:])+100)
	}
	cooked, err := readGzip("testdata/encapsulation/sll.pcap.gz")
	if err != nil {
		t.Fatal(err)
	}
	whole := memorySource("whole", file)
	third := func(file []byte, from, to int) Source {
		part := bytes.Clone(file[:pcapHeaderLen])
		for i, p := range partsOf(t, file, 9) {
			if i >= from && i < to {
				part = append(part, p[pcapHeaderLen:]...)
			}
		}
		return memorySource("part", part)
	}
	n := len(parts)
	for _, tc := range []struct {
		name  string
		parts []Source
		want  bool
	}{
		{"a ring buffer", parts, true},
		{"one file", []Source{whole}, true},
		{"the same place at the same time", []Source{whole, whole}, false},
		{"another clock", []Source{whole, memorySource("later", later)}, false},
		{"another clock and a part only", []Source{parts[0], memorySource("later", later)}, false},
		{"another clock and files that share a third", []Source{third(file, 0, 2*n/3), third(later, n/3, n)}, false},
		{"another link type", []Source{whole, memorySource("cooked", cooked)}, false},
	} {
		got, err := Continuous(t.Context(), tc.parts)
		if err != nil || got != tc.want {
			t.Errorf("%s: %v, %v", tc.name, got, err)
		}
	}
}
