package orchestrator

import (
	"encoding/binary"
	"hash/fnv"
	"io"

	"candela.dev/candela/analyzers"
)

// RepeatSeed returns the seed of repetition i of a test: the test's own for the first, hash(seed, i) for the others.
func RepeatSeed(seed uint64, i int) uint64 {
	if i <= 1 {
		return seed
	}
	h := fnv.New64a()
	var b [16]byte
	binary.BigEndian.PutUint64(b[:8], seed)
	binary.BigEndian.PutUint64(b[8:], uint64(i))
	h.Write(b[:])
	return h.Sum64() >> 1 // a seed in config.yml has 63 bits
}

// OutcomeSchema is the schema of `candela run --format json`, which prints one object for each run.
const OutcomeSchema = "candela.outcome/v1"

// WriteOutcome writes o as one JSON object.
func WriteOutcome(w io.Writer, o *Outcome) error {
	return writeJSON(w, struct {
		Schema string `json:"schema"`
		Name   string `json:"name"`
		Seed   uint64 `json:"seed"`
		Dir    string `json:"dir"`
		Verdict
		Analysis *analyzers.Analysis `json:"analysis"` // null if nothing was analysed
	}{OutcomeSchema, o.Report.Name, o.Report.Seed, o.Dir, o.Verdict, o.Analysis})
}
