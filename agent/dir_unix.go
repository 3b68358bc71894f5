//go:build unix

package agent

import (
	"fmt"
	"os"
	"syscall"
)

// checkOwn refuses a directory in which another user could choose what we read, write or remove. name is the directory
// as given, root what was opened under that name.
func checkOwn(name string, root *os.Root) error {
	there, err := os.Lstat(name)
	if err != nil {
		return err
	}
	opened, err := root.Stat(".")
	if err != nil {
		return err
	}
	switch owner, ok := opened.Sys().(*syscall.Stat_t); {
	case there.Mode()&os.ModeSymlink != 0 || !os.SameFile(there, opened):
		return fmt.Errorf("directory %s is a link: give the directory itself", name)
	case ok && int(owner.Uid) != os.Geteuid():
		return fmt.Errorf("directory %s belongs to user %d; it must be this agent's own, for what is in it gets removed",
			name, owner.Uid)
	case opened.Mode().Perm()&0o022 != 0:
		return fmt.Errorf("directory %s has mode %v: others may write there, who could choose what gets removed", name,
			opened.Mode().Perm())
	}
	return nil
}
