// Package agent serves one machine of a testbed: it hosts endpoints and captures for an orchestrator, and cleans up by
// a lease when the orchestrator is gone. The API is candela.agent.v1; [Client] is its other side.
//
// An agent runs only built-in functions with typed arguments. It accepts no path and no command line, and writes below
// one directory.
package agent

import (
	"fmt"
	"log/slog"
	"regexp"
	"time"

	"candela.dev/candela/injector/transport"
	agentpb "candela.dev/candela/proto/agent/v1"
)

// Config describes an agent.
type Config struct {
	Interfaces []string // that runs may use
	// Dir is where captures are written, in a directory of the run; it is created if needed, and what earlier runs left
	// there is removed.
	Dir     string
	Version string // of the tool
	// Lease is how long what a run holds outlives its stream; 0 means 30 s.
	Lease time.Duration
	// Silence is how long a run's stream may be silent before it counts as gone; 0 means 15 s. Clients send every second.
	Silence time.Duration
	// Handover is how long a new run waits for the streams of the run that holds the machine to end; 0 means 2 s.
	Handover time.Duration
	// XDPPass attaches a program to each veth that passes frames, so that an XDP switch at the other end can send to it.
	XDPPass bool
	// Switch runs tests of switches between interfaces of the machine; nil: not supported.
	Switch SwitchRunner
	// Host runs hosts of tests that have UDP sockets of the machine; nil: not supported.
	Host HostRunner
	// Verbs is the program that serves RDMA devices, candela-verbs; empty: none.
	Verbs  string
	Limits Limits
	Log    *slog.Logger
}

// Limits bound what one run may request. Zero values are the defaults.
type Limits struct {
	Connections  int           // 4096
	Messages     int           // of all connections and both sides: 10 million
	CaptureBytes uint64        // 1 GiB
	Cores        int           // of a capture: 64
	Hold         time.Duration // longest time that one run may hold the machine: 1 h
}

const (
	defaultLease        = 30 * time.Second
	defaultSilence      = 15 * time.Second
	defaultHandover     = 2 * time.Second
	defaultConnections  = 4096
	defaultMessages     = 10_000_000
	defaultCaptureBytes = 1 << 30
	defaultCores        = 64
	defaultHold         = time.Hour
)

func orDefault[T comparable](v *T, def T) {
	var zero T
	if *v == zero {
		*v = def
	}
}

func (c *Config) setDefaults() {
	orDefault(&c.Lease, defaultLease)
	orDefault(&c.Silence, defaultSilence)
	orDefault(&c.Handover, defaultHandover)
	orDefault(&c.Limits.Connections, defaultConnections)
	orDefault(&c.Limits.Messages, defaultMessages)
	orDefault(&c.Limits.CaptureBytes, defaultCaptureBytes)
	orDefault(&c.Limits.Cores, defaultCores)
	orDefault(&c.Limits.Hold, defaultHold)
	orDefault(&c.Log, slog.New(slog.DiscardHandler))
}

var runForm = regexp.MustCompile(`^[a-z0-9-]{1,64}$`)

// nameForm is what a dumper may be called: its shards carry the name.
var nameForm = regexp.MustCompile(`^[a-z0-9]([a-z0-9-]{0,62}[a-z0-9])?$`)

func checkRun(id string) error {
	if !runForm.MatchString(id) {
		return fmt.Errorf("run id %q: want 1 to 64 of a-z, 0-9 and -", id)
	}
	return nil
}

// Policy says who may call an agent: viewers look, orchestrators do everything.
func Policy(method string) []transport.Role {
	if method == agentpb.Agent_Describe_FullMethodName {
		return []transport.Role{transport.Orchestrator, transport.Viewer}
	}
	return []transport.Role{transport.Orchestrator}
}
