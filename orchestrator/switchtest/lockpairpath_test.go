package switchtest_test

import (
	"fmt"
	"strings"
	"testing"
)

// Grants of a backup pass the original if there is no other path, also those of requests that a server had returned.
func TestGrantsOfABackupPassTheOriginal(t *testing.T) {
	text := strings.NewReplacer("reroute-us: 100", "reroute-us: 600", "at-us: 2500", "at-us: 2600", "changes: [",
		"changes: [{at-us: 2100, trunk: {from: left, to: backup, failed: true}}, ").Replace(fmt.Sprintf(failover, 1, ""))
	if found, n := lockRun(t, text); len(found) > 0 || n["pushed-back"] < 50 {
		t.Errorf("%v, %v", found, n)
	}
}

// What an original had sent to be buffered as it failed may reach the server after the backup has taken over. The
// server returns it like what the backup has sent, and until then nothing may pass it.
func TestWhatAnOriginalHadOnTheWayIsNotPassed(t *testing.T) {
	const text = `
topology: {kind: standby, hosts: 8, right-hosts: 2, reroute-us: 1, link: {gbps: 100, delay-ns: 1, framing-bytes: 4},
  trunk: {gbps: 10, delay-ns: 2, framing-bytes: 4}, links: [{host: 2, gbps: 10, delay-ns: 10018},
  {host: 4, gbps: 400, delay-ns: 476}]}
switch-under-test: {model: netlock, recirculation-ns: 353, push-timeout-us: 99, latency-ns: 100, locks: 19,
  slots-each: 2, first-lock: 1, lease-us: 317, poll-us: 155}
hosts: {transport: netlock, lease-us: 317, poll-us: 155, host-delay-ns: 713, host-jitter-ns: 423, server-ns: 271,
  server-cores: 5, client-ns: 1000, server-not-before-us: 1101, duplicates: 0.0012}
workload:
  - locks: {locks: 30, first: 1, locks-each: 5, shared: 0.98, sets: halves, skew: 1.35, clients: 1..5, servers: 6..7,
      threads: 3, think-us: 50, timeout-us: 79, start-us: 5, count: 37, kill-us: 2677, on-timeout: restart,
      interval-us: 53}
  - locks: {locks: 30, first: 1, locks-each: 6, shared: 0.9, sets: halves, skew: 1.43, clients: 5..5, servers: 6..7,
      threads: 1, timeout-us: 60, outstanding: 2, priority: 1, start-us: 274, count: 207, on-timeout: restart}
changes: [{at-us: 75, trunk: {from: original, to: right, gbps: 2.5, delay-ns: 12824}},
  {at-us: 1263, switch: 0, state: stopped}]
duration-us: 4000
seed: 768957116
`
	if found, n := lockRun(t, text); len(found) > 0 || n["pushed-back"] < 100 {
		t.Errorf("%v, %v", found, n)
	}
}
