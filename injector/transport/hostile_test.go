package transport_test

import (
	"context"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	p4pb "github.com/p4lang/p4runtime/go/p4/v1"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"candela.dev/candela/injector/transport"
	"candela.dev/candela/injector/transport/pki"
)

func lab(t *testing.T, dir string) *pki.Authority {
	t.Helper()
	a, err := pki.Create(filepath.Join(dir, "lab"), "lab", time.Now)
	if err != nil {
		t.Fatal(err)
	}
	return a
}

func issued(t *testing.T, a *pki.Authority, name string, role transport.Role) transport.Files {
	t.Helper()
	files, err := a.Issue(name, role, []string{"127.0.0.1"})
	if err != nil {
		t.Fatal(err)
	}
	return files
}

// A name may resolve to this machine when it is checked and to another one when it is dialled.
func TestWithoutTLSTheAddressThatWasCheckedIsDialled(t *testing.T) {
	conn, err := transport.DialForeign("localhost:9559", nil)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	host, _, err := net.SplitHostPort(strings.TrimPrefix(conn.Target(), "passthrough:///"))
	if ip := net.ParseIP(host); err != nil || ip == nil || !ip.IsLoopback() {
		t.Errorf("it dials %s, %v", conn.Target(), err)
	}
}

// A stream is one call, and may be older than the list that revokes its caller.
func TestWhoIsRevokedIsHeardNoMoreOnAStreamThatIsOpen(t *testing.T) {
	dir := t.TempDir()
	a := lab(t, dir)
	serverFiles := issued(t, a, "server", transport.Switch)
	client := issued(t, a, "client", transport.Orchestrator)
	client.ServerRole, client.CRL = transport.Switch, ""
	lis, opts, err := transport.Listen("127.0.0.1:0",
		transport.ServerConfig{Files: &serverFiles, Policy: transport.SwitchPolicy})
	if err != nil {
		t.Fatal(err)
	}
	serve(t, lis, opts)
	conn, err := transport.Dial(lis.Addr().String(), &client)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	stream, err := p4pb.NewP4RuntimeClient(conn).StreamChannel(ctx)
	if err != nil {
		t.Fatal(err)
	}
	arbitrate := func(id uint64) error {
		update := &p4pb.MasterArbitrationUpdate{DeviceId: 1, ElectionId: &p4pb.Uint128{Low: id}}
		if err := stream.Send(
			&p4pb.StreamMessageRequest{Update: &p4pb.StreamMessageRequest_Arbitration{Arbitration: update}}); err != nil {
			return err
		}
		_, err := stream.Recv()
		return err
	}
	if err := arbitrate(1); err != nil {
		t.Fatalf("before: %v", err)
	}
	before, err := os.Stat(serverFiles.CRL)
	if err != nil {
		t.Fatal(err)
	}
	if err := a.Revoke("client"); err != nil {
		t.Fatal(err)
	}
	// A list that replaces one written in the same tick of the kernel's clock has the same time.
	if err := os.Chtimes(serverFiles.CRL, before.ModTime(), before.ModTime()); err != nil {
		t.Fatal(err)
	}
	if err := arbitrate(2); status.Code(err) != codes.Unauthenticated || !strings.Contains(err.Error(), "revoked") {
		t.Errorf("after: %v", err)
	}
}

// A killed server leaves its socket; the next one must start nevertheless, but never replace one that is running.
func TestASocketThatNobodyServesIsReplaced(t *testing.T) {
	path := filepath.Join(t.TempDir(), "s")
	dead, err := net.ListenUnix("unix", &net.UnixAddr{Name: path, Net: "unix"})
	if err != nil {
		t.Fatal(err)
	}
	dead.SetUnlinkOnClose(false)
	if err := dead.Close(); err != nil {
		t.Fatal(err)
	}
	alive, _, err := transport.Listen("unix:"+path, transport.ServerConfig{Policy: transport.SwitchPolicy})
	if err != nil {
		t.Fatalf("after a kill: %v", err)
	}
	defer alive.Close()
	if other, _, err := transport.Listen("unix:"+path,
		transport.ServerConfig{Policy: transport.SwitchPolicy}); err == nil {
		other.Close()
		t.Error("it takes the place of a server that lives")
	}
	file := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(file, []byte("precious"), 0o600); err != nil {
		t.Fatal(err)
	}
	if lis, _, err := transport.Listen("unix:"+file, transport.ServerConfig{Policy: transport.SwitchPolicy}); err == nil {
		lis.Close()
		t.Error("it takes the place of a file")
	}
	if text, err := os.ReadFile(file); err != nil || string(text) != "precious" {
		t.Errorf("the file is %q, %v", text, err)
	}
}
