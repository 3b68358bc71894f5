package runtimetest

import (
	"os"

	"golang.org/x/sys/unix"
)

// QuickFiles puts temporary files of this process and its children into memory, unless TMPDIR says where. Creating and
// deleting a file on ext4 takes ten times as much system time. It changes nothing where /dev/shm is no tmpfs, has less
// than 2 GiB free, as in a container by default, or does not run programs.
func QuickFiles() {
	const (
		dir    = "/dev/shm"
		enough = 2 << 30 // bytes
	)
	var fs unix.Statfs_t
	if os.Getenv("TMPDIR") != "" || unix.Statfs(dir, &fs) != nil || fs.Type != unix.TMPFS_MAGIC ||
		fs.Flags&(unix.ST_NOEXEC|unix.ST_RDONLY) != 0 || fs.Bavail*uint64(fs.Bsize) < enough ||
		unix.Access(dir, unix.W_OK) != nil {
		return
	}
	_ = os.Setenv("TMPDIR", dir) // fails only for names that are not valid
}
