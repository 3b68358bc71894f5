package trace

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"math"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"candela.dev/candela/packet/encapsulation"
)

// ngWriter writes pcapng blocks as another program might.
type ngWriter struct {
	order binary.AppendByteOrder
	b     []byte
}

func (w *ngWriter) block(kind uint32, body ...[]byte) {
	all := bytes.Join(body, nil)
	all = append(all, make([]byte, -len(all)&3)...)
	n := uint32(len(all) + ngBlockMin)
	w.b = w.order.AppendUint32(w.order.AppendUint32(w.b, kind), n)
	w.b = w.order.AppendUint32(append(w.b, all...), n)
}

func (w *ngWriter) u16(v ...uint16) (b []byte) {
	for _, x := range v {
		b = w.order.AppendUint16(b, x)
	}
	return b
}

func (w *ngWriter) u32(v ...uint32) (b []byte) {
	for _, x := range v {
		b = w.order.AppendUint32(b, x)
	}
	return b
}

func (w *ngWriter) u64(v uint64) []byte { return w.order.AppendUint64(nil, v) }

func (w *ngWriter) option(code uint16, value []byte) []byte {
	return bytes.Join([][]byte{w.u16(code, uint16(len(value))), value, make([]byte, -len(value)&3)}, nil)
}

func (w *ngWriter) section() {
	w.block(ngSection, w.u32(ngByteOrder, 0, 0, 0))
}

func (w *ngWriter) iface(link uint16, snap uint32, options ...[]byte) {
	w.block(ngInterface, w.u16(link, 0), w.u32(snap), bytes.Join(options, nil))
}

func (w *ngWriter) enhanced(index uint32, stamp uint64, data []byte, orig int, options ...[]byte) {
	w.block(ngEnhanced, w.u32(index, uint32(stamp>>32), uint32(stamp), uint32(len(data)), uint32(orig)), data,
		make([]byte, -len(data)&3), bytes.Join(options, nil))
}

// frames reads what was written, and the interfaces.
func (w *ngWriter) frames(src io.Reader) (out []written, ifaces []Interface, err error) {
	r, err := newPcapngReader(src, "x.pcapng")
	if err != nil {
		return nil, nil, err
	}
	var f Frame
	for {
		if err := r.Next(&f); err != nil {
			if errors.Is(err, io.EOF) {
				err = nil
			}
			return out, r.all, err
		}
		out = append(out, written{f.TimeNS, append([]byte{}, f.Data...), f.OrigLen})
	}
}

// TestPcapngOfAnyShapeIsReadAsItWasWritten draws sections, interfaces, packets of every kind, options and statistics.
func TestPcapngOfAnyShapeIsReadAsItWasWritten(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		w := &ngWriter{}
		var want []written
		var ifaces []Interface
		type face struct {
			units  uint64
			offset int64
			snap   uint32
			at     int // in ifaces
		}
		for range rapid.IntRange(1, 2).Draw(t, "sections") {
			w.order = rapid.SampledFrom([]binary.AppendByteOrder{binary.LittleEndian, binary.BigEndian}).Draw(t, "order")
			w.section()
			var faces []face
			for range rapid.IntRange(1, 3).Draw(t, "interfaces") {
				f := face{units: 1_000_000, at: len(ifaces), snap: rapid.SampledFrom([]uint32{0, 3, 1 << 16}).Draw(t, "snap")}
				described := Interface{File: "x.pcapng", Link: encapsulation.LinkEthernet}
				options := [][]byte{w.option(1, []byte("a comment"))}
				if name := rapid.SampledFrom([]string{"", "eth0", "\xff", strings.Repeat("n", 64), strings.Repeat("n", 70)}).Draw(t,
					"name"); name != "" {
					options = append(options, w.option(ngOptName, []byte(name)))
					described.Name = strings.ToValidUTF8(name[:min(len(name), 64)], "?")
				}
				switch v := rapid.SampledFrom([]byte{0xff, 0, 3, 9, 0x80, 0x94}).Draw(t, "resolution"); v {
				case 0xff:
				case 0x80, 0x94:
					f.units = 1 << (v & 0x7f)
					options = append(options, w.option(ngOptResolution, []byte{v}))
				default:
					f.units = uint64(math.Pow10(int(v)))
					options = append(options, w.option(ngOptResolution, []byte{v}))
				}
				if rapid.Bool().Draw(t, "offset") {
					f.offset = rapid.Int64Range(-1000, 1000).Draw(t, "seconds")
					options = append(options, w.option(ngOptOffset, w.u64(uint64(f.offset))))
				}
				if rapid.Bool().Draw(t, "end") { // what follows the end of options is none
					options = append(options, w.u16(0, 0), w.option(ngOptName, []byte("not this")))
				}
				w.iface(1, f.snap, options...)
				faces, ifaces = append(faces, f), append(ifaces, described)
			}
			for range rapid.IntRange(0, 6).Draw(t, "blocks") {
				index := rapid.IntRange(0, len(faces)-1).Draw(t, "interface")
				f := faces[index]
				data := bytes.Repeat([]byte{byte(len(want) + 1)}, rapid.IntRange(0, 9).Draw(t, "length"))
				seconds, part := rapid.Uint64Range(2000, 2e9).Draw(t, "time"), rapid.Uint64Range(0, f.units-1).Draw(t, "part")
				at := (int64(seconds)+f.offset)*1e9 + int64(float64(part)*1e9/float64(f.units))
				switch rapid.IntRange(0, 4).Draw(t, "kind") {
				case 0:
					w.block(0x0bad, make([]byte, 4*rapid.IntRange(0, 5).Draw(t, "other")))
				case 1:
					f := faces[0]
					orig := len(data) + rapid.IntRange(0, 1).Draw(t, "more")
					if f.snap != 0 && int(f.snap) < len(data) {
						data = data[:f.snap]
					} else if orig > len(data) {
						orig = len(data) // a simple packet has all of it, or what the snap length leaves
					}
					w.block(ngSimplePacket, w.u32(uint32(orig)), data)
					want = append(want, written{f.offset * 1e9, append([]byte{}, data...), orig})
				case 2:
					n := w.u16(uint16(index), 7) // and a drop count, which is rarely written
					stamp := seconds*f.units + part
					w.block(ngPacket, n, w.u32(uint32(stamp>>32), uint32(stamp), uint32(len(data)), uint32(len(data)+5)), data)
					want = append(want, written{at, append([]byte{}, data...), len(data) + 5})
				case 3:
					dropped := rapid.Uint64Range(0, 3).Draw(t, "dropped")
					w.enhanced(uint32(index), seconds*f.units+part, data, len(data), w.option(2, w.u32(0)),
						w.option(ngOptDropCount, w.u64(dropped)))
					want = append(want, written{at, append([]byte{}, data...), len(data)})
					ifaces[f.at].Dropped += dropped
				case 4:
					received, dropped, os := rapid.Uint64().Draw(t, "received"), rapid.Uint64Range(0, 9).Draw(t, "interface's"),
						rapid.Uint64Range(0, 9).Draw(t, "system's")
					w.block(ngStatistics, w.u32(uint32(index), 0, 0), w.option(ngOptReceived, w.u64(received)), w.option(6, w.u64(99)),
						w.option(ngOptDropped, w.u64(dropped)), w.option(ngOptOSDropped, w.u64(os)), w.option(ngOptDropped, w.u32(77)))
					i := &ifaces[f.at]
					i.Counted, i.Received, i.Dropped = true, received, max(i.Dropped, dropped+os)
				}
			}
		}
		got, described, err := w.frames(iotest.HalfReader(bytes.NewReader(w.b)))
		if err != nil {
			t.Fatal(err)
		}
		near := cmp.Comparer(func(a, b int64) bool { return a-b <= 300 && b-a <= 300 }) // the model computes with floats
		if diff := cmp.Diff(want, got, near); diff != "" {
			t.Errorf("frames (-want +got):\n%s", diff)
		}
		if diff := cmp.Diff(ifaces, described); diff != "" {
			t.Errorf("interfaces (-want +got):\n%s", diff)
		}
	})
}

// TestDamagedPcapngSaysWhatIsWrong has one fault in each file, and for each bound a valid file at the bound.
func TestDamagedPcapngSaysWhatIsWrong(t *testing.T) {
	tests := []struct {
		name  string
		write func(w *ngWriter)
		want  string // in the error; empty: the file is read
	}{
		{"block shorter than its head", func(w *ngWriter) { w.b = append(w.b, w.u32(ngEnhanced, 8, 8)...) },
			"x.pcapng: packet 1 at byte 48: pcapng: block of type 6 has an impossible length of 8 bytes: the file is damaged " +
				"here"},
		{"block of a length that is no multiple of 4",
			func(w *ngWriter) { w.b = append(w.b, w.u32(ngEnhanced, 14, 0, 0)...) }, "an impossible length of 14 bytes"},
		{"shortest block", func(w *ngWriter) { w.block(77) }, ""},
		{"block that is too long to be looked into",
			func(w *ngWriter) { w.b = append(w.b, w.u32(ngEnhanced, ngMaxBlock+4, 0)...) },
			fmt.Sprintf("has %d bytes, beyond the limit of %d", ngMaxBlock+4, ngMaxBlock)},
		{"longest block, cut", func(w *ngWriter) { w.b = append(w.b, w.u32(ngEnhanced, ngMaxBlock, 0)...) },
			"file ends inside a record; the 0 packets before it are whole"},
		{"long block of no interest, cut", func(w *ngWriter) { w.b = append(w.b, w.u32(77, ngMaxBlock+4, 0)...) },
			"file ends inside a record"},
		{"file that ends inside the head of a block", func(w *ngWriter) { w.b = append(w.b, w.u32(77)...) },
			"file ends inside a record"},
		{"lengths that differ", func(w *ngWriter) { w.b = append(w.b, w.u32(ngInterface, 20, 1, 0, 24)...) },
			"gives its length as 20 and as 24"},
		{"byte order of no machine", func(w *ngWriter) { w.b = append(w.b, w.u32(ngSection, 28, 1, 0, 0, 0, 28)...) },
			"byte-order magic 01 00 00 00"},
		{"section cut inside its byte order", func(w *ngWriter) { w.b = append(w.b, w.u32(ngSection, 28)...) },
			"file ends inside a record"},
		{"interface of a section before", func(w *ngWriter) { w.section(); w.enhanced(0, 0, nil, 0) },
			"packet of interface 0, but 0 are described"},
		{"short interface", func(w *ngWriter) { w.block(ngInterface, w.u32(1)) },
			"interface description 2 of 4 bytes can't be right"},
		{"shortest interface", func(w *ngWriter) { w.block(ngInterface, w.u32(1, 0)) }, ""},
		{"packet of the last interface", func(w *ngWriter) { w.iface(1, 0); w.enhanced(1, 0, nil, 0) }, ""},
		{"packet of an interface that is not described", func(w *ngWriter) { w.iface(1, 0); w.enhanced(2, 0, nil, 0) },
			"packet of interface 2, but 2 are described"},
		{"short packet", func(w *ngWriter) { w.block(ngEnhanced, w.u32(0, 0, 0, 0)) },
			"packet block has 16 bytes, its header 20"},
		{"short simple packet", func(w *ngWriter) { w.block(ngSimplePacket) }, "packet block has 0 bytes, its header 4"},
		{"empty simple packet", func(w *ngWriter) { w.block(ngSimplePacket, w.u32(0)) }, ""},
		{"captured length at the end of the block", func(w *ngWriter) { w.block(ngEnhanced, w.u32(0, 0, 0, 4, 4, 0)) }, ""},
		{"captured length beyond its block", func(w *ngWriter) { w.block(ngEnhanced, w.u32(0, 0, 0, 5, 5, 0)) },
			"captured length 5 is beyond its block of 4 bytes"},
		{"captured length of all bits", func(w *ngWriter) { w.block(ngEnhanced, w.u32(0, 0, 0, math.MaxUint32, 5, 0)) },
			"captured length 4294967295 is beyond"},
		{"link type that is not read, without packets", func(w *ngWriter) { w.iface(127, 0) }, ""},
		{"link type that is not read", func(w *ngWriter) { w.iface(127, 0); w.enhanced(1, 0, nil, 0) },
			"interface 1: link type IEEE 802.11 with radiotap header (127) is not read"},
		{"finest resolutions", func(w *ngWriter) {
			w.iface(1, 0, w.option(ngOptResolution, []byte{19}))
			w.iface(1, 0, w.option(ngOptResolution, []byte{0x80 | 63}))
		}, ""},
		{"too fine a decimal resolution", func(w *ngWriter) { w.iface(1, 0, w.option(ngOptResolution, []byte{20})) },
			"timestamp resolution 0x14 is too fine"},
		{"too fine a binary resolution", func(w *ngWriter) { w.iface(1, 0, w.option(ngOptResolution, []byte{0x80 | 64})) },
			"timestamp resolution 0xc0 is too fine"},
		{"resolution of two bytes is none", func(w *ngWriter) { w.iface(1, 0, w.option(ngOptResolution, []byte{99, 99})) },
			""},
		{"offset of four bytes is none",
			func(w *ngWriter) { w.iface(1, 0, w.option(ngOptOffset, w.u32(1<<31))); w.enhanced(1, 0, nil, 0) }, ""},
		{"latest stamp", func(w *ngWriter) {
			w.iface(1, 0, w.option(ngOptResolution, []byte{0}))
			w.enhanced(1, 9223372035, nil, 0)
		}, ""},
		{"stamp out of range", func(w *ngWriter) {
			w.iface(1, 0, w.option(ngOptResolution, []byte{0}))
			w.enhanced(1, 9223372036, nil, 0)
		},
			"timestamp 9223372036 in units of 1/1 s is out of range"},
		{"offset out of range", func(w *ngWriter) {
			w.iface(1, 0, w.option(ngOptOffset, w.u64(9223372036)))
			w.enhanced(1, 0,
				nil, 0)
		}, "is out of range"},
		{"offset far in the past", func(w *ngWriter) {
			w.iface(1, 0, w.option(ngOptOffset, w.u64(-9223372036&math.MaxUint64)))
			w.enhanced(1, 0, nil, 0)
		}, "is out of range"},
		{"offset and stamp in range, but not their sum", func(w *ngWriter) {
			w.iface(1, 0, w.option(ngOptOffset, w.u64(9223372035)), w.option(ngOptResolution, []byte{0}))
			w.enhanced(1, 1, nil, 0)
		}, "is out of range"},
		{"stamp beyond any", func(w *ngWriter) {
			w.iface(1, 0, w.option(ngOptResolution, []byte{0}))
			w.enhanced(1, math.MaxUint64-7, nil, 0)
		}, "is out of range"},
		{"stamp beyond any, brought back by the offset", func(w *ngWriter) {
			w.iface(1, 0, w.option(ngOptResolution, []byte{0}), w.option(ngOptOffset, w.u64(-9223372035&math.MaxUint64)))
			w.enhanced(1, 9223372036, nil, 0)
		}, "is out of range"},
		{"offset beyond any", func(w *ngWriter) {
			w.iface(1, 0, w.option(ngOptOffset, w.u64(math.MaxInt64)))
			w.enhanced(1, 1<<40, nil, 0)
		}, "is out of range"},
		{"offset before any, brought back by the stamp", func(w *ngWriter) {
			w.iface(1, 0, w.option(ngOptOffset, w.u64(-9223372036&math.MaxUint64)), w.option(ngOptResolution, []byte{0}))
			w.enhanced(1, 9223372035, nil, 0)
		}, "is out of range"},
		{"earliest offset", func(w *ngWriter) {
			w.iface(1, 0, w.option(ngOptOffset, w.u64(-9223372035&math.MaxUint64)))
			w.enhanced(1, 0, nil, 0)
		}, ""},
		{"latest offset", func(w *ngWriter) {
			w.iface(1, 0, w.option(ngOptOffset, w.u64(9223372035)))
			w.enhanced(1, 0, nil,
				0)
		}, ""},
		{"drop count of another kind of packet or of another length", func(w *ngWriter) {
			w.enhanced(0, 0, nil, 0, w.option(ngOptDropCount, w.u32(9)), w.option(3, w.u64(9)))
			w.block(ngPacket, w.u32(0, 0, 0, 0, 0), w.option(ngOptDropCount, w.u64(9)))
		}, ""},
		{"statistics of another length",
			func(w *ngWriter) { w.block(ngStatistics, w.u32(0, 0, 0), w.option(ngOptDropped, w.u32(9))) }, ""},
		{"statistics that are too short, and of no interface", func(w *ngWriter) {
			w.block(ngStatistics, w.u32(0, 0))
			w.block(ngStatistics, w.u32(1, 0, 0), w.option(ngOptDropped, w.u64(5)))
		}, ""},
		{"options that are cut", func(w *ngWriter) { w.iface(1, 0, w.u16(ngOptResolution, 4), []byte{99}) }, ""},
		{"option that fills its block", func(w *ngWriter) { w.iface(1, 0, w.u16(ngOptResolution, 1), []byte{99, 0, 0, 0}) },
			"too fine"},
		{"option without a value", func(w *ngWriter) {
			w.iface(1, 0, w.option(1, nil),
				w.option(ngOptResolution, []byte{99}))
		}, "too fine"},
		{"as many interfaces as a section may have", func(w *ngWriter) {
			for range maxInterfaces - 1 {
				w.iface(1, 0)
			}
		}, ""},
		{"one more", func(w *ngWriter) {
			for range maxInterfaces {
				w.iface(1, 0)
			}
		}, "interface description 4097 of 8 bytes can't be right"},
		{"more interfaces in a file, whose drops are not counted", func(w *ngWriter) {
			for range maxInterfaces {
				w.section()
				w.iface(1, 0)
			}
			w.enhanced(0, 0, nil, 0, w.option(ngOptDropCount, w.u64(1)))
			w.block(ngStatistics, w.u32(0, 0, 0), w.option(ngOptDropped, w.u64(5)))
		}, ""},
	}
	for _, test := range tests {
		w := &ngWriter{order: binary.LittleEndian}
		w.section()
		w.iface(1, 0)
		test.write(w)
		_, ifaces, err := w.frames(bytes.NewReader(w.b))
		switch {
		case test.want == "" && err != nil, test.want != "" && (err == nil || !strings.Contains(err.Error(), test.want)):
			t.Errorf("%s: error %v, want %q", test.name, err, test.want)
		case test.want == "" && len(ifaces) > maxInterfaces:
			t.Errorf("%s: %d interfaces", test.name, len(ifaces))
		case len(ifaces) == 0 || ifaces[0].Counted || ifaces[0].Dropped != 0:
			t.Errorf("%s: %+v", test.name, ifaces[:min(len(ifaces), 1)])
		}
	}
	w := &ngWriter{order: binary.LittleEndian}
	w.section()
	if _, _, err := w.frames(bytes.NewReader(w.b[:ngBlockMin-1])); !errors.Is(err, ErrTruncatedFile) {
		t.Errorf("file of %d bytes: %v", ngBlockMin-1, err)
	}
	broken := io.MultiReader(bytes.NewReader(w.b), iotest.ErrReader(errDiskFull))
	if _, _, err := w.frames(broken); !errors.Is(err, errDiskFull) || strings.Contains(err.Error(), "whole") {
		t.Errorf("disk that fails: %v", err)
	}
}

// TestPcapngCutAnywhereSaysHowManyPacketsAreWhole cuts a file at each byte.
func TestPcapngCutAnywhereSaysHowManyPacketsAreWhole(t *testing.T) {
	w := &ngWriter{order: binary.BigEndian}
	ends := map[int]int{} // of blocks, with the packets before them
	packets := 0
	mark := func(n int) { packets += n; ends[len(w.b)] = packets }
	w.section()
	mark(0)
	w.iface(1, 0, w.option(ngOptName, []byte("eth0")))
	mark(0)
	w.enhanced(0, 1, []byte("hello"), 5, w.option(ngOptDropCount, w.u64(1)))
	mark(1)
	w.block(77, w.u32(1, 2, 3))
	mark(0)
	w.block(ngSimplePacket, w.u32(4), []byte("abcd"))
	mark(1)
	w.order = binary.LittleEndian
	w.section()
	mark(0)
	w.block(ngInterface, w.u16(1, 0), w.u32(0))
	mark(0)
	w.enhanced(0, 1, nil, 0)
	mark(1)
	before := 0
	for cut := range len(w.b) + 1 {
		got, _, err := w.frames(iotest.OneByteReader(bytes.NewReader(w.b[:cut])))
		if n, whole := ends[cut]; whole {
			before = n
			if err != nil || len(got) != n {
				t.Errorf("cut at %d: %d packets, %v", cut, len(got), err)
			}
			continue
		}
		want := fmt.Sprintf("the %d packets before it are whole", before)
		if !errors.Is(err, ErrTruncatedFile) || !strings.Contains(err.Error(), want) || len(got) != before {
			t.Errorf("cut at %d: %d packets, %v, want %q", cut, len(got), err, want)
		}
	}
}

// TestTheLengthOfAFileThatWasLookedAtIsThatOfTheWhole has four bytes given back.
func TestTheLengthOfAFileThatWasLookedAtIsThatOfTheWhole(t *testing.T) {
	r := &prefixedReader{prefix: []byte("1234"), rest: bytes.NewReader(make([]byte, 6))}
	if r.Len() != 10 {
		t.Errorf("Len %d, want 10", r.Len())
	}
	r.rest = io.MultiReader()
	if r.Len() != math.MaxInt {
		t.Errorf("Len %d of a source that does not know its own", r.Len())
	}
}
