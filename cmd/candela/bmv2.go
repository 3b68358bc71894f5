package main

import (
	"errors"
	"log/slog"

	"github.com/spf13/cobra"

	"candela.dev/candela/injector/transport"
	"candela.dev/candela/testbeds/bmv2"
)

// serveBMv2 makes bmv2 the injector switch.
func serveBMv2(cmd *cobra.Command, o *switchdOptions) (err error) {
	files, err := tlsFiles(o.tls)
	switch {
	case err != nil:
		return err
	case len(o.ports) == 0:
		return errors.New("no interface: give --ports, such as --ports eth1,eth2")
	}
	listener, options, err := transport.Listen(o.listen, files, transport.SwitchPolicy)
	if err != nil {
		return err
	}
	log := slog.New(slog.NewTextHandler(cmd.ErrOrStderr(), nil))
	sw, err := bmv2.Open(cmd.Context(), bmv2.Config{Ports: o.ports, Mirrors: o.mirrors, DeviceID: o.device, Version: toolVersion(), Log: log})
	if err != nil {
		return infrastructure(errors.Join(err, listener.Close()))
	}
	defer func() {
		if closing := sw.Close(); closing != nil {
			err = infrastructure(errors.Join(err, closing))
		}
	}()
	log.Info("serving P4Runtime", "address", listener.Addr().String(), "device", o.device, "datapath", o.datapath,
		"ports", o.ports, "mirrors", o.mirrors, "tls", files != nil)
	if err := tellReady(); err != nil {
		log.Warn("not told that it serves", "error", err)
	}
	if err := sw.Serve(cmd.Context(), listener, options...); err != nil {
		return infrastructure(err)
	}
	log.Info("stopped")
	return nil
}
