package cnp

import (
	"net/netip"

	"candela.dev/candela/trace"
)

// pair is the key of a group: local is the receiver of the data, remote its sender.
type pair struct {
	local, remote netip.Addr
}

// assignGroups gives every flow of data its group in each mode.
func (a *Analyzer) assignGroups() {
	all := a.meta.Connections.All()
	port := a.portOf(all)
	ports := map[string]int32{}
	var groups [numModes]map[pair]int32
	for m := range groups {
		groups[m] = map[pair]int32{}
	}
	for i := range a.flows {
		local, remote := all[i/2].Responder.IP, all[i/2].Requester.IP
		if trace.FlowID(i).Reverse() {
			local, remote = remote, local
		}
		name := port(local, i&1)
		if _, ok := ports[name]; !ok {
			ports[name] = int32(len(ports))
		}
		number := ports[name]
		f := &a.flows[i]
		f.group[PerPort] = number
		f.group[PerQP] = int32(i)
		// Groups by address are kept per port: each is a pacer in one NIC.
		f.group[PerDestIP] = indexOf(groups[PerDestIP], pair{portAddr(number), remote})
		f.group[PerIPPair] = indexOf(groups[PerIPPair], pair{local, remote})
	}
	a.marked = make([]bool, len(groups[PerIPPair]))
	a.pacers = [numModes][]pacer{
		PerPort: make([]pacer, len(ports)), PerDestIP: make([]pacer, len(groups[PerDestIP])),
		PerIPPair: make([]pacer, len(groups[PerIPPair])), PerQP: make([]pacer, len(a.flows)),
	}
}

func indexOf(m map[pair]int32, key pair) int32 {
	i, ok := m[key]
	if !ok {
		i = int32(len(m))
		m[key] = i
	}
	return i
}

// portAddr turns the number of a port into a key.
func portAddr(n int32) netip.Addr {
	return netip.AddrFrom4([4]byte{byte(n >> 24), byte(n >> 16), byte(n >> 8), byte(n)})
}

// portOf returns the function that names the port of an address; side is 1 for requesters.
func (a *Analyzer) portOf(all []trace.Connection) func(ip netip.Addr, side int) string {
	requesters := map[netip.Addr]bool{}
	for i := range all {
		requesters[all[i].Requester.IP] = true
	}
	both := false
	for i := range all {
		both = both || requesters[all[i].Responder.IP]
	}
	sides := [...]string{"responders", "requesters"}
	return func(ip netip.Addr, side int) string {
		if name, ok := a.cfg.Ports[ip]; ok {
			return "port " + name
		}
		if both {
			return ip.String()
		}
		return sides[side]
	}
}
