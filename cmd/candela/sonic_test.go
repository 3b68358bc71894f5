package main

import (
	"bytes"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"candela.dev/candela/orchestrator"
)

// sonicServer starts a redis-server with the part of SONiC's schema that the commands use.
func sonicServer(t *testing.T) (address string) {
	t.Helper()
	program, err := exec.LookPath("redis-server")
	if err != nil {
		t.Skip("SKIP-redis-server: not installed (tools/setup installs it)")
	}
	dir, err := os.MkdirTemp("", "sonic") // t.TempDir's names are too long for a socket
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	socket := filepath.Join(dir, "redis.sock")
	cmd := exec.Command(program, "--port", "0", "--unixsocket", socket, "--dir", dir, "--save", "", "--maxmemory", "64mb")
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
	})
	for deadline := time.Now().Add(time.Minute); ; time.Sleep(5 * time.Millisecond) {
		if c, err := net.Dial("unix", socket); err == nil {
			c.Close()
			break
		} else if time.Now().After(deadline) {
			t.Fatalf("redis-server does not listen: %v", err)
		}
	}
	load := func(db int, hashes map[string]map[string]string) {
		c := redis.NewClient(&redis.Options{Network: "unix", Addr: socket, DB: db, DisableIdentity: true, Protocol: 2})
		defer c.Close()
		c.Set(t.Context(), "CONFIG_DB_INITIALIZED", "1", 0)
		for key, fields := range hashes {
			if err := c.HSet(t.Context(), key, fields).Err(); err != nil {
				t.Fatal(err)
			}
		}
	}
	load(4, map[string]map[string]string{
		"PORT|Ethernet0": {"speed": "100000"}, "BUFFER_POOL|egress_lossy_pool": {"type": "egress"},
		"FLEX_COUNTER_TABLE|PORT": {"FLEX_COUNTER_STATUS": "enable", "POLL_INTERVAL": "10"},
	})
	load(6, map[string]map[string]string{"SWITCH_CAPABILITY|switch": {"SWITCH_TRIMMING_CAPABLE": "true"}})
	load(2, map[string]map[string]string{
		"COUNTERS_PORT_NAME_MAP": {"Ethernet0": "oid:0x1"}, "COUNTERS_QUEUE_NAME_MAP": {"Ethernet0:0": "oid:0x2"},
		"COUNTERS:oid:0x1": {"SAI_PORT_STAT_TRIM_PACKETS": "9"},
		"COUNTERS:oid:0x2": {"SAI_QUEUE_STAT_TRIM_PACKETS": "10", "SAI_QUEUE_STAT_TX_TRIM_PACKETS": "10",
			"SAI_QUEUE_STAT_DROPPED_TRIM_PACKETS": "0"},
	})
	return "unix:" + socket
}

func TestSonicCommandsFromShowToRestore(t *testing.T) {
	address, dir := sonicServer(t), t.TempDir()
	sonic := func(want orchestrator.Exit, args ...string) string {
		t.Helper()
		var out, errs bytes.Buffer
		if got := run(t.Context(), append([]string{"sonic", "--address", address}, args...), &out, &errs); got != want {
			t.Fatalf("%v: exit %d, want %d\n%s%s", args, got, want, out.String(), errs.String())
		}
		return out.String() + errs.String()
	}
	contains := func(text string, words ...string) {
		t.Helper()
		for _, w := range words {
			if !strings.Contains(text, w) {
				t.Errorf("%q does not say %q", text, w)
			}
		}
	}
	file, state := filepath.Join(dir, "trimming.json"), filepath.Join(dir, "before.json")
	document := `{"SWITCH_TRIMMING": {"GLOBAL": {"size": "256", "dscp_value": "48", "queue_index": "6"}},
		"BUFFER_PROFILE": {"q_lossy_trim": {"pool": "egress_lossy_pool", "dynamic_th": "3", "size": "0", "packet_discard_action": "trim"}},
		"BUFFER_QUEUE": {"Ethernet0|0": {"profile": "q_lossy_trim"}}}`
	if err := os.WriteFile(file, []byte(document), 0o600); err != nil {
		t.Fatal(err)
	}
	contains(sonic(orchestrator.ExitPass, "show"), "trimming capable", "yes", "not set", "128")
	contains(sonic(orchestrator.ExitPass, "apply", file, "--state", state), "3 rows written")
	contains(sonic(orchestrator.ExitPass, "show"), "256", "48")
	contains(sonic(orchestrator.ExitInfrastructure, "apply", file, "--state", state), "restore them first")
	contains(sonic(orchestrator.ExitPass, "counters"), "Ethernet0", "UC0", "N/A")
	contains(sonic(orchestrator.ExitFail, "counters", "--check"), "SAI_PORT_STAT_TRIM_PACKETS is 9, want 10")
	contains(sonic(orchestrator.ExitPass, "restore", state), "not removed (SONiC ignores the removal of this row)",
		"3 rows restored")
	contains(sonic(orchestrator.ExitPass, "show"), "128")
	if _, err := os.Stat(state); !os.IsNotExist(err) {
		t.Errorf("the saved state is still there: %v", err)
	}
}
