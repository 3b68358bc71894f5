//go:build !linux

package runtimetest

// QuickFiles puts temporary files into memory on Linux only.
func QuickFiles() {}
