package config_test

import (
	"reflect"
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

const deviceText = `name: rack
kind: lab
dumpers: [{name: dumper-1, cores: 1}]
live:
  requester: {agent: "unix:/run/r.sock", port: 0, rdma: {device: mlx5_0, port: 2, gid-index: 3, settings: own}}
  responder: {agent: "unix:/run/s.sock", port: 1, rdma: {device: rxe0, software: true}}
  dumpers: [{agent: "unix:/run/d.sock", interface: eth1, port: 2}]
  switch: {address: "unix:/run/x.sock"}
`

func TestAHostOfALabMayBeAnRDMADevice(t *testing.T) {
	bed, err := config.ParseTestbed("rack.yml", []byte(deviceText))
	if err == nil {
		bed, err = config.ParseTestbed("rack.yml", bed.YAML())
	}
	if err != nil {
		t.Fatal(err)
	}
	index := 3
	if got, want := bed.Live.Requester.RDMA, (&config.Device{Name: "mlx5_0", Port: 2, GIDIndex: &index,
		Settings: config.OwnSettings}); !reflect.DeepEqual(got, want) {
		t.Errorf("%+v, want %+v", got, want)
	}
	if d := bed.Live.Responder.RDMA; d.Port != 1 || d.GIDIndex != nil || d.Settings != config.TestSettings {
		t.Errorf("%+v", d)
	}
	if !bed.Live.HasDevices() || !bed.SoftwareHosts() || bed.HardwareTimes() || bed.MeasuresWaits() {
		t.Error("one of the devices is software: its times are not those of hardware, and nobody measures waits")
	}
	hard, err := config.ParseTestbed("rack.yml", []byte(strings.Replace(deviceText, ", software: true", "", 1)))
	if err != nil || hard.SoftwareHosts() || !hard.HardwareTimes() {
		t.Errorf("two devices of hardware: %v", err)
	}
	mixed, err := config.ParseTestbed("rack.yml", []byte(strings.Replace(deviceText,
		"rdma: {device: rxe0, software: true}", "interface: eth1", 1)))
	if err != nil || mixed.SoftwareHosts() || mixed.HardwareTimes() || !mixed.MeasuresWaits() {
		t.Errorf("a device of hardware and a model: %v", err)
	}
	for _, tt := range []struct{ from, to, want string }{
		{"rdma: {device: rxe0, software: true}", "neighbour: {system: x}", "live.responder.interface: is missing"},
		{"interface: eth1", "interface: eth1, rdma: {device: rxe0}",
			"live.dumpers[1].rdma: is for the requester and the responder"},
		{"gid-index: 3", "gid-index: -1", "live.requester.rdma.gid-index"},
		{"gid-index: 3", "gid-index: none", "auto, or a whole number"},
		{"device: rxe0", "device: ../rxe0", "live.responder.rdma.device"},
		{"live:\n", "live:\n  datapath: dpdk\n", "live.datapath"},
	} {
		_, err := config.ParseTestbed("rack.yml", []byte(strings.Replace(deviceText, tt.from, tt.to, 1)))
		if err == nil || !strings.Contains(err.Error(), tt.want) {
			t.Errorf("%s for %s: %v, want %q", tt.to, tt.from, err, tt.want)
		}
	}
	_, err = config.ParseTestbed("net.yml", []byte("name: net\nkind: netns\ndumpers: [{name: d, cores: 1}]\n"+
		"live: {datapath: qemu}\n"))
	if err == nil || !strings.Contains(err.Error(), "live.datapath: is qemu") {
		t.Errorf("qemu between namespaces: %v", err)
	}
}
