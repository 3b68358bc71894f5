package p4_test

import (
	"encoding/binary"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"google.golang.org/protobuf/encoding/protowire"

	"candela.dev/candela/injector/p4"
)

func write(t *testing.T, path, text string) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
}

func TestTheOutputOfATofinoCompilerIsPackedForItsServer(t *testing.T) {
	dir := t.TempDir()
	write(t, filepath.Join(dir, "pipe", "tofino2.bin"), "program")
	write(t, filepath.Join(dir, "pipe", "context.json"), "{}")
	packed, err := p4.ReadDeviceConfig(dir)
	if err != nil {
		t.Fatal(err)
	}
	number, kind, n := protowire.ConsumeTag(packed)
	if number != 3 || kind != protowire.BytesType {
		t.Fatalf("field %d of type %d, want device_data", number, kind)
	}
	data, m := protowire.ConsumeBytes(packed[n:])
	if n+m != len(packed) {
		t.Errorf("%d bytes behind device_data", len(packed)-n-m)
	}
	var chunks []string
	for len(data) > 0 {
		size := binary.LittleEndian.Uint32(data)
		chunks = append(chunks, string(data[4:4+size]))
		data = data[4+size:]
	}
	if want := []string{"candela", "program", "{}", ""}; !slices.Equal(chunks, want) {
		t.Errorf("chunks %q, want %q", chunks, want)
	}
}

func TestADeviceConfigThatIsAFileIsReadAsItIs(t *testing.T) {
	path := filepath.Join(t.TempDir(), "bmv2.json")
	write(t, path, "{}")
	if got, err := p4.ReadDeviceConfig(path); err != nil || string(got) != "{}" {
		t.Errorf("%q, %v", got, err)
	}
}

func TestDirectoriesThatNoCompilerLeftAreRefused(t *testing.T) {
	two := t.TempDir()
	write(t, filepath.Join(two, "pipe", "tofino.bin"), "1")
	write(t, filepath.Join(two, "pipe", "tofino2.bin"), "2")
	bare := t.TempDir()
	write(t, filepath.Join(bare, "pipe", "tofino.bin"), "1")
	for path, want := range map[string]string{
		t.TempDir():                           "0 files pipe/*.bin",
		two:                                   "2 files pipe/*.bin",
		bare:                                  "context.json",
		filepath.Join(t.TempDir(), "missing"): "no such file",
	} {
		if _, err := p4.ReadDeviceConfig(path); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %s", path, err, want)
		}
	}
}
