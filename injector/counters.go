package injector

import (
	"context"
	"errors"
	"fmt"
	"slices"

	p4pb "github.com/p4lang/p4runtime/go/p4/v1"

	"candela.dev/candela/injector/p4"
)

// Count is a number of packets and their bytes (frames without FCS).
type Count struct {
	Packets uint64 `json:"packets"`
	Bytes   uint64 `json:"bytes"`
}

func (c Count) since(base Count) Count { return Count{c.Packets - base.Packets, c.Bytes - base.Bytes} }

func (c *Count) add(d Count) {
	c.Packets += d.Packets
	c.Bytes += d.Bytes
}

// PortCounters are the injector's counters of one port.
type PortCounters struct {
	Port    uint16 `json:"port"`
	RoCERx  Count  `json:"roce_rx"`
	RoCETx  Count  `json:"roce_tx"`
	PauseRx uint64 `json:"pause_rx"` // pause and PFC frames
}

// MirrorCounters count the copies for one mirror.
type MirrorCounters struct {
	Session uint16 `json:"session"`
	Port    uint16 `json:"port"`
	Count
}

// Counters are the injector's counters for the ports and mirrors of the programmed Setup, in its order. Targets never
// reset them: read a baseline and subtract it with Since.
type Counters struct {
	Ports   []PortCounters   `json:"ports"`
	Mirrors []MirrorCounters `json:"mirrors"`
}

// Since returns what was counted after base was read, of the same program.
func (c Counters) Since(base Counters) Counters {
	out := Counters{slices.Clone(c.Ports), slices.Clone(c.Mirrors)}
	for i := range min(len(out.Ports), len(base.Ports)) {
		p, b := &out.Ports[i], &base.Ports[i]
		p.RoCERx, p.RoCETx, p.PauseRx = p.RoCERx.since(b.RoCERx), p.RoCETx.since(b.RoCETx), p.PauseRx-b.PauseRx
	}
	for i := range min(len(out.Mirrors), len(base.Mirrors)) {
		out.Mirrors[i].Count = out.Mirrors[i].since(base.Mirrors[i].Count)
	}
	return out
}

// RoCERx sums the RoCE packets received on all ports.
func (c Counters) RoCERx() (sum Count) {
	for _, p := range c.Ports {
		sum.add(p.RoCERx)
	}
	return sum
}

// Mirrored sums the copies for all mirrors.
func (c Counters) Mirrored() (sum Count) {
	for _, m := range c.Mirrors {
		sum.add(m.Count)
	}
	return sum
}

// ports returns the ports of the setup, ascending.
func (s Setup) ports() []uint16 {
	ports := slices.Clone(s.FloodPorts)
	for _, f := range s.Forwarding {
		ports = append(ports, f.Port)
	}
	for _, m := range s.Mirrors {
		ports = append(ports, m.Port)
	}
	slices.Sort(ports)
	return slices.Compact(ports)
}

// counter returns the target's id of the counter that the contract has under an id: they are found by name, because
// compilers for hardware ignore the ids of the sources.
func (c *Client) counter(id uint32) uint32 { return c.info.CounterNamed(p4.Base().Counter(id).Name).ID }

// Counters reads the counters of the programmed Setup.
func (c *Client) Counters(ctx context.Context) (Counters, error) {
	if c.run == nil {
		return Counters{}, fmt.Errorf("injector %q: counters: nothing is programmed", c.cfg.Target)
	}
	ports := c.run.setup.ports()
	roceRx, roceTx, pauseRx := c.counter(p4.CounterRoCERx), c.counter(p4.CounterRoCETx), c.counter(p4.CounterPauseRx)
	mirrored := c.counter(p4.CounterMirrored)
	var requests []*p4pb.Entity
	ask := func(counter uint32, index int) {
		requests = append(requests, &p4pb.Entity{Entity: &p4pb.Entity_CounterEntry{CounterEntry: &p4pb.CounterEntry{
			CounterId: counter, Index: &p4pb.Index{Index: int64(index)}}}})
	}
	for _, port := range ports {
		for _, id := range []uint32{roceRx, roceTx, pauseRx} {
			ask(id, int(port))
		}
	}
	for i := range c.run.setup.Mirrors {
		ask(mirrored, i+1)
	}
	cells, err := c.readCells(ctx, requests)
	if err != nil {
		return Counters{}, fmt.Errorf("injector %q: counters: %w", c.cfg.Target, err)
	}
	var out Counters
	for _, port := range ports {
		out.Ports = append(out.Ports, PortCounters{port, cells[cell{roceRx, port}], cells[cell{roceTx, port}],
			cells[cell{pauseRx, port}].Packets})
	}
	for i, m := range c.run.setup.Mirrors {
		session := uint16(i + 1)
		out.Mirrors = append(out.Mirrors, MirrorCounters{session, m.Port, cells[cell{mirrored, session}]})
	}
	return out, nil
}

// ErrNoList matches the error of Received if the target cannot list its ports and no Setup that names ports is
// programmed.
var ErrNoList = errors.New("the target does not list its counters")

// Received reads how many RoCE packets each port of the target has received, or, if the target cannot list its ports,
// each port of the programmed Setup.
func (c *Client) Received(ctx context.Context) (map[uint16]uint64, error) {
	all := &p4pb.Entity{Entity: &p4pb.Entity_CounterEntry{CounterEntry: &p4pb.CounterEntry{
		CounterId: c.counter(p4.CounterRoCERx)}}}
	received := make(map[uint16]uint64)
	entities, err := c.read(ctx, all)
	for _, e := range entities {
		if ce := e.GetCounterEntry(); ce != nil {
			received[uint16(ce.GetIndex().GetIndex())] = uint64(ce.GetData().GetPacketCount())
		}
	}
	switch {
	case err == nil && len(received) > 0:
		return received, nil
	case c.run == nil:
		return nil, errors.Join(fmt.Errorf("injector %q: %w", c.cfg.Target, ErrNoList), err)
	}
	named, err := c.Counters(ctx)
	for _, p := range named.Ports {
		received[p.Port] = p.RoCERx.Packets
	}
	return received, err
}

// cell names one cell of an indirect counter.
type cell struct {
	counter uint32
	index   uint16
}

func (c *Client) readCells(ctx context.Context, requests []*p4pb.Entity) (map[cell]Count, error) {
	entities, err := c.read(ctx, requests...)
	if err != nil {
		return nil, err
	}
	cells := map[cell]Count{}
	for _, e := range entities {
		if ce := e.GetCounterEntry(); ce != nil {
			cells[cell{ce.GetCounterId(), uint16(ce.GetIndex().GetIndex())}] =
				Count{uint64(ce.GetData().GetPacketCount()), uint64(ce.GetData().GetByteCount())}
		}
	}
	for _, r := range requests {
		k := cell{r.GetCounterEntry().GetCounterId(), uint16(r.GetCounterEntry().GetIndex().GetIndex())}
		if _, ok := cells[k]; !ok {
			return nil, fmt.Errorf("the target did not return counter %d[%d]", k.counter, k.index)
		}
	}
	return cells, nil
}

// Hits returns how often each intent of the programmed run has fired, by its place in the list.
func (c *Client) Hits(ctx context.Context) ([]uint64, error) {
	if c.run == nil {
		return nil, fmt.Errorf("injector %q: hits: nothing is programmed", c.cfg.Target)
	}
	program := c.run.program
	type place struct {
		table uint32
		key   p4.Key
	}
	intentAt := map[place]int{}
	for _, e := range program.Entries {
		if e.Intent >= 0 {
			intentAt[place{e.Table, e.Key}] = e.Intent
		}
	}
	hits := make([]uint64, len(program.intents))
	tables := program.eventTables()
	if len(tables) == 0 {
		return hits, nil
	}
	entries, err := c.readTables(ctx, tables, true)
	if err != nil {
		return nil, fmt.Errorf("injector %q: hits: %w", c.cfg.Target, err)
	}
	for _, te := range entries {
		id := te.GetTableId()
		k, err := c.info.Table(id).ParseMatch(te.GetMatch())
		if err != nil {
			return nil, fmt.Errorf("injector %q: hits: %w", c.cfg.Target, err)
		}
		if i, ok := intentAt[place{id, k}]; ok {
			hits[i] = uint64(te.GetCounterData().GetPacketCount())
		}
	}
	return hits, nil
}

// eventTables returns the tables that hold the program's events, without repetition.
func (p *Program) eventTables() []uint32 {
	var ids []uint32
	for _, e := range p.Entries {
		if e.Intent >= 0 && !slices.Contains(ids, e.Table) {
			ids = append(ids, e.Table)
		}
	}
	return ids
}
