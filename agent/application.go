package agent

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"candela.dev/candela/agent/nic"
	"candela.dev/candela/generator"
	"candela.dev/candela/generator/live"
	"candela.dev/candela/generator/verbs"
	"candela.dev/candela/link"
	"candela.dev/candela/packet"
	agentpb "candela.dev/candela/proto/agent/v1"
	"candela.dev/candela/testbeds"
)

// Times of the watch over an application.
const (
	// lookEvery is short beside the time that an application takes from the states of its queue pairs to its first
	// request: it has to tell its peer.
	lookEvery = 500 * time.Microsecond
	// longestPause bounds how long an application stands still if nobody says that it may go on.
	longestPause = 10 * time.Second
)

// application is an application of the machine whose traffic on an RDMA device is a test's. Only its queue pairs that
// were not there at the beginning count.
type application struct {
	*rdmaHost
	list   func(device string) ([]verbs.QueuePair, error)
	signal func(pid int, run bool) error // lets a process run or stops it
	pause  bool
	old    map[packet.QPN]bool // queue pairs of the time before
	echoes io.Closer           // of software

	mu     sync.Mutex
	mine   map[packet.QPN]bool
	paused map[int]bool // processes that stand still
	bound  *time.Timer  // of the pause, which ends after longest

	longest time.Duration
}

// watchApplication makes an RDMA device the host of an application. It changes no more of the device than the settings
// that the test names, which journal notes. list lists the queue pairs of a device.
func watchApplication(h *Host, sysfs fs.FS, allowed []string, journal *nic.Journal,
	list func(device string) ([]verbs.QueuePair, error)) (_ *application, err error) {
	r := newRDMAHost(h, sysfs, journal)
	a := &application{rdmaHost: r, list: list, signal: signalProcess, pause: h.RDMA.Watch.Pause, longest: longestPause,
		old: map[packet.QPN]bool{}, mine: map[packet.QPN]bool{}, paused: map[int]bool{}}
	defer func() {
		if err != nil {
			err = errors.Join(fmt.Errorf("%w: %w", errRDMA, err), a.Close())
		}
	}()
	if err := r.ready(h, allowed); err != nil {
		return nil, err
	}
	r.way = &way{device: r.device, mtu: r.mtu + rdmaHeaders, shared: true, closed: make(chan struct{})}
	for _, c := range h.Spec.Connections {
		ip := c.IPs[h.Side]
		if slices.Contains(r.way.ips, ip) {
			continue
		}
		r.way.ips = append(r.way.ips, ip)
		if _, err := r.port.GIDIndex(r.sysfs, ip); err != nil {
			return nil, fmt.Errorf("the application's address %v, of %v.nic.ip-list: %w", ip, h.Side, err)
		}
	}
	if err := a.identify(h.RDMA.Software); err != nil {
		return nil, err
	}
	if a.soft() {
		if r.absorb, err = link.Absorb(r.device); err == nil {
			a.echoes, err = link.AnswerEchoes(r.device)
		}
	} else {
		err = r.control(h)
	}
	if err != nil {
		return nil, err
	}
	before, err := a.list(r.port.Device)
	for _, q := range before {
		a.old[q.QPN] = true
	}
	return a, err
}

// identify says what the device is, as far as the kernel shows it: no program opens it.
func (a *application) identify(software bool) error {
	read := func(name string) string {
		text, _ := fs.ReadFile(a.sysfs, verbs.DeviceRoot+"/"+a.port.Device+"/"+name) // not every driver has each
		return strings.TrimSpace(string(text))
	}
	a.info.Firmware = cmp.Or(read("fw_ver"), "unknown")
	soft := a.port.Software(a.sysfs)
	if soft {
		a.info.VendorID, a.info.Lacks = verbs.SoftwareVendorID, verbs.Lacking(verbs.SoftwareVendorID)
	}
	return a.checkSoftware(soft, software)
}

// fresh lists the application's queue pairs that know their peer, by QPN.
func (a *application) fresh() (list []verbs.QueuePair, err error) {
	all, err := a.list(a.port.Device)
	if err != nil {
		return nil, err
	}
	for _, q := range all {
		if q.Connected() && !a.old[q.QPN] && (q.Port == 0 || q.Port == a.port.Number) {
			list = append(list, q)
		}
	}
	slices.SortFunc(list, func(x, y verbs.QueuePair) int { return cmp.Compare(x.QPN, y.QPN) })
	return list, nil
}

// await waits until the application has n connections, and pauses it if it is to. At the end of ctx it returns those
// that are there.
func (a *application) await(ctx context.Context, n int) ([]verbs.QueuePair, error) {
	for {
		list, err := a.fresh()
		if err != nil {
			return nil, err
		}
		if len(list) >= n {
			if err := a.stop(list); err != nil {
				return nil, err
			}
			// Once more: what was sent until the pause has moved the PSNs.
			list, err = a.fresh()
			a.mu.Lock()
			defer a.mu.Unlock()
			for _, q := range list {
				a.mine[q.QPN] = true
			}
			return list, err
		}
		select {
		case <-ctx.Done():
			return list, nil
		case <-a.alive.Done():
			return list, nil
		case <-time.After(lookEvery):
		}
	}
}

// stop pauses the processes that own queue pairs, for longestPause at most.
func (a *application) stop(list []verbs.QueuePair) error {
	if !a.pause {
		return nil
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.alive.Err() != nil {
		return errGone // nobody would let it go on
	}
	if len(a.paused) == 0 {
		if a.bound != nil {
			a.bound.Stop()
		}
		a.bound = time.AfterFunc(a.longest, func() { _ = a.resume() })
	}
	for _, q := range list {
		if a.paused[q.PID] {
			continue
		}
		if q.PID == 0 {
			return fmt.Errorf("queue pair %d belongs to the kernel, which cannot be paused: set traffic.external.pause: false",
				q.QPN)
		}
		if err := a.signal(q.PID, false); err != nil {
			return fmt.Errorf("pause %s (PID %d), which owns queue pair %d: %w; the agent needs CAP_KILL, or set "+
				"traffic.external.pause: false", processName(q.PID), q.PID, q.QPN, err)
		}
		a.paused[q.PID] = true
	}
	return nil
}

// resume lets the application go on.
func (a *application) resume() error {
	a.mu.Lock()
	defer a.mu.Unlock()
	var failed []error
	for _, pid := range slices.Sorted(maps.Keys(a.paused)) {
		err := a.signal(pid, true)
		if err != nil && !errors.Is(err, os.ErrProcessDone) {
			failed = append(failed, fmt.Errorf("continue %s (PID %d): %w", processName(pid), pid, err))
		}
		delete(a.paused, pid)
	}
	return errors.Join(failed...)
}

// processName is the name of a process for messages.
func processName(pid int) string {
	text, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/comm")
	if err != nil {
		return "a process"
	}
	return strings.TrimSpace(string(text))
}

// Start lets the application go on.
func (a *application) Start() error {
	a.moved()
	return a.resume()
}

// Wait returns when the application has closed its connections.
func (a *application) Wait(ctx context.Context) error {
	for {
		list, err := a.fresh()
		if err != nil {
			return err
		}
		a.mu.Lock()
		open := slices.ContainsFunc(list, func(q verbs.QueuePair) bool { return a.mine[q.QPN] })
		a.mu.Unlock()
		if !open {
			return a.look()
		}
		a.moved()
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-a.alive.Done():
			return errGone
		case <-time.After(pollEvery):
		}
	}
}

// errGone reports a host that was closed.
var errGone = errors.New("the host was released")

// Local returns nothing: the queue pairs are the application's.
func (a *application) Local() []live.End { return nil }

// Connect has nothing to join.
func (a *application) Connect([]live.End) error {
	return errors.New("an application joins its own queue pairs")
}

// report is empty: completions and data are the application's.
func (a *application) report() (verbs.ReportResponse, error) {
	return verbs.ReportResponse{Report: generator.MergeReports(nil)}, nil
}

// counters lists the device's counters as the kernel shows them.
func (a *application) counters() (testbeds.HostCounters, error) {
	list := testbeds.HostCounters{Vendor: verbs.SoftwareVendor, Lacks: a.info.Lacks}
	values, err := a.port.Counters(a.sysfs)
	for _, c := range values {
		list.Values = append(list.Values, testbeds.Counter{Name: c.Name, Value: c.Value})
	}
	if err != nil {
		return list, err
	}
	return a.withNIC(list)
}

// Close lets the application go on.
func (a *application) Close() error {
	a.kill() // from now on nothing is paused
	err := a.resume()
	a.mu.Lock()
	if a.bound != nil {
		a.bound.Stop()
	}
	a.mu.Unlock()
	if a.echoes != nil {
		err = errors.Join(err, a.echoes.Close())
		a.echoes = nil
	}
	return errors.Join(err, a.rdmaHost.Close())
}

// Await waits for the connections of an application.
func (s *Server) Await(ctx context.Context, q *agentpb.AwaitRequest) (*agentpb.AwaitResponse, error) {
	var of *run
	err := s.withHost(q.GetRun(), func(r *run) error {
		of = r
		return nil
	})
	if err != nil {
		return nil, err
	}
	a, ok := of.rdma.(*application)
	switch n := int(q.GetConnections()); {
	case !ok:
		return nil, status.Error(codes.FailedPrecondition, "the host of this run is no application")
	case n < 1 || n > s.cfg.Limits.Connections:
		return nil, refuse("%d connections, this agent has 1 to %d", n, s.cfg.Limits.Connections)
	}
	ctx, end := of.during(ctx, awaitSlice)
	defer end()
	list, err := a.await(ctx, int(q.GetConnections()))
	if err != nil {
		return nil, failed(err)
	}
	answer := &agentpb.AwaitResponse{}
	for _, p := range list {
		answer.QueuePairs = append(answer.QueuePairs, &agentpb.QueuePair{Qpn: uint32(p.QPN), PeerQpn: uint32(p.Peer),
			ReceivePsn: uint32(p.Receive), Pid: uint32(p.PID), Process: processName(p.PID)})
	}
	return answer, nil
}

// awaitSlice is how long one call of Await waits.
const awaitSlice = 2 * time.Second
