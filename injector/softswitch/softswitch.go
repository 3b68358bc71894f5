// Package softswitch is an injector switch made of a Linux machine: network interfaces, one of the live datapaths on
// them, and the P4Runtime server in front. `candela switchd` runs it.
package softswitch

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"slices"
	"strings"
	"time"

	"golang.org/x/sync/errgroup"
	"google.golang.org/grpc"

	"candela.dev/candela/injector/afpacket"
	"candela.dev/candela/injector/p4"
	"candela.dev/candela/injector/switchd"
	"candela.dev/candela/injector/xdp"
	"candela.dev/candela/link"
	injectorpb "candela.dev/candela/proto/injector/v1"
)

// Datapaths.
const (
	XDP      = "xdp"
	AFPacket = "afpacket"
	QEMU     = "qemu"
)

// Datapaths returns all of them.
func Datapaths() []string { return []string{XDP, AFPacket, QEMU} }

// Config is what a Switch is made of.
type Config struct {
	Datapath string   // XDP, AFPacket or QEMU
	Ports    []string // interfaces towards hosts, for QEMU paths of sockets; port numbers count from 0
	Mirrors  []string // interfaces towards dumpers; their numbers follow
	DeviceID uint64
	Seed     uint64
	Lease    time.Duration // see switchd.Config
	CPU      int           // that handles the packets of an xdp datapath; negative: leave the placement alone
	// MultiQueue allows several receive queues under xdp; see xdp.Config.
	MultiQueue bool
	Version    string // of the tool
	Log        *slog.Logger
}

// datapath is one of the live datapaths, with what the switch needs of it.
type datapath interface {
	// run processes packets until ctx ends, programming excluded while do's function runs.
	run(ctx context.Context, do func(func())) error
	// losses are read while do's function runs.
	losses() ([]*injectorpb.PortLosses, error)
	properties() []*injectorpb.Property
	close() error
}

// Switch is an injector switch. Open, Serve and Close belong to one goroutine.
type Switch struct {
	injectorpb.UnimplementedStatusServer
	cfg      Config
	server   *switchd.Server
	path     datapath
	counts   switchd.Datapath // whose counters P4Runtime serves
	offloads []*link.Offloads
}

// Open takes the interfaces: it turns their offloads off and starts the datapath, which forwards immediately and
// injects nothing. The caller closes the Switch, which restores the interfaces.
func Open(cfg Config) (_ *Switch, err error) {
	if cfg.Log == nil {
		cfg.Log = slog.New(slog.DiscardHandler)
	}
	if known := Datapaths(); !slices.Contains(known, cfg.Datapath) {
		return nil, fmt.Errorf("software switch: datapath %q is unknown; allowed are %s", cfg.Datapath,
			strings.Join(known, ", "))
	}
	s := &Switch{cfg: cfg}
	defer func() {
		if err != nil {
			err = errors.Join(err, s.Close())
		}
	}()
	names := append(append([]string(nil), cfg.Ports...), cfg.Mirrors...)
	for _, name := range names {
		if cfg.Datapath == QEMU {
			break // sockets
		}
		o, err := link.DisableOffloads(name)
		if err != nil {
			return nil, fmt.Errorf("software switch: %w", err)
		}
		s.offloads = append(s.offloads, o)
		if len(o.Remaining) > 0 {
			cfg.Log.Warn("the driver keeps offloads on that change frames", "interface", name, "offloads", o.Remaining)
		}
	}
	served := switchd.Config{DeviceID: cfg.DeviceID, Lease: cfg.Lease}
	switch cfg.Datapath {
	case XDP:
		d, err := openXDP(cfg, names)
		if err != nil {
			return nil, fmt.Errorf("software switch: %w", err)
		}
		s.path, served.Datapath, served.Info = d, d.Datapath, p4.Base()
	case AFPacket:
		d, err := openAFPacket(cfg, names, func(f func()) { s.server.Do(f) })
		if err != nil {
			return nil, fmt.Errorf("software switch: %w", err)
		}
		s.path, served.Datapath, served.Info = d, d.Pipeline(), p4.Software()
	case QEMU:
		d, err := openQEMU(cfg, names, func(f func()) { s.server.Do(f) })
		if err != nil {
			return nil, fmt.Errorf("software switch: %w", err)
		}
		s.path, served.Datapath, served.Info = d, d.Pipeline(), p4.Software()
	}
	s.counts = served.Datapath
	s.server, err = switchd.New(served)
	return s, err
}

// Serve forwards packets and serves P4Runtime on lis until ctx is done; then it returns nil. A datapath that fails ends
// the server, too. lis is closed.
func (s *Switch) Serve(ctx context.Context, lis net.Listener, opts ...grpc.ServerOption) error {
	group, ctx := errgroup.WithContext(ctx)
	group.Go(func() error { return s.path.run(ctx, s.server.Do) })
	group.Go(func() error {
		return s.server.ServeWith(ctx, lis, func(g *grpc.Server) { injectorpb.RegisterStatusServer(g, s) }, opts...)
	})
	return group.Wait()
}

// Close stops the datapath and restores the interfaces' offloads.
func (s *Switch) Close() error {
	var failed []error
	if s.path != nil {
		failed = append(failed, s.path.close())
	}
	for _, o := range s.offloads {
		failed = append(failed, o.Restore())
	}
	s.path, s.offloads = nil, nil
	return errors.Join(failed...)
}

// Describe says what the switch is and runs on.
func (s *Switch) Describe(context.Context, *injectorpb.DescribeRequest) (*injectorpb.DescribeResponse, error) {
	r := &injectorpb.DescribeResponse{Version: s.cfg.Version, Datapath: s.cfg.Datapath, Properties: s.path.properties()}
	add := func(name string, value any) {
		r.Properties = append(r.Properties, &injectorpb.Property{Name: name, Value: fmt.Sprint(value)})
	}
	add("ports", strings.Join(s.cfg.Ports, ", "))
	add("mirrors", strings.Join(s.cfg.Mirrors, ", "))
	for _, o := range s.offloads {
		if len(o.Remaining) > 0 {
			add("offloads-on", strings.Join(o.Remaining, ", "))
		}
	}
	return r, nil
}

// PortCount is what the switch counted at a port. A push of the pipeline sets it to 0.
type PortCount struct {
	Port             int
	Interface        string
	RoCERx, RoCETx   uint64 // packets
	PauseRx          uint64 // frames
	RxBytes, TxBytes uint64 // of RoCE packets
}

// Counts returns what the switch counted at its ports, and the copies of each mirror session, from 1.
func (s *Switch) Counts() (ports []PortCount, mirrored []uint64) {
	s.server.Do(func() {
		for i, name := range slices.Concat(s.cfg.Ports, s.cfg.Mirrors) {
			p := PortCount{Port: i, Interface: name}
			p.RoCERx, p.RxBytes = s.counts.Counter(p4.CounterRoCERx, i)
			p.RoCETx, p.TxBytes = s.counts.Counter(p4.CounterRoCETx, i)
			p.PauseRx, _ = s.counts.Counter(p4.CounterPauseRx, i)
			ports = append(ports, p)
		}
		for session := range len(s.cfg.Mirrors) {
			n, _ := s.counts.Counter(p4.CounterMirrored, session+1)
			mirrored = append(mirrored, n)
		}
	})
	return ports, mirrored
}

// Losses returns what every port has lost since the switch was opened.
func (s *Switch) Losses(context.Context, *injectorpb.LossesRequest) (*injectorpb.LossesResponse, error) {
	var r injectorpb.LossesResponse
	var err error
	s.server.Do(func() { r.Ports, err = s.path.losses() })
	return &r, err
}

// afpacketPath is the afpacket datapath.
type afpacketPath struct {
	*afpacket.Switch
	inside func(func()) // takes the server's lock
}

func openAFPacket(cfg Config, names []string, inside func(func())) (*afpacketPath, error) {
	s, err := afpacket.Open(afpacket.Config{Ports: names, Seed: cfg.Seed, Report: func(err error) {
		cfg.Log.Error("datapath", "error", err)
	}})
	if err != nil {
		return nil, err
	}
	return &afpacketPath{s, inside}, nil
}

func (p *afpacketPath) run(ctx context.Context, do func(func())) error { return p.Run(ctx, do) }
func (p *afpacketPath) close() error                                   { return p.Close() }

func (p *afpacketPath) properties() (list []*injectorpb.Property) {
	p.inside(func() { list = []*injectorpb.Property{{Name: WaitCounts, Value: p.Waits().String()}} })
	return list
}

func (p *afpacketPath) losses() ([]*injectorpb.PortLosses, error) {
	stats, err := p.Stats()
	var list []*injectorpb.PortLosses
	for i, s := range stats {
		list = append(list, &injectorpb.PortLosses{Port: uint32(i), Interface: s.Name, Missed: s.Missed + s.Cut,
			Unsent: s.Unsent})
	}
	return list, err
}

// xdpPath is the xdp datapath: the kernel does the work.
type xdpPath struct {
	*xdp.Datapath
	log        *slog.Logger
	names      []string
	manyQueues bool // may number packets on several CPUs
}

func openXDP(cfg Config, names []string) (*xdpPath, error) {
	d, err := xdp.Open(xdp.Config{Ports: names, Seed: cfg.Seed, Mode: xdp.ModeDriver, CPU: cfg.CPU,
		MultiQueue: cfg.MultiQueue})
	if err != nil {
		return nil, err
	}
	if err := d.Check(); err != nil {
		return nil, errors.Join(err, d.Close())
	}
	return &xdpPath{Datapath: d, log: cfg.Log, names: names, manyQueues: cfg.MultiQueue}, nil
}

// faultEvery is how often faults of map operations, which P4Runtime cannot report, are checked.
const faultEvery = time.Second

func (p *xdpPath) run(ctx context.Context, do func(func())) error {
	tick := time.NewTicker(faultEvery)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
		}
		var fault error
		do(func() { fault = p.Fault() })
		if fault != nil {
			return fault
		}
	}
}

func (p *xdpPath) close() error { return p.Close() }

func (p *xdpPath) properties() []*injectorpb.Property {
	list := []*injectorpb.Property{{Name: "xdp-mode", Value: p.Mode().String()}}
	if p.manyQueues {
		list = append(list, &injectorpb.Property{Name: injectorpb.MultiQueue, Value: "true"})
	}
	return list
}

func (p *xdpPath) losses() ([]*injectorpb.PortLosses, error) {
	losses, err := p.Losses()
	var list []*injectorpb.PortLosses
	for i, n := range losses {
		list = append(list, &injectorpb.PortLosses{Port: uint32(i), Interface: p.names[i], Unsent: n})
	}
	return list, err
}
