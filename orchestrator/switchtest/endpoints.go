package switchtest

import (
	"fmt"
	"slices"
	"strings"

	"candela.dev/candela/generator/parameter"
	"candela.dev/candela/orchestrator/switchtest/stack"
	"candela.dev/candela/orchestrator/switchtest/transport"
	"candela.dev/candela/testbeds/virtual/fabric"
)

func findTransport(name string) (*transport.Transport, error) {
	var names []string
	for _, t := range transports() {
		if t.Name == name {
			return &t, nil
		}
		if !t.Internal {
			names = append(names, t.Name)
		}
	}
	return nil, fmt.Errorf("transport %q is unknown (there are: %s)", name, strings.Join(names, ", "))
}

// valuesOf returns the parameters of a transport: those of the hosts if it is theirs, otherwise the defaults.
func (p *Plan) valuesOf(t *transport.Transport) parameter.Values {
	if p.Test.Hosts.Model == t.Name {
		return p.Test.Hosts.Values
	}
	return t.Parameters.Defaults()
}

// speaks reports whether a flow has the transport.
func (p *Plan) speaks(t *transport.Transport) bool {
	return slices.ContainsFunc(p.Flows, func(f Flow) bool { return f.Transport == t.Name })
}

// endpoints is the hosts of a run.
type endpoints struct {
	muxes  map[fabric.HostID]*stack.Mux
	failed error // the first failure of an endpoint; the run is given up
}

// attach makes all endpoints of a plan.
func (p *Plan) attach(net *fabric.Network, l *ledger) (*endpoints, error) {
	e := &endpoints{muxes: make(map[fabric.HostID]*stack.Mux)}
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
		s := &transport.Setup{Net: net, Test: p.Test, Values: p.valuesOf(&t), Books: l, Live: p.live, Fail: func(err error) {
			if e.failed == nil {
				e.failed = err
			}
		}}
		if p.Test.Hosts.Model == t.Name {
			s.Bugs = p.Test.Hosts.Bugs
		}
		s.Add = func(h fabric.HostID, st fabric.Stack) {
			if e.muxes[h] == nil {
				e.muxes[h] = new(stack.Mux)
			}
			e.muxes[h].Add(t.Protocol, st)
		}
		if err := t.Attach(s, flows); err != nil {
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
