//go:build linux

package netns

import (
	"os"
	"path/filepath"
	"testing"
	"time"
)

func TestWhatAMakerLeftThatDiedEarlyIsRemovedOnceItIsOld(t *testing.T) {
	state := t.TempDir()
	for _, name := range []string{"old", "young", "known"} {
		if err := os.Mkdir(filepath.Join(state, name), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.WriteFile(filepath.Join(state, "known", stateFile), []byte("{}"), 0o600); err != nil {
		t.Fatal(err)
	}
	long := time.Now().Add(-time.Hour)
	for _, name := range []string{"old", "known"} {
		if err := os.Chtimes(filepath.Join(state, name), long, long); err != nil {
			t.Fatal(err)
		}
	}
	if err := clearStillborn(state); err != nil {
		t.Fatal(err)
	}
	entries, err := os.ReadDir(state)
	if err != nil || len(entries) != 2 || entries[0].Name() != "known" || entries[1].Name() != "young" {
		t.Errorf("left: %v, %v", entries, err)
	}
	if err := clearStillborn(filepath.Join(state, "nowhere")); err != nil {
		t.Error(err)
	}
}
