package sai

import (
	"fmt"
	"net/netip"

	"candela.dev/candela/analyzers"
	"candela.dev/candela/clock"
	"candela.dev/candela/packet/ndp"
	"candela.dev/candela/sai"
	"candela.dev/candela/trace"
)

// judge is an analyzer for each switch of a run.
type judge struct {
	view     analyzers.SwitchView
	switches []*Analyzer
	before   []sai.Snapshot
	stopped  []bool
}

// NewJudge returns the judge of the switches of v, whose settings and counters are sai.Device and sai.Snapshot.
func NewJudge(v analyzers.SwitchView) (analyzers.SwitchJudge, error) {
	j := &judge{view: v, stopped: make([]bool, v.Switches())}
	for i := range v.Switches() {
		a, s, err := j.begin(i)
		if err != nil {
			return nil, err
		}
		j.before, j.switches = append(j.before, s), append(j.switches, a)
	}
	return j, nil
}

// begin returns a new analyzer of a switch, and the switch's counters now.
func (j *judge) begin(sw int) (*Analyzer, sai.Snapshot, error) {
	v := j.view
	d, err := j.device(sw)
	if err != nil {
		return nil, sai.Snapshot{}, err
	}
	s, err := j.snapshot(sw)
	if err != nil {
		return nil, s, err
	}
	ports := make(map[netip.Addr]int)
	for p := range v.Ports(sw) {
		if h, ok := v.HostAt(sw, p); ok {
			ports[v.Address(h, false)], ports[v.Address(h, true)] = p, p
		}
	}
	name := ""
	if analyzers.OneOfMany(v) {
		name = v.SwitchName(sw)
	}
	return New(Config{
		Name: name, Ports: d.Ports, Settings: []Change{{Settings: d.Settings}}, Strict: d.Strict, PoolBytes: d.PoolBytes,
		Closed:    true,
		Undrained: v.Bounded(), // a run that is cut off leaves packets in queues
		PortOf:    func(a netip.Addr) (int, bool) { port, ok := ports[a]; return port, ok },
	}), s, nil
}

func (j *judge) device(sw int) (sai.Device, error) {
	settings, err := j.view.Settings(sw)
	if err != nil {
		return sai.Device{}, err
	}
	d, ok := settings.(sai.Device)
	if !ok {
		return d, fmt.Errorf("switch %s has settings of type %T, not those of SAI", j.view.SwitchName(sw), settings)
	}
	return d, nil
}

func (j *judge) snapshot(sw int) (sai.Snapshot, error) {
	counters, err := j.view.Counters(sw)
	if err != nil {
		return sai.Snapshot{}, err
	}
	s, ok := counters.(sai.Snapshot)
	if !ok {
		return s, fmt.Errorf("switch %s has counters of type %T, not those of SAI", j.view.SwitchName(sw), counters)
	}
	return s, nil
}

// Observe implements analyzers.SwitchJudge.
func (j *judge) Observe(t *trace.SwitchTap) {
	if t.Internal || j.stopped[t.Switch] {
		return
	}
	if t.Stage == trace.Dropped {
		if r := j.view.Reason(t.Switch, t.Reason); r.Outage && !r.Unseen {
			o := Observation(t, j.view.Address)
			o.Queue = t.Queue
			j.switches[t.Switch].Flush(&o)
		}
		return
	}
	o := Observation(t, j.view.Address)
	j.switches[t.Switch].Observe(&o)
}

// Decide implements analyzers.SwitchJudge.
func (j *judge) Decide(*trace.Decision) {}

// Changed implements analyzers.SwitchJudge. Settings that cannot be read are an error of the switch and fail the run.
func (j *judge) Changed(now clock.Time, sw int) {
	if d, err := j.device(sw); err == nil {
		j.switches[sw].AddChange(Change{FromPS: int64(now), Settings: d.Settings})
	}
}

// Stopping implements analyzers.SwitchJudge: counters and losses until now are not judged, since packets are inside.
func (j *judge) Stopping(_ clock.Time, sw int) {
	j.stopped[sw] = true
	j.switches[sw].Cut()
	j.switches[sw].Finish(j.before[sw])
}

// Started implements analyzers.SwitchJudge: a new analyzer judges packets and counters; findings and metrics so far are
// kept. Settings that cannot be read are an error of the switch and fail the run.
func (j *judge) Started(_ clock.Time, sw int) {
	a, s, err := j.begin(sw)
	if err != nil {
		return
	}
	a.inherit(j.switches[sw])
	j.switches[sw], j.before[sw], j.stopped[sw] = a, s, false
}

// Finish implements analyzers.SwitchJudge.
func (j *judge) Finish() (analyzers.Result, error) {
	var all analyzers.Result
	for i, a := range j.switches {
		result, err := j.conclude(i, a)
		if err != nil {
			return all, err
		}
		if len(j.switches) == 1 && !analyzers.OneOfMany(j.view) {
			return result, nil
		}
		for k := range result.Findings {
			result.Findings[k].Message = "switch " + j.view.SwitchName(i) + ": " + result.Findings[k].Message
		}
		all.Findings = append(all.Findings, result.Findings...)
	}
	return all, nil
}

// conclude finishes the analyzer of a switch, with its counters unless it is out of service.
func (j *judge) conclude(i int, a *Analyzer) (analyzers.Result, error) {
	if j.stopped[i] {
		return a.result(), nil
	}
	after, err := j.snapshot(i)
	if err != nil {
		return analyzers.Result{}, err
	}
	counters, err := after.Since(j.before[i])
	if err != nil {
		return analyzers.Result{}, fmt.Errorf("switch %s: %w", j.view.SwitchName(i), err)
	}
	if j.view.InFlight() {
		a.Cut()
	}
	return a.Finish(counters), nil
}

// Numbers of IP protocols.
const (
	protocolUDP  = 17
	protocolTCP  = 6
	protocolICMP = 1
)

// Observation returns what a tap on the link of a packet would see, and the queue by which the packet leaves, which
// mirrored ports of a real switch do not show.
func Observation(t *trace.SwitchTap, address func(host uint32, v6 bool) netip.Addr) sai.Observation {
	o := sai.Observation{
		ID: t.ID, TimePS: int64(t.Time), Port: t.Port, Side: sai.Before, Queue: sai.UnknownQueue,
		Signature: signature(t), Src: address(t.Src, t.IPv6), Dst: address(t.Dst, t.IPv6),
		SrcPort: t.Entropy, DstPort: uint16(t.Protocol), Protocol: protocolUDP,
		DSCP: t.DSCP, ECN: t.ECN, TTL: t.TTL, Length: int(t.Size), IPLength: int(t.Size) - sai.EthernetHeader,
	}
	if t.Stage == trace.Left {
		o.Side, o.Queue = sai.After, t.Queue
	}
	switch t.Protocol {
	case trace.ProtocolTCP:
		o.Protocol = protocolTCP
	case trace.ProtocolEcho:
		o.Protocol = protocolICMP
	case trace.ProtocolRaw, trace.ProtocolNDP, trace.ProtocolRoCE, trace.ProtocolPFC, trace.ProtocolPFabric,
		trace.ProtocolBolt, trace.ProtocolNetLock:
	}
	if t.Flags&trace.LengthStale != 0 {
		o.IPLength = int(t.Original) - sai.EthernetHeader
	}
	o.ChecksumWrong = t.Flags&trace.HeaderSumStale != 0 && !t.IPv6
	if t.Flags&trace.PortsSwapped != 0 {
		o.SrcPort, o.DstPort = o.DstPort, o.SrcPort
	}
	return o
}

// signature identifies a packet by its flow and number. Retransmissions have other numbers, except those of TCP data.
// Each end of a TCP connection has its own numbers. Two answers to duplicated NDP data differ only in the path tag:
// they may overtake each other on different paths.
func signature(t *trace.SwitchTap) uint64 {
	number := t.Number
	switch t.Protocol { // of pFabric and Bolt as of TCP
	case trace.ProtocolTCP, trace.ProtocolPFabric, trace.ProtocolBolt:
		origin := t.Src
		if t.Flags&trace.Returned != 0 {
			origin = t.Dst
		}
		number ^= mix(uint64(origin) + 1)
	case trace.ProtocolNDP:
		number = number&^(1<<32-1) | uint64(uint32(number))<<8 | uint64(t.Kind)
		if t.Kind != ndp.Data {
			number ^= 1<<63 ^ mix(uint64(t.Entropy))
		}
	case trace.ProtocolRaw, trace.ProtocolRoCE, trace.ProtocolEcho, trace.ProtocolPFC, trace.ProtocolNetLock:
	}
	return mix(mix(uint64(t.Flow)<<8|uint64(t.Protocol)) ^ number)
}

// mix is the finaliser of splitmix64: a bijection that leaves no pattern.
func mix(x uint64) uint64 {
	x = (x ^ x>>30) * 0xbf58476d1ce4e5b9
	x = (x ^ x>>27) * 0x94d049bb133111eb
	return x ^ x>>31
}
