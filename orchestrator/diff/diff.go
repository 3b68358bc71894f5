// Package diff compares two runs: environment, configuration, verdict, findings, distributions and counters. The
// environment comes first because a difference there may explain all others. Wall-clock times and names of runs are
// ignored.
package diff

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"slices"

	"candela.dev/candela/analyzers"
	"candela.dev/candela/orchestrator"
	"candela.dev/candela/orchestrator/config"
	"candela.dev/candela/orchestrator/switchtest"
	"candela.dev/candela/testbeds"
)

// Schema names the format of a Report as JSON.
const Schema = "candela.diff/v1"

// Run holds the compared data of a run.
type Run struct {
	Name     string // for messages: the directory
	Document orchestrator.RunDocument
	Analysis *analyzers.Analysis // nil: nothing was analysed

	environment map[string]string
	config      map[string]string
	counters    map[string]int64
	ofSwitch    bool // a switch test, not a NIC test
}

// Open reads a run directory. Errors are errors in the user's files.
func Open(dir string) (*Run, error) {
	o, err := orchestrator.OpenRun(dir)
	if err != nil {
		return nil, err
	}
	r, err := Read(dir, o.Document, o.ReadFile)
	return r, errors.Join(err, o.Close())
}

// Read builds a Run from the documents of a run directory, which read returns by name.
func Read(name string, doc orchestrator.RunDocument, read func(string) ([]byte, error)) (*Run, error) {
	r := &Run{Name: name, Document: doc}
	err := errors.Join(r.readEnvironment(read), r.readConfig(read), r.readCounters(read))
	if err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	merge := orchestrator.MergeAnalysis
	if r.ofSwitch {
		merge = func(read func(string) ([]byte, error)) (*analyzers.Analysis, error) {
			return orchestrator.MergeParts(append([]string{"flows"}, switchtest.AnalyzerNames()...), read)
		}
	}
	if r.Analysis, err = merge(read); err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	return r, nil
}

func (r *Run) readEnvironment(read func(string) ([]byte, error)) error {
	var env testbeds.Environment
	if err := readJSON(read, "environment.json", &env); err != nil {
		return err
	}
	r.environment = map[string]string{"tool version": r.Document.ToolVersion, "testbed": env.Testbed}
	for _, c := range env.Components {
		for _, p := range c.Properties {
			r.environment[c.Name+"."+p.Name] = p.Value
		}
	}
	return nil
}

func (r *Run) readConfig(read func(string) ([]byte, error)) error {
	r.config = make(map[string]string)
	for _, file := range []struct{ name, prefix string }{{"config.yml", ""}, {"testbed.yml", "testbed."}} {
		if r.ofSwitch && file.name == "testbed.yml" {
			continue // the test includes the topology
		}
		data, err := read(file.name)
		if err != nil {
			return err
		}
		if file.name == "config.yml" {
			r.ofSwitch = config.IsSwitchTest(data)
		}
		flatten(r.config, file.prefix, data)
	}
	delete(r.config, "name")    // of the test; it has no effect
	delete(r.config, "testbed") // path of the copy in the run directory
	return nil
}

// readCounters reads the counters of NICs, switch and dumpers. A run that ended early has none.
func (r *Run) readCounters(read func(string) ([]byte, error)) error {
	if r.ofSwitch {
		return r.readSwitchCounters(read)
	}
	var doc orchestrator.Counters
	if err := readJSON(read, "counters.json", &doc); errors.Is(err, fs.ErrNotExist) {
		return nil
	} else if err != nil {
		return err
	}
	r.counters = make(map[string]int64)
	for i := range doc.Hosts {
		h := &doc.Hosts[i]
		for name := range h.Finish {
			r.counters[h.Name+"."+name], _ = h.Delta(name)
		}
	}
	for _, p := range doc.Switch.Ports {
		port := fmt.Sprintf("switch.port-%d.", p.Port)
		r.counters[port+"rx-packets"], r.counters[port+"rx-bytes"] = int64(p.RoCERx.Packets), int64(p.RoCERx.Bytes)
		r.counters[port+"tx-packets"], r.counters[port+"tx-bytes"] = int64(p.RoCETx.Packets), int64(p.RoCETx.Bytes)
		r.counters[port+"pause-rx"] = int64(p.PauseRx)
	}
	for _, d := range doc.Dumpers {
		r.counters[d.Name+".received"], r.counters[d.Name+".written"] = int64(d.Received), int64(d.Written)
		r.counters[d.Name+".lost"] = int64(d.Dropped + d.SwitchDropped)
	}
	return nil
}

// readSwitchCounters reads the counters of switches and taps.
func (r *Run) readSwitchCounters(read func(string) ([]byte, error)) error {
	var doc switchtest.CountersDocument
	if err := readJSON(read, "switch-counters.json", &doc); errors.Is(err, fs.ErrNotExist) {
		return nil
	} else if err != nil {
		return err
	}
	r.counters = doc.Counters
	return nil
}

func readJSON(read func(string) ([]byte, error), name string, v any) error {
	data, err := read(name)
	if err != nil {
		return err
	}
	if err := json.Unmarshal(data, v); err != nil {
		return fmt.Errorf("%s: %w", name, err)
	}
	return nil
}

// Report lists the differences of two runs in reading order.
type Report struct {
	Schema      string    `json:"schema"`
	A           string    `json:"a"`
	B           string    `json:"b"`
	Same        bool      `json:"same"`
	Environment []Change  `json:"environment"`
	Config      []Change  `json:"config"`
	Verdict     []Change  `json:"verdict"`
	Findings    Findings  `json:"findings"`
	Metrics     []Metric  `json:"metrics"`
	Counters    []Counter `json:"counters"`
}

// Change is a setting or property with different values; nil: absent from that run.
type Change struct {
	Name string  `json:"name"`
	A    *string `json:"a"`
	B    *string `json:"b"`
}

// Findings compares findings by rule, connection and PSN.
type Findings struct {
	Appeared    []analyzers.Finding `json:"appeared"`    // only in B
	Disappeared []analyzers.Finding `json:"disappeared"` // only in A
	Same        int                 `json:"same"`
}

// Metric is a distribution with different values.
type Metric struct {
	Name       string       `json:"name"`
	Unit       string       `json:"unit"`
	Connection int          `json:"connection"`
	A          Distribution `json:"a"`
	B          Distribution `json:"b"`
	// Ratio is the median of B divided by that of A; nil if either has none or that of A is 0.
	Ratio *float64 `json:"ratio"`
}

// Distribution summarises a metric; all zero if the run has none.
type Distribution struct {
	Count int64 `json:"count"`
	P50   int64 `json:"p50"`
	P99   int64 `json:"p99"`
}

// Counter is a counter with different values.
type Counter struct {
	Name string `json:"name"`
	A    int64  `json:"a"`
	B    int64  `json:"b"`
}

// Compare compares b with a.
func Compare(a, b *Run) *Report {
	r := &Report{
		Schema: Schema, A: a.Name, B: b.Name,
		Environment: changes(a.environment, b.environment), Config: changes(a.config, b.config),
		Verdict: changes(verdict(a), verdict(b)), Findings: compareFindings(findings(a), findings(b)),
		Metrics: compareMetrics(metrics(a), metrics(b)), Counters: compareCounters(a.counters, b.counters),
	}
	r.Same = len(r.Environment)+len(r.Config)+len(r.Verdict)+len(r.Findings.Appeared)+len(r.Findings.Disappeared)+
		len(r.Metrics)+len(r.Counters) == 0
	return r
}

func verdict(r *Run) map[string]string {
	v := map[string]string{"verdict": string(r.Document.Verdict.Verdict)}
	for i, reason := range r.Document.Reasons {
		v[fmt.Sprintf("reason %d", i+1)] = reason
	}
	return v
}

func changes(a, b map[string]string) []Change {
	list := []Change{}
	for _, name := range union(a, b) {
		x, inA := a[name]
		y, inB := b[name]
		if inA == inB && x == y {
			continue
		}
		c := Change{Name: name}
		if inA {
			c.A = &x
		}
		if inB {
			c.B = &y
		}
		list = append(list, c)
	}
	return list
}

// union returns the keys of both maps, sorted.
func union[V any](a, b map[string]V) []string {
	all := slices.Collect(maps.Keys(a))
	for k := range b {
		if _, ok := a[k]; !ok {
			all = append(all, k)
		}
	}
	slices.Sort(all)
	return all
}

func findings(r *Run) []analyzers.Finding {
	if r.Analysis == nil {
		return nil
	}
	return r.Analysis.Findings
}

func metrics(r *Run) []analyzers.Metric {
	if r.Analysis == nil {
		return nil
	}
	return r.Analysis.Metrics
}

type findingKey struct {
	rule       string
	connection int
	psn        int64
}

// compareFindings matches findings one to one; two findings with the same key are distinct.
func compareFindings(a, b []analyzers.Finding) Findings {
	waiting := make(map[findingKey]int)
	for _, f := range a {
		waiting[keyOf(f)]++
	}
	r := Findings{Appeared: []analyzers.Finding{}, Disappeared: []analyzers.Finding{}}
	for _, f := range b {
		if k := keyOf(f); waiting[k] > 0 {
			waiting[k]--
			r.Same++
		} else {
			r.Appeared = append(r.Appeared, f)
		}
	}
	for _, f := range slices.Backward(a) { // the first ones were matched
		if k := keyOf(f); waiting[k] > 0 {
			waiting[k]--
			r.Disappeared = append(r.Disappeared, f)
		}
	}
	slices.Reverse(r.Disappeared)
	return r
}

func keyOf(f analyzers.Finding) findingKey { return findingKey{f.Rule, f.Connection, f.PSN} }

type metricKey struct {
	name       string
	connection int
}

func compareMetrics(a, b []analyzers.Metric) []Metric {
	all := make(map[metricKey][2]analyzers.Metric)
	for side, list := range [][]analyzers.Metric{a, b} {
		for _, m := range list {
			pair := all[metricKey{m.Name, m.Connection}]
			pair[side] = m
			all[metricKey{m.Name, m.Connection}] = pair
		}
	}
	list := []Metric{}
	for k, pair := range all {
		if same(&pair[0], &pair[1]) {
			continue
		}
		m := Metric{Name: k.name, Connection: k.connection, Unit: cmp.Or(pair[0].Unit, pair[1].Unit)}
		m.A, m.B = distribution(&pair[0]), distribution(&pair[1])
		if m.A.P50 != 0 && m.B.Count > 0 {
			ratio := float64(m.B.P50) / float64(m.A.P50)
			m.Ratio = &ratio
		}
		list = append(list, m)
	}
	slices.SortFunc(list, func(a, b Metric) int {
		return cmp.Or(cmp.Compare(a.Name, b.Name), cmp.Compare(a.Connection, b.Connection))
	})
	return list
}

func same(a, b *analyzers.Metric) bool {
	return a.Count == b.Count && a.Min == b.Min && a.P50 == b.P50 && a.P99 == b.P99 && a.Max == b.Max && a.Sum == b.Sum
}

func distribution(m *analyzers.Metric) Distribution { return Distribution{m.Count, m.P50, m.P99} }

func compareCounters(a, b map[string]int64) []Counter {
	list := []Counter{}
	for _, name := range union(a, b) {
		if a[name] != b[name] {
			list = append(list, Counter{name, a[name], b[name]})
		}
	}
	return list
}
