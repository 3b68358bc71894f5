package main

import (
	"errors"
	"log/slog"

	"github.com/spf13/cobra"

	"candela.dev/candela/injector/pipeline"
	"candela.dev/candela/injector/switchd"
	"candela.dev/candela/injector/transport"
)

func newSwitchd() *cobra.Command {
	var listen string
	var tls transport.Files
	var device uint64
	var ports int
	var seed uint64
	cmd := &cobra.Command{
		Use:   "switchd",
		Short: "Serve the injector pipeline over P4Runtime",
		Long: `Serve the software injector over P4Runtime, for any controller that knows the injector's P4Info. It listens on loopback, or
with mutual TLS anywhere. The pipeline is the one of the virtual testbed; attaching it to network ports is for the live
testbeds, so this server answers controllers and forwards nothing.

It runs until it is interrupted.`,
		Example: `  candela switchd --listen 127.0.0.1:9559
  candela switchd --listen 10.1.0.1:9559 --cert switch.pem --key switch.key --ca lab.pem`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			files, err := tlsFiles(tls)
			if err != nil {
				return err
			}
			p, err := pipeline.New(pipeline.Config{Ports: ports, Seed: seed})
			if err != nil {
				return err
			}
			server, err := switchd.New(switchd.Config{DeviceID: device, Datapath: p})
			if err != nil {
				return err
			}
			listener, options, err := transport.Listen(listen, files)
			if err != nil {
				return err
			}
			log := slog.New(slog.NewTextHandler(cmd.ErrOrStderr(), nil))
			log.Info("serving P4Runtime", "address", listener.Addr().String(), "device", device, "ports", ports, "tls", files != nil)
			if err := server.Serve(cmd.Context(), listener, options...); err != nil {
				return infrastructure(err)
			}
			log.Info("stopped")
			return nil
		},
	}
	fl := cmd.Flags()
	fl.StringVar(&listen, "listen", "127.0.0.1:9559", "address to serve on")
	fl.StringVar(&tls.Cert, "cert", "", "PEM file with this server's certificate chain")
	fl.StringVar(&tls.Key, "key", "", "PEM file with the certificate's key")
	fl.StringVar(&tls.CA, "ca", "", "PEM file with the authorities of clients")
	fl.Uint64Var(&device, "device-id", 1, "P4Runtime device id")
	fl.IntVar(&ports, "ports", 8, "number of switch ports")
	fl.Uint64Var(&seed, "seed", 1, "seed of the mirror copies' UDP ports")
	return cmd
}

// tlsFiles returns nil if no file is given; some but not all is an error.
func tlsFiles(f transport.Files) (*transport.Files, error) {
	switch {
	case f == transport.Files{}:
		return nil, nil
	case f.Cert == "" || f.Key == "" || f.CA == "":
		return nil, errors.New("--cert, --key and --ca go together")
	}
	return &f, nil
}
