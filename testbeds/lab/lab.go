// Package lab connects to the machines of a real laboratory: hosts and dumpers that agents serve, and an injector
// switch that speaks P4Runtime. What happens there is package remote's business, as on one machine.
package lab

import (
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"strings"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"candela.dev/candela/injector/p4"
	"candela.dev/candela/injector/transport"
	"candela.dev/candela/testbeds"
	"candela.dev/candela/testbeds/remote"
)

// Station is a machine with an agent.
type Station struct {
	Name      string
	Agent     string // address
	Interface string
	Port      uint16 // of the switch that the interface is cabled to
	// Neighbour is what LLDP is to say about the other end of the cable; nil: it is not asked.
	Neighbour *remote.Neighbour
}

// Credentials are the orchestrator's PEM files; without Cert there are none.
type Credentials struct {
	Cert, Key, CA string
	CRL           string // of revoked certificates; empty: none is
}

// Config says where everything is. Without certificates, addresses must be unix sockets.
type Config struct {
	Hosts    [2]Station
	Dumpers  []Station
	Switch   string // address of the P4Runtime server
	DeviceID uint64
	Credentials

	Foreign *Foreign // nil: the switch is candela switchd
}

// Foreign says what is different about a switch that somebody else runs.
type Foreign struct {
	Files        *transport.Files // for mutual TLS; nil: its address is a unix socket or, without any protection, loopback
	Info         *p4.Info         // of the pipeline that it shall run; nil: the contract
	DeviceConfig []byte           // that pipeline as its compiler made it
}

// files returns the certificates for servers of a role, nil without certificates.
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
			files = nil // it never leaves the machine
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
		machine := remote.Machine{Name: s.Name, Conn: conn, Interface: s.Interface, Port: s.Port, Neighbour: s.Neighbour}
		if i < len(m.Hosts) {
			m.Hosts[i] = machine
		} else {
			m.Dumpers = append(m.Dumpers, machine)
		}
	}
	files, how := cfg.files(transport.Switch), dialer(transport.Dial)
	m.Switch = remote.Switch{Name: "switch", DeviceID: cfg.DeviceID, Status: true}
	if f := cfg.Foreign; f != nil {
		// A switch of another vendor has no role of ours in its certificate, and may offer no TLS at all.
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
