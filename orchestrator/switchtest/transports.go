package switchtest

import (
	"fmt"
	"slices"
	"strings"

	"candela.dev/candela/clock"
	"candela.dev/candela/orchestrator/switchtest/stack"
	"candela.dev/candela/testbeds/virtual/fabric"
	"candela.dev/candela/testbeds/virtual/fabric/parameter"
)

// transport is what hosts speak: its parameters, what it can do, and how its endpoints are made.
type transport struct {
	parameter.Model
	reliable      bool // everything arrives in the end
	onePacketSize bool // all flows of a host have packets of one size
	toItself      bool // a host can send to itself
	// attach gives the hosts their endpoints and hands over the flows, which are all of this transport.
	attach func(r *endpoints, v parameter.Values, flows []*Flow) error
}

// transports lists every transport, the default first. A new one is one entry here.
func transports() []transport {
	return []transport{ndpTransport(), rawTransport(), tcpTransport()}
}

func findTransport(name string) (transport, error) {
	all := transports()
	i := slices.IndexFunc(all, func(t transport) bool { return t.Name == name })
	if i < 0 {
		names := make([]string, len(all))
		for i := range all {
			names[i] = all[i].Name
		}
		return transport{}, fmt.Errorf("transport %q is unknown (there are: %s)", name, strings.Join(names, ", "))
	}
	return all[i], nil
}

// Headers of the frames that hosts send, in bytes without FCS.
const (
	ethernetBytes = 14
	ipv4Bytes     = 20
	ipv6Bytes     = 40
	udpBytes      = 8
)

// headerBytes returns what of a full packet is no payload.
func headerBytes(transport string, v6 bool) int {
	ip := ipv4Bytes
	if v6 {
		ip = ipv6Bytes
	}
	switch transport {
	case "tcp":
		return fabric.TCPHeaderSize(v6)
	case "ndp":
		return ethernetBytes + ip + udpBytes + ndpHeader
	}
	return ethernetBytes + ip + udpBytes
}

// endpoints is the hosts of a run while they are being made.
type endpoints struct {
	net    *fabric.Network
	plan   *Plan
	ledger *ledger
	muxes  map[fabric.HostID]*stack.Mux
	failed error
}

// mux returns the mux of a host.
func (e *endpoints) mux(h fabric.HostID) *stack.Mux {
	if e.muxes[h] == nil {
		e.muxes[h] = new(stack.Mux)
	}
	return e.muxes[h]
}

// fail keeps the first failure of an endpoint; the run is given up.
func (e *endpoints) fail(err error) {
	if e.failed == nil {
		e.failed = err
	}
}

// attach makes all endpoints of a plan.
func (p *Plan) attach(net *fabric.Network, l *ledger) (*endpoints, error) {
	e := &endpoints{net: net, plan: p, ledger: l, muxes: make(map[fabric.HostID]*stack.Mux)}
	e.pings()
	for _, t := range transports() {
		var flows []*Flow
		for i := range p.Flows {
			if p.Flows[i].Transport == t.Name {
				flows = append(flows, &p.Flows[i])
			}
		}
		if len(flows) == 0 {
			continue
		}
		values := t.Parameters.Defaults()
		if p.Test.Hosts.Model == t.Name {
			values = p.Test.Hosts.Values
		}
		if err := t.attach(e, values, flows); err != nil {
			return nil, fmt.Errorf("transport %s: %w", t.Name, err)
		}
	}
	for id := range net.Hosts() {
		if m := e.muxes[fabric.HostID(id)]; m != nil {
			net.Host(fabric.HostID(id)).Attach(m.Stack())
		}
	}
	return e, nil
}

// pings attaches the echo endpoints of the plan's pings.
func (e *endpoints) pings() {
	echoes := make(map[fabric.HostID]*stack.Echo)
	echo := func(h fabric.HostID) *stack.Echo {
		if echoes[h] == nil {
			echoes[h] = stack.NewEcho(h, e.answered)
			e.mux(h).Add(fabric.Echo, echoes[h])
		}
		return echoes[h]
	}
	for i := range e.plan.Flows {
		f := &e.plan.Flows[i]
		if f.Kind != Pings {
			continue
		}
		e.ledger.own(fabric.Echo, f.Src, uint32(f.Number), f.Number)
		echo(f.Dst)
		echo(f.Src).Ping(stack.Ping{
			ID: uint32(f.Number), To: f.Dst, Count: f.Count, Interval: f.Interval, Size: int32(f.PacketSize), Start: f.Start, Mark: f.Mark,
		})
	}
}

// answered books a round trip of a ping.
func (e *endpoints) answered(now clock.Time, id uint32, rtt clock.Duration) {
	a := &e.ledger.flows[id-1]
	a.trips.Record(rtt.Nanoseconds())
	if a.trips.Count() == int64(e.plan.Flows[id-1].Count) {
		a.finished, a.done = true, now
	}
}

// packetSize is a parameter of every transport.
func packetSize() parameter.Parameter {
	return parameter.Parameter{Name: "packet-size", Kind: parameter.Integer, Unit: "bytes", Default: "1500", Min: 128, Max: 9216,
		Doc: "Bytes of a full frame without FCS, headers included."}
}

func ecnParameter() parameter.Parameter {
	return parameter.Parameter{Name: "ecn", Kind: parameter.Word, Words: []string{"not-ect", "ect0", "ect1"}, Default: "not-ect",
		Doc: "ECN codepoint of data packets."}
}

func rawTransport() transport {
	return transport{
		Model: parameter.Model{
			Name: "raw", Doc: "Plain UDP that nothing slows down: an open loop at line rate or rate-gbps. Nothing is sent again.",
			Parameters: parameter.Table{packetSize(), ecnParameter()},
		},
		toItself: true,
		attach:   attachRaw,
	}
}

func attachRaw(e *endpoints, _ parameter.Values, flows []*Flow) error {
	hosts := make(map[fabric.HostID]*stack.Raw)
	for _, f := range flows {
		if hosts[f.Src] == nil {
			hosts[f.Src] = stack.NewRaw()
			e.mux(f.Src).Add(fabric.Raw, hosts[f.Src])
		}
		e.ledger.own(fabric.Raw, f.Src, uint32(f.Number), f.Number)
		header := headerBytes(f.Transport, f.Mark.IPv6)
		raw := stack.Flow{ID: uint32(f.Number), To: f.Dst, Packets: f.Packets, Size: int32(f.PacketSize), Start: f.Start, Rate: f.Rate, Mark: f.Mark}
		if last := f.Payload - (f.Packets-1)*int64(f.PacketSize-header); f.Packets > 0 {
			raw.Last = int32(last) + int32(header)
		}
		hosts[f.Src].Send(raw)
	}
	return nil
}
