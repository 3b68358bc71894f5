package bmv2

import (
	"context"
	"errors"
	"io"
	"sync"
	"time"

	p4pb "github.com/p4lang/p4runtime/go/p4/v1"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"candela.dev/candela/injector/p4"
	injectorpb "candela.dev/candela/proto/injector/v1"
)

// losses derives bmv2's packet losses from its counters. bmv2 has no counter for packets dropped at a full egress
// queue, and a trace, taken before that queue, shows them as delivered. But every RoCE packet from a host is either
// dropped by an event, which counts a hit, or sent, which egress counts; the difference was lost. Flooding makes
// several packets of one and hides losses until the next reading.
type losses struct {
	conn       grpc.ClientConnInterface
	device     uint64
	ports      int // towards hosts
	interfaces []string

	mu    sync.Mutex
	tally tally
}

// A tally adds up the increases of the missing packets between readings, so it never decreases: the losses of a run are
// the difference of two values. An excess, from flooding or from counters that restart, does not offset later losses.
type tally struct {
	lost    uint64
	missing int64 // at the latest reading
}

// add records a reading at which bmv2 holds no packets.
func (t *tally) add(received, done uint64) {
	missing := int64(received - done)
	t.lost += uint64(max(0, missing-t.missing))
	t.missing = missing
}

// read returns the losses since bmv2 started. All are attributed to the first port, because the full queue is unknown.
func (l *losses) read(ctx context.Context) ([]*injectorpb.PortLosses, error) {
	list := make([]*injectorpb.PortLosses, len(l.interfaces))
	for i, name := range l.interfaces {
		list[i] = &injectorpb.PortLosses{Port: uint32(i), Interface: name}
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	received, done, err := l.count(ctx)
	if err != nil {
		return nil, err
	}
	select {
	case <-time.After(pause):
	case <-ctx.Done():
		return nil, status.FromContextError(ctx.Err()).Err()
	}
	receivedThen, doneThen, err := l.count(ctx)
	if err != nil {
		return nil, err
	}
	if received == receivedThen && done == doneThen {
		l.tally.add(received, done)
	}
	list[0].Unsent = l.tally.lost
	return list, nil
}

// pause is how long all counters must stand still. While packets pass, the packets held by bmv2 look lost, and the
// reading is also used as a liveness check during a run.
const pause = 10 * time.Millisecond

// count reads how many packets came from hosts, and how many were sent to hosts or dropped by events.
func (l *losses) count(ctx context.Context) (received, done uint64, err error) {
	entities, err := l.ask(ctx)
	if err != nil && status.Code(err) != codes.FailedPrecondition { // no pipeline, so no packets
		return 0, 0, err
	}
	received, done = sum(entities)
	return received, done, nil
}

func sum(entities []*p4pb.Entity) (received, done uint64) {
	for _, e := range entities {
		switch {
		case e.GetCounterEntry().GetCounterId() == p4.CounterRoCERx:
			received += uint64(e.GetCounterEntry().GetData().GetPacketCount())
		case e.GetCounterEntry().GetCounterId() == p4.CounterRoCETx:
			done += uint64(e.GetCounterEntry().GetData().GetPacketCount())
		case e.GetTableEntry().GetAction().GetAction().GetActionId() == p4.ActionDrop:
			done += uint64(e.GetTableEntry().GetCounterData().GetPacketCount())
		}
	}
	return received, done
}

// ask reads the counters of all host ports, and the entries of the event tables with their hits.
func (l *losses) ask(ctx context.Context) (entities []*p4pb.Entity, err error) {
	request := &p4pb.ReadRequest{DeviceId: l.device}
	for _, id := range []uint32{p4.CounterRoCERx, p4.CounterRoCETx} {
		for port := range l.ports {
			request.Entities = append(request.Entities, &p4pb.Entity{Entity: &p4pb.Entity_CounterEntry{
				CounterEntry: &p4pb.CounterEntry{CounterId: id, Index: &p4pb.Index{Index: int64(port)}}}})
		}
	}
	for _, id := range []uint32{p4.TableEvent, p4.TableEventAny, p4.TableControlEvent, p4.TableWatchedEvent} {
		request.Entities = append(request.Entities, &p4pb.Entity{Entity: &p4pb.Entity_TableEntry{
			TableEntry: &p4pb.TableEntry{TableId: id, CounterData: &p4pb.CounterData{}}}})
	}
	stream, err := p4pb.NewP4RuntimeClient(l.conn).Read(ctx, request, grpc.MaxCallRecvMsgSize(largest))
	if err != nil {
		return nil, err
	}
	for {
		answer, err := stream.Recv()
		switch {
		case errors.Is(err, io.EOF):
			return entities, nil
		case err != nil:
			return nil, err
		}
		entities = append(entities, answer.GetEntities()...)
	}
}
