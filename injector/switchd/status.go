package switchd

import (
	p4pb "github.com/p4lang/p4runtime/go/p4/v1"
	rpcstatus "google.golang.org/genproto/googleapis/rpc/status"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/anypb"
)

// errorSpace is the space of our p4.v1.Error messages: target-architecture-vendor.
const errorSpace = "switchd-v1model-candela"

func invalid(format string, args ...any) error {
	return status.Errorf(codes.InvalidArgument, format, args...)
}

func unimplemented(format string, args ...any) error {
	return status.Errorf(codes.Unimplemented, format, args...)
}

func (s *Server) unknownDevice(id uint64) error {
	return status.Errorf(codes.NotFound, "device %d: this server has device %d", id, s.cfg.DeviceID)
}

// batchError reports the outcomes of a batch, nil for success, as the specification requires: UNKNOWN, with one
// p4.v1.Error per element in order (P4Runtime 12.3). It returns nil if all succeeded.
func batchError(what string, outcomes []error) error {
	failed := 0
	for _, err := range outcomes {
		if err != nil {
			failed++
		}
	}
	if failed == 0 {
		return nil
	}
	st := &rpcstatus.Status{Code: int32(codes.Unknown), Message: what}
	for _, err := range outcomes {
		detail := &p4pb.Error{}
		if err != nil {
			sub, _ := status.FromError(err)
			detail = &p4pb.Error{CanonicalCode: int32(sub.Code()), Message: sub.Message(), Space: errorSpace}
		}
		packed, err := anypb.New(detail)
		if err != nil {
			return status.Errorf(codes.Internal, "pack error details: %v", err)
		}
		st.Details = append(st.Details, packed)
	}
	return status.ErrorProto(st)
}
