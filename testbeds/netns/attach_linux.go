package netns

import (
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"strings"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"candela.dev/candela/injector/transport"
	"candela.dev/candela/testbeds"
	"candela.dev/candela/testbeds/remote"
)

// deviceID is the P4Runtime device id of switchd.
const deviceID = 1

// Testbed connects to the testbed for one run.
func (s *State) Testbed(spec testbeds.Spec) (*remote.Testbed, error) {
	if culprit := s.culprit(); culprit != nil && s.Owner != nil {
		return nil, fmt.Errorf("testbed %s: %w", s.Name, culprit) // its logs are removed with this process
	}
	if dead := s.Dead(); len(dead) > 0 {
		return nil, fmt.Errorf("testbed %s: %s has ended; see the logs in %s, then: candela testbed down %s", s.Name,
			strings.Join(dead, ", "), s.Dir, s.Name)
	}
	var id [8]byte
	if _, err := rand.Read(id[:]); err != nil {
		return nil, err
	}
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
	dial := func(n *Node) (*grpc.ClientConn, error) {
		conn, err := transport.Dial("unix:"+n.Socket, nil)
		if err == nil {
			conns = append(conns, conn)
		}
		return conn, err
	}
	m := remote.Machines{Kind: "netns", Run: "run-" + hex.EncodeToString(id[:]), Close: closeAll, Fates: s.fates}
	for i := range s.Hosts {
		conn, err := dial(&s.Hosts[i])
		if err != nil {
			return nil, errors.Join(err, closeAll())
		}
		m.Hosts[i] = machine(&s.Hosts[i], conn)
	}
	for i := range s.Dumpers {
		conn, err := dial(&s.Dumpers[i])
		if err != nil {
			return nil, errors.Join(err, closeAll())
		}
		m.Dumpers = append(m.Dumpers, machine(&s.Dumpers[i], conn))
	}
	conn, err := dial(&s.Switch)
	if err != nil {
		return nil, errors.Join(err, closeAll())
	}
	m.Switch = remote.Switch{Name: "switch", Conn: conn, DeviceID: deviceID, Status: true}
	return remote.New(spec, m)
}

func machine(n *Node, conn *grpc.ClientConn) remote.Machine {
	return remote.Machine{Name: n.Name, Conn: conn, Interface: n.Interface, Port: n.Port}
}
