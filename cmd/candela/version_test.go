package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime/debug"
	"strings"
	"testing"
)

func TestTheVersionIsWhatIsKnownBest(t *testing.T) {
	vcs := &debug.BuildInfo{Main: debug.Module{Version: "(devel)"}, Settings: []debug.BuildSetting{
		{Key: "vcs.revision", Value: "0123456789abcdef"}, {Key: "vcs.modified", Value: "true"}}}
	bare := &debug.BuildInfo{Main: debug.Module{Version: "(devel)"}}
	for _, tt := range []struct {
		name, stamp, archive string
		info                 *debug.BuildInfo
		want                 string
	}{
		{"stamped by make", "abc", "$Format:%H$\n", vcs, "abc"},
		{"go build in a repository", "", "$Format:%H$\n", vcs, "0123456789ab+changes"},
		{"go install of a release", "", "$Format:%H$\n", &debug.BuildInfo{Main: debug.Module{Version: "v1.2.3"}}, "v1.2.3"},
		{"go build in an archive", "", "fedcba9876543210\n", bare, "fedcba987654"},
		{"go build -buildvcs=false", "", "$Format:%H$\n", bare, "unknown"},
		{"no record at all", "", "", nil, "unknown"},
	} {
		if got := versionOf(tt.stamp, tt.archive, tt.info); got != tt.want {
			t.Errorf("%s: %q, want %q", tt.name, got, tt.want)
		}
	}
}

// TestMakeStampsTheVersionWhateverGOFLAGSSay runs tools/version on a clone, a modified clone, an archive and a copy
// without a repository, and checks that make passes its output to the linker.
func TestMakeStampsTheVersionWhateverGOFLAGSSay(t *testing.T) {
	for _, tool := range []string{"git", "bash", "make"} {
		if _, err := exec.LookPath(tool); err != nil {
			t.Skipf("SKIP-%s: %s is not installed", tool, tool)
		}
	}
	dir := t.TempDir()
	write := func(name, text string) {
		t.Helper()
		path := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o777); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o777); err != nil {
			t.Fatal(err)
		}
	}
	script, err := os.ReadFile("../../tools/version")
	if err != nil {
		t.Fatal(err)
	}
	write("tools/version", string(script))
	write("cmd/candela/commit.txt", "$Format:%H$\n")
	write("x.go", "package x\n")
	say := func(name string, args ...string) string {
		t.Helper()
		cmd := exec.CommandContext(t.Context(), name, args...)
		cmd.Dir = dir
		cmd.Env = append(os.Environ(), "GIT_CONFIG_GLOBAL=/dev/null", "GIT_CEILING_DIRECTORIES="+filepath.Dir(dir))
		out, err := cmd.CombinedOutput()
		if err != nil {
			t.Fatalf("%s %v: %v\n%s", name, args, err, out)
		}
		return strings.TrimSpace(string(out))
	}
	version := func() string { return say("bash", "tools/version") }
	copied := version()
	if !regexp.MustCompile(`^source-[0-9a-f]{12}$`).MatchString(copied) {
		t.Errorf("a copy without a repository is %q", copied)
	}
	write("x.go", "package x // changed\n")
	if version() == copied {
		t.Error("a changed copy has the same version")
	}
	say("git", "init", "-q")
	say("git", "add", ".")
	say("git", "-c", "user.name=x", "-c", "user.email=x@example.org", "commit", "-q", "-m", "x")
	commit := say("git", "rev-parse", "HEAD")
	if got := version(); got != commit[:12] {
		t.Errorf("a clone of %s is %q", commit, got)
	}
	write("x.go", "package x\n")
	if got := version(); got != commit[:12]+"+changes" {
		t.Errorf("a changed clone of %s is %q", commit, got)
	}
	if err := os.RemoveAll(filepath.Join(dir, ".git")); err != nil {
		t.Fatal(err)
	}
	write("cmd/candela/commit.txt", commit+"\n")
	if got := version(); got != commit[:12] {
		t.Errorf("an archive of %s is %q", commit, got)
	}
	cmd := exec.CommandContext(t.Context(), "make", "-n", "-C", "../..", "build")
	cmd.Env = append(os.Environ(), "GOFLAGS=-mod=mod -buildvcs=false -trimpath")
	if out, err := cmd.CombinedOutput(); err != nil || !strings.Contains(string(out), "-X main.stamped=") {
		t.Errorf("make build does not stamp the version: %v\n%s", err, out)
	}
}
