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

// shortcut is a connection to a server in the same process. Writes and reads of the switch are plain calls, because
// their transport would take as long as the simulation: a run makes about fifteen. Everything else, including the
// session, uses gRPC. The messages are those of P4Runtime. They are not copied: by gRPC's rule, a message must not
// change after it was passed on.
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

// reading is one read of the switch, both the client's stream and the server's. SendMsg serves the request.
type reading struct {
	ctx       context.Context
	server    *switchd.Server
	responses []*p4pb.ReadResponse
	err       error // of the server; nil: the stream ends normally
}

// SendMsg serves the request for the client.
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

// Header returns no metadata.
func (*reading) Header() (metadata.MD, error) { return metadata.MD{}, nil }

// Trailer returns no metadata.
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

// SetHeader ignores metadata.
func (served) SetHeader(metadata.MD) error { return nil }

// SendHeader ignores metadata.
func (served) SendHeader(metadata.MD) error { return nil }

// SetTrailer ignores metadata.
func (served) SetTrailer(metadata.MD) {}
