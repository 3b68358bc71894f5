// Package lab connects to the machines of a real laboratory: hosts and dumpers with agents, and an injector switch with
// P4Runtime. Package remote runs the tests.
package lab

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"strings"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"candela.dev/candela/agent"
	"candela.dev/candela/injector/p4"
	"candela.dev/candela/injector/transport"
	agentpb "candela.dev/candela/proto/agent/v1"
	"candela.dev/candela/testbeds"
	"candela.dev/candela/testbeds/remote"
)

// Station is a machine with an agent.
type Station struct {
	Name      string
	Agent     string // address
	Interface string
	Port      uint16 // of the switch that the interface is cabled to
	// Neighbour is the expected LLDP neighbour at the other end of the cable; nil: not checked.
	Neighbour *remote.Neighbour
	// RDMA is the device of a host that serves the tests; nil: a NIC model. Interface may then be empty.
	RDMA *agent.RDMA
}

// Credentials are the orchestrator's PEM files; an empty Cert means none.
type Credentials struct {
	Cert, Key, CA string
	CRL           string // of revoked certificates; empty: no list
}

// Config has the addresses of all components. Without certificates, addresses must be unix sockets.
type Config struct {
	Hosts    [2]Station
	Dumpers  []Station
	Switch   string // address of the P4Runtime server
	DeviceID uint64
	Credentials

	Foreign *Foreign // nil: the switch is candela switchd
}

// Foreign describes a third-party switch.
type Foreign struct {
	Files        *transport.Files // for mutual TLS; nil: its address is a unix socket, or loopback without protection
	Info         *p4.Info         // of the pipeline to run; nil: the contract
	DeviceConfig []byte           // that pipeline, compiled
}

// files returns the certificates for connecting to servers of a role; nil without certificates.
func (c *Credentials) files(role transport.Role) *transport.Files {
	if c.Cert == "" {
		return nil
	}
	return &transport.Files{Cert: c.Cert, Key: c.Key, CA: c.CA, CRL: c.CRL, ServerRole: role}
}

// New connects to the lab for one run. The caller closes the testbed.
func New(spec testbeds.Spec, cfg Config) (*remote.Testbed, error) {
	var conns []*grpc.ClientConn
	closeAll := func() error {
		var failed []error
		for _, c := range conns {
			if err := c.Close(); err != nil && status.Code(err) != codes.Canceled {
				failed = append(failed, err)
			}
		}
		return errors.Join(failed...)
	}
	type dialer func(string, *transport.Files) (*grpc.ClientConn, error)
	dial := func(name, address string, how dialer, files *transport.Files) (*grpc.ClientConn, error) {
		if strings.HasPrefix(address, "unix:") {
			files = nil // never leaves the machine
		}
		conn, err := how(address, files)
		if err != nil {
			return nil, fmt.Errorf("lab: %s: %w", name, err)
		}
		conns = append(conns, conn)
		return conn, nil
	}
	var id [8]byte
	if _, err := rand.Read(id[:]); err != nil {
		return nil, err
	}
	m := remote.Machines{Kind: "lab", Run: "run-" + hex.EncodeToString(id[:]), Close: closeAll}
	stations := append(cfg.Hosts[:], cfg.Dumpers...)
	for i, s := range stations {
		conn, err := dial(s.Name, s.Agent, transport.Dial, cfg.files(transport.Agent))
		if err != nil {
			return nil, errors.Join(err, closeAll())
		}
		machine := remote.Machine{Name: s.Name, Conn: conn, Interface: s.Interface, Port: s.Port, Neighbour: s.Neighbour,
			RDMA: s.RDMA}
		if i < len(m.Hosts) {
			m.Hosts[i] = machine
		} else {
			m.Dumpers = append(m.Dumpers, machine)
		}
	}
	files, how := cfg.files(transport.Switch), dialer(transport.Dial)
	m.Switch = remote.Switch{Name: "switch", DeviceID: cfg.DeviceID, Status: true}
	if f := cfg.Foreign; f != nil {
		// Another vendor's switch has none of our roles in its certificate, and may not offer TLS.
		files, how = f.Files, transport.DialForeign
		m.Switch.Foreign, m.Switch.Info, m.Switch.DeviceConfig = true, f.Info, f.DeviceConfig
	}
	conn, err := dial("switch", cfg.Switch, how, files)
	if err != nil {
		return nil, errors.Join(err, closeAll())
	}
	m.Switch.Conn = conn
	return remote.New(spec, m)
}

// Describe asks the agent of a station what its machine is. It waits at most [agent.CallTimeout].
func (c *Config) Describe(ctx context.Context, s *Station) (_ *agentpb.DescribeResponse, err error) {
	files := c.files(transport.Agent)
	if strings.HasPrefix(s.Agent, "unix:") {
		files = nil // never leaves the machine
	}
	conn, err := transport.Dial(s.Agent, files)
	if err != nil {
		return nil, fmt.Errorf("lab: %s: %w", s.Name, err)
	}
	defer func() { err = errors.Join(err, conn.Close()) }()
	return agent.NewClient(s.Name, conn, "describe").Describe(ctx)
}
