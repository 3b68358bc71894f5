package agent

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"sync"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"candela.dev/candela/generator/sockets"
	"candela.dev/candela/packet"
	agentpb "candela.dev/candela/proto/agent/v1"
)

// A SwitchRunner runs a test of a switch whose ports are interfaces of this machine. It writes the files of the run to
// a directory below job.Dir and returns its path.
type SwitchRunner func(ctx context.Context, job *SwitchJob) (dir string, err error)

// SwitchJob is such a test, and the connections to the hosts that it needs.
type SwitchJob struct {
	Config []byte // of the test, complete
	Ports  []SwitchPort
	Dir    string
	// Ready says that the switch takes frames, and returns when the hosts have begun.
	Ready    func() error
	Finished chan sockets.Ended
	// Over says that the traffic is over, and returns when the hosts have stopped.
	Over func() ([]*agentpb.UnequipResponse, error)
}

// SwitchPort is where a host is cabled to.
type SwitchPort struct {
	Interface string
	MAC       packet.MAC
}

const (
	maxSwitchConfig = 1 << 20
	maxSwitchPorts  = 512
	// maxFinished is how many finished connections a run may have unreported.
	maxFinished = 4096
)

type switchStream = grpc.BidiStreamingServer[agentpb.SwitchRequest, agentpb.SwitchResponse]

// switchServer serves Switch, whose method Run would collide with the agent's.
type switchServer struct {
	agentpb.UnimplementedSwitchServer
	*Server
}

// Run runs a test of a switch.
func (s *switchServer) Run(stream switchStream) error {
	if _, ok := stream.Context().Deadline(); !ok {
		return refuse("the call has no deadline")
	}
	first, err := stream.Recv()
	if err != nil {
		return err
	}
	test := first.GetTest()
	r, err := s.current(test.GetRun())
	if err != nil {
		return err
	}
	job, err := s.jobOf(test)
	if err != nil {
		return err
	}
	err = r.locked(func() error {
		if r.switching {
			return status.Error(codes.FailedPrecondition, "the machine is a switch of this run already")
		}
		r.switching = true
		r.switches.Add(1)
		return nil
	})
	if err != nil {
		return err
	}
	defer r.endSwitch()
	ctx, end := r.during(stream.Context(), s.cfg.Limits.Hold)
	defer end()
	c := &conversation{stream: stream, start: make(chan struct{}), hosts: make(chan []*agentpb.UnequipResponse, 1),
		job: job}
	return c.hold(ctx, s.cfg.Switch, filepath.Join(s.cfg.Dir, runsDir, r.id))
}

// jobOf checks what an orchestrator wants.
func (s *switchServer) jobOf(t *agentpb.SwitchTest) (*SwitchJob, error) {
	switch {
	case s.cfg.Switch == nil:
		return nil, status.Error(codes.Unimplemented, "this agent has no models of switches")
	case len(t.GetConfig()) == 0 || len(t.GetConfig()) > maxSwitchConfig:
		return nil, refuse("a test of %d bytes; allowed are 1 to %d", len(t.GetConfig()), maxSwitchConfig)
	case len(t.GetPorts()) < 2 || len(t.GetPorts()) > maxSwitchPorts:
		return nil, refuse("%d ports; allowed are 2 to %d", len(t.GetPorts()), maxSwitchPorts)
	}
	job := &SwitchJob{Config: t.GetConfig(), Finished: make(chan sockets.Ended, maxFinished)}
	seen := make(map[string]bool)
	for i, p := range t.GetPorts() {
		if err := s.checkInterface(p.GetInterface()); err != nil {
			return nil, err
		}
		if len(p.GetMac()) != len(packet.MAC{}) || seen[p.GetInterface()] {
			return nil, refuse("port %d: interface %q, an address of %d bytes: want an interface of its own and an Ethernet "+
				"address", i, p.GetInterface(), len(p.GetMac()))
		}
		seen[p.GetInterface()] = true
		job.Ports = append(job.Ports, SwitchPort{p.GetInterface(), packet.MAC(p.GetMac())})
	}
	return job, nil
}

// endSwitch records that the machine is no longer a switch.
func (r *run) endSwitch() {
	r.switches.Done()
	r.mu.Lock()
	defer r.mu.Unlock()
	r.switching = false
}

// conversation is a Run under way.
type conversation struct {
	stream switchStream
	job    *SwitchJob
	begin  sync.Once
	start  chan struct{}
	hosts  chan []*agentpb.UnequipResponse
}

// hold runs the test and sends its files.
func (c *conversation) hold(ctx context.Context, runner SwitchRunner, dir string) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	go func() { // ends with the stream
		for {
			m, err := c.stream.Recv()
			if err == nil {
				err = c.take(m)
			}
			if err != nil {
				cancel(fmt.Errorf("the orchestrator is gone: %w", err))
				return
			}
		}
	}()
	c.job.Dir = dir
	c.job.Ready = func() error {
		err := c.stream.Send(&agentpb.SwitchResponse{What: &agentpb.SwitchResponse_Ready{Ready: &agentpb.SwitchReady{}}})
		if err != nil {
			return err
		}
		select {
		case <-c.start:
			return nil
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
	c.job.Over = func() ([]*agentpb.UnequipResponse, error) {
		err := c.stream.Send(&agentpb.SwitchResponse{What: &agentpb.SwitchResponse_Over{Over: &agentpb.SwitchOver{}}})
		if err != nil {
			return nil, err
		}
		timer := time.NewTimer(hostsTimeout)
		defer timer.Stop()
		select {
		case h := <-c.hosts:
			return h, nil
		case <-timer.C:
			return nil, fmt.Errorf("the hosts have not stopped within %v", hostsTimeout)
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		}
	}
	out, err := runner(ctx, c.job)
	if err != nil {
		return failed(err)
	}
	return failed(errors.Join(c.send(out), os.RemoveAll(out)))
}

// hostsTimeout bounds the wait for hosts to stop.
const hostsTimeout = 30 * time.Second

// take takes a request that is not the first.
func (c *conversation) take(m *agentpb.SwitchRequest) error {
	switch m.GetWhat().(type) {
	case *agentpb.SwitchRequest_Start:
		c.begin.Do(func() { close(c.start) })
	case *agentpb.SwitchRequest_Finished:
		e := sockets.Ended{Number: int(m.GetFinished().GetNumber())}
		if why := m.GetFinished().GetError(); why != "" {
			e.Err = errors.New(why)
		}
		select {
		case c.job.Finished <- e:
		default:
			return fmt.Errorf("more than %d connections have finished at once", maxFinished)
		}
	case *agentpb.SwitchRequest_Hosts:
		select {
		case c.hosts <- m.GetHosts().GetHosts():
		default:
			return errors.New("the hosts were given before")
		}
	default:
		return errors.New("a request that is none of this version")
	}
	return nil
}

// send sends the files of a run.
func (c *conversation) send(dir string) (err error) {
	root, err := os.OpenRoot(dir)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, root.Close()) }()
	return fs.WalkDir(root.FS(), ".", func(name string, d fs.DirEntry, err error) error {
		if err != nil || !d.Type().IsRegular() {
			return err
		}
		file, err := root.Open(name)
		if err != nil {
			return err
		}
		return errors.Join(c.sendFile(name, file), file.Close())
	})
}

func (c *conversation) sendFile(name string, file io.Reader) error {
	buffer := make([]byte, chunk)
	for {
		n, err := io.ReadFull(file, buffer)
		last := errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF)
		if err != nil && !last {
			return err
		}
		m := &agentpb.SwitchFile{Name: name, Data: buffer[:n], Crc32C: checksum(buffer[:n]), Last: last}
		if err := c.stream.Send(&agentpb.SwitchResponse{What: &agentpb.SwitchResponse_File{File: m}}); err != nil || last {
			return err
		}
	}
}

// SwitchRun is a test that a machine runs as a switch, as an orchestrator sees it.
type SwitchRun struct {
	c      *Client
	stream grpc.BidiStreamingClient[agentpb.SwitchRequest, agentpb.SwitchResponse]
	cancel context.CancelFunc
	mu     sync.Mutex // of the stream's sending side
}

// RunSwitch makes the machine take frames for a test. The caller closes the SwitchRun.
func (c *Client) RunSwitch(ctx context.Context, limit time.Duration, config []byte, ports []SwitchPort) (*SwitchRun,
	error) {
	ctx, cancel := context.WithTimeout(ctx, limit)
	stream, err := c.switches.Run(ctx)
	if err != nil {
		cancel()
		return nil, c.named("run the switch", err)
	}
	r := &SwitchRun{c: c, stream: stream, cancel: cancel}
	t := &agentpb.SwitchTest{Run: c.run, Config: config}
	for _, p := range ports {
		t.Ports = append(t.Ports, &agentpb.SwitchPort{Interface: p.Interface, Mac: p.MAC[:]})
	}
	err = r.send(&agentpb.SwitchRequest{What: &agentpb.SwitchRequest_Test{Test: t}})
	m, failed := stream.Recv()
	switch {
	case failed != nil: // it says more than that nothing can be sent
		err = failed
	case err == nil && m.GetReady() == nil:
		err = errors.New("it is not ready")
	}
	if err != nil {
		cancel()
		return nil, tooOld(c, c.named("run the switch", err))
	}
	return r, nil
}

func (r *SwitchRun) send(m *agentpb.SwitchRequest) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.stream.Send(m)
}

// Start says that the hosts have begun.
func (r *SwitchRun) Start() error {
	err := r.send(&agentpb.SwitchRequest{What: &agentpb.SwitchRequest_Start{Start: &agentpb.SwitchStart{}}})
	return r.c.named("start", err)
}

// Finished passes on what became of a connection.
func (r *SwitchRun) Finished(number int, why string) error {
	m := &agentpb.TransferResponse{Number: uint32(number), Error: why}
	err := r.send(&agentpb.SwitchRequest{What: &agentpb.SwitchRequest_Finished{Finished: m}})
	return r.c.named("finish connection", err)
}

// WaitOver returns when the traffic is over.
func (r *SwitchRun) WaitOver() error {
	m, err := r.stream.Recv()
	if err == nil && m.GetOver() == nil {
		err = errors.New("it sends what nobody has asked for")
	}
	return r.c.named("run traffic", err)
}

// Hosts passes on what the hosts have counted.
func (r *SwitchRun) Hosts(hosts []*agentpb.UnequipResponse) error {
	m := &agentpb.SwitchHosts{Hosts: hosts}
	err := r.send(&agentpb.SwitchRequest{What: &agentpb.SwitchRequest_Hosts{Hosts: m}})
	return r.c.named("stop", err)
}

// fileForm is what a file of a run may be called.
var fileForm = regexp.MustCompile(`^([a-z0-9-]+/)?[a-z0-9][a-z0-9.-]*$`)

// maxFileBytes bounds what a run may send: captures of a long test.
const maxFileBytes = 1 << 30

// Files hands over the files of the run, each as a whole.
func (r *SwitchRun) Files(take func(name string, data []byte) error) error {
	var name string
	var data []byte
	total := 0
	for {
		m, err := r.stream.Recv()
		if errors.Is(err, io.EOF) && name == "" {
			return nil
		}
		f := m.GetFile()
		switch {
		case err != nil:
		case f == nil:
			err = errors.New("it sends something else than files")
		case checksum(f.GetData()) != f.GetCrc32C():
			err = errors.New("a piece is damaged")
		case !fileForm.MatchString(f.GetName()) || path.Clean(f.GetName()) != f.GetName() ||
			name != "" && name != f.GetName():
			err = fmt.Errorf("a file called %q", f.GetName())
		default:
			if total += len(f.GetData()); total > maxFileBytes {
				err = fmt.Errorf("more than %d bytes", maxFileBytes)
			}
		}
		if err != nil {
			return r.c.named("fetch files", err)
		}
		name, data = f.GetName(), append(data, f.GetData()...)
		if f.GetLast() {
			if err := take(name, data); err != nil {
				return err
			}
			name, data = "", nil
		}
	}
}

// Close ends the run on the machine, if it has not ended.
func (r *SwitchRun) Close() { r.cancel() }
