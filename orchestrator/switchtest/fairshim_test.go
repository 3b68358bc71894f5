package switchtest_test

import (
	"bytes"
	"encoding/csv"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"candela.dev/candela/orchestrator"
	"candela.dev/candela/trace/wireshark"
)

// Between switches every frame has a shim with the path of its flow, before the first and after the last none has; IP
// lengths and checksums of IP and UDP are right on the way, as tshark sees them, and so are the bytes of the shim.
func TestFramesWithLabelsPassTshark(t *testing.T) {
	t.Parallel()
	tool, err := exec.LookPath("tshark")
	if err != nil {
		t.Skip("SKIP-tool: tshark is not installed (Debian package tshark)")
	}
	o := run(t, parse(t, `
topology: {kind: leaf-spine, leaves: 2, spines: 1, hosts-per-leaf: 2, link: {gbps: 10, delay-ns: 1000}}
switch-under-test: {model: hcsfq, shim: true, tree: [{}, {parent: 1, hosts: [0]}, {hosts: [1]}]}
hosts: {transport: raw}
duration-us: 300
taps: {capture: true}
workload:
  - cbr: {src: 0, dst: 2, rate-gbps: 9, jitter: 0.05}
  - cbr: {src: 1, dst: 2, rate-gbps: 9, jitter: 0.05, ip: 6}
  - cbr: {src: 1, dst: 0, rate-gbps: 0.5}
`)[0])
	if o.Verdict.Exit != orchestrator.ExitPass {
		t.Fatal(o.Verdict.Reasons)
	}
	script := filepath.Join(t.TempDir(), "candela.lua")
	if err := os.WriteFile(script, []byte(wireshark.Dissector), 0o600); err != nil {
		t.Fatal(err)
	}
	taps := filepath.Join(o.Dir, "taps")
	places, err := os.ReadFile(filepath.Join(taps, "behind.ports.csv"))
	if err != nil {
		t.Fatal(err)
	}
	at, err := csv.NewReader(bytes.NewReader(places)).ReadAll()
	if err != nil {
		t.Fatal(err)
	}
	args := []string{"-X", "lua_script:" + script, "-r", filepath.Join(taps, "behind.pcap"), "-o",
		"ip.check_checksum:TRUE", "-o", "udp.check_checksum:TRUE", "-T", "fields", "-E", "separator=|"}
	for _, field := range []string{"candela_fair.depth", "candela_fair.node", "candela_fair.next", "frame.len", "ip.len",
		"ipv6.plen", "ip.checksum.status", "udp.checksum.status", "udp.dstport", "_ws.malformed", "_ws.expert.message"} {
		args = append(args, "-e", field)
	}
	out, err := exec.CommandContext(t.Context(), tool, args...).Output()
	if err != nil {
		t.Fatal(err)
	}
	lines := strings.Split(strings.TrimSuffix(string(out), "\n"), "\n")
	if len(lines) != len(at)-1 || len(lines) < 300 {
		t.Fatalf("%d frames, %d places", len(lines), len(at)-1)
	}
	between := []string{"3|1,2|17|1510|1496||1|1|9||", "2|3|17|1508||1454||1|9||"} // of host 0, and of host 1 over IPv6
	plain := []string{"|||1500|1486||1|1|9||", "|||1500||1446||1|9||"}
	seen := make(map[string]int)
	for i, line := range lines {
		seen[line]++
		// leaves have the ports of their hosts first
		want := between
		if sw, port := at[i+1][1], at[i+1][2]; strings.HasPrefix(sw, "leaf") && port < "2" {
			want = plain
		}
		if !slices.Contains(want, line) {
			t.Fatalf("frame %d, at %v: %s", i+1, at[i+1], line)
		}
	}
	for _, line := range slices.Concat(between, plain) {
		if seen[line] < 20 {
			t.Errorf("%d frames %s", seen[line], line)
		}
	}
}
