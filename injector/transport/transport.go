// Package transport connects clients and servers securely: over unix sockets, whose peer the kernel identifies, or over
// TCP with mutual TLS, on loopback too, which every user of a machine can reach. There is no third mode: a request for
// one is an error, never a warning. The only exception is a client of a third-party server on loopback without TLS, see
// [DialForeign].
//
// A server admits to a unix socket root, its own user, and the members of a group if one is given. They may do
// everything. Over TCP a certificate says what its owner may do, see [Role].
package transport

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/keepalive"
)

// ErrInsecure is what refusals to go without TLS answer to.
var ErrInsecure = errors.New("TCP needs mutual TLS, on loopback too")

// ServerConfig says who may reach a server, and how much of it.
type ServerConfig struct {
	Files  *Files // for mutual TLS; nil: the address is a unix socket
	Policy Policy // what callers over TCP may do
	// Group may use a unix socket, too; empty: root and this user only.
	Group  string
	Limits Limits
	// Log gets what is refused, and what is about to expire; nil: nothing.
	Log *slog.Logger
}

// Listen opens a listener for a gRPC server and returns the server options that protect it; both are needed. Without
// files the address must be a unix socket. Otherwise clients must present a certificate from the authorities, and each
// of their calls is checked against the policy.
func Listen(address string, cfg ServerConfig) (net.Listener, []grpc.ServerOption, error) {
	if cfg.Log == nil {
		cfg.Log = slog.New(slog.DiscardHandler)
	}
	cfg.Limits.setDefaults()
	path, local, err := socketPath(address)
	if err != nil {
		return nil, nil, err
	}
	if !local {
		return listenTCP(address, cfg)
	}
	if cfg.Files != nil {
		return nil, nil, errUnixTLS
	}
	lis, err := listenUnix(path, cfg.Group)
	if err != nil {
		return nil, nil, err
	}
	g := newGate(lis, lis.caller, cfg)
	return g, g.options(), nil
}

func listenTCP(address string, cfg ServerConfig) (net.Listener, []grpc.ServerOption, error) {
	addr, err := net.ResolveTCPAddr("tcp", address)
	switch {
	case err != nil:
		return nil, nil, fmt.Errorf("address %q: %w", address, err)
	case cfg.Files == nil:
		return nil, nil,
			fmt.Errorf("address %q: %w: give certificate, key and authority files (candela agent pki makes them), "+
				"or serve a unix socket, such as unix:/run/candela/agent.sock", address, ErrInsecure)
	case cfg.Group != "":
		return nil, nil, fmt.Errorf("address %q: a group is for unix sockets; certificates say who may call over TCP",
			address)
	}
	own, err := cfg.Files.load(cfg.Log)
	if err != nil {
		return nil, nil, err
	}
	lis, err := net.ListenTCP("tcp", addr)
	if err != nil {
		return nil, nil, err
	}
	g, opts := protected(lis, own, cfg)
	g.watching.Go(func() { g.watch(own, warnEvery) })
	return g, opts, nil
}

// protected returns a TCP listener behind the gate, and what a server on it needs for mutual TLS.
func protected(lis net.Listener, own *identity, cfg ServerConfig) (*gate, []grpc.ServerOption) {
	g := newGate(lis, addressOf, cfg)
	config := &tls.Config{
		MinVersion: tls.VersionTLS13, ClientCAs: own.pool, ClientAuth: tls.RequireAndVerifyClientCert,
		GetCertificate: func(*tls.ClientHelloInfo) (*tls.Certificate, error) { return own.current(), nil },
		// A resumed session would not skip checks, but could outlive its certificate chain.
		SessionTicketsDisabled: true,
	}
	opts := append(g.options(), guard{cfg.Policy, own}.options()...)
	return g, append(opts, grpc.Creds(credentials.NewTLS(config)))
}

// A client that has been silent for pingAfter is pinged, and its connection ends without an answer: a machine that lost
// power or hangs does not end its connections, and a lease starts only when the stream is gone.
const (
	pingAfter = 15 * time.Second
	pingWait  = 10 * time.Second
	// idleTime is how long a connection without calls is kept. Clients reconnect automatically.
	idleTime = 15 * time.Minute
	// pingsEvery is how often a client may ask for signs of life.
	pingsEvery = 5 * time.Second
	// What a client may send before it is read, per call and per connection. gRPC's default raises both to 16 MiB.
	callWindow       = 256 << 10
	connectionWindow = 1 << 20
)

func keepalives(after time.Duration) []grpc.ServerOption {
	return []grpc.ServerOption{
		grpc.KeepaliveParams(keepalive.ServerParameters{Time: after, Timeout: min(after, pingWait),
			MaxConnectionIdle: idleTime}),
		grpc.KeepaliveEnforcementPolicy(keepalive.EnforcementPolicy{MinTime: pingsEvery, PermitWithoutStream: true}),
	}
}

// maxTrailer bounds headers: a target answers a failed batch with one error per update in the trailer, up to some 100
// bytes each.
const maxTrailer = 4 << 20

// Dial returns a client connection to one of our servers; it connects when it is first used. Without files the address
// must be a unix socket that root, this user, or the owner of its directories serves. The certificate of a server must
// be from the authorities and name the host of address; a connection ends when that certificate expires or is revoked.
func Dial(address string, files *Files) (*grpc.ClientConn, error) {
	path, local, err := socketPath(address)
	switch {
	case err != nil:
		return nil, err
	case local && files != nil:
		return nil, errUnixTLS
	case local:
		return dialer(path, path, insecure.NewCredentials(),
			func(ctx context.Context) (net.Conn, error) { return dialUnix(ctx, path) })
	}
	if _, err := net.ResolveTCPAddr("tcp", address); err != nil {
		return nil, fmt.Errorf("address %q: %w", address, err)
	}
	if files == nil {
		return nil, fmt.Errorf("address %q: %w: give certificate, key and authority files, or the unix: address of a "+
			"server on this machine",
			address, ErrInsecure)
	}
	own, err := files.load(nil)
	if err != nil {
		return nil, err
	}
	return grpc.NewClient("passthrough:///"+address, grpc.WithTransportCredentials(own.client()),
		grpc.WithMaxHeaderListSize(maxTrailer))
}

// DialForeign is Dial for a third-party server, which may offer plain TCP only: without files, a loopback address is
// dialled without TLS. Every user of this machine can then drive that server, and a process on its port can impersonate
// it.
func DialForeign(address string, files *Files) (*grpc.ClientConn, error) {
	if _, local, err := socketPath(address); err != nil || local || files != nil {
		return Dial(address, files)
	}
	addr, err := net.ResolveTCPAddr("tcp", address)
	if err != nil {
		return nil, fmt.Errorf("address %q: %w", address, err)
	}
	if !addr.IP.IsLoopback() {
		return nil, fmt.Errorf("address %q: without TLS only loopback addresses and unix sockets are allowed, also to "+
			"third-party servers: "+
			"give certificate, key and authority files: %w", address, ErrInsecure)
	}
	// Use the address: the name may resolve to another machine when it is dialled.
	return grpc.NewClient("passthrough:///"+addr.String(), grpc.WithTransportCredentials(insecure.NewCredentials()),
		grpc.WithMaxHeaderListSize(maxTrailer))
}

// dialer makes a connection whose errors name it.
func dialer(name, path string, creds credentials.TransportCredentials,
	dial func(context.Context) (net.Conn, error)) (*grpc.ClientConn, error) {
	return grpc.NewClient("passthrough:///"+name, grpc.WithTransportCredentials(creds),
		grpc.WithMaxHeaderListSize(maxTrailer),
		grpc.WithAuthority("localhost"),
		grpc.WithContextDialer(func(ctx context.Context, _ string) (net.Conn, error) { return dial(ctx) }))
}
