package config

import (
	"bytes"
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"candela.dev/candela/generator/workload"
	"candela.dev/candela/testbeds"
	"gopkg.in/yaml.v3"
)

func (k optionalText) encode(src any) *yaml.Node {
	if *src.(*string) == "" {
		return nil
	}
	return k.text.encode(src)
}

func (k optionalStatus) encode(src any) *yaml.Node {
	if *src.(*status) == "" {
		return nil
	}
	return k.enum.encode(src)
}

// switchTestKey identifies a file as a switch test.
const switchTestKey = "switch-under-test"

// IsSwitchTest reports whether a file is a switch test, valid or not. It has the key switch-under-test, or it has no
// key of a NIC test and a key that resembles one of a switch test.
func IsSwitchTest(data []byte) bool {
	root := newDecoder("", Options{}).parseDocument(data)
	if root == nil || root.Kind != yaml.MappingNode {
		return false
	}
	has := func(key string) bool {
		_, value := lookup(root, key)
		return value != nil
	}
	if has(switchTestKey) {
		return true
	}
	if has("traffic") || has("requester") || has("responder") {
		return false
	}
	own := []string{"workload", "topology", "hosts", "taps"}
	for i := 0; i < len(root.Content); i += 2 {
		key := normalise(root.Content[i].Value)
		if slices.Contains(own, key) || switchTestAliases[key] == switchTestKey || closest(key, own) != "" ||
			closest(key, []string{switchTestKey}) != "" {
			return true
		}
	}
	return false
}

// IsNetworkLab reports whether a file describes a lab without an injector, valid or not.
func IsNetworkLab(data []byte) bool {
	root := newDecoder("", Options{}).parseDocument(data)
	if root == nil || root.Kind != yaml.MappingNode {
		return false
	}
	_, sw := lookup(root, "switch")
	if sw == nil || sw.Kind != yaml.MappingNode {
		return false
	}
	_, driver := lookup(sw, "driver")
	return driver != nil && driver.Value == DriverNone
}

// LoadSwitchTests reads and checks a switch test; for a sweep it returns the test of each point, in order.
func LoadSwitchTests(file string, o Options) ([]*SwitchTest, error) {
	data, err := os.ReadFile(file)
	if err != nil {
		return nil, fmt.Errorf("read test: %w", err)
	}
	return ParseSwitchTests(file, data, o)
}

// ParseSwitchTests is [LoadSwitchTests] for data in memory.
func ParseSwitchTests(file string, data []byte, o Options) ([]*SwitchTest, error) {
	d := newDecoder(file, o)
	root := d.parseDocument(data)
	spec := sweepOf(root)
	if spec == nil {
		if root == nil {
			return nil, d.err()
		}
		t, err := d.switchTest(root)
		if err != nil {
			return nil, err
		}
		return []*SwitchTest{t}, nil
	}
	s := sweep{d: d, root: without(root, "sweep")}
	s.read(spec)
	check := func(d *decoder, root *yaml.Node) (*SwitchTest, error) { return d.switchTest(root) }
	if len(d.problems) > 0 {
		return nil, withRest(&s, check)
	}
	return pointsOf(&s, check, func(t *SwitchTest, p *Point) (*SwitchTest, error) {
		t.Point, p.BaseSeed = p, t.Seed
		return t.WithBaseSeed(t.Seed), nil
	})
}

func (d *decoder) switchTest(root *yaml.Node) (*SwitchTest, error) {
	t := new(SwitchTest)
	if !d.decodeNode(root, switchTestSchema(&d.options), t) {
		return nil, d.err()
	}
	if err := d.loadTopology(t, root); err != nil {
		return nil, err
	}
	t.open = d.openFile
	d.finishSwitchExpectations(&t.Expect)
	d.validateSwitchTest(t)
	if err := d.err(); err != nil {
		return nil, err
	}
	t.positions = d.positions
	return t, nil
}

// loadTopology reads the topology from the file that the test names, unless the test contains one.
func (d *decoder) loadTopology(t *SwitchTest, root *yaml.Node) error {
	_, own := lookup(root, "topology")
	name := t.TopologyFile
	if d.options.Testbed != "" {
		name = d.options.Testbed
	}
	switch {
	case own != nil && t.TopologyFile != "":
		d.problemAt("testbed", "is given together with topology", "give only one of them")
		return nil
	case own != nil && d.options.Testbed == "":
		return nil
	case name == "":
		d.problemAt("", "topology or testbed is missing",
			"topology takes "+topologySchema().allowed()+"; built-in testbeds are "+oneOf(testbeds.TopologyNames()))
		return nil
	}
	bed, err := d.readTopology(name)
	switch {
	case err == nil:
		t.Topology = bed.Topology
	case errors.Is(err, ErrInvalid):
		d.problemAt("testbed", "the testbed description is invalid", err.Error())
	case errors.Is(err, fs.ErrNotExist):
		d.problemAt("testbed", "there is no testbed "+printable(name),
			"it takes a file, or one of "+oneOf(testbeds.TopologyNames()))
	default:
		return err
	}
	return nil
}

// openFile opens a file that a workload names: beside the test, or as it is named.
func (d *decoder) openFile(name string) (*workload.File, error) {
	candidates := []string{name}
	if beside := filepath.Join(filepath.Dir(d.file), name); !filepath.IsAbs(name) && beside != filepath.Clean(name) {
		candidates = []string{beside, name}
	}
	if d.options.ReadFile != nil {
		path, data, err := d.readFirst(candidates)
		if err != nil {
			return nil, err
		}
		return &workload.File{Path: path, Size: int64(len(data)), ReaderAt: bytes.NewReader(data),
			Closer: io.NopCloser(nil)}, nil
	}
	for _, path := range candidates {
		f, err := os.Open(path)
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err != nil {
			return nil, err
		}
		info, err := f.Stat()
		if err == nil && !info.Mode().IsRegular() {
			err = fmt.Errorf("%s is not a regular file", path)
		}
		if err != nil {
			return nil, errors.Join(err, f.Close())
		}
		return &workload.File{Path: path, Size: info.Size(), ReaderAt: f, Closer: f}, nil
	}
	return nil, fmt.Errorf("open %s: %w", strings.Join(candidates, " or "), fs.ErrNotExist)
}

// readTopology parses a built-in description, or the first of the files that exists.
func (d *decoder) readTopology(name string) (*SwitchTestbed, error) {
	if data, ok := testbeds.Topology(name); ok {
		return ParseSwitchTestbed(name+".yml", data)
	}
	candidates := []string{name}
	if beside := filepath.Join(filepath.Dir(d.file), name); !filepath.IsAbs(name) && beside != filepath.Clean(name) {
		candidates = []string{beside, name}
	}
	file, data, err := d.readFirst(candidates)
	if err != nil {
		return nil, fmt.Errorf("read testbed: %w", err)
	}
	return ParseSwitchTestbed(file, data)
}

// SwitchTestbed is a testbed description that holds a topology.
type SwitchTestbed struct {
	Name     string
	Topology Topology
}

func switchTestbedSchema() *object {
	return &object{
		title: "The testbed description of a switch test", doc: "A network, for several tests.",
		fields: []field{
			{key: "name", doc: "Name of the testbed.", kind: nameForm, required: true,
				at: at(func(t *SwitchTestbed) *string { return &t.Name })},
			{key: "topology", doc: "How hosts and switches are wired.", kind: topologySchema(), required: true,
				at: at(func(t *SwitchTestbed) *Topology { return &t.Topology })},
		},
	}
}

// ParseSwitchTestbed checks the testbed description in data; file is its name in messages.
func ParseSwitchTestbed(file string, data []byte) (*SwitchTestbed, error) {
	d := newDecoder(file, Options{})
	t := new(SwitchTestbed)
	if d.decodeRoot(data, switchTestbedSchema(), t) {
		d.validateTopology(&t.Topology)
	}
	if err := d.err(); err != nil {
		return nil, err
	}
	return t, nil
}

// YAML returns the test with all defaults and its topology made explicit, in the form of config.yml. Parsing it yields
// the same test.
func (t *SwitchTest) YAML() []byte {
	whole := *t
	whole.TopologyFile = ""
	return marshal(switchTestSchema(whole.vocabulary()).encode(&whole))
}

// vocabulary returns options with all names that occur in the test, as encoding needs them.
func (t *SwitchTest) vocabulary() *Options {
	var o Options
	for _, a := range t.Expect.Analyzers {
		o.SwitchAnalyzers = append(o.SwitchAnalyzers, a.Name)
	}
	metrics := slices.Clone(t.Expect.Metrics)
	for i := range t.Expect.Flows {
		metrics = append(metrics, t.Expect.Flows[i].Metrics...)
	}
	slices.SortStableFunc(metrics, func(a, b MetricExpect) int { return cmp.Compare(a.place, b.place) })
	for _, m := range metrics {
		if !slices.ContainsFunc(o.SwitchMetrics, func(known SwitchMetric) bool { return known.Name == m.Name }) {
			o.SwitchMetrics = append(o.SwitchMetrics, SwitchMetric{Name: m.Name, Flow: true})
		}
	}
	compared := slices.Clone(t.Expect.Baseline.Metrics)
	slices.SortStableFunc(compared, func(a, b ComparedMetric) int { return cmp.Compare(a.place, b.place) })
	for i, m := range compared {
		if i == 0 || m.Of.Key != compared[i-1].Of.Key {
			o.SwitchStored = append(o.SwitchStored, m.Of)
		}
	}
	return &o
}

// YAML returns the expectations as the test writes them; nil if there are none.
func (e *SwitchExpect) YAML() []byte {
	t := SwitchTest{Expect: *e}
	if n := switchExpectSchema(t.vocabulary()).encode(e); n != nil {
		return marshal(n)
	}
	return nil
}

// Hash identifies all inputs of a run except the tool's version: SHA-256 over the canonical form, in hexadecimal.
func (t *SwitchTest) Hash() string { return HashOf(t.YAML()) }

// HashOf returns the hash of a test whose canonical form is known.
func HashOf(canonical []byte) string {
	sum := sha256.Sum256(canonical)
	return hex.EncodeToString(sum[:])
}
