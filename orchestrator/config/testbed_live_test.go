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
			!strings.Contains(err.Error(), "TCP needs mutual TLS, also on loopback") {
			t.Errorf("%s over loopback TCP: %v", place, err)
		}
		if _, err := config.ParseTestbed("lab.yml",
			[]byte(text+"  certificates: {cert: c.pem, key: c.key, ca: ca.pem}\n")); err != nil {
			t.Errorf("%s with certificates: %v", place, err)
		}
	}
}

const networkText = `name: rack
kind: lab
switch: {driver: none}
live:
  switch: {agent: "unix:/run/candela/s.sock", interfaces: [eth1, eth2]}
  hosts:
    - {agent: "unix:/run/candela/a.sock", interface: eth1, port: 0}
    - {agent: "unix:/run/candela/b.sock", interface: eth1, port: 1}
`

// TestALabWithoutAnInjectorNamesASwitchAndHosts checks that missing, repeated and unsuitable keys are refused, each at
// its place.
func TestALabWithoutAnInjectorNamesASwitchAndHosts(t *testing.T) {
	bed, err := config.ParseTestbed("rack.yml", []byte(networkText))
	if err != nil {
		t.Fatal(err)
	}
	if again, err := config.ParseTestbed("rack.yml", bed.YAML()); err != nil || again.HasInjector() ||
		len(again.Live.Hosts) != 2 || len(again.Live.Switch.Interfaces) != 2 {
		t.Errorf("%+v, %v from\n%s", again, err, bed.YAML())
	}
	for _, tt := range []struct{ from, to, want string }{
		{"kind: lab", "kind: netns", "switch.driver: is none"},
		{", interfaces: [eth1, eth2]", "", "live.switch: does not name the machine that is the switch"},
		{"interfaces: [eth1, eth2]", "interfaces: [eth1, eth1]", "live.switch.interfaces[1]: eth1 is given twice"},
		{"port: 1", "port: 0", "live.hosts[1].port: is 0, as that of live.hosts[0]"},
		{"port: 1", "port: 2", "live.hosts[1].port: is 2"},
		{"b.sock", "a.sock", "live.hosts[1].agent: is that of live.hosts[0]"},
		{"b.sock", "s.sock", "live.hosts[1].agent: is that of live.switch"},
		{`"unix:/run/candela/b.sock"`, `"10.1.0.2:9560"`, "live.hosts[1].agent: 10.1.0.2:9560 is reached over TCP"},
		{"switch: {agent", `switch: {address: "unix:/run/x.sock", agent`,
			"live.switch.address: is the address of an injector"},
		{"live:\n", "live:\n  requester: {agent: \"unix:/run/r.sock\", interface: n0, port: 0}\n",
			"live.requester: is for tests of NICs"},
		{"switch: {driver: none}\n", "", "live.hosts: are for tests of switches"},
	} {
		_, err := config.ParseTestbed("rack.yml", []byte(strings.Replace(networkText, tt.from, tt.to, 1)))
		if err == nil || !strings.Contains(err.Error(), tt.want) {
			t.Errorf("%s for %s: %v, want %q", tt.to, tt.from, err, tt.want)
		}
	}
}
