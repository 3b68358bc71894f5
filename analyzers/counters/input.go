package counters

import (
	"errors"
	"fmt"
	"maps"
	"net/netip"
	"slices"
)

// Schema names the version of the counters document, counters.json of a run directory.
const Schema = "candela.counters/v1"

// Input is what the hosts' NICs counted during a test.
type Input struct {
	Hosts []Host `json:"hosts"`
	// TimeoutNS is the local ACK timeout T of all connections in nanoseconds, 0 if unknown. It distinguishes restarts that
	// may be timeouts from those that came too soon.
	TimeoutNS int64 `json:"timeout_ns,omitempty"`
}

// Host is one host's NIC: its counters before traffic started and after it had come to rest.
type Host struct {
	Name   string           `json:"name"`   // for messages: "requester"
	IPs    []netip.Addr     `json:"ips"`    // every address that the NIC sends from in this test
	Naming string           `json:"naming"` // one of Namings
	Start  map[string]int64 `json:"start"`  // by the vendor's name
	Finish map[string]int64 `json:"finish"`
	// NPOff and RPOff say that DCQCN's notification or reaction point is off, and with it its counters.
	NPOff bool `json:"np_off,omitempty"`
	// NPAbsent and RPAbsent say that the device declares that it has no such point.
	NPAbsent bool `json:"np_absent,omitempty"`
	RPAbsent bool `json:"rp_absent,omitempty"`
	RPOff    bool `json:"rp_off,omitempty"`
}

// ethtoolPrefix is what agents put before the names of ethtool's statistics.
const ethtoolPrefix = "ethtool."

// Delta returns finish − start of a counter under its vendor's name. A counter that was not read before the test,
// because the driver creates it at its first use, counts from 0.
func (h *Host) Delta(name string) (n int64, ok bool) {
	finish, ok := h.Finish[name]
	if !ok {
		name = ethtoolPrefix + name
		if finish, ok = h.Finish[name]; !ok {
			return 0, false
		}
	}
	return finish - h.Start[name], true
}

// Validate reports all problems of the input at once: an unknown naming, an address of two hosts, a counter without a
// finish.
func (in Input) Validate() error {
	var errs []error
	owner := map[netip.Addr]string{}
	for i := range in.Hosts {
		h := &in.Hosts[i]
		at := fmt.Sprintf("hosts[%d] (%q)", i, h.Name)
		if _, ok := namings[h.Naming]; !ok {
			errs = append(errs, fmt.Errorf("%s: naming %q is unknown (known: %v)", at, h.Naming, Namings()))
		}
		for _, ip := range h.IPs {
			if !ip.IsValid() {
				errs = append(errs, fmt.Errorf("%s: an address is missing", at))
				continue
			}
			if other, taken := owner[ip]; taken {
				errs = append(errs, fmt.Errorf("%s: address %v belongs to %q already", at, ip, other))
			}
			owner[ip] = h.Name
		}
		for _, name := range slices.Sorted(maps.Keys(h.Start)) {
			if _, ok := h.Finish[name]; !ok {
				errs = append(errs, fmt.Errorf("%s: counter %q has a start but no finish", at, name))
			}
		}
	}
	return errors.Join(errs...)
}
