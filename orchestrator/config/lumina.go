package config

import (
	"fmt"
	"net/netip"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"gopkg.in/yaml.v3"
)

// Import translates a configuration of Lumina's public prototype into a test file, with comments on what could not be
// translated. The prototype counts qpn and psn from 0, applies each event to every message, and counts ITER within
// messages (see its README and listings; Yu's thesis on Lumina, sections 5.3.3 and 5.3.4, counts from 1). The result
// counts from 1, lists the events of all messages and has iter-scope message. Unknown profiles become spec.
func Import(file string, data []byte, o Options) ([]byte, error) {
	d := newDecoder(file, o)
	root := d.parseDocument(data)
	if root == nil {
		return nil, d.err()
	}
	im := &importer{d: d, out: mappingOf()}
	im.test(root)
	if err := d.err(); err != nil {
		return nil, err
	}
	im.out.HeadComment = im.heading()
	text := marshal(im.out)
	if _, err := Parse(testName(file)+".yml", text, o); err != nil {
		return nil, fmt.Errorf("%s: the imported test is not valid here: %w", file, err)
	}
	return text, nil
}

// importer builds a test file from one of the prototype.
type importer struct {
	d     *decoder
	out   *yaml.Node
	notes []string // remarks for the reader of the result
	left  []string // omitted keys, which describe a laboratory
}

// prototypeProfiles maps the prototype's NIC types to profiles.
var prototypeProfiles = map[string]string{"CX4": "cx4-lx", "CX5": "cx5", "CX6": "cx6-dx", "E810": "e810"}

// laboratoryKeys are the prototype's keys for machines, cables and files, at any level.
var laboratoryKeys = []string{
	"local-workspace", "result-path", "aggregate-pcap-filename", "rewrite-udp-dst-port", "switch", "workspace",
	"control-ip",
	"username", "ssh-key-filepath", "if-name", "pci-addr", "ib-device", "ib-port", "switch-port", "listen-port",
	"responder-mirror",
	"rte-port-id", "dump-filename", "num-pkts", "prio-dscp-map",
}

func mappingOf(pairs ...*yaml.Node) *yaml.Node {
	return &yaml.Node{Kind: yaml.MappingNode, Tag: "!!map", Content: pairs}
}

// put appends a key if value is not nil.
func put(n *yaml.Node, key string, value *yaml.Node) {
	if value != nil {
		n.Content = append(n.Content, stringNode(key), value)
	}
}

var notInNames = regexp.MustCompile(`[^a-z0-9]+`)

// testName derives the name of a test from the name of a file.
func testName(file string) string {
	base := strings.TrimSuffix(filepath.Base(file), filepath.Ext(file))
	name := strings.Trim(notInNames.ReplaceAllString(strings.ToLower(base), "-"), "-")
	if name == "" {
		return "imported"
	}
	return strings.Trim(name[:min(len(name), 64)], "-")
}

// heading is the comment above the result.
func (im *importer) heading() string {
	lines := []string{
		"Imported from " + printable(filepath.Base(im.d.file)) + ", a configuration of Lumina's prototype.",
		"qpn and psn count from 1 here and from 0 there; iter-scope: message counts rounds as the prototype does.",
	}
	lines = append(lines, im.notes...)
	if len(im.left) > 0 {
		slices.Sort(im.left)
		lines = append(lines, "Left out, as it describes a laboratory: "+strings.Join(slices.Compact(im.left), ", ")+".")
	}
	return strings.Join(lines, "\n")
}

func (im *importer) note(format string, args ...any) {
	if s := fmt.Sprintf(format, args...); !slices.Contains(im.notes, s) {
		im.notes = append(im.notes, s)
	}
}

// each calls take for the keys of a mapping. Of the keys that take does not know, laboratory keys are collected and
// others are problems.
func (im *importer) each(n *yaml.Node, path string, take func(key string, value *yaml.Node, path string) bool) {
	if n.Kind != yaml.MappingNode {
		im.d.wrongType(n, path, "a mapping")
		return
	}
	seen := make(map[string]bool)
	for key, value := range im.d.pairs(n, path) {
		keyPath := join(path, printable(key.Value))
		if seen[key.Value] {
			im.d.problem(key, keyPath, "is given twice", "")
			continue
		}
		seen[key.Value] = true
		switch value = im.d.enter(value, keyPath); {
		case value == nil || take(key.Value, value, keyPath):
		case slices.Contains(laboratoryKeys, key.Value):
			im.left = append(im.left, keyPath)
		default:
			im.d.problem(key, keyPath, "is not a key of Lumina's prototype", "its example configuration has no such key here")
		}
	}
}

func (im *importer) test(root *yaml.Node) {
	parts := make(map[string]*yaml.Node)
	im.each(root, "", func(key string, value *yaml.Node, path string) bool {
		switch key {
		case "num-repeats":
			im.note("It asked for %s repetitions: candela run --repeat %s.", printable(value.Value), printable(value.Value))
		case "requester", "responder":
			parts[key] = im.host(value, path)
		case "traffic":
			parts[key] = im.traffic(value, path)
		case "requester-mirror":
			parts["injector"] = im.mirror(value, path)
		default:
			return false
		}
		return true
	})
	if parts["traffic"] == nil && im.d.fine("traffic") {
		im.d.problem(root, "traffic", "is missing", "a test without traffic cannot be imported")
	}
	put(im.out, "name", stringNode(testName(im.d.file)))
	for _, key := range []string{"requester", "responder", "injector", "traffic"} {
		put(im.out, key, parts[key])
	}
}

func (im *importer) mirror(n *yaml.Node, path string) *yaml.Node {
	var out *yaml.Node
	im.each(n, path, func(key string, value *yaml.Node, path string) bool {
		switch key {
		case "nic":
			im.left = append(im.left, path)
		case "pkt-dump-conf":
			im.each(value, path, func(key string, value *yaml.Node, path string) bool {
				if key != "snap-len" {
					return false
				}
				var snap int
				if (integer{min: 0, max: 16384}).decode(im.d, value, path, &snap); snap >= minSnap {
					out = mappingOf(stringNode("snap-bytes"), scalarNode("!!int", itoa(snap)))
				}
				return true
			})
		default:
			return false
		}
		return true
	})
	return out
}

func (im *importer) host(n *yaml.Node, path string) *yaml.Node {
	out := mappingOf()
	im.each(n, path, func(key string, value *yaml.Node, path string) bool {
		switch key {
		case "nic":
			put(out, key, im.nic(value, path))
		case "roce-parameters":
			put(out, key, im.roce(value, path))
		default:
			return false
		}
		return true
	})
	return out
}

func (im *importer) nic(n *yaml.Node, path string) *yaml.Node {
	out := mappingOf()
	im.each(n, path, func(key string, value *yaml.Node, path string) bool {
		switch key {
		case "type":
			put(out, "profile", stringNode(im.profile(value, path)))
		case "ip-list":
			var ips []netip.Prefix
			list[netip.Prefix]{of: prefix{}, min: 1, max: 4096}.decode(im.d, value, path, &ips)
			put(out, key, list[netip.Prefix]{of: prefix{}}.encode(&ips))
		default:
			return false
		}
		return true
	})
	return out
}

func (im *importer) profile(n *yaml.Node, path string) string {
	name, ok := prototypeProfiles[n.Value]
	if !ok {
		im.d.problem(n, path, "is "+show(n), "the prototype has CX4, CX5, CX6 and E810")
		return "spec"
	}
	if p := im.d.options.Profiles; p != nil && !slices.ContainsFunc(p, func(p Profile) bool { return p.Name == name }) {
		im.note("There is no model of %s yet; the test uses profile spec.", n.Value)
		return "spec"
	}
	return name
}

func (im *importer) roce(n *yaml.Node, path string) *yaml.Node {
	out := mappingOf()
	schema := roceSchema()
	im.each(n, path, func(key string, value *yaml.Node, path string) bool {
		if key == "dcqcn-enable" { // Intel NICs have one switch for both
			var on bool
			boolean{}.decode(im.d, value, path, &on)
			put(out, "dcqcn-rp-enable", boolean{}.encode(&on))
			put(out, "dcqcn-np-enable", boolean{}.encode(&on))
			return true
		}
		f := schema.field(key)
		if f == nil || key == "cnp-pacing" {
			return false
		}
		var r RoCE
		f.kind.decode(im.d, value, path, f.at(&r))
		if r.AdaptiveRetrans && im.d.options.Profiles != nil &&
			!slices.ContainsFunc(im.d.options.Profiles, func(p Profile) bool { return p.Adaptive }) {
			im.note("No model has adaptive retransmission yet; adaptive-retrans: true is left out.")
			return true
		}
		put(out, key, f.kind.encode(f.at(&r)))
		return true
	})
	return out
}
