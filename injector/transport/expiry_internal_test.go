package transport

import (
	"bytes"
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"errors"
	"io"
	"log/slog"
	"math/big"
	"net"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	p4pb "github.com/p4lang/p4runtime/go/p4/v1"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

// clockwork is a clock that tests set.
type clockwork struct {
	mu  sync.Mutex
	now time.Time
}

func (c *clockwork) Now() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.now
}

func (c *clockwork) set(now time.Time) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.now = now
}

// chain makes certificates by hand: pki imports this package.
type chain struct {
	t    *testing.T
	dir  string
	cert *x509.Certificate
	key  *ecdsa.PrivateKey
}

// newChain makes an authority that ends at a time.
func newChain(t *testing.T, end time.Time) *chain {
	c := &chain{t: t, dir: t.TempDir()}
	template := &x509.Certificate{SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "authority"},
		NotBefore: time.Now().Add(-time.Hour),
		NotAfter:  end, IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign | x509.KeyUsageCRLSign}
	c.cert, c.key = c.sign("ca", template, template, nil)
	return c
}

func (c *chain) sign(name string, template, parent *x509.Certificate, by *ecdsa.PrivateKey) (*x509.Certificate,
	*ecdsa.PrivateKey) {
	c.t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		c.t.Fatal(err)
	}
	if by == nil {
		by = key
	}
	der, err := x509.CreateCertificate(rand.Reader, template, parent, key.Public(), by)
	if err != nil {
		c.t.Fatal(err)
	}
	keyDER, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		c.t.Fatal(err)
	}
	cert, err := x509.ParseCertificate(der)
	err = errors.Join(err, os.WriteFile(c.file(name+".pem"),
		pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}), 0o600),
		os.WriteFile(c.file(name+".key"), pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: keyDER}), 0o600))
	if err != nil {
		c.t.Fatal(err)
	}
	return cert, key
}

func (c *chain) file(name string) string { return filepath.Join(c.dir, name) }

// issue makes a certificate that ends at a time.
func (c *chain) issue(name string, end time.Time) *Files {
	c.t.Helper()
	serial, err := rand.Int(rand.Reader, big.NewInt(1<<62))
	if err != nil {
		c.t.Fatal(err)
	}
	c.sign(name, &x509.Certificate{
		SerialNumber: serial, Subject: pkix.Name{CommonName: name}, NotBefore: time.Now().Add(-time.Hour), NotAfter: end,
		IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)}, URIs: []*url.URL{Orchestrator.URI()},
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth},
	}, c.cert, c.key)
	return &Files{Cert: c.file(name + ".pem"), Key: c.file(name + ".key"), CA: c.file("ca.pem")}
}

// list writes a list of revoked certificates that is good until a time.
func (c *chain) list(end time.Time) string {
	c.t.Helper()
	der, err := x509.CreateRevocationList(rand.Reader,
		&x509.RevocationList{Number: big.NewInt(1), ThisUpdate: time.Now().Add(-time.Hour),
			NextUpdate: end}, c.cert, c.key)
	if err == nil {
		err = os.WriteFile(c.file("list.crl"), pem.EncodeToMemory(&pem.Block{Type: "X509 CRL", Bytes: der}), 0o600)
	}
	if err != nil {
		c.t.Fatal(err)
	}
	return c.file("list.crl")
}

// echo answers every message of a stream with one.
type echo struct {
	p4pb.UnimplementedP4RuntimeServer
}

func (echo) Capabilities(context.Context, *p4pb.CapabilitiesRequest) (*p4pb.CapabilitiesResponse, error) {
	return &p4pb.CapabilitiesResponse{P4RuntimeApiVersion: "1"}, nil
}

func (echo) StreamChannel(s p4pb.P4Runtime_StreamChannelServer) error {
	for {
		if _, err := s.Recv(); err != nil {
			return err
		}
		if err := s.Send(&p4pb.StreamMessageResponse{}); err != nil {
			return err
		}
	}
}

// Read answers with two messages, the second only when the first was read and the next is due.
func (echo) Read(_ *p4pb.ReadRequest, s p4pb.P4Runtime_ReadServer) error {
	for {
		if err := s.Send(&p4pb.ReadResponse{}); err != nil {
			return err
		}
		select {
		case <-s.Context().Done():
			return nil
		case <-time.After(5 * time.Millisecond):
		}
	}
}

// pair is a server and a client with separate clocks for their certificates.
type pair struct {
	client           p4pb.P4RuntimeClient
	serverC, clientC clockwork
}

func newPair(t *testing.T, server, client *Files, limits Limits) *pair {
	t.Helper()
	p := &pair{}
	p.serverC.now, p.clientC.now = time.Now(), time.Now()
	own, err := server.load(nil)
	if err != nil {
		t.Fatal(err)
	}
	own.now = p.serverC.Now
	if own.revoked != nil {
		own.revoked.now = p.serverC.Now
	}
	limits.setDefaults()
	raw, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	lis, opts := protected(raw, own,
		ServerConfig{Files: server, Policy: SwitchPolicy, Limits: limits, Log: slog.New(slog.DiscardHandler)})
	g := grpc.NewServer(opts...)
	p4pb.RegisterP4RuntimeServer(g, echo{})
	served := make(chan struct{})
	go func() { defer close(served); _ = g.Serve(lis) }()
	t.Cleanup(func() { g.Stop(); <-served })
	mine, err := client.load(nil)
	if err != nil {
		t.Fatal(err)
	}
	mine.now = p.clientC.Now
	conn, err := grpc.NewClient("passthrough:///"+raw.Addr().String(), grpc.WithTransportCredentials(mine.client()))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { conn.Close() })
	p.client = p4pb.NewP4RuntimeClient(conn)
	return p
}

func (p *pair) call(t *testing.T, opts ...grpc.CallOption) error {
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	_, err := p.client.Capabilities(ctx, &p4pb.CapabilitiesRequest{}, opts...)
	return err
}

const far = 1000 * 24 * time.Hour

func TestAClientWhoseCertificateExpiresWhileItIsConnectedIsRefused(t *testing.T) {
	now := time.Now()
	for name, tt := range map[string]struct {
		authority, client, list time.Time
		want                    string
		code                    codes.Code
	}{
		"its own certificate": {now.Add(far), now.Add(time.Hour), now.Add(far), `certificate "client" has expired`,
			codes.Unauthenticated},
		"the authority's": {now.Add(time.Hour), now.Add(far), now.Add(far), `certificate "authority" has expired`,
			codes.Unauthenticated},
		"the list of revoked ones": {now.Add(far), now.Add(far), now.Add(time.Hour), "was to be renewed by",
			codes.Unauthenticated},
		"nothing, in the same hours": {now.Add(far), now.Add(far), now.Add(far), "", codes.OK},
	} {
		t.Run(name, func(t *testing.T) {
			c := newChain(t, tt.authority)
			server := c.issue("server", now.Add(far))
			server.CRL = c.list(tt.list)
			p := newPair(t, server, c.issue("client", tt.client), Limits{})
			ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
			defer cancel()
			stream, err := p.client.StreamChannel(ctx)
			if err != nil {
				t.Fatal(err)
			}
			speak := func() error {
				if err := stream.Send(&p4pb.StreamMessageRequest{}); err != nil && !errors.Is(err, io.EOF) {
					return err
				}
				_, err := stream.Recv()
				return err
			}
			reading, err := p.client.Read(ctx, &p4pb.ReadRequest{})
			if err == nil {
				_, err = reading.Recv()
			}
			if err := errors.Join(err, p.call(t), speak()); err != nil {
				t.Fatalf("before: %v", err)
			}
			p.serverC.set(now.Add(2 * time.Hour))
			refused := func(what string, err error) {
				t.Helper()
				if status.Code(err) != tt.code || err != nil && !strings.Contains(status.Convert(err).Message(), tt.want) {
					t.Errorf("%s: %v, want %v with %q", what, err, tt.code, tt.want)
				}
			}
			refused("a new call", p.call(t))
			refused("a message on an open stream", speak())
			var last error
			for range 20 {
				if _, last = reading.Recv(); last != nil {
					break
				}
			}
			refused("messages to it", last)
		})
	}
}

func TestAServerWhoseCertificateExpiresWhileItIsConnectedIsLeft(t *testing.T) {
	now := time.Now()
	for name, authority := range map[string]time.Time{"its own certificate": now.Add(far),
		"the authority's": now.Add(time.Hour)} {
		t.Run(name, func(t *testing.T) {
			c := newChain(t, authority)
			end := now.Add(time.Hour)
			if authority.Equal(end) {
				end = now.Add(far)
			}
			p := newPair(t, c.issue("server", end), c.issue("client", now.Add(far)), Limits{})
			ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
			defer cancel()
			reading, err := p.client.Read(ctx, &p4pb.ReadRequest{})
			if err == nil {
				_, err = reading.Recv()
			}
			if err := errors.Join(err, p.call(t)); err != nil {
				t.Fatalf("before: %v", err)
			}
			p.clientC.set(now.Add(2 * time.Hour)) // the server doesn't know yet
			for range 10000 {
				if _, err = reading.Recv(); err != nil {
					break
				}
			}
			if status.Code(err) != codes.Unavailable || !strings.Contains(err.Error(), "has expired") {
				t.Errorf("messages from it: %v", err)
			}
			if err := p.call(t); status.Code(err) != codes.Unavailable {
				t.Errorf("a new call: %v", err)
			}
			p.clientC.set(now)
			if err := p.call(t, grpc.WaitForReady(true)); err != nil {
				t.Errorf("with the clock set right: %v", err)
			}
			p.serverC.set(now.Add(2 * time.Hour))
			if err := p.call(t); err == nil || !strings.Contains(err.Error(), "has expired") {
				t.Errorf("a call to a server that knows it: %v", err)
			}
		})
	}
}

func TestARevokedServerIsLeft(t *testing.T) {
	now := time.Now()
	c := newChain(t, now.Add(far))
	server, client := c.issue("server", now.Add(far)), c.issue("client", now.Add(far))
	client.CRL = c.list(now.Add(far))
	p := newPair(t, server, client, Limits{})
	if err := p.call(t); err != nil {
		t.Fatal(err)
	}
	data, err := os.ReadFile(server.Cert)
	if err != nil {
		t.Fatal(err)
	}
	block, _ := pem.Decode(data)
	cert, err := x509.ParseCertificate(block.Bytes)
	if err != nil {
		t.Fatal(err)
	}
	der, err := x509.CreateRevocationList(rand.Reader,
		&x509.RevocationList{Number: big.NewInt(2), ThisUpdate: now, NextUpdate: now.Add(far),
			RevokedCertificateEntries: []x509.RevocationListEntry{{SerialNumber: cert.SerialNumber, RevocationTime: now}}},
		c.cert, c.key)
	if err == nil {
		err = os.WriteFile(client.CRL, pem.EncodeToMemory(&pem.Block{Type: "X509 CRL", Bytes: der}), 0o600)
	}
	if err != nil {
		t.Fatal(err)
	}
	p.clientC.set(now.Add(2 * recheck))
	if err := p.call(t); status.Code(err) != codes.Unavailable || !strings.Contains(err.Error(), "revoked") {
		t.Errorf("a call on an open connection: %v", err)
	}
}

func TestARenewedCertificateIsUsedWithoutARestart(t *testing.T) {
	now := time.Now()
	c := newChain(t, now.Add(far))
	server := c.issue("server", now.Add(time.Hour))
	own, err := server.load(nil)
	if err != nil {
		t.Fatal(err)
	}
	clock := clockwork{now: now}
	own.now = clock.Now
	before := own.current().Leaf.SerialNumber
	c.issue("server", now.Add(far))
	clock.set(now.Add(2 * recheck))
	if after := own.current().Leaf; after.SerialNumber.Cmp(before) == 0 || after.NotAfter.Before(now.Add(2*time.Hour)) {
		t.Errorf("it still has that until %v", after.NotAfter)
	}
	// While one of the files is replaced the two don't fit.
	fits := own.current().Leaf.SerialNumber
	if err := os.WriteFile(server.Key, []byte("half"), 0o600); err != nil {
		t.Fatal(err)
	}
	clock.set(now.Add(4 * recheck))
	if own.current().Leaf.SerialNumber.Cmp(fits) != 0 {
		t.Error("files that don't fit are used")
	}
}

func TestServersWarnAMonthAhead(t *testing.T) {
	now := time.Now()
	day := 24 * time.Hour
	for name, tt := range map[string]struct {
		cert, authority, list time.Duration
		want                  []string
		not                   string
	}{
		"nothing": {31 * day, 31 * day, 31 * day, nil, "expire"},
		"the certificate": {29 * day, far, far,
			[]string{"level=WARN", "the certificate expires soon", "days-left=29", "pki renew"}, "authority"},
		"the authority":         {far, 20 * day, far, []string{"the authority expires soon", "ca.pem"}, "the certificate"},
		"the list":              {far, far, day, []string{"the revocation list expires soon", "list.crl"}, "authority"},
		"what has been too old": {-time.Minute, far, far, []string{"level=ERROR", "the certificate has expired"}, "soon"},
	} {
		t.Run(name, func(t *testing.T) {
			c := newChain(t, now.Add(tt.authority+time.Minute))
			files := c.issue("server", now.Add(tt.cert+time.Minute/2))
			files.CRL = c.list(now.Add(tt.list + time.Minute))
			own, err := files.load(nil)
			if err != nil {
				t.Fatal(err)
			}
			clock := clockwork{now: now}
			own.now = clock.Now
			if tt.cert < 0 {
				clock.now = now.Add(time.Minute)
			}
			var log bytes.Buffer
			own.warn(slog.New(slog.NewTextHandler(&log, nil)))
			for _, want := range tt.want {
				if !strings.Contains(log.String(), want) {
					t.Errorf("it does not say %q:\n%s", want, log.String())
				}
			}
			if strings.Contains(log.String(), tt.not) {
				t.Errorf("it says %q:\n%s", tt.not, log.String())
			}
		})
	}
}

// A day takes a millisecond here.
func TestServersRepeatTheirWarnings(t *testing.T) {
	c := newChain(t, time.Now().Add(far))
	own, err := c.issue("server", time.Now().Add(time.Hour)).load(nil)
	if err != nil {
		t.Fatal(err)
	}
	raw, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	reader, writer := io.Pipe()
	g := newGate(raw, addressOf, ServerConfig{Log: slog.New(slog.NewTextHandler(writer, nil))})
	done := make(chan struct{})
	go func() { defer close(done); g.watch(own, time.Millisecond) }()
	text, buffer := "", make([]byte, 4096)
	for strings.Count(text, "expires soon") < 3 {
		n, err := reader.Read(buffer)
		if err != nil {
			t.Fatal(err)
		}
		text += string(buffer[:n])
	}
	reader.Close()
	if err := g.Close(); err != nil {
		t.Error(err)
	}
	<-done
}
