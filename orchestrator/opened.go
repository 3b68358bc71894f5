package orchestrator

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"

	"candela.dev/candela/analyzers"
	"candela.dev/candela/orchestrator/config"
)

// documentLimit bounds the documents of a run directory, in bytes. Run directories are untrusted input.
const documentLimit = 64 << 20

// AnalyzerNames lists the analyzers in report order; analysis/<name>.json holds the result of each.
func AnalyzerNames() []string { return append([]string(nil), analyzerNames...) }

// OpenedRun is the directory of a finished run, opened for reading. It reads only regular files inside that directory
// and follows no symbolic link out of it. The caller closes it.
type OpenedRun struct {
	root     *os.Root
	Document RunDocument
}

// OpenRun opens a run directory. Its errors match [ErrInput].
func OpenRun(dir string) (*OpenedRun, error) {
	root, err := os.OpenRoot(dir)
	if err != nil {
		return nil, inputError{notARun{dir, err}}
	}
	o := &OpenedRun{root: root}
	if err := o.open(); err != nil {
		_ = root.Close() // read only
		return nil, NoRun(dir, err)
	}
	return o, nil
}

func (o *OpenedRun) open() error {
	data, err := o.ReadFile("run.json")
	if err != nil {
		return err
	}
	if err := json.Unmarshal(data, &o.Document); err != nil {
		return fmt.Errorf("run.json: %w", err)
	}
	if o.Document.Schema != RunSchema {
		return fmt.Errorf("run.json: schema is %q, want %s", o.Document.Schema, RunSchema)
	}
	return nil
}

// BundleSchema names the format of a bundle's manifest.
const BundleSchema = "candela.bundle/v1"

// BundleManifest is the manifest of a bundle. The directory of an unpacked bundle has it instead of run.json.
const BundleManifest = "manifest.json"

// checkRunDir returns an error if dir is neither a run directory nor an unpacked bundle.
func checkRunDir(dir string) error {
	opened, err := OpenRun(dir)
	if err == nil {
		return opened.Close()
	}
	var manifest struct{ Schema string }
	if readJSON(filepath.Join(dir, BundleManifest), &manifest) == nil && manifest.Schema == BundleSchema {
		return nil
	}
	return err
}

// Close closes the directory.
func (o *OpenedRun) Close() error { return o.root.Close() }

// Dir returns the directory as given to OpenRun.
func (o *OpenedRun) Dir() string { return o.root.Name() }

// Open opens a regular file of the run, of any size.
func (o *OpenedRun) Open(name string) (*os.File, error) {
	info, err := o.root.Lstat(name)
	if err != nil {
		return nil, inputError{err}
	}
	if !info.Mode().IsRegular() {
		return nil, inputError{fmt.Errorf("%s is no regular file", filepath.Join(o.Dir(), name))}
	}
	f, err := o.root.Open(name)
	if err != nil {
		return nil, inputError{err}
	}
	return f, nil
}

// ReadFile returns a document of the run. It refuses files larger than documentLimit.
func (o *OpenedRun) ReadFile(name string) (data []byte, err error) {
	f, err := o.Open(name)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	data, err = io.ReadAll(io.LimitReader(f, documentLimit+1))
	if err == nil && len(data) > documentLimit {
		return nil, inputError{fmt.Errorf("%s is larger than %d bytes", f.Name(), documentLimit)}
	}
	return data, err
}

// Test returns the test of the run, parsed and validated again.
func (o *OpenedRun) Test(options config.Options) (*config.Test, error) {
	t, err := ParseRecorded(filepath.Join(o.Dir(), "config.yml"), o.ReadFile, options)
	if err != nil {
		return nil, inputError{err}
	}
	return t, nil
}

// ParseRecorded reads the test of a recorded run from config.yml and testbed.yml, and no other file. file is the test's
// name in messages; read returns either document.
func ParseRecorded(file string, read func(name string) ([]byte, error), options config.Options) (*config.Test, error) {
	data, err := read("config.yml")
	if err != nil {
		return nil, err
	}
	options.Testbed = "testbed.yml"
	options.ReadFile = read
	return config.Parse(file, data, options)
}

// Calibration returns the calibration that corrected the run's latencies; nil if there was none.
func (o *OpenedRun) Calibration() (*Calibration, error) {
	data, err := o.ReadFile(calibrationFile)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	} else if err != nil {
		return nil, err
	}
	var c Calibration
	if err := json.Unmarshal(data, &c); err != nil {
		return nil, inputError{fmt.Errorf("%s: %w", calibrationFile, err)}
	}
	return &c, nil
}

// MergeAnalysis merges the parts of an analysis; read returns analysis/<name>.json. It returns nil if there is no part,
// because nothing was analysed.
func MergeAnalysis(read func(name string) ([]byte, error)) (*analyzers.Analysis, error) {
	return MergeParts(analyzerNames, read)
}

// MergeParts is [MergeAnalysis] for the analyzers in names.
func MergeParts(names []string, read func(name string) ([]byte, error)) (*analyzers.Analysis, error) {
	var all *analyzers.Analysis
	for _, name := range names {
		file := "analysis/" + name + ".json"
		data, err := read(file)
		if errors.Is(err, fs.ErrNotExist) {
			continue
		} else if err != nil {
			return nil, err
		}
		var part analyzers.Analysis
		if err := json.Unmarshal(data, &part); err != nil {
			return nil, inputError{fmt.Errorf("%s: %w", file, err)}
		}
		if all == nil {
			all = &analyzers.Analysis{Schema: part.Schema, PacketIDs: part.PacketIDs, Coverage: map[string]map[string]int64{}}
		}
		all.Add(name, analyzers.Result{Findings: part.Findings, Metrics: part.Metrics, Coverage: part.Coverage[name]})
	}
	return all, nil
}
