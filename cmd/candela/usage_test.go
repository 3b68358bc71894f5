package main

import (
	"context"
	"errors"
	"io"
	"io/fs"
	"strings"
	"syscall"
	"testing"

	"candela.dev/candela/orchestrator"
)

// fullDisk fails every write, as a disk without space does.
type fullDisk struct{}

func (fullDisk) Write([]byte) (int, error) {
	return 0, &fs.PathError{Op: "write", Path: "/dev/full", Err: syscall.ENOSPC}
}

func TestADiskWithoutSpaceIsNoBadUsage(t *testing.T) {
	for _, args := range [][]string{{"version"}, {"testbed", "list"}, {"config", "schema"}} {
		var stderr strings.Builder
		status := run(t.Context(), args, fullDisk{}, &stderr)
		if status != orchestrator.ExitInfrastructure || !strings.Contains(stderr.String(), "no space left") {
			t.Errorf("%v: exit status %d, want %d and the reason: %s", args, status, orchestrator.ExitInfrastructure,
				stderr.String())
		}
	}
}

func TestAnInterruptedCommandSaysSoOnceAndWithItsOwnStatus(t *testing.T) {
	for _, args := range [][]string{
		{"detect", "--configs", "../../configs", "--profiles", "spec", "--scenarios", "0"},
		{"reproduce", "lumina", "--quick"},
		{"conform", "--out", t.TempDir()},
	} {
		ctx, cancel := context.WithCancelCause(t.Context())
		cancel(errors.New("interrupt signal received"))
		var stderr strings.Builder
		status := run(ctx, args, io.Discard, &stderr)
		if status != orchestrator.ExitInfrastructure || stderr.String() != "candela: stopped: interrupt signal received\n" {
			t.Errorf("%v: exit status %d, want %d, and one line: %s", args, status, orchestrator.ExitInfrastructure,
				stderr.String())
		}
	}
}

// Scripts may use the former names of flags.
func TestFlagsKeepTheirFormerNames(t *testing.T) {
	for _, c := range []struct{ path, former, now string }{
		{"bundle", "output", "out"}, {"minimize", "output", "out"},
		{"reproduce lumina", "jobs", "workers"}, {"reproduce trimming", "jobs", "workers"},
	} {
		cmd, _, err := newRoot().Find(strings.Fields(c.path))
		if err != nil {
			t.Fatal(err)
		}
		flag := cmd.Flags().Lookup(c.former)
		if flag == nil || flag.Name != c.now || strings.Contains(cmd.Flags().FlagUsages(), "--"+c.former) {
			t.Errorf("%s --%s: want --%s, and only that in help", c.path, c.former, c.now)
		}
	}
}
