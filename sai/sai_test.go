package sai_test

import (
	"encoding/json"
	"errors"
	"net/netip"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"candela.dev/candela/sai"
)

func TestDefaultsAreTheProposals(t *testing.T) {
	want := sai.Trimming{Size: 128, DSCPMode: sai.DSCPValue, QueueMode: sai.Static}
	if got := sai.DefaultTrimming(); got != want {
		t.Errorf("got %+v, want %+v", got, want)
	}
	if err := sai.DefaultTrimming().Validate(sai.Limits{}); err != nil {
		t.Error(err)
	}
	defaults := map[string]string{
		sai.AttrSize: "128", sai.AttrDSCP: "0", sai.AttrTC: "0", sai.AttrQueue: "0", sai.AttrTrimDisable: "false",
		sai.AttrDSCPMode:  "SAI_PACKET_TRIM_DSCP_RESOLUTION_MODE_DSCP_VALUE",
		sai.AttrQueueMode: "SAI_PACKET_TRIM_QUEUE_RESOLUTION_MODE_STATIC",
		sai.AttrAction:    "SAI_BUFFER_PROFILE_PACKET_ADMISSION_FAIL_ACTION_DROP",
	}
	for _, a := range sai.Attributes() {
		if defaults[a.Name] != a.Default {
			t.Errorf("%s: default %q, want %q", a.Name, a.Default, defaults[a.Name])
		}
		delete(defaults, a.Name)
	}
	if len(defaults) > 0 {
		t.Errorf("attributes that are missing: %v", defaults)
	}
}

func TestErrorsNameTheAttributeAndWhatIsAllowed(t *testing.T) {
	tests := []struct {
		name string
		set  func(*sai.Trimming)
		want []string // nil: valid
	}{
		{"the smallest size", func(s *sai.Trimming) { s.Size = 62 }, nil},
		{"a size without room for headers", func(s *sai.Trimming) { s.Size = 61 },
			[]string{sai.AttrSize, "61", "62 to 4294967295"}},
		{"the largest DSCP", func(s *sai.Trimming) { s.DSCP = 63 }, nil},
		{"a DSCP of seven bits", func(s *sai.Trimming) { s.DSCP = 64 }, []string{sai.AttrDSCP, "64", "0 to 63"}},
		{"a negative DSCP", func(s *sai.Trimming) { s.DSCP = -1 }, []string{sai.AttrDSCP, "-1"}},
		{"the last queue", func(s *sai.Trimming) { s.Queue = 7 }, nil},
		{"a queue too many", func(s *sai.Trimming) { s.Queue = 8 }, []string{sai.AttrQueue, "8", "0 to 7"}},
		{"a queue that does not count", func(s *sai.Trimming) { s.Queue, s.QueueMode = 8, sai.Dynamic }, nil},
		{"a DSCP that does not count", func(s *sai.Trimming) { s.DSCP, s.DSCPMode = 64, sai.FromTC }, nil},
		{"a class too many", func(s *sai.Trimming) { s.TC, s.DSCPMode = 8, sai.FromTC }, []string{sai.AttrTC, "8", "0 to 7"}},
		{"an unknown mode", func(s *sai.Trimming) { s.DSCPMode = 2 }, []string{sai.AttrDSCPMode, "FROM_TC"}},
		{"all errors at once", func(s *sai.Trimming) { s.Size, s.DSCP, s.Queue = 0, 99, 99 },
			[]string{sai.AttrSize, sai.AttrDSCP, sai.AttrQueue}},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			s := sai.DefaultTrimming()
			test.set(&s)
			checkError(t, s.Validate(sai.Limits{}), test.want)
		})
	}
}

func checkError(t *testing.T, err error, want []string) {
	t.Helper()
	if (err == nil) != (want == nil) {
		t.Fatalf("got %v, want %q", err, want)
	}
	for _, words := range want {
		if !strings.Contains(err.Error(), words) {
			t.Errorf("%v does not say %q", err, words)
		}
	}
}

func TestSettingsThatContradictThemselves(t *testing.T) {
	ports := []string{"Ethernet0", "Ethernet4"}
	tests := []struct {
		name string
		s    sai.Settings
		want []string
	}{
		{"a lossless queue that trims",
			sai.Settings{Profiles: []sai.Profile{{Name: "p", Action: sai.DropAndTrim, Lossless: true}}},
			[]string{sai.AttrAction, "lossless"}},
		{"a binding without a profile", sai.Settings{Bindings: []sai.Binding{{Port: "Ethernet0", Queue: 1, Profile: "p"}}},
			[]string{"Ethernet0|1", `"p"`}},
		{"a port that is not there", sai.Settings{Profiles: []sai.Profile{{Name: "p"}},
			Bindings: []sai.Binding{{Port: "Ethernet8", Profile: "p"}}}, []string{"Ethernet8"}},
		{"two profiles on a queue", sai.Settings{Profiles: []sai.Profile{{Name: "p"}, {Name: "q"}},
			Bindings: []sai.Binding{{Port: "Ethernet0", Profile: "p"}, {Port: "Ethernet0", Profile: "q"}}},
			[]string{"two buffer profiles"}},
		{"two thresholds", sai.Settings{Profiles: []sai.Profile{{Name: "p", Limit: 1, Alpha: 1}}},
			[]string{"static", "dynamic"}},
		{"a port that trims without a map", sai.Settings{
			Trimming: sai.Trimming{DSCPMode: sai.FromTC}, Profiles: []sai.Profile{{Name: "p", Action: sai.DropAndTrim}},
			Bindings: []sai.Binding{{Port: "Ethernet4", Profile: "p"}},
		}, []string{"Ethernet4", "no TC→DSCP map"}},
		{"a map without the trim TC", sai.Settings{
			Trimming: sai.Trimming{DSCPMode: sai.FromTC, TC: 5}, Maps: []sai.DSCPMap{{Name: "m", DSCP: map[int]int{4: 1}}},
			PortMaps: []sai.PortMap{{Port: "Ethernet0", Map: "m"}},
		}, []string{"Ethernet0", "trim TC 5"}},
		{"a rule that matches all", sai.Settings{Rules: []sai.Rule{{Name: "r"}}}, []string{`"r"`, "every packet"}},
		{"a shaper of a port that is not there", sai.Settings{Shapers: []sai.Shaper{{Port: "Ethernet8"}}},
			[]string{"Ethernet8"}},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			test.s.Trimming.Size = 128
			checkError(t, test.s.Validate(ports, sai.Limits{}), test.want)
		})
	}
}

func TestRulesMatchByPrefixOfEitherVersion(t *testing.T) {
	a := netip.MustParseAddr
	r := sai.Rule{Source: netip.MustParsePrefix("1.1.1.0/24"), Dest: netip.MustParsePrefix("2.0.0.0/8")}
	for _, test := range []struct {
		src, dst string
		want     bool
	}{{"1.1.1.9", "2.3.4.5", true}, {"1.1.2.9", "2.3.4.5", false}, {"1.1.1.9", "3.3.4.5", false},
		{"8000::2", "2.3.4.5", false}} {
		if got := r.Matches(a(test.src), a(test.dst)); got != test.want {
			t.Errorf("%s → %s: %v", test.src, test.dst, got)
		}
	}
}

func TestCountersThatDoNotAddUp(t *testing.T) {
	sound := func() sai.Snapshot {
		return sai.Snapshot{
			Schema: sai.Schema, TxTrim: 7, DroppedTrim: 3,
			Ports: []sai.Port{{Name: "Ethernet0", Trim: 10, TxTrim: 7, DroppedTrim: 3, Queues: []sai.Queue{
				{DroppedPackets: 12, Trim: 6, TxTrim: 4, DroppedTrim: 2}, {DroppedPackets: 4, Trim: 4, TxTrim: 3, DroppedTrim: 1},
			}}},
		}
	}
	if b := sound().Invariants(); len(b) > 0 {
		t.Fatalf("sound counters: %+v", b)
	}
	tests := []struct {
		name string
		hurt func(*sai.Snapshot)
		want string // rule
	}{
		{"a copy is neither sent nor lost",
			func(s *sai.Snapshot) { s.Ports[0].Queues[0].DroppedTrim--; s.Ports[0].DroppedTrim--; s.DroppedTrim-- },
			"conservation"},
		{"a port forgets a queue", func(s *sai.Snapshot) { s.Ports[0].Trim -= 4 }, "port-sum"},
		{"the switch forgets a copy", func(s *sai.Snapshot) { s.TxTrim-- }, "switch-sum"},
		{"an original is not dropped", func(s *sai.Snapshot) { s.Ports[0].Queues[1].DroppedPackets = 3 }, "dropped"},
		{"a counter is not kept", func(s *sai.Snapshot) {
			s.Ports[0].Trim = sai.Unavailable
			s.Ports[0].Queues[0].TxTrim = sai.Unavailable
		}, ""},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			s := sound()
			test.hurt(&s)
			var rules []string
			for _, b := range s.Invariants() {
				rules = append(rules, b.Rule)
			}
			if test.want == "" && len(rules) > 0 || test.want != "" && (len(rules) != 1 || rules[0] != test.want) {
				t.Errorf("got %v, want %q", rules, test.want)
			}
		})
	}
}

func TestSnapshotsSurviveJSONAndSubtraction(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		count := func(name string) sai.Count { return sai.Count(rapid.Int64Range(-1, 1000).Draw(t, name)) }
		s := sai.Snapshot{Schema: sai.Schema, TxTrim: count("tx"), DroppedTrim: count("lost"),
			ACL: []sai.ACL{{Rule: "r", Packets: count("acl")}},
			Ports: []sai.Port{{Name: "p", Trim: count("trim"),
				Queues: []sai.Queue{{Packets: count("packets"), Trim: count("queue trim")}}}}}
		b, err := json.Marshal(s)
		if err != nil {
			t.Fatal(err)
		}
		var read sai.Snapshot
		if err := json.Unmarshal(b, &read); err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(s, read); diff != "" {
			t.Fatalf("%s: %s", b, diff)
		}
		zero, err := s.Since(s)
		if err != nil {
			t.Fatal(err)
		}
		if q := zero.Ports[0].Queues[0]; q.Packets.Known() != s.Ports[0].Queues[0].Packets.Known() || q.Packets > 0 {
			t.Fatalf("a snapshot less itself: %+v", q)
		}
	})
}

func TestSnapshotsOfOtherSwitchesAreNotSubtracted(t *testing.T) {
	a := sai.Snapshot{Ports: []sai.Port{{Name: "Ethernet0"}}}
	b := sai.Snapshot{Ports: []sai.Port{{Name: "Ethernet4"}}}
	if _, err := a.Since(b); !errors.Is(err, sai.ErrOtherSwitch) {
		t.Errorf("got %v", err)
	}
}
