package softswitch

import (
	"context"
	"net"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"

	injectorpb "candela.dev/candela/proto/injector/v1"
)

func TestOpenNamesWhatItCannotTake(t *testing.T) {
	for _, tc := range []struct {
		name string
		cfg  Config
		says []string
	}{
		{"an unknown datapath, before any interface is touched", Config{Datapath: "dpdk", Ports: []string{"nosuch0"}},
			[]string{`"dpdk"`, "xdp, afpacket, qemu"}},
		{"an interface that is not there", Config{Datapath: AFPacket, Ports: []string{"nosuch0"}}, []string{`"nosuch0"`}},
		{"a socket's directory that is not there", Config{Datapath: QEMU, Ports: []string{"/nosuch/a"}},
			[]string{"/nosuch/a"}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			s, err := Open(tc.cfg)
			if err == nil {
				t.Fatalf("it opened, and closed with %v", s.Close())
			}
			for _, want := range tc.says {
				if !strings.Contains(err.Error(), want) {
					t.Errorf("%q does not say %s", err, want)
				}
			}
		})
	}
}

// A switch between two virtual machines needs no privilege. datapathtest checks what it does to packets.
func TestARunningSwitchTellsWhatItIsAndLeavesNothingBehind(t *testing.T) {
	dir := t.TempDir()
	a, b := filepath.Join(dir, "a"), filepath.Join(dir, "b")
	s, err := Open(Config{Datapath: QEMU, Ports: []string{a, b}, DeviceID: 7, Version: "test"})
	if err != nil {
		t.Fatal(err)
	}
	lis, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	served := make(chan error, 1)
	go func() { served <- s.Serve(ctx, lis) }()
	t.Cleanup(func() {
		cancel()
		if err := <-served; err != nil {
			t.Errorf("Serve ended with %v, want nil when it was told to stop", err)
		}
		if err := s.Close(); err != nil {
			t.Error(err)
		}
		if left, _ := filepath.Glob(filepath.Join(dir, "*")); len(left) > 0 {
			t.Errorf("the closed switch leaves %v", left)
		}
	})

	conn, err := grpc.NewClient(lis.Addr().String(), grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = conn.Close() }()
	client := injectorpb.NewStatusClient(conn)
	said, err := client.Describe(t.Context(), &injectorpb.DescribeRequest{})
	if err != nil {
		t.Fatal(err)
	}
	if said.Datapath != QEMU || said.Version != "test" {
		t.Errorf("the switch says datapath %q, version %q; want %q, test", said.Datapath, said.Version, QEMU)
	}
	if i := slices.IndexFunc(said.Properties, func(p *injectorpb.Property) bool { return p.Name == "ports" }); i < 0 ||
		said.Properties[i].Value != a+", "+b {
		t.Errorf("properties %v do not name the ports %s, %s", said.Properties, a, b)
	}
	losses, err := client.Losses(t.Context(), &injectorpb.LossesRequest{})
	if err != nil || len(losses.Ports) != 2 || losses.Ports[1].Interface != b || losses.Ports[1].Unsent != 0 {
		t.Errorf("losses are %v (%v), want none, of two ports", losses, err)
	}
}
