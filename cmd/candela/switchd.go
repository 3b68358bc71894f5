package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"google.golang.org/grpc"

	"candela.dev/candela/exporter"
	"candela.dev/candela/injector/softswitch"
	"candela.dev/candela/injector/transport"
	"candela.dev/candela/testbeds/bmv2"
)

// switchdOptions are the flags of switchd.
type switchdOptions struct {
	listen     string
	group      string
	tls        transport.Files
	device     uint64
	seed       uint64
	datapath   string
	ports      []string
	mirrors    []string
	lease      time.Duration
	cpu        int
	multiQueue bool
	metrics    string
}

func newSwitchd() *cobra.Command {
	var o switchdOptions
	cmd := &cobra.Command{
		Use:   "switchd",
		Short: "Make this machine an injector switch behind P4Runtime",
		Long: `Make this machine an injector switch: forward between network interfaces, inject
the events that a controller programs over P4Runtime, and mirror every RoCE
packet to the dumpers' interfaces. There are four datapaths:

  xdp       in the kernel, on receive; drop, ecn, corrupt and trim
  afpacket  in this process, on packet rings: slower, on any interface; delay,
            duplicate, reorder and rewrite, too
  qemu      as afpacket, between virtual machines and without privileges: a port
            is a path P, with the switch's socket P.port, the guest's P.nic and
            one frame per datagram (QEMU's -netdev dgram)
  bmv2      simple_switch_grpc from the PATH with the P4 program of injector/p4;
            slow (docs/guide/p4.md). It forwards nothing until a controller
            pushes the program, and has no lease

Ports are numbered in the order of --ports, then --mirror. Offloads of the
interfaces are off while switchd runs. It listens on a unix: socket, for root,
its own user and --group, or over TCP with mutual TLS (also on loopback).
Network interfaces need CAP_NET_ADMIN and CAP_NET_RAW; xdp also needs CAP_BPF
and CAP_PERFMON.

switchd runs until it is interrupted. If its controller does not answer for
--lease, it removes events and stops mirroring; forwarding continues.`,
		Example: `  candela switchd --datapath xdp --ports eth1,eth2 --mirror eth3,eth4
  candela switchd --datapath afpacket --ports eth1,eth2 --mirror eth3 \
    --listen 10.1.0.1:9559 --cert switch.pem --key switch.key --ca lab.pem
  candela switchd --datapath qemu --ports /tmp/a,/tmp/b --mirror /tmp/dumper-1 --listen unix:/run/candela/vm.sock`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return serveSwitch(cmd, &o) },
	}
	fl := cmd.Flags()
	fl.StringVar(&o.listen, "listen", localSocket("switchd"),
		"address to serve on: unix:PATH, or HOST:PORT with certificates")
	fl.StringVar(&o.group, "group", "", "group whose members may use the unix: socket, in addition to root and this user")
	fl.StringVar(&o.tls.Cert, "cert", "", "PEM file with this server's certificate chain")
	fl.StringVar(&o.tls.Key, "key", "", "PEM file with the certificate's key")
	fl.StringVar(&o.tls.CA, "ca", "", "PEM file with the certificate authorities of clients")
	fl.StringVar(&o.tls.CRL, "crl", "", "PEM file with revoked certificates; changes take effect at once")
	fl.Uint64Var(&o.device, "device-id", 1, "P4Runtime device id")
	fl.Uint64Var(&o.seed, "seed", 1, "seed of the mirror copies' UDP ports")
	fl.StringVar(&o.datapath, "datapath", softswitch.XDP, "datapath: xdp, afpacket, qemu or bmv2")
	fl.StringSliceVar(&o.ports, "ports", nil, "interfaces to the hosts; qemu: paths of sockets")
	fl.StringSliceVar(&o.mirrors, "mirror", nil, "interfaces to the dumpers; qemu: paths of sockets")
	fl.DurationVar(&o.lease, "lease", 30*time.Second,
		"how long events and mirroring stay after the controller stopped answering; 0: forever")
	fl.IntVar(&o.cpu, "cpu", 0, "xdp: CPU that handles the packets of all ports")
	fl.StringVar(&o.metrics, "metrics", "", "serve metrics for Prometheus on this address, such as :9563 (default none)")
	fl.BoolVar(&o.multiQueue, "multi-queue", false,
		"xdp: allow several receive queues; timestamps of different ports may then disagree")
	return cmd
}

// injectorSwitch is what switchd serves.
type injectorSwitch interface {
	Serve(ctx context.Context, lis net.Listener, opts ...grpc.ServerOption) error
	Close() error
}

func serveSwitch(cmd *cobra.Command, o *switchdOptions) (err error) {
	files, err := tlsFiles(o.tls)
	datapaths := append(softswitch.Datapaths(), bmv2.Datapath)
	switch {
	case err != nil:
		return err
	case !slices.Contains(datapaths, o.datapath):
		return fmt.Errorf("--datapath %q: want one of %s", o.datapath, strings.Join(datapaths, ", "))
	case len(o.ports) == 0:
		return errors.New("no interface: give --ports, such as --ports eth1,eth2")
	}
	log := slog.New(slog.NewTextHandler(cmd.ErrOrStderr(), nil))
	listener, options, err := transport.Listen(o.listen,
		transport.ServerConfig{Files: files, Policy: transport.SwitchPolicy, Group: o.group, Log: log})
	if err != nil {
		return err
	}
	sw, err := openSwitch(cmd.Context(), o, log)
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
	if err := notifyReady(); err != nil {
		log.Warn("the service manager was not notified", "error", err)
	}
	registry := exporter.New(toolVersion(), "switchd")
	registry.MustRegister(&switchMetrics{sw}, &exporter.RDMA{})
	stop, err := serveMetrics(cmd.Context(), o.metrics, registry)
	if err != nil {
		return errors.Join(err, listener.Close())
	}
	defer stop()
	if err := sw.Serve(cmd.Context(), listener, options...); err != nil {
		return infrastructure(err)
	}
	log.Info("stopped")
	return nil
}

func openSwitch(ctx context.Context, o *switchdOptions, log *slog.Logger) (injectorSwitch, error) {
	if o.datapath == bmv2.Datapath {
		return bmv2.Open(ctx, bmv2.Config{Ports: o.ports, Mirrors: o.mirrors, DeviceID: o.device, Version: toolVersion(),
			Log: log})
	}
	return softswitch.Open(softswitch.Config{
		Datapath: o.datapath, Ports: o.ports, Mirrors: o.mirrors, DeviceID: o.device, Seed: o.seed, Lease: o.lease,
		CPU:        o.cpu,
		MultiQueue: o.multiQueue, Version: toolVersion(), Log: log,
	})
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
