package lab_test

import (
	"context"
	"errors"
	"net"
	"net/netip"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc"

	"candela.dev/candela/injector/transport"
	"candela.dev/candela/injector/transport/pki"
	agentpb "candela.dev/candela/proto/agent/v1"
	injectorpb "candela.dev/candela/proto/injector/v1"
	"candela.dev/candela/testbeds"
	"candela.dev/candela/testbeds/lab"
)

func spec() testbeds.Spec {
	ip := [2]netip.Addr{netip.MustParseAddr("10.0.0.2"), netip.MustParseAddr("10.0.0.1")}
	return testbeds.Spec{Hosts: [2]testbeds.Host{{Name: "requester", Profile: "spec"},
		{Name: "responder", Profile: "spec"}},
		Connections: []testbeds.Connection{{IPs: ip, MTU: 1024}},
		Dumpers:     []testbeds.Dumper{{Name: "dumper-1", Weight: 1, Cores: 1}}}
}

// everywhere is a lab with all machines at one address.
func everywhere(address string) lab.Config {
	s := func(name string) lab.Station { return lab.Station{Name: name, Agent: address, Interface: "eth1"} }
	return lab.Config{Hosts: [2]lab.Station{s("requester"), s("responder")}, Dumpers: []lab.Station{s("dumper-1")},
		Switch: address, DeviceID: 1}
}

// A connection is opened on first use.
const nowhere = "unix:/nonexistent/s"

func TestAMachineThatCannotBeReachedIsNamed(t *testing.T) {
	for name, tt := range map[string]struct {
		change func(*lab.Config)
		want   string
	}{
		"a host without TLS":   {func(c *lab.Config) { c.Hosts[1].Agent = "192.0.2.1:9560" }, "lab: responder: "},
		"a dumper without TLS": {func(c *lab.Config) { c.Dumpers[0].Agent = "192.0.2.1:9560" }, "lab: dumper-1: "},
		"a switch without TLS": {func(c *lab.Config) { c.Switch = "192.0.2.1:9559" }, "lab: switch: "},
		"certificates that are gone": {func(c *lab.Config) {
			c.Hosts[0].Agent, c.Cert, c.Key, c.CA = "127.0.0.1:9", "no.pem", "no.key", "ca.pem"
		}, "lab: requester: "},
		"an address without port": {func(c *lab.Config) { c.Hosts[0].Agent = "127.0.0.1" }, "lab: requester: "},
		"a foreign switch, wrong TLS": {func(c *lab.Config) {
			c.Switch, c.Foreign = "127.0.0.1:9", &lab.Foreign{Files: &transport.Files{Cert: "no.pem"}}
		}, "lab: switch: "},
	} {
		cfg := everywhere(nowhere)
		tt.change(&cfg)
		if _, err := lab.New(spec(), cfg); err == nil || !strings.HasPrefix(err.Error(), tt.want) {
			t.Errorf("%s: %v, want %q", name, err, tt.want)
		}
	}
	for _, address := range []string{"192.0.2.1:9560", "0.0.0.0:9560", "127.0.0.1:9560"} {
		cfg := everywhere(address)
		if _, err := lab.New(spec(), cfg); !errors.Is(err, transport.ErrInsecure) {
			t.Errorf("%s without certificates: %v", address, err)
		}
	}
}

func TestALabOfOtherDumpersIsRefused(t *testing.T) {
	cfg := everywhere(nowhere)
	cfg.Dumpers = append(cfg.Dumpers, cfg.Dumpers[0])
	if _, err := lab.New(spec(), cfg); err == nil || !strings.Contains(err.Error(), "2 dumpers, the test wants 1") {
		t.Errorf("%v", err)
	}
}

// TestNoServerPassesForAnother checks that an agent's certificate is not accepted for a switch, and vice versa.
func TestNoServerPassesForAnother(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "lab")
	a, err := pki.Create(dir, "lab", time.Now)
	if err != nil {
		t.Fatal(err)
	}
	serve := func(name string, role transport.Role) string {
		files, err := a.Issue(name, role, []string{"127.0.0.1"})
		if err != nil {
			t.Fatal(err)
		}
		lis, opts, err := transport.Listen("127.0.0.1:0",
			transport.ServerConfig{Files: &files, Policy: func(string) []transport.Role {
				return []transport.Role{transport.Orchestrator}
			}})
		if err != nil {
			t.Fatal(err)
		}
		g := grpc.NewServer(opts...)
		agentpb.RegisterAgentServer(g, agentpb.UnimplementedAgentServer{})
		injectorpb.RegisterStatusServer(g, injectorpb.UnimplementedStatusServer{})
		done := make(chan struct{})
		go func() { defer close(done); _ = g.Serve(lis) }()
		t.Cleanup(func() { g.Stop(); <-done })
		return lis.Addr().(*net.TCPAddr).String()
	}
	host, sw := serve("host-1", transport.Agent), serve("switch-1", transport.Switch)
	client, err := a.Issue("nightly", transport.Orchestrator, nil)
	if err != nil {
		t.Fatal(err)
	}
	for name, tt := range map[string]struct {
		host, dumper, want string
	}{
		"a switch in place of a host":   {sw, host, `has not the role "agent"`},
		"a switch in place of a dumper": {host, sw, `has not the role "agent"`},
		"everybody in their place":      {host, host, "Lease not implemented"},
	} {
		cfg := everywhere(host)
		cfg.Hosts[0].Agent, cfg.Dumpers[0].Agent, cfg.Switch = tt.host, tt.dumper, sw
		cfg.Cert, cfg.Key, cfg.CA, cfg.CRL = client.Cert, client.Key, client.CA, client.CRL
		bed, err := lab.New(spec(), cfg)
		if err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		_, err = bed.Prepare(ctx)
		cancel()
		// gRPC adds quotes around a quoted error.
		if err == nil || !strings.Contains(strings.ReplaceAll(err.Error(), `\`, ""), tt.want) {
			t.Errorf("%s: %v, want %q", name, err, tt.want)
		}
		_ = bed.Close()
	}
}
