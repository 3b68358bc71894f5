package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"slices"
	"time"

	"candela.dev/candela/agent"
	"candela.dev/candela/injector"
	"candela.dev/candela/injector/p4"
	"candela.dev/candela/injector/transport"
	"candela.dev/candela/orchestrator"
	"candela.dev/candela/orchestrator/config"
	"candela.dev/candela/orchestrator/plan"
	"candela.dev/candela/testbeds"
	"candela.dev/candela/testbeds/bmv2"
	"candela.dev/candela/testbeds/lab"
	"candela.dev/candela/testbeds/netns"
	"candela.dev/candela/testbeds/remote"
	"candela.dev/candela/testbeds/virtual"
	"candela.dev/candela/testbeds/vm"
)

// livebeds are the live testbeds that this command made or found up.
type livebeds struct {
	made []*netns.Bed
	up   map[string]*netns.State // by name of the testbed
	vms  map[string]*vm.Guests   // by name of the testbed

	warned map[string]bool // of certificates that expire soon, by name of the testbed
}

// warn prints once a testbed which of the orchestrator's certificates expire soon.
func (l *livebeds) warn(w io.Writer, bed *config.Testbed) {
	if l.warned[bed.Name] {
		return
	}
	if l.warned == nil {
		l.warned = make(map[string]bool)
	}
	l.warned[bed.Name] = true
	for _, line := range expiring(bed, time.Now()) {
		fmt.Fprintln(w, line)
	}
}

// builder returns the builder of a described testbed. Network namespaces that are not up are made, and stay until
// close.
func (l *livebeds) builder(ctx context.Context, bed *config.Testbed) orchestrator.Builder {
	switch bed.Kind {
	case config.KindNetns:
		return func(spec testbeds.Spec) (orchestrator.Testbed, error) {
			state, err := l.state(ctx, bed)
			if err != nil {
				return nil, err
			}
			if state.Datapath == bmv2.Datapath {
				spec = bmv2.Paced(spec)
			}
			return built(state.Testbed(spec))
		}
	case config.KindVM:
		return func(spec testbeds.Spec) (orchestrator.Testbed, error) {
			guests, err := l.guests(ctx, bed)
			if err != nil {
				return nil, err
			}
			return built(guests.Testbed(spec))
		}
	case config.KindLab:
		cfg, err := labConfig(bed)
		return func(spec testbeds.Spec) (orchestrator.Testbed, error) {
			if err != nil {
				return nil, err
			}
			return built(lab.New(spec, cfg))
		}
	}
	return func(spec testbeds.Spec) (orchestrator.Testbed, error) { return virtual.New(spec) }
}

// built keeps a nil testbed a nil interface.
func built[T orchestrator.Testbed](bed T, err error) (orchestrator.Testbed, error) {
	if err != nil {
		return nil, err
	}
	return bed, nil
}

// state returns the testbed that is up, or makes one until this command ends.
func (l *livebeds) state(ctx context.Context, bed *config.Testbed) (*netns.State, error) {
	if s := l.up[bed.Name]; s != nil {
		if len(s.Dead()) == 0 || s.Owner == nil {
			return s, nil
		}
		if err := l.discard(bed.Name); err != nil { // a node has ended in an earlier run
			return nil, err
		}
	}
	if l.up == nil {
		l.up = make(map[string]*netns.State)
	}
	s, err := netns.Load("", bed.Name)
	switch {
	case err == nil && fits(s, bed):
		l.up[bed.Name] = s
		return s, nil
	case err == nil:
		return nil, fmt.Errorf("testbed %s is up, but its datapath or dumpers differ from the description; remove it with "+
			"candela testbed down %s", bed.Name, bed.Name)
	case !errors.Is(err, os.ErrNotExist):
		return nil, err
	}
	cfg := netnsConfig(bed)
	cfg.Name = fmt.Sprintf("%s-%d", bed.Name, os.Getpid())
	b, err := netns.Up(ctx, cfg)
	if err != nil {
		return nil, err
	}
	l.made, l.up[bed.Name] = append(l.made, b), &b.State
	return &b.State, nil
}

// discard removes a testbed that this command made.
func (l *livebeds) discard(name string) error {
	s := l.up[name]
	delete(l.up, name)
	i := slices.IndexFunc(l.made, func(b *netns.Bed) bool { return &b.State == s })
	if i < 0 {
		return nil
	}
	b := l.made[i]
	l.made = slices.Delete(l.made, i, i+1)
	return b.Close()
}

// fits reports whether a testbed that is up is the one that a description describes.
func fits(s *netns.State, bed *config.Testbed) bool {
	if s.Datapath != bed.Live.Datapath || len(s.Dumpers) != len(bed.Dumpers) {
		return false
	}
	for i, d := range bed.Dumpers {
		if s.Dumpers[i].Name != d.Name {
			return false
		}
	}
	return true
}

func netnsConfig(bed *config.Testbed) netns.Config {
	cfg := netns.Config{Name: bed.Name, Datapath: bed.Live.Datapath, CPU: bed.Live.CPU}
	for _, d := range bed.Dumpers {
		cfg.Dumpers = append(cfg.Dumpers, d.Name)
	}
	return cfg
}

func labConfig(bed *config.Testbed) (lab.Config, error) {
	station := func(name string, s *config.Station) lab.Station {
		x := lab.Station{Name: name, Agent: s.Agent, Interface: s.Interface, Port: uint16(s.Port)}
		if n := s.Neighbour; n != nil {
			x.Neighbour = &remote.Neighbour{System: n.System, Port: n.Port}
		}
		if v := s.RDMA; v != nil {
			x.RDMA = &agent.RDMA{Device: v.Name, Port: v.Port, GIDIndex: v.GIDIndex, Software: v.Software,
				OwnSettings: v.Settings == config.OwnSettings}
		}
		return x
	}
	l := bed.Live
	cfg := lab.Config{
		Hosts: [2]lab.Station{station("requester", l.Requester), station("responder", l.Responder)},
	}
	for i := range l.Dumpers {
		cfg.Dumpers = append(cfg.Dumpers, station(bed.Dumpers[i].Name, &l.Dumpers[i]))
	}
	if c := l.Certificates; c != nil {
		cfg.Cert, cfg.Key, cfg.CA, cfg.CRL = c.Cert, c.Key, c.CA, c.CRL
	}
	if bed.Injector == nil {
		cfg.Switch, cfg.DeviceID = l.Switch.Address, l.Switch.DeviceID
		return cfg, nil
	}
	cfg.Switch, cfg.DeviceID = bed.Injector.P4Runtime, bed.Injector.DeviceID
	foreign, err := foreignSwitch(bed.Injector)
	cfg.Foreign = foreign
	return cfg, err
}

// expiring lists the orchestrator's certificates and lists that expire soon. Unreadable files are reported at use.
func expiring(bed *config.Testbed, now time.Time) (lines []string) {
	add := func(c *config.Certificates) {
		if c == nil {
			return
		}
		list, err := (transport.Files{Cert: c.Cert, Key: c.Key, CA: c.CA, CRL: c.CRL}).Deadlines(now)
		if err != nil {
			return
		}
		for _, d := range list {
			lines = append(lines, fmt.Sprintf("warning: %v; run candela agent pki renew", d))
		}
	}
	if bed.Live != nil {
		add(bed.Live.Certificates)
	}
	if bed.Injector != nil {
		add(bed.Injector.TLS)
	}
	return lines
}

// fitsForeign refuses a test with events that the pipeline of a third-party switch lacks, by the P4Info that it is to
// be given.
func fitsForeign(p *plan.Plan) error {
	i := p.Test.Testbed.Injector
	if i == nil || i.Pipeline == nil {
		return nil
	}
	text, err := os.ReadFile(i.Pipeline.P4Info)
	if err != nil {
		return nil // which foreignSwitch reports, where a run needs the file
	}
	info, err := p4.Parse(text)
	if err != nil {
		return nil
	}
	if err := p.Fits(info); errors.Is(err, injector.ErrUnsupported) {
		return fmt.Errorf("%w\n  by %s, the P4Info of testbed %s", err, i.Pipeline.P4Info, p.Test.Testbed.Name)
	}
	return nil
}

// foreignSwitch reads the pipeline for a third-party switch.
func foreignSwitch(i *config.ExternalInjector) (*lab.Foreign, error) {
	f := &lab.Foreign{}
	if c := i.TLS; c != nil {
		f.Files = &transport.Files{Cert: c.Cert, Key: c.Key, CA: c.CA, CRL: c.CRL}
	}
	if i.Pipeline == nil {
		return f, nil
	}
	text, err := os.ReadFile(i.Pipeline.P4Info)
	if err != nil {
		return nil, fmt.Errorf("injector.pipeline.p4info: %w", err)
	}
	if f.Info, err = p4.Parse(text); err != nil {
		return nil, fmt.Errorf("injector.pipeline.p4info: %s: %w", i.Pipeline.P4Info, err)
	}
	if f.DeviceConfig, err = p4.ReadDeviceConfig(i.Pipeline.DeviceConfig); err != nil {
		return nil, fmt.Errorf("injector.pipeline.device-config: %w", err)
	}
	return f, nil
}

// close removes the testbeds that this command made.
func (l *livebeds) close() error {
	var failed []error
	for _, b := range l.made {
		failed = append(failed, b.Close())
	}
	for _, name := range slices.Sorted(maps.Keys(l.vms)) {
		failed = append(failed, l.vms[name].Close())
	}
	return errors.Join(failed...)
}
