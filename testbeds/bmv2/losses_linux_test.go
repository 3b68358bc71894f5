package bmv2

import (
	"context"
	"io"
	"testing"

	p4pb "github.com/p4lang/p4runtime/go/p4/v1"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"candela.dev/candela/injector/p4"
)

// counted is a fake bmv2 that answers reads with its counters, or with the error that it has no pipeline.
type counted struct {
	grpc.ClientConnInterface
	grpc.ClientStream
	received, sent, dropped int64
	bare, answered          bool
	flowing                 int64 // packets that enter and leave between two readings
}

func (c *counted) NewStream(context.Context, *grpc.StreamDesc, string, ...grpc.CallOption) (grpc.ClientStream, error) {
	c.answered = false
	return c, nil
}

func (c *counted) SendMsg(any) error { return nil }
func (c *counted) CloseSend() error  { return nil }

func (c *counted) RecvMsg(m any) error {
	switch {
	case c.bare:
		return status.Error(codes.FailedPrecondition, "no forwarding pipeline config set for this device")
	case c.answered:
		return io.EOF
	}
	c.answered = true
	c.received, c.sent = c.received+c.flowing, c.sent+c.flowing
	data := func(n int64) *p4pb.CounterData { return &p4pb.CounterData{PacketCount: n} }
	counter := func(id uint32, n int64) *p4pb.Entity {
		return &p4pb.Entity{Entity: &p4pb.Entity_CounterEntry{CounterEntry: &p4pb.CounterEntry{CounterId: id, Data: data(n)}}}
	}
	drop := &p4pb.TableAction{Type: &p4pb.TableAction_Action{Action: &p4pb.Action{ActionId: p4.ActionDrop}}}
	m.(*p4pb.ReadResponse).Entities = []*p4pb.Entity{
		counter(p4.CounterRoCERx, c.received), counter(p4.CounterRoCETx, c.sent),
		{Entity: &p4pb.Entity_TableEntry{TableEntry: &p4pb.TableEntry{Action: drop, CounterData: data(c.dropped)}}},
	}
	return nil
}

func TestLossesOfARunAreCountedWhateverWasBefore(t *testing.T) {
	type reading struct{ received, sent, dropped int64 }
	none := reading{-1, 0, 0} // no pipeline
	for _, tt := range []struct {
		name          string
		before, after reading
		want          uint64
	}{
		{"nothing lost", reading{10, 8, 2}, reading{30, 27, 3}, 0},
		{"two lost", reading{10, 10, 0}, reading{30, 27, 1}, 2},
		{"a packet before was flooded to three hosts", reading{10, 12, 0}, reading{30, 31, 0}, 1},
		{"losses before, and the counters start anew", reading{10, 5, 0}, reading{20, 20, 0}, 0},
		{"losses before, and no pipeline any more", reading{10, 5, 0}, none, 0},
		{"no pipeline before", none, reading{10, 9, 0}, 1},
	} {
		t.Run(tt.name, func(t *testing.T) {
			sw := &counted{}
			l := losses{conn: sw, ports: 2, interfaces: []string{"a", "b"}}
			total := func(r reading) uint64 {
				sw.received, sw.sent, sw.dropped, sw.bare = r.received, r.sent, r.dropped, r == none
				list, err := l.read(t.Context())
				if err != nil || len(list) != 2 {
					t.Fatal(list, err)
				}
				return list[0].Unsent
			}
			before := total(tt.before)
			if got := total(tt.after) - before; got != tt.want {
				t.Errorf("%d packets lost, want %d", int64(got), tt.want)
			}
		})
	}
}

// Liveness checks read the losses during a run, when packets are inside the switch.
func TestPacketsOnTheirWayAreNotLost(t *testing.T) {
	sw := &counted{received: 10, sent: 10}
	l := losses{conn: sw, ports: 1, interfaces: []string{"a"}}
	lost := func() uint64 {
		list, err := l.read(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		return list[0].Unsent
	}
	before := lost()
	sw.received, sw.flowing = sw.received+4, 1 // four are in a queue
	if during := lost(); during != before {
		t.Errorf("%d packets are said to be lost while they are on their way", during-before)
	}
	sw.sent, sw.flowing = sw.sent+3, 0
	if after := lost(); after-before != 1 {
		t.Errorf("%d packets lost, want 1", after-before)
	}
}
