package gbn_test

import (
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"candela.dev/candela/analyzers/gbn"
	"candela.dev/candela/trace"
)

const captures = "../../packet/testdata/rxe"

// TestTheLinuxKernelIsNotBlamed runs the captures of two Linux hosts: each tap alone, and both as a pair.
func TestTheLinuxKernelIsNotBlamed(t *testing.T) {
	files, err := filepath.Glob(filepath.Join(captures, "*.in.pcap"))
	if err != nil || len(files) == 0 {
		t.Fatalf("no captures: %v", err)
	}
	for _, before := range files {
		after := strings.Replace(before, ".in.", ".out.", 1)
		name := strings.TrimSuffix(filepath.Base(before), ".in.pcap")
		for view, open := range map[string]func() (*trace.Checked, error){
			"before": func() (*trace.Checked, error) { return openCapture(t, before) },
			"after":  func() (*trace.Checked, error) { return openCapture(t, after) },
			"pair": func() (*trace.Checked, error) {
				c, _, err := trace.CheckPair(t.Context(), trace.FileSource(before), trace.FileSource(after), trace.Options{})
				return c, err
			},
		} {
			t.Run(name+"/"+view, func(t *testing.T) {
				c, err := open()
				if err != nil {
					t.Fatal(err)
				}
				res := analyse(t, c, gbn.Config{})
				if got, want := rules(res), kernelFindings(name, view); !slices.Equal(got, want) {
					t.Errorf("got %v, want %v\n%s", got, want, dump(res.Findings))
				}
			})
		}
	}
}

func openCapture(t *testing.T, path string) (*trace.Checked, error) {
	c, _, err := trace.Check(t.Context(), trace.FileSource(path), trace.Options{})
	return c, err
}

// kernelFindings are the rules that findings about a capture are expected to name. None of the findings is a violation.
func kernelFindings(name, view string) []string {
	var want []string
	if view == "after" && strings.HasSuffix(name, "drop5") || view == "after" && name == "read-drop5resp" {
		want = append(want, "capture-gap")
	}
	if name == "read-drop5resp" {
		want = append(want, "replay-opcode")
	}
	return want
}
