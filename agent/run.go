package agent

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path"
	"sync"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"

	dumper "candela.dev/candela/dumper/live"
	"candela.dev/candela/generator/live"
	agentpb "candela.dev/candela/proto/agent/v1"
)

// run is what one run holds.
type run struct {
	id     string
	server *Server
	gone   chan struct{} // closed when it was released

	// Of the server, under its lock.
	streams       int
	idle          chan struct{} // closed when the last stream ends; made anew by the next
	expiry, limit *time.Timer

	mu       sync.Mutex // one step at a time
	released bool
	root     *os.Root // of its directory

	host    trafficHost // nil: none
	model   *live.Host  // host, if it is a model
	rdma    rdmaDevice  // host, if it is an RDMA device
	prepare step[*agentpb.PrepareRequest, *agentpb.PrepareResponse]
	connect step[*agentpb.ConnectRequest, *agentpb.ConnectResponse]
	started bool
	start   error        // error of Start, returned by later calls, too
	at      lossCounters // when the host was prepared
	device  string       // of the host
	stall   *sentinel    // while there is a model

	sockets    *socketHost // nil: none
	equip      step[*agentpb.EquipRequest, *agentpb.EquipResponse]
	unequipped *agentpb.UnequipResponse // answer of Unequip, returned by later calls, too
	switching  bool
	switches   sync.WaitGroup // of tests of switches, which gone ends

	recorder   *dumper.Recorder
	record     step[*agentpb.RecordRequest, *agentpb.RecordResponse]
	recorded   lossCounters // of its interface, when the capture was opened
	finish     *agentpb.FinishResponse
	unfinished error // error of Finish, returned by later calls, too
}

// step remembers a step that was taken.
type step[Q, A proto.Message] struct {
	request Q
	answer  A
	taken   bool
}

// repeated returns the answer of a step that was taken with the same request.
func (s *step[Q, A]) repeated(name string, request Q) (answer A, taken bool, err error) {
	switch {
	case !s.taken:
		return answer, false, nil
	case !proto.Equal(s.request, request):
		return answer, true, status.Errorf(codes.FailedPrecondition, "%s was called before in this run, with other arguments",
			name)
	}
	return s.answer, true, nil
}

func (s *step[Q, A]) take(request Q, answer A) { s.request, s.answer, s.taken = request, answer, true }

func newRun(id string, s *Server) (*run, error) {
	dir := path.Join(runsDir, id)
	if err := s.root.MkdirAll(dir, 0o700); err != nil {
		return nil, fmt.Errorf("directory of run %s: %w", id, err)
	}
	root, err := s.root.OpenRoot(dir)
	if err != nil {
		return nil, fmt.Errorf("directory of run %s: %w", id, err)
	}
	return &run{id: id, server: s, root: root, gone: make(chan struct{})}, nil
}

// during returns a context that ends with ctx, after the timeout, or when the run is released. The caller calls end.
func (r *run) during(ctx context.Context, timeout time.Duration) (_ context.Context, end func()) {
	ctx, cancel := context.WithTimeout(ctx, timeout)
	var watch sync.WaitGroup
	watch.Go(func() {
		select {
		case <-r.gone:
			cancel()
		case <-ctx.Done():
		}
	})
	return ctx, func() { cancel(); watch.Wait() }
}

// held names what the run holds, or nothing while a step runs: a ping must not wait for files.
func (r *run) held() (names []string) {
	if !r.mu.TryLock() {
		return nil
	}
	defer r.mu.Unlock()
	if r.host != nil {
		names = append(names, "host")
	}
	if r.recorder != nil {
		names = append(names, "dumper")
	}
	if r.sockets != nil {
		names = append(names, "sockets")
	}
	if r.switching {
		names = append(names, "switch")
	}
	return names
}

// release frees everything. It may be called once.
func (r *run) release() error {
	for _, t := range []*time.Timer{r.expiry, r.limit} {
		if t != nil {
			t.Stop()
		}
	}
	if !r.end() {
		return nil
	}
	r.switches.Wait() // not under the lock: their steps take it
	r.mu.Lock()
	defer r.mu.Unlock()
	err := errors.Join(r.closeHost(), r.closeRecorder(), r.closeSockets())
	return errors.Join(err, r.root.Close(), r.server.root.RemoveAll(path.Join(runsDir, r.id)))
}

// end announces that the run is released, and reports whether this was the first call.
func (r *run) end() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.released {
		return false
	}
	r.released = true
	close(r.gone)
	return true
}

func (r *run) closeHost() error {
	if r.host == nil {
		return nil
	}
	err := r.host.Close()
	if r.stall != nil {
		r.stall.close()
	}
	r.host, r.model, r.rdma, r.stall, r.started, r.start = nil, nil, nil, nil, false, nil
	r.prepare = step[*agentpb.PrepareRequest, *agentpb.PrepareResponse]{}
	r.connect = step[*agentpb.ConnectRequest, *agentpb.ConnectResponse]{}
	return err
}

func (r *run) closeRecorder() error {
	var err error
	if r.recorder != nil {
		err = r.recorder.Close()
	}
	if r.finish != nil {
		for _, s := range r.finish.GetShards() {
			err = errors.Join(err, r.root.Remove(s.GetName()))
		}
	}
	r.recorder, r.finish, r.unfinished = nil, nil, nil
	r.record = step[*agentpb.RecordRequest, *agentpb.RecordResponse]{}
	return err
}

// locked runs f as one step of the run.
func (r *run) locked(f func() error) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.released {
		return status.Errorf(codes.Aborted, "run %q was released", r.id)
	}
	return f()
}

// refuse is the error of arguments that can't be meant.
func refuse(format string, args ...any) error {
	return status.Errorf(codes.InvalidArgument, format, args...)
}

// failed is the error of a machine that could not do what was requested.
func failed(err error) error {
	if err == nil {
		return nil
	}
	return status.Error(codes.Internal, err.Error())
}
