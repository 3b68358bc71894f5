package live

import (
	"context"
	"errors"
	"fmt"
	"net"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sys/unix"

	"candela.dev/candela/clock"
	"candela.dev/candela/generator"
	"candela.dev/candela/generator/rdma"
	"candela.dev/candela/link"
	"candela.dev/candela/packet"
)

// Host is a machine with one NIC model on a real interface.
type Host struct {
	cfg       Config
	nic       *rdma.NIC
	qps       []*rdma.QP
	workload  *generator.Workload // nil until connected
	neighbour Neighbour

	tap      *link.Tap
	sender   *link.Sender
	waiter   *link.Waiter
	offloads *link.Offloads

	origin time.Time
	wire   clock.Time   // when the port is free again
	quiet  atomic.Int64 // clock.Time of the latest RoCE frame

	requests chan func()
	stop     context.CancelFunc
	ended    chan struct{} // closed when the loop has returned
	done     chan struct{} // closed when the host's own messages are complete
	isDone   bool
	started  bool
	failure  error // valid once ended is closed

	packet packet.Packet
	lock   sync.Mutex // guards closing
	closed bool
}

// batch is how many frames are received or sent before the other gets its turn.
const batch = link.DefaultBatch

// Open takes the interface and starts answering for the host's addresses. It needs CAP_NET_RAW and CAP_NET_ADMIN. The
// interface's offloads are off until Close.
func Open(cfg Config) (_ *Host, err error) {
	h := &Host{cfg: cfg, requests: make(chan func()), ended: make(chan struct{}), done: make(chan struct{})}
	defer func() {
		if err != nil {
			err = errors.Join(fmt.Errorf("live host on %q: %w", cfg.Interface, err), h.release())
		}
	}()
	device, err := net.InterfaceByName(cfg.Interface)
	if err != nil {
		return nil, err
	}
	if h.cfg.NIC.MAC == (packet.MAC{}) {
		if len(device.HardwareAddr) != len(packet.MAC{}) {
			return nil, fmt.Errorf("the interface has no Ethernet address: %v", device.HardwareAddr)
		}
		h.cfg.NIC.MAC = packet.MAC(device.HardwareAddr)
	}
	if err := h.createQPs(); err != nil {
		return nil, err
	}
	h.neighbour = Neighbour{MAC: h.cfg.NIC.MAC, IPs: h.cfg.NIC.IPs}
	if h.offloads, err = link.DisableOffloads(cfg.Interface); err != nil {
		return nil, err
	}
	if h.tap, err = link.OpenTap(link.TapConfig{Interface: cfg.Interface}); err != nil {
		return nil, err
	}
	if h.sender, err = link.OpenSender(cfg.Interface); err != nil {
		return nil, err
	}
	if h.waiter, err = link.NewWaiter(h.tap); err != nil {
		return nil, err
	}
	h.origin = time.Now()
	ctx, stop := context.WithCancel(context.Background())
	h.stop = stop
	go h.loop(ctx)
	return h, nil
}

func (h *Host) createQPs() error {
	nic, err := rdma.NewNIC(h.cfg.NIC)
	if err != nil {
		return err
	}
	h.nic = nic
	for i, c := range h.cfg.Connections {
		qp, err := nic.CreateQP(c.QP)
		if err != nil {
			return fmt.Errorf("connection %d: %w", i+1, err)
		}
		h.qps = append(h.qps, qp)
	}
	return nil
}

// release frees what Open took.
func (h *Host) release() error {
	var failed []error
	if h.waiter != nil {
		failed = append(failed, h.waiter.Close())
	}
	if h.sender != nil {
		failed = append(failed, h.sender.Close())
	}
	if h.tap != nil {
		failed = append(failed, h.tap.Close())
	}
	if h.offloads != nil {
		failed = append(failed, h.offloads.Restore())
	}
	return errors.Join(failed...)
}

// Close ends the host and leaves the interface as it was. It may be called more than once.
func (h *Host) Close() error {
	h.lock.Lock()
	defer h.lock.Unlock()
	if h.closed {
		return nil
	}
	h.closed = true
	h.stop()
	h.waiter.Wake()
	<-h.ended
	return h.release()
}

// do runs f in the host's goroutine.
func (h *Host) do(f func() error) error {
	result := make(chan error, 1)
	request := func() { result <- f() }
	h.wake()
	for {
		select {
		case h.requests <- request:
			return <-result
		case <-h.ended:
			return h.gone()
		case <-time.After(10 * time.Millisecond):
			// The loop was about to wait when it was woken.
			h.wake()
		}
	}
}

func (h *Host) wake() {
	h.lock.Lock()
	defer h.lock.Unlock()
	if !h.closed {
		h.waiter.Wake()
	}
}

// gone says why the loop has ended.
func (h *Host) gone() error {
	if h.failure != nil {
		return h.failure
	}
	return ErrClosed
}

// Local returns what the peer must know, by connection.
func (h *Host) Local() []End {
	ends := make([]End, len(h.qps))
	for i, qp := range h.qps {
		ends[i] = End{IP: qp.LocalIP(), QPN: qp.QPN(), IPSN: qp.IPSN(), MAC: h.cfg.NIC.MAC, Region: qp.Region()}
	}
	return ends
}

// Connect joins every queue pair to its peer.
func (h *Host) Connect(peers []End) error {
	if err := h.cfg.checkPeers(peers); err != nil {
		return err
	}
	return h.do(func() error {
		for i, p := range peers {
			if err := h.qps[i].Connect(rdma.Remote{IP: p.IP, QPN: p.QPN, IPSN: p.IPSN, MAC: p.MAC}); err != nil {
				return fmt.Errorf("connection %d: %w", i+1, err)
			}
		}
		var err error
		h.workload, err = h.cfg.workload(h.qps, peers)
		return err
	})
}

// Start posts the first messages and receives.
func (h *Host) Start() error {
	return h.do(func() error {
		switch {
		case h.workload == nil:
			return errors.New("start: the host is not connected")
		case h.started:
			return errors.New("start: the host has started already")
		}
		h.started = true
		now := h.now()
		h.quiet.Store(int64(now))
		if err := h.workload.Start(now); err != nil {
			return err
		}
		return h.settle(now)
	})
}

// Wait returns when all messages of this host are complete, well or badly, or when ctx ends.
func (h *Host) Wait(ctx context.Context) error {
	select {
	case <-h.done:
		return nil
	case <-h.ended:
		return h.gone()
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// Quiet returns for how long no RoCE frame came or went.
func (h *Host) Quiet() time.Duration { return h.now().Sub(clock.Time(h.quiet.Load())).Std() }

// Report returns the results of the messages posted here; empty before Connect.
func (h *Host) Report() (r generator.Report, err error) {
	err = h.do(func() error {
		if h.workload != nil {
			r = h.workload.Report()
		}
		return nil
	})
	return r, err
}

// Counters returns the NIC's counters under the vendor's names.
func (h *Host) Counters() (list []rdma.Counter, err error) {
	err = h.do(func() error {
		list = h.nic.ListCounters()
		return nil
	})
	return list, err
}

// Missed returns how many frames came while the ring was full: with any, the host is no witness.
func (h *Host) Missed() (missed uint64, err error) {
	err = h.do(func() error {
		s, err := h.tap.Stats()
		missed = s.Dropped
		return err
	})
	return missed, err
}

func (h *Host) now() clock.Time { return clock.Time(0).Add(clock.FromStd(time.Since(h.origin))) }

// loop is the host's goroutine.
func (h *Host) loop(ctx context.Context) {
	defer close(h.ended)
	for ctx.Err() == nil {
		select {
		case request := <-h.requests:
			request()
		default:
		}
		more, err := h.step()
		if err == nil && !more {
			err = h.waiter.Wait(h.patience())
			if errors.Is(err, unix.ENETDOWN) {
				// A port that flaps comes back; what was lost meanwhile is lost as on any wire.
				err = nil
				pause(ctx, 10*time.Millisecond)
			}
		}
		if err != nil {
			h.failure = fmt.Errorf("live host on %q: %w", h.cfg.Interface, err)
			return
		}
	}
}

func pause(ctx context.Context, d time.Duration) {
	select {
	case <-ctx.Done():
	case <-time.After(d):
	}
}

// patience is how long nothing can happen but an arrival.
func (h *Host) patience() time.Duration {
	next := h.nic.NextTimer()
	if next != clock.Never {
		next = max(next, h.wire)
	}
	if h.workload != nil {
		next = min(next, h.workload.NextTimer())
	}
	if next == clock.Never {
		return -1
	}
	return max(0, next.Sub(h.now()).Std())
}

// step receives, serves timers and sends, a batch of each at most, and reports whether there may be more to do at once.
func (h *Host) step() (more bool, err error) {
	received, err := h.receive()
	if err != nil {
		return false, err
	}
	now := h.now()
	h.nic.HandleTimer(now)
	if h.workload != nil && h.started {
		if err := h.workload.HandleTimer(now); err != nil {
			return false, err
		}
	}
	if err := h.settle(now); err != nil {
		return false, err
	}
	sent, err := h.send()
	return received == batch || sent == batch, err
}

// receive hands a batch of frames to the NIC.
func (h *Host) receive() (n int, err error) {
	for ; n < batch; n++ {
		f, ok := h.tap.Next()
		if !ok {
			return n, nil
		}
		err := h.take(f)
		h.tap.Release()
		if err != nil {
			return n, err
		}
	}
	return n, nil
}

func (h *Host) take(f link.Frame) error {
	if answer := h.neighbour.Answer(nil, f.Data); answer != nil {
		return h.queue(answer)
	}
	p := &h.packet
	if p.Parse(f.Data) != nil || !p.IsRoCE() {
		return nil
	}
	now := h.now()
	h.quiet.Store(int64(now))
	h.nic.HandlePacket(now, p)
	return h.settle(now)
}

// settle hands completions to the workload, which may post more.
func (h *Host) settle(now clock.Time) error {
	var c generator.Completion
	for h.nic.PollCompletion(&c) {
		if h.workload == nil {
			continue
		}
		if err := h.workload.Completion(now, c.Context, h.cfg.Side, c); err != nil {
			return err
		}
	}
	if h.started && !h.isDone && h.workload.Done() {
		h.isDone = true
		close(h.done)
	}
	return nil
}

// send transmits what the NIC has ready, no faster than its port.
func (h *Host) send() (n int, err error) {
	for ; n < batch; n++ {
		now := h.now()
		if h.wire > now || !h.nic.Poll(now, &h.packet) {
			break
		}
		frame := h.packet.AppendTo(nil)
		h.wire = max(h.wire, now).Add(h.cfg.NIC.PortRate.Serialise(len(frame) + wireOverhead))
		h.quiet.Store(int64(now))
		if err := h.queue(frame); err != nil {
			return n, err
		}
	}
	if h.sender.Pending() == 0 {
		return n, nil
	}
	return n, h.sent(h.sender.Flush())
}

// wireOverhead is what a frame occupies beyond its bytes: FCS, preamble with delimiter, inter-packet gap.
const wireOverhead = 4 + 8 + 12

// queue adds a frame to the batch; it must stay as it is.
func (h *Host) queue(frame []byte) error { return h.sent(h.sender.Queue(frame)) }

// sent judges an error of the kernel: one that a wire could have, too, is a loss, which the transport repairs.
func (h *Host) sent(err error) error {
	if errors.Is(err, unix.ENETDOWN) || errors.Is(err, unix.ENOBUFS) {
		return nil
	}
	return err
}
