package switchd

import (
	"testing"
	"testing/synctest"
	"time"

	p4pb "github.com/p4lang/p4runtime/go/p4/v1"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"candela.dev/candela/injector/p4"
)

// leased returns a server whose primary has programmed an event and forwarding and opened the gate.
func leased(t *testing.T) (*Server, *controller) {
	t.Helper()
	s := fuzzServer(t)
	s.cfg.Lease = 30 * time.Second
	c := s.arb.primary
	c.joined, c.out = true, make(chan *p4pb.StreamMessageResponse, outgoing)
	s.arb.controllers = []*controller{c}
	for _, te := range []*p4pb.TableEntry{
		{TableId: p4.TableEvent, Match: p4.Base().Table(p4.TableEvent).Match(p4.KeyOf(0, 0, 1, 1)),
			Action: p4.Base().TableAction(p4.NewAction(p4.ActionDrop))},
		{TableId: p4.TableL2Forward, Match: p4.Base().Table(p4.TableL2Forward).Match(p4.KeyOf(1)),
			Action: p4.Base().TableAction(p4.NewAction(p4.ActionForward, 1))},
	} {
		if err := s.writeTable(p4pb.Update_INSERT, te, nil); err != nil {
			t.Fatal(err)
		}
	}
	open := &p4pb.TableEntry{TableId: p4.TableMirror, IsDefaultAction: true,
		Action: p4.Base().TableAction(p4.NewAction(p4.ActionOpen, 1))}
	if err := s.writeTable(p4pb.Update_MODIFY, open, nil); err != nil {
		t.Fatal(err)
	}
	return s, c
}

// state reports what is programmed: events, forwarding entries, and whether the gate is open.
func (s *Server) state() (events, forwarding int, open bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.tables[p4.TableEvent].entries), len(s.tables[p4.TableL2Forward].entries),
		s.tables[p4.TableMirror].def.action.ID == p4.ActionOpen
}

func TestTheLeaseFlushesInjectionButNotForwarding(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, c := leased(t)
		s.leave(c)
		time.Sleep(30*time.Second - 1)
		synctest.Wait()
		if events, _, open := s.state(); events != 1 || !open {
			t.Error("flushed before the lease was over")
		}
		time.Sleep(2 * time.Nanosecond)
		synctest.Wait()
		if events, forwarding, open := s.state(); events != 0 || open || forwarding != 1 {
			t.Errorf("after the lease: %d events, gate open %t, %d forwarding entries", events, open, forwarding)
		}
	})
}

func TestAPrimaryThatComesBackKeepsTheLease(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, c := leased(t)
		s.leave(c)
		time.Sleep(29 * time.Second)
		back := &controller{out: make(chan *p4pb.StreamMessageResponse, outgoing)}
		err := s.arbitrate(back, &p4pb.MasterArbitrationUpdate{DeviceId: 1, ElectionId: &p4pb.Uint128{Low: 2}})
		if err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Minute)
		synctest.Wait()
		if events, _, open := s.state(); events != 1 || !open {
			t.Error("flushed under a live primary")
		}
	})
}

func TestAControllerWhoseStreamHasEndedIsNotLetIn(t *testing.T) {
	s := fuzzServer(t)
	c := &controller{out: make(chan *p4pb.StreamMessageResponse, outgoing)}
	s.leave(c) // the handler returned while its last update waited for the lock
	err := s.arbitrate(c, &p4pb.MasterArbitrationUpdate{DeviceId: 1, ElectionId: &p4pb.Uint128{Low: 9}})
	if status.Code(err) != codes.Canceled || len(s.arb.controllers) != 0 {
		t.Errorf("got %v, %d controllers are live", err, len(s.arb.controllers))
	}
}
