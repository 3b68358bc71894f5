package switchtest_test

import (
	"errors"
	"strings"
	"testing"

	"candela.dev/candela/orchestrator/report"
	"candela.dev/candela/orchestrator/switchtest"
)

// Packets that a lock switch has processed are no drops, neither in counters nor in reports; those that come while it
// waits for leases to end are. Latencies say that the switch's own is not in them.
func TestPacketsForALockSwitchAreNotDropped(t *testing.T) {
	for _, c := range []struct {
		name, model, more      string
		ignored, dropped, told bool
	}{
		{"locks in the switch", "model: netlock, locks: 12, slots-each: 2", "", true, false, true},
		{"NetChain", "model: netchain, lock-ids: 20, slots: 20", "", true, false, true},
		{"no latency", "model: netlock, locks: 12, slots-each: 2, latency-ns: 0", "", true, false, false},
		{"a switch that returns", "model: netchain, lock-ids: 20, slots: 20, lease-us: 300",
			"changes: [{at-us: 200, state: stopped}, {at-us: 300, state: running}]\n", true, true, true},
	} {
		t.Run(c.name, func(t *testing.T) {
			plan, err := switchtest.New(parse(t, `
topology: {kind: single-switch, hosts: 4}
switch-under-test: {`+c.model+`}
hosts: {transport: netlock, host-delay-ns: 1000, duplicates: 0.05}
workload: [{locks: {clients: 0..2, servers: 3, locks: 12, threads: 3, on-timeout: restart}}]
queue-statistics: exact
duration-us: 1000
`+c.more)[0])
			if err != nil {
				t.Fatal(err)
			}
			o, err := switchtest.Run(t.Context(), plan, options(t.TempDir()))
			if err != nil {
				t.Fatal(err)
			}
			n := counters(t, o)
			atPorts := int64(0)
			for name, count := range n {
				if strings.HasPrefix(name, "switch.port-") && strings.HasSuffix(name, ".dropped") &&
					!strings.Contains(name, "queue") {
					atPorts += count
				}
			}
			consumed := n["switch.consumed-taken"] + n["switch.consumed-ignored"]
			if handled := n["switch.lock-requests"] + n["switch.lock-releases"]; consumed == 0 ||
				!c.dropped && consumed < handled-n["switch.lock-forwarded"]-n["switch.lock-buffered"] ||
				(n["switch.consumed-ignored"] > 0) != c.ignored ||
				atPorts != n["switch.dropped-recovering"] || (atPorts > 0) != c.dropped {
				t.Errorf("consumed %d, dropped at ports %d; %v", consumed, atPorts, n)
			}
			var text, page strings.Builder
			if err := errors.Join(report.Text(&text, o.Report, report.TextOptions{}), report.HTML(&page, o.Report)); err != nil {
				t.Fatal(err)
			}
			for what, got := range map[string]string{"text": text.String(), "page": page.String()} {
				if !strings.Contains(got, "Packets for switches, which are not lost") ||
					strings.Contains(got, "Drops by reason") != c.dropped ||
					strings.Contains(strings.Join(strings.Fields(got), " "), "do not contain latency-ns") != c.told {
					t.Errorf("%s: %s", what, got)
				}
			}
		})
	}
}
