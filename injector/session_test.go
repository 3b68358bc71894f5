package injector_test

import (
	"context"
	"net"
	"strings"
	"testing"
	"time"

	p4pb "github.com/p4lang/p4runtime/go/p4/v1"
	"google.golang.org/genproto/googleapis/rpc/status"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/test/bufconn"

	"candela.dev/candela/injector"
	"candela.dev/candela/injector/p4"
)

// fickle is a target that makes its client primary again when another one leaves, as bmv2 does.
type fickle struct {
	p4pb.UnimplementedP4RuntimeServer
	contested chan struct{} // closed: another controller comes and goes
	passed    chan struct{} // closed: it has
	cookie    *p4pb.ForwardingPipelineConfig
}

func (f *fickle) StreamChannel(stream p4pb.P4Runtime_StreamChannelServer) error {
	if _, err := stream.Recv(); err != nil {
		return err
	}
	say := func(code codes.Code) error {
		return stream.Send(&p4pb.StreamMessageResponse{Update: &p4pb.StreamMessageResponse_Arbitration{
			Arbitration: &p4pb.MasterArbitrationUpdate{Status: &status.Status{Code: int32(code),
				Message: "there is a higher one"}}}})
	}
	if err := say(codes.OK); err != nil {
		return err
	}
	<-f.contested
	if err := say(codes.AlreadyExists); err != nil {
		return err
	}
	if err := say(codes.OK); err != nil {
		return err
	}
	close(f.passed)
	_, _ = stream.Recv() // until the client ends the stream
	return nil
}

func (f *fickle) SetForwardingPipelineConfig(_ context.Context, req *p4pb.SetForwardingPipelineConfigRequest) (
	*p4pb.SetForwardingPipelineConfigResponse, error) {
	f.cookie = req.GetConfig()
	return &p4pb.SetForwardingPipelineConfigResponse{}, nil
}

func (f *fickle) GetForwardingPipelineConfig(context.Context, *p4pb.GetForwardingPipelineConfigRequest) (
	*p4pb.GetForwardingPipelineConfigResponse, error) {
	return &p4pb.GetForwardingPipelineConfigResponse{Config: f.cookie}, nil
}

func TestAnotherPrimaryThatCameAndWentIsNotForgotten(t *testing.T) {
	f := &fickle{contested: make(chan struct{}), passed: make(chan struct{})}
	lis := bufconn.Listen(1 << 20)
	server := grpc.NewServer()
	p4pb.RegisterP4RuntimeServer(server, f)
	served := make(chan struct{})
	go func() { defer close(served); _ = server.Serve(lis) }()
	conn, err := grpc.NewClient("passthrough:///bufconn", grpc.WithTransportCredentials(insecure.NewCredentials()),
		grpc.WithContextDialer(func(ctx context.Context, _ string) (net.Conn, error) { return lis.DialContext(ctx) }))
	if err != nil {
		t.Fatal(err)
	}
	defer func() { conn.Close(); server.Stop(); <-served }()
	c, err := injector.Connect(t.Context(), conn,
		injector.Config{Target: "fickle", DeviceID: deviceID, Pipeline: injector.Pipeline{Info: p4.Base()}})
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	if err := c.Primary(); err != nil {
		t.Errorf("primary: %v", err)
	}
	close(f.contested)
	<-f.passed
	for range 60_000 { // until the client has read what was sent
		if err = c.Primary(); err != nil && strings.Contains(err.Error(), "meanwhile") {
			return
		}
		time.Sleep(time.Millisecond)
	}
	t.Errorf("primary: %v; want another controller named", err)
}
