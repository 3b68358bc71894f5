package fabric

import (
	"reflect"
	"testing"
)

// TestFieldsStandInTheCacheLinesTheyAreUsedWith checks the layout for few cache misses, which limit a large network's
// speed. Offsets are in bytes, lines have 64.
func TestFieldsStandInTheCacheLinesTheyAreUsedWith(t *testing.T) {
	const line = 64
	tests := []struct {
		of     reflect.Type
		starts map[string]uintptr // of lines
		whole  bool               // the size is a multiple of a line, so that neighbours share none
	}{
		{reflect.TypeFor[Packet](), nil, true},
		{reflect.TypeFor[Port](), map[string]uintptr{"sw": line, "net": 2 * line}, true},
		{reflect.TypeFor[Queue](), map[string]uintptr{"removed": line}, true},
		{reflect.TypeFor[Switch](), map[string]uintptr{"routes": line, "source": 2 * line}, false},
	}
	for _, test := range tests {
		for name, want := range test.starts {
			if f, ok := test.of.FieldByName(name); !ok || f.Offset != want {
				t.Errorf("%v.%s is at byte %d, want %d", test.of, name, f.Offset, want)
			}
		}
		if test.whole && test.of.Size()%line != 0 {
			t.Errorf("a %v has %d bytes, want whole lines of %d", test.of, test.of.Size(), line)
		}
	}
	if size := reflect.TypeFor[Queue]().Size(); size > 2*line {
		t.Errorf("a queue has %d bytes, want at most %d", size, 2*line)
	}
	hot, _ := reflect.TypeFor[Header]().FieldByName("NDP")
	header, _ := reflect.TypeFor[Packet]().FieldByName("Header")
	if end := header.Offset + hot.Offset + 2; end > line || reflect.TypeFor[Packet]().Size() > 2*line {
		t.Errorf("what every hop reads of a packet ends at byte %d, want at most %d", end, line)
	}
}
