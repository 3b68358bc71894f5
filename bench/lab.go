package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
	"time"
)

// A lab holds what measurements share: a directory for compiled benchmarks and generated captures.
type lab struct {
	opts     options
	dir      string
	root     string            // of the repository
	binaries map[string]string // test binary by package
	captures map[string]*capture
	taken    map[string]usage // by programs that run once, by command
}

func newLab(opts options) (*lab, error) {
	out, err := exec.Command("go", "env", "GOMOD").Output()
	if err != nil {
		return nil, fmt.Errorf("where is the module: %w", err)
	}
	dir, err := os.MkdirTemp("", "candela-bench-")
	if err != nil {
		return nil, err
	}
	return &lab{opts: opts, dir: dir, root: filepath.Dir(strings.TrimSpace(string(out))),
		binaries: map[string]string{}, captures: map[string]*capture{}, taken: map[string]usage{}}, nil
}

func (l *lab) close() { _ = os.RemoveAll(l.dir) }

// candela is the program under measurement; make bench builds it.
func (l *lab) candela() string { return filepath.Join(l.root, "bin", "candela") }

// version is the program at a commit.
func (l *lab) version(ctx context.Context, commit string) (string, error) {
	binary := filepath.Join(l.dir, "candela-"+commit)
	if _, err := os.Stat(binary); err == nil {
		return binary, nil
	}
	sources, err := l.sources(ctx, commit)
	if err != nil {
		return "", err
	}
	_, err = l.execute(ctx, sources, nil, "go", "build", "-o", binary, "./cmd/candela")
	return binary, err
}

// sources is a directory with the sources of a commit. A copy of the repository without history has no older ones.
func (l *lab) sources(ctx context.Context, commit string) (string, error) {
	sources := filepath.Join(l.dir, "sources-"+commit)
	if _, err := os.Stat(sources); err == nil {
		return sources, nil
	}
	if _, err := l.execute(ctx, l.root, nil, "git", "cat-file", "-e", commit+"^{commit}"); err != nil {
		return "", fmt.Errorf("commit %s: %w", commit, errNoPeer)
	}
	archive := sources + ".tar"
	if err := os.MkdirAll(sources, 0o700); err != nil {
		return "", err
	}
	for _, step := range []struct {
		dir     string
		command []string
	}{
		{l.root, []string{"git", "archive", "--output", archive, commit}},
		{sources, []string{"tar", "-xf", archive}},
	} {
		if _, err := l.execute(ctx, step.dir, nil, step.command[0], step.command[1:]...); err != nil {
			return "", err
		}
	}
	return sources, nil
}

// usage is what a finished process took.
type usage struct {
	wall, cpu time.Duration
	maxRSS    int64 // bytes
	output    []byte
}

// execute runs a program with the lab's number of processors and returns what it took. A status that ok rejects is an
// error.
func (l *lab) execute(ctx context.Context, dir string, ok []int, name string, args ...string) (usage, error) {
	return l.executeOn(ctx, l.opts.cpu, dir, ok, name, args...)
}

// executeOn is execute with another number of processors.
func (l *lab) executeOn(ctx context.Context, cpus int, dir string, ok []int, name string, args ...string) (usage,
	error) {
	cmd := exec.CommandContext(ctx, name, args...)
	cmd.Dir = dir
	cmd.Env = append(os.Environ(), fmt.Sprintf("GOMAXPROCS=%d", cpus))
	start := time.Now()
	out, err := cmd.CombinedOutput()
	wall := time.Since(start)
	if exit, failed := errors.AsType[*exec.ExitError](err); failed && !accepted(ok, exit.ExitCode()) {
		what := strings.Join(append([]string{filepath.Base(name)}, args[:min(2, len(args))]...), " ")
		return usage{}, fmt.Errorf("%s: %w: %s", what, err, firstLine(out))
	} else if err != nil && !failed {
		return usage{}, err
	}
	u := usage{wall: wall, cpu: cmd.ProcessState.UserTime() + cmd.ProcessState.SystemTime(), output: out}
	if r, isUnix := cmd.ProcessState.SysUsage().(*syscall.Rusage); isUnix {
		u.maxRSS = int64(r.Maxrss)
		if runtime.GOOS == "linux" || runtime.GOOS == "freebsd" {
			u.maxRSS *= 1024 // there it counts kilobytes
		}
	}
	return u, nil
}

func accepted(statuses []int, status int) bool {
	for _, s := range statuses {
		if s == status {
			return true
		}
	}
	return false
}

func firstLine(out []byte) string {
	line, _, _ := strings.Cut(strings.TrimSpace(string(out)), "\n")
	return line
}
