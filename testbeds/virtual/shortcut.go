package virtual

import (
	"context"
	"errors"
	"io"

	p4pb "github.com/p4lang/p4runtime/go/p4/v1"
	"google.golang.org/grpc"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"

	"candela.dev/candela/injector/switchd"
)

// shortcut is a connection to a server of the same process on which writes and reads of the switch are plain calls: a
// run makes some fifteen of them, and their transport would take as long as its simulation. Everything else, the
// session among it, goes over gRPC. What client and server exchange are the messages of P4Runtime all the same. They
// are not copied, which gRPC's own rule allows: nobody changes a message that he has handed over.
type shortcut struct {
	grpc.ClientConnInterface
	server *switchd.Server
}

// Invoke implements grpc.ClientConnInterface.
func (c *shortcut) Invoke(ctx context.Context, method string, args, reply any, opts ...grpc.CallOption) error {
	req, ok := args.(*p4pb.WriteRequest)
	if !ok {
		return c.ClientConnInterface.Invoke(ctx, method, args, reply, opts...)
	}
	if err := ctx.Err(); err != nil {
		return status.FromContextError(err).Err()
	}
	_, err := c.server.Write(ctx, req) // the response has no fields
	return err
}

// NewStream implements grpc.ClientConnInterface.
func (c *shortcut) NewStream(ctx context.Context, desc *grpc.StreamDesc, method string,
	opts ...grpc.CallOption) (grpc.ClientStream, error) {
	if method != p4pb.P4Runtime_Read_FullMethodName {
		return c.ClientConnInterface.NewStream(ctx, desc, method, opts...)
	}
	if err := ctx.Err(); err != nil {
		return nil, status.FromContextError(err).Err()
	}
	return &reading{ctx: ctx, server: c.server}, nil
}

// reading is one read of the switch: the client's stream and the server's at once. The request is served while it is
// sent.
type reading struct {
	ctx       context.Context
	server    *switchd.Server
	responses []*p4pb.ReadResponse
	err       error // of the server; nil: the stream ends as it should
}

// SendMsg takes the request, on the client's side.
func (r *reading) SendMsg(m any) error {
	req, ok := m.(*p4pb.ReadRequest)
	if !ok {
		return errors.New("not a read request")
	}
	r.err = r.server.Read(req, served{reading: r})
	return nil
}

// RecvMsg returns the next response to the client.
func (r *reading) RecvMsg(m any) error {
	out, ok := m.(*p4pb.ReadResponse)
	switch {
	case !ok:
		return errors.New("not a read response")
	case len(r.responses) > 0:
		out.Entities = r.responses[0].GetEntities()
		r.responses = r.responses[1:]
		return nil
	case r.err != nil:
		return r.err
	}
	return io.EOF
}

// CloseSend has nothing to do: there is one request.
func (*reading) CloseSend() error { return nil }

// Header returns none, as nobody sends any.
func (*reading) Header() (metadata.MD, error) { return metadata.MD{}, nil }

// Trailer returns none, as nobody sends any.
func (*reading) Trailer() metadata.MD { return nil }

// Context returns the caller's.
func (r *reading) Context() context.Context { return r.ctx }

// served is the server's side of a reading.
type served struct {
	*reading
}

// Send takes a response.
func (s served) Send(m *p4pb.ReadResponse) error {
	s.responses = append(s.responses, m)
	return nil
}

// SetHeader is for metadata, of which there is none.
func (served) SetHeader(metadata.MD) error { return nil }

// SendHeader is for metadata, of which there is none.
func (served) SendHeader(metadata.MD) error { return nil }

// SetTrailer is for metadata, of which there is none.
func (served) SetTrailer(metadata.MD) {}
