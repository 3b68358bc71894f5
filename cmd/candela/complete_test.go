package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// completed returns the shell completions for a command line that ends in an incomplete word.
func completed(t *testing.T, args ...string) (words []string, directive string) {
	t.Helper()
	_, stdout, _ := candela(t, append([]string{"__complete"}, args...)...)
	lines := strings.Split(strings.TrimSpace(stdout), "\n")
	return lines[:len(lines)-1], lines[len(lines)-1]
}

func TestValuesCompleteInShells(t *testing.T) {
	t.Chdir("../..")
	for _, tt := range []struct {
		args []string
		want []string // offered, among others
		not  string   // prefix that no offered word has
	}{
		{[]string{"conform", "--profile", ""}, []string{"spec", "cx5", "e810"}, "droptail"},
		{[]string{"conform", "--profile", "cx6"}, []string{"cx6-dx"}, "cx5"},
		{[]string{"conform", "--peer", ""}, []string{"cx4-lx"}, ""},
		{[]string{"conform", "--bugs", "nack-p"}, []string{"nack-psn-plus-one"}, "double"},
		{[]string{"detect", "--bugs", "no-nack,double-n"}, []string{"no-nack,double-nack"}, "no-nack,no-nack"},
		{[]string{"detect", "--profiles", "spec,"}, []string{"spec,cx5"}, "spec,spec"},
		{[]string{"minimize", "--rule", "gbn.nak"}, []string{"gbn.nak-psn"}, "retrans"},
		{[]string{"run", "--testbed", ""}, []string{"virtual", "netns", "vm", "bmv2"}, ""},
		{[]string{"run", "--testbed", "testbeds/vm-"}, []string{"testbeds/vm-model-requester.yml"}, "virtual"},
		{[]string{"testbed", "check", "net"}, []string{"netns", "netns-afpacket"}, "vm"},
		{[]string{"reproduce", "trimming", "T1"}, []string{"T1", "T10", "T16"}, "T2"},
		{[]string{"reproduce", "trimming", "--set", "tofino."}, []string{"tofino.pessimistic-us="}, "sai"},
		{[]string{"reproduce", "afd", "A-"}, []string{"A-8", "A-9", "A-1"}, "T1"},
		{[]string{"reproduce", "lumina", "--set", "cx6"}, []string{"cx6-dx."}, "tofino"},
		{[]string{"analyze", "--tap", ""}, []string{"requester=", "after="}, ""},
		{[]string{"analyze", "--format", ""}, []string{"json", "text"}, ""},
	} {
		got, _ := completed(t, tt.args...)
		for _, want := range tt.want {
			if !slices.Contains(got, want) {
				t.Errorf("%q offers %q, and not %s", tt.args, got, want)
			}
		}
		if tt.not != "" && slices.ContainsFunc(got, func(w string) bool { return strings.HasPrefix(w, tt.not) }) {
			t.Errorf("%q offers %q, with %s", tt.args, got, tt.not)
		}
	}
	for _, command := range [][]string{{"run", ""}, {"config", "check", ""}, {"fuzz", ""}} {
		if got, directive := completed(t, command...); directive != ":8" || !slices.Contains(got, "yml") {
			t.Errorf("%q offers %q %s, want files with names in .yml", command, got, directive)
		}
	}
	if _, err := os.Stat("/sys/class/net/lo"); err == nil {
		if got, _ := completed(t, "switchd", "--ports", ""); !slices.Contains(got, "lo") {
			t.Errorf("switchd --ports offers %q, without lo", got)
		}
	}
}

// TestBashInsertsValues runs the bash script in a shell without the package bash-completion.
func TestBashInsertsValues(t *testing.T) {
	bash, err := exec.LookPath("bash")
	if err != nil {
		t.Skip("SKIP-bash: bash is not installed")
	}
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	if err := os.Symlink(self, filepath.Join(dir, "candela")); err != nil { // TestMain runs main under this name
		t.Fatal(err)
	}
	const script = `compopt() { :; }
source <(candela completion bash)
COMP_WORDS=("$@") COMP_CWORD=$(($# - 1)) COMP_LINE="$*" COMP_TYPE=9
COMP_POINT=${#COMP_LINE}
__start_candela
printf '%s\n' "${COMPREPLY[@]}"
`
	for _, tt := range []struct {
		words []string
		want  string
	}{
		{[]string{"conform", "--profile", "cx6"}, "cx6-dx"},
		{[]string{"conform", "--bugs", "nack-psn-p"}, "nack-psn-plus-one"},
		{[]string{"minimize", "--rule", "gbn.nak-ps"}, "gbn.nak-psn"},
		{[]string{"run", "--testbed", "vi"}, "virtual"},
		{[]string{"reproduce", "trimming", "T16"}, "T16"},
		{[]string{"vers"}, "version"},
	} {
		cmd := exec.CommandContext(t.Context(), bash, append([]string{"--norc", "-c", script, "bash", "candela"}, tt.words...)...)
		cmd.Env = append(os.Environ(), "PATH="+dir+":"+os.Getenv("PATH"))
		out, err := cmd.CombinedOutput()
		if err != nil || !slices.Contains(strings.Fields(string(out)), tt.want) || strings.Contains(string(out), "not found") {
			t.Errorf("%q: %v, want %s\n%s", tt.words, err, tt.want, out)
		}
	}
}
