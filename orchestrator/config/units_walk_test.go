package config

import (
	"regexp"
	"slices"
	"strings"
	"testing"

	"gopkg.in/yaml.v3"
)

// named matches keys whose name ends in a unit.
var named = regexp.MustCompile(`(^|-)(ns|us|ms|bytes|gbps)$`)

// numeric returns the number kind inside optional values and lists, and its unit; ok is false if k is not a number.
func numeric(k kind) (leaf kind, unit string, ok bool) {
	switch k := k.(type) {
	case parameterKind:
		if k.scalar() == nil {
			return nil, "", false
		}
		return numeric(k.scalar())
	case integer:
		return k, k.unit, true
	case quantity:
		return k, k.unit, true
	case choice:
		return k, k.unit, true
	case numbers:
		return k.of, k.of.unit, true
	case *orScalar:
		return numeric(k.scalar)
	case holder:
		return numeric(k.inner())
	}
	return nil, "", false
}

// walkKeys calls visit with every key below k and its kind.
func walkKeys(k kind, path string, visit func(path string, k kind)) {
	if m, ok := k.(*modelled); ok {
		for i := range m.models {
			walkKeys(m.object(&m.models[i]), path+"("+m.models[i].Name+")", visit)
		}
		return
	}
	if p, ok := k.(parameterKind); ok && p.p.Items != nil {
		for _, f := range tableFields(p.p.Items, nil, false) {
			visit(join(path, f.key), f.kind)
			walkKeys(f.kind, join(path, f.key), visit)
		}
		return
	}
	o := mapping(k)
	if o == nil {
		return
	}
	for _, f := range o.fields {
		visit(join(path, f.key), f.kind)
		walkKeys(f.kind, join(path, f.key), visit)
	}
}

// decodedNumber returns the value that a kind decodes, in a field of the largest size.
func decodedNumber(t *testing.T, k kind, value string) (got int64, problems []Problem) {
	t.Helper()
	var n yaml.Node
	if err := yaml.Unmarshal([]byte(value), &n); err != nil {
		t.Fatal(err)
	}
	d := newDecoder("f.yml", Options{})
	k.decode(d, n.Content[0], "x", &got)
	return got, d.problems
}

func TestEveryNumberWithAUnitTakesTheUnit(t *testing.T) {
	o := switchLaboratory()
	seen, with := 0, 0
	for title, root := range map[string]*object{
		"test": testSchema(), "testbed": testbedSchema(), "switch test": switchTestSchema(&o),
	} {
		walkKeys(root, "", func(path string, k kind) {
			leaf, unit, ok := numeric(k)
			if !ok {
				return
			}
			seen++
			key := path[strings.LastIndexByte(path, '.')+1:]
			if unitOf(unit).of == noDimension {
				if named.MatchString(key) && mapping(k) == nil {
					t.Errorf("%s: %s names a unit and takes %q", title, path, leaf.allowed())
				}
				return
			}
			with++
			least := int64(0)
			switch leaf := leaf.(type) {
			case integer:
				least = leaf.min
			case quantity:
				least = leaf.min
			case choice:
				least = int64(slices.Min(leaf.values))
			}
			plain, problems := decodedNumber(t, leaf, itoa(int(least)))
			suffixed, more := decodedNumber(t, leaf, itoa(int(least))+strings.ReplaceAll(unit, "Gb/s", "Gbps"))
			if len(problems)+len(more) > 0 || plain != suffixed {
				t.Errorf("%s: %s: %d is %d and with the unit %s %d: %v %v", title, path, least, plain, unit, suffixed, problems,
					more)
			}
		})
	}
	if seen < 200 || with < 60 {
		t.Errorf("%d numbers, %d with a unit; the walk misses keys", seen, with)
	}
}

func TestAKeyInTheWrongPlaceIsToldWhereItBelongs(t *testing.T) {
	for _, tt := range []struct{ text, want string }{
		{"name: x\nswitch-under-test: {model: tofino}\ntransport: raw\n", "transport: unknown key: it belongs in hosts"},
		{"name: x\nswitch-under-test: {model: tofino}\nworkload: [{bytes: 1}]\n",
			"workload[0].bytes: unknown key: it belongs in workload[0].incast, "},
		{"name: x\ntraffic: {mtu: 1_024}\n", "traffic.mtu: is 1_024\n  write it as 1024; "},
	} {
		var err error
		if o := switchLaboratory(); IsSwitchTest([]byte(tt.text)) {
			_, err = ParseSwitchTests("f.yml", []byte(tt.text), o)
		} else {
			_, err = Parse("f.yml", []byte(tt.text), o)
		}
		if err == nil || !strings.Contains(err.Error(), tt.want) {
			t.Errorf("%s\ngot %v, want %q", tt.text, err, tt.want)
		}
	}
}
