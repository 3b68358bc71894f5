package config

import (
	"encoding/json"
	"errors"
	"strings"
	"testing"

	"candela.dev/candela/clock"
	"candela.dev/candela/generator/parameter"
	"candela.dev/candela/testbeds"
	"github.com/google/go-cmp/cmp"
)

// switchLaboratory returns options with small models, so that these tests do not depend on real ones.
func switchLaboratory() Options {
	size := parameter.Parameter{Name: "packet-size", Kind: parameter.Integer, Unit: "bytes", Default: "1500", Min: 64,
		Max: 9216, Doc: "Frame."}
	return Options{
		Switches: []parameter.Model{
			{Name: "droptail", Doc: "Tail drop.", Parameters: parameter.Table{
				{Name: "queue-packets", Kind: parameter.Integer, Default: "100", Min: 1, Max: 1 << 20, Doc: "Room."}}},
			{Name: "tofino", Doc: "Meters.", Bugs: []parameter.Bug{{Name: "no-notify", Doc: "Forgets."}},
				Parameters: parameter.Table{
					{Name: "t0-us", Kind: parameter.Duration, Unit: "us", Default: "6", Max: 1000, Doc: "Pessimistic."},
					{Name: "notify", Kind: parameter.Word, Words: []string{"all", "one"}, Default: "all", Doc: "Whom."},
					{Name: "rate-gbps", Kind: parameter.Rate, Unit: "Gbps", Default: "100", Min: 1, Max: 800, Doc: "Rate."},
					{Name: "weights", Kind: parameter.Integers, Min: 1, Max: 100, Doc: "Weights."},
					{Name: "trim-all", Kind: parameter.Boolean, Default: "false", Doc: "All."},
					{Name: "alpha", Kind: parameter.Number, Default: "0.5", Max: 8, Doc: "Threshold."},
					{Name: "acl", Kind: parameter.List, Doc: "Rules.", Items: parameter.Table{
						{Name: "dscp", Kind: parameter.Integer, Max: 63, Required: true, Doc: "Match."}}}}},
		},
		Transports: []Transport{
			{Model: parameter.Model{Name: "ndp", Doc: "NDP.", Parameters: parameter.Table{size}}},
			{Model: parameter.Model{Name: "raw", Doc: "UDP.", Parameters: parameter.Table{size}}, OpenLoop: true},
		},
		SwitchAnalyzers: []string{"fabric", "ndp"},
		SwitchMetrics: []SwitchMetric{
			{"goodput-gbps", true, "Goodput."}, {"fct-us", true, "Completion."}, {"trims", false, "Trims."},
			{"drops", false, "Drops."}, {"queue-packets", false, "Queues."},
		},
	}
}

const wholeSwitchTest = `name: everything
seed: 7
topology:
  kind: leaf-spine
  leaves: 2
  routing: spray
  link: {gbps: 25, delay-ns: 250, framing-bytes: 24}
  trunk: {gbps: 100}
  links: [{host: 3, gbps: 1}]
switch-under-test: {model: tofino, t0-us: 1.44, notify: one, weights: [1, 4], acl: [{dscp: 10}], alpha: 0.25,
  bugs: [no-notify]}
hosts: {transport: ndp, packet-size: 9000}
workload:
  - incast: {senders: 9, receivers: 4, map: block, packets: 20, dscp: 8, tc: 3, ip: 6}
  - permutation: {hosts: 8, bytes: 100000, start-us: 10}
  - flow: {src: 0, dst: 5, count: 2, rate-gbps: 12.5, transport: raw}
  - ping: {src: 1, dst: 2, count: 5}
  - requests: {clients: [3..5, 7], server: 0, count: 10}
changes:
  - {at-us: 50, set: {t0-us: 30, acl: []}}
duration-us: 500
series-us: 5
taps: {capture: true}
expect:
  ndp: pass
  fabric: {violations: [fabric.lost]}
  goodput-gbps: {min: 10, mean: {min: 11.5, max: 12}}
  trims: 12
  flows: [{flows: 1..9, fct-us: {max: 400}}]
  counters: {sw0.trim-packets: 3, sw*.drops: {max: 10}}
  relations: ["sw0.a + sw0.b == sw0.c - 1"]
`

func mustParseSwitchTest(t *testing.T, text string) *SwitchTest {
	t.Helper()
	tests, err := ParseSwitchTests("f.yml", []byte(text), switchLaboratory())
	if err != nil {
		t.Fatal(err)
	}
	return tests[0]
}

func TestAWrittenSwitchTestReadsAsTheSameTest(t *testing.T) {
	first := mustParseSwitchTest(t, wholeSwitchTest)
	if v := first.Switch.Values; v.Duration("t0-us") != 1440*clock.Nanosecond || v.Word("notify") != "one" ||
		v.List("acl")[0].Int("dscp") != 10 {
		t.Errorf("parameters are %v", v.Settings())
	}
	if first.Topology.Link.Rate != 25*clock.Gbps || first.Topology.Trunk.Rate != 100*clock.Gbps ||
		first.Topology.HostCount() != 16 {
		t.Errorf("topology is %+v", first.Topology)
	}
	written := first.YAML()
	second := mustParseSwitchTest(t, string(written))
	if d := cmp.Diff(string(written), string(second.YAML())); d != "" {
		t.Errorf("writing what was written gives something else:\n%s", d)
	}
	if first.Hash() != second.Hash() {
		t.Error("the hashes differ")
	}
}

func TestSwitchTestsWithMistakesAreRefusedWithThePlaceOfEach(t *testing.T) {
	base := "name: x\ntopology: {kind: single-switch, hosts: 8}\nswitch-under-test: {model: droptail}\nduration-us: " +
		"100\nworkload:\n  - "
	tests := []struct{ name, text, want string }{
		{"a sender too many", base + "incast: {senders: 8}\n",
			"f.yml:6:23: workload[0].incast.senders: 8 senders from host 1 on are too many"},
		{"a host that isn't there", base + "flow: {src: 0, dst: 8}\n",
			"workload[0].flow.dst: there is no host 8\n  hosts are 0 to 7"},
		{"a flow to itself", base + "flow: {src: 1, dst: 1}\n", "host 1 would send to itself"},
		{"an incast onto itself", base + "incast: {senders: 4, receivers: 4, first-sender: 0}\n", "hairpin: true lets it"},
		{"two kinds in one item", base + "{ping: {src: 0, dst: 1}, flow: {src: 0, dst: 1}}\n", "has 2 kinds of workload"},
		{"a rate for a closed loop", base + "flow: {src: 0, dst: 1, rate-gbps: 5}\n", "is for the raw transport only"},
		{"two sizes", base + "flow: {src: 0, dst: 1, bytes: 5, packets: 5}\n", "give only one of them"},
		{"a misspelt key of an item", base + "incast: {sendrs: 4}\n", `unknown key (did you mean "senders"?)`},
		{"an unknown model", strings.Replace(base, "droptail", "toffino", 1) + "flow: {src: 0, dst: 1}\n",
			`switch-under-test.model: is "toffino" (did you mean "tofino"?)`},
		{"a parameter of another model",
			strings.Replace(base, "droptail", "droptail, t0-us: 5", 1) + "flow: {src: 0, dst: 1}\n",
			"switch-under-test.t0-us: unknown key"},
		{"a parameter out of range", strings.Replace(base, "droptail", "droptail, queue-packets: 0",
			1) + "flow: {src: 0, dst: 1}\n", "it takes a whole number from 1 to 1048576"},
		{"an unknown bug", strings.Replace(base, "droptail", "tofino, bugs: [no-notfy]", 1) + "flow: {src: 0, dst: 1}\n",
			`did you mean "no-notify"?`},
		{"an odd fat-tree", strings.Replace(base, "single-switch, hosts: 8", "fat-tree, k: 5",
			1) + "flow: {src: 0, dst: 1}\n", "topology.k: 5 is odd"},
		{"a change of nothing", base + "flow: {src: 0, dst: 1}\nchanges: [{at-us: 1, set: {}}]\n",
			"changes[0].set: is a mapping"},
		{"a change of an unknown parameter", base + "flow: {src: 0, dst: 1}\nchanges: [{at-us: 1, set: {queue: 5}}]\n",
			"changes[0].set.queue: unknown key"},
		{"a change past the end", base + "flow: {src: 0, dst: 1}\nchanges: [{at-us: 100, set: {queue-packets: 5}}]\n",
			"is past the end of the test"},
		{"a metric of the wrong type", base + "flow: {src: 0, dst: 1}\nexpect: {trims: many}\n", `expect.trims: is "many"`},
		{"bounds that nothing meets", base + "flow: {src: 0, dst: 1}\nexpect: {trims: {min: 3, max: 2}}\n",
			"min is greater than max"},
		{"a flow that isn't there", base + "flow: {src: 0, dst: 1}\nexpect: {flows: [{flows: 1..2, fct-us: {max: 3}}]}\n",
			"2 is past the last flow (1)"},
		{"a relation without comparison", base + "flow: {src: 0, dst: 1}\nexpect: {relations: [a + b]}\n",
			"a comparison is missing"},
		{"no topology", "name: x\nswitch-under-test: {model: droptail}\nduration-us: 5\nworkload: [flow: {src: 0, dst: 1}]\n",
			"topology or testbed is missing"},
		{"a testbed that isn't there", "name: x\ntestbed: nowhere\nswitch-under-test: {model: droptail}\nduration-us: " +
			"5\nworkload: [flow: {src: 0, dst: 1}]\n", "there is no testbed nowhere"},
		{"a flow without end", "name: x\ntestbed: switch-64\nswitch-under-test: {model: droptail}\nworkload: [flow: {src: " +
			"0, dst: 1}]\n", "never ends"},
		{"a host with two links", strings.Replace(base, "hosts: 8",
			"hosts: 8, links: [{host: 1, gbps: 1}, {host: 1, gbps: 2}]", 1) + "flow: {src: 0, dst: 1}\n",
			"host 1 is given twice"},
		{"a key of NIC tests", base + "flow: {src: 0, dst: 1}\nrequester: {}\n", "a test of a NIC has it"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			_, err := ParseSwitchTests("f.yml", []byte(tt.text), switchLaboratory())
			if !errors.Is(err, ErrInvalid) || !strings.Contains(err.Error(), tt.want) {
				t.Errorf("got\n%v\nwant it to contain\n%s", err, tt.want)
			}
		})
	}
}

func TestAllMistakesOfASwitchTestAreReportedAtOnce(t *testing.T) {
	text := "name: X!\ntopology: {kind: single-switch, hosts: 1}\nswitch-under-test: {model: droptail, queue-packets: " +
		"none}\n" +
		"workload:\n  - {flow: {src: 0, dst: yes}}\nduration: 5\nexpect: {ndpp: pass}\n"
	_, err := ParseSwitchTests("f.yml", []byte(text), switchLaboratory())
	var list *Error
	if !errors.As(err, &list) || len(list.Problems) != 6 {
		t.Errorf("want six problems, got\n%v", err)
	}
}

func TestASweepOfASwitchTestHasATestForEachPoint(t *testing.T) {
	text := wholeSwitchTest +
		"sweep: {switch-under-test.t0-us: [0, 6, 30], 'workload[0].incast.senders': {from: 2, to: 8, step: 2}}\n"
	tests, err := ParseSwitchTests("f.yml", []byte(strings.Replace(text, "flows: 1..9", "flows: 1..2", 1)),
		switchLaboratory())
	if err != nil {
		t.Fatal(err)
	}
	if len(tests) != 12 || tests[11].Workload[0].Values.Int("senders") != 8 ||
		tests[11].Switch.Values.Duration("t0-us") != 30*clock.Microsecond {
		t.Errorf("%d points, the last is %+v", len(tests), tests[len(tests)-1])
	}
	if tests[0].Seed == tests[1].Seed {
		t.Error("two points have the same seed")
	}
}

func TestTheSwitchTestIsRecognisedByItsKey(t *testing.T) {
	for text, want := range map[string]bool{wholeSwitchTest: true, "name: x\ntraffic: {}\n": false, "- 1": false,
		"": false, "a: [": false} {
		if got := IsSwitchTest([]byte(text)); got != want {
			t.Errorf("%.20q: %v", text, got)
		}
	}
}

func TestTheJSONSchemaOfSwitchTestsAcceptsWhatParses(t *testing.T) {
	o := switchLaboratory()
	schema := mustSchema(t, SwitchJSONSchema(o))
	if wrong := checkSchema(schema, asJSON(t, []byte(wholeSwitchTest)), ""); wrong != nil {
		t.Errorf("the schema refuses it:\n%s", strings.Join(wrong, "\n"))
	}
	for _, text := range []string{
		"name: x", "{name: x, switch-under-test: {model: tofino, t0: 5}, workload: [{flow: {src: 0, dst: 1}}]}",
		"{name: x, switch-under-test: {model: droptail}, workload: []}",
		"{name: x, switch-under-test: {model: droptail}, workload: [{flow: {src: a, dst: 1}}]}",
	} {
		if wrong := checkSchema(schema, asJSON(t, []byte(text)), ""); wrong == nil && !strings.Contains(text, "[]") {
			t.Errorf("the schema accepts %s", text)
		}
	}
	if !json.Valid(SwitchJSONSchema(Options{})) {
		t.Error("the schema without models is no JSON")
	}
}

func TestBuiltInTopologiesAreSound(t *testing.T) {
	for _, name := range testbeds.TopologyNames() {
		data, _ := testbeds.Topology(name)
		bed, err := ParseSwitchTestbed(name+".yml", data)
		if err != nil {
			t.Error(err)
			continue
		}
		if bed.Name != name {
			t.Errorf("%s calls itself %s", name, bed.Name)
		}
	}
}

func TestEveryFieldOfSwitchTestsIsDocumented(t *testing.T) {
	o := switchLaboratory()
	for _, p := range places(place{"", switchTestSchema(&o), nil}) {
		for _, f := range p.object.fields {
			if !strings.Contains(f.doc, ".") || strings.Contains(f.doc, "|") {
				t.Errorf("%s: %q is no sentence", join(p.path, f.key), f.doc)
			}
		}
	}
}

func TestRelationsAreReadAndHold(t *testing.T) {
	counters := map[string]int64{"sw0.port-1.trims": 3, "sw0.port-2.trims": 4, "sw0.tx": 7}
	for text, want := range map[string]bool{
		"sw0.port-*.trims == sw0.tx": true, "sw0.tx - 1 < sw0.tx": true, "sw0.tx != 7": false, "3 + 4 >= sw0.tx": true,
		"sw0.tx <= 6": false, "sw0.tx > 8": false,
	} {
		r, err := ParseRelation(text)
		if err != nil {
			t.Fatal(err)
		}
		left, _ := Value(r.Left, counters)
		right, _ := Value(r.Right, counters)
		if r.Holds(left, right) != want {
			t.Errorf("%s: %d and %d", text, left, right)
		}
	}
	if _, unknown := Value([]Term{{Name: "sw1.*"}}, counters); len(unknown) != 1 {
		t.Errorf("a name that matches nothing is not reported: %v", unknown)
	}
	for _, text := range []string{"", "a", "a ==", "== a", "a b == c", "a == b == c", "a + == b", "a == b +", "a&b == c"} {
		if _, err := ParseRelation(text); err == nil {
			t.Errorf("%q is accepted", text)
		}
	}
}

func FuzzParseRelation(f *testing.F) {
	for _, s := range []string{"a == b", "a + b - 3 <= c.*", "== 1"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, text string) {
		r, err := ParseRelation(text)
		if err != nil {
			return
		}
		reparsed, err := ParseRelation(r.String())
		if err != nil || cmp.Diff(r, reparsed) != "" {
			t.Errorf("%q is written as %q: %v", text, r, err)
		}
	})
}

func FuzzParseSwitchTests(f *testing.F) {
	f.Add([]byte(wholeSwitchTest))
	f.Add([]byte("name: x\ntestbed: switch-64\nswitch-under-test: {model: droptail}\nduration-us: 1\nworkload: " +
		"[{incast: {senders: 2}}]\nsweep: {seed: 1..3}\n"))
	o := switchLaboratory()
	o.ReadFile = func(string) ([]byte, error) { return nil, errors.New("no files here") }
	f.Fuzz(func(t *testing.T, data []byte) {
		tests, err := ParseSwitchTests("f.yml", data, o)
		if err != nil {
			return
		}
		written := tests[0].YAML()
		reparsed, err := ParseSwitchTests("f.yml", written, o)
		if err != nil || string(reparsed[0].YAML()) != string(written) {
			t.Errorf("what is written can't be read again: %v\n%s", err, written)
		}
	})
}
