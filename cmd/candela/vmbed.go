package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	"candela.dev/candela/orchestrator/config"
	"candela.dev/candela/orchestrator/conformance"
	"candela.dev/candela/testbeds/vm"
)

func vmConfig(bed *config.Testbed) vm.Config {
	cfg := vm.Config{Name: bed.Name}
	for _, d := range bed.Dumpers {
		cfg.Dumpers = append(cfg.Dumpers, d.Name)
	}
	if v := bed.VM; v != nil {
		cfg.Image, cfg.Memory = v.Image, v.Memory
		cfg.Models = [2]bool{v.ModelOn(config.Requester), v.ModelOn(config.Responder)}
	}
	return cfg
}

// guests returns the virtual machines of a testbed: those that are up, or this command's own, booted once, and again
// after one has ended.
func (l *livebeds) guests(ctx context.Context, bed *config.Testbed) (*vm.Guests, error) {
	cfg := vmConfig(bed)
	if have := l.vms[bed.Name]; have != nil {
		if len(have.Dead()) == 0 || have.Attached() {
			return have, nil // not ours to boot again: the test reports what has ended
		}
		if err := have.Close(); err != nil {
			return nil, err
		}
		delete(l.vms, bed.Name)
	}
	got, err := vm.Attach(ctx, cfg)
	if errors.Is(err, vm.ErrDown) {
		got, err = vm.Up(ctx, cfg)
	}
	if err != nil {
		return nil, err
	}
	if l.vms == nil {
		l.vms = make(map[string]*vm.Guests)
	}
	l.vms[bed.Name] = got
	return got, nil
}

// vmUp makes a testbed of virtual machines that stays.
func vmUp(ctx context.Context, w io.Writer, bed *config.Testbed) error {
	cfg := vmConfig(bed)
	cfg.Detach = true
	begin := time.Now()
	guests, err := vm.Up(ctx, cfg)
	if err != nil {
		return infrastructure(err)
	}
	how := "booted"
	if guests.Restored() {
		how = "restored from a snapshot"
	}
	fmt.Fprintf(w, "%s is up: Linux %s, %s in %.1f s, %d dumpers; consoles and logs in %s\n", bed.Name, guests.Kernel(),
		how,
		time.Since(begin).Seconds(), len(bed.Dumpers), guests.Dir())
	return infrastructureIf(guests.Close())
}

// device describes the NIC of the guests for conformance.
func (l *livebeds) device(ctx context.Context, bed *config.Testbed) (*conformance.Device, error) {
	guests, err := l.guests(ctx, bed)
	if err != nil {
		return nil, err
	}
	return &conformance.Device{
		Name: "soft-RoCE (rdma_rxe) of Linux " + guests.Kernel(), Emulated: true, AckTimeout: softRoCETimeout,
		Lacks: softRoCELacks,
	}, nil
}
