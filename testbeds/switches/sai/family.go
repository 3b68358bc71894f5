package sai

import (
	"encoding/json"
	"fmt"
	"strings"

	"candela.dev/candela/analyzers"
	"candela.dev/candela/generator/parameter"
	"candela.dev/candela/sai"
	"candela.dev/candela/testbeds/switches"
	"candela.dev/candela/testbeds/virtual/fabric"
)

// Family declares the family.
func Family() switches.Family {
	return switches.Family{
		Closed: true,
		Name:   "sai",
		Models: []switches.Model{{
			Model: Model(),
			Check: check, OwnQueues: true,
			Configure: func(v parameter.Values, s *fabric.SwitchSpec) (err error) {
				*s, err = SwitchSpec(v)
				return err
			},
			New: func(sw *fabric.Switch, v parameter.Values, bugs []string) (fabric.Mechanism, error) {
				return New(sw, v, bugs)
			},
		}},
		Reasons: []analyzers.DropReason{
			{Name: "trimmed", Doc: "A copy of the packet goes on in its place.", Copied: true, Decided: true},
			{Name: "lost-copy", Doc: "A copy that the trim queue did not admit.", Decided: true},
		},
		Decisions: decisions(), Settings: device,
		Snapshot: func(sw *fabric.Switch) (any, error) { return sw.Mechanism().(*Mechanism).Snapshot(), nil },
		Counters: count,
		Metrics: []switches.Metric{
			{Name: "trim-latency-us", Of: "sai.trim-latency",
				Doc: "From a packet's arrival to the departure of its copy. Of sai.", Scale: 1e3},
			{Name: "trimmed-bytes", Of: "sai.trimmed-length", Doc: "Size of each trimmed copy. Of sai.", Scale: 1},
		},
	}
}

// device returns a switch's description for the judge.
func device(v parameter.Values, ports int) (any, error) {
	settings, err := Settings(v, ports)
	return sai.Device{
		Settings: settings, Ports: portNames(ports), Strict: v.Word("scheduler") == "strict",
		PoolBytes: v.Int("buffer-bytes"),
	}, err
}

// count adds the counters under their SAI names; missing counters are left out.
func count(sw *fabric.Switch, add func(string, int64)) error {
	data, err := json.Marshal(sw.Mechanism().(*Mechanism).Snapshot())
	if err != nil {
		return err
	}
	var doc map[string]any
	if err := json.Unmarshal(data, &doc); err != nil {
		return err
	}
	flatten("", doc, add)
	return nil
}

// flatten adds the numbers of a document. For list elements, the name is the singular of the list's name and the index.
func flatten(prefix string, v any, add func(string, int64)) {
	switch v := v.(type) {
	case float64:
		add(prefix, int64(v))
	case map[string]any:
		for key, inner := range v {
			flatten(strings.TrimPrefix(prefix+"."+strings.ReplaceAll(key, " ", "-"), "."), inner, add)
		}
	case []any:
		for i, inner := range v {
			flatten(fmt.Sprintf("%s-%d", strings.TrimSuffix(prefix, "s"), i), inner, add)
		}
	}
}
