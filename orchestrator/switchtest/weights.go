package switchtest

import (
	"fmt"
	"math"
	"slices"

	"candela.dev/candela/orchestrator/config"
	"candela.dev/candela/orchestrator/switchtest/transport"
	"candela.dev/candela/testbeds/virtual/fabric"
)

// weights is what flows weigh, by the connections of their senders: mechanisms read it of each packet.
type weights struct {
	list  []int64             // that occur, in millionths; the first is 1
	items []uint16            // number of the weight of each item of the workload
	hosts []map[uint64]uint16 // number of a connection's weight, by sender; each is its host's alone during the run
	keyed [256]func(*fabric.Header) (connection uint32, of bool)
}

// newWeights returns the weights of a test; nil: all flows weigh 1.
func newWeights(p *Plan, hosts int) (*weights, error) {
	w := &weights{list: []int64{config.WeightUnit}}
	for item := range p.Test.Workload {
		of := int64(config.WeightUnit)
		if own := p.Test.Workload[item].Offer.Weight; own != nil {
			of = *own
		}
		i := slices.Index(w.list, of)
		if i < 0 {
			i = len(w.list)
			w.list = append(w.list, of)
		}
		if i > math.MaxUint16 {
			return nil, fmt.Errorf("%s: more than %d weights", p.Test.Where(fmt.Sprintf("workload[%d]", item)), math.MaxUint16)
		}
		w.items = append(w.items, uint16(i))
	}
	if len(w.list) == 1 {
		return nil, nil
	}
	w.hosts = make([]map[uint64]uint16, hosts)
	for i := range w.hosts {
		w.hosts[i] = make(map[uint64]uint16)
	}
	for _, t := range transports() {
		w.keyed[t.Protocol] = keyed(&t)
	}
	return w, nil
}

// keyed returns what says to which connection of its sender a packet belongs. Where receivers answer with the number of
// the sender's connection, only data belong to it.
func keyed(t *transport.Transport) func(*fabric.Header) (connection uint32, of bool) {
	if t.Connection == nil {
		return func(h *fabric.Header) (uint32, bool) { return h.Flow, true }
	}
	return func(h *fabric.Header) (uint32, bool) { return t.Connection(h), t.Carries(h) }
}

// enter gives a connection of a sender the weight of a flow.
func (w *weights) enter(protocol fabric.Protocol, sender fabric.HostID, connection uint32, f *Flow) {
	if n := w.items[f.Item]; n > 0 {
		w.hosts[sender][weightKey(protocol, connection)] = n
	}
}

// of returns the number of the weight of a packet that its host sends.
func (w *weights) of(h *fabric.Header) uint16 {
	if key := w.keyed[h.Protocol]; key != nil {
		if connection, of := key(h); of {
			return w.hosts[h.Src][weightKey(h.Protocol, connection)]
		}
	}
	return 0
}

func weightKey(protocol fabric.Protocol, connection uint32) uint64 {
	return uint64(protocol)<<32 | uint64(connection)
}
