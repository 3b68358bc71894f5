package switchtest

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"strconv"

	"candela.dev/candela/clock"
	"candela.dev/candela/orchestrator"
	"candela.dev/candela/testbeds/virtual/fabric"
)

// captures are the pcap files of a run: frames that entered the switches under test, and frames that left them. With
// several switches a list beside each file gives the switch and port of every frame.
type captures struct {
	net   *fabric.Network
	files []io.WriteCloser
	taps  []*fabric.Capture
	ports []*bufio.Writer // empty for a single switch: addresses identify the port
	seen  []uint64        // packets that each tap should have written
	err   error           // of ports
}

// CaptureNames lists the captures that a run may write, relative to its directory, followed by their port lists.
func CaptureNames() []string {
	return []string{"taps/before.pcap", "taps/behind.pcap", "taps/before.ports.csv", "taps/behind.ports.csv"}
}

// stages returns the stages of the captures, in the order of CaptureNames.
func stages() []fabric.Stage { return []fabric.Stage{fabric.Ingress, fabric.Egress} }

const portsHead = "frame,switch,port\n"

// newCaptures creates taps/before.pcap and taps/behind.pcap.
func newCaptures(dir orchestrator.Directory, net *fabric.Network) (*captures, error) {
	if err := dir.Mkdir("taps"); err != nil {
		return nil, err
	}
	c := &captures{net: net, seen: make([]uint64, len(stages()))}
	for i := range stages() {
		if err := c.add(dir, i); err != nil {
			return nil, errors.Join(err, c.close())
		}
	}
	return c, nil
}

func (c *captures) add(dir orchestrator.Directory, i int) error {
	name, stage := CaptureNames()[i], stages()[i]
	file, err := dir.Create(name)
	if err != nil {
		return err
	}
	c.files = append(c.files, file)
	if c.net.Switches() > 1 {
		list, err := dir.Create(CaptureNames()[len(stages())+i])
		if err != nil {
			return err
		}
		c.files, c.ports = append(c.files, list), append(c.ports, bufio.NewWriter(list))
		_, c.err = c.ports[i].WriteString(portsHead)
	}
	capture := fabric.NewCapture(c.net, file, name, func(at fabric.Point, _ *fabric.Packet) bool {
		if at.Host || at.Stage != stage || at.Port >= c.net.Switch(at.Node).Ports() {
			return false
		}
		c.seen[i]++
		return true
	})
	c.taps = append(c.taps, capture)
	c.net.SetTap(func(at fabric.Point, now clock.Time, p *fabric.Packet) {
		before := c.seen[i]
		if capture.See(at, now, p); c.seen[i] > before && c.ports != nil {
			c.note(i, at)
		}
	})
	return nil
}

// note writes the switch and port of the latest frame of the i-th capture.
func (c *captures) note(i int, at fabric.Point) {
	if c.err != nil {
		return
	}
	line := strconv.AppendUint(c.ports[i].AvailableBuffer(), c.seen[i], 10)
	line = append(append(append(line, ','), c.net.Switch(at.Node).Name()...), ',')
	_, c.err = c.ports[i].Write(append(strconv.AppendInt(line, int64(at.Port), 10), '\n'))
}

func (c *captures) close() error {
	err := c.err
	for _, t := range c.taps {
		err = errors.Join(err, t.Close())
	}
	for _, w := range c.ports {
		err = errors.Join(err, w.Flush())
	}
	for _, f := range c.files {
		err = errors.Join(err, f.Close())
	}
	return err
}

// incomplete describes the missing packets of a capture, or returns "" if none are missing.
func (c *captures) incomplete() string {
	for i, t := range c.taps {
		if t.Packets() != c.seen[i] {
			return fmt.Sprintf("%s has %d of %d packets", CaptureNames()[i], t.Packets(), c.seen[i])
		}
	}
	return ""
}
