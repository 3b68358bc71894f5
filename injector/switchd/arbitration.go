package switchd

import (
	"cmp"
	"errors"
	"io"
	"slices"
	"time"

	p4pb "github.com/p4lang/p4runtime/go/p4/v1"
	rpcstatus "google.golang.org/genproto/googleapis/rpc/status"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

// electionID is a 128-bit election id.
type electionID struct{ high, low uint64 }

func electionOf(id *p4pb.Uint128) *electionID {
	if id == nil {
		return nil
	}
	return &electionID{id.GetHigh(), id.GetLow()}
}

func (e electionID) compare(f electionID) int {
	return cmp.Or(cmp.Compare(e.high, f.high), cmp.Compare(e.low, f.low))
}

// controller is one open stream.
type controller struct {
	joined   bool // its first arbitration update was accepted
	left     bool // its stream has ended
	election *electionID
	out      chan *p4pb.StreamMessageResponse
	overrun  chan struct{} // closed when out was full
}

// arbiter selects the primary (P4Runtime 5.3 and 5.4). The server's lock guards it: a change of primary waits for
// writes in flight, and no write of the old primary starts after it.
type arbiter struct {
	controllers []*controller // joined, in order
	primary     *controller
	highest     *electionID // ever seen of a primary
}

// outgoing is how many unread messages a stream may have; a client that reads none is disconnected.
const outgoing = 64

func (c *controller) send(m *p4pb.StreamMessageResponse) {
	select {
	case c.out <- m:
	default:
		select {
		case <-c.overrun:
		default:
			close(c.overrun)
		}
	}
}

// StreamChannel serves one controller's session until either side ends it.
func (s *Server) StreamChannel(stream p4pb.P4Runtime_StreamChannelServer) error {
	c := &controller{out: make(chan *p4pb.StreamMessageResponse, outgoing), overrun: make(chan struct{})}
	defer s.leave(c)
	received := make(chan error, 1)
	s.wg.Go(func() { received <- s.receive(stream, c) })
	for {
		select {
		case m := <-c.out:
			if err := stream.Send(m); err != nil {
				return err
			}
		case err := <-received:
			return err
		case <-c.overrun:
			return status.Error(codes.ResourceExhausted, "the client does not read its notifications")
		case <-s.stopping:
			return status.Error(codes.Unavailable, "the server is stopping")
		}
	}
}

// receive handles what a controller sends. Its error ends the stream.
func (s *Server) receive(stream p4pb.P4Runtime_StreamChannelServer, c *controller) error {
	for {
		m, err := stream.Recv()
		switch {
		case errors.Is(err, io.EOF):
			return nil
		case err != nil:
			return err
		}
		switch update := m.GetUpdate().(type) {
		case *p4pb.StreamMessageRequest_Arbitration:
			if err := s.arbitrate(c, update.Arbitration); err != nil {
				return err
			}
		case *p4pb.StreamMessageRequest_Packet:
			s.refuse(c, &p4pb.StreamError{Details: &p4pb.StreamError_PacketOut{PacketOut: &p4pb.PacketOutError{}}})
		case *p4pb.StreamMessageRequest_DigestAck:
			s.refuse(c, &p4pb.StreamError{Details: &p4pb.StreamError_DigestListAck{DigestListAck: &p4pb.DigestListAckError{}}})
		default:
			s.refuse(c, &p4pb.StreamError{Details: &p4pb.StreamError_Other{Other: &p4pb.StreamOtherError{}}})
		}
	}
}

func (s *Server) refuse(c *controller, e *p4pb.StreamError) {
	e.CanonicalCode, e.Space = int32(codes.Unimplemented), errorSpace
	e.Message = "this server serves arbitration only on streams"
	c.send(&p4pb.StreamMessageResponse{Update: &p4pb.StreamMessageResponse_Error{Error: e}})
}

// arbitrate handles one MasterArbitrationUpdate; an error terminates the stream.
func (s *Server) arbitrate(c *controller, m *p4pb.MasterArbitrationUpdate) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if c.left { // the stream ended while we waited for the lock
		return status.Error(codes.Canceled, "the stream has ended")
	}
	if err := s.checkArbitration(c, m); err != nil {
		return err
	}
	election := electionOf(m.GetElectionId())
	if election != nil && slices.ContainsFunc(s.arb.controllers, func(o *controller) bool {
		return o != c && o.election != nil && *o.election == *election
	}) {
		return invalid("election id %d.%d is used by another live controller", election.high, election.low)
	}
	if !c.joined {
		if len(s.arb.controllers) >= s.cfg.MaxControllers {
			return status.Errorf(codes.ResourceExhausted, "%d controllers are connected, no more are served",
				s.cfg.MaxControllers)
		}
		c.joined = true
		s.arb.controllers = append(s.arb.controllers, c)
	}
	c.election = election
	s.elect(c)
	return nil
}

func (s *Server) checkArbitration(c *controller, m *p4pb.MasterArbitrationUpdate) error {
	switch {
	case m.GetDeviceId() != s.cfg.DeviceID && c.joined:
		return status.Errorf(codes.FailedPrecondition, "this stream is for device %d", s.cfg.DeviceID)
	case m.GetDeviceId() != s.cfg.DeviceID:
		return s.unknownDevice(m.GetDeviceId())
	case m.GetRole().GetName() != "" && c.joined:
		return status.Error(codes.FailedPrecondition, "this stream is for the default role")
	case m.GetRole().GetName() != "":
		return unimplemented("role %q: only the default role is served", m.GetRole().GetName())
	case m.GetRole().GetConfig() != nil:
		return invalid("the default role takes no config")
	}
	return nil
}

// elect selects the primary after c's election id was set, and notifies the clients affected.
func (s *Server) elect(c *controller) {
	a := &s.arb
	switch {
	case c.election != nil && (a.highest == nil || c.election.compare(*a.highest) >= 0):
		a.primary, a.highest = c, c.election
		s.stopLeaseLocked()
	case a.primary == c:
		a.primary = nil
		s.startLease()
	default:
		s.notify(c)
		return
	}
	for _, o := range a.controllers {
		if o != a.primary {
			s.notify(o)
		}
	}
	if a.primary != nil {
		s.notify(a.primary)
	}
}

// leave ends c's session.
func (s *Server) leave(c *controller) {
	s.mu.Lock()
	defer s.mu.Unlock()
	c.left = true
	a := &s.arb
	a.controllers = slices.DeleteFunc(a.controllers, func(o *controller) bool { return o == c })
	if a.primary != c {
		return
	}
	a.primary = nil
	s.startLease()
	for _, o := range a.controllers {
		s.notify(o)
	}
}

// notify sends c the current primary.
func (s *Server) notify(c *controller) {
	m := &p4pb.MasterArbitrationUpdate{DeviceId: s.cfg.DeviceID, Status: &rpcstatus.Status{}}
	if h := s.arb.highest; h != nil {
		m.ElectionId = &p4pb.Uint128{High: h.high, Low: h.low}
	}
	switch s.arb.primary {
	case c:
		m.Status.Message = "you are primary"
	case nil:
		m.Status.Code, m.Status.Message = int32(codes.NotFound), "there is no primary"
	default:
		m.Status.Code, m.Status.Message = int32(codes.AlreadyExists), "another controller is primary"
	}
	c.send(&p4pb.StreamMessageResponse{Update: &p4pb.StreamMessageResponse_Arbitration{Arbitration: m}})
}

// authorise checks that a request comes from the primary, in the order that the specification prescribes.
func (s *Server) authorise(device uint64, role string, id *p4pb.Uint128) error {
	if device != s.cfg.DeviceID {
		return s.unknownDevice(device)
	}
	if role != "" {
		return status.Errorf(codes.NotFound, "role %q: only the default role is served", role)
	}
	election := electionOf(id)
	if p := s.arb.primary; p == nil || election == nil || *election != *p.election {
		return status.Error(codes.PermissionDenied, "only the primary controller may change the device")
	}
	return nil
}

// startLease arms the flush of events and mirroring for when no primary comes back.
func (s *Server) startLease() {
	if s.cfg.Lease <= 0 {
		return
	}
	s.stopLeaseLocked()
	var timer *time.Timer
	timer = time.AfterFunc(s.cfg.Lease, func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		if s.lease == timer { // not stopped while we waited for the lock
			s.lease = nil
			s.flushInjection()
		}
	})
	s.lease = timer
}

func (s *Server) stopLeaseLocked() {
	if s.lease != nil {
		s.lease.Stop()
		s.lease = nil
	}
}

func (s *Server) stopLease() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.stopLeaseLocked()
}
