package injector_test

import (
	"context"
	"errors"
	"net"
	"strings"
	"testing"

	p4pb "github.com/p4lang/p4runtime/go/p4/v1"
	statuspb "google.golang.org/genproto/googleapis/rpc/status"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/status"
	"google.golang.org/grpc/test/bufconn"

	"candela.dev/candela/injector"
	"candela.dev/candela/injector/p4"
)

// keeper is a target that keeps its clone sessions and groups through a push, as bmv2 does.
type keeper struct {
	p4pb.UnimplementedP4RuntimeServer
	config   *p4pb.ForwardingPipelineConfig
	sessions map[uint32]bool
	group    bool
	stale    int        // sessions and groups that a push left over
	refusal  codes.Code // of every deletion
}

func (k *keeper) StreamChannel(stream p4pb.P4Runtime_StreamChannelServer) error {
	if _, err := stream.Recv(); err != nil {
		return err
	}
	answer := &p4pb.MasterArbitrationUpdate{Status: &statuspb.Status{Code: int32(codes.OK)}}
	if err := stream.Send(
		&p4pb.StreamMessageResponse{Update: &p4pb.StreamMessageResponse_Arbitration{Arbitration: answer}}); err != nil {
		return err
	}
	_, _ = stream.Recv() // until the client ends the stream
	return nil
}

func (k *keeper) SetForwardingPipelineConfig(_ context.Context,
	r *p4pb.SetForwardingPipelineConfigRequest) (*p4pb.SetForwardingPipelineConfigResponse, error) {
	k.stale = len(k.sessions)
	if k.group {
		k.stale++
	}
	k.config = r.GetConfig()
	return &p4pb.SetForwardingPipelineConfigResponse{}, nil
}

func (k *keeper) GetForwardingPipelineConfig(context.Context,
	*p4pb.GetForwardingPipelineConfigRequest) (*p4pb.GetForwardingPipelineConfigResponse, error) {
	return &p4pb.GetForwardingPipelineConfigResponse{Config: k.config}, nil
}

// Write deletes sessions and the group; a failure has one detail for each update, as P4Runtime requires.
func (k *keeper) Write(_ context.Context, r *p4pb.WriteRequest) (*p4pb.WriteResponse, error) {
	e := r.GetUpdates()[0].GetEntity().GetPacketReplicationEngineEntry()
	id, code := e.GetCloneSessionEntry().GetSessionId(), k.refusal
	switch {
	case code != codes.OK:
	case id != 0 && !k.sessions[id], id == 0 && !k.group:
		code = codes.NotFound
	case id != 0:
		delete(k.sessions, id)
	default:
		k.group = false
	}
	if code == codes.OK {
		return &p4pb.WriteResponse{}, nil
	}
	st, err := status.New(codes.Unknown, "failed").WithDetails(&p4pb.Error{CanonicalCode: int32(code), Message: "no"})
	if err != nil {
		return nil, err
	}
	return nil, st.Err()
}

func connectKeeper(t *testing.T, k *keeper) error {
	t.Helper()
	lis := bufconn.Listen(1 << 20)
	server := grpc.NewServer()
	p4pb.RegisterP4RuntimeServer(server, k)
	served := make(chan struct{})
	go func() { defer close(served); _ = server.Serve(lis) }()
	conn, err := grpc.NewClient("passthrough:///bufconn", grpc.WithTransportCredentials(insecure.NewCredentials()),
		grpc.WithContextDialer(func(ctx context.Context, _ string) (net.Conn, error) { return lis.DialContext(ctx) }))
	if err != nil {
		t.Fatal(err)
	}
	defer func() { conn.Close(); server.Stop(); <-served }()
	c, err := injector.Connect(t.Context(), conn,
		injector.Config{Target: "keeper", DeviceID: deviceID, Pipeline: injector.Pipeline{Info: p4.Base()}})
	if err == nil {
		c.Close()
	}
	return err
}

func TestNothingThatCopiesPacketsOutlivesAPush(t *testing.T) {
	running := &p4pb.ForwardingPipelineConfig{P4Info: p4.Base().Proto(),
		Cookie: &p4pb.ForwardingPipelineConfig_Cookie{Cookie: 1}}
	for _, tt := range []struct {
		name    string
		keeper  keeper
		refused bool
	}{
		{"two sessions and a group", keeper{config: running, sessions: map[uint32]bool{1: true, 2: true}, group: true},
			false},
		{"a group", keeper{config: running, group: true}, false},
		{"nothing", keeper{config: running}, false},
		{"no pipeline yet", keeper{refusal: codes.FailedPrecondition}, false},
		{"a switch that deletes none",
			keeper{config: running, sessions: map[uint32]bool{1: true}, refusal: codes.Unimplemented}, true},
	} {
		t.Run(tt.name, func(t *testing.T) {
			err := connectKeeper(t, &tt.keeper)
			switch {
			case tt.refused && (!errors.Is(err, injector.ErrRestart) || !strings.Contains(err.Error(), "clone session 1") ||
				tt.keeper.config != running):
				t.Errorf("error %v; want one that says to restart the switch, and no push", err)
			case !tt.refused && (err != nil || tt.keeper.stale != 0 || tt.keeper.config == running):
				t.Errorf("error %v, %d sessions and groups were left when the pipeline was pushed", err, tt.keeper.stale)
			}
		})
	}
}
