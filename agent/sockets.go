package agent

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"net"
	"net/netip"
	"sync"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"candela.dev/candela/generator/sockets"
	"candela.dev/candela/packet"
	agentpb "candela.dev/candela/proto/agent/v1"
)

// A HostRunner opens the sockets of a host of a test.
type HostRunner func(job *HostJob) (HostProgram, error)

// HostJob is a host of a test.
type HostJob struct {
	Config   []byte // of the test, complete
	Host     int
	Slowdown int64
	Finished func(flow int) // is told of flows that have ended; Run calls it
}

// HostProgram is what a host of a test does.
type HostProgram interface {
	// Run does it until ctx ends.
	Run(ctx context.Context) error
	// Losses says what the machine lost, after Run.
	Losses(add func(name string, n uint64))
	Close() error
}

// socketHost is a host whose transport is its kernel's.
type socketHost struct {
	program HostProgram // nil: it has connections alone
	device  string
	way     *way
	group   *sockets.Group
	events  chan sockets.Ended
	ended   chan struct{} // closed when nobody hears events
	sends   []timedTransfer
	begun   sync.Once
	before  packets
	losses  lossCounters
}

// timedTransfer is a transfer that the host begins.
type timedTransfer struct {
	sockets.Transfer
	start time.Duration
}

// packets are counts of an interface.
type packets struct{ sent, received uint64 }

// Equip gives an interface addresses and peers, and opens the servers.
func (s *Server) Equip(_ context.Context, q *agentpb.EquipRequest) (answer *agentpb.EquipResponse, err error) {
	r, err := s.current(q.GetRun())
	if err != nil {
		return nil, err
	}
	err = r.locked(func() error {
		var taken bool
		if answer, taken, err = r.equip.repeated("Equip", q); taken {
			return err
		}
		if answer, err = r.equipHost(q); err == nil {
			r.equip.take(q, answer)
		}
		return err
	})
	return answer, err
}

func (r *run) equipHost(q *agentpb.EquipRequest) (_ *agentpb.EquipResponse, err error) {
	if err := r.server.checkInterface(q.GetInterface()); err != nil {
		return nil, err
	}
	plan, err := wayOf(q)
	if err != nil {
		return nil, err
	}
	receives, sends, err := transfersOf(q, r.server.cfg.Limits)
	if err != nil {
		return nil, err
	}
	device, err := net.InterfaceByName(q.GetInterface())
	if err != nil {
		return nil, failed(err)
	}
	h := &socketHost{device: q.GetInterface(), way: plan, sends: sends,
		events: make(chan sockets.Ended, 2*len(q.GetConnections())+1), // there is room for all connections
		ended:  make(chan struct{})}
	h.group = sockets.New(func(e sockets.Ended) { h.events <- e })
	defer func() {
		if err != nil {
			err = failed(errors.Join(err, h.close()))
		}
	}()
	if err := h.way.open(); err != nil {
		return nil, err
	}
	if h.before, err = countPackets(h.device); err != nil {
		return nil, err
	}
	if h.losses, err = readLosses(h.device); err != nil {
		return nil, err
	}
	for _, t := range receives {
		if err := h.group.Receive(t, sockets.Here); err != nil {
			return nil, err
		}
	}
	if len(q.GetTest()) > 0 {
		if h.program, err = r.server.openProgram(q, h); err != nil {
			return nil, err
		}
	}
	r.sockets = h
	return &agentpb.EquipResponse{Mac: device.HardwareAddr}, nil
}

// openProgram opens the program of a host.
func (s *Server) openProgram(q *agentpb.EquipRequest, h *socketHost) (HostProgram, error) {
	const mostSlowdown = 1_000_000_000
	switch {
	case s.cfg.Host == nil:
		return nil, status.Error(codes.Unimplemented, "this agent has no hosts with UDP sockets")
	case len(q.GetTest()) > maxSwitchConfig || q.GetHost() >= maxSwitchPorts:
		return nil, refuse("host %d of a test of %d bytes; allowed are hosts below %d and %d bytes", q.GetHost(),
			len(q.GetTest()), maxSwitchPorts, maxSwitchConfig)
	case q.GetSlowdown() < 1 || q.GetSlowdown() > mostSlowdown:
		return nil, refuse("a clock that is %d times slower; allowed are 1 to %d", q.GetSlowdown(), mostSlowdown)
	}
	return s.cfg.Host(&HostJob{Config: q.GetTest(), Host: int(q.GetHost()), Slowdown: q.GetSlowdown(),
		Finished: func(flow int) { h.tell(sockets.Ended{Number: flow}) }})
}

// tell reports an end, unless the host is given up.
func (h *socketHost) tell(e sockets.Ended) {
	select {
	case h.events <- e:
	case <-h.ended:
	}
}

// transfersOf returns the connections of a host: those that it accepts, and those that it opens.
func transfersOf(q *agentpb.EquipRequest, limits Limits) (receives []sockets.Transfer, sends []timedTransfer,
	err error) {
	if n := len(q.GetConnections()); n > limits.Connections {
		return nil, nil, status.Errorf(codes.ResourceExhausted, "%d connections; allowed are %d", n, limits.Connections)
	}
	for _, c := range q.GetConnections() {
		local, okLocal := netip.AddrFromSlice(c.GetLocalIp())
		remote, okRemote := netip.AddrFromSlice(c.GetRemoteIp())
		switch {
		case !okLocal || !okRemote || local.Is4() != remote.Is4():
			return nil, nil, refuse("connection %d: IP addresses of %d and %d bytes", c.GetNumber(), len(c.GetLocalIp()),
				len(c.GetRemoteIp()))
		case c.GetPort() == 0 || c.GetPort() > math.MaxUint16:
			return nil, nil, refuse("connection %d: port %d", c.GetNumber(), c.GetPort())
		case c.GetBytes() < 0 || c.GetStartNs() < 0 || c.GetDscp() > 63:
			return nil, nil, refuse("connection %d: %d bytes at %d ns with DSCP %d", c.GetNumber(), c.GetBytes(), c.GetStartNs(),
				c.GetDscp())
		}
		t := sockets.Transfer{Number: int(c.GetNumber()), From: local, To: remote, Port: uint16(c.GetPort()),
			Bytes: c.GetBytes(), Congestion: c.GetCongestionControl(), DSCP: uint8(c.GetDscp())}
		if c.GetReceives() {
			t.From, t.To = remote, local
			receives = append(receives, t)
			continue
		}
		sends = append(sends, timedTransfer{t, time.Duration(c.GetStartNs())})
	}
	return receives, sends, nil
}

// withSockets returns the host of a run that has one.
func (s *Server) withSockets(id string) (r *run, h *socketHost, err error) {
	if r, err = s.current(id); err != nil {
		return nil, nil, err
	}
	return r, h, r.locked(func() error {
		if h = r.sockets; h == nil {
			return status.Error(codes.FailedPrecondition, "the host is not equipped")
		}
		return nil
	})
}

// Transfer starts the connections and reports each that ends.
func (s *Server) Transfer(q *agentpb.TransferRequest,
	stream grpc.ServerStreamingServer[agentpb.TransferResponse]) error {
	if _, ok := stream.Context().Deadline(); !ok {
		return refuse("the call has no deadline")
	}
	r, h, err := s.withSockets(q.GetRun())
	if err != nil {
		return err
	}
	// Its first answer says that they have begun.
	if err := stream.Send(&agentpb.TransferResponse{}); err != nil {
		return err
	}
	h.begun.Do(h.start)
	for {
		select {
		case e := <-h.events:
			m := &agentpb.TransferResponse{Number: uint32(e.Number)}
			if e.Err != nil {
				m.Error = e.Err.Error()
			}
			if err := stream.Send(m); err != nil {
				return err
			}
		case <-h.way.closed:
			return nil
		case <-r.gone:
			return status.Errorf(codes.Aborted, "run %q was released", r.id)
		case <-stream.Context().Done():
			return stream.Context().Err()
		}
	}
}

// start starts each connection at its time.
func (h *socketHost) start() {
	if h.program != nil {
		h.group.Go(func(ctx context.Context) {
			stop := context.AfterFunc(ctx, func() { close(h.ended) })
			defer stop()
			if err := h.program.Run(ctx); err != nil {
				h.tell(sockets.Ended{Err: err})
			}
		})
	}
	for _, t := range h.sends {
		h.group.Go(func(ctx context.Context) {
			timer := time.NewTimer(t.start)
			defer timer.Stop()
			select {
			case <-ctx.Done():
			case <-timer.C:
				h.group.Send(t.Transfer, sockets.Here)
			}
		})
	}
}

// Unequip ends what Equip began.
func (s *Server) Unequip(_ context.Context, q *agentpb.UnequipRequest) (answer *agentpb.UnequipResponse, err error) {
	r, err := s.current(q.GetRun())
	if err != nil {
		return nil, err
	}
	return answer, r.locked(func() error {
		if answer = r.unequipped; answer != nil {
			return nil
		}
		h := r.sockets
		if h == nil {
			return status.Error(codes.FailedPrecondition, "the host is not equipped")
		}
		h.group.Stop()
		now, err := countPackets(h.device)
		if err != nil {
			return failed(err)
		}
		losses, err := readLosses(h.device)
		if err != nil {
			return failed(err)
		}
		answer = &agentpb.UnequipResponse{Sent: now.sent - h.before.sent, Received: now.received - h.before.received,
			Losses: losses.since(h.losses)}
		if h.program != nil {
			h.program.Losses(func(name string, n uint64) {
				answer.Losses = append(answer.Losses, &agentpb.Counter{Name: name, Value: n})
			})
		}
		r.unequipped = answer
		return failed(r.closeSockets())
	})
}

func (r *run) closeSockets() error {
	if r.sockets == nil {
		return nil
	}
	err := r.sockets.close()
	r.sockets = nil
	return err
}

func (h *socketHost) close() error {
	h.group.Stop()
	var err error
	if h.program != nil {
		err = h.program.Close()
	}
	return errors.Join(err, h.way.close())
}

// SocketHost describes a host whose transport is its kernel's.
type SocketHost struct {
	Interface   string
	IPs         []netip.Addr
	Peers       []SocketPeer
	MTU         int
	Connections []*agentpb.SocketConnection
	// Test is a test of which the machine runs the host with this number, on a clock that is slower; nil: none.
	Test     []byte
	Host     int
	Slowdown int64
}

// SocketPeer is another host of the test.
type SocketPeer struct {
	IP  netip.Addr
	MAC packet.MAC
}

// Equip makes the machine a host of a test.
func (c *Client) Equip(ctx context.Context, h *SocketHost) error {
	q := &agentpb.EquipRequest{Run: c.run, Interface: h.Interface, Mtu: uint32(h.MTU), Connections: h.Connections,
		Test: h.Test, Host: uint32(h.Host), Slowdown: h.Slowdown}
	for _, ip := range h.IPs {
		q.Ips = append(q.Ips, ip.AsSlice())
	}
	for _, p := range h.Peers {
		q.Peers = append(q.Peers, &agentpb.Peer{Ip: p.IP.AsSlice(), Mac: p.MAC[:]})
	}
	_, err := call(ctx, c, "equip", c.sockets.Equip, q)
	return tooOld(c, err)
}

// Transfer starts the host's connections and calls ended for each that has finished or failed, until Unequip.
func (c *Client) Transfer(ctx context.Context, limit time.Duration, ended func(number int, why string)) error {
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	stream, err := c.sockets.Transfer(ctx, &agentpb.TransferRequest{Run: c.run})
	for first := true; err == nil; first = false {
		var m *agentpb.TransferResponse
		if m, err = stream.Recv(); err == nil && !first {
			ended(int(m.GetNumber()), m.GetError())
		}
	}
	if errors.Is(err, io.EOF) {
		return nil
	}
	return c.named("transfer", err)
}

// Unequip ends what Equip began.
func (c *Client) Unequip(ctx context.Context) (*agentpb.UnequipResponse, error) {
	return call(ctx, c, "unequip", c.sockets.Unequip, &agentpb.UnequipRequest{Run: c.run})
}

var errWay = errors.New("the interface can't be equipped for the test")

func wayError(device, what string, err error) error {
	return fmt.Errorf("%w: %s: %s: %w", errWay, device, what, err)
}
