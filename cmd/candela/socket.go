package main

import (
	"fmt"
	"os"
	"path/filepath"
)

// localSocket returns the default address of a server on this machine.
func localSocket(name string) string {
	dir := "/run/candela"
	if os.Geteuid() != 0 {
		if dir = os.Getenv("XDG_RUNTIME_DIR"); dir != "" {
			dir = filepath.Join(dir, "candela")
		} else {
			dir = filepath.Join(os.TempDir(), fmt.Sprintf("candela-%d", os.Geteuid()))
		}
	}
	return "unix:" + filepath.Join(dir, name+".sock")
}
