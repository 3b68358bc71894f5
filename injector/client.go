package injector

import (
	"context"
	"errors"
	"fmt"

	p4pb "github.com/p4lang/p4runtime/go/p4/v1"
	"google.golang.org/grpc/codes"

	"candela.dev/candela/injector/p4"
	"candela.dev/candela/packet"
)

// Forwarding sends frames for a MAC address out of a port.
type Forwarding struct {
	MAC  packet.MAC
	Port uint16
}

// Mirror is a dumper's port. Weight is its share of the copies: two mirrors of weights 3 and 1 take three and one of
// four.
type Mirror struct {
	Port   uint16
	Weight int
}

// Setup is what a testbed needs of the switch, whatever the test.
type Setup struct {
	Forwarding []Forwarding
	FloodPorts []uint16 // of hosts; broadcasts and unknown addresses go there
	Mirrors    []Mirror // clone session i+1 leads to mirror i
	Snap       uint32   // bytes kept of a mirror copy, 0: all
}

// run is what is programmed.
type run struct {
	setup   Setup
	turns   []uint16 // clone session by turn
	program *Program
}

// ownTables are the tables whose entries belong to a test: they are emptied before it. Forwarding is shared and only
// added to; connections are emptied last, because they hold the epoch.
var ownTables = []uint32{p4.TableEvent, p4.TableEventAny, p4.TableControlEvent, p4.TableWatchedEvent, p4.TableWatch,
	p4.TableMirrorSlot, p4.TableConnectionV4, p4.TableConnectionV6}

// Program makes the target ready for a run: it closes the gate, deletes stale entries of earlier runs, and writes
// forwarding, mirroring, connections and events. Nothing is written if the events can't be translated for the target.
func (c *Client) Program(ctx context.Context, setup Setup, conns []Connection, intents []Intent) (*Program, error) {
	program, err := c.program(ctx, setup, conns, intents)
	if err != nil {
		return nil, fmt.Errorf("injector %q: %w", c.cfg.Target, err)
	}
	return program, nil
}

func (c *Client) program(ctx context.Context, setup Setup, conns []Connection, intents []Intent) (*Program, error) {
	turns, err := Turns(setup.Mirrors)
	if err != nil {
		return nil, err
	}
	epoch, err := c.nextEpoch(ctx)
	if err != nil {
		return nil, err
	}
	program, err := Translate(conns, intents, Options{Target: c.cfg.Target, Info: c.info, Epoch: epoch})
	if err != nil {
		return nil, err
	}
	c.run = nil
	steps := []struct {
		name string
		do   func(context.Context) error
	}{
		{"clear", c.flush(ownTables)},
		{"forwarding", func(ctx context.Context) error { return c.writeForwarding(ctx, setup) }},
		{"mirroring", func(ctx context.Context) error { return c.writeMirroring(ctx, setup, turns) }},
		{"events", func(ctx context.Context) error { return c.writeEntries(ctx, program.Entries) }},
	}
	for _, step := range steps {
		if err := step.do(ctx); err != nil {
			return nil, fmt.Errorf("program %s: %w", step.name, err)
		}
	}
	c.run, c.epoch = &run{setup, turns, program}, epoch
	return program, nil
}

// Extend adds connections and events to what Program has written for none, without touching what passes. They belong to
// the same epoch.
func (c *Client) Extend(ctx context.Context, conns []Connection, intents []Intent) (*Program, error) {
	program, err := c.extend(ctx, conns, intents)
	if err != nil {
		return nil, fmt.Errorf("injector %q: %w", c.cfg.Target, err)
	}
	return program, nil
}

func (c *Client) extend(ctx context.Context, conns []Connection, intents []Intent) (*Program, error) {
	if c.run == nil || len(c.run.program.conns) > 0 {
		return nil, errors.New("extend: Program must have been called, without connections")
	}
	program, err := Translate(conns, intents, Options{Target: c.cfg.Target, Info: c.info, Epoch: c.epoch})
	if err != nil {
		return nil, err
	}
	if err := c.writeEntries(ctx, program.Entries); err != nil {
		return nil, fmt.Errorf("program events: %w", err)
	}
	c.run.program = program
	return program, nil
}

// nextEpoch returns an epoch that differs from the last run's, found in the target's connection entries or in this
// client.
func (c *Client) nextEpoch(ctx context.Context) (uint16, error) {
	last := c.epoch
	entries, err := c.readTables(ctx, c.served([]uint32{p4.TableConnectionV4, p4.TableConnectionV6}), false)
	if err != nil {
		return 0, err
	}
	for _, te := range entries {
		const epochParam = 3
		if a, err := c.info.Table(te.GetTableId()).ParseAction(te.GetAction(), false); err == nil &&
			a.ID == p4.ActionSetFlow {
			last = max(last, uint16(a.Params[epochParam]))
		}
	}
	if last == 0 {
		return c.cfg.EpochHint, nil
	}
	if last++; last == 0 {
		last = 1
	}
	return last, nil
}

// served returns those of tables that the target has.
func (c *Client) served(tables []uint32) (out []uint32) {
	for _, id := range tables {
		if c.info.Table(id) != nil {
			out = append(out, id)
		}
	}
	return out
}

// flush returns a step that closes the gate and empties tables.
func (c *Client) flush(tables []uint32) func(context.Context) error {
	return func(ctx context.Context) error {
		updates := []update{c.defaultUpdate(p4.TableMirror, p4.NewAction(p4.ActionNoAction))}
		entries, err := c.readTables(ctx, c.served(tables), false)
		if err != nil {
			return err
		}
		for _, te := range entries {
			id := te.GetTableId()
			updates = append(updates, update{
				&p4pb.Update{Type: p4pb.Update_DELETE, Entity: tableEntity(&p4pb.TableEntry{TableId: id, Match: te.GetMatch()})},
				func() string { return "stale " + tableName(id) + " entry" },
			})
		}
		return c.write(ctx, updates)
	}
}

func (c *Client) writeEntries(ctx context.Context, entries []Entry) error {
	updates := make([]update, len(entries))
	for i, e := range entries {
		updates[i] = c.entryUpdate(p4pb.Update_INSERT, e)
	}
	return c.write(ctx, updates)
}

// writeForwarding adds the testbed's addresses to the forwarding table and sets the flood group.
func (c *Client) writeForwarding(ctx context.Context, setup Setup) error {
	table := c.info.Table(p4.TableL2Forward)
	present := map[p4.Key]p4.Action{}
	entries, err := c.readTable(ctx, p4.TableL2Forward, false)
	if err != nil {
		return err
	}
	for _, te := range entries {
		k, err := table.ParseMatch(te.GetMatch())
		if err != nil {
			return fmt.Errorf("read %s table: %w", table.Name, err)
		}
		present[k], _ = table.ParseAction(te.GetAction(), false) // an unknown action differs from ours: it is replaced
	}
	var updates []update
	for _, f := range setup.Forwarding {
		e := Entry{p4.TableL2Forward, p4.KeyOf(f.MAC.Uint48()), p4.NewAction(p4.ActionForward, uint64(f.Port)), -1}
		switch old, ok := present[e.Key]; {
		case !ok:
			updates = append(updates, c.entryUpdate(p4pb.Update_INSERT, e))
		case old != e.Action:
			updates = append(updates, c.entryUpdate(p4pb.Update_MODIFY, e))
		}
		present[e.Key] = e.Action
	}
	if err := c.write(ctx, updates); err != nil {
		return err
	}
	return c.upsert(ctx, fmt.Sprintf("multicast group %d", p4.FloodGroup), &p4pb.PacketReplicationEngineEntry{
		Type: &p4pb.PacketReplicationEngineEntry_MulticastGroupEntry{MulticastGroupEntry: &p4pb.MulticastGroupEntry{
			MulticastGroupId: p4.FloodGroup, Replicas: replicas(setup.FloodPorts),
		}},
	})
}

// replicas names ports by the older of the two fields: servers before P4Runtime 1.4 know no other, and bmv2's rejects
// port 0 in the newer one.
func replicas(ports []uint16) []*p4pb.Replica {
	var out []*p4pb.Replica
	for i, port := range ports {
		out = append(out, &p4pb.Replica{PortKind: &p4pb.Replica_EgressPort{EgressPort: uint32(port)},
			Instance: uint32(i + 1)})
	}
	return out
}

// upsert inserts an entry of the replication engine or, if it exists, modifies it. Not every target can read them
// first.
func (c *Client) upsert(ctx context.Context, what string, e *p4pb.PacketReplicationEngineEntry) error {
	entity := &p4pb.Entity{Entity: &p4pb.Entity_PacketReplicationEngineEntry{PacketReplicationEngineEntry: e}}
	name := func() string { return what }
	err := c.write(ctx, []update{{&p4pb.Update{Type: p4pb.Update_INSERT, Entity: entity}, name}})
	if refused, ok := errors.AsType[*WriteError](err); ok && refused.Failed[0].Code == codes.AlreadyExists {
		return c.write(ctx, []update{{&p4pb.Update{Type: p4pb.Update_MODIFY, Entity: entity}, name}})
	}
	return err
}

// writeMirroring sets sessions, turns and snap; the gate stays closed. Egress cuts copies to the snap; where it cannot,
// the sessions do, and count what the program puts in front of a copy.
func (c *Client) writeMirroring(ctx context.Context, setup Setup, turns []uint16) error {
	inEgress := c.info.Table(p4.TableMirrorEgress) != nil
	length := int32(0)
	if !inEgress && setup.Snap != 0 {
		length = int32(setup.Snap) + p4.CopyHeader
	}
	for i, m := range setup.Mirrors {
		err := c.upsert(ctx, fmt.Sprintf("clone session %d", i+1), &p4pb.PacketReplicationEngineEntry{
			Type: &p4pb.PacketReplicationEngineEntry_CloneSessionEntry{CloneSessionEntry: &p4pb.CloneSessionEntry{
				SessionId: uint32(i + 1), Replicas: replicas([]uint16{m.Port}), PacketLengthBytes: length,
			}},
		})
		if err != nil {
			return err
		}
	}
	var updates []update
	if inEgress {
		snap := p4.NewAction(p4.ActionNoAction)
		if setup.Snap != 0 {
			snap = p4.NewAction(p4.ActionSetSnap, uint64(setup.Snap))
		}
		updates = append(updates, c.defaultUpdate(p4.TableMirrorEgress, snap))
	}
	for turn, session := range turns {
		updates = append(updates, c.entryUpdate(p4pb.Update_INSERT, Entry{p4.TableMirrorSlot, p4.KeyOf(uint64(turn)),
			p4.NewAction(p4.ActionSelectSession, uint64(session)), -1}))
	}
	return c.write(ctx, updates)
}

// OpenGate starts mirroring.
func (c *Client) OpenGate(ctx context.Context) error {
	if c.run == nil || len(c.run.turns) == 0 {
		return fmt.Errorf("injector %q: open mirror gate: no mirrors are programmed", c.cfg.Target)
	}
	return c.gate(ctx, "open", p4.NewAction(p4.ActionOpen, uint64(len(c.run.turns))))
}

// CloseGate stops mirroring.
func (c *Client) CloseGate(ctx context.Context) error {
	return c.gate(ctx, "close", p4.NewAction(p4.ActionNoAction))
}

func (c *Client) gate(ctx context.Context, verb string, a p4.Action) error {
	if err := c.write(ctx, []update{c.defaultUpdate(p4.TableMirror, a)}); err != nil {
		return fmt.Errorf("injector %q: %s mirror gate: %w", c.cfg.Target, verb, err)
	}
	return nil
}

// Clear flushes events and mirroring, never forwarding. Connections remain: without events they do nothing, and they
// hold the epoch for the next run.
func (c *Client) Clear(ctx context.Context) error {
	tables := ownTables[:len(ownTables)-2] // connections come last
	if err := c.flush(tables)(ctx); err != nil {
		return fmt.Errorf("injector %q: clear: %w", c.cfg.Target, err)
	}
	c.run = nil
	return nil
}
