package bundle

import (
	"archive/tar"
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"io"
	"strings"
	"testing"
)

// member is one entry of a handmade archive.
type member struct {
	name string
	data string
	kind byte // 0: a regular file
}

func archive(t testing.TB, members ...member) []byte {
	t.Helper()
	var b bytes.Buffer
	w := tar.NewWriter(&b)
	for _, m := range members {
		h := header(m.name, int64(len(m.data)))
		if m.kind != 0 {
			h.Typeflag, h.Linkname = m.kind, "/etc/passwd"
		}
		if err := w.WriteHeader(h); err != nil {
			t.Fatal(err)
		}
		if _, err := io.WriteString(w, m.data); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

func file(name, data string, stored bool) File {
	sum := sha256.Sum256([]byte(data))
	return File{Name: name, Size: int64(len(data)), SHA256: hex.EncodeToString(sum[:]), Stored: stored}
}

// manifest returns the manifest of a small bundle with the given changes.
func manifest(t testing.TB, change func(*Manifest)) member {
	t.Helper()
	m := Manifest{Schema: Schema, Files: []File{file(configName, "c", true), file("testbed.yml", "t", true),
		file(traceName, "p", false)}}
	if change != nil {
		change(&m)
	}
	data, err := json.Marshal(m)
	if err != nil {
		t.Fatal(err)
	}
	return member{name: manifestName, data: string(data)}
}

func TestABundleIsReadBack(t *testing.T) {
	b, err := Read(bytes.NewReader(archive(t, manifest(t, nil), member{name: configName, data: "c"},
		member{name: "testbed.yml", data: "t"})), io.Discard)
	if err != nil {
		t.Fatal(err)
	}
	if data, err := b.ReadFile(configName); err != nil || string(data) != "c" {
		t.Errorf("%q, %v", data, err)
	}
	if _, err := b.ReadFile("../etc/passwd"); err == nil {
		t.Error("a file that is not in the bundle is there")
	}
}

func TestAStoredTraceIsPassedOn(t *testing.T) {
	var trace bytes.Buffer
	stored := manifest(t, func(m *Manifest) { m.Files[2].Stored = true })
	_, err := Read(bytes.NewReader(archive(t, stored, member{name: configName, data: "c"},
		member{name: "testbed.yml", data: "t"},
		member{name: traceName, data: "p"})), &trace)
	if err != nil || trace.String() != "p" {
		t.Errorf("%q, %v", &trace, err)
	}
}

func TestHostileBundlesAreRefused(t *testing.T) {
	config, testbed := member{name: configName, data: "c"}, member{name: "testbed.yml", data: "t"}
	good := manifest(t, nil)
	for _, tt := range []struct {
		name    string
		members []member
		want    string
	}{
		{"nothing", nil, "first member"},
		{"no manifest", []member{config}, "first member"},
		{"a manifest that is no JSON", []member{{name: manifestName, data: "{"}}, "manifest.json"},
		{"a manifest with unknown keys", []member{{name: manifestName, data: `{"x":1}`}}, "unknown field"},
		{"another schema", []member{manifest(t, func(m *Manifest) { m.Schema = "x" })}, "schema"},
		{"a huge manifest", []member{{name: manifestName, data: strings.Repeat(" ", manifestLimit+1)}}, "at most"},
		{"a path out of the archive", []member{manifest(t, func(m *Manifest) { m.Files[0].Name = "../config.yml" })},
			"no file of a bundle"},
		{"an absolute path", []member{manifest(t, func(m *Manifest) { m.Files[0].Name = "/etc/passwd" })},
			"no file of a bundle"},
		{"a file named twice", []member{manifest(t, func(m *Manifest) { m.Files[1] = m.Files[0] })}, "twice"},
		{"a missing test", []member{manifest(t, func(m *Manifest) { m.Files = m.Files[1:] })}, "does not name config.yml"},
		{"a negative size", []member{manifest(t, func(m *Manifest) { m.Files[0].Size = -1 })}, "at most"},
		{"a huge size", []member{manifest(t, func(m *Manifest) { m.Files[0].Size = documentLimit + 1 })}, "at most"},
		{"no hash", []member{manifest(t, func(m *Manifest) { m.Files[0].SHA256 = "00" })}, "SHA-256"},
		{"a document that is not stored", []member{manifest(t, func(m *Manifest) { m.Files[0].Stored = false })},
			"not stored"},
		{"a symbolic link", []member{good, {name: configName, kind: tar.TypeSymlink}}, "no regular file"},
		{"a hard link", []member{good, {name: configName, kind: tar.TypeLink}}, "no regular file"},
		{"a device", []member{good, {name: configName, kind: tar.TypeChar}}, "no regular file"},
		{"an unannounced path", []member{good, {name: "../../x", data: "c"}}, "stands where"},
		{"a changed document", []member{good, {name: configName, data: "d"}}, "SHA-256"},
		{"another length", []member{good, {name: configName, data: "cc"}}, "the manifest says 1"},
		{"a missing member", []member{good, config}, "testbed.yml is missing"},
		{"one member more", []member{good, config, testbed, {name: "x", data: "y"}}, "not in the manifest"},
		{"a member twice", []member{good, config, testbed, config}, "not in the manifest"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			_, err := Read(bytes.NewReader(archive(t, tt.members...)), io.Discard)
			if !errors.Is(err, ErrInvalid) || !strings.Contains(err.Error(), tt.want) {
				t.Errorf("got %v, want an invalid bundle: %s", err, tt.want)
			}
		})
	}
}

func TestATruncatedBundleIsRefusedWhereverItEnds(t *testing.T) {
	data := archive(t, manifest(t, nil), member{name: configName, data: "c"}, member{name: "testbed.yml", data: "t"})
	for n := range len(data) - 1024 - 512 + 1 { // the archive ends with two empty blocks
		if _, err := Read(bytes.NewReader(data[:n]), io.Discard); err == nil {
			t.Fatalf("the first %d of %d bytes are accepted", n, len(data))
		}
	}
}

// FuzzRead gives the reader arbitrary archives: an error, or a bundle that agrees with its manifest.
func FuzzRead(f *testing.F) {
	good := manifest(f, nil)
	f.Add(archive(f, good, member{name: configName, data: "c"}, member{name: "testbed.yml", data: "t"}))
	f.Add(archive(f, good, member{name: configName, kind: tar.TypeSymlink}))
	f.Add(archive(f))
	f.Fuzz(func(t *testing.T, data []byte) { holdsWhatItSays(t, data) })
}

// FuzzReadMembers gives the reader valid archives with an arbitrary manifest and members. Nearly all inputs pass the
// archive's own checksums, which inputs of FuzzRead seldom do.
func FuzzReadMembers(f *testing.F) {
	f.Add(manifest(f, nil).data, configName, "c", "testbed.yml", "t")
	f.Add(manifest(f, func(m *Manifest) { m.Files[2].Stored = true }).data, configName, "c", traceName, "p")
	f.Add(manifest(f, func(m *Manifest) { m.Files[0].Size = 1 << 40 }).data, configName, "c", "../x", "t")
	f.Fuzz(func(t *testing.T, manifest, name, data, other, more string) {
		var b bytes.Buffer
		w := tar.NewWriter(&b)
		for _, m := range []member{{name: manifestName, data: manifest}, {name: name, data: data},
			{name: other, data: more}} {
			if w.WriteHeader(header(m.name, int64(len(m.data)))) != nil {
				t.Skip("no archive can hold this name")
			}
			if _, err := io.WriteString(w, m.data); err != nil {
				t.Fatal(err)
			}
		}
		if err := w.Close(); err != nil {
			t.Fatal(err)
		}
		holdsWhatItSays(t, b.Bytes())
	})
}

// holdsWhatItSays requires an error, or a bundle that agrees with its manifest.
func holdsWhatItSays(t *testing.T, data []byte) {
	b, err := Read(bytes.NewReader(data), io.Discard)
	if err != nil {
		return
	}
	if err := b.Manifest.check(); err != nil {
		t.Errorf("accepted a bundle with a bad manifest: %v", err)
	}
	for _, m := range b.Manifest.Files {
		if got := int64(len(b.files[m.Name])); m.Name != traceName && got != m.Size {
			t.Errorf("%s has %d bytes, the manifest says %d", m.Name, got, m.Size)
		}
	}
}
