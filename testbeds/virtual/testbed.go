// Package virtual is a testbed without hardware, in discrete simulated time: two hosts with NIC models, links, the
// injector switch between them, and dumpers attached to it. Only time and wires are simulated; packets, injector
// pipeline, P4Runtime control path, mirror encoding, shards and analysis are those of every testbed.
//
// A run is a function of its specification and seed, to the byte. Components are actors on one [engine]; events of one
// instant happen in the order of scheduling. Control calls arrive over gRPC between simulated phases, never inside one:
// a phase runs under the switch server's lock.
//
// One goroutine drives a Testbed. The Testbed starts one goroutine, the P4Runtime server, which Close ends.
package virtual

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"

	"candela.dev/candela/clock"
	"candela.dev/candela/dumper"
	"candela.dev/candela/generator"
	"candela.dev/candela/generator/rdma"
	"candela.dev/candela/injector"
	"candela.dev/candela/injector/p4"
	"candela.dev/candela/testbeds"
)

// deviceID is the P4Runtime device id of the embedded switch.
const deviceID = 1

// target is the embedded switch's name in errors.
const target = "virtual switch"

// mirrorBuffer is the switch's buffer for one dumper, in wire bytes. 64 KiB absorb the burst of two hosts that send at
// line rate at once while the round robin distributes their packets.
const mirrorBuffer = 64 << 10

// Testbed is a virtual testbed for one run.
type Testbed struct {
	spec     testbeds.Spec
	engine   engine
	pool     pool
	hosts    [2]*host
	qps      [][2]*rdma.QP // by connection
	sw       *injectorSwitch
	dumpers  []*dumper.Host
	workload *generator.Workload

	application application
	models      Catalogue

	chassis *chassis
	owned   bool // the chassis ends with this testbed
}

// A Catalogue returns the NIC model of a name.
type Catalogue func(name string) (rdma.Profile, error)

// New builds the testbed for spec and starts the switch's P4Runtime server. The caller closes it.
func New(spec testbeds.Spec) (*Testbed, error) { return NewWith(spec, rdma.ProfileByName) }

// NewWith is [New] with NIC models from another catalogue.
func NewWith(spec testbeds.Spec, models Catalogue) (*Testbed, error) {
	c, err := newChassis(ports(&spec))
	if err != nil {
		return nil, fmt.Errorf("virtual testbed: %w", err)
	}
	t, err := newTestbed(spec, models, c)
	if err != nil {
		return nil, errors.Join(err, c.close())
	}
	t.owned = true
	return t, nil
}

// newTestbed builds the testbed around a switch in its initial state.
func newTestbed(spec testbeds.Spec, models Catalogue, c *chassis) (*Testbed, error) {
	t := &Testbed{spec: spec, models: models, chassis: c}
	c.pipeline.Reseed(t.seed("switch"))
	t.sw = newInjectorSwitch(c.pipeline, &t.engine, &t.pool, spec.Switch.Latency)
	for i := range spec.Hosts {
		if err := t.addHost(i); err != nil {
			return nil, fmt.Errorf("virtual testbed: %w", err)
		}
	}
	for _, d := range spec.Dumpers {
		t.sw.out = append(t.sw.out, nil)
		t.sw.mirrors = append(t.sw.mirrors, &mirrorPort{rate: d.Rate, limit: mirrorBuffer})
	}
	if err := t.createQPs(); err != nil {
		return nil, fmt.Errorf("virtual testbed: %w", err)
	}
	return t, nil
}

// seed derives the seed of one component, so that adding a component does not shift the others' random numbers.
func (t *Testbed) seed(component string) uint64 {
	return testbeds.ComponentSeed(t.spec.Seed, component)
}

func (t *Testbed) addHost(i int) error {
	spec := &t.spec.Hosts[i]
	if spec.MAC == nil {
		mac := testbeds.HostMAC(i)
		spec.MAC = &mac
	}
	cfg, err := spec.NICConfig(t.models, t.spec.Seed)
	if err != nil {
		return err
	}
	nic, err := rdma.NewNIC(cfg)
	if err != nil {
		return err
	}
	h := newHost(spec.Name, nic, &t.engine, &t.pool)
	h.up = newLink(&t.engine, spec.Rate, spec.Propagation, t.sw, uint16(i))
	h.settled = func(now clock.Time) { t.settle(now, i) }
	down := newLink(&t.engine, spec.Rate, spec.Propagation, h, 0)
	down.limit = t.spec.Switch.EgressBuffer
	t.hosts[i] = h
	t.sw.out = append(t.sw.out, down)
	t.sw.mirrors = append(t.sw.mirrors, nil)
	return nil
}

// createQPs creates and connects both ends of every connection, like the generators' metadata exchange.
func (t *Testbed) createQPs() error {
	for i := range t.spec.Connections {
		c := &t.spec.Connections[i]
		var pair [2]*rdma.QP
		for side := range pair {
			qp, err := t.hosts[side].nic.CreateQP(c.QPConfig(i, side))
			if err != nil {
				return fmt.Errorf("connection %d: %w", i+1, err)
			}
			pair[side] = qp
		}
		for side, qp := range pair {
			peer := pair[1-side]
			mac := *t.spec.Hosts[1-side].MAC
			if err := qp.Connect(rdma.Remote{IP: c.IPs[1-side], QPN: peer.QPN(), IPSN: peer.IPSN(), MAC: mac}); err != nil {
				return fmt.Errorf("connection %d: %w", i+1, err)
			}
		}
		t.qps = append(t.qps, pair)
	}
	return nil
}

// Close ends the switch's server, unless the next testbed uses it, and releases everything.
func (t *Testbed) Close() error {
	err := t.closeDumpers()
	if t.owned {
		err = errors.Join(t.chassis.close(), err)
	}
	return err
}

// Prepare returns the connections with the numbers drawn by the endpoints.
func (t *Testbed) Prepare(context.Context) ([]injector.Connection, error) {
	list := make([]injector.Connection, len(t.qps))
	for i, pair := range t.qps {
		end := func(side int) injector.Endpoint {
			return injector.Endpoint{IP: pair[side].LocalIP(), QPN: pair[side].QPN(), IPSN: pair[side].IPSN()}
		}
		list[i] = injector.Connection{Requester: end(testbeds.Requester), Responder: end(testbeds.Responder)}
	}
	return list, nil
}

// Injector returns the access to the embedded switch.
func (t *Testbed) Injector(context.Context) (testbeds.Access, error) {
	a := testbeds.Access{Conn: t.chassis.conn, DeviceID: deviceID, Target: target, Info: p4.Software()}
	if !t.owned {
		a.Conn = t.chassis.direct
	}
	for i, h := range t.spec.Hosts {
		a.Forwarding = append(a.Forwarding, testbeds.Port{Number: uint16(i), MAC: *h.MAC})
	}
	for i, d := range t.spec.Dumpers {
		a.Mirrors = append(a.Mirrors, testbeds.Mirror{Number: uint16(len(t.hosts) + i), Weight: d.Weight, Name: d.Name})
	}
	return a, nil
}

// StartDumpers makes every dumper ready to write its shards into dir, which exists.
func (t *Testbed) StartDumpers(ctx context.Context, dir string) error {
	return t.RecordTo(ctx, func(name string) (io.WriteCloser, error) { return os.Create(filepath.Join(dir, name)) })
}

// RecordTo is StartDumpers with shards from create; the testbed closes them.
func (t *Testbed) RecordTo(_ context.Context, create func(name string) (io.WriteCloser, error)) error {
	for i, d := range t.spec.Dumpers {
		cfg := dumper.Config{
			Name: d.Name, Cores: d.Cores, Create: create,
		}
		if d.PPSPerCore > 0 {
			cfg.Capacity = dumper.Capacity{
				PacketsPerSecond: int64(d.PPSPerCore) * int64(d.Cores), BufferBytes: int64(d.Buffer) * int64(d.Cores),
			}
		}
		h, err := dumper.NewHost(cfg)
		if err != nil {
			return err
		}
		t.dumpers = append(t.dumpers, h)
		t.sw.mirrors[len(t.hosts)+i].dumper = h
	}
	return nil
}

// StopDumpers closes the shards and reports the counts of mirror copies.
func (t *Testbed) StopDumpers(context.Context) (testbeds.Dump, error) {
	var dump testbeds.Dump
	for i, h := range t.dumpers {
		r := h.Report()
		for _, s := range r.Shards {
			dump.Shards = append(dump.Shards, s.File)
		}
		dump.Dumpers = append(dump.Dumpers, testbeds.DumperCounters{
			Name: r.Name, Received: uint64(r.Received), Written: uint64(r.Written), Dropped: uint64(r.Lost + r.Other),
			SwitchDropped: t.sw.mirrors[len(t.hosts)+i].dropped,
		})
	}
	dump.Discards = t.discards()
	return dump, t.closeDumpers()
}

// discards lists the host ports whose output queue dropped frames.
func (t *Testbed) discards() []testbeds.PortDiscards {
	var list []testbeds.PortDiscards
	for port, l := range t.sw.out {
		if l != nil && l.dropped > 0 {
			list = append(list, testbeds.PortDiscards{Port: uint16(port), Packets: l.dropped})
		}
	}
	return list
}

func (t *Testbed) closeDumpers() error {
	var errs []error
	for i, h := range t.dumpers {
		t.sw.mirrors[len(t.hosts)+i].dumper = nil
		errs = append(errs, h.Close())
	}
	t.dumpers = nil
	return errors.Join(errs...)
}

// Counters returns the NICs' counters.
func (t *Testbed) Counters(context.Context) ([]testbeds.HostCounters, error) {
	list := make([]testbeds.HostCounters, len(t.hosts))
	for i, h := range t.hosts {
		list[i] = testbeds.HostCounters{Host: h.name, Vendor: h.nic.Profile().Vendor}
		for _, c := range h.nic.ListCounters() {
			list[i].Values = append(list[i].Values, testbeds.Counter{Name: c.Name, Value: c.Value})
		}
	}
	return list, nil
}
