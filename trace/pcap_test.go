package trace

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"candela.dev/candela/runtimetest"
)

// written is a frame as a test writes and expects it.
type written struct {
	TimeNS int64
	Data   []byte
	Orig   int
}

// readAll reads every frame of a file, and the error that ended it.
func readAll(data []byte) ([]written, error) {
	var out []written
	err := memorySource("test.pcap", data).ForEachFrame(context.Background(), func(f *Frame) error {
		out = append(out, written{f.TimeNS, bytes.Clone(f.Data), f.OrigLen})
		return nil
	})
	return out, err
}

// pcapFile writes a pcap file as another program might.
func pcapFile(order binary.AppendByteOrder, magic uint32, unit int64, link uint32, frames []written) []byte {
	b := order.AppendUint32(nil, magic)
	b = order.AppendUint16(b, 2)
	b = order.AppendUint16(b, 4)
	b = order.AppendUint64(b, 0)
	b = order.AppendUint32(b, 65535)
	b = order.AppendUint32(b, link)
	for _, f := range frames {
		b = order.AppendUint32(b, uint32(f.TimeNS/1e9))
		b = order.AppendUint32(b, uint32(f.TimeNS%1e9/unit))
		b = order.AppendUint32(b, uint32(len(f.Data)))
		b = order.AppendUint32(b, uint32(f.Orig))
		b = append(b, f.Data...)
	}
	return b
}

func TestEveryFlavourOfPcapIsRead(t *testing.T) {
	frames := []written{{1_700_000_000_123_456_000, []byte("hello"), 5}, {1_700_000_001_999_999_000, []byte("cut"), 900},
		{0, []byte{}, 0}}
	for _, tc := range []struct {
		name  string
		order binary.AppendByteOrder
		magic uint32
		unit  int64
	}{
		{"little-endian microseconds", binary.LittleEndian, magicMicro, 1000},
		{"big-endian microseconds", binary.BigEndian, magicMicro, 1000},
		{"little-endian nanoseconds", binary.LittleEndian, magicNano, 1},
		{"big-endian nanoseconds", binary.BigEndian, magicNano, 1},
	} {
		t.Run(tc.name, func(t *testing.T) {
			got, err := readAll(pcapFile(tc.order, tc.magic, tc.unit, linkEthernet, frames))
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(frames, got); diff != "" {
				t.Error(diff)
			}
		})
	}
}

func TestWrittenFramesComeBackWhateverTheReadSizes(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var want []written
		var b bytes.Buffer
		w := NewPcapWriter(&b, "x", 0)
		for range rapid.IntRange(0, 8).Draw(t, "n") {
			data := bytes.Repeat([]byte{rapid.Byte().Draw(t, "byte")},
				rapid.SampledFrom([]int{0, 1, 60, 1500, 9000, 150_000}).Draw(t, "len"))
			f := written{rapid.Int64Range(0, 1<<32*1e9-1).Draw(t, "time"), data,
				len(data) + rapid.IntRange(0, 9).Draw(t, "more")}
			want = append(want, f)
			if err := w.Write(f.TimeNS, f.Data, f.Orig); err != nil {
				t.Fatal(err)
			}
		}
		if err := w.Flush(); err != nil {
			t.Fatal(err)
		}
		if w.Bytes() != int64(b.Len()) {
			t.Errorf("Bytes says %d, the file has %d", w.Bytes(), b.Len())
		}
		src := Source{Name: "x", Open: func() (io.ReadCloser,
			error) {
			return io.NopCloser(iotest.HalfReader(bytes.NewReader(b.Bytes()))), nil
		}}
		var got []written
		err := src.ForEachFrame(context.Background(), func(f *Frame) error {
			got = append(got, written{f.TimeNS, append([]byte{}, f.Data...), f.OrigLen})
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
		equal := func(a, b written) bool {
			return a.TimeNS == b.TimeNS && a.Orig == b.Orig && bytes.Equal(a.Data, b.Data)
		}
		if !slices.EqualFunc(want, got, equal) {
			t.Errorf("%d frames differ from the %d written", len(got), len(want))
		}
	})
}

func TestFileCutAnywhereKeepsTheWholeRecordsAndSaysSo(t *testing.T) {
	frames := []written{{1, []byte("first"), 5}, {2, []byte("second"), 6}}
	file := pcapFile(binary.LittleEndian, magicNano, 1, linkEthernet, frames)
	ends := map[int]int{pcapHeaderLen: 0, pcapHeaderLen + 21: 1, len(file): 2}
	for cut := range len(file) + 1 {
		got, err := readAll(file[:cut])
		if want, whole := ends[cut]; whole {
			if err != nil || len(got) != want {
				t.Errorf("cut at %d: %d frames, %v", cut, len(got), err)
			}
			continue
		}
		if !errors.Is(err, ErrTruncatedFile) {
			t.Errorf("cut at %d: error %v", cut, err)
		}
		if whole := cut > pcapHeaderLen+21; len(got) == 1 != whole {
			t.Errorf("cut at %d: %d whole records", cut, len(got))
		}
	}
	_, err := readAll(file[:len(file)-1])
	const want = "test.pcap: packet 2 at byte 45: file ends inside a record: 21 of its 22 bytes are there; the 1 " +
		"packets before it are whole"
	if err == nil || err.Error() != want {
		t.Errorf("error\n%v\nwant\n%v", err, want)
	}
}

func TestUnreadableFilesSayWhatIsWrong(t *testing.T) {
	one := []written{{1, []byte("first"), 5}}
	good := pcapFile(binary.LittleEndian, magicNano, 1, linkEthernet, one)
	patch := func(at int, v uint32) []byte {
		b := bytes.Clone(good)
		binary.LittleEndian.PutUint32(b[at:], v)
		return b
	}
	for _, tc := range []struct {
		name string
		file []byte
		want string
	}{
		{"garbage", []byte(strings.Repeat("candela!", 8)),
			"test.pcap: file header: not a capture file: it starts with 63 61 6e 64"},
		{"empty", nil, "test.pcap: file header: file ends inside a record: the file is empty"},
		{"other link type", patch(20, 127),
			"link type IEEE 802.11 with radiotap header (127) is not read (read are Ethernet, Linux cooked"},
		{"other version", patch(4, 3), "pcap version 3.0 (2.4 is read)"},
		{"absurd length", patch(pcapHeaderLen+8, 1<<31),
			"packet 1 at byte 24: captured length 2147483648 is beyond the limit of 65535"},
		{"absurd fraction", patch(pcapHeaderLen+4, 1e9), "packet 1 at byte 24: fraction of a second 1000000000"},
	} {
		if _, err := readAll(tc.file); err == nil || !strings.Contains(err.Error(), tc.want) {
			t.Errorf("%s: error %v, want %q", tc.name, err, tc.want)
		}
	}
}

// fullDisk takes a number of bytes and then refuses.
type fullDisk struct{ room int }

var errDiskFull = errors.New("no space left on device")

func (d *fullDisk) Write(b []byte) (int, error) {
	n := min(len(b), d.room)
	d.room -= n
	if n < len(b) {
		return n, errDiskFull
	}
	return n, nil
}

func TestFullDiskNamesTheFileAndWhatItKeeps(t *testing.T) {
	w := NewPcapWriter(&fullDisk{room: 300 << 10}, "shards/d1-0.pcap", 0)
	frame := make([]byte, 1000)
	var err error
	for range 1000 {
		if err = w.Write(0, frame, len(frame)); err != nil {
			break
		}
	}
	if !errors.Is(err, errDiskFull) || !strings.Contains(err.Error(), "shards/d1-0.pcap: packet ") ||
		!strings.Contains(err.Error(), "keeps 307200 bytes") {
		t.Errorf("error %v", err)
	}
	if second := w.Flush(); !errors.Is(second, errDiskFull) {
		t.Errorf("the error was forgotten: %v", second)
	}
}

func TestCapturesOfOtherProgramsReadAlike(t *testing.T) {
	editcap, err := exec.LookPath("editcap")
	if err != nil {
		t.Skip("editcap is not installed (Debian package wireshark-common)")
	}
	const capture = "../packet/testdata/rxe/write-drop5.in.pcap"
	original, err := os.ReadFile(capture)
	if err != nil {
		t.Fatal(err)
	}
	want, err := readAll(original)
	if err != nil {
		t.Fatal(err)
	}
	for _, format := range []string{"pcapng", "nsecpcap"} {
		out := filepath.Join(t.TempDir(), "out")
		if msg, err := exec.Command(editcap, "-F", format, capture, out).CombinedOutput(); err != nil {
			t.Fatalf("editcap: %v\n%s", err, msg)
		}
		converted, err := os.ReadFile(out)
		if err != nil {
			t.Fatal(err)
		}
		got, err := readAll(converted)
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("%s: %s", format, diff)
		}
	}
}

// pcapngFile returns a section with one interface (milliseconds, offset 1000 s) and one packet of each kind.
func pcapngFile(order binary.AppendByteOrder) []byte {
	block := func(b []byte, kind uint32, body []byte) []byte {
		for len(body)%4 != 0 {
			body = append(body, 0)
		}
		n := uint32(len(body) + ngBlockMin)
		b = order.AppendUint32(order.AppendUint32(b, kind), n)
		return order.AppendUint32(append(b, body...), n)
	}
	section := order.AppendUint32(nil, ngByteOrder)
	section = append(section, make([]byte, 12)...)
	b := block(nil, ngSection, section)
	b = block(b, 0x0bad, []byte("of no interest"))
	iface := order.AppendUint32(order.AppendUint16(order.AppendUint16(nil, linkEthernet), 0), 0)
	iface = append(order.AppendUint16(order.AppendUint16(iface, ngOptResolution), 1), 3, 0, 0, 0)
	iface = order.AppendUint64(order.AppendUint16(order.AppendUint16(iface, ngOptOffset), 8), 1000)
	b = block(b, ngInterface, iface)
	packet := order.AppendUint32(order.AppendUint32(order.AppendUint32(nil, 0), 0), 1500) // interface, stamp
	packet = append(order.AppendUint32(order.AppendUint32(packet, 5), 9), "hello"...)
	b = block(b, ngEnhanced, packet)
	return block(b, ngSimplePacket, append(order.AppendUint32(nil, 4), "abcd"...))
}

func TestPcapngTimesAndBlocks(t *testing.T) {
	want := []written{{1001_500_000_000, []byte("hello"), 9}, {1000_000_000_000, []byte("abcd"), 4}}
	for _, order := range []binary.AppendByteOrder{binary.LittleEndian, binary.BigEndian} {
		got, err := readAll(pcapngFile(order))
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("%v: %s", order, diff)
		}
	}
	file := pcapngFile(binary.LittleEndian)
	if got, err := readAll(file[:len(file)-1]); !errors.Is(err, ErrTruncatedFile) || len(got) != 1 {
		t.Errorf("cut file: %d frames, error %v", len(got), err)
	}
}

func FuzzReadCapture(f *testing.F) {
	frames := []written{{1, []byte("first"), 5}, {2, []byte("second"), 6}}
	f.Add(pcapFile(binary.LittleEndian, magicNano, 1, linkEthernet, frames))
	f.Add(pcapFile(binary.BigEndian, magicMicro, 1000, linkEthernet, frames))
	f.Add(pcapngFile(binary.LittleEndian))
	f.Add(pcapngFile(binary.BigEndian))
	f.Fuzz(func(t *testing.T, file []byte) {
		frames, err := readAll(file)
		var fe *FileError
		if err != nil && !errors.As(err, &fe) {
			t.Errorf("error %v is not a *FileError", err)
		}
		total := 0
		for _, f := range frames {
			total += len(f.Data)
		}
		const synthetic = 64 // bytes of headers that may be put before a frame of another link type
		compressed := bytes.HasPrefix(file, magicGzip) || bytes.HasPrefix(file, magicZstd)
		if total > len(file)+synthetic*len(frames) && !compressed {
			t.Errorf("%d bytes of frames from a file of %d", total, len(file))
		}
	})
}

func TestReadingAllocatesNothingPerPacket(t *testing.T) {
	data, _ := benchTrace(t, 2000)
	src := memorySource("x", data)
	read := func(n int) uint64 {
		return runtimetest.FewestAllocs(0, func() {
			seen := 0
			_ = src.ForEachFrame(context.Background(), func(*Frame) error {
				if seen++; seen == n {
					return errStop
				}
				return nil
			})
		})
	}
	if few, many := read(1), read(2000); many != few {
		t.Errorf("%v allocations for 2000 packets, %v for one", many, few)
	}
}
