// Package bundle packs a run into one file that reproduces it elsewhere, and replays such files. A bundle is a tar
// archive: manifest.json, which lists every document of the run with size and SHA-256, then the documents. The trace is
// always listed and hashed but stored only on demand, because a replay recreates it.
//
// The same run gives the same bundle, byte for byte: documents with wall-clock times are left out. Bundles are
// untrusted input. The reader accepts only regular files of known names and bounded sizes, and checks each against the
// manifest.
package bundle

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"slices"

	"candela.dev/candela/analyzers"
	"candela.dev/candela/injector"
	"candela.dev/candela/orchestrator"
	"candela.dev/candela/orchestrator/switchtest"
)

// Schema names the format of the manifest.
const Schema = orchestrator.BundleSchema

const (
	manifestName = orchestrator.BundleManifest
	traceName    = "trace.pcap"
	configName   = "config.yml"
	flowsName    = "flows.json" // of a switch test
	entriesName  = "entries.json"
)

// Limits of what a reader accepts, in bytes.
const (
	manifestLimit  = 1 << 20
	documentLimit  = 64 << 20
	documentsLimit = 256 << 20 // all documents together
	traceLimit     = 64 << 30
)

// ErrInvalid matches errors in the content of a bundle.
var ErrInvalid = errors.New("invalid bundle")

func invalid(format string, args ...any) error {
	return fmt.Errorf("%w: %s", ErrInvalid, fmt.Sprintf(format, args...))
}

// Manifest is manifest.json.
type Manifest struct {
	Schema       string            `json:"schema"`
	Name         string            `json:"name"` // of the test
	ToolVersion  string            `json:"tool_version"`
	ConfigSHA256 string            `json:"config_sha256"` // of test and testbed in canonical form
	Seed         uint64            `json:"seed"`
	Verdict      analyzers.Verdict `json:"verdict"`
	Exit         orchestrator.Exit `json:"exit"`
	Reasons      []string          `json:"reasons,omitempty"`
	Files        []File            `json:"files"` // in the order of the archive
}

// File is one document of the run.
type File struct {
	Name   string `json:"name"`
	Size   int64  `json:"size"`
	SHA256 string `json:"sha256"`
	Stored bool   `json:"stored"` // in the archive, not only listed
}

// memberNames lists the possible members of a bundle, in order. All of them depend only on the configuration and the
// tool version. run.json, log.jsonl and the reports hold wall-clock times or derive from the others.
func memberNames() []string {
	names := []string{
		configName, "testbed.yml", "baseline.json", "calibration.json", "comparison.json", "environment.json",
		"connections.json", entriesName, "generator.json", "counters.json", "integrity.json",
	}
	names = append(names, orchestrator.CableFiles()...)
	for _, a := range orchestrator.AnalyzerNames() {
		names = append(names, "analysis/"+a+".json")
	}
	names = append(names, flowsName, "queues.json", "switch-counters.json", "series.csv", "curves.csv",
		"analysis/flows.json")
	for _, a := range switchtest.AnalyzerNames() {
		names = append(names, "analysis/"+a+".json")
	}
	return append(append(append(names, switchtest.CaptureNames()...), switchtest.TableNames()...), traceName)
}

// required lists the members that a replay needs. For a switch test config.yml includes the testbed.
func required(ofSwitch bool) []string {
	if ofSwitch {
		return []string{configName, flowsName}
	}
	return []string{configName, "testbed.yml", traceName}
}

// isListed reports whether a member holds packets, or rows of results: such members are always listed and hashed, but
// stored only on demand or never.
func isListed(name string) bool {
	return name == traceName || slices.Contains(switchtest.CaptureNames(), name) ||
		slices.Contains(switchtest.TableNames(), name)
}

// Bundle is a bundle that was read and checked.
type Bundle struct {
	Manifest Manifest
	files    map[string][]byte // without the trace
}

// ReadFile returns a stored document.
func (b *Bundle) ReadFile(name string) ([]byte, error) {
	data, ok := b.files[name]
	if !ok {
		return nil, fmt.Errorf("%s: %w", name, fs.ErrNotExist)
	}
	return data, nil
}

// describe returns the manifest of a run. Missing optional files are left out.
func describe(run *orchestrator.OpenedRun, withTrace bool) (*Manifest, error) {
	d := &run.Document
	m := &Manifest{
		Schema: Schema, Name: d.Name, ToolVersion: d.ToolVersion, ConfigSHA256: d.ConfigSHA256, Seed: d.Seed,
		Verdict: d.Verdict.Verdict, Exit: d.Exit, Reasons: d.Reasons,
	}
	needed := required(switchtest.IsRun(run))
	for _, name := range memberNames() {
		if !withTrace && slices.Contains(orchestrator.CableFiles(), name) {
			continue // of use only with the trace
		}
		size, sum, err := hashFile(run, name)
		if errors.Is(err, fs.ErrNotExist) && !slices.Contains(needed, name) {
			continue
		} else if err != nil {
			return nil, err
		}
		if !isListed(name) && size > documentLimit {
			return nil, fmt.Errorf("%s has %d bytes, more than the %d that a bundle takes", name, size, documentLimit)
		}
		m.Files = append(m.Files, File{Name: name, Size: size, SHA256: sum, Stored: !isListed(name) || withTrace &&
			name == traceName})
	}
	return m, nil
}

// hashFile returns size and SHA-256 of a member as the bundle stores it; see [openMember].
func hashFile(run *orchestrator.OpenedRun, name string) (size int64, sum string, err error) {
	r, err := openMember(run, name)
	if err != nil {
		return 0, "", err
	}
	h := sha256.New()
	size, err = io.Copy(h, r)
	return size, hex.EncodeToString(h.Sum(nil)), errors.Join(err, r.Close())
}

// openMember opens a file of a run as the bundle stores it. entries.json loses the places of its events, because they
// contain the path of a local file.
func openMember(run *orchestrator.OpenedRun, name string) (io.ReadCloser, error) {
	if name != entriesName {
		return run.Open(name)
	}
	data, err := run.ReadFile(name)
	if err != nil {
		return nil, err
	}
	var doc injector.Entries
	dec := json.NewDecoder(bytes.NewReader(data))
	dec.UseNumber() // entries have fields of up to 64 bits
	if err := dec.Decode(&doc); err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	for i := range doc.Events {
		doc.Events[i].Where = ""
	}
	var b bytes.Buffer
	err = doc.Write(&b)
	return io.NopCloser(&b), err
}

func (m *Manifest) check() error {
	if m.Schema != Schema {
		return invalid("manifest has schema %q, want %s", m.Schema, Schema)
	}
	known, rest := memberNames(), documentsLimit
	for _, f := range m.Files {
		i := slices.Index(known, f.Name)
		if i < 0 {
			return invalid("manifest names %q, which is twice there, out of order, or no file of a bundle", f.Name)
		}
		known = known[i+1:]
		limit := int64(min(documentLimit, rest))
		if isListed(f.Name) {
			limit = traceLimit
		} else {
			rest -= int(min(max(f.Size, 0), documentLimit))
		}
		if f.Size < 0 || f.Size > limit {
			return invalid("%s has %d bytes, want at most %d", f.Name, f.Size, limit)
		}
		if sum, err := hex.DecodeString(f.SHA256); err != nil || len(sum) != sha256.Size {
			return invalid("%s: %q is no SHA-256", f.Name, f.SHA256)
		}
		if !f.Stored && !isListed(f.Name) {
			return invalid("%s is named but not stored", f.Name)
		}
		if f.Stored && isListed(f.Name) && f.Name != traceName {
			return invalid("%s is stored: captures at switches and tables are only named", f.Name)
		}
	}
	for _, name := range required(m.names(flowsName)) {
		if !m.names(name) {
			return invalid("manifest does not name %s", name)
		}
	}
	return nil
}

func (m *Manifest) names(file string) bool {
	return slices.ContainsFunc(m.Files, func(f File) bool { return f.Name == file })
}

func (m *Manifest) encode() ([]byte, error) {
	data, err := json.MarshalIndent(m, "", "  ")
	return append(data, '\n'), err
}
