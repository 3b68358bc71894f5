package config_test

import (
	"strings"
	"testing"

	"candela.dev/candela/orchestrator/config"
)

const labText = `name: rack
kind: lab
mirror: {snap-bytes: 128}
dumpers: [{name: dumper-1, cores: 1}]
live:
  requester: {agent: "REQUESTER", interface: n0, port: 0}
  responder: {agent: "unix:/run/candela/b.sock", interface: n1, port: 1}
  dumpers: [{agent: "DUMPER", interface: n2, port: 2}]
  switch: {address: "SWITCH"}
`

func TestALabOverTCPNeedsCertificates(t *testing.T) {
	local := []string{"REQUESTER", "unix:/run/candela/a.sock", "DUMPER", "unix:/run/candela/c.sock", "SWITCH",
		"unix:/run/candela/s.sock"}
	if _, err := config.ParseTestbed("lab.yml", []byte(strings.NewReplacer(local...).Replace(labText))); err != nil {
		t.Errorf("with sockets only: %v", err)
	}
	for i, place := range []string{"live.requester.agent", "live.dumpers[1].agent", "live.switch.address"} {
		swaps := append([]string(nil), local...)
		swaps[2*i+1] = "127.0.0.1:9560"
		text := strings.NewReplacer(swaps...).Replace(labText)
		_, err := config.ParseTestbed("lab.yml", []byte(text))
		if err == nil || !strings.Contains(err.Error(), place) ||
			!strings.Contains(err.Error(), "TCP needs mutual TLS, on loopback too") {
			t.Errorf("%s over loopback TCP: %v", place, err)
		}
		if _, err := config.ParseTestbed("lab.yml",
			[]byte(text+"  certificates: {cert: c.pem, key: c.key, ca: ca.pem}\n")); err != nil {
			t.Errorf("%s with certificates: %v", place, err)
		}
	}
}
