package bundle

import (
	"archive/tar"
	"bytes"
	"errors"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/klauspost/compress/gzip"
	"github.com/klauspost/compress/zstd"
)

func compressed(t *testing.T, data []byte, how string) []byte {
	t.Helper()
	var b bytes.Buffer
	var err error
	switch how {
	case "gzip":
		z := gzip.NewWriter(&b)
		_, err = z.Write(data)
		err = errors.Join(err, z.Close())
	case "zstd":
		z, zerr := zstd.NewWriter(&b)
		if zerr != nil {
			t.Fatal(zerr)
		}
		_, err = z.Write(data)
		err = errors.Join(err, z.Close())
	default:
		return data
	}
	if err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

func unpacked(t *testing.T, data []byte) (dir string, u *Unpacked, err error) {
	t.Helper()
	file := filepath.Join(t.TempDir(), "archive")
	if err := os.WriteFile(file, data, 0o600); err != nil {
		t.Fatal(err)
	}
	a, err := OpenArchive(file)
	if err != nil || a == nil {
		t.Fatalf("%v, %v: not an archive", a, err)
	}
	defer func() {
		if err := a.Close(); err != nil {
			t.Error(err)
		}
	}()
	dir = t.TempDir()
	u, err = Unpack(a, dir)
	return dir, u, err
}

func TestArchivesAreUnpackedWhateverTheirForm(t *testing.T) {
	withTrace := func(m *Manifest) { m.Files[2].Stored = true }
	bundled := archive(t, manifest(t, withTrace), member{name: configName, data: "c"},
		member{name: "testbed.yml", data: "t"}, member{name: traceName, data: "p"})
	run := archive(t, member{name: "./runs/quick", kind: tar.TypeDir}, member{name: "./runs/quick/run.json", data: "{}"},
		member{name: "./runs/quick/trace.pcap", data: "p"})
	for _, how := range []string{"plain", "gzip", "zstd"} {
		dir, u, err := unpacked(t, compressed(t, bundled, how))
		if err != nil || u.Bundle == nil || u.Inner != "." || u.Bundle.Judgeable() != nil {
			t.Fatalf("%s: %+v, %v", how, u, err)
		}
		for _, name := range []string{manifestName, configName, traceName} {
			if _, err := os.Stat(filepath.Join(dir, name)); err != nil {
				t.Errorf("%s: %v", how, err)
			}
		}
		dir, u, err = unpacked(t, compressed(t, run, how))
		if err != nil || u.Bundle != nil || u.Inner != "runs/quick" {
			t.Fatalf("%s: %+v, %v", how, u, err)
		}
		if data, err := os.ReadFile(filepath.Join(dir, u.Inner, "trace.pcap")); err != nil || string(data) != "p" {
			t.Errorf("%s: %q, %v", how, data, err)
		}
	}
}

func TestABundleWithoutItsTraceIsNotJudged(t *testing.T) {
	_, u, err := unpacked(t, archive(t, manifest(t, nil), member{name: configName, data: "c"},
		member{name: "testbed.yml", data: "t"}))
	if err != nil {
		t.Fatal(err)
	}
	if err := u.Bundle.Judgeable(); !errors.Is(err, ErrInvalid) || !strings.Contains(err.Error(), "--with-trace") {
		t.Error(err)
	}
}

// TestHostileArchivesAreRefused also checks that nothing is written outside the directory.
func TestHostileArchivesAreRefused(t *testing.T) {
	run := member{name: "run.json", data: "{}"}
	many := []member{run}
	for i := range memberLimit + 1 {
		many = append(many, member{name: "frames/" + strconv.Itoa(i), kind: tar.TypeDir})
	}
	huge := archive(t, run, member{name: "trace.pcap", data: "p"})
	copy(huge[1024+124:], "77777777777\x00") // announces 8 GiB
	fixChecksum(huge[1024:1536])
	noise := make([]byte, 8192)
	draw := rand.New(rand.NewPCG(1, 2))
	for i := range noise {
		noise[i] = byte(draw.Uint32())
	}
	random := compressed(t, archive(t, run, member{name: "trace.pcap", data: string(noise)}), "gzip")
	damaged := bytes.Clone(random)
	damaged[len(damaged)-6] ^= 0x55 // in the checksum
	for name, tt := range map[string]struct {
		data []byte
		want string
	}{
		"a path upwards":          {archive(t, run, member{name: "../evil", data: "x"}), "points out of the archive"},
		"a path upwards and back": {archive(t, run, member{name: "a/../../evil", data: "x"}), "points out of the archive"},
		"an absolute path": {archive(t, run, member{name: "/tmp/candela-evil", data: "x"}),
			"points out of the archive"},
		"a backslash": {archive(t, run, member{name: `..\evil`, data: "x"}), "points out of the archive"},
		"a symbolic link": {archive(t, run, member{name: "trace.pcap", kind: tar.TypeSymlink}),
			"not a regular file"},
		"a hard link":  {archive(t, run, member{name: "trace.pcap", kind: tar.TypeLink}), "not a regular file"},
		"a device":     {archive(t, run, member{name: "trace.pcap", kind: tar.TypeChar}), "not a regular file"},
		"a file twice": {archive(t, run, run), "several runs"},
		"a file twice, elsewhere": {archive(t, run, member{name: "a", data: "x"}, member{name: "a", data: "x"}),
			"file exists"},
		"a file below a file": {archive(t, run, member{name: "a", data: "x"}, member{name: "a/b", data: "x"}), `"a/b"`},
		"two runs": {archive(t, member{name: "a/run.json"}, member{name: "b/run.json"}),
			"several runs, a and b"},
		"no run":                   {archive(t, member{name: "notes.txt", data: "x"}), "run.json"},
		"too many members":         {archive(t, many...), "more than 10000 members"},
		"more than the disk bears": {huge, "unpacks to more than"},
		"a wrong checksum of gzip": {damaged, "gzip"},
		"gzip that ends too early": {random[:len(random)/2], "gzip"},
		"a tar that ends too early": {archive(t, run, member{name: "trace.pcap", data: strings.Repeat("p", 4096)})[:3000],
			"EOF"},
	} {
		t.Run(name, func(t *testing.T) {
			dir, _, err := unpacked(t, tt.data)
			if !errors.Is(err, ErrInvalid) || !strings.Contains(err.Error(), tt.want) {
				t.Errorf("%v, want an invalid bundle and %q", err, tt.want)
			}
			for _, outside := range []string{filepath.Join(filepath.Dir(dir), "evil"), "/tmp/candela-evil"} {
				if _, err := os.Lstat(outside); err == nil {
					t.Errorf("%s was written", outside)
				}
			}
		})
	}
}

func fixChecksum(header []byte) {
	copy(header[148:156], "        ")
	sum := 0
	for _, b := range header {
		sum += int(b)
	}
	for i := range 6 {
		header[153-i] = '0' + byte(sum>>(3*i)&7)
	}
	header[154], header[155] = 0, ' '
}

func TestWhatIsNoArchiveIsLeftToOthers(t *testing.T) {
	for name, data := range map[string][]byte{
		"nothing": nil, "text": []byte("text"), "a capture": {0xd4, 0xc3, 0xb2, 0xa1, 2, 0, 4, 0},
		"compressed text":          compressed(t, []byte("text"), "gzip"),
		"the magic number of gzip": magicGzip, "the magic number of zstd": magicZstd, "zeros": make([]byte, 4096),
	} {
		file := filepath.Join(t.TempDir(), "file")
		if err := os.WriteFile(file, data, 0o600); err != nil {
			t.Fatal(err)
		}
		if a, err := OpenArchive(file); a != nil || err != nil {
			t.Errorf("%s: %v, %v", name, a, err)
		}
	}
}
