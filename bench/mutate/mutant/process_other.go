//go:build !linux

package mutant

// open needs a shared mapping, which is written for Linux only.
func open(path string) []byte {
	if path != "" {
		panic(Hits + " needs Linux")
	}
	return nil
}

func limit(int) error { return nil }
