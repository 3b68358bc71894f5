// Package switchd is a P4Runtime server in front of an injector datapath. It keeps the control plane's view (entries,
// sessions, metadata) and programs a [Datapath] with it.
//
// It supports of P4Runtime 1.5: one device, the default role only, primary and backup controllers; all
// SetForwardingPipelineConfig actions for P4Infos that its target can serve; table entries with exact matches, default
// actions, direct and indirect counters, clone sessions without truncation, multicast groups without backup replicas;
// all three batch atomicities. Registers, meters, digests, packet I/O and action profiles answer UNIMPLEMENTED.
//
// # Locking
//
// One lock covers the control state and the datapath. [Server.Do] takes it for the datapath's owner: packets are
// processed inside Do, requests outside, so a batch is atomic for the data plane.
package switchd

import (
	"context"
	"errors"
	"fmt"
	"net"
	"sync"
	"time"

	configpb "github.com/p4lang/p4runtime/go/p4/config/v1"
	p4pb "github.com/p4lang/p4runtime/go/p4/v1"
	"google.golang.org/grpc"
	"google.golang.org/grpc/keepalive"

	"candela.dev/candela/injector/p4"
)

// APIVersion is the version of P4Runtime that the server implements.
const APIVersion = "1.5.0"

// A Datapath executes table writes. The server calls it under its lock, with values that fit the P4Info; an error says
// what the datapath cannot do and becomes INVALID_ARGUMENT. pipeline.Pipeline is one.
type Datapath interface {
	// Reset forgets entries, registers and counters.
	Reset()
	// Set inserts an entry or replaces the action of one; a replaced entry keeps its hits.
	Set(table uint32, k p4.Key, a p4.Action) error
	Unset(table uint32, k p4.Key)
	SetDefault(table uint32, a p4.Action) error
	// SetCloneSession and SetMulticastGroup take ownership of ports; no ports delete.
	SetCloneSession(id uint32, ports []uint16) error
	SetMulticastGroup(id uint32, ports []uint16) error
	Hits(table uint32, k p4.Key) uint64
	SetHits(table uint32, k p4.Key, hits uint64)
	Counter(id uint32, index int) (packets, bytes uint64)
	SetCounter(id uint32, index int, packets, bytes uint64)
}

// Config is what a Server is built with.
type Config struct {
	DeviceID uint64 // not zero
	Datapath Datapath
	Info     *p4.Info // what the datapath can serve; nil: the base contract
	// MaxControllers bounds open streams; 0 means 16.
	MaxControllers int
	// StopTimeout bounds how long Serve lets running requests finish; 0 means 2 s.
	StopTimeout time.Duration
	// Lease is how long events and mirroring outlive a broken primary stream before they are flushed (forwarding never
	// is); 0: they are kept.
	Lease time.Duration
}

// Server implements the P4Runtime service. Use [New].
type Server struct {
	p4pb.UnimplementedP4RuntimeServer
	cfg Config

	mu      sync.Mutex // guards everything below and the datapath
	arb     arbiter
	active  *pipelineConfig // nil until one is committed
	saved   *pipelineConfig // by VERIFY_AND_SAVE, waiting for COMMIT
	tables  map[uint32]*tableState
	clones  map[uint32]*p4pb.CloneSessionEntry
	groups  map[uint32]*p4pb.MulticastGroupEntry
	entries uint64 // ever inserted; orders reads
	lease   *time.Timer

	stopping chan struct{} // closed when streams must end
	stopOnce sync.Once
	wg       sync.WaitGroup // receivers of streams
}

// pipelineConfig is a forwarding pipeline config with its P4Info indexed.
type pipelineConfig struct {
	pb   *p4pb.ForwardingPipelineConfig
	info *p4.Info
}

// New returns a server without a pipeline config.
func New(cfg Config) (*Server, error) {
	switch {
	case cfg.DeviceID == 0:
		return nil, errors.New("switchd: the device id must not be 0 (P4Runtime 5.1)")
	case cfg.Datapath == nil:
		return nil, errors.New("switchd: no datapath")
	}
	if cfg.Info == nil {
		cfg.Info = p4.Base()
	}
	if cfg.MaxControllers == 0 {
		cfg.MaxControllers = 16
	}
	if cfg.StopTimeout == 0 {
		cfg.StopTimeout = 2 * time.Second
	}
	return &Server{cfg: cfg, stopping: make(chan struct{})}, nil
}

// Do runs f while no request uses the datapath. Requests wait for f, which must not make requests.
func (s *Server) Do(f func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	f()
}

// Serve serves P4Runtime on lis until ctx is done, then lets running requests finish within the stop timeout, ends the
// streams and returns nil. A Server serves once. lis is closed. Over TCP use package transport.
func (s *Server) Serve(ctx context.Context, lis net.Listener, opts ...grpc.ServerOption) error {
	return s.ServeWith(ctx, lis, nil, opts...)
}

// ServeWith is [Server.Serve] with more services on the same server, which register adds; nil: none.
func (s *Server) ServeWith(ctx context.Context, lis net.Listener, register func(*grpc.Server),
	opts ...grpc.ServerOption) error {
	const maxRequest = 16 << 20 // bytes; P4Runtime forbids less than gRPC's default of 4 MB
	// A controller whose machine vanishes does not end its stream: pings detect that well within a lease.
	alive := keepalive.ServerParameters{Time: 5 * time.Second, Timeout: 5 * time.Second}
	opts = append([]grpc.ServerOption{grpc.WaitForHandlers(true), grpc.MaxRecvMsgSize(maxRequest),
		grpc.KeepaliveParams(alive)}, opts...)
	server := grpc.NewServer(opts...)
	p4pb.RegisterP4RuntimeServer(server, s)
	if register != nil {
		register(server)
	}

	ended := make(chan struct{})
	var stopper sync.WaitGroup
	stopper.Go(func() {
		select {
		case <-ctx.Done():
		case <-ended:
		}
		s.stop(server)
	})
	err := server.Serve(lis)
	close(ended)
	stopper.Wait()
	s.wg.Wait()
	s.stopLease()
	if err != nil && ctx.Err() == nil {
		return fmt.Errorf("serve P4Runtime: %w", err)
	}
	return nil
}

// stop ends streams and requests, gracefully at first.
func (s *Server) stop(server *grpc.Server) {
	s.stopOnce.Do(func() { close(s.stopping) })
	timer := time.AfterFunc(s.cfg.StopTimeout, server.Stop)
	defer timer.Stop()
	server.GracefulStop()
}

// Capabilities reports the API version.
func (s *Server) Capabilities(_ context.Context, req *p4pb.CapabilitiesRequest) (*p4pb.CapabilitiesResponse, error) {
	if id := req.GetDeviceId(); id != 0 && id != s.cfg.DeviceID {
		return nil, s.unknownDevice(id)
	}
	return &p4pb.CapabilitiesResponse{P4RuntimeApiVersion: APIVersion}, nil
}

// reset brings control state and datapath to the initial state of a pipeline config.
func (s *Server) reset(config *pipelineConfig) {
	s.cfg.Datapath.Reset()
	s.active, s.saved = config, nil
	s.tables = map[uint32]*tableState{}
	for _, t := range config.info.Tables() {
		s.tables[t.ID] = newTableState(t)
	}
	s.clones = map[uint32]*p4pb.CloneSessionEntry{}
	s.groups = map[uint32]*p4pb.MulticastGroupEntry{}
}

// Reset restores the state after a push of the active pipeline config: tables, registers and counters. Sessions
// continue. It is for the owner of a datapath that several tests use in turn.
func (s *Server) Reset() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.active != nil {
		s.reset(s.active)
	}
}

// P4Info returns what the datapath can serve.
func (s *Server) P4Info() *configpb.P4Info { return s.cfg.Info.Proto() }
