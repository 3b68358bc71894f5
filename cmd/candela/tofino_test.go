package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"google.golang.org/protobuf/encoding/prototext"

	"candela.dev/candela/injector/p4"
)

// tofinoLab describes a lab whose injector is to run the program for Tofino 1; nothing of it is there.
const tofinoLab = `name: tofino-lab
kind: lab
mirror: {snap-bytes: 128}
dumpers: [{name: dumper-1}]
injector:
  p4runtime: unix:/nowhere/tofino.sock
  device-id: 0
  pipeline: {p4info: p4info.txtpb, device-config: build}
live:
  requester: {agent: "unix:/nowhere/a.sock", interface: eth1, port: 4}
  responder: {agent: "unix:/nowhere/b.sock", interface: eth1, port: 5}
  dumpers: [{agent: "unix:/nowhere/c.sock", interface: eth1, port: 6}]
`

func TestATestThatTofino1CannotServeIsRefusedBeforeAnythingIsReached(t *testing.T) {
	dir := t.TempDir()
	text, err := prototext.Marshal(p4.Tofino1().Proto())
	if err != nil {
		t.Fatal(err)
	}
	bed := filepath.Join(dir, "lab.yml")
	for name, data := range map[string][]byte{"lab.yml": []byte(tofinoLab), "p4info.txtpb": text} {
		if err := os.WriteFile(filepath.Join(dir, name), data, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	t.Chdir(dir)
	for event, refused := range map[string]bool{
		"{qpn: 1, psn: 2, type: trim, trim-size: 128, trim-dscp: 48}": true,
		"{qpn: 1, psn: 2, iter: 1, type: drop}":                       false,
	} {
		test := filepath.Join(dir, "test.yml")
		if err := os.WriteFile(test, []byte("name: x\ntraffic:\n  num-connections: 1\n  rdma-verb: write\n"+
			"  num-msgs-per-qp: 1\n  mtu: 1024\n  message-size: 10240\n  data-pkt-events: ["+event+"]\n"), 0o644); err != nil {
			t.Fatal(err)
		}
		_, _, stderr := candela(t, "run", "--testbed", bed, "--out", filepath.Join(dir, "out"), test)
		if got := strings.Contains(stderr, `target "tofino-lab" offers no "trim"`); got != refused {
			t.Errorf("%s: %s", event, stderr)
		}
	}
}
