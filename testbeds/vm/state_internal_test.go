//go:build linux

package vm

import (
	"encoding/json"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// TestAStateOfAnotherUserIsNotBelieved: in /tmp anyone can create the directory of root's testbeds first and list
// processes in it, which `testbed down` would end.
func TestAStateOfAnotherUserIsNotBelieved(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("SKIP-root: only root can give a directory to another user")
	}
	victim := exec.Command("sleep", "60")
	if err := victim.Start(); err != nil {
		t.Fatal(err)
	}
	defer func() { _ = victim.Process.Kill(); _ = victim.Wait() }()
	since, err := startOf(victim.Process.Pid)
	if err != nil {
		t.Fatal(err)
	}
	for name, tt := range map[string]struct {
		change func(root, dir string) error
		want   string
	}{
		"the root is another user's": {func(root, _ string) error { return os.Chown(root, 12345, 12345) },
			"belongs to user 12345"},
		"the directory is another user's": {func(_, dir string) error { return os.Chown(dir, 12345, 12345) },
			"belongs to user 12345"},
		"all may write to the root": {func(root, _ string) error { return os.Chmod(root, 0o777) },
			"others may write there"},
		"the root is a link": {func(root, _ string) error {
			return errors.Join(os.Rename(root, root+"2"), os.Symlink(root+"2", root))
		}, "is not a directory"},
	} {
		t.Run(name, func(t *testing.T) {
			root := filepath.Join(t.TempDir(), "candela-vm-0")
			dir := filepath.Join(root, "vm")
			text, err := json.Marshal(state{Schema: stateSchema, Name: "vm",
				Switch: &process{ID: victim.Process.Pid, Start: since}})
			err = errors.Join(err, os.MkdirAll(dir, 0o700), os.WriteFile(filepath.Join(dir, stateFile), text, 0o600),
				tt.change(root, dir))
			if err != nil {
				t.Fatal(err)
			}
			cfg := Config{StateDir: root}
			if err := Down(cfg); err == nil || !strings.Contains(err.Error(), tt.want) {
				t.Errorf("down: %v, want %q", err, tt.want)
			}
			if _, err := Attach(t.Context(), cfg); err == nil || !strings.Contains(err.Error(), tt.want) {
				t.Errorf("attach: %v, want %q", err, tt.want)
			}
			if now, err := startOf(victim.Process.Pid); err != nil || now != since {
				t.Fatalf("a process that the testbed does not have was ended: %v", err)
			}
		})
	}
}
