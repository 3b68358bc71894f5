package switchtest

import (
	"cmp"
	"fmt"
	"strings"

	"candela.dev/candela/generator/parameter"
	"candela.dev/candela/generator/workload"
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
	for item := range p.Test.Workload {
		w := &p.Test.Workload[item]
		if cmp.Or(workload.Find(w.Kind).Transport, p.Test.TransportOf(&w.Offer)) == t.Name {
			return true
		}
	}
	return false
}

// endpoints is the hosts of a run.
type endpoints struct {
	open    map[string]transport.Endpoints // of transports that take flows one by one
	muxes   map[fabric.HostID]*stack.Mux
	weights *weights // nil: all flows weigh 1
	failed  error    // the first failure of an endpoint; the run is given up
}

// books is what endpoints tell about their flows, and what taps have seen.
type books = transport.Books

// attach makes all endpoints of a plan, and starts the flows unless they are streamed.
func (p *Plan) attach(net *fabric.Network, b books) (*endpoints, error) {
	e := &endpoints{muxes: make(map[fabric.HostID]*stack.Mux), open: make(map[string]transport.Endpoints)}
	var err error
	if e.weights, err = newWeights(p, net.Hosts()); err != nil {
		return nil, err
	}
	e.weigh(net)
	for _, t := range transports() {
		if !p.speaks(&t) {
			continue
		}
		s := &transport.Setup{Net: net, Test: p.Test, Values: p.valuesOf(&t), Books: b, Live: p.live, Untapped: p.Streamed(),
			Ranked: p.Test.Ranked(),
			Fail: func(err error) {
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
		if e.weights != nil {
			s.Weights = func(sender fabric.HostID, connection uint32, f *Flow) {
				e.weights.enter(t.Protocol, sender, connection, f)
			}
		}
		if err := e.add(s, &t, p); err != nil {
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

// weigh has packets of a network, that of the hosts or the one that their frames come to, weigh what their flows do.
func (e *endpoints) weigh(net *fabric.Network) {
	if e.weights != nil {
		net.SetWeights(e.weights.list, e.weights.of)
	}
}

// add makes the endpoints of a transport.
func (e *endpoints) add(s *transport.Setup, t *transport.Transport, p *Plan) error {
	flows := func(yield func(*Flow) bool) {
		for f := range p.All() {
			if f.Transport == t.Name && !yield(f) {
				return
			}
		}
	}
	if t.Attach != nil {
		var list []*Flow
		for f := range flows {
			if p.Streamed() { // valid until the next
				kept := *f
				f = &kept
			}
			list = append(list, f)
		}
		return t.Attach(s, list)
	}
	o, err := t.Open(s, flows)
	if err != nil {
		return err
	}
	e.open[t.Name] = o
	if p.Streamed() {
		return nil
	}
	for f := range flows {
		if err := o.Start(f); err != nil {
			return err
		}
	}
	return nil
}
