// Package procfs finds processes of testbeds in /proc.
package procfs

import (
	"bytes"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
)

// listeners are the options of candela and QEMU that take the address of a socket to serve on.
var listeners = []string{"--listen", "-qmp"}

// Serving lists the processes that serve on unix sockets in dir, according to their command lines.
func Serving(dir string) (pids []int, _ error) {
	names, err := filepath.Glob("/proc/[0-9]*/cmdline")
	if err != nil {
		return nil, err
	}
	for _, name := range names {
		text, err := os.ReadFile(name)
		if err != nil {
			continue // it has ended
		}
		args := bytes.Split(text, []byte{0})
		for i := range args[:len(args)-1] {
			if !slices.Contains(listeners, string(args[i])) || !strings.HasPrefix(string(args[i+1]), "unix:"+dir+"/") {
				continue
			}
			pid, err := strconv.Atoi(filepath.Base(filepath.Dir(name)))
			if err != nil {
				return nil, err
			}
			pids = append(pids, pid)
			break
		}
	}
	return pids, nil
}
