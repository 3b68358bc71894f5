package config

import (
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"strings"
	"testing"

	"gopkg.in/yaml.v3"

	"candela.dev/candela/runtimetest"
)

// place is a mapping of the schema and a minimal document that contains it.
type place struct {
	path   string
	object *object
	wrap   func(*yaml.Node) *yaml.Node // inserts the mapping into a whole document
}

func mappingNode(pairs ...*yaml.Node) *yaml.Node {
	return &yaml.Node{Kind: yaml.MappingNode, Tag: "!!map", Content: pairs}
}

// sampleKey returns a valid key of a mapping with free keys.
func sampleKey(k kind) string {
	switch k := k.(type) {
	case keyed[ComparedMetric]:
		for _, key := range []string{"packet_seq_err", "1", "below-10000-B"} {
			if k.key.form.MatchString(key) {
				return key
			}
		}
	case keyed[CounterExpect]:
		return "packet_seq_err"
	case keyed[CompletionExpect]:
		return "qpn 1"
	}
	return ""
}

// places lists every mapping below p, p first.
func places(p place) []place {
	all := []place{p}
	for i := range p.object.fields {
		f := &p.object.fields[i]
		child := mapping(f.kind)
		if child == nil {
			continue
		}
		path, wrapItem := join(p.path, f.key), func(n *yaml.Node) *yaml.Node { return n }
		if strings.HasPrefix(reflect.TypeOf(f.kind).Name(), "list[") {
			path, wrapItem = path+"[0]", func(n *yaml.Node) *yaml.Node {
				return &yaml.Node{Kind: yaml.SequenceNode, Tag: "!!seq", Content: []*yaml.Node{n}}
			}
		}
		k := f.kind
		if of, ok := k.(comparedKind); ok {
			k = of.inner()
		}
		if key := sampleKey(k); key != "" {
			path, wrapItem = join(path, key), func(n *yaml.Node) *yaml.Node { return mappingNode(stringNode(key), n) }
		}
		all = append(all, places(place{path, child, func(n *yaml.Node) *yaml.Node {
			return p.wrap(mappingNode(stringNode(f.key), wrapItem(n)))
		}})...)
	}
	return all
}

func roots() map[string]place {
	whole := func(n *yaml.Node) *yaml.Node { return n }
	return map[string]place{"test": {"", testSchema(), whole}, "testbed": {"", testbedSchema(), whole}}
}

func parseRoot(root string, data []byte) error {
	if root == "testbed" {
		_, err := ParseTestbed("f.yml", data)
		return err
	}
	_, err := Parse("f.yml", data, Options{})
	return err
}

// misspell swaps the two middle letters, or doubles the last.
func misspell(key string) string {
	i := len(key) / 2
	if len(key) < 4 || key[i] == key[i-1] {
		return key + key[len(key)-1:]
	}
	return key[:i-1] + key[i:i+1] + key[i-1:i] + key[i+1:]
}

func TestEveryMappingRefusesMisspeltKeysAndGuessesTheRightOne(t *testing.T) {
	tried := 0
	for root, start := range roots() {
		for _, p := range places(start) {
			for _, key := range p.object.keys() {
				wrong := misspell(key)
				data := marshal(p.wrap(mappingNode(stringNode(wrong), scalarNode("!!int", "1"))))
				err := parseRoot(root, data)
				if !errors.Is(err, ErrInvalid) {
					t.Fatalf("%s: %q in %q: got %v", root, wrong, p.path, err)
				}
				want := fmt.Sprintf("%s: unknown key (did you mean %q?)", join(p.path, wrong), key)
				if !strings.Contains(err.Error(), want) {
					t.Errorf("%s: got\n%v\nwant it to contain\n%s", root, err, want)
				}
				tried++
			}
		}
	}
	if tried < 90 {
		t.Errorf("tried only %d keys: the walk misses mappings", tried)
	}
}

func TestEveryFieldRefusesAValueOfTheWrongSort(t *testing.T) {
	runtimetest.SkipRace(t)
	wrong := []string{"[[1]]", "{a: {}}", "!!binary aGk=", "2001-01-01", ".nan", "~", "-.5", "99999999999999999999999",
		"\"\""}
	for root, start := range roots() {
		for _, p := range places(start) {
			for i := range p.object.fields {
				f := &p.object.fields[i]
				refused := 0
				for _, value := range wrong {
					data := marshal(p.wrap(mappingNode(stringNode(f.key), mustParse(value))))
					err := parseRoot(root, data)
					if err != nil && strings.Contains(err.Error(), join(p.path, f.key)) {
						refused++
					}
				}
				if refused < 4 {
					t.Errorf("%s: %s refuses only %d of %d strange values", root, join(p.path, f.key), refused, len(wrong))
				}
			}
		}
	}
}

func TestEveryFieldIsDocumented(t *testing.T) {
	for root, start := range roots() {
		for _, p := range places(start) {
			if p.object.title == "" || p.object.doc == "" {
				t.Errorf("%s: mapping %q has no title or text", root, p.path)
			}
			for _, f := range p.object.fields {
				if !strings.HasSuffix(f.doc, ".") && !strings.Contains(f.doc, "}.") {
					t.Errorf("%s: %s: %q is no sentence", root, join(p.path, f.key), f.doc)
				}
				if strings.Contains(f.doc, "|") {
					t.Errorf("%s: %s: a | breaks the table of the reference", root, join(p.path, f.key))
				}
			}
		}
	}
}

func TestJSONSchemaMatchesTheDeclaration(t *testing.T) {
	for file, data := range map[string][]byte{"testdata/test.schema.json": JSONSchema(),
		"testdata/testbed.schema.json": TestbedJSONSchema(), "testdata/nightly.schema.json": NightlyJSONSchema()} {
		var v map[string]any
		if err := json.Unmarshal(data, &v); err != nil {
			t.Fatalf("%s is no JSON: %v", file, err)
		}
		golden(t, file, string(data))
	}
}

func TestReferenceMatchesTheDeclaration(t *testing.T) {
	golden(t, "testdata/reference.md", string(Reference()))
}
