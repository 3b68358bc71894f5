package agent

import (
	"net/netip"
	"reflect"
	"strings"
	"testing"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"

	"candela.dev/candela/clock"
	"candela.dev/candela/generator"
	"candela.dev/candela/generator/live"
	"candela.dev/candela/generator/rdma"
	"candela.dev/candela/packet"
	agentpb "candela.dev/candela/proto/agent/v1"
	"candela.dev/candela/testbeds"
	"candela.dev/candela/testbeds/fieldtest"
)

// fullHost is a host in whose description every pointer and every list is set.
func fullHost(side generator.Side) *Host {
	mac, psn := packet.MAC{2, 0, 0, 0, 0, 1}, packet.PSN(7)
	traffic := func(messages int) generator.Traffic {
		return generator.Traffic{Verbs: []generator.Verb{generator.Write}, Messages: messages, MessageSize: 1024, MTU: 1024,
			TxDepth: 2}
	}
	nic := testbeds.Host{
		Name: "requester", MAC: &mac, IPs: []netip.Addr{netip.MustParseAddr("10.0.0.2")}, Profile: "spec",
		Bugs:               []string{"no-nack"},
		MinTimeBetweenCNPs: clock.Microsecond, CNPPacing: "per-port", HopLimit: 64, Rate: clock.Gbps,
		Propagation: clock.Nanosecond, Settings: []testbeds.Setting{{Name: "pfc", Value: "3"}},
	}
	gid := 3
	device := &RDMA{Device: "rxe0", Port: 1, GIDIndex: &gid, Watch: &Watch{}}
	return &Host{Interface: "eth0", Side: side, NIC: nic, RDMA: device, Spec: &testbeds.Spec{
		Seed: 1, Hosts: [2]testbeds.Host{nic, nic}, External: &testbeds.External{}, Dumpers: []testbeds.Dumper{{Name: "dumper-1"}},
		Connections: []testbeds.Connection{{
			IPs:     [2]netip.Addr{netip.MustParseAddr("10.0.0.2"), netip.MustParseAddr("10.0.0.1")},
			Traffic: [2]generator.Traffic{traffic(3), traffic(5)}, InitialPSN: [2]*packet.PSN{&psn, &psn}, MTU: 1024,
			AckTimeout: 14, MaxRDAtomic: 3, FlowLabel: 5, SourcePort: 50000,
		}},
	}}
}

// words are names that exist, for the fields that take one.
func words(path string) []string {
	switch {
	case strings.HasSuffix(path, ".Profile"):
		return []string{"spec", "cx5"}
	case strings.Contains(path, ".Bugs["):
		return []string{"no-nack", "early-timeout"}
	case strings.HasSuffix(path, ".CNPPacing"):
		return []string{"per-port", "per-qp"}
	}
	return []string{"one", "other"}
}

// elsewhere are the fields that a host has no use for, with who has.
var elsewhere = map[string]string{
	"NIC.Propagation":                   "of the simulated cable",
	"Spec.Hosts":                        "NIC is one of them; the other one's description goes to the other host",
	"Spec.Switch.Latency":               "the injector",
	"Spec.Switch.EgressBuffer":          "the injector",
	"Spec.Dumpers":                      "the dumpers",
	"Spec.Quiesce":                      "the orchestrator waits",
	"Spec.Deadline":                     "the orchestrator waits",
	"Spec.External":                     "RDMA.Watch has what concerns a host",
	"Spec.Connections[0].IPs[1]":        "the peer says it itself when they are joined",
	"Spec.Connections[0].InitialPSN[1]": "the peer says it itself when they are joined",
}

func excused(path string, side generator.Side) bool {
	if side == generator.Responder { // the same, mirrored
		for _, field := range []string{".IPs[", ".InitialPSN["} {
			if i := strings.Index(path, field); i >= 0 {
				i += len(field)
				path = path[:i] + string('0'+'1'-path[i]) + path[i+1:]
			}
		}
	}
	for prefix := range elsewhere {
		if rest, ok := strings.CutPrefix(path, prefix); ok && (rest == "" || rest[0] == '.' || rest[0] == '[') {
			return true
		}
	}
	return false
}

// overTheWire is what an agent reads of what a client has written.
func overTheWire(h *Host) (Host, error) {
	raw, err := proto.Marshal(prepareRequest("run", *h))
	if err != nil {
		return Host{}, err
	}
	q := new(agentpb.PrepareRequest)
	if err := proto.Unmarshal(raw, q); err != nil {
		return Host{}, err
	}
	return hostOf(q, defaultLimits())
}

func defaultLimits() Limits { return Limits{Connections: 16, Messages: 1000} }

func TestEveryFieldOfAHostTravels(t *testing.T) {
	for _, side := range []generator.Side{generator.Requester, generator.Responder} {
		for i, leaf := range fieldtest.Leaves(t, fullHost(side)) {
			h := fullHost(side)
			changed := fieldtest.Leaves(t, h)[i]
			if leaf.Path == "Side" {
				continue // both are tried
			}
			fieldtest.Change(t, changed, words(leaf.Path)...)
			got, err := overTheWire(h)
			if err != nil {
				t.Errorf("%s as %v: %v", leaf.Path, changed.Value, err)
				continue
			}
			arrived := reflect.DeepEqual(changed.Value.Interface(), valueAt(&got, changed.Path))
			switch needed := !excused(leaf.Path, side); {
			case needed && !arrived:
				t.Errorf("%s of the %v is lost on the way", leaf.Path, side)
			case !needed && arrived:
				t.Errorf("%s of the %v arrives, and is in the list of what hosts have no use for", leaf.Path, side)
			}
		}
	}
}

// valueAt returns the value of the leaf at a path; nil if there is none.
func valueAt(h *Host, path string) any {
	at := reflect.ValueOf(h).Elem()
	for _, step := range strings.FieldsFunc(path, func(r rune) bool { return r == '.' || r == '[' || r == ']' }) {
		for at.Kind() == reflect.Pointer {
			if at.IsNil() {
				return nil
			}
			at = at.Elem()
		}
		switch at.Kind() {
		case reflect.Slice, reflect.Array:
			n := int(step[0] - '0')
			if n >= at.Len() {
				return nil
			}
			at = at.Index(n)
		default:
			at = at.FieldByName(step)
		}
	}
	for at.Kind() == reflect.Pointer {
		if at.IsNil() {
			return nil
		}
		at = at.Elem()
	}
	return at.Interface()
}

// TestEveryFieldThatArrivesIsUsed: what an agent reads makes a difference to the host that it opens.
func TestEveryFieldThatArrivesIsUsed(t *testing.T) {
	side := generator.Requester
	open := func(h *Host) live.Config {
		got, err := overTheWire(h)
		if err != nil {
			t.Fatal(err)
		}
		cfg, err := liveConfig(&got)
		if err != nil {
			t.Fatal(err)
		}
		return cfg
	}
	plain := open(fullHost(side))
	for i, leaf := range fieldtest.Leaves(t, fullHost(side)) {
		if leaf.Path == "Side" || excused(leaf.Path, side) {
			continue
		}
		if strings.HasPrefix(leaf.Path, "RDMA.") || strings.HasPrefix(leaf.Path, "NIC.Settings[") ||
			leaf.Path == "NIC.DCQCNPriority" {
			continue // of a device, not of a model: see rdma_internal_test.go and tune_internal_test.go
		}
		h := fullHost(side)
		fieldtest.Change(t, fieldtest.Leaves(t, h)[i], words(leaf.Path)...)
		if got := open(h); reflect.DeepEqual(plain, got) {
			t.Errorf("%s makes no difference to the host that an agent opens", leaf.Path)
		}
	}
}

// TestEveryCodepointOfECNIsAnother: its values are few, and the next one is not enough.
func TestEveryCodepointOfECNIsAnother(t *testing.T) {
	var seen []rdma.Config
	for _, ecn := range []packet.ECN{packet.NotECT, packet.ECT0, packet.ECT1} {
		h := fullHost(generator.Requester)
		h.NIC.ECN = ecn
		got, err := overTheWire(h)
		if err != nil {
			t.Fatal(err)
		}
		cfg, err := liveConfig(&got)
		if err != nil {
			t.Fatal(err)
		}
		for _, other := range seen {
			if reflect.DeepEqual(other, cfg.NIC) {
				t.Errorf("codepoint %v makes no difference", ecn)
			}
		}
		seen = append(seen, cfg.NIC)
	}
}

func TestAModelHasNoSettingsOfHardware(t *testing.T) {
	h := fullHost(generator.Requester)
	h.RDMA = nil
	if _, err := overTheWire(h); err == nil || !strings.Contains(err.Error(), "setting pfc: a NIC model has none") {
		t.Errorf("error %v", err)
	}
}

func TestEndsTravelWhole(t *testing.T) {
	end := func() *live.End {
		return &live.End{IP: netip.MustParseAddr("fd00::2"), QPN: 5, IPSN: 6, MAC: packet.MAC{2},
			Region: generator.Region{Base: 1, Length: 2, RKey: 3}}
	}
	for i, leaf := range fieldtest.Leaves(t, end()) {
		e := end()
		fieldtest.Change(t, fieldtest.Leaves(t, e)[i])
		if got, err := endFromProto(endToProto(*e)); err != nil || got != *e {
			t.Errorf("%s: %+v arrives as %+v, %v", leaf.Path, *e, got, err)
		}
	}
}

// TestAnAgentRefusesWhatItDoesNotKnow: otherwise a field of a newer orchestrator would be lost silently, and so would a
// profile that has changed.
func TestAnAgentRefusesWhatItDoesNotKnow(t *testing.T) {
	for _, tt := range []struct {
		name string
		at   func(q *agentpb.PrepareRequest)
		want string
	}{
		{"a field of the request", func(q *agentpb.PrepareRequest) { addUnknown(q) }, "PrepareRequest"},
		{"a field of the NIC", func(q *agentpb.PrepareRequest) { addUnknown(q.GetNic()) }, "Nic"},
		{"a field of a connection", func(q *agentpb.PrepareRequest) { addUnknown(q.GetConnections()[0]) }, "Connection"},
		{"a field of the traffic", func(q *agentpb.PrepareRequest) { addUnknown(q.GetConnections()[0].GetPeerTraffic()) },
			"Traffic"},
		{"another profile of that name", func(q *agentpb.PrepareRequest) { q.GetNic().GetProfileSha256()[0]++ },
			"profile spec"},
		{"no word on the profile", func(q *agentpb.PrepareRequest) { q.GetNic().ProfileSha256 = nil }, "profile spec"},
	} {
		q := prepareRequest("run", *fullHost(generator.Requester))
		tt.at(q)
		if _, err := hostOf(q, defaultLimits()); err == nil || !strings.Contains(err.Error(), tt.want) ||
			!strings.Contains(err.Error(), "version") {
			t.Errorf("%s: %v, want an error that names %s and the version", tt.name, err, tt.want)
		}
	}
}

func addUnknown(m protoreflect.ProtoMessage) {
	const field = 200 << 3 // a number, as varint
	m.ProtoReflect().SetUnknown(append([]byte{byte(field&0x7f | 0x80), field >> 7}, 1))
}

func TestDigestsTellProfilesApart(t *testing.T) {
	full := func() *rdma.Profile {
		return &rdma.Profile{AdaptiveSchedule: []float64{1}, ETSShares: []float64{1}}
	}
	plain := string(digestOf(full()))
	changed := full()
	changed.CounterNames = map[string]string{"a": "b"}
	if string(digestOf(changed)) == plain {
		t.Error("CounterNames makes no difference")
	}
	p := reflect.ValueOf(full()).Elem()
	for i := range p.NumField() {
		if f := p.Type().Field(i); !f.IsExported() {
			t.Errorf("%s is not exported: the digest does not see it", f.Name)
		} else if f.Name == "CounterNames" {
			continue
		}
		x := full()
		field := reflect.ValueOf(x).Elem().Field(i)
		if field.Kind() == reflect.Slice {
			field = field.Index(0)
		}
		fieldtest.Change(t, fieldtest.Leaf{Path: p.Type().Field(i).Name, Value: field}, "other")
		if string(digestOf(x)) == plain {
			t.Errorf("%s makes no difference", p.Type().Field(i).Name)
		}
	}
}
