package config

import (
	"errors"
	"fmt"
	"net/netip"
	"slices"

	"candela.dev/candela/generator"
	"candela.dev/candela/packet"
)

// fine reports whether no problem was found yet at, above or below any of paths. Checks that combine values call it
// first, so that one mistake yields one problem.
func (d *decoder) fine(paths ...string) bool {
	for _, path := range paths {
		if d.touched[path] {
			return false
		}
		for ; path != ""; path = parentPath(path) {
			if d.wrong[parentPath(path)] {
				return false
			}
		}
	}
	return true
}

// validate checks relations between values.
func (d *decoder) validate(t *Test) {
	for _, s := range []Side{Requester, Responder} {
		d.validateHost(t.Host(s), s.String())
		d.validateNICSettings(t, s)
	}
	d.validateAddresses(t)
	d.validateFrames(t)
	d.validateInvalidate(t)
	d.validateExternal(t)
	d.validatePorts(t)
	d.validateEvents(t)
	d.validateExpect(t)
	d.validateTrimReaction(t)
	d.validateCompare(t)
}

func (d *decoder) validateHost(h *Host, path string) {
	if profiles := d.options.Profiles; profiles != nil && d.fine(path+".nic.profile") {
		names := make([]string, len(profiles))
		for i, p := range profiles {
			names[i] = p.Name
		}
		d.known(path+".nic.profile", h.NIC.Profile, names, "profile")
	}
	adaptive := path + ".roce-parameters.adaptive-retrans"
	if p := d.options.profile(h.NIC.Profile); p != nil && h.RoCE.AdaptiveRetrans && !p.Adaptive && d.fine(adaptive) {
		d.problemAt(adaptive, "true has no effect on profile "+p.Name, "this model has a fixed timeout only")
	}
	if p := d.options.profile(h.NIC.Profile); p != nil {
		h.NIC.IgnoresSlowRestart = p.IgnoresSlowRestart
	}
	for i, bug := range h.NIC.Bugs {
		bugPath := path + ".nic.bugs[" + itoa(i) + "]"
		if slices.Contains(h.NIC.Bugs[:i], bug) {
			d.problemAt(bugPath, bug+" is given twice", "")
		} else if d.options.Bugs != nil && d.fine(bugPath) {
			d.known(bugPath, bug, d.options.Bugs, "seeded bug")
		}
	}
}

func (d *decoder) known(path, name string, names []string, what string) {
	if slices.Contains(names, name) {
		return
	}
	message, why := noSuch(what, name, names)
	d.problemAt(path, message, why)
}

// noSuch returns the message for a name that is not among names, and the valid names or the likely one.
func noSuch(what, name string, names []string) (message, why string) {
	guess, why := didYouMean(name, names), "there are "+oneOf(names)
	if guess != "" && len(names) > fewKeys {
		why = ""
	}
	return fmt.Sprintf("there is no %s %q%s", what, name, guess), why
}

// Closest returns the element of names that name is probably a misspelling of, or "".
func Closest(name string, names []string) string { return closest(name, names) }

// NoSuch returns an error for an unknown name on the command line. As for a name in a file, it suggests the likely name
// or, on separate lines, lists all.
func NoSuch(what, name string, names []string) error {
	message, why := noSuch(what, name, names)
	return errors.New(message + indented(why))
}

// validateAddresses checks that every address is unique and that the two of each connection can communicate.
func (d *decoder) validateAddresses(t *Test) {
	lists := [2]string{"requester.nic.ip-list", "responder.nic.ip-list"}
	if !d.fine(lists[:]...) {
		return
	}
	seen := make(map[netip.Addr]string)
	for s, host := range t.Hosts() {
		for i, p := range host.NIC.IPs {
			path := lists[s] + "[" + itoa(i) + "]"
			if first, ok := seen[p.Addr()]; ok {
				d.problemAt(path, p.Addr().String()+" is given twice", "it is also "+first)
				continue
			}
			seen[p.Addr()] = path
		}
	}
	if a, b := t.Requester.NIC.MAC, t.Responder.NIC.MAC; a != nil && b != nil && *a == *b {
		d.problemAt("responder.nic.mac", a.String()+" is also the requester's address",
			"the switch forwards by Ethernet address")
	}
	if d.fine("traffic.num-connections", "traffic.multi-gid") {
		d.validatePairs(t, lists)
	}
}

// validatePairs checks that the addresses of each connection are compatible. The switch forwards in one broadcast
// domain.
func (d *decoder) validatePairs(t *Test, lists [2]string) {
	a, b := t.Requester.NIC.IPs, t.Responder.NIC.IPs
	pairs := 1
	if t.Traffic.MultiGID {
		pairs = min(t.Traffic.Connections, len(a)*len(b))
	}
	done := make(map[[2]int]bool)
	for i := range pairs {
		key := [2]int{i % len(a), i % len(b)}
		from, to := a[key[0]], b[key[1]]
		if done[key] || from.Contains(to.Addr()) && to.Contains(from.Addr()) {
			continue
		}
		done[key] = true
		path := lists[1] + "[" + itoa(key[1]) + "]"
		d.problemAt(path, fmt.Sprintf("%v and the requester's %v are not in one subnet", to, from),
			fmt.Sprintf("connection %d uses both addresses, and the switch between the hosts does not route", i+1))
	}
}

// validateFrames checks that the testbed carries the longest frame of the traffic.
func (d *decoder) validateFrames(t *Test) {
	if !d.fine("traffic.mtu", "testbed", "requester.nic.ip-list") {
		return
	}
	frame := longestFrame(t)
	if most := t.Testbed.Switch.MaxFrame; frame > most {
		d.problemAt("traffic.mtu", fmt.Sprintf("%d makes frames of %d bytes; the testbed carries %d", t.Traffic.MTU, frame,
			most),
			"raise switch.max-frame-bytes of the testbed or choose a smaller mtu")
	}
	d.validateDatapath(t)
	if snap := t.Injector.Snap; snap != nil && d.fine("injector") {
		d.validateSnap("injector.snap-bytes", *snap)
	}
}

// validateInvalidate checks the settings that depend on a SEND that invalidates a remote key.
func (d *decoder) validateInvalidate(t *Test) {
	i := slices.Index(t.Traffic.Verbs, generator.SendInvalidate)
	if i < 0 {
		if t.Traffic.StaleRKey && d.fine("traffic.stale-rkey", "traffic.rdma-verb") {
			d.problemAt("traffic.stale-rkey", "true has no effect",
				"only send-invalidate invalidates the key, and rdma-verb does not contain it")
		}
		return
	}
	if t.Testbed.Kind != KindVirtual && t.Testbed.Kind != KindNetns && d.fine("traffic.rdma-verb", "testbed") {
		path := "traffic.rdma-verb"
		if len(t.Traffic.Verbs) > 1 {
			path += "[" + itoa(i) + "]"
		}
		d.problemAt(path, "send-invalidate does not run on a testbed of kind "+t.Testbed.Kind,
			"its hosts never invalidate the keys of their memory; hosts of the kinds "+KindVirtual+" and "+KindNetns+
				" do")
	}
}

// longestFrame returns the longest Ethernet frame of the traffic without FCS: a single-packet WRITE with immediate
// data.
func longestFrame(t *Test) int {
	ip := packet.IPv4Len
	if slices.ContainsFunc(t.Requester.NIC.IPs, func(p netip.Prefix) bool { return p.Addr().Is6() }) {
		ip = packet.IPv6Len
	}
	return packet.EthernetLen + ip + packet.UDPLen + packet.BTHLen + packet.RETHLen + packet.ImmDtLen +
		t.Traffic.MTU + packet.ICRCLen
}

// minSnap holds all headers of every RoCE packet: Ethernet with a tag, IPv6, UDP, BTH and AtomicETH are 106 bytes.
const minSnap = 128

func (d *decoder) validateSnap(path string, snap int) {
	if snap != 0 && snap < minSnap {
		d.problemAt(path, fmt.Sprintf("%d bytes would cut headers", snap),
			fmt.Sprintf("it takes 0 (whole packets) or at least %d", minSnap))
	}
}

func (d *decoder) validateTestbed(t *Testbed) {
	seen := make(map[string]bool)
	for i, dumper := range t.Dumpers {
		path := "dumpers[" + itoa(i) + "].name"
		if seen[dumper.Name] && d.fine(path) {
			d.problemAt(path, dumper.Name+" is given twice", "each dumper writes a shard with its name")
		}
		seen[dumper.Name] = true
		if path := "dumpers[" + itoa(i) + "].cores"; t.IsLive() && dumper.Cores > maxLiveCores && d.fine(path, "kind") {
			d.problemAt(path, fmt.Sprintf("%d is too many for a testbed of kind "+t.Kind, dumper.Cores),
				fmt.Sprintf("agents use up to %d cores", maxLiveCores))
		}
	}
	if d.fine("mirror") {
		d.validateSnap("mirror.snap-bytes", t.Mirror.Snap)
	}
	d.validateLive(t)
	d.validateVM(t)
	d.validateTimeScale(t)
}
