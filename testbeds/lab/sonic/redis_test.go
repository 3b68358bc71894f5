package sonic_test

import (
	"context"
	"errors"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"candela.dev/candela/testbeds/lab/sonic"
)

// server is a real redis-server of this test, on a socket in the test's directory.
type server struct {
	address string
	socket  string
}

// startRedis starts a server and stops it when the test ends.
func startRedis(t *testing.T) server {
	t.Helper()
	program, err := exec.LookPath("redis-server")
	if err != nil {
		t.Skip("SKIP-redis-server: not installed (tools/setup installs it)")
	}
	dir, err := os.MkdirTemp("", "sonic") // names of t.TempDir are too long for a socket
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	socket := filepath.Join(dir, "redis.sock")
	cmd := exec.Command(program, "--port", "0", "--unixsocket", socket, "--dir", dir, "--save", "", "--appendonly", "no",
		"--databases", "16", "--daemonize", "no", "--maxmemory", "64mb")
	cmd.Stdout, cmd.Stderr = nil, nil
	if err := cmd.Start(); err != nil {
		t.Fatalf("start redis-server: %v", err)
	}
	t.Cleanup(func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
	})
	waitForSocket(t, socket)
	return server{address: "unix:" + socket, socket: socket}
}

func waitForSocket(t *testing.T, socket string) {
	t.Helper()
	ctx, stop := context.WithTimeout(t.Context(), time.Minute)
	defer stop()
	var dialer net.Dialer
	for {
		c, err := dialer.DialContext(ctx, "unix", socket)
		if err == nil {
			c.Close()
			return
		}
		select {
		case <-ctx.Done():
			t.Fatalf("redis-server does not listen on %s: %v", socket, errors.Join(err, ctx.Err()))
		case <-time.After(5 * time.Millisecond):
		}
	}
}

// client opens database n like SONiC's processes.
func (s server) client(t *testing.T, n int) *redis.Client {
	t.Helper()
	c := redis.NewClient(&redis.Options{Network: "unix", Addr: s.socket, DB: n, DisableIdentity: true, Protocol: 2})
	t.Cleanup(func() { c.Close() })
	return c
}

const (
	configDB   = 4
	stateDB    = 6
	countersDB = 2
)

// schema has the hashes of a small SONiC switch: two ports, one lossy profile, QoS maps, capabilities and counters.
var schema = map[int]map[string]map[string]string{
	configDB: {
		"PORT|Ethernet0": {"alias": "etp1", "index": "1", "lanes": "0,1,2,3", "mtu": "9100",
			"speed": "100000", "admin_status": "up"},
		"PORT|Ethernet4": {"alias": "etp2", "index": "2", "lanes": "4,5,6,7", "mtu": "9100",
			"speed": "100000", "admin_status": "up"},
		"BUFFER_POOL|egress_lossy_pool":       {"mode": "dynamic", "type": "egress", "size": "13945824"},
		"BUFFER_PROFILE|egress_lossy_profile": {"pool": "egress_lossy_pool", "size": "0", "dynamic_th": "3"},
		"BUFFER_QUEUE|Ethernet0|0":            {"profile": "egress_lossy_profile"},
		"BUFFER_QUEUE|Ethernet4|0":            {"profile": "egress_lossy_profile"},
		"TC_TO_QUEUE_MAP|AZURE": {"0": "0", "1": "1", "2": "2", "3": "3", "4": "4", "5": "5", "6": "6",
			"7": "7"},
		"PORT_QOS_MAP|Ethernet0":    {"dscp_to_tc_map": "AZURE", "tc_to_queue_map": "AZURE", "pfc_enable": "3,4"},
		"FLEX_COUNTER_TABLE|PORT":   {"FLEX_COUNTER_STATUS": "enable", "POLL_INTERVAL": "20"},
		"FLEX_COUNTER_TABLE|QUEUE":  {"FLEX_COUNTER_STATUS": "enable", "POLL_INTERVAL": "20"},
		"FLEX_COUNTER_TABLE|SWITCH": {"FLEX_COUNTER_STATUS": "enable", "POLL_INTERVAL": "20"},
		"FLEX_COUNTER_TABLE|ACL":    {"FLEX_COUNTER_STATUS": "enable", "POLL_INTERVAL": "20"},
		"DEVICE_METADATA|localhost": {"hwsku": "Candela-Test", "platform": "x86_64-candela-r0",
			"hostname": "sonic"},
		"SCHEDULER|scheduler.0":          {"type": "DWRR", "weight": "14"},
		"QUEUE|Ethernet0|0":              {"scheduler": "scheduler.0"},
		"TC_TO_DSCP_MAP|unrelated":       {"1": "1"},
		"BUFFER_PROFILE|egress_lossless": {"pool": "egress_lossy_pool", "size": "0", "static_th": "35995776"},
		"ACL_TABLE|EVERFLOW": {"policy_desc": "EVERFLOW", "type": "MIRROR", "stage": "ingress",
			"ports@": "Ethernet0,Ethernet4"},
		"FLEX_COUNTER_TABLE|PG_DROP":           {"FLEX_COUNTER_STATUS": "disable"},
		"DSCP_TO_TC_MAP|AZURE":                 {"0": "1", "3": "3", "4": "4", "46": "5", "48": "6"},
		"BUFFER_POOL|ingress_lossless_pool":    {"mode": "dynamic", "type": "ingress", "size": "13945824"},
		"WRED_PROFILE|AZURE_LOSSLESS":          {"ecn": "ecn_all", "green_max_threshold": "312000"},
		"LOSSLESS_TRAFFIC_PATTERN|AZURE":       {"mtu": "1024", "small_packet_percentage": "100"},
		"DEFAULT_LOSSLESS_BUFFER_PARAMETER|AZ": {"default_dynamic_th": "0"},
	},
	stateDB: {
		"SWITCH_CAPABILITY|switch": {
			"SWITCH_TRIMMING_CAPABLE": "true", "SWITCH|PACKET_TRIMMING_DSCP_RESOLUTION_MODE": "DSCP_VALUE,FROM_TC",
			"SWITCH|PACKET_TRIMMING_QUEUE_RESOLUTION_MODE": "STATIC",
		},
	},
	countersDB: {
		"COUNTERS_PORT_NAME_MAP": {"Ethernet0": "oid:0x1000000000002", "Ethernet4": "oid:0x1000000000003"},
		"COUNTERS_QUEUE_NAME_MAP": {"Ethernet0:0": "oid:0x15000000000010", "Ethernet0:1": "oid:0x15000000000011",
			"Ethernet4:0": "oid:0x15000000000020"},
		"COUNTERS_SWITCH_NAME_MAP": {"ASIC": "oid:0x21000000000000"},
		"ACL_COUNTER_RULE_MAP":     {"TRIM_TABLE:TRIM_RULE": "oid:0x9000000000650"},
		"COUNTERS:oid:0x1000000000002": {
			"SAI_PORT_STAT_IF_IN_UCAST_PKTS": "10", "SAI_PORT_STAT_IF_OUT_UCAST_PKTS": "150",
			"SAI_PORT_STAT_IF_OUT_DISCARDS": "100",
			"SAI_PORT_STAT_TRIM_PACKETS":    "100", "SAI_PORT_STAT_TX_TRIM_PACKETS": "50",
			"SAI_PORT_STAT_DROPPED_TRIM_PACKETS": "50",
		},
		"COUNTERS:oid:0x1000000000003": {"SAI_PORT_STAT_TRIM_PACKETS": "N/A"},
		"COUNTERS:oid:0x15000000000011": {
			"SAI_QUEUE_STAT_PACKETS": "7", "SAI_QUEUE_STAT_BYTES": "10500", "SAI_QUEUE_STAT_DROPPED_PACKETS": "100",
			"SAI_QUEUE_STAT_DROPPED_BYTES": "150000", "SAI_QUEUE_STAT_TRIM_PACKETS": "100",
			"SAI_QUEUE_STAT_TX_TRIM_PACKETS":      "50",
			"SAI_QUEUE_STAT_DROPPED_TRIM_PACKETS": "50",
		},
		"COUNTERS:oid:0x15000000000010": {"SAI_QUEUE_STAT_PACKETS": "3"},
		"COUNTERS:oid:0x15000000000020": {},
		"COUNTERS:oid:0x21000000000000": {"SAI_SWITCH_STAT_TX_TRIM_PACKETS": "50",
			"SAI_SWITCH_STAT_DROPPED_TRIM_PACKETS": "50"},
		"COUNTERS:oid:0x9000000000650": {"SAI_ACL_COUNTER_ATTR_PACKETS": "12", "SAI_ACL_COUNTER_ATTR_BYTES": "18000"},
	},
}

// newSwitch loads the schema into a fresh server and opens it.
func newSwitch(t *testing.T) (*sonic.Switch, server) {
	t.Helper()
	srv := startRedis(t)
	ctx := t.Context()
	for db, hashes := range schema {
		c := srv.client(t, db)
		for key, fields := range hashes {
			if len(fields) == 0 {
				continue
			}
			if err := c.HSet(ctx, key, fields).Err(); err != nil {
				t.Fatal(err)
			}
		}
	}
	if err := srv.client(t, configDB).Set(ctx, "CONFIG_DB_INITIALIZED", "1", 0).Err(); err != nil {
		t.Fatal(err)
	}
	sw, err := sonic.Open(ctx, sonic.Options{Address: srv.address})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := sw.Close(); err != nil {
			t.Error(err)
		}
	})
	return sw, srv
}

// dump returns every hash of a database.
func (s server) dump(t *testing.T, db int) map[string]map[string]string {
	t.Helper()
	c := s.client(t, db)
	all := map[string]map[string]string{}
	names, err := c.Keys(t.Context(), "*").Result()
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range names {
		if name == "CONFIG_DB_INITIALIZED" {
			continue
		}
		if all[name], err = c.HGetAll(t.Context(), name).Result(); err != nil {
			t.Fatal(err)
		}
	}
	return all
}
