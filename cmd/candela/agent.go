package main

import (
	"errors"
	"log/slog"
	"os"
	"path/filepath"
	"time"

	"github.com/spf13/cobra"

	"candela.dev/candela/agent"
	"candela.dev/candela/exporter"
	"candela.dev/candela/injector/transport"
)

// agentOptions are the flags of agent.
type agentOptions struct {
	listen     string
	group      string
	tls        transport.Files
	interfaces []string
	dir        string
	lease      time.Duration
	xdpPass    bool
	verbs      string
	metrics    string
}

func newAgent() *cobra.Command {
	var o agentOptions
	cmd := &cobra.Command{
		Use:   "agent",
		Short: "Serve this machine to runs as host, dumper or switch",
		Long: `Serve this machine's interfaces to an orchestrator. A run uses the machine as
traffic host, as dumper, or as switch under test between its interfaces. One run
at a time holds the machine. If its orchestrator does not answer for --lease,
the agent releases everything that the run holds.

The agent uses only the interfaces of --interface, accepts no path and no
command from the network, and keeps captures in --dir. It listens on a unix:
socket, for root, its own user and --group, or over TCP with mutual TLS (also on
loopback). It needs CAP_NET_ADMIN and CAP_NET_RAW; --xdp-pass also needs
CAP_BPF. RDMA devices of the interfaces are served by the program --verbs.`,
		Example: `  candela agent --interface eth1
  candela agent --interface eth1 --listen 10.1.0.2:9560 --cert agent.pem --key agent.key --ca lab.pem --crl lab.crl`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return serveAgent(cmd, &o) },
	}
	fl := cmd.Flags()
	fl.StringVar(&o.listen, "listen", localSocket("agent"),
		"address to serve on: unix:PATH, or HOST:PORT with certificates")
	fl.StringVar(&o.group, "group", "", "group whose members may use the unix: socket, in addition to root and this user")
	fl.StringVar(&o.tls.Cert, "cert", "", "PEM file with this agent's certificate chain")
	fl.StringVar(&o.tls.Key, "key", "", "PEM file with the certificate's key")
	fl.StringVar(&o.tls.CA, "ca", "", "PEM file with the lab's certificate authority")
	fl.StringVar(&o.tls.CRL, "crl", "", "PEM file with revoked certificates; changes take effect at once")
	fl.StringSliceVar(&o.interfaces, "interface", nil, "interfaces that runs may use")
	fl.StringVar(&o.dir, "dir", filepath.Join(os.TempDir(), "candela-agent"),
		"directory for captures; files of earlier runs are removed")
	fl.DurationVar(&o.lease, "lease", 30*time.Second,
		"how long a run holds the machine after its orchestrator stopped answering")
	fl.BoolVar(&o.xdpPass, "xdp-pass", false,
		"attach an XDP program to veth interfaces, which frames of an XDP switch need to pass")
	fl.StringVar(&o.verbs, "verbs", verbsProgram(),
		"program that serves RDMA devices; empty: none are served")
	fl.StringVar(&o.metrics, "metrics", "", "serve metrics for Prometheus on this address, such as :9562 (default none)")
	cmd.AddCommand(newPKI())
	return cmd
}

// verbsProgram is where the Debian package has candela-verbs.
func verbsProgram() string { return "/usr/lib/candela/candela-verbs" }

func serveAgent(cmd *cobra.Command, o *agentOptions) (err error) {
	files, err := tlsFiles(o.tls)
	switch {
	case err != nil:
		return err
	case len(o.interfaces) == 0:
		return errors.New("no interface: give --interface, such as --interface eth1")
	case o.lease <= 0:
		return errors.New("--lease: want more than 0")
	}
	log := slog.New(slog.NewTextHandler(cmd.ErrOrStderr(), nil))
	server, err := agent.Open(agent.Config{
		Interfaces: o.interfaces, Dir: o.dir, Version: toolVersion(), Lease: o.lease, XDPPass: o.xdpPass, Log: log,
		Switch: runSwitch, Host: openHost, Verbs: o.verbs,
	})
	if err != nil {
		return infrastructure(err)
	}
	defer func() {
		if closing := server.Close(); closing != nil {
			err = infrastructure(errors.Join(err, closing))
		}
	}()
	listener, options, err := transport.Listen(o.listen,
		transport.ServerConfig{Files: files, Policy: agent.Policy, Group: o.group, Log: log})
	if err != nil {
		return err
	}
	log.Info("serving", "address", listener.Addr().String(), "interfaces", o.interfaces, "tls", files != nil)
	if err := notifyReady(); err != nil {
		log.Warn("the service manager was not notified", "error", err)
	}
	registry := exporter.New(toolVersion(), "agent")
	options = append(options, newAgentMetrics(registry).options()...)
	stop, err := serveMetrics(cmd.Context(), o.metrics, registry)
	if err != nil {
		return errors.Join(err, listener.Close())
	}
	defer stop()
	if err := server.Serve(cmd.Context(), listener, options...); err != nil {
		return infrastructure(err)
	}
	log.Info("stopped")
	return nil
}
