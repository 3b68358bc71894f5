package transport

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/netip"
	"sync"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/peer"
	"google.golang.org/grpc/status"
	"google.golang.org/grpc/tap"
)

// Limits bound what clients may use of a server. A peer is a user of this machine or an address of another. Zero values
// are the defaults.
type Limits struct {
	Connections     int // of all peers: 256
	PeerConnections int // of one peer: 16
	ConnectionCalls int // open on one connection: 32; more of them wait at the client
	PeerCalls       int // open of one peer, on all its connections: 64; more are refused
	// FirstMessage is how long a call may take to send its first message: 10 s.
	FirstMessage time.Duration
	// Handshake is how long a connection may take to be ready for calls: 10 s.
	Handshake    time.Duration
	MessageBytes int // of one request, encoded: 4 MiB, the least that P4Runtime allows
	DecodedBytes int // of one request, decoded: 32 MiB
}

const maxHeaders = 64 << 10 // bytes of a call's headers

func (l *Limits) setDefaults() {
	for _, d := range []struct {
		v   *int
		def int
	}{
		{&l.Connections, 256}, {&l.PeerConnections, 16}, {&l.ConnectionCalls, 32}, {&l.PeerCalls, 64},
		{&l.MessageBytes, 4 << 20},
		{&l.DecodedBytes, 32 << 20},
	} {
		if *d.v == 0 {
			*d.v = d.def
		}
	}
	for _, d := range []*time.Duration{&l.FirstMessage, &l.Handshake} {
		if *d == 0 {
			*d = 10 * time.Second
		}
	}
}

// gate is a listener that lets peers in within the limits.
type gate struct {
	net.Listener
	identify func(net.Conn) (peer string, err error)
	limits   Limits
	log      *slog.Logger
	stopping chan struct{}
	closing  sync.Once
	watching sync.WaitGroup

	mu       sync.Mutex
	total    int
	conns    map[string]int
	calls    map[string]int
	silent   time.Time // no refusal is logged before
	unlogged int
}

func newGate(lis net.Listener, identify func(net.Conn) (string, error), cfg ServerConfig) *gate {
	return &gate{
		Listener: lis, identify: identify, limits: cfg.Limits, log: cfg.Log, stopping: make(chan struct{}),
		conns: map[string]int{},
		calls: map[string]int{},
	}
}

// addressOf identifies the peer of a TCP connection before it has shown a certificate. IPv6 peers are identified by
// prefix, since a machine can have any number of addresses.
func addressOf(conn net.Conn) (string, error) {
	at, err := netip.ParseAddrPort(conn.RemoteAddr().String())
	if err != nil {
		return "", err
	}
	ip := at.Addr().Unmap().WithZone("")
	const network = 64
	if prefix, err := ip.Prefix(network); err == nil && ip.Is6() {
		return prefix.String(), nil
	}
	return ip.String(), nil
}

// peerAddr is the address of a connection whose peer is known.
type peerAddr struct {
	net.Addr
	peer string
}

// admitted is a connection that counts.
type admitted struct {
	net.Conn
	from  peerAddr
	gate  *gate
	leave sync.Once
}

// RemoteAddr knows the peer.
func (a *admitted) RemoteAddr() net.Addr { return a.from }

// Close ends the connection.
func (a *admitted) Close() error {
	a.leave.Do(func() {
		a.gate.mu.Lock()
		defer a.gate.mu.Unlock()
		a.gate.total--
		decrement(a.gate.conns, a.from.peer)
	})
	return a.Conn.Close()
}

func decrement(counts map[string]int, key string) {
	if counts[key]--; counts[key] <= 0 {
		delete(counts, key)
	}
}

// Accept returns the next connection of a peer that may have one.
func (g *gate) Accept() (net.Conn, error) {
	for {
		conn, err := g.Listener.Accept()
		if err != nil {
			return nil, err
		}
		name, err := g.identify(conn)
		if err == nil {
			err = g.enter(name)
		}
		if err != nil {
			g.refused(err)
			_ = conn.Close() // it was not served
			continue
		}
		return &admitted{Conn: conn, from: peerAddr{conn.RemoteAddr(), name}, gate: g}, nil
	}
}

func (g *gate) enter(name string) error {
	g.mu.Lock()
	defer g.mu.Unlock()
	switch {
	case g.total >= g.limits.Connections:
		return fmt.Errorf("%s: %d connections are open, no more are served", name, g.total)
	case g.conns[name] >= g.limits.PeerConnections:
		return fmt.Errorf("%s has %d connections open, no more are served", name, g.conns[name])
	}
	g.total++
	g.conns[name]++
	return nil
}

// refused logs that a connection or call was refused, at most once a second: a client may try thousands of times.
func (g *gate) refused(why error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	now := time.Now()
	if now.Before(g.silent) {
		g.unlogged++
		return
	}
	g.log.Warn("a connection or call is refused", "because", why, "others-since", g.unlogged)
	g.unlogged, g.silent = 0, now.Add(time.Second)
}

// watch warns of what expires, periodically until the listener is closed.
func (g *gate) watch(own *identity, every time.Duration) {
	own.warn(g.log)
	tick := time.NewTicker(every)
	defer tick.Stop()
	for {
		select {
		case <-g.stopping:
			return
		case <-tick.C:
			own.warn(g.log)
		}
	}
}

// Close closes the listener. Connections stay.
func (g *gate) Close() error {
	g.closing.Do(func() { close(g.stopping) })
	g.watching.Wait()
	return g.Listener.Close()
}

// options are those of a server with the gate. Options of the server may only come before these.
func (g *gate) options() []grpc.ServerOption {
	return append(keepalives(pingAfter),
		grpc.MaxConcurrentStreams(uint32(g.limits.ConnectionCalls)),
		grpc.MaxRecvMsgSize(g.limits.MessageBytes),
		grpc.MaxHeaderListSize(maxHeaders),
		grpc.InitialWindowSize(callWindow),
		grpc.InitialConnWindowSize(connectionWindow),
		grpc.ConnectionTimeout(g.limits.Handshake),
		grpc.ForceServerCodecV2(newBounded(g.limits.DecodedBytes)),
		grpc.InTapHandle(g.admit),
		grpc.ChainUnaryInterceptor(heardUnary), grpc.ChainStreamInterceptor(heardStream))
}

// errMute is why a call ends that said nothing.
var errMute = errors.New("the call said nothing")

// opening is the context of a call, which ends if no message comes.
type opening struct {
	context.Context
	timer *time.Timer
}

type openingKey struct{}

// Value returns the opening itself, or what the call's context has.
func (o *opening) Value(key any) any {
	if key == (openingKey{}) {
		return o
	}
	return o.Context.Value(key)
}

// Err reports a timeout, not a cancellation.
func (o *opening) Err() error {
	err := o.Context.Err()
	if err != nil && errors.Is(context.Cause(o.Context), errMute) {
		return context.DeadlineExceeded
	}
	return err
}

// admit counts a call before anything of it is read, and ends it if its first message does not arrive.
func (g *gate) admit(ctx context.Context, info *tap.Info) (context.Context, error) {
	caller, ok := peer.FromContext(ctx)
	if !ok {
		return nil, status.Error(codes.Unauthenticated, "nobody knows who calls")
	}
	from, ok := caller.Addr.(peerAddr)
	if !ok {
		return nil, status.Errorf(codes.Internal, "a caller at a %T was not admitted", caller.Addr)
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.calls[from.peer] >= g.limits.PeerCalls {
		return nil, status.Errorf(codes.ResourceExhausted, "%s has %d calls open, no more are served", from.peer,
			g.limits.PeerCalls)
	}
	g.calls[from.peer]++
	ctx, cancel := context.WithCancelCause(ctx)
	o := &opening{ctx, time.AfterFunc(g.limits.FirstMessage, func() {
		g.refused(fmt.Errorf("%s: a call of %s said nothing for %v", from.peer, info.FullMethodName, g.limits.FirstMessage))
		cancel(errMute)
	})}
	context.AfterFunc(ctx, func() { // at its end, at the latest with the connection
		o.timer.Stop()
		g.mu.Lock()
		defer g.mu.Unlock()
		decrement(g.calls, from.peer)
	})
	return o, nil
}

// heard notes that a call has said what it wants.
func heard(ctx context.Context) {
	if o, ok := ctx.Value(openingKey{}).(*opening); ok {
		o.timer.Stop()
	}
}

func heardUnary(ctx context.Context, req any, _ *grpc.UnaryServerInfo, next grpc.UnaryHandler) (any, error) {
	heard(ctx)
	return next(ctx, req)
}

func heardStream(srv any, s grpc.ServerStream, _ *grpc.StreamServerInfo, next grpc.StreamHandler) error {
	return next(srv, awaited{s})
}

// awaited is a stream whose first message is waited for.
type awaited struct{ grpc.ServerStream }

// RecvMsg receives a message.
func (l awaited) RecvMsg(m any) error {
	err := l.ServerStream.RecvMsg(m)
	if err == nil {
		heard(l.Context())
	}
	return err
}
