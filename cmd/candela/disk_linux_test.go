package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"candela.dev/candela/orchestrator"
)

func TestFullDiskIsAnInfrastructureFailureThatKeepsWhatThereIs(t *testing.T) {
	out := t.TempDir()
	if err := unix.Mount("candela-test", out, "tmpfs", 0, "size=200k"); err != nil {
		t.Skipf("SKIP: a small file system cannot be mounted here: %v", err)
	}
	defer func() {
		if err := unix.Unmount(out, unix.MNT_DETACH); err != nil {
			t.Error(err)
		}
	}()
	status, stdout, stderr := candela(t, "run", "../../configs/lumina-listing-5-2.yml", "--out", out)
	if status != orchestrator.ExitInfrastructure {
		t.Errorf("exit status %d, want %d", status, orchestrator.ExitInfrastructure)
	}
	if text := stdout + stderr; !strings.Contains(text, "no space left on device") || !strings.Contains(text, "shards") {
		t.Errorf("the message names neither the cause nor the file:\n%s", text)
	}
	kept, err := filepath.Glob(filepath.Join(out, "*.partial", "shards", "*.pcap"))
	if err != nil || len(kept) == 0 {
		t.Errorf("no shard was kept (%v)", err)
	}
}

func TestUnreadableTraceIsNamed(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "locked.pcap")
	if err := os.WriteFile(path, []byte("x"), 0o000); err != nil {
		t.Fatal(err)
	}
	if _, err := os.ReadFile(path); err == nil {
		t.Skip("SKIP: this user reads every file (root), so no file is unreadable")
	}
	status, _, stderr := candela(t, "analyze", path)
	if status == orchestrator.ExitPass || !strings.Contains(stderr, "locked.pcap") {
		t.Errorf("exit status %d: %s", status, stderr)
	}
}
