package switchd_test

import (
	"testing"

	p4pb "github.com/p4lang/p4runtime/go/p4/v1"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/anypb"

	"candela.dev/candela/injector/switchd"
)

func TestTheHighestElectionIDIsPrimary(t *testing.T) {
	r := start(t, switchd.Config{})
	a, b, c := r.open(t), r.open(t), r.open(t)
	a.bid(5)
	a.expect(codes.OK, 5)
	b.bid(3) // a backup: only b hears of it
	b.expect(codes.AlreadyExists, 5)
	c.bid(0) // an unset id never becomes primary
	c.expect(codes.AlreadyExists, 5)
	b.bid(9) // takes over
	a.expect(codes.AlreadyExists, 9)
	b.expect(codes.OK, 9)
	c.expect(codes.AlreadyExists, 9)
	b.bid(4) // steps down; a's 5 is below the highest id ever seen
	a.expect(codes.NotFound, 9)
	b.expect(codes.NotFound, 9)
	c.expect(codes.NotFound, 9)
	a.bid(9) // equal to the highest: primary
	a.expect(codes.OK, 9)
	b.expect(codes.AlreadyExists, 9)
	c.expect(codes.AlreadyExists, 9)
	if err := a.CloseSend(); err != nil { // the primary goes
		t.Fatal(err)
	}
	b.expect(codes.NotFound, 9)
	c.expect(codes.NotFound, 9)
}

func TestBadArbitrationEndsTheStream(t *testing.T) {
	id := func(low uint64) *p4pb.Uint128 { return &p4pb.Uint128{Low: low} }
	tests := []struct {
		name   string
		first  *p4pb.MasterArbitrationUpdate // accepted, if given
		update *p4pb.MasterArbitrationUpdate
		want   codes.Code
	}{
		{"an unknown device", nil, &p4pb.MasterArbitrationUpdate{DeviceId: 99, ElectionId: id(2)}, codes.NotFound},
		{"the device id of nobody", nil, &p4pb.MasterArbitrationUpdate{ElectionId: id(2)}, codes.NotFound},
		{"a role other than the default", nil,
			&p4pb.MasterArbitrationUpdate{DeviceId: device, Role: &p4pb.Role{Name: "x"}, ElectionId: id(2)},
			codes.Unimplemented},
		{"a role config", nil,
			&p4pb.MasterArbitrationUpdate{DeviceId: device, Role: &p4pb.Role{Config: &anypb.Any{}}, ElectionId: id(2)},
			codes.InvalidArgument},
		{"an election id that another controller uses", nil,
			&p4pb.MasterArbitrationUpdate{DeviceId: device, ElectionId: id(1)}, codes.InvalidArgument},
		{"another device on a live stream", &p4pb.MasterArbitrationUpdate{DeviceId: device},
			&p4pb.MasterArbitrationUpdate{DeviceId: 99}, codes.FailedPrecondition},
		{"another role on a live stream", &p4pb.MasterArbitrationUpdate{DeviceId: device},
			&p4pb.MasterArbitrationUpdate{DeviceId: device, Role: &p4pb.Role{Name: "x"}}, codes.FailedPrecondition},
		{"one controller too many", nil, &p4pb.MasterArbitrationUpdate{DeviceId: device, ElectionId: id(3)},
			codes.ResourceExhausted},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			limit := 2
			if tt.want == codes.ResourceExhausted {
				limit = 1
			}
			r := start(t, switchd.Config{MaxControllers: limit})
			r.primary(t)
			s := r.open(t)
			if tt.first != nil {
				s.arbitrate(tt.first)
				s.expect(codes.AlreadyExists, 1)
			}
			s.arbitrate(tt.update)
			s.expectEnd(tt.want)
		})
	}
}

func TestOnlyThePrimaryWrites(t *testing.T) {
	r := start(t, switchd.Config{})
	r.primary(t)
	tests := []struct {
		name string
		req  *p4pb.WriteRequest
		want codes.Code
	}{
		{"an unknown device", &p4pb.WriteRequest{DeviceId: 2, ElectionId: &p4pb.Uint128{Low: 1}}, codes.NotFound},
		{"an unknown role", &p4pb.WriteRequest{DeviceId: device, Role: "x", ElectionId: &p4pb.Uint128{Low: 1}},
			codes.NotFound},
		{"no election id", &p4pb.WriteRequest{DeviceId: device}, codes.PermissionDenied},
		{"another election id", &p4pb.WriteRequest{DeviceId: device, ElectionId: &p4pb.Uint128{Low: 2}},
			codes.PermissionDenied},
		{"no pipeline yet", &p4pb.WriteRequest{DeviceId: device, ElectionId: &p4pb.Uint128{Low: 1}},
			codes.FailedPrecondition},
	}
	for _, tt := range tests {
		if _, err := r.Write(t.Context(), tt.req); status.Code(err) != tt.want {
			t.Errorf("%s: %v, want %v", tt.name, err, tt.want)
		}
	}
	r.commit(t)
	s := r.open(t)
	s.bid(2)
	s.expect(codes.OK, 2)
	if err := r.write(t, 0, insertEvent(1)); status.Code(err) != codes.PermissionDenied {
		t.Errorf("the former primary writes: %v", err)
	}
}

func TestStreamMessagesOtherThanArbitrationAreAnswered(t *testing.T) {
	r := start(t, switchd.Config{})
	s := r.open(t)
	for _, m := range []*p4pb.StreamMessageRequest{
		{Update: &p4pb.StreamMessageRequest_Packet{Packet: &p4pb.PacketOut{}}},
		{Update: &p4pb.StreamMessageRequest_DigestAck{DigestAck: &p4pb.DigestListAck{}}},
		{},
	} {
		if err := s.Send(m); err != nil {
			t.Fatal(err)
		}
		got, err := s.Recv()
		if err != nil || got.GetError().GetCanonicalCode() != int32(codes.Unimplemented) ||
			got.GetError().GetDetails() == nil {
			t.Errorf("%v: answered %v, %v", m, got, err)
		}
	}
}

func TestCapabilitiesNameTheAPIVersion(t *testing.T) {
	r := start(t, switchd.Config{})
	resp, err := r.Capabilities(t.Context(), &p4pb.CapabilitiesRequest{})
	if err != nil || resp.GetP4RuntimeApiVersion() != switchd.APIVersion {
		t.Errorf("%v, %v", resp, err)
	}
	if _, err := r.Capabilities(t.Context(), &p4pb.CapabilitiesRequest{DeviceId: 9}); status.Code(err) != codes.NotFound {
		t.Errorf("unknown device: %v", err)
	}
}
