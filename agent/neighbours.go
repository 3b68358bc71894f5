package agent

import (
	"context"
	"errors"
	"io"
	"time"

	"google.golang.org/grpc"

	"candela.dev/candela/agent/lldp"
	agentpb "candela.dev/candela/proto/agent/v1"
)

// maxListen bounds one listening for neighbours: most devices speak every 30 s.
const maxListen = 2 * time.Minute

// Neighbours listens for LLDP.
func (s *Server) Neighbours(q *agentpb.NeighboursRequest, stream grpc.ServerStreamingServer[agentpb.Neighbour]) error {
	ctx := stream.Context()
	timeout := time.Duration(q.GetTimeoutNs())
	if _, ok := ctx.Deadline(); !ok {
		return refuse("the call has no deadline")
	}
	if timeout <= 0 || timeout > maxListen {
		return refuse("timeout %v: allowed are up to %v", timeout, maxListen)
	}
	r, err := s.current(q.GetRun())
	if err != nil {
		return err
	}
	if err := s.checkInterface(q.GetInterface()); err != nil {
		return err
	}
	ctx, end := r.during(ctx, timeout)
	defer end()
	return failed(lldp.Listen(ctx, q.GetInterface(), func(n lldp.Neighbour) error {
		return stream.Send(&agentpb.Neighbour{Chassis: n.Chassis, Port: n.Port, System: n.System,
			PortDescription: n.PortDescription})
	}))
}

// Neighbours listens for LLDP on an interface until the time is up, or until a neighbour is enough.
func (c *Client) Neighbours(ctx context.Context, device string, timeout time.Duration,
	enough func(lldp.Neighbour) bool) (list []lldp.Neighbour, err error) {
	ctx, cancel := context.WithTimeout(ctx, timeout+CallTimeout)
	defer cancel()
	stream, err := c.agent.Neighbours(ctx,
		&agentpb.NeighboursRequest{Run: c.run, Interface: device, TimeoutNs: timeout.Nanoseconds()})
	for err == nil {
		var m *agentpb.Neighbour
		if m, err = stream.Recv(); err != nil {
			break
		}
		n := lldp.Neighbour{Chassis: m.GetChassis(), Port: m.GetPort(), System: m.GetSystem(),
			PortDescription: m.GetPortDescription()}
		list = append(list, n)
		if enough(n) {
			return list, nil
		}
	}
	if errors.Is(err, io.EOF) {
		err = nil
	}
	return list, c.named("listen to neighbours", err)
}
