package config

import (
	"errors"
	"flag"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

var update = flag.Bool("update", false, "rewrite golden files")

// golden compares got with a file below testdata, or with -update writes it.
func golden(t *testing.T, file, got string) {
	t.Helper()
	if *update {
		if err := os.WriteFile(file, []byte(got), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(string(want), got); diff != "" {
		t.Errorf("%s (-want +got; rewrite with -update):\n%s", file, diff)
	}
}

// laboratory is what the tests' caller knows.
var laboratory = Options{
	Profiles: []Profile{{Name: "spec"}, {Name: "cx5"}, {Name: "cx6-dx"}},
	Bugs:     []string{"nack-psn-plus-one", "never-acks"},
	ReadFile: func(name string) ([]byte, error) {
		switch filepath.Base(name) {
		case "small.yml":
			return []byte("kind: virtual\nswitch: {max-frame-bytes: 1600}\n"), nil
		case "broken.yml":
			return []byte("kind: virtul\ndumpers: [{name: a}, {name: a, weigth: 2}]\nlinks: {requester: {rate-gbps: 1}}\n"), nil
		}
		return nil, fs.ErrNotExist
	},
}

func TestEveryProblemOfAFileIsReportedAtItsPlace(t *testing.T) {
	files, err := filepath.Glob("testdata/errors/*.yml")
	if err != nil || len(files) < 20 {
		t.Fatalf("found %d files, %v", len(files), err)
	}
	for _, file := range files {
		t.Run(filepath.Base(file), func(t *testing.T) {
			data, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			_, err = Parse(filepath.Base(file), data, laboratory)
			if !errors.Is(err, ErrInvalid) {
				t.Fatalf("got %v, want an invalid configuration", err)
			}
			golden(t, strings.TrimSuffix(file, ".yml")+".txt", err.Error()+"\n")
		})
	}
}

func BenchmarkLoadQuickstart(b *testing.B) {
	data, err := os.ReadFile("../../configs/quickstart.yml")
	if err != nil {
		b.Fatal(err)
	}
	b.ReportAllocs()
	for b.Loop() {
		if _, err := Parse("quickstart.yml", data, Options{}); err != nil {
			b.Fatal(err)
		}
	}
}
