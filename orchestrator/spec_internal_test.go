package orchestrator

import (
	"reflect"
	"slices"
	"strings"
	"testing"

	"candela.dev/candela/clock"
	"candela.dev/candela/generator"
	"candela.dev/candela/injector"
	"candela.dev/candela/orchestrator/config"
	"candela.dev/candela/orchestrator/plan"
	"candela.dev/candela/packet"
	"candela.dev/candela/runtimetest"
	"candela.dev/candela/testbeds"
	"candela.dev/candela/testbeds/fieldtest"
	"candela.dev/candela/trace"
)

// dispatched is all that the orchestrator sends to the hosts, the dumpers and the injector, or the error that prevents
// it.
type dispatched struct {
	Spec    testbeds.Spec
	Intents []injector.Intent
	Snap    int
	Refused string
}

func dispatch(t *testing.T, test *config.Test) dispatched {
	t.Helper()
	p, err := plan.New(test)
	if err != nil {
		return dispatched{Refused: err.Error()}
	}
	return dispatched{Spec: specOf(p), Intents: p.Intents, Snap: p.Snap}
}

// fullTest returns a test with every optional part, so that each of its fields has an effect.
func fullTest(t *testing.T, event trace.EventType, class packet.Class) *config.Test {
	t.Helper()
	test, err := config.Parse("full.yml", []byte(`name: full
testbed: virtual
requester: {nic: {ip-list: [10.0.0.2/24, 10.0.0.12/24], mac: "02:00:00:00:00:01", bugs: [no-nack]}}
responder: {nic: {ip-list: [10.0.0.1/24], mac: "02:00:00:00:00:02", bugs: [no-nack]}}
traffic: {num-connections: 2, rdma-verb: [write, send], num-msgs-per-qp: 3, message-size: 10240, initial-psn: 5,
  flow-label: 5, source-port: 50000, max-rd-atomic: 3}
injector: {snap-bytes: 256}
`), config.Options{})
	if err != nil {
		t.Fatal(err)
	}
	for _, h := range test.Hosts() {
		number := func(v int) *int { return &v }
		trust := config.TrustDSCP
		h.NIC.Settings = config.NICSettings{MTU: number(4200), PFC: &[]int{3}, Trust: &trust, CNPDSCP: number(48),
			DCQCNPriority: number(3), DSCPPriorities: []config.NamedValue{{Name: "26", Value: "3"}},
			Devlink: []config.NamedValue{{Name: "flow_steering_mode", Value: "dmfs"}},
			Ethtool: []config.NamedValue{{Name: "ring-rx", Value: "512"}},
			ETS:     &config.ETS{Class: []int{1}, Algorithm: []config.TSA{config.TSAShared}, Bandwidth: []int{100}}}
	}
	psn, dscp, side := int64(1), uint8(3), config.Responder
	params := func() (p config.Params) {
		for key, v := range map[string]int64{"delay-us": 1000, "copies": 1, "by": 1, "field": int64(packet.RewriteDSCP),
			"value": 1, "offset": 1, "xor": 1} {
			p = p.With(key, v)
		}
		return p
	}

	test.Traffic.DataEvents = []config.DataEvent{{
		QPN: 1, PSN: 2, Iter: 1, Type: event, Trim: &config.Trim{Size: 64, DSCP: &dscp}, Params: params()}}
	test.Traffic.ControlEvents = []config.ControlEvent{{
		QPN: 1, Packet: class, SentBy: &side, PSN: &psn, Nth: 1, Type: event, Params: params()}}
	return test
}

// notDispatched lists the fields of a test that no machine gets, with their use.
var notDispatched = map[string]string{
	"Name":                                    "of the run directory",
	"TestbedFile":                             "Testbed is what it names",
	"TimeScale":                               "the times have been multiplied by it",
	"Requester.NIC.IgnoresSlowRestart":        "a property of the profile, for analyzers",
	"Responder.NIC.IgnoresSlowRestart":        "a property of the profile, for analyzers",
	"Traffic.DataEvents[0].Origin.Pattern":    "for messages",
	"Traffic.ControlEvents[0].Origin.Pattern": "for messages",
}

// judgedHere lists the parts of a test that only the orchestrator uses: expectations, a paired run, metadata for
// reports, and the testbed.
var judgedHere = []string{"Expect", "Compare", "Metadata", "Point", "Testbed", "Testbeds"}

func TestEveryFieldOfATestReachesSomeMachine(t *testing.T) {
	runtimetest.SkipRace(t)
	events := []trace.EventType{
		trace.EventDrop, trace.EventTrim, trace.EventDelay, trace.EventDuplicate, trace.EventReorder, trace.EventRewrite,
		trace.EventCorrupt,
	}
	used := map[string]bool{}
	var paths []string
	for i, event := range events {
		class := []packet.Class{packet.ClassCNP, packet.ClassAck}[i%2]
		plain := dispatch(t, fullTest(t, event, class))
		if plain.Refused != "" {
			t.Fatalf("%v: %s", event, plain.Refused)
		}
		for i, path := range pathsOf(t, fullTest(t, event, class)) {
			test := fullTest(t, event, class)
			leaf := leavesOf(t, test)[i]
			switch leaf.Value.Interface().(type) {
			case trace.EventType:
				leaf.Value.SetUint(uint64(trace.EventECN)) // not used by events
			case clock.Duration:
				leaf.Value.SetInt(leaf.Value.Int() + int64(clock.Microsecond)) // the resolution of switches and hosts
			case config.Side:
				leaf.Value.SetUint(1 - leaf.Value.Uint())
			default:
				fieldtest.Change(t, leaf, "cx5", "early-timeout")
			}
			used[path] = used[path] || !reflect.DeepEqual(plain, dispatch(t, test))
			if !slices.Contains(paths, path) {
				paths = append(paths, path)
			}
		}
	}
	for _, path := range paths {
		excused := false
		for p := range notDispatched {
			excused = excused || path == p || strings.HasPrefix(path, p+".")
		}
		switch {
		case excused && used[path]:
			t.Errorf("%s reaches a machine, and is in the list of fields that don't", path)
		case !excused && !used[path]:
			t.Errorf("%s makes no difference to any machine", path)
		}
	}
}

// leavesOf returns all fields of a test except those in judgedHere.
func leavesOf(t *testing.T, test *config.Test) (list []fieldtest.Leaf) {
	v := reflect.ValueOf(test).Elem()
	for i := range v.NumField() {
		f := v.Type().Field(i)
		if !f.IsExported() || slices.Contains(judgedHere, f.Name) {
			continue
		}
		list = append(list, fieldtest.Walk(t, f.Name, v.Field(i), "Pattern", "External")...)
	}
	return list
}

// TestWhatATestSaysOfAnApplicationReachesTheHosts: with one there is no traffic whose settings could make a difference.
func TestWhatATestSaysOfAnApplicationReachesTheHosts(t *testing.T) {
	test := fullTest(t, trace.EventDrop, packet.ClassAck)
	if specOf(&plan.Plan{Test: test}).External != nil {
		t.Error("there is none")
	}
	test.Traffic.External = &config.External{Pause: true, Wait: 7}
	if e := specOf(&plan.Plan{Test: test}).External; e == nil || *e != (testbeds.External{Pause: true, Wait: 7}) {
		t.Errorf("got %+v", e)
	}
}

func pathsOf(t *testing.T, test *config.Test) (paths []string) {
	for _, l := range leavesOf(t, test) {
		paths = append(paths, l.Path)
	}
	return paths
}

// TestEveryVerbReachesTheHosts: a conversion that lacks a verb would change it to another.
func TestEveryVerbReachesTheHosts(t *testing.T) {
	for verb := generator.VerbNone + 1; verb.String() != ""; verb++ {
		if _, ok := generator.ParseVerb(verb.String()); !ok {
			break
		}
		test := fullTest(t, trace.EventDrop, packet.ClassAck)
		test.Traffic.Verbs = []generator.Verb{verb}
		if got := dispatch(t, test).Spec.Connections[0].Traffic[0].Verbs; !slices.Equal(got, test.Traffic.Verbs) {
			t.Errorf("%v becomes %v", verb, got)
		}
	}
}
