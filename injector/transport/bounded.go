package transport

import (
	"fmt"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/encoding"
	encodingproto "google.golang.org/grpc/encoding/proto"
	"google.golang.org/grpc/mem"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
)

// bounded is the usual codec, but refuses messages that would take too much memory: an empty nested message takes two
// bytes on the wire and a hundred times as many decoded.
type bounded struct {
	encoding.CodecV2
	limit int
	slots chan struct{} // of requests that are decoded concurrently: each takes a copy of its bytes meanwhile
}

const decoders = 4

func newBounded(limit int) bounded {
	return bounded{encoding.GetCodecV2(encodingproto.Name), limit, make(chan struct{}, decoders)}
}

// Unmarshal decodes a message that is small enough.
func (b bounded) Unmarshal(data mem.BufferSlice, v any) error {
	m, ok := v.(proto.Message)
	if !ok {
		return b.CodecV2.Unmarshal(data, v)
	}
	b.slots <- struct{}{}
	defer func() { <-b.slots }()
	buf := data.MaterializeToBuffer(mem.DefaultBufferPool())
	defer buf.Free()
	w := weight{left: b.limit}
	if err := w.message(m.ProtoReflect().Descriptor(), buf.ReadOnlyData(), 0); err != nil {
		return status.Errorf(codes.ResourceExhausted, "a request of %d bytes takes more than %d MiB decoded: %v", data.Len(),
			b.limit>>20, err)
	}
	return proto.Unmarshal(buf.ReadOnlyData(), m)
}

// The least memory of decoded values, including their share of the slice that holds them.
const (
	messageWeight = 160
	bytesWeight   = 48
	scalarWeight  = 16
	maxDepth      = 64
)

// weight estimates what a message takes decoded, from above.
type weight struct{ left int }

func (w *weight) take(n int, what protoreflect.FullName) error {
	if w.left -= n; w.left < 0 {
		return fmt.Errorf("too many parts in %s: send several smaller requests", what)
	}
	return nil
}

// message weighs a message. What is malformed is left to the decoder.
func (w *weight) message(d protoreflect.MessageDescriptor, b []byte, depth int) error {
	if depth > maxDepth {
		return fmt.Errorf("%s is nested deeper than %d", d.FullName(), maxDepth)
	}
	for len(b) > 0 {
		number, kind, n := protowire.ConsumeTag(b)
		if n < 0 {
			return nil
		}
		b = b[n:]
		if kind != protowire.BytesType {
			if n = protowire.ConsumeFieldValue(number, kind, b); n < 0 {
				return nil
			}
			b = b[n:]
			if err := w.take(n+scalarWeight, d.FullName()); err != nil {
				return err
			}
			continue
		}
		value, n := protowire.ConsumeBytes(b)
		if n < 0 {
			return nil
		}
		b = b[n:]
		if err := w.field(d, d.Fields().ByNumber(number), value, depth); err != nil {
			return err
		}
	}
	return nil
}

func (w *weight) field(d protoreflect.MessageDescriptor, f protoreflect.FieldDescriptor, value []byte,
	depth int) error {
	switch {
	case f != nil && f.Message() != nil:
		if err := w.take(messageWeight, d.FullName()); err != nil {
			return err
		}
		return w.message(f.Message(), value, depth+1)
	case f != nil && f.IsList() && f.Kind() != protoreflect.StringKind && f.Kind() != protoreflect.BytesKind:
		return w.take(len(value)*scalarWeight, d.FullName()) // packed
	}
	return w.take(len(value)+bytesWeight, d.FullName())
}
