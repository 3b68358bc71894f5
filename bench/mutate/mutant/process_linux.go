package mutant

import (
	"os"

	"golang.org/x/sys/unix"
)

// memory bounds the address space of a mutant that allocates without end.
const memory = 6 << 30

// open maps the file of hits, so that they survive a panic and os.Exit.
func open(path string) []byte {
	if path == "" {
		return nil
	}
	f, err := os.OpenFile(path, os.O_RDWR, 0)
	if err != nil {
		panic("file of hits: " + err.Error())
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		panic("file of hits: " + err.Error())
	}
	mapped, err := unix.Mmap(int(f.Fd()), 0, int(info.Size()), unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED)
	if err != nil {
		panic("file of hits: " + err.Error())
	}
	return mapped
}

// limit ends the process when it has used so many seconds of processor time; 0 sets no limit.
func limit(seconds int) error {
	if seconds == 0 {
		return nil
	}
	s := uint64(seconds)
	if err := unix.Setrlimit(unix.RLIMIT_CPU, &unix.Rlimit{Cur: s, Max: s + 1}); err != nil {
		return err
	}
	return unix.Setrlimit(unix.RLIMIT_AS, &unix.Rlimit{Cur: memory, Max: memory})
}
