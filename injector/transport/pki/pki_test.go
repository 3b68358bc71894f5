package pki_test

import (
	"context"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	p4pb "github.com/p4lang/p4runtime/go/p4/v1"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"candela.dev/candela/injector/pipeline"
	"candela.dev/candela/injector/switchd"
	"candela.dev/candela/injector/transport"
	"candela.dev/candela/injector/transport/pki"
)

var loopback = []string{"127.0.0.1"}

func create(t *testing.T) (*pki.Authority, string) {
	t.Helper()
	dir := filepath.Join(t.TempDir(), "lab")
	a, err := pki.Create(dir, "lab", time.Now)
	if err != nil {
		t.Fatal(err)
	}
	return a, dir
}

func issue(t *testing.T, a *pki.Authority, name string, role transport.Role, hosts []string) *transport.Files {
	t.Helper()
	f, err := a.Issue(name, role, hosts)
	if err != nil {
		t.Fatal(err)
	}
	return &f
}

// serve runs a switch with the server's files and returns its address.
func serve(t *testing.T, files *transport.Files) string {
	t.Helper()
	lis, opts, err := transport.Listen("127.0.0.1:0", transport.ServerConfig{Files: files, Policy: transport.SwitchPolicy})
	if err != nil {
		t.Fatal(err)
	}
	p, err := pipeline.New(pipeline.Config{Ports: 2})
	if err != nil {
		t.Fatal(err)
	}
	server, err := switchd.New(switchd.Config{DeviceID: 1, Datapath: p})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	served := make(chan error, 1)
	go func(lis net.Listener, opts []grpc.ServerOption) { served <- server.Serve(ctx, lis, opts...) }(lis, opts)
	t.Cleanup(func() {
		cancel()
		if err := <-served; err != nil {
			t.Error(err)
		}
	})
	return lis.Addr().String()
}

func dial(t *testing.T, address string, files *transport.Files) (p4pb.P4RuntimeClient, func()) {
	t.Helper()
	conn, err := transport.Dial(address, files)
	if err != nil {
		t.Fatal(err)
	}
	return p4pb.NewP4RuntimeClient(conn), func() { _ = conn.Close() }
}

// calls returns how a read and a write end.
func calls(t *testing.T, address string, files *transport.Files) (read, write error) {
	t.Helper()
	client, done := dial(t, address, files)
	defer done()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	_, read = client.Capabilities(ctx, &p4pb.CapabilitiesRequest{})
	_, write = client.Write(ctx, &p4pb.WriteRequest{DeviceId: 1})
	return read, write
}

func TestARoleMayDoWhatItMayDo(t *testing.T) {
	a, _ := create(t)
	address := serve(t, issue(t, a, "switch", transport.Agent, loopback))
	for _, tt := range []struct {
		role        transport.Role
		read, write bool // refused for want of the role
	}{
		{transport.Orchestrator, false, false}, {transport.Viewer, false, true}, {transport.Agent, true, true},
	} {
		t.Run(string(tt.role), func(t *testing.T) {
			read, write := calls(t, address, issue(t, a, "client-"+string(tt.role), tt.role, loopback))
			if got := status.Code(read) == codes.PermissionDenied; got != tt.read {
				t.Errorf("read: %v", read)
			}
			// The switch refuses writes of a client that is not its primary controller: distinguish the reasons.
			if got := strings.Contains(status.Convert(write).Message(), "candela:role:"+string(tt.role)); got != tt.write {
				t.Errorf("write: %v; want it refused for the role: %v", write, tt.write)
			}
		})
	}
}

func TestAServerMustBeAnAgentWhereThatIsAskedFor(t *testing.T) {
	a, _ := create(t)
	client := issue(t, a, "client", transport.Orchestrator, nil)
	client.ServerRole = transport.Agent
	if read, _ := calls(t, serve(t, issue(t, a, "switch", transport.Agent, loopback)), client); read != nil {
		t.Error(read)
	}
	read, _ := calls(t, serve(t, issue(t, a, "impostor", transport.Orchestrator, loopback)), client)
	if status.Code(read) != codes.Unavailable || !strings.Contains(read.Error(), "role") {
		t.Errorf("a server with another role: %v", read)
	}
}

func TestARevokedCertificateIsRefusedAtItsNextCall(t *testing.T) {
	a, dir := create(t)
	address := serve(t, issue(t, a, "switch", transport.Agent, loopback))
	client, done := dial(t, address, issue(t, a, "client", transport.Orchestrator, nil))
	defer done()
	if _, err := client.Capabilities(t.Context(), &p4pb.CapabilitiesRequest{}); err != nil {
		t.Fatal(err)
	}
	if err := a.Revoke("client"); err != nil {
		t.Fatal(err)
	}
	_, err := client.Capabilities(t.Context(), &p4pb.CapabilitiesRequest{})
	if status.Code(err) != codes.Unauthenticated || !strings.Contains(err.Error(), "revoked") {
		t.Errorf("after its revocation: %v", err)
	}
	if _, err := os.Stat(filepath.Join(dir, "client.key")); err == nil {
		t.Error("the key of a revoked certificate is still there")
	}
	// The name is free, and its new certificate is a different one.
	if read, _ := calls(t, address, issue(t, a, "client", transport.Orchestrator, nil)); read != nil {
		t.Error(read)
	}
}

func TestAListThatCannotBeReadLetsNobodyIn(t *testing.T) {
	a, dir := create(t)
	address := serve(t, issue(t, a, "switch", transport.Agent, loopback))
	files := issue(t, a, "client", transport.Orchestrator, nil)
	files.CRL = ""
	list := filepath.Join(dir, "revoked.crl")
	if err := os.WriteFile(list, []byte("nonsense"), 0o600); err != nil {
		t.Fatal(err)
	}
	if read, _ := calls(t, address, files); status.Code(read) != codes.Unauthenticated {
		t.Errorf("with a spoilt list: %v", read)
	}
	if err := os.Remove(list); err != nil {
		t.Fatal(err)
	}
	if read, _ := calls(t, address, files); status.Code(read) != codes.Unauthenticated {
		t.Errorf("without the list: %v", read)
	}
}

func TestWhatAnAuthorityRefuses(t *testing.T) {
	a, dir := create(t)
	if _, err := pki.Create(dir, "again", time.Now); err == nil {
		t.Error("a second authority in one directory")
	}
	issue(t, a, "one", transport.Viewer, nil)
	for name, try := range map[string]func() error{
		"a path":                    func() error { _, err := a.Issue("../one", transport.Viewer, nil); return err },
		"the authority's own name":  func() error { _, err := a.Issue("ca", transport.Viewer, nil); return err },
		"a name that is taken":      func() error { _, err := a.Issue("one", transport.Viewer, nil); return err },
		"an unknown role":           func() error { _, err := a.Issue("two", "king", nil); return err },
		"an agent without address":  func() error { _, err := a.Issue("two", transport.Agent, nil); return err },
		"revoking what isn't there": func() error { return a.Revoke("two") },
		"revoking a path":           func() error { return a.Revoke("../x") },
	} {
		if err := try(); err == nil {
			t.Errorf("%s: accepted", name)
		}
	}
	info, err := os.Stat(filepath.Join(dir, "ca.key"))
	if err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("the authority's key: %v, %v", info, err)
	}
}
