package config

import (
	"bytes"
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"candela.dev/candela/clock"
	"candela.dev/candela/generator/parameter"
	"candela.dev/candela/generator/wire"
	"candela.dev/candela/testbeds"
	"gopkg.in/yaml.v3"
)

// VirtualTestbed is the name of the embedded testbed description.
const VirtualTestbed = "virtual"

// NetnsTestbed is the name of the embedded description of the testbed in network namespaces.
const NetnsTestbed = "netns"

// NetnsAFPacketTestbed is the name of the embedded description of the same testbed with the datapath that supports
// every event.
const NetnsAFPacketTestbed = "netns-afpacket"

// BMv2Testbed is the name of the embedded description of the testbed in network namespaces whose injector is bmv2.
const BMv2Testbed = "bmv2"

// VMTestbed is the name of the embedded description of the testbed of virtual machines.
const VMTestbed = "vm"

// Profile is a NIC model that tests may name.
type Profile struct {
	Name     string
	Defaults RoCE // transport parameters for tests that do not give them
	Adaptive bool // the model has adaptive retransmission; otherwise tests that enable it are refused
	// IgnoresSlowRestart is set if the model, like some real NICs, never sends a CNP with a NAK.
	IgnoresSlowRestart bool
}

// Options is the information that the caller has and the file does not. The zero value accepts every profile, bug and
// rule.
type Options struct {
	Profiles []Profile // nil: any name is accepted, with common defaults
	Bugs     []string  // nil: any name is accepted
	Rules    []string  // ids of the analyzers' rules that a test can expect; nil: any id is accepted
	Testbed  string    // replaces the file's testbed if not empty

	Switches        []parameter.Model // models of the switch under test
	NICs            []parameter.Model // models of the hosts' NICs
	NoNICs          map[string]string // why other models cannot be on NICs, by model
	Transports      []Transport       // of the hosts, the default first
	SwitchAnalyzers []string          // analyzers of switch tests
	SwitchMetrics   []SwitchMetric    // metrics that switch tests can bound
	SwitchStored    []StoredMetric    // metrics that they can compare with earlier runs

	// ReadFile reads testbed descriptions; nil: os.ReadFile.
	ReadFile func(name string) ([]byte, error)
}

// Transport is a transport of hosts in switch tests.
type Transport struct {
	parameter.Model
	OpenLoop bool         // its flows may have a rate
	Ranking  wire.Ranking // of flows that do not say
}

func (o *Options) transportModels() []parameter.Model {
	list := make([]parameter.Model, len(o.Transports))
	for i := range list {
		list[i] = o.Transports[i].Model
	}
	return list
}

// openLoops lists the transports whose flows may have a rate.
func (o *Options) openLoops() []string {
	var names []string
	for _, t := range o.Transports {
		if t.OpenLoop {
			names = append(names, t.Name)
		}
	}
	return names
}

// transport returns the transport of a name, nil if the caller gave none.
func (o *Options) transport(name string) *Transport {
	for i := range o.Transports {
		if o.Transports[i].Name == name {
			return &o.Transports[i]
		}
	}
	return nil
}

// profile returns the profile of a name, nil if the caller gave none.
func (o *Options) profile(name string) *Profile {
	for i := range o.Profiles {
		if o.Profiles[i].Name == name {
			return &o.Profiles[i]
		}
	}
	return nil
}

// defaults returns the transport parameters of a profile.
func (o *Options) defaults(profile string) RoCE {
	if p := o.profile(profile); p != nil {
		d := p.Defaults
		d.TrimDSCP = cmp.Or(d.TrimDSCP, defaultTrimDSCP) // DSCP 0 is best effort and cannot mark
		return d
	}
	return RoCE{DCQCNRP: true, DCQCNNP: true, MinTimeBetween: 4 * clock.Microsecond, Pacing: PerPort,
		TrimDSCP: defaultTrimDSCP}
}

// Load reads and checks the test in a file. The error is an [*Error] that lists all problems of the file, or a read
// error.
func Load(file string, o Options) (*Test, error) {
	data, err := os.ReadFile(file)
	if err != nil {
		return nil, fmt.Errorf("read test: %w", err)
	}
	return Parse(file, data, o)
}

// Parse checks the test in data. file is its name in messages; relative testbed paths are looked up in its directory
// first.
func Parse(file string, data []byte, o Options) (*Test, error) {
	d := newDecoder(file, o)
	root := d.parseDocument(data)
	if root == nil {
		return nil, d.err()
	}
	return d.test(root)
}

// test checks the test in a document.
func (d *decoder) test(root *yaml.Node) (*Test, error) {
	t := new(Test)
	if !d.decodeNode(root, testSchema(), t) {
		return nil, d.err()
	}
	d.finishExpectations(t)
	if err := d.loadTestbed(t); err != nil {
		return nil, err
	}
	d.expandEvents(t)
	d.validate(t)
	d.validatePlace(t)
	d.scaleTimes(t)
	if err := d.err(); err != nil {
		return nil, err
	}
	t.positions = d.positions
	return t, nil
}

func embedded(name string) []byte {
	switch name {
	case VirtualTestbed:
		return testbeds.Virtual
	case NetnsTestbed:
		return testbeds.Netns
	case NetnsAFPacketTestbed:
		return testbeds.NetnsAFPacket
	case BMv2Testbed:
		return testbeds.BMv2
	case VMTestbed:
		return testbeds.VM
	}
	return nil
}

// LoadTestbed reads and checks a testbed description, or returns the embedded one for [VirtualTestbed].
func LoadTestbed(file string) (*Testbed, error) {
	if data := embedded(file); data != nil {
		return ParseTestbed("testbeds/"+file+".yml", data)
	}
	data, err := os.ReadFile(file)
	if err != nil {
		return nil, fmt.Errorf("read testbed: %w", err)
	}
	return ParseTestbed(file, data)
}

// ParseTestbed checks the testbed description in data; file is its name in messages.
func ParseTestbed(file string, data []byte) (*Testbed, error) {
	d := newDecoder(file, Options{})
	t := new(Testbed)
	if d.decodeRoot(data, testbedSchema(), t) {
		d.validateTestbed(t)
	}
	if err := d.err(); err != nil {
		return nil, err
	}
	t.positions = d.positions
	return t, nil
}

// DefaultTestbed returns the embedded virtual testbed.
func DefaultTestbed() *Testbed {
	t, err := ParseTestbed("testbeds/virtual.yml", testbeds.Virtual)
	if err != nil {
		panic("config: the embedded testbed description is wrong: " + err.Error()) // a test of this package parses it
	}
	return t
}

func newDecoder(file string, o Options) *decoder {
	return &decoder{
		positions: positions{file: file, at: map[string]Pos{}}, options: o, defaults: map[string]*yaml.Node{},
		wrong: map[string]bool{}, touched: map[string]bool{},
	}
}

// decodeRoot decodes the document in data by the schema. It returns false if nothing was decoded.
func (d *decoder) decodeRoot(data []byte, schema *object, dst any) bool {
	root := d.parseDocument(data)
	return root != nil && d.decodeNode(root, schema, dst)
}

// decodeNode is decodeRoot for a parsed document.
func (d *decoder) decodeNode(root *yaml.Node, schema *object, dst any) bool {
	if root = d.enter(root, ""); root == nil {
		return false
	}
	schema.decode(d, root, "", dst)
	return root.Kind == yaml.MappingNode
}

// loadTestbed reads the testbed that the caller or the test names. A wrong name in the test is a problem of the test;
// the remaining checks then use the virtual testbed.
func (d *decoder) loadTestbed(t *Test) error {
	if d.options.Testbed != "" {
		t.TestbedFile = d.options.Testbed
		bed, err := d.readTestbed(t.TestbedFile, []string{t.TestbedFile})
		t.Testbed = bed
		return err
	}
	name := t.TestbedFile
	candidates := []string{name}
	if beside := filepath.Join(filepath.Dir(d.file), name); !filepath.IsAbs(name) && beside != filepath.Clean(name) {
		candidates = []string{beside, name}
	}
	bed, err := d.readTestbed(name, candidates)
	switch {
	case err == nil:
		t.Testbed = bed
		return nil
	case errors.Is(err, ErrInvalid):
		d.problemAt("testbed", "the testbed description is invalid", err.Error())
	case errors.Is(err, fs.ErrNotExist):
		d.problemAt("testbed", "there is no file "+printable(name),
			"looked for "+oneOf(candidates)+"; without a file, virtual is the built-in testbed")
	default:
		return err
	}
	t.Testbed = DefaultTestbed()
	return nil
}

// readTestbed parses the first of the candidates that exists.
func (d *decoder) readTestbed(name string, candidates []string) (*Testbed, error) {
	if name == "" {
		return DefaultTestbed(), nil
	}
	if data := embedded(name); data != nil {
		return ParseTestbed("testbeds/"+name+".yml", data)
	}
	file, data, err := d.readFirst(candidates)
	if err != nil {
		return nil, fmt.Errorf("read testbed: %w", err)
	}
	return ParseTestbed(file, data)
}

func (d *decoder) readFirst(files []string) (file string, data []byte, err error) {
	read := d.options.ReadFile
	if read == nil {
		read = os.ReadFile
	}
	for _, file = range files {
		if data, err = read(file); !errors.Is(err, fs.ErrNotExist) {
			break
		}
	}
	return file, data, err
}

// YAML returns the test with all defaults made explicit, in the form of config.yml. Parsing it yields the same test.
func (t *Test) YAML() []byte { return marshal(testSchema().encode(t)) }

// YAML returns the expectations as the test writes them; nil if there are none.
func (e *Expect) YAML() []byte {
	n := expectSchema().encode(e)
	if n == nil {
		return nil
	}
	return marshal(n)
}

// YAML returns the description with all defaults made explicit. Parsing it yields the same testbed.
func (t *Testbed) YAML() []byte { return marshal(testbedSchema().encode(t)) }

// Hash identifies all inputs of a run except the tool's version: SHA-256 over test and testbed in canonical form, in
// hexadecimal. It covers the seed, but not the names of files.
func (t *Test) Hash() string {
	canonical := *t
	canonical.TestbedFile = VirtualTestbed
	h := sha256.New()
	h.Write(canonical.YAML())
	h.Write([]byte("---\n"))
	h.Write(t.Testbed.YAML())
	return hex.EncodeToString(h.Sum(nil))
}

// WithSeed returns a copy of t with another seed.
func (t *Test) WithSeed(seed uint64) *Test {
	c := *t
	c.Seed = seed
	return &c
}

func marshal(n *yaml.Node) []byte {
	var b bytes.Buffer
	enc := yaml.NewEncoder(&b)
	enc.SetIndent(2)
	if err := enc.Encode(n); err != nil {
		panic("config: encode: " + err.Error()) // cannot fail: generated nodes, written to memory
	}
	if err := enc.Close(); err != nil {
		panic("config: encode: " + err.Error())
	}
	return b.Bytes()
}

// WithTestbedFile returns a copy of t with another TestbedFile, such as the copy in a run directory. The description
// itself does not change.
func (t *Test) WithTestbedFile(name string) *Test {
	c := *t
	c.TestbedFile = name
	return &c
}
