package transport

import (
	"context"
	"errors"
	"io"
	"net"
	"sync/atomic"
	"testing"
	"time"

	p4pb "github.com/p4lang/p4runtime/go/p4/v1"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
)

// mute is a connection of a client whose machine can be turned off: then nothing leaves it, and the peer is not
// notified.
type mute struct {
	net.Conn
	off *atomic.Bool
}

func (m mute) Write(b []byte) (int, error) {
	if m.off.Load() {
		return len(b), nil
	}
	return m.Conn.Write(b)
}

// listening says when the stream of a client has ended.
type listening struct {
	p4pb.UnimplementedP4RuntimeServer
	open, ended chan struct{}
}

func (l listening) StreamChannel(s p4pb.P4Runtime_StreamChannelServer) error {
	close(l.open)
	defer close(l.ended)
	for {
		if _, err := s.Recv(); err != nil {
			return nil
		}
	}
}

func TestTheStreamOfAClientWhoseMachineIsOffEnds(t *testing.T) {
	lis, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	server := grpc.NewServer(keepalives(time.Second)...)
	l := listening{open: make(chan struct{}), ended: make(chan struct{})}
	p4pb.RegisterP4RuntimeServer(server, l)
	served := make(chan struct{})
	go func() { defer close(served); _ = server.Serve(lis) }()
	defer func() { server.Stop(); <-served }()
	var off atomic.Bool
	conn, err := grpc.NewClient("passthrough:///"+lis.Addr().String(),
		grpc.WithTransportCredentials(insecure.NewCredentials()),
		grpc.WithContextDialer(func(ctx context.Context, address string) (net.Conn, error) {
			c, err := new(net.Dialer).DialContext(ctx, "tcp", address)
			return mute{c, &off}, err
		}))
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	stream, err := p4pb.NewP4RuntimeClient(conn).StreamChannel(ctx)
	if err == nil {
		err = stream.Send(&p4pb.StreamMessageRequest{})
	}
	if err != nil {
		t.Fatal(err)
	}
	<-l.open
	off.Store(true)
	select {
	case <-l.ended:
	case <-time.After(time.Minute):
		t.Error("the server still waits for it")
	}
	if _, err := stream.Recv(); err == nil || errors.Is(err, io.EOF) {
		t.Errorf("the client's end: %v", err)
	}
}
