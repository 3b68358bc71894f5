package main

import (
	"bytes"
	"context"
	"fmt"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"google.golang.org/grpc"

	"candela.dev/candela/injector"
	"candela.dev/candela/injector/transport"
	"candela.dev/candela/injector/xdp"
	"candela.dev/candela/link/linktest"
	"candela.dev/candela/orchestrator"
)

func TestSwitchdServesAControllerUntilItIsInterrupted(t *testing.T) {
	for _, datapath := range []string{"xdp", "afpacket"} {
		t.Run(datapath, func(t *testing.T) {
			linktest.Namespace(t, func() { serveController(t, datapath) })
		})
	}
}

// serveController runs switchd on two ports and a mirror port of the current namespace, with a controller.
func serveController(t *testing.T, datapath string) {
	for i := range 3 {
		near, far := fmt.Sprintf("s%d", i), fmt.Sprintf("h%d", i)
		linktest.Veth(t, near, far)
		linktest.SetMTU(t, near, 2048)
		linktest.SetMTU(t, far, 2048)
		release, err := xdp.Pass(far)
		if err != nil {
			t.Fatal(err)
		}
		defer release.Close()
	}
	address := "unix:" + filepath.Join(t.TempDir(), "switchd.sock")
	ctx, interrupt := context.WithCancel(t.Context())
	defer interrupt()
	var controller sync.WaitGroup
	controller.Go(func() {
		defer interrupt()
		control(t, address)
	})
	var stdout, stderr bytes.Buffer
	// Interfaces belong to this thread's namespace; the socket does not.
	status := run(ctx, []string{"switchd", "--datapath", datapath, "--ports", "s0,s1", "--mirror", "s2", "--listen",
		address},
		&stdout, &stderr)
	interrupt()
	controller.Wait()
	if status != orchestrator.ExitPass {
		t.Errorf("exit status %d, want 0\n%s", status, &stderr)
	}
}

func control(t *testing.T, address string) {
	conn, err := transport.Dial(address, nil)
	if err != nil {
		t.Error(err)
		return
	}
	defer conn.Close()
	client := connectWithin(t, conn, time.Minute)
	defer client.Close()
	if _, err := client.Program(t.Context(), injector.Setup{FloodPorts: []uint16{0, 1}}, nil, nil); err != nil {
		t.Error(err)
	}
}

// connectWithin becomes primary as soon as the server accepts connections.
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
		{"switchd", "--ports", "eth1", "--listen", "192.0.2.1:9559"},
		{"switchd", "--ports", "eth1", "--listen", "127.0.0.1:9559"},
		{"switchd", "--cert", "a.pem"},
	} {
		status, _, stderr := candela(t, args...)
		if status != orchestrator.ExitUsage || !strings.Contains(stderr, "TCP needs mutual TLS") &&
			!strings.Contains(stderr, "go together") {
			t.Errorf("%v: exit status %d, %s", args, status, stderr)
		}
	}
}
