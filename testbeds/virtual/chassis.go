package virtual

import (
	"context"
	"errors"
	"fmt"
	"net"
	"sync"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/test/bufconn"

	"candela.dev/candela/generator/rdma"
	"candela.dev/candela/injector/p4"
	"candela.dev/candela/injector/pipeline"
	"candela.dev/candela/injector/switchd"
	"candela.dev/candela/testbeds"
)

// chassis is the part of the switch that can outlive a testbed: its pipeline, its P4Runtime server, and a connection to
// that server.
type chassis struct {
	ports    int
	pipeline *pipeline.Pipeline
	server   *switchd.Server
	conn     *grpc.ClientConn
	direct   *shortcut // without the transport of conn
	stop     context.CancelFunc
	serving  sync.WaitGroup
	served   error
}

func ports(spec *testbeds.Spec) int { return len(spec.Hosts) + len(spec.Dumpers) }

// newChassis builds a switch and serves P4Runtime on an in-process listener.
func newChassis(ports int) (*chassis, error) {
	p, err := pipeline.New(pipeline.Config{Ports: ports})
	if err != nil {
		return nil, err
	}
	server, err := switchd.New(switchd.Config{DeviceID: deviceID, Datapath: p, Info: p4.Software()})
	if err != nil {
		return nil, err
	}
	const buffer = 64 << 10 // of each direction
	listener := bufconn.Listen(buffer)
	ctx, cancel := context.WithCancel(context.Background())
	c := &chassis{ports: ports, pipeline: p, server: server, stop: cancel}
	c.serving.Go(func() { c.served = server.Serve(ctx, listener, grpc.NumStreamWorkers(2)) })
	c.conn, err = grpc.NewClient("passthrough:///virtual-switch",
		grpc.WithContextDialer(func(ctx context.Context, _ string) (net.Conn, error) { return listener.DialContext(ctx) }),
		grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		return nil, errors.Join(err, c.close())
	}
	c.direct = &shortcut{c.conn, server}
	return c, nil
}

func (c *chassis) close() error {
	var err error
	if c.conn != nil {
		err = c.conn.Close()
	}
	c.stop()
	c.serving.Wait()
	return errors.Join(err, c.served)
}

// A Rack builds one testbed after the other around the same switch, which saves a server, a connection and a session
// for each. The switch is reset in between, so that a testbed behaves, to the byte, like one made by [New]. A testbed
// must be closed before the next is built. Writes and reads of the switch are plain calls, see [shortcut]. A Rack must
// be used by one goroutine; the caller closes it. The zero value is ready.
type Rack struct{ chassis *chassis }

// Build builds the testbed for spec.
func (r *Rack) Build(spec testbeds.Spec) (*Testbed, error) {
	switch n := ports(&spec); {
	case r.chassis != nil && r.chassis.ports == n:
		r.chassis.server.Reset()
	default:
		if err := r.Close(); err != nil {
			return nil, err
		}
		c, err := newChassis(n)
		if err != nil {
			return nil, fmt.Errorf("virtual testbed: %w", err)
		}
		r.chassis = c
	}
	return newTestbed(spec, rdma.ProfileByName, r.chassis)
}

// Close ends the switch.
func (r *Rack) Close() error {
	if r.chassis == nil {
		return nil
	}
	err := r.chassis.close()
	r.chassis = nil
	return err
}
