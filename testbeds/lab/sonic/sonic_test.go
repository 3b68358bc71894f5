package sonic_test

import (
	"bytes"
	"errors"
	"maps"
	"net/netip"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"candela.dev/candela/sai"
	"candela.dev/candela/testbeds/lab/sonic"
)

// asymmetric is a switch that trims queue 1 of both ports and encodes the port in the DSCP.
func asymmetric() sai.Settings {
	return sai.Settings{
		Trimming: sai.Trimming{Size: 256, DSCPMode: sai.FromTC, TC: 5, Queue: 6},
		Profiles: []sai.Profile{{Name: "q_lossy_trim", Action: sai.DropAndTrim, Pool: "egress_lossy_pool", Threshold: 3}},
		Bindings: []sai.Binding{{Port: "Ethernet0", Queue: 1, Profile: "q_lossy_trim"},
			{Port: "Ethernet4", Queue: 1, Profile: "q_lossy_trim"}},
		Maps: []sai.DSCPMap{{Name: "host_trim_map", DSCP: map[int]int{5: 10}},
			{Name: "spine_trim_map", DSCP: map[int]int{5: 20}}},
		PortMaps: []sai.PortMap{{Port: "Ethernet0", Map: "host_trim_map"}, {Port: "Ethernet4", Map: "spine_trim_map"}},
		Rules: []sai.Rule{
			{Name: "TRIM_RULE", Priority: 999, Source: netip.MustParsePrefix("1.1.1.1/32")},
			{Name: "TRIM_RULE_V6", Priority: 998, Source: netip.MustParsePrefix("8000::2/128")},
		},
	}
}

func TestSettingsReachConfigDBAndAreRemoved(t *testing.T) {
	sw, srv := newSwitch(t)
	before := srv.dump(t, configDB)
	s := asymmetric()
	ports := []string{"Ethernet0", "Ethernet4"}
	if err := s.Validate(ports, sai.Limits{}); err != nil {
		t.Fatal(err)
	}
	change, err := sw.Plan(t.Context(), sonic.Rows(s, ports))
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(before, srv.dump(t, configDB)); diff != "" {
		t.Errorf("planning changed CONFIG_DB (-before +after):\n%s", diff)
	}
	if err := sw.Apply(t.Context(), change); err != nil {
		t.Fatal(err)
	}
	want := maps.Clone(before)
	maps.Copy(want, map[string]map[string]string{
		"SWITCH_TRIMMING|GLOBAL": {"size": "256", "dscp_value": "from-tc", "tc_value": "5", "queue_index": "6"},
		"BUFFER_PROFILE|q_lossy_trim": {"pool": "egress_lossy_pool", "size": "0", "dynamic_th": "3",
			"packet_discard_action": "trim"},
		"BUFFER_QUEUE|Ethernet0|1":      {"profile": "q_lossy_trim"},
		"BUFFER_QUEUE|Ethernet4|1":      {"profile": "q_lossy_trim"},
		"TC_TO_DSCP_MAP|host_trim_map":  {"5": "10"},
		"TC_TO_DSCP_MAP|spine_trim_map": {"5": "20"},
		"PORT_QOS_MAP|Ethernet0": {"dscp_to_tc_map": "AZURE", "tc_to_queue_map": "AZURE", "pfc_enable": "3,4",
			"tc_to_dscp_map": "host_trim_map"},
		"PORT_QOS_MAP|Ethernet4": {"tc_to_dscp_map": "spine_trim_map"},
		"ACL_TABLE_TYPE|CANDELA_TRIMMING": {
			"MATCHES@": "SRC_IP,DST_IP,SRC_IPV6,DST_IPV6", "ACTIONS@": "DISABLE_TRIM_ACTION", "BIND_POINTS@": "PORT",
		},
		"ACL_TABLE|CANDELA_TRIM": {
			"POLICY_DESC": "Candela: packets that are not trimmed", "TYPE": "CANDELA_TRIMMING", "STAGE": "INGRESS",
			"PORTS@": "Ethernet0,Ethernet4",
		},
		"ACL_RULE|CANDELA_TRIM|TRIM_RULE":    {"PRIORITY": "999", "PACKET_ACTION": "DISABLE_TRIM", "SRC_IP": "1.1.1.1/32"},
		"ACL_RULE|CANDELA_TRIM|TRIM_RULE_V6": {"PRIORITY": "998", "PACKET_ACTION": "DISABLE_TRIM", "SRC_IPV6": "8000::2/128"},
	})
	if diff := cmp.Diff(want, srv.dump(t, configDB)); diff != "" {
		t.Errorf("CONFIG_DB (-want +got):\n%s", diff)
	}
	if got, set, err := sw.Trimming(t.Context()); err != nil || !set || got != s.Trimming {
		t.Errorf("read back %+v %v %v, want %+v", got, set, err, s.Trimming)
	}
	checkRestored(t, sw, srv, change, before)
}

// checkRestored restores from a saved state, like another process.
func checkRestored(t *testing.T, sw *sonic.Switch, srv server, change sonic.Change,
	before map[string]map[string]string) {
	t.Helper()
	var saved bytes.Buffer
	if _, err := change.WriteTo(&saved); err != nil {
		t.Fatal(err)
	}
	read, err := sonic.ParseChange(saved.Bytes())
	if err != nil {
		t.Fatal(err)
	}
	left, err := sw.Restore(t.Context(), read, false)
	if err != nil {
		t.Fatal(err)
	}
	if len(left) != 4 {
		t.Errorf("left in place: %q, want the four fields of SWITCH_TRIMMING|GLOBAL", left)
	}
	want := maps.Clone(before)
	want["SWITCH_TRIMMING|GLOBAL"] = map[string]string{"size": "128", "dscp_value": "0", "tc_value": "0",
		"queue_index": "0"}
	if diff := cmp.Diff(want, srv.dump(t, configDB)); diff != "" {
		t.Errorf("CONFIG_DB after restoring (-want +got):\n%s", diff)
	}
}

func TestAnExistingProfileGetsItsActionBack(t *testing.T) {
	sw, srv := newSwitch(t)
	c := srv.client(t, configDB)
	rows := []sonic.Row{
		{Table: "SWITCH_TRIMMING", Key: "GLOBAL",
			Fields: map[string]string{"size": "200", "dscp_value": "48", "queue_index": "6"}},
		{Table: "BUFFER_PROFILE", Key: "egress_lossy_profile", Fields: map[string]string{"packet_discard_action": "trim"}},
	}
	if err := c.HSet(t.Context(), "SWITCH_TRIMMING|GLOBAL",
		map[string]string{"size": "300", "dscp_value": "5", "queue_index": "2"}).Err(); err != nil {
		t.Fatal(err)
	}
	change, err := sw.Plan(t.Context(), rows)
	if err != nil {
		t.Fatal(err)
	}
	if err := sw.Apply(t.Context(), change); err != nil {
		t.Fatal(err)
	}
	left, err := sw.Restore(t.Context(), change, false)
	if err != nil {
		t.Fatal(err)
	}
	got := srv.dump(t, configDB)
	if diff := cmp.Diff(map[string]string{"size": "300", "dscp_value": "5", "queue_index": "2"},
		got["SWITCH_TRIMMING|GLOBAL"]); diff != "" {
		t.Error(diff)
	}
	want := map[string]string{"pool": "egress_lossy_pool", "size": "0", "dynamic_th": "3", "packet_discard_action": "drop"}
	if diff := cmp.Diff(want, got["BUFFER_PROFILE|egress_lossy_profile"]); diff != "" {
		t.Error(diff)
	}
	if want := []string{"BUFFER_PROFILE|egress_lossy_profile packet_discard_action = drop"}; !cmp.Equal(want, left) {
		t.Errorf("left %q, want %q", left, want)
	}
}

func TestRestoringLeavesAloneWhatSomebodyElseChanged(t *testing.T) {
	sw, srv := newSwitch(t)
	rows := []sonic.Row{{Table: "PORT_QOS_MAP", Key: "Ethernet0",
		Fields: map[string]string{"tc_to_dscp_map": "unrelated"}}}
	change, err := sw.Plan(t.Context(), rows)
	if err != nil {
		t.Fatal(err)
	}
	if err := sw.Apply(t.Context(), change); err != nil {
		t.Fatal(err)
	}
	c := srv.client(t, configDB)
	if err := c.HSet(t.Context(), "PORT_QOS_MAP|Ethernet0", "tc_to_dscp_map", "theirs").Err(); err != nil {
		t.Fatal(err)
	}
	_, err = sw.Restore(t.Context(), change, false)
	var conflict *sonic.Conflict
	if !errors.As(err, &conflict) || conflict.Here != "theirs" || conflict.Written != "unrelated" {
		t.Fatalf("got %v, want a conflict", err)
	}
	if _, err = sw.Restore(t.Context(), change, true); err != nil {
		t.Fatal(err)
	}
	if got := c.HExists(t.Context(), "PORT_QOS_MAP|Ethernet0", "tc_to_dscp_map").Val(); got {
		t.Error("force did not remove the field")
	}
}

func TestPlansAreRefusedBeforeAnythingIsWritten(t *testing.T) {
	sw, srv := newSwitch(t)
	before := srv.dump(t, configDB)
	tests := []struct {
		name string
		row  sonic.Row
		want []string
	}{
		{"a DSCP of seven bits", sonic.Row{Table: "SWITCH_TRIMMING", Key: "GLOBAL",
			Fields: map[string]string{"dscp_value": "64"}},
			[]string{sai.AttrDSCP, "64", "0 to 63"}},
		{"a queue that no port has", sonic.Row{Table: "SWITCH_TRIMMING", Key: "GLOBAL",
			Fields: map[string]string{"queue_index": "8"}},
			[]string{sai.AttrQueue, "8", "0 to 7"}},
		{"a mode that the switch lacks",
			sonic.Row{Table: "SWITCH_TRIMMING", Key: "GLOBAL", Fields: map[string]string{"queue_index": "dynamic"}},
			[]string{sai.AttrQueueMode, "DYNAMIC", "it has: STATIC"}},
		{"a profile that is not there",
			sonic.Row{Table: "BUFFER_QUEUE", Key: "Ethernet0|3", Fields: map[string]string{"profile": "none"}},
			[]string{"BUFFER_QUEUE|Ethernet0|3", "no BUFFER_PROFILE|none"}},
		{"a port that is not there", sonic.Row{Table: "BUFFER_QUEUE", Key: "Ethernet8|3",
			Fields: map[string]string{"profile": "egress_lossy_profile"}},
			[]string{"no PORT|Ethernet8"}},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			_, err := sw.Plan(t.Context(), []sonic.Row{test.row})
			if err == nil {
				t.Fatal("no error")
			}
			for _, words := range test.want {
				if !strings.Contains(err.Error(), words) {
					t.Errorf("%v does not say %q", err, words)
				}
			}
		})
	}
	if diff := cmp.Diff(before, srv.dump(t, configDB)); diff != "" {
		t.Errorf("CONFIG_DB changed:\n%s", diff)
	}
}

func TestASwitchThatCannotTrimIsRefused(t *testing.T) {
	sw, srv := newSwitch(t)
	if err := srv.client(t, stateDB).HSet(t.Context(), "SWITCH_CAPABILITY|switch", "SWITCH_TRIMMING_CAPABLE",
		"false").Err(); err != nil {
		t.Fatal(err)
	}
	row := sonic.Row{Table: "SWITCH_TRIMMING", Key: "GLOBAL", Fields: map[string]string{"size": "128"}}
	if _, err := sw.Plan(t.Context(), []sonic.Row{row}); !errors.Is(err, sonic.ErrUnsupported) {
		t.Errorf("got %v, want ErrUnsupported", err)
	}
}

func TestCountersComeByNameAndSayWhatIsMissing(t *testing.T) {
	sw, _ := newSwitch(t)
	got, err := sw.Counters(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	na := sai.Unavailable
	none := sai.Queue{Packets: na, Bytes: na, DroppedPackets: na, DroppedBytes: na, Trim: na, TxTrim: na, DroppedTrim: na}
	plain := none
	plain.Packets = 3
	want := sai.Snapshot{
		Schema: sai.Schema, TxTrim: 50, DroppedTrim: 50,
		Ports: []sai.Port{
			{Name: "Ethernet0", InPackets: 10, InOctets: na, OutPackets: 150, OutOctets: na, OutDiscards: 100, Trim: 100,
				TxTrim: 50, DroppedTrim: 50,
				Queues: []sai.Queue{plain, {Packets: 7, Bytes: 10500, DroppedPackets: 100, DroppedBytes: 150000, Trim: 100,
					TxTrim: 50, DroppedTrim: 50}}},
			{Name: "Ethernet4", InPackets: na, InOctets: na, OutPackets: na, OutOctets: na, OutDiscards: na, Trim: na,
				TxTrim: na, DroppedTrim: na,
				Queues: []sai.Queue{none}},
		},
		ACL: []sai.ACL{{Rule: "TRIM_TABLE:TRIM_RULE", Packets: 12, Bytes: 18000}},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
	if broken := got.Invariants(); len(broken) > 0 {
		t.Errorf("counters that the switch does not keep are blamed: %+v", broken)
	}
	if _, err := sw.Counters(t.Context(), "Ethernet8"); err == nil || !strings.Contains(err.Error(), "Ethernet8") {
		t.Errorf("an unknown port: %v", err)
	}
}

// Counters that nothing changes are at rest at the second reading.
func TestSettledReadsTheSwitch(t *testing.T) {
	sw, srv := newSwitch(t)
	c := srv.client(t, configDB)
	for _, group := range []string{"PORT", "QUEUE", "SWITCH", "ACL"} {
		if err := c.HSet(t.Context(), "FLEX_COUNTER_TABLE|"+group, "POLL_INTERVAL", "1").Err(); err != nil {
			t.Fatal(err)
		}
	}
	got, err := sw.Settled(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if trim := got.Ports[0].Queues[1].Trim; trim != 100 {
		t.Errorf("settled at %v, want 100", trim)
	}
}

func TestOnlyAConfiguredSwitchIsOpened(t *testing.T) {
	srv := startRedis(t)
	_, err := sonic.Open(t.Context(), sonic.Options{Address: srv.address})
	if err == nil || !strings.Contains(err.Error(), "not a SONiC switch") {
		t.Errorf("an empty server: %v", err)
	}
	srv.client(t, configDB).Set(t.Context(), "CONFIG_DB_INITIALIZED", "0", 0)
	_, err = sonic.Open(t.Context(), sonic.Options{Address: srv.address})
	if err == nil || !strings.Contains(err.Error(), "still loading") {
		t.Errorf("a booting switch: %v", err)
	}
}

func TestAddressesBeyondThisMachineAreRefused(t *testing.T) {
	for _, address := range []string{"10.0.0.1:6379", "switch:6379", "unix:redis.sock", "6379", "[2001:db8::1]:6379"} {
		if _, err := sonic.Open(t.Context(), sonic.Options{Address: address}); err == nil ||
			!strings.Contains(err.Error(), address) {
			t.Errorf("%s: %v", address, err)
		}
	}
}

func TestOtherNumbersAndSeparatorsAreTakenFromTheSwitch(t *testing.T) {
	got, err := sonic.ParseDatabases([]byte(`{"INSTANCES": {}, "DATABASES": {
		"CONFIG_DB": {"id": 14, "separator": "|", "instance": "redis"},
		"STATE_DB": {"id": 6, "separator": "|"}, "COUNTERS_DB": {"id": 2, "separator": ":"}, "APPL_DB": {"id": 0, "separator": ":"}}}`))
	want := sonic.Databases{Config: sonic.Database{ID: 14, Separator: "|"}, State: sonic.Database{ID: 6, Separator: "|"},
		Counters: sonic.Database{ID: 2, Separator: ":"}}
	if err != nil || got != want {
		t.Errorf("got %+v, %v", got, err)
	}
	_, err = sonic.ParseDatabases([]byte(`{"DATABASES": {"CONFIG_DB": {"separator": "|"}, "STATE_DB": {"id": 6}}}`))
	for _, words := range []string{"CONFIG_DB: id", "STATE_DB: separator", "no COUNTERS_DB"} {
		if err == nil || !strings.Contains(err.Error(), words) {
			t.Errorf("%v does not say %q", err, words)
		}
	}
}

func TestDocumentsInTheFormOfConfigDB(t *testing.T) {
	rows, err := sonic.ParseDocument([]byte(`{
		"ACL_RULE": {"T|R": {"PRIORITY": 9, "SRC_IP": "1.1.1.1/32", "PACKET_ACTION": "DISABLE_TRIM"}},
		"ACL_TABLE": {"T": {"TYPE": "X", "STAGE": "INGRESS", "PORTS": ["Ethernet0", "Ethernet4"]}},
		"TC_TO_DSCP_MAP": {"m": {"5": "10"}},
		"SWITCH_TRIMMING": {"GLOBAL": {"size": "256", "dscp_value": "from-tc", "tc_value": "5", "queue_index": "6"}}}`))
	want := []sonic.Row{
		{Table: "SWITCH_TRIMMING", Key: "GLOBAL",
			Fields: map[string]string{"size": "256", "dscp_value": "from-tc", "tc_value": "5", "queue_index": "6"}},
		{Table: "TC_TO_DSCP_MAP", Key: "m", Fields: map[string]string{"5": "10"}},
		{Table: "ACL_TABLE", Key: "T",
			Fields: map[string]string{"TYPE": "X", "STAGE": "INGRESS", "PORTS@": "Ethernet0,Ethernet4"}},
		{Table: "ACL_RULE", Key: "T|R",
			Fields: map[string]string{"PRIORITY": "9", "SRC_IP": "1.1.1.1/32", "PACKET_ACTION": "DISABLE_TRIM"}},
	}
	if diff := cmp.Diff(want, rows); diff != "" || err != nil {
		t.Errorf("%v\n%s", err, diff)
	}
}

func TestDocumentsThatMakeNoSense(t *testing.T) {
	tests := []struct {
		name, text string
		want       []string
	}{
		{"not JSON", `size: 5`, []string{"config_db.json"}},
		{"nothing", `{}`, []string{"no row"}},
		{"another table", `{"PORT": {"Ethernet0": {"mtu": "1"}}}`, []string{`"PORT"`, "known:"}},
		{"all errors at once",
			`{"SWITCH_TRIMMING": {"GLOBAL": {"size": "12", "dscp_value": "64", "queue_index": "auto", "sise": "1"}}}`,
			[]string{`"12"`, "62 to", `"64"`, "0 to 63 or from-tc", `"auto"`, "0 to 7 or dynamic", "sise", "no such field"}},
		{"a key of another row", `{"SWITCH_TRIMMING": {"LOCAL": {"size": "128"}}}`, []string{"LOCAL", "GLOBAL"}},
		{"from-tc without a class", `{"SWITCH_TRIMMING": {"GLOBAL": {"dscp_value": "from-tc"}}}`, []string{"tc_value"}},
		{"an IPv6 prefix as IPv4", `{"ACL_RULE": {"T|R": {"SRC_IP": "8000::2/128"}}}`, []string{"IPv4 prefix"}},
		{"a key that reaches into another table", `{"BUFFER_QUEUE": {"x": {"profile": "p"}}}`, []string{"BUFFER_QUEUE|x"}},
		{"a nested value", `{"BUFFER_PROFILE": {"p": {"pool": {"a": "b"}}}}`, []string{"neither a string"}},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			_, err := sonic.ParseDocument([]byte(test.text))
			if err == nil {
				t.Fatal("no error")
			}
			for _, words := range test.want {
				if !strings.Contains(err.Error(), words) {
					t.Errorf("%v does not say %q", err, words)
				}
			}
		})
	}
}

func FuzzParseDocument(f *testing.F) {
	f.Add(
		[]byte(
			`{"SWITCH_TRIMMING": {"GLOBAL": {"size": "256", "dscp_value": "from-tc", "tc_value": "5", "queue_index": "6"}}}`))
	f.Add([]byte(`{"ACL_TABLE": {"T": {"TYPE": "X", "STAGE": "INGRESS", "PORTS": ["Ethernet0"]}}}`))
	f.Fuzz(func(t *testing.T, document []byte) {
		rows, err := sonic.ParseDocument(document)
		if err == nil && len(rows) == 0 {
			t.Error("neither rows nor an error")
		}
	})
}

func FuzzParseChange(f *testing.F) {
	f.Add(
		[]byte(`{"schema": "candela.sonic-change/v1", "rows": [{"table": "ACL_RULE", "key": "T|R", "fields": {"a": "b"}}]}`))
	f.Fuzz(func(t *testing.T, document []byte) {
		if c, err := sonic.ParseChange(document); err == nil && c.Schema != sonic.ChangeSchema {
			t.Errorf("schema %q passed", c.Schema)
		}
	})
}
