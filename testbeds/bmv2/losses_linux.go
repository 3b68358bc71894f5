package bmv2

import (
	"context"
	"errors"
	"io"

	p4pb "github.com/p4lang/p4runtime/go/p4/v1"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"candela.dev/candela/injector/p4"
	injectorpb "candela.dev/candela/proto/injector/v1"
)

// losses asks bmv2 what it has lost. It has no counter for packets that found an egress queue full, and a trace, taken
// before that queue, shows them as delivered. But every RoCE packet from a host is either dropped by an event, which
// counts a hit, or sent, which egress counts: what is missing was lost. Floods, of which one packet makes several, hide
// losses.
type losses struct {
	conn       grpc.ClientConnInterface
	device     uint64
	ports      int // towards hosts
	interfaces []string
}

// read returns the losses since bmv2 started, all of them for the first port, as nobody knows which queue was full.
func (l *losses) read(ctx context.Context) ([]*injectorpb.PortLosses, error) {
	list := make([]*injectorpb.PortLosses, len(l.interfaces))
	for i, name := range l.interfaces {
		list[i] = &injectorpb.PortLosses{Port: uint32(i), Interface: name}
	}
	entities, err := l.ask(ctx)
	if status.Code(err) == codes.FailedPrecondition {
		return list, nil // no pipeline yet, so no packets
	}
	if err != nil {
		return nil, err
	}
	var received, done uint64
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
	if received > done {
		list[0].Unsent = received - done
	}
	return list, nil
}

// ask reads the counters of all hosts' ports, and the entries of the event tables with their hits.
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
