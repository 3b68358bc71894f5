package config

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"gopkg.in/yaml.v3"
)

// NICSettings are what a test sets on a NIC of hardware; what is absent is not changed.
type NICSettings struct {
	MTU            *int   // of the interface, in bytes
	PFC            *[]int // priorities that pause by themselves
	ETS            *ETS
	Trust          *Trust
	DSCPPriorities []NamedValue
	CNPDSCP        *int
	DCQCNPriority  *int
	Devlink        []NamedValue
	Ethtool        []NamedValue
}

// ETS is how priorities share a port, each list by priority or by traffic class (IEEE Std 802.1Q, clause 37).
type ETS struct {
	Class     []int
	Algorithm []TSA
	Bandwidth []int // per cent
}

// TSA is the transmission selection algorithm of a traffic class.
type TSA string

// Algorithms that a test can ask for.
const (
	TSAStrict TSA = "strict"
	TSAShared TSA = "ets"
)

// String returns the algorithm in the words of the configuration.
func (t TSA) String() string { return string(t) }

// Trust is what decides the priority of a frame that comes in.
type Trust string

// Fields that a NIC can trust.
const (
	TrustDSCP Trust = "dscp"
	TrustPCP  Trust = "pcp"
)

// String returns the field in the words of the configuration.
func (t Trust) String() string { return string(t) }

// NamedValue is a setting whose name is the device's, and its value as text.
type NamedValue struct{ Name, Value string }

// priorities is the number of priorities, and of traffic classes (IEEE Std 802.1Q, clause 6.9.3).
const priorities = 8

const eightPriorities = "IEEE 802.1Q has eight priorities"

func nicSettingFields() []field {
	priority := integer{min: 0, max: priorities - 1, why: eightPriorities}
	of := func(f func(*NICSettings) any) func(any) any {
		return func(n any) any { return f(&n.(*NIC).Settings) }
	}
	const hardware = "On an RDMA device of a lab: "
	return []field{
		{key: "mtu", doc: hardware + "MTU of its interface; RoCE needs 84 more than the path MTU.",
			kind: optional[int]{integer{min: 576, max: 9978, unit: "bytes"}}, defDoc: "unchanged",
			at: of(func(s *NICSettings) any { return &s.MTU })},
		{key: "pfc", doc: hardware + "priorities with priority flow control; the others have none.",
			kind: optional[[]int]{list[int]{of: priority, max: priorities}}, defDoc: "unchanged",
			at: of(func(s *NICSettings) any { return &s.PFC })},
		{key: "ets", doc: hardware + "how priorities share the port, in the words of dcb-ets(8).",
			kind: optional[ETS]{etsSchema(priority)}, defDoc: "unchanged",
			at: of(func(s *NICSettings) any { return &s.ETS })},
		{key: "trust", doc: hardware + "what decides the priority of a frame that comes in.",
			kind: optional[Trust]{enum[Trust]{values: []Trust{TrustDSCP, TrustPCP}}}, defDoc: "unchanged",
			at: of(func(s *NICSettings) any { return &s.Trust })},
		{key: "dscp-prio", doc: hardware + "priorities by DSCP, such as {26: 3}; other DSCPs keep theirs.",
			kind: namedValues{key: text{newPattern(`^([0-9]|[1-5][0-9]|6[0-3])$`), "DSCPs from 0 to 63"},
				value: text{newPattern(`^[0-7]$`), "a priority from 0 to 7"}}, defDoc: "unchanged",
			at: of(func(s *NICSettings) any { return &s.DSCPPriorities })},
		{key: "cnp-dscp", doc: hardware + "DSCP of its CNPs.",
			kind: optional[int]{integer{min: 0, max: 63, why: "DSCP has 6 bits"}}, defDoc: "unchanged",
			at: of(func(s *NICSettings) any { return &s.CNPDSCP })},
		{key: "dcqcn-priority", doc: hardware + "priority that dcqcn-rp-enable and dcqcn-np-enable are for, where it has a " +
			"switch for each.", kind: optional[int]{priority}, defDoc: "0",
			at: of(func(s *NICSettings) any { return &s.DCQCNPriority })},
		{key: "devlink", doc: hardware + "devlink parameters of mode runtime, by name. Those of other modes take effect " +
			"after a reload of the driver or a reset.",
			kind: namedValues{key: text{newPattern(`^[A-Za-z0-9_-]{1,63}$`), "names of devlink parameters"},
				value: text{newPattern(`^[^\x00-\x1f]{1,31}$`), "a word or a number, at most 31 bytes"}}, defDoc: "unchanged",
			at: of(func(s *NICSettings) any { return &s.Devlink })},
		{key: "ethtool", doc: hardware + "settings of ethtool: `pause-autoneg`, `-rx` and `-tx`, `ring-rx` and `-tx`, " +
			"`channels-rx`, `-tx` and `-combined`, `coalesce-rx-usecs`, `-rx-frames`, `-adaptive-rx` and the same for tx, " +
			"`fec`, `feature-NAME`, `flag-NAME` (private).",
			kind: namedValues{key: text{newPattern(
				`^((pause|ring|channels)-(autoneg|rx|tx|combined)|coalesce-[a-z-]{5,11}|fec|(feature|flag)-[\w.: -]{1,31})$`),
				"settings of ethtool, such as pause-rx, ring-rx, coalesce-rx-usecs, fec, feature-rx-gro or flag-NAME"},
				value: text{newPattern(`^(true|false|[0-9]{1,10}|(auto|off|rs|baser|llrs)( (auto|off|rs|baser|llrs))*)$`),
					"true, false, a number, or the modes of fec"}},
			defDoc: "unchanged", at: of(func(s *NICSettings) any { return &s.Ethtool })},
	}
}

func etsSchema(priority integer) *object {
	eight := func(k kind) list[int] { return list[int]{of: k, min: priorities, max: priorities} }
	return &object{
		title: "ets",
		doc:   "How priorities share a port (IEEE 802.1Q, clause 37): eight values each.",
		fields: []field{
			{key: "prio-tc", doc: "Traffic class of each priority.", kind: eight(priority), required: true,
				at: at(func(e *ETS) *[]int { return &e.Class })},
			{key: "tc-tsa", doc: "Algorithm of each traffic class.", required: true,
				kind: list[TSA]{of: enum[TSA]{values: []TSA{TSAStrict, TSAShared}}, min: priorities, max: priorities},
				at:   at(func(e *ETS) *[]TSA { return &e.Algorithm })},
			{key: "tc-bw", doc: "Per cent of what strict classes leave, by traffic class; they add up to 100, or are all 0.",
				kind: eight(integer{min: 0, max: 100}), required: true, at: at(func(e *ETS) *[]int { return &e.Bandwidth })},
		},
	}
}

// namedValues is a mapping whose keys are names of the device's, kept as text in their order.
type namedValues struct {
	key, value text
}

func (k namedValues) allowed() string { return "a mapping whose keys are " + k.key.what }

func (k namedValues) decode(d *decoder, n *yaml.Node, path string, dst any) {
	if n.Kind != yaml.MappingNode {
		d.wrongType(n, path, k.allowed())
		return
	}
	out := dst.(*[]NamedValue)
	*out = nil
	for key, value := range d.pairs(n, path) {
		at := join(path, printable(key.Value))
		d.at[at] = posOf(key)
		switch {
		case key.Kind != yaml.ScalarNode || !k.key.form.MatchString(key.Value):
			d.problem(key, at, "is not a key of "+path, "its keys are "+k.key.what)
			continue
		case slices.ContainsFunc(*out, func(v NamedValue) bool { return v.Name == key.Value }):
			d.problem(key, at, "is given twice", "")
			continue
		}
		v := NamedValue{Name: key.Value}
		if value = d.enter(value, at); value != nil {
			k.decodeValue(d, value, at, &v.Value)
		}
		*out = append(*out, v)
	}
	slices.SortFunc(*out, compareNames)
}

func (k namedValues) decodeValue(d *decoder, n *yaml.Node, path string, dst *string) {
	if n.Tag == "!!bool" {
		n = stringNode(strings.ToLower(n.Value))
	} else if n.Tag == "!!int" && !plainInteger.MatchString(n.Value) || n.Tag == "!!float" {
		d.problem(n, path, "is "+printable(n.Value), "write it as a plain decimal number, or in quotes")
		return
	}
	k.value.decode(d, n, path, dst)
}

// compareNames sorts numbers by value, and names by letters.
func compareNames(a, b NamedValue) int {
	x, errX := strconv.Atoi(a.Name)
	y, errY := strconv.Atoi(b.Name)
	if errX == nil && errY == nil {
		return cmp.Compare(x, y)
	}
	return strings.Compare(a.Name, b.Name)
}

func (k namedValues) encode(src any) *yaml.Node {
	items := *src.(*[]NamedValue)
	if len(items) == 0 {
		return nil
	}
	n := &yaml.Node{Kind: yaml.MappingNode, Tag: "!!map", Style: yaml.FlowStyle}
	for _, v := range items {
		value := stringNode(v.Value)
		if tag := mustParse(v.Value).Tag; tag == "!!bool" || tag == "!!int" {
			value = scalarNode(tag, v.Value)
		}
		n.Content = append(n.Content, stringNode(v.Name), value)
	}
	return n
}

func (k namedValues) jsonSchema() map[string]any {
	return map[string]any{"type": "object", "additionalProperties": false, "patternProperties": map[string]any{
		k.key.form.String(): map[string]any{"type": []string{"string", "integer", "boolean"}}}}
}

// validateNICSettings checks that the settings of a host's NIC make sense, and that the host has such a NIC.
func (d *decoder) validateNICSettings(t *Test, side Side) {
	s, path := &t.Host(side).NIC.Settings, side.String()+".nic."
	given := s.given()
	if len(given) == 0 || !d.fine("testbed") {
		return
	}
	var station *Station
	if l := t.Testbed.Live; l != nil {
		station = [2]*Station{l.Requester, l.Responder}[side]
	}
	if station == nil || station.RDMA == nil {
		what := "a NIC model"
		if t.Testbed.Kind == KindVM {
			what = "soft-RoCE in a guest"
		}
		for _, key := range given {
			if !d.fine(path + key) {
				continue
			}
			d.problemAt(path+key, "can't be set: the "+side.String()+" of this testbed is "+what,
				"only an RDMA device has such a setting: live."+side.String()+".rdma of a testbed of kind "+KindLab)
		}
		return
	}
	for _, key := range []string{"cnp-dscp", "dcqcn-priority"} {
		if station.RDMA.Settings == OwnSettings && slices.Contains(given, key) {
			d.problemAt(path+key, "can't be set: the testbed's description says settings: own of live."+side.String()+".rdma",
				"the device keeps its settings of congestion control")
		}
	}
	d.validateLossless(s, path)
}

// validateLossless checks PFC and ETS.
func (d *decoder) validateLossless(s *NICSettings, path string) {
	if s.PFC != nil && d.fine(path+"pfc") {
		for i, p := range *s.PFC {
			if slices.Contains((*s.PFC)[:i], p) {
				d.problemAt(path+"pfc["+itoa(i)+"]", itoa(p)+" is given twice", "")
			}
		}
	}
	if s.ETS == nil || !d.fine(path+"ets") {
		return
	}
	sum := 0
	for i, share := range s.ETS.Bandwidth {
		sum += share
		if share > 0 && s.ETS.Algorithm[i] == TSAStrict {
			d.problemAt(path+"ets.tc-bw["+itoa(i)+"]", fmt.Sprintf("class %d is strict and has a bandwidth of %d %%", i, share),
				"only classes with tc-tsa ets share the bandwidth")
		}
	}
	if sum != 0 && sum != 100 {
		d.problemAt(path+"ets.tc-bw", fmt.Sprintf("the bandwidths add up to %d %%", sum), "they add up to 100, or are all 0")
	}
}

// given lists the keys that a test gives.
func (s *NICSettings) given() (keys []string) {
	for _, k := range []struct {
		key string
		is  bool
	}{
		{"mtu", s.MTU != nil}, {"pfc", s.PFC != nil}, {"ets", s.ETS != nil}, {"trust", s.Trust != nil},
		{"dscp-prio", len(s.DSCPPriorities) > 0}, {"cnp-dscp", s.CNPDSCP != nil},
		{"dcqcn-priority", s.DCQCNPriority != nil}, {"devlink", len(s.Devlink) > 0}, {"ethtool", len(s.Ethtool) > 0},
	} {
		if k.is {
			keys = append(keys, k.key)
		}
	}
	return keys
}

// List returns the settings by the names of package agent/nic, without the priority of DCQCN.
func (s *NICSettings) List() (list []NamedValue) {
	add := func(name, value string) { list = append(list, NamedValue{name, value}) }
	number := func(name string, v *int) {
		if v != nil {
			add(name, strconv.Itoa(*v))
		}
	}
	number("mtu", s.MTU)
	if s.PFC != nil {
		add("pfc", priorityText(*s.PFC))
	}
	if s.ETS != nil {
		add("ets", s.ETS.text())
	}
	if s.Trust != nil {
		add("trust", s.Trust.String())
	}
	for _, v := range s.DSCPPriorities {
		add("dscp-prio "+v.Name, v.Value)
	}
	number("cnp-dscp", s.CNPDSCP)
	for _, v := range s.Devlink {
		add("devlink "+v.Name, v.Value)
	}
	for _, v := range s.Ethtool {
		add("ethtool "+v.Name, v.Value)
	}
	return list
}

func priorityText(list []int) string {
	if len(list) == 0 {
		return "none"
	}
	return spaced(list)
}

func spaced[T any](list []T) string { return strings.Trim(fmt.Sprint(list), "[]") }

func (e *ETS) text() string {
	return "prio-tc " + spaced(e.Class) + " tc-tsa " + spaced(e.Algorithm) + " tc-bw " + spaced(e.Bandwidth)
}
