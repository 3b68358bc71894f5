package live

import (
	"context"
	"errors"
	"fmt"

	"candela.dev/candela/clock"
	"candela.dev/candela/framelog"
	"candela.dev/candela/generator"
	"candela.dev/candela/generator/rdma"
	"candela.dev/candela/packet"
)

// Host is a machine with one NIC model on a real interface.
type Host struct {
	station
	cfg      Config
	nic      *rdma.NIC
	qps      []*rdma.QP
	workload *generator.Workload // nil until connected

	done    chan struct{} // closed when this host's messages are complete
	isDone  bool
	started bool

	packet packet.Packet
}

// Open opens the interface and answers ARP and neighbour discovery for the host's addresses. It needs CAP_NET_RAW and
// CAP_NET_ADMIN. The interface's offloads are disabled until Close.
func Open(cfg Config) (_ *Host, err error) {
	h := &Host{cfg: cfg, done: make(chan struct{})}
	h.name, h.socket, h.rate, h.core = cfg.Interface, cfg.Socket, cfg.NIC.PortRate, (*hostCore)(h)
	defer func() {
		if err != nil {
			err = errors.Join(fmt.Errorf("live host on %q: %w", cfg.Interface, err), h.release())
		}
	}()
	if cfg.Socket != nil {
		h.name = cfg.Socket.Local
	} else if h.cfg.NIC.MAC, err = hardwareAddress(cfg.Interface, cfg.NIC.MAC); err != nil {
		return nil, err
	}
	if err := h.createQPs(); err != nil {
		return nil, err
	}
	if cfg.Log {
		h.sentLog, h.receivedLog = framelog.NewLog(cfg.Snap), framelog.NewLog(cfg.Snap)
	}
	return h, h.open(h.cfg.NIC.MAC, h.cfg.NIC.IPs)
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

// Local returns the metadata for the peer, by connection.
func (h *Host) Local() []End {
	ends := make([]End, len(h.qps))
	for i, qp := range h.qps {
		ends[i] = End{IP: qp.LocalIP(), QPN: qp.QPN(), IPSN: qp.IPSN(), MAC: h.cfg.NIC.MAC, Region: qp.Region()}
	}
	return ends
}

// Connect connects every queue pair to its peer.
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

// Wait returns when all messages of this host are complete, successful or not, or when ctx ends.
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

// Frames returns the frame logs so far. Later frames do not change them.
func (h *Host) Frames() (f Frames, err error) {
	err = h.do(func() error {
		f.Probes = h.probes
		if h.sentLog != nil {
			f.Sent, f.Received = h.sentLog.Snapshot(), h.receivedLog.Snapshot()
		}
		return nil
	})
	return f, err
}

// settle passes completions to the workload, which may post more.
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

// hostCore is the core of the station.
type hostCore Host

func (c *hostCore) timers() (serve, send clock.Time) {
	if c.workload != nil {
		return c.workload.NextTimer(), c.nic.NextTimer()
	}
	return clock.Never, c.nic.NextTimer()
}

func (c *hostCore) serve(now clock.Time) error {
	c.nic.HandleTimer(now)
	if c.workload != nil && c.started {
		if err := c.workload.HandleTimer(now); err != nil {
			return err
		}
	}
	return (*Host)(c).settle(now)
}

func (c *hostCore) take(now clock.Time, frame []byte) (ours bool, err error) {
	p := &c.packet
	if p.ParseReceived(frame) != nil || !p.IsRoCE() && !p.CutRoCE() {
		return false, nil
	}
	c.nic.HandlePacket(now, p)
	return true, (*Host)(c).settle(now)
}

func (c *hostCore) next(now clock.Time) []byte {
	if !c.nic.Poll(now, &c.packet) {
		return nil
	}
	return c.packet.AppendTo(nil)
}
