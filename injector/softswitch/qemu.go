package softswitch

import (
	"context"
	"fmt"
	"strconv"

	"candela.dev/candela/injector/qemu"
	injectorpb "candela.dev/candela/proto/injector/v1"
)

// A path names a port of the qemu datapath: the sockets of the switch and of the guest's NIC, or of a dumper, are that
// path with one of these suffixes.
const (
	SwitchSocket = ".port"
	PeerSocket   = ".nic"
)

// Properties of a switch that change while it runs.
const (
	// QueuedFrames is how many frames wait for ports without room, with the qemu datapath.
	QueuedFrames = "queued-frames"
	// DelayCounts is a delay.Counts of the ways through the switch, with the qemu datapath.
	DelayCounts = "delay-counts"
	// WaitCounts is a delay.Counts of the times between the arrival of frames and their forwarding, with the afpacket
	// datapath.
	WaitCounts = "wait-counts"
	// HoldsOfPort, with the number of a port, is a qemu.Holds. Ports without an answer have none.
	HoldsOfPort = "holds-of-port-"
)

// qemuPath is the qemu datapath.
type qemuPath struct {
	*qemu.Switch
	names  []string
	inside func(func()) // takes the server's lock
}

func openQEMU(cfg Config, names []string, inside func(func())) (*qemuPath, error) {
	c := qemu.Config{Seed: cfg.Seed, Report: func(err error) { cfg.Log.Error("datapath", "error", err) }}
	for i, name := range names {
		c.Ports = append(c.Ports, qemu.Port{Local: name + SwitchSocket, Remote: name + PeerSocket, Echo: i < len(cfg.Ports)})
	}
	s, err := qemu.Open(c)
	if err != nil {
		return nil, err
	}
	return &qemuPath{Switch: s, names: names, inside: inside}, nil
}

func (p *qemuPath) run(ctx context.Context, do func(func())) error { return p.Run(ctx, do) }
func (p *qemuPath) close() error                                   { return p.Close() }

func (p *qemuPath) properties() (list []*injectorpb.Property) {
	p.inside(func() {
		list = []*injectorpb.Property{
			{Name: QueuedFrames, Value: fmt.Sprint(p.Queued())}, {Name: DelayCounts, Value: p.Delays().String()},
		}
		for i, h := range p.Holds() {
			if h.Answers {
				list = append(list, &injectorpb.Property{Name: HoldsOfPort + strconv.Itoa(i), Value: h.String()})
			}
		}
	})
	return list
}

func (p *qemuPath) losses() (list []*injectorpb.PortLosses, _ error) {
	for i, s := range p.Stats() {
		list = append(list, &injectorpb.PortLosses{Port: uint32(i), Interface: p.names[i], Missed: s.Cut, Unsent: s.Unsent})
	}
	return list, nil
}
