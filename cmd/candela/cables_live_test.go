//go:build linux

package main

import (
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"candela.dev/candela/link/linktest"
	"candela.dev/candela/orchestrator"
	"candela.dev/candela/testbeds/netns"
)

// cabledLab is a lab in this process's own namespaces. The test connects its cables. Agents are at n0 (requester), n1
// (responder), n2 and n3 (dumpers); the switch has ports p0 to p5.
type cabledLab struct {
	dir string // of sockets
}

// cabledTest has data in both directions.
const cabledTest = `name: small
requester: {nic: {profile: spec, ip-list: [10.0.0.2/24]}}
responder: {nic: {profile: spec, ip-list: [10.0.0.1/24]}}
traffic:
  num-connections: 1
  rdma-verb: write
  num-msgs-per-qp: 4
  mtu: 1024
  message-size: 10240
  min-retransmit-timeout: 17
  bidirectional: true
`

// newCabledLab starts the agents and the switch. Each agent gets additional interfaces, named as its own with a prefix.
// All interfaces must exist.
func newCabledLab(t *testing.T, datapath string, ports, mirrors []string, more ...string) *cabledLab {
	t.Helper()
	dir, err := os.MkdirTemp("", "cdl") // sockets have short paths
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	l := &cabledLab{dir: dir}
	for _, name := range []string{"n0", "n1", "n2", "n3"} {
		args := []string{"agent", "--interface", name, "--dir", t.TempDir()}
		for _, prefix := range more {
			args = append(args, "--interface", prefix+name)
		}
		if datapath == "xdp" {
			args = append(args, "--xdp-pass")
		}
		l.serve(t, name, args...)
	}
	l.serve(t, "switch", "switchd", "--datapath", datapath, "--cpu", "-1", "--ports", strings.Join(ports, ","), "--mirror",
		strings.Join(mirrors, ","))
	return l
}

func (l *cabledLab) socket(name string) string { return filepath.Join(l.dir, name+".sock") }

func (l *cabledLab) serve(t *testing.T, name string, args ...string) {
	t.Helper()
	startServer(t, name, "unix:"+l.socket(name), args...)
}

// describe writes the description of the lab; ports are those of requester, responder and dumpers, in this order.
func (l *cabledLab) describe(t *testing.T, ports ...int) string {
	t.Helper()
	text := fmt.Sprintf(`name: rack
kind: lab
links: {requester: {rate-gbps: 1}, responder: {rate-gbps: 1}}
mirror: {snap-bytes: 128}
dumpers: [{name: dumper-1, cores: 1}, {name: dumper-2, cores: 1}]
live:
  datapath: afpacket
  requester: {agent: "unix:%[1]s/n0.sock", interface: n0, port: %[2]d}
  responder: {agent: "unix:%[1]s/n1.sock", interface: n1, port: %[3]d}
  dumpers: [{agent: "unix:%[1]s/n2.sock", interface: n2, port: %[4]d}, {agent: "unix:%[1]s/n3.sock", interface: n3,
  port: %[5]d}]
  switch: {address: "unix:%[1]s/switch.sock"}
`, l.dir, ports[0], ports[1], ports[2], ports[3])
	name := filepath.Join(t.TempDir(), "lab.yml")
	if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return name
}

// invalid checks that a run is invalid and that its reasons contain these words.
func (l *cabledLab) invalid(t *testing.T, description string, want ...string) {
	t.Helper()
	l.invalidAfter(t, func() {}, description, want...)
}

// invalidAfter is invalid with preparations before each try.
func (l *cabledLab) invalidAfter(t *testing.T, prepare func(), description string, want ...string) {
	t.Helper()
	exit, said := runTest(t, cabledTest, description, t.TempDir(), prepare)
	if exit != orchestrator.ExitInvalid {
		t.Errorf("exit %d, want %d:\n%s", exit, orchestrator.ExitInvalid, said)
	}
	for _, w := range want {
		if !strings.Contains(said, w) {
			t.Errorf("no word of %q:\n%s", w, said)
		}
	}
}

func (l *cabledLab) passes(t *testing.T, description string) {
	t.Helper()
	if exit, said := runTest(t, cabledTest, description, t.TempDir()); exit != orchestrator.ExitPass {
		t.Errorf("exit %d:\n%s", exit, said)
	}
}

func TestALabThatIsNotCabledAsItsDescriptionSaysIsNotJudged(t *testing.T) {
	needLive(t)
	if !aloneInNamespaces(t) {
		return
	}
	// Ports 0 to 3 are for hosts, 4 and 5 for dumpers. Ports 2 and 3 are not connected.
	var near []string
	pair := func(a, b string) {
		linktest.Veth(t, a, b)
		linktest.SetMTU(t, a, 2304)
		linktest.SetMTU(t, b, 2304)
	}
	for i, far := range []string{"n0", "n1", "open2", "open3", "n2", "n3"} {
		near = append(near, fmt.Sprintf("p%d", i))
		pair(near[i], far)
	}
	for _, far := range []string{"n0", "n1", "n2", "n3"} {
		pair("x"+far, "otherswitch"+far)
		pair("d"+far, "unplugged"+far)
		linktest.SetDown(t, "unplugged"+far)
	}
	l := newCabledLab(t, "afpacket", near[:4], near[4:], "x", "d")
	right := l.describe(t, 0, 1, 4, 5)
	l.passes(t, right)
	l.invalid(t, l.describe(t, 1, 0, 4, 5), "the requester is cabled to port 0, the description says 1",
		"the responder is cabled to port 1, the description says 0")
	l.invalid(t, l.describe(t, 0, 2, 4, 5), "the responder is cabled to port 1, the description says 2")
	l.invalid(t, l.describe(t, 0, 0, 4, 5), "the responder is cabled to port 1, the description says 0")
	l.invalid(t, l.describe(t, 4, 1, 0, 5), "the requester is cabled to port 0, the description says 4",
		"the dumper-1 is cabled to port 4, the description says 0")
	l.invalid(t, l.describe(t, 0, 1, 5, 4), "the dumper-1 is cabled to port 4, the description says 5",
		"the dumper-2 is cabled to port 5, the description says 4")
	l.invalid(t, l.describe(t, 0, 1, 4, 3), "the dumper-2 is cabled to port 5, the description says 3")
	l.invalid(t, l.describe(t, 0, 1, 4, 9), "the dumper-2 is cabled to port 5, the description says 9")
	for _, station := range []string{"n0", "n1", "n3"} {
		for _, prefix := range []string{"x", "d"} {
			l.invalid(t, changed(t, right, "interface: "+station, "interface: "+prefix+station),
				"is cabled to no port of the switch")
		}
	}
	// The description swaps the agents of the two hosts.
	l.invalid(t, changed(t, right, "n0", "n1", "n1", "n0"), "the requester is cabled to port 1, the description says 0")
	l.passes(t, right)
}

// TestALabWithXDPThatIsNotCabledAsItsDescriptionSaysIsNotJudged gives a testbed of namespaces a description with other
// ports.
func TestALabWithXDPThatIsNotCabledAsItsDescriptionSaysIsNotJudged(t *testing.T) {
	needLive(t)
	s := &bringUp(t, "xdp", 1).State
	right := labOf(t, s, func(n *netns.Node) string { return "unix:" + n.Socket }, "")
	l := &cabledLab{}
	l.passes(t, right)
	l.invalid(t, changed(t, right, "port: 0", "port: 1", "port: 1", "port: 0"),
		"the requester is cabled to port 0, the description says 1")
	l.invalid(t, changed(t, right, "port: 1", "port: 2", "port: 2", "port: 1"),
		"the responder is cabled to port 1, the description says 2",
		"the dumper-1 is cabled to port 2, the description says 1")
	l.passes(t, right)
}

// changed returns a copy of a file with replaced words.
func changed(t *testing.T, file string, swaps ...string) string {
	t.Helper()
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	name := filepath.Join(t.TempDir(), "lab.yml")
	if err := os.WriteFile(name, []byte(strings.NewReplacer(swaps...).Replace(string(text))), 0o600); err != nil {
		t.Fatal(err)
	}
	return name
}

// harm is a fault of a box, with the expected words of the report.
type harm struct {
	fault string
	bit   int
	words string
}

// harms returns one harm of every kind. Offsets count from the Ethernet header.
func harms() map[string]harm {
	flip := func(at, bit int) harm { return harm{"flip", 8*at + bit, "damaged"} }
	const ip, bth = 14, 42
	return map[string]harm{
		"loses":                            {"lose", 0, "lost"},
		"duplicates":                       {"duplicate", 0, "duplicated"},
		"reorders":                         {"reorder", 0, "in another order"},
		"damages the congestion mark":      flip(ip+1, 0),
		"damages the hop limit":            flip(ip+8, 1),
		"damages the PSN":                  flip(bth+11, 0),
		"damages the payload":              flip(bth+60, 5),
		"damages what copies do not keep":  flip(400, 5),
		"damages the Ethernet destination": flip(5, 1),
	}
}

// TestALabWhoseHostCableIsFaultyIsNotJudged puts a box into the cable of each host, and applies every harm to the fifth
// frame of each direction.
func TestALabWhoseHostCableIsFaultyIsNotJudged(t *testing.T) {
	needLive(t)
	if !aloneInNamespaces(t) {
		return
	}
	var boxes [2]*box
	var near []string
	for i := range 4 {
		near = append(near, fmt.Sprintf("p%d", i))
		if i >= len(boxes) {
			linktest.Veth(t, near[i], fmt.Sprintf("n%d", i))
			continue
		}
		linktest.Veth(t, near[i], fmt.Sprintf("b%d", i))
		linktest.Veth(t, fmt.Sprintf("c%d", i), fmt.Sprintf("n%d", i))
		boxes[i] = newBox(t, fmt.Sprintf("b%d", i), fmt.Sprintf("c%d", i))
		boxes[i].run(t)
	}
	l := newCabledLab(t, "afpacket", near[:2], near[2:])
	description := l.describe(t, 0, 1, 2, 3)
	l.passes(t, description)
	for i, host := range []string{"requester", "responder"} {
		for from, direction := range []string{"to", "from"} {
			all := harms()
			for j, name := range slices.Sorted(maps.Keys(all)) {
				if !inSample(2*i + from + j) {
					continue
				}
				h := all[name]
				t.Run(fmt.Sprintf("the cable %s the %s %s", direction, host, name), func(t *testing.T) {
					defer boxes[i].set(0, 0, "", 0)
					l.invalidAfter(t, func() { boxes[i].set(from, 5, h.fault, h.bit) }, description, "cables: ", "cable or port",
						host, h.words)
					if boxes[i].hits.Load() != 1 {
						t.Errorf("the box has harmed %d frames", boxes[i].hits.Load())
					}
				})
			}
		}
	}
	l.passes(t, description)
}
