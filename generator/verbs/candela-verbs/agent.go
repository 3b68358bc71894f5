//go:build verbs && cgo && linux

package main

import (
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"os/exec"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"candela.dev/candela/clock"
	"candela.dev/candela/generator"
	"candela.dev/candela/generator/rdma"
	"candela.dev/candela/generator/verbs"
	"candela.dev/candela/generator/verbs/ibv"
	"candela.dev/candela/link"
	"candela.dev/candela/packet"
)

// agent serves one caller. Lock guards the state that requests access during traffic.
type agent struct {
	guest bool
	echo  io.Closer // of a guest with an interface

	config  verbs.OpenRequest
	device  *ibv.Device
	memory  *ibv.Memory
	pairs   []*pair
	byQPN   map[packet.QPN]int
	ended   chan struct{} // closed by the goroutine that drives the traffic; nil: not started
	stop    chan struct{}
	started time.Time

	lock      sync.Mutex
	workload  *generator.Workload
	completed int
	failure   error
}

// close ends the traffic and frees everything.
func (a *agent) close() {
	if a.ended != nil {
		close(a.stop)
		<-a.ended
	}
	for _, p := range a.pairs {
		p.Close()
	}
	if a.memory != nil {
		_ = a.memory.Close()
	}
	if a.device != nil {
		a.device.Close()
	}
	if a.echo != nil {
		_ = a.echo.Close()
	}
	*a = agent{guest: a.guest}
}

// maxMemory returns the limit of the connections' memory: 1 GiB, on small machines half of the RAM.
func (a *agent) maxMemory() int {
	const most = 1 << 30
	var info unix.Sysinfo_t
	if err := unix.Sysinfo(&info); err != nil {
		return most
	}
	return min(most, int(uint64(info.Totalram)*uint64(info.Unit)/2))
}

// room returns the queue depths of a connection's queue pair.
func (a *agent) room(c *verbs.Connection) (sends, receives int) {
	depth := a.config.ReceiveDepth
	if depth == 0 {
		depth = 50
	}
	return max(1, min(c.Traffic.TxDepth, c.Traffic.Messages)), depth + 1
}

func (a *agent) open(r verbs.OpenRequest) (verbs.OpenResponse, error) {
	a.close()
	response, err := a.tryOpen(r)
	if err != nil {
		a.close()
	}
	return response, err
}

// maxPort is the largest number of a port: the library has a byte for it.
const maxPort = 255

func (a *agent) port() verbs.Port { return verbs.Port{Device: a.config.Device, Number: a.config.Port} }

func (a *agent) tryOpen(r verbs.OpenRequest) (verbs.OpenResponse, error) {
	a.config, a.byQPN = r, make(map[packet.QPN]int)
	response := verbs.OpenResponse{Attributes: verbs.Attributes()}
	total, completions := 0, 0
	layouts := make([]layout, len(r.Connections))
	for i := range r.Connections {
		sends, receives := a.room(&r.Connections[i])
		completions += sends + receives
		layouts[i], total = arrange(&r.Connections[i], total, sends, receives)
	}
	if most := a.maxMemory(); total > most {
		return response, fmt.Errorf("the connections need %d MiB of registered memory, this machine has %d for it", total>>20,
			most>>20)
	}
	var err error
	if r.Port < 1 || r.Port > maxPort {
		return response, fmt.Errorf("port %d: want 1 to %d", r.Port, maxPort)
	}
	if r.Echo != "" {
		if a.echo, err = link.AnswerEchoes(r.Echo); err != nil {
			return response, err
		}
	}
	if a.device, err = ibv.Open(r.Device, r.Port, completions); err != nil {
		return response, err
	}
	if err := a.checkAttributes(); err != nil {
		return response, err
	}
	if a.memory, err = a.device.Register(total); err != nil {
		return response, err
	}
	random := rand.New(rand.NewPCG(r.Seed, uint64(r.Side)))
	content := rdma.NewContent()
	for i := range r.Connections {
		p, err := a.openPair(&a.config.Connections[i], layouts[i], random)
		if err != nil {
			return response, fmt.Errorf("connection %d: %w", i+1, err)
		}
		p.content = content
		a.pairs = append(a.pairs, p)
		a.byQPN[p.Number()] = i
		response.Ends = append(response.Ends,
			verbs.End{IP: r.Connections[i].IP, QPN: p.Number(), IPSN: p.ipsn, Region: p.region()})
	}
	attr := a.device.Attributes()
	response.Device = verbs.Device{
		Name: r.Device, Firmware: attr.Firmware, VendorID: attr.VendorID, VendorPart: attr.VendorPart,
		MaxReads: attr.MaxReads,
		Lacks:    verbs.Lacking(attr.VendorID),
	}
	return response, nil
}

// checkAttributes returns why the device can't have the attributes of the queue pairs; nil: it can, as far as is known.
func (a *agent) checkAttributes() error {
	attr := a.device.Attributes()
	for i := range a.config.Connections {
		c := &a.config.Connections[i]
		switch soft := verbs.Software(attr.VendorID); {
		case soft && c.SourcePort != 0:
			return fmt.Errorf("connection %d: %s can't be set to UDP source port %d: soft-RoCE derives it from the QPN", i+1,
				a.config.Device, c.SourcePort)
		case soft && c.FlowLabel != 0:
			return fmt.Errorf("connection %d: %s can't be set to flow label %#x: soft-RoCE sends 0", i+1, a.config.Device,
				c.FlowLabel)
		case c.MaxRDAtomic > attr.MostReads:
			return fmt.Errorf("connection %d: %s has at most %d outstanding READs and atomics in both directions, the test wants %d",
				i+1, a.config.Device, attr.MostReads, c.MaxRDAtomic)
		}
	}
	return nil
}

func (a *agent) openPair(c *verbs.Connection, l layout, random *rand.Rand) (*pair, error) {
	sends, receives := a.room(c)
	qp, err := a.device.CreateQP(sends, receives)
	if err != nil {
		return nil, err
	}
	p := &pair{QP: qp, layout: l, memory: a.memory, connection: c, ipsn: packet.PSN(random.Uint32N(1 << 24))}
	if c.IPSN != nil {
		p.ipsn = *c.IPSN
	}
	p.plan()
	return p, nil
}

func (a *agent) connect(r verbs.ConnectRequest) (struct{}, error) {
	if len(r.Peers) != len(a.pairs) {
		return struct{}{}, fmt.Errorf("%d peers for %d connections", len(r.Peers), len(a.pairs))
	}
	ends := make([]generator.Ends, len(a.pairs))
	for i, p := range a.pairs {
		c, peer := &a.config.Connections[i], r.Peers[i]
		gid, err := a.gid(c)
		if err == nil {
			err = p.Connect(ibv.Path{
				GIDIndex: gid, PeerIP: peer.IP, PeerQPN: peer.QPN, PeerIPSN: peer.IPSN, IPSN: p.ipsn, MTU: c.MTU,
				AckTimeout: c.AckTimeout, RetryCount: c.RetryCount, RNRRetry: c.RNRRetry, MinRNRTimer: c.MinRNRTimer,
				HopLimit: c.HopLimit, TrafficClass: c.TrafficClass, FlowLabel: c.FlowLabel, SourcePort: c.SourcePort,
				MaxRDAtomic: c.MaxRDAtomic,
			})
		}
		if err != nil {
			return struct{}{}, fmt.Errorf("connection %d: %w", i+1, err)
		}
		p.peer = peer
		p.fill()
		ends[i][a.config.Side] = generator.End{QP: p, Region: p.region()}
		ends[i][a.config.Side.Peer()] = generator.End{Region: peer.Region}
	}
	workload, err := generator.NewWorkload(generator.WorkloadConfig{
		BarrierSync: a.config.BarrierSync, ReceiveDepth: a.config.ReceiveDepth,
		RepostDelay: clock.Duration(a.config.RepostNS) * clock.Nanosecond,
		TrafficOf: func(connection int, side generator.Side) generator.Traffic {
			if side == a.config.Side {
				return a.config.Connections[connection].Traffic
			}
			return a.config.Connections[connection].PeerTraffic
		},
	}, ends)
	a.workload = workload
	return struct{}{}, err
}

// gid returns the index of the connection's GID: the given one, which must be of its address, or that of its address.
func (a *agent) gid(c *verbs.Connection) (int, error) {
	if c.GIDIndex == nil {
		return a.port().GIDIndex(os.DirFS("/"), c.IP)
	}
	return *c.GIDIndex, a.port().CheckGID(os.DirFS("/"), *c.GIDIndex, c.IP)
}

func (a *agent) counters() (verbs.CountersResponse, error) {
	if a.config.Device == "" {
		return verbs.CountersResponse{}, errors.New("no device is open")
	}
	list, err := a.port().Counters(os.DirFS("/"))
	if err != nil {
		return verbs.CountersResponse{}, err
	}
	if tool, missing := exec.LookPath("rdma"); missing == nil {
		text, err := output(tool, "-j", "statistic", "show", "link", fmt.Sprintf("%s/%d", a.config.Device, a.config.Port))
		if err == nil {
			list, err = verbs.AddStatistic(list, text)
		}
		if err != nil {
			return verbs.CountersResponse{}, err
		}
	}
	return verbs.CountersResponse{Counters: list}, nil
}

func (a *agent) now() clock.Time { return clock.Time(0).Add(clock.FromStd(time.Since(a.started))) }

// start posts the first requests and drives the traffic in the background, until [agent.close].
func (a *agent) start() error {
	if a.workload == nil || a.ended != nil {
		return errors.New("start: queue pairs must be connected, and started once")
	}
	a.started = time.Now()
	if err := a.device.Arm(); err != nil {
		return err
	}
	if err := a.workload.Start(a.now()); err != nil {
		return err
	}
	a.ended, a.stop = make(chan struct{}), make(chan struct{})
	go a.drive()
	return nil
}

// patience bounds the delay of a stop.
const patience = 50 * time.Millisecond

func (a *agent) drive() {
	defer close(a.ended)
	for {
		select {
		case <-a.stop:
			return
		default:
		}
		wait, err := a.advance()
		if err == nil && wait > 0 {
			err = a.device.Wait(wait)
		}
		if err != nil {
			a.lock.Lock()
			a.failure = err
			a.lock.Unlock()
			return
		}
	}
}

// advance handles completions and due timers, and returns how long to wait for the next completion.
func (a *agent) advance() (time.Duration, error) {
	a.lock.Lock()
	defer a.lock.Unlock()
	n, err := a.device.Poll(a.complete)
	if err != nil {
		return 0, err
	}
	if err := a.workload.HandleTimer(a.now()); err != nil || n > 0 {
		return 0, err
	}
	// Arm, then poll again: completions in between cause no event.
	if err := a.device.Arm(); err != nil {
		return 0, err
	}
	if n, err = a.device.Poll(a.complete); err != nil || n > 0 {
		return 0, err
	}
	if next := a.workload.NextTimer(); next != clock.Never {
		return max(time.Microsecond, min(patience, next.Sub(a.now()).Std())), nil
	}
	return patience, nil
}

func (a *agent) complete(c ibv.Completion) error {
	i, ok := a.byQPN[c.QPN]
	if !ok {
		return fmt.Errorf("completion of queue pair %#x, which is none of ours", uint32(c.QPN))
	}
	status, ok := generator.ParseStatus(c.Status)
	if !ok {
		return fmt.Errorf("connection %d: request %d completed with %s, which no report can hold", i+1, c.ID, c.Status)
	}
	if !c.Receive {
		a.completed++
	}
	if status == generator.Success {
		a.pairs[i].completed(c)
	}
	return a.workload.Completion(a.now(), i, a.config.Side, generator.Completion{
		ID: c.ID, Context: i, QPN: c.QPN, Receive: c.Receive, Status: status, Length: c.Length, HasImm: c.HasImm, Imm: c.Imm,
		At: a.now(),
	})
}

func (a *agent) status() (verbs.StatusResponse, error) {
	a.lock.Lock()
	defer a.lock.Unlock()
	if a.failure != nil {
		return verbs.StatusResponse{}, a.failure
	}
	if a.workload == nil {
		return verbs.StatusResponse{}, errors.New("status: queue pairs must be connected")
	}
	return verbs.StatusResponse{Done: a.ended != nil && a.workload.Done(), Completed: a.completed}, nil
}

func (a *agent) report() (verbs.ReportResponse, error) {
	a.lock.Lock()
	defer a.lock.Unlock()
	if a.workload == nil {
		return verbs.ReportResponse{}, errors.New("report: queue pairs must be connected")
	}
	r := verbs.ReportResponse{Report: a.workload.Report()}
	for _, p := range a.pairs {
		r.Data = append(r.Data, p.verdict())
	}
	return r, nil
}
