package main

import (
	"bytes"
	"context"
	"net"
	"strings"
	"sync"
	"testing"
	"time"

	"google.golang.org/grpc"

	"candela.dev/candela/injector"
	"candela.dev/candela/injector/transport"
	"candela.dev/candela/orchestrator"
)

// freeAddress returns a loopback address that nobody listens on.
func freeAddress(t *testing.T) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	return l.Addr().String()
}

func TestSwitchdServesAControllerUntilItIsInterrupted(t *testing.T) {
	address := freeAddress(t)
	ctx, interrupt := context.WithCancel(t.Context())
	defer interrupt()
	var stdout, stderr bytes.Buffer
	var status orchestrator.Exit
	var wg sync.WaitGroup
	wg.Go(func() { status = run(ctx, []string{"switchd", "--listen", address}, &stdout, &stderr) })

	conn, err := transport.Dial(address, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	client := connectWithin(t, conn, 5*time.Second)
	if _, err := client.Program(t.Context(), injector.Setup{FloodPorts: []uint16{0, 1}}, nil, nil); err != nil {
		t.Error(err)
	}
	client.Close()
	interrupt()
	wg.Wait()
	if status != orchestrator.ExitPass {
		t.Errorf("exit status %d, want 0\n%s", status, &stderr)
	}
}

// connectWithin becomes primary as soon as the server is up.
func connectWithin(t *testing.T, conn grpc.ClientConnInterface, limit time.Duration) *injector.Client {
	t.Helper()
	deadline := time.Now().Add(limit)
	for {
		client, err := injector.Connect(t.Context(), conn, injector.Config{Target: "switchd", DeviceID: 1, ElectionLow: 1})
		if err == nil {
			return client
		}
		if time.Now().After(deadline) {
			t.Fatalf("no session within %v, last: %v", limit, err)
		}
		time.Sleep(10 * time.Millisecond)
	}
}

func TestSwitchdRefusesToServeTheNetworkWithoutTLS(t *testing.T) {
	for _, args := range [][]string{
		{"switchd", "--listen", "192.0.2.1:9559"},
		{"switchd", "--cert", "a.pem"},
	} {
		status, _, stderr := candela(t, args...)
		if status != orchestrator.ExitUsage || !strings.Contains(stderr, "loopback") && !strings.Contains(stderr, "go together") {
			t.Errorf("%v: exit status %d, %s", args, status, stderr)
		}
	}
}
