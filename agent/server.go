package agent

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"candela.dev/candela/agent/nic"
	agentpb "candela.dev/candela/proto/agent/v1"
)

// Server is an agent. Open, Serve and Close belong to one goroutine.
type Server struct {
	agentpb.UnimplementedAgentServer
	agentpb.UnimplementedHostServer
	agentpb.UnimplementedDumperServer
	agentpb.UnimplementedSocketsServer
	cfg     Config
	root    *os.Root
	passes  []io.Closer
	journal *nic.Journal // of changed settings of NICs

	receivers sync.WaitGroup // of leases: each ends with its stream

	mu  sync.Mutex
	run *run // that holds the machine; nil: none
}

// Open prepares the machine. The caller closes the Server.
func Open(cfg Config) (_ *Server, err error) {
	cfg.setDefaults()
	s := &Server{cfg: cfg}
	defer func() {
		if err != nil {
			err = errors.Join(fmt.Errorf("agent: %w", err), s.Close())
		}
	}()
	if len(cfg.Interfaces) == 0 {
		return nil, errors.New("no interface is given")
	}
	if err := os.MkdirAll(cfg.Dir, 0o700); err != nil {
		return nil, err
	}
	if s.root, err = os.OpenRoot(cfg.Dir); err != nil {
		return nil, err
	}
	if err := checkOwn(filepath.Clean(cfg.Dir), s.root); err != nil {
		_ = s.root.Close()
		s.root = nil // and nothing in it is removed
		return nil, err
	}
	if err := s.root.RemoveAll(runsDir); err != nil {
		return nil, fmt.Errorf("remove what earlier runs left: %w", err)
	}
	if err := s.root.Mkdir(runsDir, 0o700); err != nil {
		return nil, err
	}
	if err := s.restoreSettings(); err != nil {
		return nil, err
	}
	for _, name := range cfg.Interfaces {
		if _, err := net.InterfaceByName(name); err != nil {
			return nil, fmt.Errorf("interface %q: %w", name, err)
		}
		if !cfg.XDPPass || linkKind(name) != "veth" {
			continue
		}
		pass, err := letPass(name)
		if err != nil {
			return nil, err
		}
		s.passes = append(s.passes, pass)
	}
	return s, nil
}

// restoreSettings restores the settings of NICs that a killed agent has left changed. What can't be restored now, such
// as that of an interface which is not there, is tried again before a run uses the interface, and at the next start.
func (s *Server) restoreSettings() (err error) {
	if s.journal, err = nic.OpenJournal(s.root); err != nil {
		return err
	}
	if len(s.journal.Pending()) == 0 {
		return nil
	}
	machine, err := os.OpenRoot("/")
	if err != nil {
		return err
	}
	defer machine.Close()
	done, err := restoreSettings(s.journal, machine)
	for _, what := range done {
		s.cfg.Log.Warn("an earlier agent was killed", "setting", what)
	}
	if err != nil {
		s.cfg.Log.Error("restore settings", "error", err)
	}
	return nil
}

// runsDir holds a directory for the run that holds the machine.
const runsDir = "runs"

// Serve serves the API on lis until ctx is done; then it waits for running calls and returns nil. lis is closed.
func (s *Server) Serve(ctx context.Context, lis net.Listener, opts ...grpc.ServerOption) error {
	g := grpc.NewServer(append(opts, grpc.WaitForHandlers(true), grpc.ChainUnaryInterceptor(requireDeadline))...)
	agentpb.RegisterAgentServer(g, s)
	agentpb.RegisterHostServer(g, s)
	agentpb.RegisterDumperServer(g, s)
	agentpb.RegisterSocketsServer(g, s)
	agentpb.RegisterSwitchServer(g, &switchServer{Server: s})
	stop := context.AfterFunc(ctx, g.Stop)
	defer stop()
	err := g.Serve(lis)
	g.Stop()
	s.receivers.Wait()
	if ctx.Err() != nil {
		return nil
	}
	return err
}

// requireDeadline refuses calls that would wait for ever.
func requireDeadline(ctx context.Context, req any, _ *grpc.UnaryServerInfo, next grpc.UnaryHandler) (any, error) {
	if _, ok := ctx.Deadline(); !ok {
		return nil, status.Error(codes.InvalidArgument, "the call has no deadline")
	}
	return next(ctx, req)
}

// Close releases everything. Serve must have returned.
func (s *Server) Close() error {
	s.mu.Lock()
	r := s.run
	s.run = nil
	s.mu.Unlock()
	var failed []error
	if r != nil {
		failed = append(failed, r.release())
	}
	for _, p := range s.passes {
		failed = append(failed, p.Close())
	}
	s.passes = nil
	if s.root != nil {
		failed = append(failed, s.root.RemoveAll(runsDir), s.root.Close())
		s.root = nil
	}
	return errors.Join(failed...)
}

// Lease holds the machine for a run while the stream lives, and the lease time longer.
func (s *Server) Lease(stream grpc.BidiStreamingServer[agentpb.LeaseRequest, agentpb.LeaseResponse]) error {
	first, err := stream.Recv()
	if err != nil {
		return err
	}
	r, err := s.acquire(stream.Context(), first.GetRun())
	if err != nil {
		return err
	}
	finished := false
	defer func() { s.leave(r, finished) }()
	for {
		if err := stream.Send(&agentpb.LeaseResponse{LeaseNs: s.cfg.Lease.Nanoseconds(), Held: r.held()}); err != nil {
			return err
		}
		request, err := s.next(stream, r)
		switch {
		case errors.Is(err, io.EOF):
			finished = true // the orchestrator says that it has finished
			return nil
		case err != nil:
			return err
		case request.GetRun() != r.id:
			return status.Errorf(codes.InvalidArgument, "the stream is of run %q", r.id)
		}
	}
}

// next waits for the stream's next message, or for the end of the lease, and at most as long as a live orchestrator may
// be silent: one without power does not end its stream.
func (s *Server) next(stream grpc.BidiStreamingServer[agentpb.LeaseRequest, agentpb.LeaseResponse],
	r *run) (*agentpb.LeaseRequest, error) {
	type received struct {
		m   *agentpb.LeaseRequest
		err error
	}
	got := make(chan received, 1)
	s.receivers.Go(func() { // ends with the stream
		m, err := stream.Recv()
		got <- received{m, err}
	})
	silence := time.NewTimer(s.cfg.Silence)
	defer silence.Stop()
	select {
	case x := <-got:
		return x.m, x.err
	case <-silence.C:
		return nil, status.Errorf(codes.DeadlineExceeded, "nothing was heard of run %q for %v", r.id, s.cfg.Silence)
	case <-r.gone:
		return nil, status.Errorf(codes.Aborted, "run %q was released", r.id)
	}
}

// acquire makes a run hold the machine. While another run holds it, acquire waits up to Config.Handover for the end of
// that run's streams: the agent needs a moment to notice that an orchestrator was killed.
func (s *Server) acquire(ctx context.Context, id string) (*run, error) {
	if err := checkRun(id); err != nil {
		return nil, status.Error(codes.InvalidArgument, err.Error())
	}
	limit := time.NewTimer(s.cfg.Handover)
	defer limit.Stop()
	for {
		r, idle, err := s.tryAcquire(id)
		if idle == nil {
			return r, err
		}
		select {
		case <-idle:
		case <-ctx.Done():
			return nil, status.FromContextError(ctx.Err()).Err()
		case <-limit.C:
			return nil, err
		}
	}
}

// tryAcquire makes a run hold the machine. If another run holds it, idle is closed when that run has no stream.
func (s *Server) tryAcquire(id string) (_ *run, idle <-chan struct{}, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if r := s.run; r != nil && r.id != id {
		if r.streams > 0 {
			return nil, r.idle, status.Errorf(codes.FailedPrecondition, "the machine is held by run %q", r.id)
		}
		s.cfg.Log.Info("a new run takes over", "run", id, "from", r.id)
		s.drop(r)
	}
	if s.run == nil {
		r, err := newRun(id, s)
		if err != nil {
			return nil, nil, status.Error(codes.Internal, err.Error())
		}
		s.run = r
		r.limit = time.AfterFunc(s.cfg.Limits.Hold, func() { s.expire(r, "it held the machine for too long") })
		s.cfg.Log.Info("run holds the machine", "run", id)
	}
	if s.run.expiry != nil {
		s.run.expiry.Stop()
	}
	if s.run.streams == 0 {
		s.run.idle = make(chan struct{})
	}
	s.run.streams++
	return s.run, nil, nil
}

// leave ends a stream of a run.
func (s *Server) leave(r *run, finished bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if r.streams--; r.streams == 0 {
		close(r.idle)
	}
	switch {
	case s.run != r || r.streams > 0:
	case finished:
		s.drop(r)
	default:
		s.cfg.Log.Warn("the orchestrator is gone", "run", r.id, "lease", s.cfg.Lease)
		r.expiry = time.AfterFunc(s.cfg.Lease, func() { s.expire(r, "its orchestrator is gone") })
	}
}

func (s *Server) expire(r *run, why string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.run == r {
		s.cfg.Log.Warn("release run", "run", r.id, "because", why)
		s.drop(r)
	}
}

// drop releases a run under the lock.
func (s *Server) drop(r *run) {
	s.run = nil
	if err := r.release(); err != nil {
		s.cfg.Log.Error("release run", "run", r.id, "error", err)
	}
}

// current returns the run that a call names.
func (s *Server) current(id string) (*run, error) {
	if err := checkRun(id); err != nil {
		return nil, status.Error(codes.InvalidArgument, err.Error())
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.run == nil || s.run.id != id {
		return nil, status.Errorf(codes.FailedPrecondition, "run %q doesn't hold this machine: it needs a Lease first", id)
	}
	return s.run, nil
}

func (s *Server) checkInterface(name string) error {
	if !slices.Contains(s.cfg.Interfaces, name) {
		return status.Errorf(codes.InvalidArgument, "interface %q is none of this agent's: %v", name, s.cfg.Interfaces)
	}
	return nil
}
