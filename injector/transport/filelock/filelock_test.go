package filelock_test

import (
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"candela.dev/candela/injector/transport/filelock"
)

func TestOneHolderAtATime(t *testing.T) {
	path := filepath.Join(t.TempDir(), "lock")
	var holders, most int
	var mu sync.Mutex
	var all sync.WaitGroup
	for range 20 {
		all.Go(func() {
			l, err := filelock.Acquire(path, time.Minute)
			if err != nil {
				t.Error(err)
				return
			}
			mu.Lock()
			holders++
			most = max(most, holders)
			mu.Unlock()
			time.Sleep(time.Millisecond)
			mu.Lock()
			holders--
			mu.Unlock()
			if err := l.Release(); err != nil {
				t.Error(err)
			}
		})
	}
	all.Wait()
	if most != 1 {
		t.Errorf("%d held it at once", most)
	}
}

func TestWaitingIsBoundedAndNamesTheHolder(t *testing.T) {
	path := filepath.Join(t.TempDir(), "lock")
	l, err := filelock.Acquire(path, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = l.Release() }()
	start := time.Now()
	_, err = filelock.Acquire(path, 50*time.Millisecond)
	if err == nil || !strings.Contains(err.Error(), "is locked by process ") || !strings.Contains(err.Error(), path) {
		t.Errorf("a second holder: %v", err)
	}
	if took := time.Since(start); took < 50*time.Millisecond || took > 30*time.Second {
		t.Errorf("it waited %v", took)
	}
}

func TestALinkIsNotFollowed(t *testing.T) {
	dir := t.TempDir()
	if err := os.Symlink(filepath.Join(dir, "elsewhere"), filepath.Join(dir, "lock")); err != nil {
		t.Fatal(err)
	}
	if l, err := filelock.Acquire(filepath.Join(dir, "lock"), 0); err == nil {
		_ = l.Release()
		t.Error("it followed a link")
	}
	if _, err := os.Lstat(filepath.Join(dir, "elsewhere")); err == nil {
		t.Error("it made a file elsewhere")
	}
}
