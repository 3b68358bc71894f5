package switchtest

import (
	"candela.dev/candela/analyzers"
	"candela.dev/candela/analyzers/cause"
	"candela.dev/candela/generator/workload"
	"candela.dev/candela/testbeds/virtual/fabric"
)

// A port role says what a port of a switch is to the test, so that a finding about a port is recognised when ports have
// other numbers, other seeds draw the traffic, or the network has more hosts:
//
//   - "trunk to spine": it leads to another switch, by that one's name without its number
//   - "port to sender", "port to receiver", "port to incast receiver": it leads to a host that sends transfers, takes
//     those of one host, or those of several, whose bottleneck it is
//   - "port to client", "port to server": of pings, requests and transactions
//   - "port to idle host": no flow has the host
//   - "port to host": the hosts of flows are drawn, so any may be anything
//
// A host with several parts has them all, in this order: "port to sender and incast receiver".
type portRoles struct {
	drawn bool
	hosts map[fabric.HostID]*hostParts
}

type hostParts struct {
	sends, client, server, several bool
	from                           fabric.HostID // plus 1: the host whose transfers it takes
}

func rolesOf(p *Plan) portRoles {
	r := portRoles{hosts: make(map[fabric.HostID]*hostParts)}
	for _, w := range p.Test.Workload {
		k := workload.Find(w.Kind)
		r.drawn = r.drawn || k != nil && k.Stream != nil
	}
	if r.drawn {
		return r
	}
	for f := range p.All() {
		src, dst := r.host(f.Src), r.host(f.Dst)
		if f.Kind != workload.Transfer {
			src.client, dst.server = true, true
			continue
		}
		src.sends = true
		dst.several = dst.several || dst.from != 0 && dst.from != f.Src+1
		dst.from = f.Src + 1
	}
	return r
}

func (r *portRoles) host(id fabric.HostID) *hostParts {
	if r.hosts[id] == nil {
		r.hosts[id] = new(hostParts)
	}
	return r.hosts[id]
}

// of returns the role of a port.
func (r *portRoles) of(pt *fabric.Port) string {
	id, ok := pt.HostAt()
	switch {
	case !ok && pt.Kind() == fabric.SwitchPort:
		if layer := cause.Switch(pt.Peer().Name()).Layer(); layer != "" {
			return "trunk to " + layer
		}
		return "trunk"
	case !ok:
		return "internal port"
	case r.drawn:
		return "port to host"
	}
	h := r.host(id)
	text := ""
	for _, part := range []struct {
		is   bool
		name string
	}{{h.sends, "sender"}, {h.from != 0 && !h.several, "receiver"}, {h.several, "incast receiver"}, {h.client, "client"},
		{h.server, "server"}} {
		switch {
		case part.is && text == "":
			text = "port to " + part.name
		case part.is:
			text += " and " + part.name
		}
	}
	if text == "" {
		return "port to idle host"
	}
	return text
}

// addPortRoles completes the roles of findings that name a port.
func (r *run) addPortRoles(findings []analyzers.Finding) {
	for i := range findings {
		f := &findings[i]
		if !f.Place.Known || f.Role == "" || r.net == nil {
			continue
		}
		sw := r.switchNamed(f.Place.Switch)
		if sw == nil || f.Place.Port < 0 || f.Place.Port >= sw.Ports() {
			continue // of a NIC
		}
		if r.ports == nil {
			roles := rolesOf(r.plan)
			r.ports = &roles
		}
		f.Role += ", " + r.ports.of(sw.Port(f.Place.Port))
	}
}

// switchNamed returns a switch by name; without a name, the only one. Nil: it is none.
func (r *run) switchNamed(name string) *fabric.Switch {
	for i := range r.net.Switches() {
		if sw := r.net.Switch(i); sw.Name() == name || name == "" && r.net.Switches() == 1 {
			return sw
		}
	}
	return nil
}
