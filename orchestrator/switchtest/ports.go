package switchtest

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"

	"candela.dev/candela/testbeds/virtual/fabric"
)

// edges maps each frame of a capture of several switches to the host at the port of the frame.
type edges struct {
	name  string
	hosts map[string]map[int]fabric.HostID // by switch and port
	lines *bufio.Scanner
	frame int64
}

// maxPortLine bounds the length of a line in a port list: two numbers and a switch name.
const maxPortLine = 256

// newEdges reads the port list of a capture; name is used in errors.
func newEdges(net *fabric.Network, list io.Reader, name string) (*edges, error) {
	e := &edges{name: name, hosts: make(map[string]map[int]fabric.HostID), lines: bufio.NewScanner(list)}
	e.lines.Buffer(make([]byte, maxPortLine), maxPortLine)
	for i := range net.Switches() {
		sw := net.Switch(i)
		ports := make(map[int]fabric.HostID)
		for p := range sw.Ports() {
			if host, ok := sw.Port(p).HostAt(); ok {
				ports[p] = host
			}
		}
		e.hosts[sw.Name()] = ports
	}
	if !e.lines.Scan() || e.lines.Text()+"\n" != portsHead {
		return nil, fmt.Errorf("%s: does not begin with %q", name, strings.TrimSpace(portsHead))
	}
	return e, nil
}

// next returns the host at the port of the next frame; ok is false for a port between switches.
func (e *edges) next() (host fabric.HostID, ok bool, err error) {
	if !e.lines.Scan() {
		if err := e.lines.Err(); err != nil {
			return 0, false, fmt.Errorf("%s: %w", e.name, err)
		}
		return 0, false, fmt.Errorf("%s: ends after %d frames, its capture goes on", e.name, e.frame)
	}
	e.frame++
	number, rest, _ := strings.Cut(e.lines.Text(), ",")
	sw, port, _ := strings.Cut(rest, ",")
	n, err1 := strconv.ParseInt(number, 10, 64)
	p, err2 := strconv.Atoi(port)
	if err := errors.Join(err1, err2); err != nil || n != e.frame {
		return 0, false, fmt.Errorf("%s: line %d: want frame %d, a switch and a port, got %q", e.name, e.frame+1, e.frame,
			e.lines.Text())
	}
	ports, ok := e.hosts[sw]
	if !ok {
		return 0, false, fmt.Errorf("%s: line %d: the topology has no switch %q", e.name, e.frame+1, sw)
	}
	host, ok = ports[p]
	return host, ok, nil
}
