package config

import (
	"fmt"
	"strings"
)

// Kinds of testbeds.
const (
	KindVirtual = "virtual"
	KindNetns   = "netns"
	KindLab     = "lab"
	KindVM      = "vm"
)

// TestbedKind is a kind of testbed.
type TestbedKind string

// String returns the kind in the words of the configuration.
func (k TestbedKind) String() string { return string(k) }

// Datapaths of a live testbed's injector.
const (
	DatapathXDP      = "xdp"
	DatapathAFPacket = "afpacket"
	DatapathBMv2     = "bmv2" // simple_switch_grpc from the PATH
	DatapathQEMU     = "qemu" // sockets of QEMU guests; of a lab
)

// Settings of congestion control of a host's RDMA device.
const (
	TestSettings = "test" // those of the test, restored afterwards
	OwnSettings  = "own"  // the device's own
)

// MaxXDPMTU is the largest path MTU of the xdp datapath: a frame must fit into one linear buffer.
const MaxXDPMTU = 2048

// Live is the part of a description that only testbeds with real packets have.
type Live struct {
	Datapath string // of the injector that `testbed up` starts; in a lab, of the running one
	CPU      int    // handles the injector's packets under xdp
	Seed     uint64 // of the ports of mirror copies

	// A lab's machines; nil on one machine.
	Requester, Responder *Station
	Switch               *LiveSwitch
	Dumpers              []Station // in the order of dumpers
	Hosts                []Station // of tests of switches, by host; of a lab without an injector
	Certificates         *Certificates
}

// Station is a machine of a lab with an agent.
type Station struct {
	Agent     string // host:port or unix:path
	Interface string
	Port      int // injector port that the interface is connected to
	Neighbour *Neighbour
	RDMA      *Device // of a host; nil: a NIC model serves the tests
}

// Device is a port of an RDMA device, which serves the tests of a host.
type Device struct {
	Name     string
	Port     int    // from 1
	GIDIndex *int   // of its RoCE v2 GIDs; nil: the agent finds each address's
	Software bool   // the device is software: its times are those of a CPU
	Settings string // TestSettings or OwnSettings
}

// Neighbour is the other end of a cable, as LLDP reports it.
type Neighbour struct {
	System string // its name, or its chassis; empty: any
	Port   string // its id or description; empty: any
}

// LiveSwitch is a lab's injector switch.
type LiveSwitch struct {
	Address  string // of its P4Runtime server
	DeviceID uint64

	// For the machine that is the switch in a lab without an injector.
	Agent      string   // address of its agent
	Interfaces []string // by port
}

// Certificates name the PEM files of the orchestrator.
type Certificates struct {
	Cert, Key, CA string
	CRL           string // revoked certificates; empty: none
}

// IsLive reports whether the testbed has real packets.
func (t *Testbed) IsLive() bool { return t.Kind == KindNetns || t.Kind == KindLab }

var (
	addressForm = text{newPattern(`^(unix:/[^\s]{1,100}|[^\s/]{1,255}:[0-9]{1,5})$`),
		"an address such as 10.1.0.1:9560 or unix:/run/agent.sock"}
	deviceForm = text{newPattern(`^[A-Za-z0-9._-]{1,15}$`), "the name of a network interface"}
	rdmaForm   = text{newPattern(`^[A-Za-z0-9_-][A-Za-z0-9._-]{0,62}$`), "the name of an RDMA device"}
	listForm   = text{newPattern(`^([A-Za-z._/][A-Za-z0-9._/@+,=~ -]{0,999})?$`), "a path"}
	// Name of a system or port in LLDP.
	neighbourForm = text{newPattern(`^([A-Za-z0-9._:/][A-Za-z0-9._:/ ()+-]{0,254})?$`), "a name"}
	pemForm       = text{newPattern(`^[^\x00\n]{1,1000}$`), "a path"}
)

func liveSchema() *object {
	return &object{
		title: "live",
		doc:   "Options of testbeds of kind netns and lab.",
		fields: []field{
			{key: "datapath", doc: "The injector's: xdp is fast, afpacket has every event and every MTU, bmv2 runs the P4 " +
				"program, slowly; qemu is that between virtual machines, in a lab.", def: DatapathXDP,
				kind: enum[status]{values: []status{DatapathXDP, DatapathAFPacket, DatapathBMv2, DatapathQEMU}},
				at:   at(func(l *Live) *status { return (*status)(&l.Datapath) })},
			{key: "cpu", doc: "The CPU that handles the injector's packets under xdp.", def: "0",
				kind: integer{min: 0, max: 4095}, at: at(func(l *Live) *int { return &l.CPU })},
			{key: "requester", doc: "The requester's machine; of a lab.", kind: optional[Station]{stationSchema()},
				at: at(func(l *Live) **Station { return &l.Requester })},
			{key: "responder", doc: "The responder's machine; of a lab.", kind: optional[Station]{stationSchema()},
				at: at(func(l *Live) **Station { return &l.Responder })},
			{key: "switch", doc: "The machine of the switch; of a lab.", kind: optional[LiveSwitch]{liveSwitchSchema()},
				at: at(func(l *Live) **LiveSwitch { return &l.Switch })},
			{key: "dumpers", doc: "The dumpers' machines, in the order of dumpers; of a lab.",
				kind: list[Station]{of: stationSchema(), max: 64, omit: true},
				at:   at(func(l *Live) *[]Station { return &l.Dumpers })},
			{key: "hosts", doc: "The hosts' machines of a lab with switch.driver none: host i of a test is the i-th.",
				kind: list[Station]{of: stationSchema(), max: 512, omit: true},
				at:   at(func(l *Live) *[]Station { return &l.Hosts })},
			{key: "certificates", doc: "The orchestrator's certificate; of a lab. Needed for every address but unix:.",
				kind: optional[Certificates]{certificatesSchema()},
				at:   at(func(l *Live) **Certificates { return &l.Certificates })},
		},
	}
}

func stationSchema() *object {
	return &object{
		title: "machine",
		doc:   "A machine of a lab, with an agent.",
		fields: []field{
			{key: "agent", doc: "Address of its agent.", kind: addressForm, required: true,
				at: at(func(s *Station) *string { return &s.Agent })},
			{key: "interface", doc: "The interface that is cabled to the injector; with rdma it may be left out.",
				kind: optionalText{deviceForm}, at: at(func(s *Station) *string { return &s.Interface })},
			{key: "port", doc: "The injector's port at the other end of the cable.", kind: integer{min: 0, max: 511},
				required: true,
				at:       at(func(s *Station) *int { return &s.Port })},
			{key: "neighbour", doc: "Expected other end of the cable; `candela testbed check` compares it with LLDP.",
				kind: optional[Neighbour]{neighbourSchema()}, at: at(func(s *Station) **Neighbour { return &s.Neighbour })},
			{key: "rdma", doc: "RDMA device of a host, which serves the tests instead of a NIC model.",
				kind: optional[Device]{deviceSchema()}, at: at(func(s *Station) **Device { return &s.RDMA })},
		},
	}
}

func deviceSchema() *object {
	return &object{
		title: "rdma",
		doc:   "A port of an RDMA device, through libibverbs.",
		fields: []field{
			{key: "device", doc: "Its name, such as mlx5_0 or rxe0.", kind: rdmaForm, required: true,
				at: at(func(v *Device) *string { return &v.Name })},
			{key: "port", doc: "The device's port.", kind: integer{min: 1, max: 255}, def: "1",
				at: at(func(v *Device) *int { return &v.Port })},
			{key: "gid-index", doc: "Index of the RoCE v2 GID of the host's address; auto: the agent finds it.",
				kind: orAuto{integer{min: 0, max: 65535}}, def: autoWord, at: at(func(v *Device) **int { return &v.GIDIndex })},
			{key: "software", doc: "The device is software, such as soft-RoCE: its times are reported, not judged.",
				kind: boolean{}, def: "false", at: at(func(v *Device) *bool { return &v.Software })},
			{key: "settings", doc: "Settings of congestion control (DCQCN): test sets the test's on the device and restores " +
				"them; own leaves the device's own, which must then be those of the test.", def: TestSettings,
				kind: enum[status]{values: []status{TestSettings, OwnSettings}},
				at:   at(func(v *Device) *status { return (*status)(&v.Settings) })},
		},
	}
}

func neighbourSchema() *object {
	return &object{
		title: "neighbour",
		doc:   "Other end of a cable, as reported by LLDP.",
		fields: []field{
			{key: "system", doc: "The system's name, or its chassis; empty: any.", kind: neighbourForm, def: `""`,
				at: at(func(n *Neighbour) *string { return &n.System })},
			{key: "port", doc: "The port's id or description; empty: any.", kind: neighbourForm, def: `""`,
				at: at(func(n *Neighbour) *string { return &n.Port })},
		},
	}
}

func liveSwitchSchema() *object {
	return &object{
		title: "machine of the switch",
		doc:   "A lab's injector switch, by address, or with switch.driver none the machine that is the switch, by agent.",
		fields: []field{
			{key: "address", doc: "Address of the injector's P4Runtime server.", kind: optionalText{addressForm},
				at: at(func(i *LiveSwitch) *string { return &i.Address })},
			{key: "device-id", doc: "Its P4Runtime device id.", kind: integer{min: 0, max: 1 << 53}, def: "1",
				at: at(func(i *LiveSwitch) *uint64 { return &i.DeviceID })},
			{key: "agent", doc: "Address of the agent of the machine that is the switch; with switch.driver none.",
				kind: optionalText{addressForm}, at: at(func(i *LiveSwitch) *string { return &i.Agent })},
			{key: "interfaces", doc: "Its interfaces: port i is the i-th; with switch.driver none.",
				kind: list[string]{of: deviceForm, max: 512, omit: true},
				at:   at(func(i *LiveSwitch) *[]string { return &i.Interfaces })},
		},
	}
}

func certificatesSchema() *object {
	return &object{
		title: "certificates",
		doc:   "PEM files for mutual TLS; see `candela agent pki`.",
		fields: []field{
			{key: "cert", doc: "Certificate chain.", kind: pemForm, required: true,
				at: at(func(c *Certificates) *string { return &c.Cert })},
			{key: "key", doc: "Its key.", kind: pemForm, required: true,
				at: at(func(c *Certificates) *string { return &c.Key })},
			{key: "ca", doc: "The lab's authority.", kind: pemForm, required: true,
				at: at(func(c *Certificates) *string { return &c.CA })},
			{key: "crl", doc: "List of certificates that the authority has revoked, read anew when it changes; empty: none.",
				kind: listForm,
				def:  `""`, at: at(func(c *Certificates) *string { return &c.CRL })},
		},
	}
}

// validateLive checks that all keys required for the kind of testbed are given, and no others.
func (d *decoder) validateLive(t *Testbed) {
	if !d.fine("kind", "live") {
		return
	}
	if !t.HasInjector() && t.Kind != KindLab {
		d.problemAt("switch.driver", "is none",
			"only in a lab a machine can be the switch; without a description, switch tests run on "+
				"virtual and netns")
		return
	}
	switch t.Kind {
	case KindVirtual, KindVM:
		if t.Live != nil {
			d.problemAt("live", "is not possible for kind "+t.Kind, "it belongs in testbeds of kind netns and lab")
		}
		d.refuseInjector(t)
	case KindNetns:
		d.orDefaultLive(t)
		if l := t.Live; l.Requester != nil || l.Responder != nil || l.Switch != nil || l.Dumpers != nil ||
			l.Certificates != nil {
			d.problemAt("live", "names machines",
				"a testbed of kind netns makes its own; machines belong in a testbed of kind lab")
		}
		if l := t.Live; l.Datapath == DatapathQEMU {
			d.problemAt("live.datapath", "is qemu", "that is between the virtual machines of a lab; network namespaces have "+
				"xdp, afpacket or bmv2")
		}
		d.refuseInjector(t)
	case KindLab:
		d.orDefaultLive(t)
		d.validateMachines(t)
		d.validateDevices(t.Live)
	}
}

func (d *decoder) orDefaultLive(t *Testbed) {
	if t.Live == nil {
		t.Live = &Live{Datapath: DatapathXDP}
	}
}

func (d *decoder) validateMachines(t *Testbed) {
	l := t.Live
	if t.Switch.Driver == DriverNone {
		d.validateNetwork(t)
		return
	}
	if l.Hosts != nil {
		d.problemAt("live.hosts", "are for tests of switches", "they belong in a lab with switch: {driver: none}")
	}
	if s := l.Switch; s != nil && (s.Address == "" || s.Agent != "" || s.Interfaces != nil) {
		d.problemAt("live.switch", "does not describe an injector",
			"it needs an address; agent and interfaces belong in a lab with "+
				"switch: {driver: none}")
	}
	for _, m := range []struct {
		key   string
		given bool
	}{{"requester", l.Requester != nil}, {"responder", l.Responder != nil},
		{"switch", l.Switch != nil || t.Injector != nil}} {
		if !m.given {
			d.problemAt("live."+m.key, "is missing", "the description of a lab names its machines")
		}
	}
	if l.Switch != nil && t.Injector != nil {
		d.problemAt("injector", "is given together with live.switch",
			"a lab has one injector: live.switch for candela switchd, injector for a third-party switch")
	}
	d.validateReach(l)
	if len(l.Dumpers) != len(t.Dumpers) {
		d.problemAt("live.dumpers", fmt.Sprintf("has %d machines for %d dumpers", len(l.Dumpers), len(t.Dumpers)),
			"each dumper needs one, in the same order")
	}
}

// validateDevices checks interfaces and RDMA devices: only the hosts of tests of NICs have such.
func (d *decoder) validateDevices(l *Live) {
	check := func(at string, s *Station, host bool) {
		switch {
		case s.RDMA != nil && !host:
			d.problemAt(at+".rdma", "is for the requester and the responder",
				"dumpers, and hosts of tests of switches, have an interface alone")
		case s.RDMA == nil && s.Interface == "":
			d.problemAt(at+".interface", "is missing", "it is the interface that is cabled to the injector")
		}
	}
	for _, m := range []struct {
		at string
		s  *Station
	}{{"live.requester", l.Requester}, {"live.responder", l.Responder}} {
		if m.s != nil {
			check(m.at, m.s, true)
		}
	}
	for i := range l.Dumpers {
		check(fmt.Sprintf("live.dumpers[%d]", i+1), &l.Dumpers[i], false)
	}
	for i := range l.Hosts {
		check(fmt.Sprintf("live.hosts[%d]", i), &l.Hosts[i], false)
	}
}

// software reports whether a host of a lab has an RDMA device of software.
func (l *Live) software() bool {
	soft := func(s *Station) bool { return s != nil && s.RDMA != nil && s.RDMA.Software }
	return l != nil && (soft(l.Requester) || soft(l.Responder))
}

// HasDevices reports whether both hosts of a lab have RDMA devices.
func (l *Live) HasDevices() bool {
	has := func(s *Station) bool { return s != nil && s.RDMA != nil }
	return l != nil && has(l.Requester) && has(l.Responder)
}

// validateNetwork checks a lab without an injector.
func (d *decoder) validateNetwork(t *Testbed) {
	l := t.Live
	for _, m := range []struct {
		key   string
		given bool
	}{{"live.requester", l.Requester != nil}, {"live.responder", l.Responder != nil}, {"live.dumpers", l.Dumpers != nil},
		{"injector", t.Injector != nil}} {
		if m.given {
			d.problemAt(m.key, "is for tests of NICs", "a lab with switch: {driver: none} has no injector: its machines are "+
				"live.switch and live.hosts")
		}
	}
	s := l.Switch
	if s == nil || s.Agent == "" || len(s.Interfaces) == 0 {
		d.problemAt("live.switch", "does not name the machine that is the switch",
			"with switch: {driver: none} it takes an agent and the interfaces that are the ports")
		return
	}
	if s.Address != "" {
		d.problemAt("live.switch.address", "is the address of an injector",
			"a lab with switch: {driver: none} has no injector")
	}
	if len(l.Hosts) < 2 {
		d.problemAt("live.hosts", fmt.Sprintf("has %d machines", len(l.Hosts)), "a test of a switch has at least two hosts")
	}
	d.validateSeats(l)
	d.validateReach(l)
}

// validateSeats checks that every host has its own port and agent.
func (d *decoder) validateSeats(l *Live) {
	ports, agents := map[int]int{}, map[string]string{l.Switch.Agent: "live.switch"}
	for i, h := range l.Hosts {
		at := fmt.Sprintf("live.hosts[%d]", i)
		if h.Port >= len(l.Switch.Interfaces) {
			d.problemAt(at+".port", fmt.Sprintf("is %d", h.Port),
				fmt.Sprintf("live.switch.interfaces has the ports 0 to %d", len(l.Switch.Interfaces)-1))
		}
		if first, taken := ports[h.Port]; taken {
			d.problemAt(at+".port", fmt.Sprintf("is %d, as that of live.hosts[%d]", h.Port, first), "each host has its own")
		}
		if who := agents[h.Agent]; who != "" {
			d.problemAt(at+".agent", "is that of "+who, "each machine has its own agent and is either one host or the switch")
		}
		ports[h.Port], agents[h.Agent] = i, at
	}
	seen := map[string]bool{}
	for i, name := range l.Switch.Interfaces {
		if seen[name] {
			d.problemAt(fmt.Sprintf("live.switch.interfaces[%d]", i), name+" is given twice", "each port is one interface")
		}
		seen[name] = true
	}
}

// validateReach requires certificates for TCP addresses. Loopback is included, as any user of a machine can connect or
// listen there.
func (d *decoder) validateReach(l *Live) {
	if l.Certificates != nil {
		return
	}
	check := func(key, address string) {
		if !strings.HasPrefix(address, "unix:") {
			d.problemAt("live."+key, fmt.Sprintf("%s is reached over TCP and needs live.certificates", address),
				"TCP needs mutual TLS, also on loopback (candela agent pki); a server on this machine can use an address such as "+
					"unix:/run/candela/agent.sock")
		}
	}
	if l.Requester != nil {
		check("requester.agent", l.Requester.Agent)
	}
	if l.Responder != nil {
		check("responder.agent", l.Responder.Agent)
	}
	for i := range l.Dumpers {
		check(fmt.Sprintf("dumpers[%d].agent", i+1), l.Dumpers[i].Agent)
	}
	for i := range l.Hosts {
		check(fmt.Sprintf("hosts[%d].agent", i), l.Hosts[i].Agent)
	}
	if s := l.Switch; s != nil && s.Agent != "" {
		check("switch.agent", s.Agent)
	} else if s != nil && s.Address != "" {
		check("switch.address", s.Address)
	}
}

// validateDatapath refuses an MTU that the datapath does not support.
func (d *decoder) validateDatapath(t *Test) {
	live := t.Testbed.Live
	if live == nil || t.Testbed.Injector != nil || live.Datapath != DatapathXDP || t.Traffic.MTU <= MaxXDPMTU ||
		!d.fine("traffic.mtu", "testbed") {
		return
	}
	d.problemAt("traffic.mtu", fmt.Sprintf("%d is too large for the xdp datapath, which carries up to %d", t.Traffic.MTU,
		MaxXDPMTU),
		"choose a smaller mtu or a testbed with live.datapath: afpacket")
}
