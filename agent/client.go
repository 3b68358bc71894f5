package agent

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"sync"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"candela.dev/candela/generator"
	"candela.dev/candela/generator/live"
	"candela.dev/candela/generator/verbs"
	"candela.dev/candela/packet"
	agentpb "candela.dev/candela/proto/agent/v1"
	"candela.dev/candela/testbeds"
)

// Client talks to an agent. Its errors name the component.
type Client struct {
	name     string
	agent    agentpb.AgentClient
	host     agentpb.HostClient
	dumper   agentpb.DumperClient
	sockets  agentpb.SocketsClient
	switches agentpb.SwitchClient
	run      string
	// patience is how long a call of the host may take, beyond CallTimeout: a program serves it with the kernel.
	patience time.Duration
}

// NewClient returns a client for a component on a connection, for one run.
func NewClient(name string, conn grpc.ClientConnInterface, run string) *Client {
	return &Client{name: name, agent: agentpb.NewAgentClient(conn), host: agentpb.NewHostClient(conn),
		dumper: agentpb.NewDumperClient(conn), sockets: agentpb.NewSocketsClient(conn),
		switches: agentpb.NewSwitchClient(conn), run: run}
}

// Name returns the component's name.
func (c *Client) Name() string { return c.name }

// CallTimeout bounds every call that doesn't wait for traffic or files.
const CallTimeout = 5 * time.Second

// call makes a call with a deadline and names component and step in its error.
func call[Q, A any](ctx context.Context, c *Client, step string,
	f func(context.Context, Q, ...grpc.CallOption) (A, error), q Q) (A, error) {
	ctx, cancel := context.WithTimeout(ctx, CallTimeout+c.patience)
	defer cancel()
	answer, err := f(ctx, q)
	return answer, c.named(step, err)
}

func (c *Client) named(step string, err error) error { return Named(c.name, step, err) }

// Describe says what the machine is.
func (c *Client) Describe(ctx context.Context) (*agentpb.DescribeResponse, error) {
	return call(ctx, c, "describe", c.agent.Describe, &agentpb.DescribeRequest{})
}

// A Lease holds a machine for the client's run.
type Lease struct {
	stream grpc.BidiStreamingClient[agentpb.LeaseRequest, agentpb.LeaseResponse]
	cancel context.CancelFunc
	run    string
	lost   chan struct{}
	err    error // valid once lost is closed

	sending sync.Mutex // guards closed, and the stream's sending side
	closed  bool
}

// Hold takes the machine. The lease ends with Close, or when the agent is gone: see Lost.
func (c *Client) Hold(ctx context.Context) (*Lease, error) {
	held, cancel := context.WithCancel(context.WithoutCancel(ctx))
	timer := time.AfterFunc(CallTimeout, cancel)
	stop := context.AfterFunc(ctx, cancel)
	stream, err := c.agent.Lease(held)
	if err == nil {
		err = stream.Send(&agentpb.LeaseRequest{Run: c.run})
	}
	if err == nil || errors.Is(err, io.EOF) {
		_, err = stream.Recv()
	}
	// Either may have ended the stream just as the answer came: then the machine is not held.
	switch late, stopped := !timer.Stop(), !stop(); {
	case stopped:
		err = context.Cause(ctx)
	case late:
		err = status.Errorf(codes.DeadlineExceeded, "no answer within %v", CallTimeout)
	}
	if err != nil {
		cancel()
		return nil, c.named("lease", err)
	}
	l := &Lease{stream: stream, cancel: cancel, run: c.run, lost: make(chan struct{})}
	go l.follow(c.name)
	return l, nil
}

// An agent is pinged this often, and counts as gone after this long without an answer.
const (
	renewEvery = time.Second
	renewLimit = 5 * time.Second
)

// follow renews the lease until it is lost.
func (l *Lease) follow(name string) {
	defer close(l.lost)
	signs, ended := make(chan struct{}, 1), make(chan error, 1)
	var receiver sync.WaitGroup
	defer receiver.Wait()
	defer l.cancel()
	receiver.Go(func() { // ends with the stream
		for {
			if _, err := l.stream.Recv(); err != nil {
				ended <- err
				return
			}
			select {
			case signs <- struct{}{}:
			default:
			}
		}
	})
	renew, patience := time.NewTicker(renewEvery), time.NewTimer(renewLimit)
	defer renew.Stop()
	defer patience.Stop()
	for woke := time.Now(); ; {
		select {
		case err := <-ended:
			l.err = Named(name, "the agent is gone", err)
			return
		case <-signs:
			patience.Reset(renewLimit)
		case <-renew.C:
			l.renew()
		case <-patience.C:
			if time.Since(woke) > 2*renewEvery { // this process was suspended and could not receive answers
				patience.Reset(renewLimit)
				break
			}
			l.err = Named(name, "the agent doesn't answer any more",
				status.Errorf(codes.DeadlineExceeded, "no sign of life for %v", renewLimit))
			return
		}
		if now := time.Now(); now.Sub(woke) > 2*renewEvery {
			patience.Reset(renewLimit)
		}
		woke = time.Now()
	}
}

// renew asks for a sign of life, unless the lease is being given back.
func (l *Lease) renew() {
	l.sending.Lock()
	defer l.sending.Unlock()
	if !l.closed {
		_ = l.stream.Send(&agentpb.LeaseRequest{Run: l.run}) // a broken stream ends by itself
	}
}

// Lost is closed when the lease has ended; Err then says why.
func (l *Lease) Lost() <-chan struct{} { return l.lost }

// Err says why the lease was lost. Call it after Lost is closed.
func (l *Lease) Err() error { return l.err }

// Close ends the lease: the agent releases what the run holds before the call returns.
func (l *Lease) Close() {
	l.sending.Lock()
	l.closed = true
	_ = l.stream.CloseSend() // a broken stream has nothing left to end
	l.sending.Unlock()
	select {
	case <-l.lost:
	case <-time.After(CallTimeout):
	}
	l.cancel()
	<-l.lost
}

// Prepared is a host that is ready to be joined to its peer.
type Prepared struct {
	Ends []live.End
	// Of an RDMA device: its interface, and what it is.
	Interface  string
	MAC        packet.MAC
	Properties []testbeds.Property
}

// Prepare creates the NIC and its queue pairs.
func (c *Client) Prepare(ctx context.Context, h Host) (p Prepared, err error) {
	if h.RDMA != nil {
		c.patience = 2 * verbsTime // twice, to be told of the program's own limit
	}
	answer, err := call(ctx, c, "prepare", c.host.Prepare, prepareRequest(c.run, h))
	if err != nil {
		return p, err
	}
	for i, m := range answer.GetEnds() {
		e, err := endFromProto(m)
		if err != nil {
			return p, fmt.Errorf("%s: prepare: connection %d: %w", c.name, i+1, err)
		}
		p.Ends = append(p.Ends, e)
	}
	watch := h.RDMA != nil && h.RDMA.Watch != nil
	if len(p.Ends) != len(h.Spec.Connections) && !watch {
		return p, fmt.Errorf("%s: prepare: %d queue pairs for %d connections", c.name, len(p.Ends), len(h.Spec.Connections))
	}
	if p.Interface = answer.GetInterface(); p.Interface == "" && h.RDMA != nil {
		return p, fmt.Errorf("%s: prepare: the agent made a NIC model instead of using %s: install the same version of "+
			"candela on both machines", c.name, h.RDMA.Device)
	}
	switch mac := answer.GetMac(); {
	case len(mac) == len(p.MAC):
		p.MAC = packet.MAC(mac)
	case h.RDMA != nil:
		return p, fmt.Errorf("%s: prepare: MAC of %d bytes: install the same version of candela on both machines", c.name,
			len(mac))
	}
	for _, m := range answer.GetProperties() {
		p.Properties = append(p.Properties, testbeds.Property{Name: m.GetName(), Value: m.GetValue()})
	}
	return p, nil
}

// ApplicationEnd is an application's end of a connection.
type ApplicationEnd struct {
	QPN, Peer packet.QPN
	Receive   packet.PSN // of the next request that it expects
	Process   string     // its owner's name and PID
}

// Await waits for n connections of an application for a while, and returns those that are there, by QPN.
func (c *Client) Await(ctx context.Context, n int) (list []ApplicationEnd, err error) {
	ctx, cancel := context.WithTimeout(ctx, awaitSlice+CallTimeout)
	defer cancel()
	answer, err := c.host.Await(ctx, &agentpb.AwaitRequest{Run: c.run, Connections: uint32(n)})
	if err != nil {
		return nil, c.named("await the application", err)
	}
	for _, q := range answer.GetQueuePairs() {
		list = append(list, ApplicationEnd{QPN: packet.QPN(q.GetQpn()), Peer: packet.QPN(q.GetPeerQpn()),
			Receive: packet.PSN(q.GetReceivePsn()), Process: fmt.Sprintf("%s (PID %d)", q.GetProcess(), q.GetPid())})
	}
	return list, nil
}

// Connect joins the host's queue pairs to the peer's.
func (c *Client) Connect(ctx context.Context, peers []live.End) error {
	q := &agentpb.ConnectRequest{Run: c.run}
	for _, e := range peers {
		q.Peers = append(q.Peers, endToProto(e))
	}
	_, err := call(ctx, c, "connect", c.host.Connect, q)
	return err
}

// Start posts the first messages.
func (c *Client) Start(ctx context.Context) error {
	_, err := call(ctx, c, "start", c.host.Start, &agentpb.StartRequest{Run: c.run})
	return err
}

// Wait waits up to a time for the host's messages and returns how long the link has been quiet.
func (c *Client) Wait(ctx context.Context, timeout time.Duration) (done bool, quiet time.Duration, err error) {
	ctx, cancel := context.WithTimeout(ctx, timeout+CallTimeout+c.patience)
	defer cancel()
	answer, err := c.host.Wait(ctx, &agentpb.WaitRequest{Run: c.run, TimeoutNs: timeout.Nanoseconds()})
	return answer.GetDone(), time.Duration(answer.GetQuietNs()), c.named("wait", err)
}

// Counters is what a host counts.
type Counters struct {
	NIC    testbeds.HostCounters
	Losses []testbeds.Counter // between NIC and wire
	Stall  time.Duration      // longest that the machine kept the model waiting
	Probes uint64             // probe frames that have arrived
}

// Counters reads what the host has counted.
func (c *Client) Counters(ctx context.Context) (Counters, error) {
	answer, err := call(ctx, c, "counters", c.host.Counters, &agentpb.CountersRequest{Run: c.run})
	return Counters{
		NIC: testbeds.HostCounters{Vendor: answer.GetVendor(), Values: counters(answer.GetCounters()),
			Lacks: answer.GetLacks()},
		Losses: counters(answer.GetLosses()), Stall: time.Duration(answer.GetStallNs()),
		Probes: answer.GetProbes(),
	}, err
}

func counters(list []*agentpb.Counter) (values []testbeds.Counter) {
	for _, x := range list {
		values = append(values, testbeds.Counter{Name: x.GetName(), Value: x.GetValue()})
	}
	return values
}

// Report returns what became of the messages, and by connection what the host found of their data.
func (c *Client) Report(ctx context.Context) (r generator.Report, data []verbs.Data, err error) {
	answer, err := call(ctx, c, "report", c.host.Report, &agentpb.ReportRequest{Run: c.run})
	if err != nil {
		return r, nil, err
	}
	if err := json.Unmarshal(answer.GetReport(), &r); err != nil {
		return r, nil, fmt.Errorf("%s: report: %w", c.name, err)
	}
	if r.Schema != generator.ReportSchema {
		return r, nil, fmt.Errorf("%s: report: schema %q, want %q", c.name, r.Schema, generator.ReportSchema)
	}
	for _, m := range answer.GetData() {
		data = append(data, dataFromProto(m))
	}
	return r, data, nil
}

// Record opens the capture; see the API for the arguments.
func (c *Client) Record(ctx context.Context, name, device string, cores, snap int) error {
	_, err := call(ctx, c, "record", c.dumper.Record, &agentpb.RecordRequest{
		Run: c.run, Name: name, Interface: device, Cores: uint32(cores), Snap: uint32(snap)})
	return err
}

// fileTimeout bounds the writing of shards, and the fetching of one.
const fileTimeout = time.Minute

// Finish ends the capture. With an error there may be an answer: what could be written.
func (c *Client) Finish(ctx context.Context) (*agentpb.FinishResponse, error) {
	ctx, cancel := context.WithTimeout(ctx, fileTimeout)
	defer cancel()
	answer, err := c.dumper.Finish(ctx, &agentpb.FinishRequest{Run: c.run})
	if err == nil {
		return answer, nil
	}
	for _, detail := range status.Convert(err).Details() {
		if partial, ok := detail.(*agentpb.FinishResponse); ok {
			return partial, c.named("finish", err)
		}
	}
	return nil, c.named("finish", err)
}

// Fetch writes a shard to w and checks it.
func (c *Client) Fetch(ctx context.Context, shard *agentpb.Shard, w io.Writer) error {
	ctx, cancel := context.WithTimeout(ctx, fileTimeout)
	defer cancel()
	stream, err := c.dumper.Fetch(ctx, &agentpb.FetchRequest{Run: c.run, Shard: shard.GetName()})
	sum, total := sha256.New(), uint64(0)
	for err == nil {
		var m *agentpb.FetchResponse
		if m, err = stream.Recv(); err != nil {
			break
		}
		if checksum(m.GetData()) != m.GetCrc32C() {
			err = errors.New("a piece is damaged")
			break
		}
		total += uint64(len(m.GetData()))
		if total > shard.GetBytes() {
			err = fmt.Errorf("more than the %d bytes announced", shard.GetBytes())
			break
		}
		sum.Write(m.GetData())
		_, err = w.Write(m.GetData())
	}
	if !errors.Is(err, io.EOF) {
		return c.named("fetch "+shard.GetName(), err)
	}
	if !bytes.Equal(sum.Sum(nil), shard.GetSha256()) {
		return fmt.Errorf("%s: fetch %s: %d of %d bytes, or not those that were written: the checksum differs", c.name,
			shard.GetName(), total, shard.GetBytes())
	}
	return nil
}
