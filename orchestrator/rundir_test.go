package orchestrator

import (
	"os"
	"sync"
	"testing"
)

// Concurrent runs of the same name: one may complete after another has checked the name and before it claims it.
func TestRunsOfOneNameNeverMeetInOneDirectory(t *testing.T) {
	t.Parallel()
	const workers, each = 8, 40
	parent := t.TempDir()
	var running sync.WaitGroup
	for range workers {
		running.Go(func() {
			for range each {
				d, err := CreateRunDir(parent, "run")
				if err != nil {
					t.Error(err)
					return
				}
				if _, err := d.Complete(); err != nil {
					t.Error(err)
					return
				}
			}
		})
	}
	running.Wait()
	entries, err := os.ReadDir(parent)
	if err != nil {
		t.Fatal(err)
	}
	if len(entries) != workers*each {
		t.Errorf("%d directories, want one for each of %d runs", len(entries), workers*each)
	}
}
