package transport

import (
	"context"
	"crypto/x509"
	"fmt"
	"net/url"
	"slices"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/peer"
	"google.golang.org/grpc/status"
)

// Role is what the owner of a certificate may do; it is in a URI of the certificate, candela:role:ROLE.
type Role string

// Roles.
const (
	Orchestrator Role = "orchestrator" // drives agents and switches
	Agent        Role = "agent"        // is one: a server
	Switch       Role = "switch"       // is an injector switch: a server, too, so that no agent can pass for one
	Viewer       Role = "viewer"       // looks
)

// Roles lists all roles.
func Roles() []Role { return []Role{Orchestrator, Agent, Switch, Viewer} }

const (
	roleScheme = "candela"
	rolePrefix = "role:"
)

// URI returns how a certificate says the role.
func (r Role) URI() *url.URL { return &url.URL{Scheme: roleScheme, Opaque: rolePrefix + string(r)} }

// has reports whether a certificate bears one of the roles.
func has(cert *x509.Certificate, roles []Role) bool {
	return slices.ContainsFunc(cert.URIs, func(u *url.URL) bool {
		return slices.ContainsFunc(roles, func(r Role) bool { return u.String() == r.URI().String() })
	})
}

// A Policy returns the roles that may call a method, /package.Service/Method. Without roles nobody may.
type Policy func(method string) []Role

// guard checks every call against a policy, the validity of both certificates, and the list of revoked ones: a
// connection may be older than an entry, and outlive a certificate.
type guard struct {
	policy Policy
	own    *identity
}

func (g guard) options() []grpc.ServerOption {
	return []grpc.ServerOption{
		grpc.ChainUnaryInterceptor(func(ctx context.Context, req any, info *grpc.UnaryServerInfo,
			next grpc.UnaryHandler) (any, error) {
			if err := g.check(ctx, info.FullMethod); err != nil {
				return nil, err
			}
			return next(ctx, req)
		}),
		grpc.ChainStreamInterceptor(func(srv any, s grpc.ServerStream, info *grpc.StreamServerInfo,
			next grpc.StreamHandler) error {
			if err := g.check(s.Context(), info.FullMethod); err != nil {
				return err
			}
			return next(srv, guarded{s, g, info.FullMethod})
		}),
	}
}

// guarded is a stream with the same check for each message in both directions: it may be open for hours.
type guarded struct {
	grpc.ServerStream
	guard
	method string
}

func (g guarded) RecvMsg(m any) error {
	if err := g.ServerStream.RecvMsg(m); err != nil {
		return err
	}
	return g.check(g.Context(), g.method)
}

func (g guarded) SendMsg(m any) error {
	if err := g.check(g.Context(), g.method); err != nil {
		return err
	}
	return g.ServerStream.SendMsg(m)
}

func (g guard) check(ctx context.Context, method string) error {
	caller, ok := peer.FromContext(ctx)
	if !ok {
		return status.Error(codes.Unauthenticated, "nobody knows who calls")
	}
	info, ok := caller.AuthInfo.(credentials.TLSInfo)
	if !ok || len(info.State.VerifiedChains) == 0 {
		return status.Error(codes.Unauthenticated, "no verified certificate")
	}
	now := g.own.now()
	if err := valid(info.State.VerifiedChains, now); err != nil {
		return status.Error(codes.Unauthenticated, err.Error())
	}
	if err := validNow(g.own.current().Leaf, now); err != nil {
		return status.Errorf(codes.Unavailable, "this server's %v", err)
	}
	cert := info.State.VerifiedChains[0][0]
	if err := g.own.revoked.check(cert); err != nil {
		return status.Error(codes.Unauthenticated, err.Error())
	}
	if roles := g.policy(method); !has(cert, roles) {
		return status.Errorf(codes.PermissionDenied, "%s: certificate %q has none of the roles %v (URIs: %v)", method,
			cert.Subject.CommonName, roles, cert.URIs)
	}
	return nil
}

// p4RuntimeService is the prefix of P4Runtime's methods.
const p4RuntimeService = "/p4.v1.P4Runtime/"

// SwitchPolicy is that of an injector switch: orchestrators do everything, viewers read.
func SwitchPolicy(method string) []Role {
	switch method {
	case p4RuntimeService + "Read", p4RuntimeService + "GetForwardingPipelineConfig", p4RuntimeService + "Capabilities",
		"/candela.injector.v1.Status/Describe", "/candela.injector.v1.Status/Losses":
		return []Role{Orchestrator, Viewer}
	}
	return []Role{Orchestrator}
}

// checkServer reports a server whose certificate lacks the role that is asked for.
func (f Files) checkServer(cert *x509.Certificate) error {
	if f.ServerRole == "" || has(cert, []Role{f.ServerRole}) {
		return nil
	}
	return fmt.Errorf("certificate %q of the server has not the role %q (URIs: %v)", cert.Subject.CommonName, f.ServerRole,
		cert.URIs)
}
