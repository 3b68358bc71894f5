package transport_test

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"errors"
	"math/big"
	"net"
	"net/url"
	"os"
	"path/filepath"
	"testing"
	"time"

	p4pb "github.com/p4lang/p4runtime/go/p4/v1"
	"go.uber.org/goleak"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"candela.dev/candela/injector/pipeline"
	"candela.dev/candela/injector/switchd"
	"candela.dev/candela/injector/transport"
)

func TestMain(m *testing.M) {
	if task := os.Getenv(asUser); task != "" {
		os.Exit(beAnotherUser(task))
	}
	goleak.VerifyTestMain(m)
}

// asUser gives this process, a copy of the test, its user and task: "UID GID call|serve PATH".
const asUser = "CANDELA_TEST_AS_USER"

func TestTCPWithoutTLSIsRefusedOnLoopbackToo(t *testing.T) {
	for _, address := range []string{":0", "0.0.0.0:0", "192.0.2.1:9559", "[::]:0", "127.0.0.1:0", "localhost:9559",
		"[::1]:0"} {
		if _, _, err := transport.Listen(address, transport.ServerConfig{Policy: transport.SwitchPolicy}); !errors.Is(err,
			transport.ErrInsecure) {
			t.Errorf("listen on %s: %v", address, err)
		}
		if _, err := transport.Dial(address, nil); !errors.Is(err, transport.ErrInsecure) {
			t.Errorf("dial %s: %v", address, err)
		}
	}
	for _, address := range []string{":0", "0.0.0.0:0", "192.0.2.1:9559", "[::]:0"} {
		if _, err := transport.DialForeign(address, nil); !errors.Is(err, transport.ErrInsecure) {
			t.Errorf("a third-party server at %s: %v", address, err)
		}
	}
	if _, _, err := transport.Listen("127.0.0.1", transport.ServerConfig{Policy: transport.SwitchPolicy}); err == nil {
		t.Error("an address without port is accepted")
	}
}

func TestFilesMustBeWhole(t *testing.T) {
	dir := t.TempDir()
	ca := newAuthority(t, dir, "ca")
	good := ca.issue(t, dir, "server")
	empty := filepath.Join(dir, "empty")
	if err := os.WriteFile(empty, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	for name, files := range map[string]transport.Files{
		"no key":             {Cert: good.Cert, CA: good.CA},
		"no such file":       {Cert: "nowhere", Key: good.Key, CA: good.CA},
		"no such authority":  {Cert: good.Cert, Key: good.Key, CA: "nowhere"},
		"an empty authority": {Cert: good.Cert, Key: good.Key, CA: empty},
	} {
		if _, _, err := transport.Listen("127.0.0.1:0",
			transport.ServerConfig{Files: &files, Policy: transport.SwitchPolicy}); err == nil {
			t.Errorf("%s: accepted", name)
		}
	}
}

func TestMutualTLSLetsOnlyCertifiedClientsIn(t *testing.T) {
	dir := t.TempDir()
	ours, others := newAuthority(t, dir, "ours"), newAuthority(t, dir, "others")
	serverFiles := ours.issue(t, dir, "server")
	stranger := others.issue(t, dir, "stranger")
	stranger.CA = serverFiles.CA // it trusts the server, but not the other way round
	lis, opts, err := transport.Listen("127.0.0.1:0",
		transport.ServerConfig{Files: &serverFiles, Policy: transport.SwitchPolicy})
	if err != nil {
		t.Fatal(err)
	}
	serve(t, lis, opts)
	client := ours.issue(t, dir, "client")
	distrustful := ours.issue(t, dir, "distrustful")
	distrustful.CA = others.file
	for _, tt := range []struct {
		name  string
		files *transport.Files
		want  codes.Code
	}{
		{"a client of our authority", &client, codes.OK},
		{"a client of another authority", &stranger, codes.Unavailable},
		{"a client that does not trust our authority", &distrustful, codes.Unavailable},
		{"a client without TLS", nil, codes.Unavailable},
	} {
		if got := capabilities(t, lis.Addr().String(), tt.files); status.Code(got) != tt.want {
			t.Errorf("%s: %v, want %v", tt.name, got, tt.want)
		}
	}
}

func TestAUnixSocketNeedsNoTLS(t *testing.T) {
	address := "unix:" + filepath.Join(t.TempDir(), "s")
	lis, opts, err := transport.Listen(address, transport.ServerConfig{Policy: transport.SwitchPolicy})
	if err != nil {
		t.Fatal(err)
	}
	serve(t, lis, opts)
	if err := capabilities(t, address, nil); err != nil {
		t.Error(err)
	}
}

func newSwitch() (*switchd.Server, error) {
	pipe, err := pipeline.New(pipeline.Config{Ports: 2})
	if err != nil {
		return nil, err
	}
	return switchd.New(switchd.Config{DeviceID: 1, Datapath: pipe})
}

func serve(t *testing.T, lis net.Listener, opts []grpc.ServerOption) {
	t.Helper()
	server, err := newSwitch()
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	served := make(chan error, 1)
	go func() { served <- server.Serve(ctx, lis, opts...) }()
	t.Cleanup(func() {
		cancel()
		if err := <-served; err != nil {
			t.Error(err)
		}
	})
}

func capabilities(t *testing.T, address string, files *transport.Files) error {
	t.Helper()
	dial := transport.Dial
	if files == nil {
		dial = transport.DialForeign // without TLS
	}
	conn, err := dial(address, files)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	_, err = p4pb.NewP4RuntimeClient(conn).Capabilities(ctx, &p4pb.CapabilitiesRequest{})
	return err
}

// authority issues certificates for tests.
type authority struct {
	cert *x509.Certificate
	key  *ecdsa.PrivateKey
	file string
}

func template(name string, serial int64) *x509.Certificate {
	return &x509.Certificate{
		SerialNumber: big.NewInt(serial), Subject: pkix.Name{CommonName: name},
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour),
		IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)}, BasicConstraintsValid: true,
		URIs:        []*url.URL{transport.Orchestrator.URI()},
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth},
	}
}

func newAuthority(t *testing.T, dir, name string) *authority {
	t.Helper()
	tmpl := template(name, 1)
	tmpl.IsCA, tmpl.KeyUsage = true, x509.KeyUsageCertSign
	key := newKey(t)
	der, err := x509.CreateCertificate(rand.Reader, tmpl, tmpl, key.Public(), key)
	if err != nil {
		t.Fatal(err)
	}
	cert, err := x509.ParseCertificate(der)
	if err != nil {
		t.Fatal(err)
	}
	return &authority{cert, key, writePEM(t, dir, name+".pem", "CERTIFICATE", der)}
}

func (a *authority) issue(t *testing.T, dir, name string) transport.Files {
	t.Helper()
	key := newKey(t)
	der, err := x509.CreateCertificate(rand.Reader, template(name, 2), a.cert, key.Public(), a.key)
	if err != nil {
		t.Fatal(err)
	}
	keyDER, err := x509.MarshalECPrivateKey(key)
	if err != nil {
		t.Fatal(err)
	}
	return transport.Files{Cert: writePEM(t, dir, name+".crt", "CERTIFICATE", der),
		Key: writePEM(t, dir, name+".key", "EC PRIVATE KEY", keyDER), CA: a.file}
}

func newKey(t *testing.T) *ecdsa.PrivateKey {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	return key
}

func writePEM(t *testing.T, dir, name, kind string, der []byte) string {
	t.Helper()
	path := filepath.Join(dir, name)
	if err := os.WriteFile(path, pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: der}), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}
