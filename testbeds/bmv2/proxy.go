package bmv2

import (
	"context"
	"errors"
	"fmt"
	"io"
	"sync"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/encoding"
	"google.golang.org/grpc/encoding/proto"
	"google.golang.org/grpc/mem"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
	gproto "google.golang.org/protobuf/proto"
)

// message is a message that is not decoded.
type message struct{ bytes []byte }

// verbatim is the usual codec, except for messages that pass through.
type verbatim struct{ encoding.CodecV2 }

// NewVerbatim returns the codec that a server with PassThrough must be forced to use.
func NewVerbatim() encoding.CodecV2 { return verbatim{encoding.GetCodecV2(proto.Name)} }

// Decode decodes a message that passes through, to inspect it.
func Decode(passing any, into gproto.Message) error {
	m, ok := passing.(*message)
	if !ok {
		return fmt.Errorf("%T does not pass through", passing)
	}
	return gproto.Unmarshal(m.bytes, into)
}

// Marshal returns the bytes of a message that passes through, and encodes any other.
func (v verbatim) Marshal(m any) (mem.BufferSlice, error) {
	if m, ok := m.(*message); ok {
		return mem.BufferSlice{mem.SliceBuffer(m.bytes)}, nil
	}
	return v.CodecV2.Marshal(m)
}

// Unmarshal stores the bytes of a message that passes through, and decodes any other.
func (v verbatim) Unmarshal(data mem.BufferSlice, m any) error {
	if m, ok := m.(*message); ok {
		m.bytes = data.Materialize()
		return nil
	}
	return v.CodecV2.Unmarshal(data, m)
}

// PassThrough returns a handler that forwards every call to a server and returns its answer: messages, status and
// details. pumps are the readers of callers' messages. They end with their streams; the caller waits for them after the
// server and its handlers have stopped.
func PassThrough(to grpc.ClientConnInterface, pumps *sync.WaitGroup) grpc.StreamHandler {
	return func(_ any, caller grpc.ServerStream) error {
		method, ok := grpc.MethodFromServerStream(caller)
		if !ok {
			return status.Error(codes.Internal, "a call without a method")
		}
		ctx, cancel := context.WithCancel(caller.Context())
		defer cancel()
		if md, ok := metadata.FromIncomingContext(ctx); ok {
			ctx = metadata.NewOutgoingContext(ctx, md.Copy())
		}
		server, err := to.NewStream(ctx, &grpc.StreamDesc{ServerStreams: true, ClientStreams: true}, method,
			grpc.ForceCodecV2(NewVerbatim()), grpc.MaxCallRecvMsgSize(largest), grpc.MaxCallSendMsgSize(largest))
		if err != nil {
			return err
		}
		requests := make(chan error, 1)
		pumps.Go(func() {
			err := pump(caller, server)
			requests <- err
			if err != nil {
				cancel() // the call has failed
			}
		})
		for {
			m := new(message)
			if err := server.RecvMsg(m); err != nil {
				caller.SetTrailer(server.Trailer())
				return ended(err, requests)
			}
			if err := caller.SendMsg(m); err != nil {
				return err
			}
		}
	}
}

// largest bounds an answer, such as a full table.
const largest = 64 << 20

// largestRequest bounds a request, such as a compiled pipeline.
const largestRequest = 16 << 20

// pump forwards the caller's messages until the stream ends.
func pump(caller grpc.ServerStream, server grpc.ClientStream) error {
	for {
		m := new(message)
		switch err := caller.RecvMsg(m); {
		case errors.Is(err, io.EOF):
			return server.CloseSend()
		case err != nil:
			return err
		}
		if err := server.SendMsg(m); err != nil {
			return nil // the answer has the reason
		}
	}
}

// ended returns the result of a call after the server returned err.
func ended(err error, requests <-chan error) error {
	if errors.Is(err, io.EOF) {
		return nil
	}
	select {
	case broken := <-requests:
		if broken != nil {
			return broken
		}
	default:
	}
	return err
}
