package switchd

import (
	"context"
	"fmt"

	p4pb "github.com/p4lang/p4runtime/go/p4/v1"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

// undoLog undoes what a batch has done so far. A nil log keeps nothing.
type undoLog []func()

func (u *undoLog) add(f func()) {
	if u != nil {
		*u = append(*u, f)
	}
}

func (u *undoLog) rollback() {
	for i := len(*u) - 1; i >= 0; i-- {
		(*u)[i]()
	}
}

// Write applies a batch (P4Runtime 12). No packet is processed within one, so ROLLBACK_ON_ERROR and DATAPLANE_ATOMIC
// are the same: all or nothing. Updates are applied in their order.
func (s *Server) Write(_ context.Context, req *p4pb.WriteRequest) (*p4pb.WriteResponse, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if err := s.authorise(req.GetDeviceId(), req.GetRole(), req.GetElectionId()); err != nil {
		return nil, err
	}
	switch {
	case s.active == nil:
		return nil, status.Error(codes.FailedPrecondition, "no forwarding pipeline config is set")
	case s.saved != nil:
		return nil, status.Error(codes.FailedPrecondition, "a saved forwarding pipeline config waits for COMMIT")
	}
	var err error
	switch req.GetAtomicity() {
	case p4pb.WriteRequest_CONTINUE_ON_ERROR:
		err = s.writeEach(req.GetUpdates())
	case p4pb.WriteRequest_ROLLBACK_ON_ERROR, p4pb.WriteRequest_DATAPLANE_ATOMIC:
		err = s.writeAll(req.GetUpdates())
	default:
		err = unimplemented("atomicity %v is not supported", req.GetAtomicity())
	}
	if err != nil {
		return nil, err
	}
	return &p4pb.WriteResponse{}, nil
}

// writeEach applies every update, whatever becomes of the others.
func (s *Server) writeEach(updates []*p4pb.Update) error {
	var outcomes []error // allocated at the first failure: most batches have none
	for i, u := range updates {
		if err := s.apply(u, nil); err != nil {
			if outcomes == nil {
				outcomes = make([]error, len(updates))
			}
			outcomes[i] = err
		}
	}
	return batchError("write: some updates failed", outcomes)
}

// writeAll applies all updates or none.
func (s *Server) writeAll(updates []*p4pb.Update) error {
	var undo undoLog
	for i, u := range updates {
		err := s.apply(u, &undo)
		if err == nil {
			continue
		}
		undo.rollback()
		outcomes := make([]error, len(updates))
		for j := range outcomes {
			outcomes[j] = status.Errorf(codes.Aborted, "not applied because update %d failed", i)
		}
		outcomes[i] = err
		return batchError(fmt.Sprintf("write: update %d failed, the batch was rolled back", i), outcomes)
	}
	return nil
}

// apply applies one update. Its errors are gRPC statuses; on error nothing has changed.
func (s *Server) apply(u *p4pb.Update, undo *undoLog) error {
	switch u.GetType() {
	case p4pb.Update_INSERT, p4pb.Update_MODIFY, p4pb.Update_DELETE:
	default:
		return invalid("update type %v", u.GetType())
	}
	switch e := u.GetEntity().GetEntity().(type) {
	case *p4pb.Entity_TableEntry:
		return s.writeTable(u.GetType(), e.TableEntry, undo)
	case *p4pb.Entity_DirectCounterEntry:
		return s.writeDirectCounter(u.GetType(), e.DirectCounterEntry, undo)
	case *p4pb.Entity_CounterEntry:
		return s.writeCounter(u.GetType(), e.CounterEntry, undo)
	case *p4pb.Entity_PacketReplicationEngineEntry:
		return s.writeReplication(u.GetType(), e.PacketReplicationEngineEntry, undo)
	case nil:
		return invalid("the update has no entity")
	default:
		return unimplemented("entities of type %T are not served", e)
	}
}
