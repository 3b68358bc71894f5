package injector

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"

	p4pb "github.com/p4lang/p4runtime/go/p4/v1"
	"golang.org/x/sync/errgroup"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"candela.dev/candela/injector/p4"
)

// update is one change of the target, with what errors call it.
type update struct {
	pb   *p4pb.Update
	what func() string
}

// FailedUpdate is an update that the target refused.
type FailedUpdate struct {
	What    string // e.g. "event entry (flow 0 space 0 psn 1005 iter 1)"
	Code    codes.Code
	Message string
}

// WriteError says which updates of a batch the target refused. The others of the batch were applied.
type WriteError struct {
	Failed []FailedUpdate
	Total  int // updates in the batch
}

// Error names the first refused update and counts the others; %v of Failed has them all.
func (e *WriteError) Error() string {
	f := e.Failed[0]
	s := fmt.Sprintf("%s: %v: %s", f.What, f.Code, f.Message)
	if more := len(e.Failed) - 1; more > 0 {
		s += fmt.Sprintf(" (and %d more of %d updates)", more, e.Total)
	}
	return s
}

// inFlight is how many batches may be in flight: while the target decodes one, the next is encoded.
const inFlight = 2

// write sends updates in bounded batches. Updates of one call must not depend on each other's order.
func (c *Client) write(ctx context.Context, updates []update) error {
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(inFlight)
	for batch := range slices.Chunk(updates, c.cfg.Batch) {
		group.Go(func() error { return c.writeBatch(ctx, batch) })
	}
	return group.Wait()
}

func (c *Client) writeBatch(ctx context.Context, batch []update) error {
	req := &p4pb.WriteRequest{DeviceId: c.cfg.DeviceID, ElectionId: c.election()}
	for _, u := range batch {
		req.Updates = append(req.Updates, u.pb)
	}
	return c.limited(ctx, func(ctx context.Context) error {
		_, err := c.rpc.Write(ctx, req)
		return batchFailure(err, batch)
	})
}

// batchFailure turns the UNKNOWN status of a failed batch into a WriteError, from the p4.v1.Error messages in it. It
// returns other errors unchanged.
func batchFailure(err error, batch []update) error {
	st, ok := status.FromError(err)
	if err == nil || !ok || st.Code() != codes.Unknown {
		return err
	}
	out := &WriteError{Total: len(batch)}
	for i, d := range st.Details() {
		e, ok := d.(*p4pb.Error)
		if !ok || e.GetCanonicalCode() == int32(codes.OK) || i >= len(batch) {
			continue
		}
		out.Failed = append(out.Failed, FailedUpdate{batch[i].what(), codes.Code(e.GetCanonicalCode()), e.GetMessage()})
	}
	if len(out.Failed) == 0 {
		return err
	}
	return out
}

// read returns all entities that requests select.
func (c *Client) read(ctx context.Context, requests ...*p4pb.Entity) ([]*p4pb.Entity, error) {
	var out []*p4pb.Entity
	err := c.limited(ctx, func(ctx context.Context) error {
		stream, err := c.rpc.Read(ctx, &p4pb.ReadRequest{DeviceId: c.cfg.DeviceID, Entities: requests})
		if err != nil {
			return err
		}
		for {
			resp, err := stream.Recv()
			switch {
			case errors.Is(err, io.EOF):
				return nil
			case err != nil:
				return readFailure(err)
			}
			out = append(out, resp.GetEntities()...)
		}
	})
	return out, err
}

// readFailure shows the first detail of a failed batch of reads.
func readFailure(err error) error {
	for _, d := range status.Convert(err).Details() {
		if e, ok := d.(*p4pb.Error); ok && e.GetCanonicalCode() != int32(codes.OK) {
			return fmt.Errorf("%v: %s: %w", codes.Code(e.GetCanonicalCode()), e.GetMessage(), err)
		}
	}
	return err
}

// readTable returns the entries of a table, with direct counters if asked for.
func (c *Client) readTable(ctx context.Context, table uint32, counters bool) ([]*p4pb.TableEntry, error) {
	return c.readTables(ctx, []uint32{table}, counters)
}

// readTables returns the entries of tables, table by table, for one round trip.
func (c *Client) readTables(ctx context.Context, tables []uint32, counters bool) ([]*p4pb.TableEntry, error) {
	requests := make([]*p4pb.Entity, len(tables))
	for i, id := range tables {
		te := &p4pb.TableEntry{TableId: id}
		if counters {
			te.CounterData = &p4pb.CounterData{}
		}
		requests[i] = tableEntity(te)
	}
	entities, err := c.read(ctx, requests...)
	if err != nil {
		names := make([]string, len(tables))
		for i, id := range tables {
			names[i] = tableName(id)
		}
		return nil, fmt.Errorf("read %s table: %w", strings.Join(names, ", "), err)
	}
	var out []*p4pb.TableEntry
	for _, id := range tables {
		for _, e := range entities {
			if te := e.GetTableEntry(); te != nil && te.GetTableId() == id && !te.GetIsDefaultAction() {
				out = append(out, te)
			}
		}
	}
	return out, nil
}

func tableEntity(te *p4pb.TableEntry) *p4pb.Entity {
	return &p4pb.Entity{Entity: &p4pb.Entity_TableEntry{TableEntry: te}}
}

// tableName returns the contract's name of a table.
func tableName(id uint32) string {
	if t := p4.Base().Table(id); t != nil {
		return t.Name
	}
	return fmt.Sprint(id)
}

// entryUpdate returns the update of one entry.
func (c *Client) entryUpdate(op p4pb.Update_Type, e Entry) update {
	te := &p4pb.TableEntry{TableId: e.Table, Match: c.info.Table(e.Table).Match(e.Key)}
	if op != p4pb.Update_DELETE {
		te.Action = c.info.Table(e.Table).Action(e.Action)
	}
	return update{&p4pb.Update{Type: op, Entity: tableEntity(te)}, e.describe}
}

// describe names the entry with its key, for errors.
func (e Entry) describe() string {
	t := p4.Base().Table(e.Table)
	var b strings.Builder
	fmt.Fprintf(&b, "%s entry (", t.Name)
	for i, f := range t.Fields {
		if i > 0 {
			b.WriteByte(' ')
		}
		b.WriteString(f.Name + " " + formatValue(f, e.Key[i]))
	}
	b.WriteByte(')')
	return b.String()
}

// defaultUpdate returns the update of a default action.
func (c *Client) defaultUpdate(table uint32, a p4.Action) update {
	return update{
		&p4pb.Update{Type: p4pb.Update_MODIFY, Entity: tableEntity(&p4pb.TableEntry{TableId: table, IsDefaultAction: true,
			Action: c.info.Table(table).Action(a)})},
		func() string { return tableName(table) + " default action" },
	}
}
