package experiments

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
)

// kept is the result of a run in the directory points of --out. It is of use to the same tool alone, with the same
// test, point of its sweep, seed, settings and simulated time.
type kept struct {
	Tool   string          `json:"tool"`
	Of     string          `json:"of"` // digest of the rest
	Test   string          `json:"test"`
	Seed   uint64          `json:"seed"`
	Result json.RawMessage `json:"result"`
}

// Recall reads into result what Keep wrote for a run of a test in file, and reports whether there was anything.
func (l *Lab) Recall(file string, r *Run, result any) (bool, error) {
	path, want := l.keeps(file, r)
	if path == "" {
		return false, nil
	}
	data, err := os.ReadFile(path)
	if os.IsNotExist(err) {
		return false, nil
	}
	if err != nil {
		return false, err
	}
	var k kept
	if json.Unmarshal(data, &k) != nil || k.Tool != want.Tool || k.Of != want.Of || k.Seed != want.Seed {
		return false, nil // of another build or test: it is measured again
	}
	if err := json.Unmarshal(k.Result, result); err != nil {
		return false, fmt.Errorf("%s: %w", path, err)
	}
	return true, nil
}

// Keep writes the result of a run, so that a reproduction that was stopped goes on where it was.
func (l *Lab) Keep(file string, r *Run, result any) error {
	path, k := l.keeps(file, r)
	if path == "" {
		return nil
	}
	var err error
	if k.Result, err = json.Marshal(result); err != nil {
		return err
	}
	data, err := json.MarshalIndent(k, "", "  ")
	if err != nil {
		return err
	}
	if err := os.MkdirAll(filepath.Dir(path), 0o777); err != nil {
		return err
	}
	part := path + ".part"
	if err := os.WriteFile(part, append(data, '\n'), 0o666); err != nil {
		return err
	}
	return os.Rename(part, path)
}

// keeps returns where the result of a run is, "" without --out, or if the tool does not know what it was built from.
func (l *Lab) keeps(file string, r *Run) (path string, k kept) {
	c := &l.Config
	if c.Out == "" || c.Version == "" || c.Version == "unknown" || strings.HasSuffix(c.Version, "+changes") {
		return "", kept{}
	}
	data, err := l.files.ReadFile(file)
	if err != nil {
		return "", kept{}
	}
	h := sha256.New()
	fmt.Fprintf(h, "%s\x00%s\x00%v\x00%v\x00%q", data, r.id(), r.Test.Deadline, r.Test.Duration, c.Set)
	k = kept{Tool: c.Version, Of: hex.EncodeToString(h.Sum(nil)), Test: r.Test.Title(), Seed: r.Test.Seed}
	name := r.id()
	if c.Quick {
		name += "-quick"
	}
	return filepath.Join(c.Out, "points", name+".json"), k
}
