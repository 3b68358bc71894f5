package main

import (
	"bytes"
	"debug/elf"
	"encoding/hex"
	"os"
	"sync"
)

// executableID identifies this program by the id that the linker gave it, a hash of its contents; empty where the
// format of the executable has none, and the version has to do.
var executableID = sync.OnceValue(func() string {
	path, err := os.Executable()
	if err != nil {
		return ""
	}
	f, err := elf.Open(path)
	if err != nil {
		return ""
	}
	defer f.Close()
	section := f.Section(".note.go.buildid")
	if section == nil {
		return ""
	}
	note, err := section.Data()
	if err != nil {
		return ""
	}
	if at := bytes.Index(note, []byte("Go\x00\x00")); at >= 0 {
		return string(bytes.TrimRight(note[at+len("Go\x00\x00"):], "\x00"))
	}
	return hex.EncodeToString(note)
})
