package bmv2

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"syscall"
	"time"

	p4pb "github.com/p4lang/p4runtime/go/p4/v1"
	"golang.org/x/sync/errgroup"
	"golang.org/x/sys/unix"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"candela.dev/candela/injector/transport"
	"candela.dev/candela/link"
	injectorpb "candela.dev/candela/proto/injector/v1"
)

// Timeouts of the program.
const (
	startTime = 10 * time.Second // to answer
	stopTime  = 2 * time.Second  // to end
)

// Switch is a running simple_switch_grpc. Open, Serve and Close must be called by one goroutine.
type Switch struct {
	injectorpb.UnimplementedStatusServer
	cfg      Config
	dir      string
	release  string // of bmv2
	command  *exec.Cmd
	words    *tail
	exited   chan struct{} // closed when the program has ended
	conn     *grpc.ClientConn
	offloads []*link.Offloads
	losses   losses
}

// Open turns off the interfaces' offloads and starts the program on them without a pipeline; it forwards nothing until
// one is pushed. The caller closes the Switch, which restores the interfaces.
func Open(ctx context.Context, cfg Config) (_ *Switch, err error) {
	if cfg.Log == nil {
		cfg.Log = slog.New(slog.DiscardHandler)
	}
	if cfg.Program == "" {
		if cfg.Program, err = Find(); err != nil {
			return nil, fmt.Errorf("bmv2: %w", err)
		}
	}
	s := &Switch{cfg: cfg, words: new(tail)}
	defer func() {
		if err != nil {
			err = fmt.Errorf("bmv2: %w", errors.Join(err, s.Close()))
		}
	}()
	for _, name := range s.interfaces() {
		o, err := link.DisableOffloads(name)
		if err != nil {
			return nil, err
		}
		s.offloads = append(s.offloads, o)
	}
	// A socket's path must be short.
	if s.dir, err = os.MkdirTemp("", "cdb"); err != nil {
		return nil, err
	}
	if err := s.start(); err != nil {
		return nil, err
	}
	if s.conn, err = transport.Dial("unix:"+s.socket(), nil); err != nil {
		return nil, err
	}
	if err := s.await(ctx); err != nil {
		return nil, err
	}
	s.losses = losses{conn: s.conn, device: cfg.DeviceID, ports: len(cfg.Ports), interfaces: s.interfaces()}
	return s, nil
}

func (s *Switch) interfaces() []string {
	return append(append([]string(nil), s.cfg.Ports...), s.cfg.Mirrors...)
}

func (s *Switch) socket() string { return filepath.Join(s.dir, "p4rt") }

// arguments returns the program's arguments: interfaces in the order of port numbers, no pipeline, and our socket.
func (s *Switch) arguments() []string {
	args := []string{"--no-p4", "--device-id", fmt.Sprint(s.cfg.DeviceID)}
	for i, name := range s.interfaces() {
		args = append(args, "-i", fmt.Sprintf("%d@%s", i, name))
	}
	return append(args, "--", "--grpc-server-addr", "unix:"+s.socket())
}

// start starts the program from a permanent thread. The kernel kills the program when that thread ends, however this
// process ends.
func (s *Switch) start() error {
	s.command = exec.Command(s.cfg.Program, s.arguments()...)
	s.command.Stdout, s.command.Stderr, s.command.Dir = s.words, s.words, s.dir
	s.command.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: unix.SIGKILL}
	s.exited = make(chan struct{})
	if err := startHere(s.command, s.exited); err != nil {
		s.command = nil
		return fmt.Errorf("start %s: %w", s.cfg.Program, err)
	}
	return nil
}

// startHere starts a command in the namespaces of the calling thread. A new thread inherits them and lives until the
// command has ended.
func startHere(command *exec.Cmd, exited chan<- struct{}) error {
	namespace, err := os.Open(fmt.Sprintf("/proc/self/task/%d/ns/net", unix.Gettid()))
	if err != nil {
		return err
	}
	defer namespace.Close()
	started := make(chan error)
	go func() {
		defer close(exited)
		runtime.LockOSThread() // never unlocked: the thread ends with the goroutine
		err := unix.Setns(int(namespace.Fd()), unix.CLONE_NEWNET)
		if err == nil {
			err = command.Start()
		}
		started <- err
		if err == nil {
			_ = command.Wait() // the program's last output has the reason
		}
	}()
	return <-started
}

func (s *Switch) await(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, startTime)
	defer cancel()
	for {
		answer, err := p4pb.NewP4RuntimeClient(s.conn).Capabilities(ctx, &p4pb.CapabilitiesRequest{DeviceId: s.cfg.DeviceID})
		switch {
		case err == nil:
			s.release = "P4Runtime " + answer.GetP4RuntimeApiVersion()
			return nil
		case status.Code(err) == codes.Unimplemented:
			s.release = "P4Runtime 1.0"
			return nil
		}
		select {
		case <-s.exited:
			return fmt.Errorf("%s ended: %s", Program, s.words)
		case <-ctx.Done():
			return fmt.Errorf("%s does not answer: %w: %s", Program, err, s.words)
		case <-time.After(10 * time.Millisecond):
		}
	}
}

// Serve serves P4Runtime and Status on lis until ctx is done, then returns nil. It returns an error if the program ends
// first. It closes lis.
func (s *Switch) Serve(ctx context.Context, lis net.Listener, opts ...grpc.ServerOption) error {
	var pumps sync.WaitGroup
	opts = append(opts, grpc.ForceServerCodecV2(NewVerbatim()), grpc.UnknownServiceHandler(PassThrough(s.conn, &pumps)),
		grpc.WaitForHandlers(true), grpc.MaxRecvMsgSize(largestRequest), grpc.MaxSendMsgSize(largest))
	server := grpc.NewServer(opts...)
	injectorpb.RegisterStatusServer(server, s)
	group, ctx := errgroup.WithContext(ctx)
	group.Go(func() error { return server.Serve(lis) })
	group.Go(func() error {
		defer server.Stop()
		select {
		case <-ctx.Done():
			return nil
		case <-s.exited:
			return fmt.Errorf("bmv2: %s ended: %s", Program, s.words)
		}
	})
	err := group.Wait()
	pumps.Wait()
	return err
}

// Close ends the program and restores the interfaces' offloads.
func (s *Switch) Close() error {
	var failed []error
	if s.conn != nil {
		failed = append(failed, s.conn.Close())
	}
	if s.command != nil {
		failed = append(failed, s.stop())
	}
	for _, o := range s.offloads {
		failed = append(failed, o.Restore())
	}
	if s.dir != "" {
		failed = append(failed, os.RemoveAll(s.dir))
	}
	s.conn, s.command, s.offloads, s.dir = nil, nil, nil, ""
	return errors.Join(failed...)
}

func (s *Switch) stop() error {
	for _, signal := range []os.Signal{unix.SIGTERM, unix.SIGKILL} {
		if err := s.command.Process.Signal(signal); err != nil && !errors.Is(err, os.ErrProcessDone) {
			return err
		}
		select {
		case <-s.exited:
			return nil
		case <-time.After(stopTime):
		}
	}
	return fmt.Errorf("%s (process %d) does not end", Program, s.command.Process.Pid)
}

// Describe returns the switch's version, datapath and properties.
func (s *Switch) Describe(context.Context, *injectorpb.DescribeRequest) (*injectorpb.DescribeResponse, error) {
	return &injectorpb.DescribeResponse{Version: s.cfg.Version, Datapath: Datapath, Properties: []*injectorpb.Property{
		{Name: "program", Value: s.cfg.Program},
		{Name: "api", Value: s.release},
		{Name: "ports", Value: strings.Join(s.cfg.Ports, ", ")},
		{Name: "mirrors", Value: strings.Join(s.cfg.Mirrors, ", ")},
	}}, nil
}

// Losses returns the losses between receiving and sending, derived from bmv2's counters.
func (s *Switch) Losses(ctx context.Context, _ *injectorpb.LossesRequest) (*injectorpb.LossesResponse, error) {
	select {
	case <-s.exited:
		return nil, status.Errorf(codes.Unavailable, "%s ended: %s", Program, s.words)
	default:
	}
	ports, err := s.losses.read(ctx)
	if err != nil {
		return nil, err
	}
	return &injectorpb.LossesResponse{Ports: ports}, nil
}

// tail keeps the end of its input.
type tail struct {
	mu   sync.Mutex
	text []byte
}

const tailLen = 1000

func (t *tail) Write(b []byte) (int, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.text = append(t.text, b...)
	t.text = t.text[max(0, len(t.text)-tailLen):]
	return len(b), nil
}

func (t *tail) String() string {
	t.mu.Lock()
	defer t.mu.Unlock()
	if text := bytes.TrimSpace(t.text); len(text) > 0 {
		return string(text)
	}
	return "it said nothing"
}
