package injector

import (
	"context"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"slices"
	"sync"
	"time"

	p4pb "github.com/p4lang/p4runtime/go/p4/v1"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"

	"candela.dev/candela/injector/p4"
)

// Pipeline is what a target is to run.
type Pipeline struct {
	Info         *p4.Info // nil: the base contract
	DeviceConfig []byte   // compiled program; the embedded switch needs none
}

// Config says how to reach a target.
type Config struct {
	Target   string // name, for errors
	DeviceID uint64
	// ElectionHigh and ElectionLow are the election id; the highest of all clients becomes primary.
	ElectionHigh, ElectionLow uint64
	Timeout                   time.Duration // of each RPC; 0 means 10 s
	Batch                     int           // updates per write; 0 means 1000
	Pipeline                  Pipeline
	// EpochHint is the epoch of the first run on a target that has none; 0 means 1. After a crash that lost the connection
	// entries, a new value keeps old registers from being used.
	EpochHint uint16
}

// Client programs one target. It needs nothing that real targets lack: no register access, no batch atomicity beyond
// CONTINUE_ON_ERROR, no truncating clone sessions. It is not safe for concurrent use.
type Client struct {
	cfg     Config
	rpc     p4pb.P4RuntimeClient
	info    *p4.Info
	version string
	cookie  uint64
	pushed  bool

	session *session
	run     *run   // what Program has programmed
	epoch   uint16 // of the latest run of this client
}

// session is the stream that keeps this client primary.
type session struct {
	cancel  context.CancelFunc
	stream  p4pb.P4Runtime_StreamChannelClient
	wg      sync.WaitGroup
	changed chan struct{} // one token: something below changed

	mu      sync.Mutex
	status  codes.Code // of the latest arbitration message
	message string
	heard   bool
	lost    error // why this client was not primary for a while, having been it
	err     error // why the stream ended
}

// Connect becomes primary on the target of conn, pushes the pipeline if the target's cookie differs, and learns what
// the target offers. The session lasts until Close, even if ctx ends; the caller closes conn.
func Connect(ctx context.Context, conn grpc.ClientConnInterface, cfg Config) (*Client, error) {
	if cfg.Timeout == 0 {
		cfg.Timeout = 10 * time.Second
	}
	if cfg.Batch == 0 {
		cfg.Batch = 1000
	}
	if cfg.EpochHint == 0 {
		cfg.EpochHint = 1
	}
	if cfg.Pipeline.Info == nil {
		cfg.Pipeline.Info = p4.Base()
	}
	c := &Client{cfg: cfg, rpc: p4pb.NewP4RuntimeClient(conn)}
	steps := []struct {
		name string
		do   func(context.Context) error
	}{
		{"capabilities", c.capabilities}, {"become primary", c.arbitrate}, {"pipeline", c.ensurePipeline},
	}
	for _, step := range steps {
		if err := c.limited(ctx, step.do); err != nil {
			c.Close()
			return nil, fmt.Errorf("injector %q: %s: %w", cfg.Target, step.name, err)
		}
	}
	return c, nil
}

// closeTimeout bounds how long Close waits for the target's word.
const closeTimeout = 2 * time.Second

// Close ends the session. It returns when the target knows, so that the next client can use the same election id. The
// target keeps what was programmed while its lease lasts.
func (c *Client) Close() {
	if c.session == nil {
		return
	}
	s := c.session
	c.session = nil
	if err := s.stream.CloseSend(); err != nil {
		s.cancel()
	}
	impatience := time.AfterFunc(closeTimeout, s.cancel)
	s.wg.Wait() // the target ends the stream, too
	impatience.Stop()
	s.cancel()
}

// Info returns what the target offers.
func (c *Client) Info() *p4.Info { return c.info }

// APIVersion returns the version of P4Runtime that the target speaks.
func (c *Client) APIVersion() string { return c.version }

// Cookie returns the cookie of the target's pipeline, and whether Connect had to push it.
func (c *Client) Cookie() (cookie uint64, pushed bool) { return c.cookie, c.pushed }

// limited runs f under the RPC timeout.
func (c *Client) limited(ctx context.Context, f func(context.Context) error) error {
	ctx, cancel := context.WithTimeout(ctx, c.cfg.Timeout)
	defer cancel()
	return f(ctx)
}

func (c *Client) capabilities(ctx context.Context) error {
	resp, err := c.rpc.Capabilities(ctx, &p4pb.CapabilitiesRequest{DeviceId: c.cfg.DeviceID})
	if status.Code(err) == codes.Unimplemented {
		c.version = "1.0" // the RPC came with 1.1
		return nil
	}
	c.version = resp.GetP4RuntimeApiVersion()
	return err
}

func (c *Client) election() *p4pb.Uint128 {
	return &p4pb.Uint128{High: c.cfg.ElectionHigh, Low: c.cfg.ElectionLow}
}

// arbitrate opens the session and waits for the target's word.
func (c *Client) arbitrate(ctx context.Context) error {
	streamCtx, cancel := context.WithCancel(context.WithoutCancel(ctx))
	s := &session{cancel: cancel, changed: make(chan struct{}, 1)}
	stream, err := c.rpc.StreamChannel(streamCtx)
	if err != nil {
		cancel()
		return err
	}
	c.session, s.stream = s, stream
	s.wg.Go(func() { s.receive(stream) })
	err = stream.Send(&p4pb.StreamMessageRequest{Update: &p4pb.StreamMessageRequest_Arbitration{
		Arbitration: &p4pb.MasterArbitrationUpdate{DeviceId: c.cfg.DeviceID, ElectionId: c.election()},
	}})
	if err != nil && !errors.Is(err, io.EOF) { // EOF: the cause is what receive gets
		return err
	}
	for {
		if done, err := s.outcome(); done {
			return err
		}
		select {
		case <-s.changed:
		case <-ctx.Done():
			return fmt.Errorf("no answer to the arbitration request: %w", context.Cause(ctx))
		}
	}
}

// receive follows the stream until it ends.
func (s *session) receive(stream p4pb.P4Runtime_StreamChannelClient) {
	for {
		m, err := stream.Recv()
		s.mu.Lock()
		if a := m.GetArbitration(); a != nil {
			if s.heard && s.status == codes.OK && codes.Code(a.GetStatus().GetCode()) != codes.OK {
				s.lost = status.Errorf(codes.Code(a.GetStatus().GetCode()),
					"another controller was primary meanwhile, and may have changed anything: %s",
					a.GetStatus().GetMessage())
			}
			s.heard, s.status, s.message = true, codes.Code(a.GetStatus().GetCode()), a.GetStatus().GetMessage()
		}
		s.err = err
		s.mu.Unlock()
		select {
		case s.changed <- struct{}{}:
		default:
		}
		if err != nil {
			return
		}
	}
}

// outcome reports whether the arbitration is settled, and why this client is not primary.
func (s *session) outcome() (done bool, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case s.err != nil:
		return true, s.err
	case !s.heard:
		return false, nil
	case s.status != codes.OK:
		return true, status.Errorf(s.status, "not primary: %s", s.message)
	}
	return true, s.lost
}

// Primary returns nil if this client has been primary without interruption, else the reason why not.
func (c *Client) Primary() error {
	if c.session == nil {
		return fmt.Errorf("injector %q: the session is closed", c.cfg.Target)
	}
	if _, err := c.session.outcome(); err != nil {
		return fmt.Errorf("injector %q: %w", c.cfg.Target, err)
	}
	return nil
}

// cookie identifies a pipeline by its contents.
func (p Pipeline) cookie() (uint64, error) {
	b, err := proto.MarshalOptions{Deterministic: true}.Marshal(p.Info.Proto())
	if err != nil {
		return 0, err
	}
	h := sha256.New()
	h.Write(b)
	h.Write(p.DeviceConfig)
	return binary.BigEndian.Uint64(h.Sum(nil)), nil
}

// ensurePipeline pushes the pipeline unless the target already runs it: a push clears its tables and interrupts
// traffic.
func (c *Client) ensurePipeline(ctx context.Context) error {
	cookie, err := c.cfg.Pipeline.cookie()
	if err != nil {
		return err
	}
	active, err := c.activePipeline(ctx)
	if err != nil {
		return err
	}
	if active.GetCookie().GetCookie() != cookie || active.GetP4Info() == nil {
		if active.GetP4Info() != nil {
			if err := c.clearReplication(ctx); err != nil {
				return err
			}
		}
		if err := c.push(ctx, cookie); err != nil {
			return fmt.Errorf("push: %w", err)
		}
		c.pushed = true
		if active, err = c.activePipeline(ctx); err != nil {
			return err
		}
	}
	c.cookie = cookie
	c.info, err = p4.New(active.GetP4Info())
	if err == nil {
		err = checkContract(c.info)
	}
	if err != nil {
		return fmt.Errorf("the target's P4Info: %w", err)
	}
	return nil
}

// eventActions are the actions that a target may lack; optionalTables are the tables that it may lack: events that need
// them are refused by name before traffic, and without mirror_egress clone sessions cut the copies.
var (
	eventActions   = []uint32{p4.ActionDrop, p4.ActionMarkECN, p4.ActionCorrupt, p4.ActionTrim}
	optionalTables = []uint32{p4.TableConnectionV6, p4.TableEventAny, p4.TableControlEvent, p4.TableWatch,
		p4.TableWatchedEvent, p4.TableMirrorEgress}
)

// checkContract checks that info is the contract, possibly without some tables and event actions and with additional
// ones. The rest of the client relies on it.
func checkContract(info *p4.Info) error {
	for _, want := range p4.Base().Tables() {
		have := info.Table(want.ID)
		if have == nil && slices.Contains(optionalTables, want.ID) {
			continue
		}
		if have == nil || !slices.Equal(have.Fields, want.Fields) {
			return fmt.Errorf("it has no table %q with the contract's key: %w", want.Name, ErrUnsupported)
		}
		if want.DirectCounter != 0 && have.DirectCounter == 0 {
			return fmt.Errorf("table %q does not count the hits of its entries: %w", want.Name, ErrUnsupported)
		}
		for _, ref := range want.Actions {
			offered := have.Offers(ref.ID)
			if offered == nil && slices.Contains(eventActions, ref.ID) {
				continue
			}
			if offered == nil || !slices.Equal(offered.Params, ref.Params) {
				return fmt.Errorf("table %q has no action %q with the contract's parameters: %w", want.Name, ref.Name,
					ErrUnsupported)
			}
		}
	}
	for _, want := range p4.Base().Counters() {
		have := info.CounterNamed(want.Name)
		if have == nil || have.Size < want.Size {
			return fmt.Errorf("it has no counter %q of %d cells: %w", want.Name, want.Size, ErrUnsupported)
		}
	}
	return nil
}

func (c *Client) activePipeline(ctx context.Context) (*p4pb.ForwardingPipelineConfig, error) {
	resp, err := c.rpc.GetForwardingPipelineConfig(ctx, &p4pb.GetForwardingPipelineConfigRequest{DeviceId: c.cfg.DeviceID,
		ResponseType: p4pb.GetForwardingPipelineConfigRequest_P4INFO_AND_COOKIE})
	if status.Code(err) == codes.FailedPrecondition { // bmv2 before the first push
		return nil, nil
	}
	return resp.GetConfig(), err
}

func (c *Client) push(ctx context.Context, cookie uint64) error {
	_, err := c.rpc.SetForwardingPipelineConfig(ctx, &p4pb.SetForwardingPipelineConfigRequest{
		DeviceId: c.cfg.DeviceID, ElectionId: c.election(),
		Action: p4pb.SetForwardingPipelineConfigRequest_VERIFY_AND_COMMIT,
		Config: &p4pb.ForwardingPipelineConfig{
			P4Info: c.cfg.Pipeline.Info.Proto(), P4DeviceConfig: c.cfg.Pipeline.DeviceConfig,
			Cookie: &p4pb.ForwardingPipelineConfig_Cookie{Cookie: cookie},
		},
	})
	return err
}
