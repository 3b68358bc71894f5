// Package netns makes a testbed out of one Linux machine: requester, responder, injector switch and dumpers, each a
// process in a network namespace of its own, joined by veth pairs. Control goes over unix sockets.
//
// The namespaces have no names. Each lives as long as its process: when that is gone, however it went, the kernel takes
// namespace, links and XDP programs along. So nothing can be left behind but a directory that says which processes
// there were; [Down] ends those, and [Up] clears what dead testbeds left.
package netns

import (
	"errors"
	"fmt"
	"log/slog"
	"path/filepath"
	"regexp"
	"slices"

	"candela.dev/candela/injector/transport"
)

// ErrUnsupported says that this operating system has no network namespaces.
var ErrUnsupported = errors.New("testbeds of network namespaces need Linux")

// StateDir is where testbeds keep sockets, logs and what processes they have.
const StateDir = "/run/candela"

// Config says what to make.
type Config struct {
	Name     string // of the testbed
	StateDir string // empty: the usual one
	// Executable is candela, which becomes agents and switch; empty: this program.
	Executable string
	Datapath   string // xdp, afpacket or bmv2
	CPU        int    // that handles the switch's packets under xdp
	Dumpers    []string
	// Detach lets the testbed outlive this process; otherwise it dies with it.
	Detach bool
	Log    *slog.Logger
}

var nameForm = regexp.MustCompile(`^[a-z0-9]([a-z0-9-]{0,62}[a-z0-9])?$`)

// Limits of the veth pairs, by datapath: a frame of an xdp port stands in one buffer.
const (
	mtuXDP      = 2304
	mtuAFPacket = 9000
	maxDumpers  = 12 // of the program's 16 ports, some remain
)

func (c *Config) check() error {
	if c.StateDir == "" {
		c.StateDir = StateDir
	}
	if c.Log == nil {
		c.Log = slog.New(slog.DiscardHandler)
	}
	switch {
	case !nameForm.MatchString(c.Name):
		return fmt.Errorf("name %q: want lower-case letters, digits and inner hyphens", c.Name)
	case !slices.Contains([]string{"xdp", "afpacket", "bmv2"}, c.Datapath):
		return fmt.Errorf("datapath %q is unknown; allowed are xdp, afpacket and bmv2", c.Datapath)
	case len(c.Dumpers) == 0 || len(c.Dumpers) > maxDumpers:
		return fmt.Errorf("%d dumpers; allowed are 1 to %d", len(c.Dumpers), maxDumpers)
	}
	for _, name := range append([]string{"responder"}, c.Dumpers...) {
		if err := transport.CheckSocketPath(filepath.Join(c.StateDir, c.Name, name+".sock")); err != nil {
			return err
		}
	}
	return nil
}

func (c *Config) mtu() int {
	if c.Datapath == "xdp" {
		return mtuXDP
	}
	return mtuAFPacket
}

// State describes a testbed that is up, or was.
type State struct {
	Name     string   `json:"name"`
	Datapath string   `json:"datapath"`
	MTU      int      `json:"mtu"`
	Switch   Node     `json:"switch"`
	Hosts    [2]Node  `json:"hosts"`
	Dumpers  []Node   `json:"dumpers"`
	Owner    *Process `json:"owner,omitempty"` // that the testbed dies with; none: it stays

	Dir string `json:"-"`
}

// Node is a process with its namespace.
type Node struct {
	Name      string  `json:"name"`
	Process   Process `json:"process"`
	Socket    string  `json:"socket"`
	Log       string  `json:"log"`
	Interface string  `json:"interface,omitempty"` // cabled to the switch
	Port      uint16  `json:"port"`                // of the switch

	child *starting // nil: another process has started it
}

// Process identifies a process also after its number was used again.
type Process struct {
	PID   int    `json:"pid"`
	Start uint64 `json:"start"` // clock ticks after boot
}

// Nodes lists all nodes, the switch first.
func (s *State) Nodes() []*Node {
	list := []*Node{&s.Switch, &s.Hosts[0], &s.Hosts[1]}
	for i := range s.Dumpers {
		list = append(list, &s.Dumpers[i])
	}
	return list
}
