//go:build linux

package transport

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	p4pb "github.com/p4lang/p4runtime/go/p4/v1"
	"golang.org/x/net/http2"
	"golang.org/x/net/http2/hpack"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/mem"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"

	"candela.dev/candela/runtimetest"
)

// counting is a server that counts its concurrent calls.
type counting struct {
	echo
	now, most, decoded atomic.Int64
}

func (c *counting) enter() func() {
	n := c.now.Add(1)
	for most := c.most.Load(); n > most && !c.most.CompareAndSwap(most, n); most = c.most.Load() {
	}
	return func() { c.now.Add(-1) }
}

func (c *counting) StreamChannel(s p4pb.P4Runtime_StreamChannelServer) error {
	defer c.enter()()
	return c.echo.StreamChannel(s)
}

func (c *counting) Write(context.Context, *p4pb.WriteRequest) (*p4pb.WriteResponse, error) {
	defer c.enter()()
	c.decoded.Add(1)
	return &p4pb.WriteResponse{}, nil
}

// local serves on a socket and returns its path.
func local(t *testing.T, limits Limits) (string, *counting) {
	t.Helper()
	path := filepath.Join(t.TempDir(), "s")
	lis, opts, err := Listen("unix:"+path, ServerConfig{Limits: limits})
	if err != nil {
		t.Fatal(err)
	}
	g := grpc.NewServer(opts...)
	c := &counting{}
	p4pb.RegisterP4RuntimeServer(g, c)
	served := make(chan struct{})
	go func() { defer close(served); _ = g.Serve(lis) }()
	t.Cleanup(func() { g.Stop(); <-served })
	return path, c
}

func client(t *testing.T, path string) (p4pb.P4RuntimeClient, *grpc.ClientConn) {
	t.Helper()
	conn, err := Dial("unix:"+path, nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { conn.Close() })
	return p4pb.NewP4RuntimeClient(conn), conn
}

func TestACallThatSaysNothingEnds(t *testing.T) {
	path, server := local(t, Limits{FirstMessage: 100 * time.Millisecond})
	c, conn := client(t, path)
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	mute, err := c.StreamChannel(ctx)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := mute.Recv(); status.Code(err) != codes.DeadlineExceeded || ctx.Err() != nil {
		t.Errorf("a stream: %v", err)
	}
	// A method of one request whose request never comes.
	desc := &grpc.StreamDesc{ClientStreams: true}
	unary, err := conn.NewStream(ctx, desc, p4pb.P4Runtime_Write_FullMethodName)
	if err != nil {
		t.Fatal(err)
	}
	if err := unary.RecvMsg(new(p4pb.WriteResponse)); err == nil || ctx.Err() != nil {
		t.Errorf("a call of one request: %v", err)
	}
	// A client that has sent a message may be silent for longer.
	spoken, err := c.StreamChannel(ctx)
	if err == nil {
		err = spoken.Send(&p4pb.StreamMessageRequest{})
	}
	if err == nil {
		_, err = spoken.Recv()
	}
	time.Sleep(300 * time.Millisecond)
	if err == nil {
		err = spoken.Send(&p4pb.StreamMessageRequest{})
	}
	if err == nil {
		_, err = spoken.Recv()
	}
	if err != nil || server.now.Load() != 1 {
		t.Errorf("a stream that spoke: %v; %d are served", err, server.now.Load())
	}
}

// rude is a client that opens streams without asking how many it may.
type rude struct {
	conn   net.Conn
	framer *http2.Framer
	block  bytes.Buffer
	header *hpack.Encoder
	next   uint32
}

func newRude(path string) (*rude, error) {
	conn, err := net.Dial("unix", path)
	if err != nil {
		return nil, err
	}
	r := &rude{conn: conn, framer: http2.NewFramer(conn, conn), next: 1}
	r.header = hpack.NewEncoder(&r.block)
	if _, err := io.WriteString(conn, http2.ClientPreface); err != nil {
		return nil, errors.Join(err, conn.Close())
	}
	return r, r.framer.WriteSettings()
}

// open opens a stream that says nothing.
func (r *rude) open() error {
	r.block.Reset()
	for _, h := range [][2]string{{":method", "POST"}, {":scheme", "http"},
		{":path", p4pb.P4Runtime_StreamChannel_FullMethodName},
		{":authority", "localhost"}, {"content-type", "application/grpc"}, {"te", "trailers"}} {
		if err := r.header.WriteField(hpack.HeaderField{Name: h[0], Value: h[1]}); err != nil {
			return err
		}
	}
	err := r.framer.WriteHeaders(http2.HeadersFrameParam{StreamID: r.next, BlockFragment: r.block.Bytes(),
		EndHeaders: true})
	r.next += 2
	return err
}

func heap() uint64 {
	runtime.GC()
	runtime.GC() // the first one leaves what is in a sync.Pool
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return m.HeapAlloc + m.StackInuse
}

// TestThousandsOfMuteStreamsTakeBoundedMemory opens 20,000 streams on 20 connections that never say anything.
func TestThousandsOfMuteStreamsTakeBoundedMemory(t *testing.T) {
	const connections, streams, most = 20, 1000, 16 << 20
	path, server := local(t, Limits{FirstMessage: time.Minute})
	before := heap()
	var refused atomic.Int64 // connections that the server has closed
	var reading sync.WaitGroup
	var clients []*rude
	for range connections {
		r, err := newRude(path)
		if err != nil {
			refused.Add(1)
			continue
		}
		clients = append(clients, r)
		reading.Go(func() {
			_, _ = io.Copy(io.Discard, r.conn)
			refused.Add(1)
		})
		for range streams {
			if err := r.open(); err != nil {
				break
			}
		}
	}
	defer reading.Wait()
	defer func() {
		for _, r := range clients {
			r.conn.Close()
		}
	}()
	var defaults Limits
	defaults.setDefaults()
	tooMany := int64(connections - defaults.PeerConnections)
	for deadline := time.Now().Add(time.Minute); (refused.Load() < tooMany || server.now.Load() == 0) &&
		time.Now().Before(deadline); time.Sleep(time.Millisecond) {
	}
	// The server has read everything when its number of calls does not change.
	for last, still := int64(-1), 0; still < 20; time.Sleep(10 * time.Millisecond) {
		if n := server.now.Load(); n != last {
			last, still = n, 0
		}
		still++
	}
	took := int64(heap()) - int64(before)
	t.Logf("%d calls served at most, %d KiB, %d connections refused", server.most.Load(), took>>10, refused.Load())
	if n := server.most.Load(); n == 0 || n > int64(defaults.PeerCalls) {
		t.Errorf("%d calls were served at once, want at most %d", n, defaults.PeerCalls)
	}
	if n := refused.Load(); n < tooMany {
		t.Errorf("%d of %d connections were refused, want all beyond %d", n, connections, defaults.PeerConnections)
	}
	if took > most {
		t.Errorf("they take %d KiB, want at most %d", took>>10, most>>10)
	}
}

// raw is a codec that sends bytes as they are.
type raw struct{}

func (raw) Marshal(v any) (mem.BufferSlice, error) {
	if b, ok := v.([]byte); ok {
		return mem.BufferSlice{mem.SliceBuffer(b)}, nil
	}
	return nil, errors.New("no bytes")
}
func (raw) Unmarshal(mem.BufferSlice, any) error { return nil }
func (raw) Name() string                         { return "raw" }

// TestRequestsThatGrowWhenTheyAreDecodedTakeBoundedMemory sends requests of 4 MiB, each of two million empty parts: 200
// MiB decoded.
func TestRequestsThatGrowWhenTheyAreDecodedTakeBoundedMemory(t *testing.T) {
	const most = 400 << 20
	requests := 64
	if runtimetest.Race { // a queue of 64 would outlast the time that a request may take
		requests = 16
	}
	path, server := local(t, Limits{})
	_, conn := client(t, path)
	updates := bytes.Repeat([]byte{4<<3 | 2, 0}, 2<<20-1024)
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Minute)
	defer cancel()
	before := heap()
	var peak atomic.Uint64
	measured, stop := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(measured)
		for {
			var m runtime.MemStats
			runtime.ReadMemStats(&m)
			peak.Store(max(peak.Load(), m.HeapAlloc))
			select {
			case <-stop:
				return
			case <-time.After(5 * time.Millisecond):
			}
		}
	}()
	var all sync.WaitGroup
	var refused atomic.Int64
	for range requests {
		all.Go(func() {
			err := conn.Invoke(ctx, p4pb.P4Runtime_Write_FullMethodName, updates, new(p4pb.WriteResponse),
				grpc.ForceCodecV2(raw{}))
			if err != nil && strings.Contains(err.Error(), "takes more than 32 MiB decoded") { // gRPC makes it INTERNAL
				refused.Add(1)
			} else if err != nil {
				t.Errorf("%v", err)
			}
		})
	}
	all.Wait()
	close(stop)
	<-measured
	t.Logf("peak %d MiB", (peak.Load()-min(before, peak.Load()))>>20)
	if refused.Load() != int64(requests) || server.decoded.Load() != 0 {
		t.Errorf("%d of %d are refused, %d were decoded", refused.Load(), requests, server.decoded.Load())
	}
	if peak.Load() > before+most {
		t.Errorf("they take %d MiB, want at most %d", (peak.Load()-before)>>20, most>>20)
	}
}

func TestRequestsAreWeighedBeforeTheyAreDecoded(t *testing.T) {
	encoded := func(m proto.Message) []byte {
		b, err := proto.Marshal(m)
		if err != nil {
			t.Fatal(err)
		}
		return b
	}
	entry := &p4pb.Update{Type: p4pb.Update_INSERT,
		Entity: &p4pb.Entity{Entity: &p4pb.Entity_TableEntry{TableEntry: &p4pb.TableEntry{
			TableId: 0x02000001, Match: []*p4pb.FieldMatch{
				{FieldId: 1, FieldMatchType: &p4pb.FieldMatch_Exact_{Exact: &p4pb.FieldMatch_Exact{Value: []byte{1, 2, 3}}}},
				{FieldId: 2, FieldMatchType: &p4pb.FieldMatch_Exact_{Exact: &p4pb.FieldMatch_Exact{Value: []byte{1, 2, 3}}}}},
			Action: &p4pb.TableAction{Type: &p4pb.TableAction_Action{Action: &p4pb.Action{ActionId: 1}}}}}}}
	batch := &p4pb.WriteRequest{DeviceId: 1}
	for range 10_000 {
		batch.Updates = append(batch.Updates, entry)
	}
	nested := []byte{}
	for range 200 { // a value of P4Data within a value of P4Data
		nested = append([]byte{1<<3 | 2}, append(lengthOf(nested), nested...)...)
		nested = append([]byte{4<<3 | 2}, append(lengthOf(nested), nested...)...)
	}
	for name, tt := range map[string]struct {
		bytes []byte
		into  proto.Message
		fits  bool
	}{
		"nothing":              {nil, new(p4pb.WriteRequest), true},
		"ten thousand entries": {encoded(batch), new(p4pb.WriteRequest), true},
		"a pipeline of 3 MiB": {encoded(
			&p4pb.SetForwardingPipelineConfigRequest{Config: &p4pb.ForwardingPipelineConfig{P4DeviceConfig: make([]byte,
				3<<20)}}), new(p4pb.SetForwardingPipelineConfigRequest), true},
		"a million empty updates":       {bytes.Repeat([]byte{4<<3 | 2, 0}, 1<<20), new(p4pb.WriteRequest), false},
		"a million numbers, unknown":    {bytes.Repeat([]byte{15 << 3, 0}, 2<<20), new(p4pb.WriteRequest), false},
		"a value nested 400 times over": {nested, new(p4pb.P4Data), false},
	} {
		var limits Limits
		limits.setDefaults()
		err := newBounded(limits.DecodedBytes).Unmarshal(mem.BufferSlice{mem.SliceBuffer(tt.bytes)}, tt.into)
		if fits := status.Code(err) != codes.ResourceExhausted; fits != tt.fits || tt.fits && err != nil {
			t.Errorf("%s (%d bytes): %v", name, len(tt.bytes), err)
		}
	}
	// The decoder reports malformed messages.
	if err := newBounded(1<<20).Unmarshal(mem.BufferSlice{mem.SliceBuffer{0x22, 0xff}},
		new(p4pb.WriteRequest)); err == nil || status.Code(err) == codes.ResourceExhausted {
		t.Errorf("a message that is cut: %v", err)
	}
}

func lengthOf(b []byte) (l []byte) {
	n := len(b)
	for ; n >= 0x80; n >>= 7 {
		l = append(l, byte(n)|0x80)
	}
	return append(l, byte(n))
}

func FuzzWeight(f *testing.F) {
	f.Add([]byte{0x22, 0})
	f.Add(bytes.Repeat([]byte{0x22, 0}, 1000))
	f.Fuzz(func(t *testing.T, b []byte) {
		m := new(p4pb.WriteRequest)
		bounded := newBounded(1 << 20)
		if err := bounded.Unmarshal(mem.BufferSlice{mem.SliceBuffer(b)}, m); status.Code(err) == codes.ResourceExhausted {
			return
		}
		second := new(p4pb.WriteRequest)
		if err := proto.Unmarshal(b, second); err == nil && !proto.Equal(m, second) {
			t.Errorf("%x is decoded otherwise than by the usual codec", b)
		}
	})
}

func TestOnePeerLeavesRoomForOthers(t *testing.T) {
	g := newGate(nil, nil, ServerConfig{Limits: Limits{Connections: 3, PeerConnections: 2}})
	for i, tt := range []struct {
		peer string
		fits bool
	}{{"a", true}, {"a", true}, {"a", false}, {"b", true}, {"b", false}, {"c", false}} {
		if err := g.enter(tt.peer); (err == nil) != tt.fits {
			t.Errorf("connection %d, of %s: %v", i+1, tt.peer, err)
		}
	}
	a := &admitted{Conn: nowhere{}, from: peerAddr{nil, "a"}, gate: g}
	_ = a.Close()
	_ = a.Close() // counts once
	if err := g.enter("c"); err != nil {
		t.Errorf("after one has left: %v", err)
	}
	if err := g.enter("a"); err == nil {
		t.Error("closing twice made room for two")
	}
}

type nowhere struct{ net.Conn }

func (nowhere) Close() error { return nil }
