// Package netns makes a testbed on one Linux machine. Requester, responder, injector switch and dumpers are processes
// in their own network namespaces, joined by veth pairs. Control uses unix sockets.
//
// The namespaces have no names. Each lives as long as its process: when the process ends, for any reason, the kernel
// removes namespace, links and XDP programs. Only a directory that lists the processes can remain. [Down] ends these
// processes, and [Up] clears the directories of dead testbeds.
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

// ErrUnsupported reports that this operating system has no network namespaces.
var ErrUnsupported = errors.New("testbeds of network namespaces need Linux")

// StateDir is the default directory for sockets, logs and the list of processes.
const StateDir = "/run/candela"

// Config describes the testbed to make.
type Config struct {
	Name     string // of the testbed
	StateDir string // empty: StateDir
	// Executable is candela, which runs as agents and switch; empty: this program.
	Executable string
	Datapath   string // xdp, afpacket or bmv2
	CPU        int    // that handles the switch's packets with xdp
	Dumpers    []string
	// Detach lets the testbed outlive this process; otherwise it ends with it.
	Detach bool
	Log    *slog.Logger
}

var nameForm = regexp.MustCompile(`^[a-z0-9]([a-z0-9-]{0,62}[a-z0-9])?$`)

// Limits of the veth pairs, by datapath: a frame of an xdp port fits in one buffer.
const (
	mtuXDP      = 2304
	mtuAFPacket = 9000
	maxDumpers  = 12 // the XDP program has 16 ports
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

// State describes a testbed that is or was up.
type State struct {
	Name     string   `json:"name"`
	Datapath string   `json:"datapath"`
	MTU      int      `json:"mtu"`
	Switch   Node     `json:"switch"`
	Hosts    [2]Node  `json:"hosts"`
	Dumpers  []Node   `json:"dumpers"`
	Owner    *Process `json:"owner,omitempty"` // the testbed ends with this process; nil: it is detached

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

	child *starting // nil: started by another process
}

// Process identifies a process even after its PID is reused.
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
