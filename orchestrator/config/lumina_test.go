package config

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestImportTranslatesThePrototypesFiles(t *testing.T) {
	files, err := filepath.Glob("testdata/import/*.yml")
	if err != nil || len(files) == 0 {
		t.Fatalf("no files: %v", err)
	}
	for _, file := range files {
		t.Run(filepath.Base(file), func(t *testing.T) {
			data, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			text, err := Import(filepath.Base(file), data, laboratory)
			if err != nil {
				if !errors.Is(err, ErrInvalid) {
					t.Fatalf("got %v, want an invalid configuration", err)
				}
				text = []byte(err.Error() + "\n")
			}
			golden(t, strings.TrimSuffix(file, ".yml")+".txt", string(text))
		})
	}
}

func TestImportedEventsCountFromOneInEveryMessage(t *testing.T) {
	data, err := os.ReadFile("testdata/import/write.yml")
	if err != nil {
		t.Fatal(err)
	}
	text, err := Import("write.yml", data, Options{})
	if err != nil {
		t.Fatal(err)
	}
	test, err := Parse("imported.yml", text, Options{})
	if err != nil {
		t.Fatal(err)
	}
	events := test.Traffic.DataEvents
	if len(events) != 2*(1+1+4) {
		t.Fatalf("got %d events", len(events))
	}
	if first, second := events[0], events[6]; first.QPN != 1 || first.PSN != 3 || second.PSN != 7 {
		t.Errorf("the ECN mark is at qpn %d psn %d and then %d; want qpn 1 psn 3 and then 7", first.QPN, first.PSN,
			second.PSN)
	}
	if got := test.Responder.NIC.Profile; got != "e810" {
		t.Errorf("the responder's profile is %q", got)
	}
}

func FuzzImport(f *testing.F) {
	for _, name := range []string{"write", "send-read", "bad", "impossible"} {
		data, err := os.ReadFile("testdata/import/" + name + ".yml")
		if err != nil {
			f.Fatal(err)
		}
		f.Add(data)
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		text, err := Import("f.yml", data, laboratory)
		if err != nil {
			if !errors.Is(err, ErrInvalid) {
				t.Fatal(err)
			}
			return
		}
		if _, err := Parse("f.yml", text, laboratory); err != nil {
			t.Fatalf("the result is no test: %v\n%s", err, text)
		}
	})
}
