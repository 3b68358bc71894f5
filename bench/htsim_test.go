package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestHtsimIsMeasuredInTheSameRunIfTheUserHasIt replaces it by a program that prints its arguments.
func TestHtsimIsMeasuredInTheSameRunIfTheUserHasIt(t *testing.T) {
	t.Setenv(htsimProgram, "")
	t.Setenv(htsimIncast, "")
	for _, p := range []*peer{htsimPermutation(3, 4, 1000), htsimSwitch(3)} {
		if p.source != recorded(3) {
			t.Errorf("without a program: %+v, want the recorded figure", p)
		}
	}
	tests := []struct {
		name, prints string
		want         string // in the error; "": none
	}{
		{"every flow finishes", `grep -c -- '->' "$6" >/dev/null && sed -n 's/->.*/ finished at 1/p' "$6"`, ""},
		{"one does not", `echo Flow x finished at 1`, "1 flows finished, want 4"},
		{"it refuses", `echo no; exit 2`, "exit status 2"},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			fake := filepath.Join(t.TempDir(), "htsim_ndp")
			if err := os.WriteFile(fake, []byte("#!/bin/sh\n"+test.prints+"\n"), 0o700); err != nil {
				t.Fatal(err)
			}
			t.Setenv(htsimProgram, fake)
			take, err := htsimPermutation(3, 4, 1000).source.open(t.Context(), &lab{dir: t.TempDir(), opts: options{cpu: 1}})
			if err != nil {
				t.Fatal(err)
			}
			_, err = take(t.Context())
			if test.want == "" && err != nil || test.want != "" && (err == nil || !strings.Contains(err.Error(), test.want)) {
				t.Errorf("error %v, want one with %q", err, test.want)
			}
		})
	}
}

func TestHtsimsMatrixIsAPermutation(t *testing.T) {
	lines := strings.Split(strings.TrimSpace(string(htsimFatTree{hosts: 16, flowBytes: 3000}.matrix())), "\n")
	if len(lines) != 2+16 || lines[0] != "Nodes 16" || lines[1] != "Connections 16" {
		t.Fatalf("%d lines, beginning with %q", len(lines), lines[:2])
	}
	from, to := map[string]bool{}, map[string]bool{}
	for _, line := range lines[2:] {
		src, rest, _ := strings.Cut(line, "->")
		dst, rest, _ := strings.Cut(rest, " ")
		if src == dst || from[src] || to[dst] || !strings.HasSuffix(rest, "start 0 size 3000") {
			t.Errorf("line %q", line)
		}
		from[src], to[dst] = true, true
	}
}
