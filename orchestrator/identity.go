package orchestrator

import (
	"cmp"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"path/filepath"
	"strings"
	"time"
)

// runIDBytes is the length of a run's id. Of 10⁹ random ids, two are equal with a probability of 10⁻²¹.
const runIDBytes = 16

// runIDOf returns the id of a run: random on real frames, where nothing that is known beforehand tells two runs apart
// for certain, and a hash elsewhere, so that the documents of a simulated run remain a function of its inputs.
func runIDOf(d *RunDocument, executable string) string {
	if !d.Simulated {
		var id [runIDBytes]byte
		_, _ = rand.Read(id[:]) // never fails, or ends the program
		return hex.EncodeToString(id[:])
	}
	return DerivedRunID(d, executable)
}

// DerivedRunID returns the hash of what was run, by which executable and when. It is also the id of runs of versions
// of Candela that gave none.
func DerivedRunID(d *RunDocument, executable string) string {
	h := sha256.New()
	fmt.Fprintf(h, "%q\n", []string{d.ConfigSHA256, d.Name, d.Testbed, fmt.Sprint(d.Seed), fmt.Sprint(d.Repeat),
		cmp.Or(executable, d.ToolVersion), d.Started.UTC().Format(time.RFC3339Nano)})
	return hex.EncodeToString(h.Sum(nil)[:runIDBytes])
}

// SuitePath returns the path of the test in its suite, with slashes: where a suite is checked out does not matter.
func (o *Options) SuitePath() string {
	if o.File == "" || o.File == StandardInput {
		return ""
	}
	if o.Suite != "" {
		root, err := filepath.Abs(o.Suite)
		file, fileErr := filepath.Abs(o.File)
		if rel, relErr := filepath.Rel(root, file); err == nil && fileErr == nil && relErr == nil &&
			!strings.HasPrefix(rel, "..") {
			return filepath.ToSlash(rel)
		}
	}
	return filepath.Base(o.File)
}
