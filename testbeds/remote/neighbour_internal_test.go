package remote

import (
	"testing"
	"time"

	"candela.dev/candela/agent/lldp"
)

func TestNeighboursAreComparedWithTheDescription(t *testing.T) {
	rack := lldp.Neighbour{Chassis: "02:00:00:00:00:07", Port: "Ethernet1/7", System: "rack-7"}
	peer := lldp.Neighbour{Chassis: "02:00:00:00:00:01", Port: "eth1", System: "host-1"}
	for name, tt := range map[string]struct {
		want          *Neighbour
		heard         []lldp.Neighbour
		waited        time.Duration
		line, problem string
	}{
		"nobody named, nobody heard": {nil, nil, time.Second, "no LLDP neighbour on eth1 within 1s", ""},
		"nobody named, somebody heard": {nil, []lldp.Neighbour{rack}, time.Second,
			"LLDP neighbour on eth1: rack-7 port Ethernet1/7", ""},
		"not listened": {&Neighbour{System: "rack-7"}, nil, 0, "LLDP was not listened for", ""},
		"the one that is named": {&Neighbour{"rack-7", "Ethernet1/7"}, []lldp.Neighbour{rack}, time.Minute,
			"LLDP neighbour on eth1: rack-7 port Ethernet1/7", ""},
		"the one that is named, behind a flooding switch": {&Neighbour{"rack-7", ""}, []lldp.Neighbour{peer, rack},
			time.Minute,
			"LLDP neighbour on eth1: host-1 port eth1, rack-7 port Ethernet1/7", ""},
		"another port": {&Neighbour{"rack-7", "Ethernet1/8"}, []lldp.Neighbour{rack}, time.Minute,
			"LLDP neighbour on eth1: rack-7 port Ethernet1/7",
			"the description says that eth1 is cabled to rack-7 port Ethernet1/8; LLDP says rack-7 port Ethernet1/7"},
		"another system": {&Neighbour{System: "rack-8"}, []lldp.Neighbour{rack}, time.Minute,
			"LLDP neighbour on eth1: rack-7 port Ethernet1/7",
			"the description says that eth1 is cabled to rack-8; LLDP says rack-7 port Ethernet1/7"},
		"silence": {&Neighbour{Port: "Ethernet1/7"}, nil, 35 * time.Second, "no LLDP neighbour on eth1 within 35s",
			"the description says that eth1 is cabled to port Ethernet1/7; nobody there spoke LLDP within 35s"},
	} {
		m := Machine{Name: "requester", Interface: "eth1", Neighbour: tt.want}
		if line, problem := m.met(tt.heard, tt.waited); line != tt.line || problem != tt.problem {
			t.Errorf("%s:\n%q\n%q\nwant\n%q\n%q", name, line, problem, tt.line, tt.problem)
		}
	}
}

func TestWhatMachinesSayStaysOnItsLine(t *testing.T) {
	got := printable([]string{"host: version 1\nrack-7 is fit\x1b[1A", "fine"})
	if got[0] != "host: version 1 rack-7 is fit\ufffd[1A" || got[1] != "fine" {
		t.Errorf("%q", got)
	}
}
