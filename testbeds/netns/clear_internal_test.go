//go:build linux

package netns

import (
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// gone is the identity of a process that does not run: no process started at the machine's first tick.
func gone() Process { return Process{PID: os.Getpid(), Start: 0} }

// directory makes a directory in state with files.
func directory(t *testing.T, state, name string, files map[string]any) {
	t.Helper()
	dir := filepath.Join(state, name)
	if err := os.MkdirAll(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	for file, content := range files {
		text, err := json.Marshal(content)
		if err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(dir, file), text, 0o600); err != nil {
			t.Fatal(err)
		}
	}
}

func left(t *testing.T, state string) (names []string) {
	t.Helper()
	entries, err := os.ReadDir(state)
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range entries {
		names = append(names, e.Name())
	}
	slices.Sort(names)
	return names
}

func TestOnlyWhatDeadTestbedsLeftIsRemoved(t *testing.T) {
	self, err := identify(os.Getpid())
	if err != nil {
		t.Fatal(err)
	}
	state := t.TempDir()
	whole := func(name string, p Process) State {
		return State{Name: name, Switch: Node{Process: p}, Hosts: [2]Node{{Process: p}, {Process: p}},
			Dumpers: []Node{{Process: p}}}
	}
	dead, alive := Process{PID: self.PID, Start: 1}, self
	directory(t, state, "stillborn", map[string]any{makerFile: gone(), "requester.log": "x"})
	directory(t, state, "unborn", map[string]any{makerFile: self})
	directory(t, state, "dead", map[string]any{makerFile: gone(), stateFile: whole("dead", dead)})
	directory(t, state, "alive", map[string]any{makerFile: gone(), stateFile: whole("alive", alive)})
	orphan := whole("orphan", dead)
	orphan.Owner = &dead
	directory(t, state, "orphan", map[string]any{makerFile: gone(), stateFile: orphan})
	// Foreign directories stay, whatever their age.
	directory(t, state, "foreign", map[string]any{"precious": 1})
	directory(t, state, "empty", nil)
	directory(t, state, "strange-maker", map[string]any{makerFile: "the elves"})
	directory(t, state, "nobody", map[string]any{makerFile: Process{}})
	directory(t, state, "strange-state", map[string]any{stateFile: map[string]int{}})
	directory(t, state, "other-name", map[string]any{stateFile: whole("renamed", dead)})
	if err := os.Symlink(filepath.Join(state, "foreign"), filepath.Join(state, "link")); err != nil {
		t.Fatal(err)
	}
	if err := clearDead(state); err != nil {
		t.Fatal(err)
	}
	want := []string{"alive", "empty", "foreign", "link", "nobody", "other-name", "strange-maker", "strange-state",
		"unborn"}
	if diff := cmp.Diff(want, left(t, state)); diff != "" {
		t.Errorf("left (-want +got):\n%s", diff)
	}
	if err := clearDead(filepath.Join(state, "nowhere")); err != nil {
		t.Error(err)
	}
}

func TestADirectoryThatIsThereIsNeverTakenForATestbeds(t *testing.T) {
	state := t.TempDir()
	directory(t, state, "foreign", nil)
	if _, err := claim(state, "foreign"); !errors.Is(err, os.ErrExist) {
		t.Errorf("an empty directory of somebody else: %v", err)
	}
	dir, err := claim(state, "ours")
	if err != nil {
		t.Fatal(err)
	}
	if dir != filepath.Join(state, "ours") {
		t.Errorf("claimed %s", dir)
	}
	if _, err := claim(state, "ours"); !errors.Is(err, os.ErrExist) {
		t.Errorf("claimed again: %v", err)
	}
	if diff := cmp.Diff([]string{"foreign", "ours"}, left(t, state)); diff != "" {
		t.Errorf("left (-want +got):\n%s", diff)
	}
	if maker, err := readMaker(dir); err != nil || !maker.Alive() {
		t.Errorf("maker %v, %v: want this process", maker, err)
	}
}
