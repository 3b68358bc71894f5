package main

import (
	"os"

	"golang.org/x/sys/unix"
)

// columnsOf returns the width of a terminal, 0 of other files.
func columnsOf(file *os.File) int {
	size, err := unix.IoctlGetWinsize(int(file.Fd()), unix.TIOCGWINSZ)
	if err != nil {
		return 0
	}
	return int(size.Col)
}
