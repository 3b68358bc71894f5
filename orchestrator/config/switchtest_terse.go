package config

import (
	"bytes"
	"fmt"
	"slices"
	"strings"

	"candela.dev/candela/generator/workload"
	"gopkg.in/yaml.v3"
)

// Terse returns the test without settings that equal their defaults. If a default depends on another setting and the
// short form would differ, Terse returns the full form.
func (t *SwitchTest) Terse(o Options) []byte {
	full := t.YAML()
	plain, err := ParseSwitchTests("plain", t.plain(), o)
	if err != nil {
		return full
	}
	own, usual := rootOf(full), rootOf(plain[0].YAML())
	if own == nil || usual == nil {
		return full
	}
	_, items := lookup(own, "workload")
	_, samples := lookup(usual, "workload")
	for _, item := range items.Content {
		for _, sample := range samples.Content {
			if item.Content[0].Value == sample.Content[0].Value {
				prune(item.Content[1], sample.Content[1])
			}
		}
	}
	prune(own, usual)
	var b bytes.Buffer
	enc := yaml.NewEncoder(&b)
	enc.SetIndent(2)
	if enc.Encode(own) != nil || enc.Close() != nil {
		return full
	}
	if reparsed, err := ParseSwitchTests("terse", b.Bytes(), o); err != nil || reparsed[0].Hash() != t.Hash() {
		return full
	}
	return b.Bytes()
}

// plain returns a minimal test with the same models and kinds of workload.
func (t *SwitchTest) plain() []byte {
	var b strings.Builder
	fmt.Fprintf(&b,
		"name: plain\ntopology: {kind: %s}\nswitch-under-test: {model: %s}\nhosts: {transport: %s}\nworkload:\n",
		t.Topology.Model, t.Switch.Model, t.Hosts.Model)
	var kinds []string
	for i := range t.Workload {
		if kind := t.Workload[i].Kind; !slices.Contains(kinds, kind) {
			kinds = append(kinds, kind)
			fmt.Fprintf(&b, "  - %s: {%s}\n", kind, workload.Find(kind).Sample)
		}
	}
	return []byte(b.String())
}

func rootOf(document []byte) *yaml.Node {
	var n yaml.Node
	if yaml.Unmarshal(document, &n) != nil || len(n.Content) != 1 || n.Content[0].Kind != yaml.MappingNode {
		return nil
	}
	return n.Content[0]
}

// prune removes from a mapping the pairs that usual has too, except keys that a test requires.
func prune(n, usual *yaml.Node) {
	must := []string{"name", "kind", "model", "transport", "packets", "workload"}
	for _, k := range workload.Kinds() {
		for _, p := range k.Parameters {
			if p.Required {
				must = append(must, p.Name)
			}
		}
	}
	kept := n.Content[:0]
	for i := 0; i < len(n.Content); i += 2 {
		key, value := n.Content[i], n.Content[i+1]
		_, other := lookup(usual, key.Value)
		switch {
		case other == nil || slices.Contains(must, key.Value):
		case value.Kind == yaml.MappingNode && other.Kind == yaml.MappingNode:
			if prune(value, other); len(value.Content) == 0 {
				continue
			}
		case alike(value, other):
			continue
		}
		kept = append(kept, key, value)
	}
	n.Content = kept
}

// alike reports whether two nodes are equal, apart from positions and style.
func alike(a, b *yaml.Node) bool {
	return a.Kind == b.Kind && a.Value == b.Value && slices.EqualFunc(a.Content, b.Content, alike)
}
