package sai

import (
	"errors"
	"fmt"
	"net/netip"
	"strings"
)

// AdmissionFailAction is the action of a buffer profile on a packet that is not admitted.
type AdmissionFailAction uint8

// Actions. The zero value is the proposal's default.
const (
	Drop AdmissionFailAction = iota
	DropAndTrim
)

// String returns SONiC's word for a.
func (a AdmissionFailAction) String() string {
	return word(int(a), "drop", "trim")
}

// DSCPMode is the source of a trimmed copy's DSCP.
type DSCPMode uint8

// Modes of resolving the DSCP. The zero value is the proposal's default.
const (
	DSCPValue DSCPMode = iota // one value for all
	FromTC                    // the trim TC through the egress port's TC→DSCP map
)

// String returns the mode as STATE_DB spells it.
func (m DSCPMode) String() string { return word(int(m), "DSCP_VALUE", "FROM_TC") }

// QueueMode is the source of a trimmed copy's queue.
type QueueMode uint8

// Modes of resolving the queue. The zero value is the proposal's default.
const (
	Static  QueueMode = iota // a queue index
	Dynamic                  // by the new DSCP through the switch's DSCP→TC and TC→queue maps
)

// String returns the mode as STATE_DB spells it.
func (m QueueMode) String() string { return word(int(m), "STATIC", "DYNAMIC") }

func word(i int, words ...string) string {
	if i < len(words) {
		return words[i]
	}
	return fmt.Sprintf("unknown(%d)", i)
}

// Trimming has the switch-wide attributes.
type Trimming struct {
	Size      int // bytes of a frame that are kept, from the destination address on, without FCS
	DSCPMode  DSCPMode
	DSCP      int // in mode DSCPValue
	TC        int // in mode FromTC
	QueueMode QueueMode
	Queue     int // in mode Static
}

// DefaultTrimming returns the proposal's defaults.
func DefaultTrimming() Trimming { return Trimming{Size: 128} }

// Limits are the resources of a switch. The zero Limits mean DefaultLimits.
type Limits struct {
	Queues  int // of a port
	Classes int // traffic classes
}

// DefaultLimits returns eight of each, as in SONiC's configurations.
func DefaultLimits() Limits { return Limits{Queues: 8, Classes: 8} }

// MinSize is the least size of a copy with all its headers: Ethernet, IPv6 and UDP. The proposal has no lower bound,
// but a receiver needs these headers.
const MinSize = 14 + 40 + 8

// Validate checks every attribute of t on a switch of the given limits and reports all errors.
func (t Trimming) Validate(l Limits) error {
	if l == (Limits{}) {
		l = DefaultLimits()
	}
	errs := []error{
		outside(AttrSize, "", int64(t.Size), MinSize, 1<<32-1, "of which 62 bytes are Ethernet, IPv6 and UDP headers"),
		knownMode(AttrDSCPMode, int(t.DSCPMode)),
		knownMode(AttrQueueMode, int(t.QueueMode)),
	}
	switch t.DSCPMode {
	case DSCPValue:
		errs = append(errs, outside(AttrDSCP, "", int64(t.DSCP), 0, MaxDSCP, ""))
	case FromTC:
		errs = append(errs, outside(AttrTC, "", int64(t.TC), 0, int64(l.Classes-1), "the switch's traffic classes"))
	}
	if t.QueueMode == Static {
		errs = append(errs, outside(AttrQueue, "", int64(t.Queue), 0, int64(l.Queues-1), "the queues of a port"))
	}
	return errors.Join(errs...)
}

func knownMode(attribute string, value int) error {
	a, _ := AttributeNamed(attribute)
	if value < len(a.Values) {
		return nil
	}
	return &AttributeError{attribute, "", fmt.Sprint(value), a.Allowed()}
}

// Profile is a buffer profile: the share of the buffer that a queue may take, and the action on packets beyond it.
type Profile struct {
	Name      string
	Action    AdmissionFailAction
	Reserved  int     // bytes that the queue has for itself
	Limit     int     // bytes, static threshold; 0: the threshold is dynamic
	Alpha     float64 // dynamic threshold: a queue may take alpha × the free part of the pool
	Lossless  bool    // never trimmed
	Pool      string
	Threshold int // SONiC's dynamic_th: alpha = 2^Threshold
}

// Validate checks p alone.
func (p Profile) Validate() error {
	where := fmt.Sprintf("buffer profile %q", p.Name)
	var errs []error
	if p.Name == "" {
		errs = append(errs, errors.New("a buffer profile has no name"))
	}
	if int(p.Action) > int(DropAndTrim) {
		a, _ := AttributeNamed(AttrAction)
		errs = append(errs, &AttributeError{AttrAction, where, fmt.Sprint(int(p.Action)), a.Allowed()})
	}
	if p.Lossless && p.Action == DropAndTrim {
		errs = append(errs, &AttributeError{
			AttrAction, where, "trim", "drop: a lossless queue loses nothing that could be trimmed",
		})
	}
	if p.Reserved < 0 || p.Limit < 0 || p.Alpha < 0 {
		errs = append(errs, fmt.Errorf("%s: sizes and alpha are not negative", where))
	}
	if p.Limit > 0 && p.Alpha > 0 {
		errs = append(errs, fmt.Errorf("%s: a threshold is static (%d bytes) or dynamic (alpha %g), not both", where, p.Limit,
			p.Alpha))
	}
	return errors.Join(errs...)
}

// Binding attaches a profile to one queue of one port.
type Binding struct {
	Port    string
	Queue   int
	Profile string
}

// DSCPMap is a TC→DSCP map: the outgoing DSCP of each traffic class.
type DSCPMap struct {
	Name string
	DSCP map[int]int
}

// PortMap attaches a TC→DSCP map to an egress port.
type PortMap struct {
	Port string
	Map  string
}

// Rule is an ACL entry with the action PACKET_TRIM_DISABLE. A packet must match both prefixes; the zero Prefix matches
// every address.
type Rule struct {
	Name     string
	Priority int
	Source   netip.Prefix
	Dest     netip.Prefix
}

// Matches reports whether r applies to a packet with these addresses.
func (r Rule) Matches(src, dst netip.Addr) bool {
	return (!r.Source.IsValid() || r.Source.Contains(src)) && (!r.Dest.IsValid() || r.Dest.Contains(dst))
}

// Shaper limits the rate of one queue of a port (SCHEDULER pir).
type Shaper struct {
	Port  string
	Queue int
	BPS   int64 // bits of frames a second
}

// Settings is the whole trimming configuration of a switch.
type Settings struct {
	Trimming Trimming
	Profiles []Profile
	Bindings []Binding
	Maps     []DSCPMap
	PortMaps []PortMap
	Rules    []Rule
	Shapers  []Shaper
	// PFC is set if neighbours may pause classes: a strict-priority queue may then wait while a lower one sends.
	PFC bool
	// DSCPTC maps DSCPs to traffic classes and TCQueue classes to queues, for packets and, in mode Dynamic, for copies. A
	// DSCP or class without an entry maps to 0.
	DSCPTC  map[int]int
	TCQueue map[int]int
}

// Validate checks every part and the references between them, on a switch of these ports and limits.
func (s Settings) Validate(ports []string, l Limits) error {
	if l == (Limits{}) {
		l = DefaultLimits()
	}
	v := validator{ports: set(ports), limits: l, profiles: map[string]bool{}, maps: map[string]DSCPMap{}}
	v.add(s.Trimming.Validate(l))
	v.checkProfiles(s)
	v.checkMaps(s)
	v.checkRules(s.Rules)
	for _, r := range s.Shapers {
		v.checkPort("shaper of queue "+fmt.Sprint(r.Queue), r.Port)
	}
	return errors.Join(v.errs...)
}

type validator struct {
	errs     []error
	ports    map[string]bool
	limits   Limits
	profiles map[string]bool
	maps     map[string]DSCPMap
}

func (v *validator) add(err error) {
	if err != nil {
		v.errs = append(v.errs, err)
	}
}

func (v *validator) addf(format string, args ...any) { v.add(fmt.Errorf(format, args...)) }

func set(names []string) map[string]bool {
	m := make(map[string]bool, len(names))
	for _, n := range names {
		m[n] = true
	}
	return m
}

func (v *validator) checkProfiles(s Settings) {
	for _, p := range s.Profiles {
		v.add(p.Validate())
		if v.profiles[p.Name] {
			v.addf("buffer profile %q is defined twice", p.Name)
		}
		v.profiles[p.Name] = true
	}
	type place struct {
		port  string
		queue int
	}
	bound := map[place]string{}
	for _, b := range s.Bindings {
		where := fmt.Sprintf("queue %s|%d", b.Port, b.Queue)
		v.checkPort(where, b.Port)
		v.add(outside("queue index", where, int64(b.Queue), 0, int64(v.limits.Queues-1), "the queues of a port"))
		if !v.profiles[b.Profile] {
			v.addf("%s: no buffer profile %q is defined", where, b.Profile)
		}
		if other, ok := bound[place{b.Port, b.Queue}]; ok {
			v.addf("%s has two buffer profiles, %q and %q", where, other, b.Profile)
		}
		bound[place{b.Port, b.Queue}] = b.Profile
	}
}

func (v *validator) checkPort(where, port string) {
	if len(v.ports) > 0 && !v.ports[port] {
		v.addf("%s: the switch has no port %q", where, port)
	}
}

func (v *validator) checkMaps(s Settings) {
	for _, m := range s.Maps {
		v.maps[m.Name] = m
		for tc, dscp := range m.DSCP {
			where := fmt.Sprintf("TC→DSCP map %q", m.Name)
			v.add(outside("traffic class", where, int64(tc), 0, int64(v.limits.Classes-1), ""))
			v.add(outside("DSCP", where, int64(dscp), 0, MaxDSCP, ""))
		}
	}
	mapped := map[string]bool{}
	for _, p := range s.PortMaps {
		v.checkPort("TC→DSCP map of port "+p.Port, p.Port)
		m, ok := v.maps[p.Map]
		if !ok {
			v.addf("port %s: no TC→DSCP map %q is defined", p.Port, p.Map)
		}
		if _, has := m.DSCP[s.Trimming.TC]; ok && s.Trimming.DSCPMode == FromTC && !has {
			v.addf("port %s: map %q has no DSCP for the trim TC %d (%s)", p.Port, p.Map, s.Trimming.TC, AttrTC)
		}
		mapped[p.Port] = true
	}
	if s.Trimming.DSCPMode != FromTC {
		return
	}
	for _, b := range s.Bindings {
		if !mapped[b.Port] && s.trims(b.Profile) {
			v.addf("port %s trims with %s FROM_TC but has no TC→DSCP map", b.Port, AttrDSCPMode)
			mapped[b.Port] = true
		}
	}
}

func (s Settings) trims(profile string) bool {
	p, ok := s.Profile(profile)
	return ok && p.Action == DropAndTrim
}

func (v *validator) checkRules(rules []Rule) {
	seen := map[string]bool{}
	for _, r := range rules {
		if r.Name == "" || strings.ContainsAny(r.Name, "|: ") {
			v.addf("ACL rule %q: a name has no space, bar or colon and is not empty", r.Name)
		}
		if seen[r.Name] {
			v.addf("ACL rule %q is defined twice", r.Name)
		}
		seen[r.Name] = true
		if !r.Source.IsValid() && !r.Dest.IsValid() {
			v.addf("ACL rule %q matches every packet: give it a source or a destination prefix", r.Name)
		}
	}
}

// Profile returns the profile of that name.
func (s Settings) Profile(name string) (Profile, bool) {
	for _, p := range s.Profiles {
		if p.Name == name {
			return p, true
		}
	}
	return Profile{}, false
}

// Shaped reports whether a shaper limits a queue of a port.
func (s Settings) Shaped(port string, queue int) bool {
	for _, r := range s.Shapers {
		if r.Port == port && r.Queue == queue && r.BPS > 0 {
			return true
		}
	}
	return false
}

// ProfileOf returns the profile bound to a queue, or the zero Profile, whose action is Drop.
func (s Settings) ProfileOf(port string, queue int) (Profile, bool) {
	for _, b := range s.Bindings {
		if b.Port == port && b.Queue == queue {
			return s.Profile(b.Profile)
		}
	}
	return Profile{}, false
}

// CopyDSCP returns the DSCP of a copy that leaves by port. It reports false if the port has no map for the trim TC.
func (s Settings) CopyDSCP(port string) (int, bool) {
	if s.Trimming.DSCPMode == DSCPValue {
		return s.Trimming.DSCP, true
	}
	for _, p := range s.PortMaps {
		if p.Port != port {
			continue
		}
		for _, m := range s.Maps {
			if m.Name == p.Map {
				dscp, ok := m.DSCP[s.Trimming.TC]
				return dscp, ok
			}
		}
	}
	return 0, false
}

// CopyQueue returns the queue of a copy that leaves with dscp.
func (s Settings) CopyQueue(dscp int) int {
	if s.Trimming.QueueMode == Static {
		return s.Trimming.Queue
	}
	return s.QueueOf(dscp)
}

// QueueOf returns the queue of an ordinary packet with dscp, by the switch's QoS maps.
func (s Settings) QueueOf(dscp int) int { return s.TCQueue[s.DSCPTC[dscp]] }
